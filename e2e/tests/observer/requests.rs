//! The requests that correct and wrong programs make. The programs under test are not running here.

use std::path::PathBuf;

use anyhow::{Context, Result};
use e2e::wait::{Seen, secs, wait_until};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, Error, ResourceExt};
use serde_json::{Value, json};

/// The users of the two programs, as the observer knows them.
pub(crate) const CONTROLLER: &str = "system:serviceaccount:podgroup-system:podgroup-controller";
pub(crate) const SCHEDULER: &str = "system:serviceaccount:podgroup-system:podgroup-scheduler";

/// The properties of a PodGroup to create.
#[derive(Clone, Copy)]
pub(crate) struct GroupOptions<'a> {
    pub(crate) queue: &'a str,
    pub(crate) min_member: i64,
    pub(crate) managed: bool,
    pub(crate) finalizer: bool,
    /// The owner: apiVersion, kind, name and UID.
    pub(crate) owner: Option<(&'a str, &'a str, &'a str, &'a str)>,
}

impl Default for GroupOptions<'_> {
    fn default() -> Self {
        Self { queue: "default", min_member: 1, managed: false, finalizer: false, owner: None }
    }
}

pub(crate) struct Requests {
    pub(crate) admin: Client,
    pub(crate) kubeconfig: PathBuf,
}

fn volcano(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", kind), plural)
}

fn groups(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &volcano("PodGroup", "podgroups"))
}

/// Treats "already exists" as success.
fn made<T>(result: Result<T, Error>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Requests {
    /// Returns a client that impersonates a user.
    async fn as_user(&self, user: &str) -> Result<Client> {
        let mut config = Config::from_custom_kubeconfig(Kubeconfig::read_from(&self.kubeconfig)?, &KubeConfigOptions::default()).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(Client::try_from(config)?)
    }

    /// Gives a user all rights.
    pub(crate) async fn allow(&self, user: &str) -> Result<()> {
        let name = format!("ob-{}", user.replace(':', "-"));
        let binding: ClusterRoleBinding = serde_json::from_value(
            json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}}),
        )?;
        made(Api::all(self.admin.clone()).create(&PostParams::default(), &binding).await)?;
        // The authorizer learns of the binding from its own watch, some time later.
        let client = self.as_user(user).await?;
        wait_until(secs(10), "the user may act", || async {
            groups(client.clone(), "default").list(&ListParams::default()).await?;
            Ok(Seen::Yes(()))
        })
        .await
    }

    pub(crate) async fn node(&self, name: &str, cpu: &str) -> Result<()> {
        e2e::objects::make_node(&self.admin, name, &[("cpu", cpu), ("memory", "100Gi"), ("pods", "1000")]).await.map(drop)
    }

    pub(crate) async fn allocatable(&self, node: &str, cpu: &str) -> Result<()> {
        let patch = json!({"status": {"allocatable": {"cpu": cpu}}});
        Api::<Node>::all(self.admin.clone()).patch_status(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Creates a queue. An empty `cpu` means no capability.
    pub(crate) async fn queue(&self, name: &str, parent: &str, cpu: &str) -> Result<()> {
        let capability = if cpu.is_empty() { json!({}) } else { json!({"cpu": cpu}) };
        let spec = json!({"parent": parent, "capability": capability});
        let queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec});
        let queue: DynamicObject = serde_json::from_value(queue)?;
        made(Api::all_with(self.admin.clone(), &volcano("Queue", "queues")).create(&PostParams::default(), &queue).await)
    }

    /// Writes a queue's `status.allocated`, given as JSON.
    pub(crate) async fn allocated(&self, queue: &str, allocated: &str) -> Result<()> {
        let allocated: Value = serde_json::from_str(allocated)?;
        let api: Api<DynamicObject> = Api::all_with(self.admin.clone(), &volcano("Queue", "queues"));
        // Null first: a merge patch would keep the dimensions that are not named.
        for value in [Value::Null, allocated] {
            api.patch_status(queue, &PatchParams::default(), &Patch::Merge(json!({"status": {"allocated": value}}))).await?;
        }
        Ok(())
    }

    pub(crate) async fn group(&self, namespace: &str, name: &str, options: GroupOptions<'_>) -> Result<()> {
        self.namespace(namespace).await?;
        let mut group: DynamicObject = serde_json::from_value(
            json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": options.min_member, "queue": options.queue}}),
        )?;
        if options.managed {
            group.labels_mut().insert("podgroup.dev/managed-by".to_owned(), "podgroup-controller".to_owned());
        }
        if options.finalizer {
            group.finalizers_mut().push("podgroup.dev/test".to_owned());
        }
        if let Some((version, kind, name, uid)) = options.owner {
            let owner = json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
            group.metadata.owner_references = serde_json::from_value(owner)?;
        }
        made(groups(self.admin.clone(), namespace).create(&PostParams::default(), &group).await)
    }

    /// Creates a pod of a scheduler and returns its UID. An empty `group` means no group annotation.
    pub(crate) async fn pod(&self, namespace: &str, name: &str, scheduler: &str, group: &str, cpu: &str) -> Result<String> {
        self.make_pod(namespace, name, scheduler, group, cpu, json!({})).await
    }

    /// Creates a pod that is already bound to a node.
    pub(crate) async fn static_pod(&self, namespace: &str, name: &str, scheduler: &str, cpu: &str, node: &str) -> Result<()> {
        self.make_pod(namespace, name, scheduler, "", cpu, json!({ "nodeName": node })).await.map(drop)
    }

    /// Creates a pod with these further fields of its spec, and the label `app: web`.
    async fn make_pod(&self, namespace: &str, name: &str, scheduler: &str, group: &str, cpu: &str, more: Value) -> Result<String> {
        self.namespace(namespace).await?;
        let mut spec = json!({"schedulerName": scheduler,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]});
        spec.as_object_mut().context("an object")?.extend(more.as_object().cloned().unwrap_or_default());
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}))?;
        if !group.is_empty() {
            pod.annotations_mut().insert("scheduling.k8s.io/group-name".to_owned(), group.to_owned());
        }
        let api: Api<Pod> = Api::namespaced(self.admin.clone(), namespace);
        // A new namespace gets its service account some time after its creation.
        let made = wait_until(secs(60), "the pod can be made", || async { Ok(Seen::Yes(api.create(&PostParams::default(), &pod).await?)) })
            .await?;
        made.uid().context("a pod has a UID")
    }

    /// Creates a pod and binds it with a Binding, as a scheduler does.
    pub(crate) async fn bound_pod(&self, namespace: &str, name: &str, scheduler: &str, group: &str, cpu: &str, node: &str) -> Result<()> {
        self.pod(namespace, name, scheduler, group, cpu).await?;
        self.bind(namespace, name, node).await
    }

    /// Creates a pod with these further fields of its spec and binds it.
    pub(crate) async fn constrained_pod(&self, namespace: &str, name: &str, scheduler: &str, more: Value, node: &str) -> Result<()> {
        self.make_pod(namespace, name, scheduler, "g", "1m", more).await?;
        self.bind(namespace, name, node).await
    }

    /// Creates claim `data`. With `affinity` also its volume, with that node affinity; then waits until they are bound.
    pub(crate) async fn claim(&self, namespace: &str, affinity: Option<Value>) -> Result<()> {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}, "volumeName": namespace});
        let claim = serde_json::from_value(json!({"metadata": {"name": "data"}, "spec": spec}))?;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.admin.clone(), namespace);
        claims.create(&PostParams::default(), &claim).await?;
        let Some(affinity) = affinity else { return Ok(()) };
        let source = json!({"server": "nfs.example.com", "path": "/"});
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": source, "nodeAffinity": affinity});
        let volume = serde_json::from_value(json!({"metadata": {"name": namespace}, "spec": spec}))?;
        Api::<PersistentVolume>::all(self.admin.clone()).create(&PostParams::default(), &volume).await?;
        wait_until(secs(30), "the claim is bound", || async {
            let phase = claims.get("data").await?.status.and_then(|status| status.phase);
            Ok(Seen::when(phase.as_deref() == Some("Bound"), || format!("{phase:?}")))
        })
        .await
    }

    async fn bind(&self, namespace: &str, name: &str, node: &str) -> Result<()> {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let api: Api<Pod> = Api::namespaced(self.admin.clone(), namespace);
        let _: Value = api.create_subresource("binding", name, &PostParams::default(), &binding).await?;
        Ok(())
    }

    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str) -> Result<()> {
        Api::<Pod>::namespaced(self.admin.clone(), namespace).delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// Creates a ReplicaSet with 0 replicas and returns its UID.
    pub(crate) async fn replica_set(&self, namespace: &str, name: &str) -> Result<String> {
        self.namespace(namespace).await?;
        let set: ReplicaSet =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}}}))?;
        let made = Api::namespaced(self.admin.clone(), namespace).create(&PostParams::default(), &set).await?;
        made.uid().context("a ReplicaSet has a UID")
    }

    pub(crate) async fn deployment(&self, namespace: &str, name: &str, scheduler: &str, cpu: &str) -> Result<()> {
        self.namespace(namespace).await?;
        let all: Deployment =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}}}}))?;
        made(Api::namespaced(self.admin.clone(), namespace).create(&PostParams::default(), &all).await)
    }

    pub(crate) async fn scale(&self, namespace: &str, name: &str, replicas: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        Api::<Deployment>::namespaced(self.admin.clone(), namespace).patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes a PodGroup as a user, with the given preconditions.
    pub(crate) async fn delete_group(&self, user: Option<&str>, namespace: &str, name: &str, uid: bool, version: bool) -> Result<()> {
        let client = match user {
            Some(user) => self.as_user(user).await?,
            None => self.admin.clone(),
        };
        let now = groups(self.admin.clone(), namespace).get(name).await?;
        let guards = Preconditions { uid: now.uid().filter(|_| uid), resource_version: now.resource_version().filter(|_| version) };
        let guards = (uid || version).then_some(guards);
        groups(client, namespace).delete(name, &DeleteParams { preconditions: guards, ..DeleteParams::default() }).await?;
        Ok(())
    }

    pub(crate) async fn delete_all_groups(&self, user: &str, namespace: &str) -> Result<()> {
        groups(self.as_user(user).await?, namespace).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn get_group(&self, user: &str, namespace: &str, name: &str) -> Result<DynamicObject, Error> {
        let client = match self.as_user(user).await {
            Ok(client) => client,
            Err(error) => return Err(Error::Service(error.into())),
        };
        groups(client, namespace).get(name).await
    }

    async fn namespace(&self, name: &str) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.admin.clone());
        if api.get_opt(name).await?.is_some() {
            return Ok(());
        }
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        made(api.create(&PostParams::default(), &namespace).await)
    }
}
