//! Row O9: a webhook for what the programs write in one namespace accepts connections and never answers. The other namespaces go on.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::json;
use tokio::time::timeout;

use crate::objects::{NAMESPACE, make_node, podgroups_in};
use crate::programs::LONG_REQUESTS;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::owner::{Owner, group_name, groups_made, wait_min_member};
use crate::world::World;

/// The namespace without a webhook.
const OTHER: &str = "other";

/// A webhook for one kind of request in [`NAMESPACE`].
struct Webhook {
    api: Api<ValidatingWebhookConfiguration>,
    /// The kernel accepts, and no process reads.
    silent: TcpListener,
}

impl Webhook {
    /// Creates the webhook for this operation on a resource of an API group and version.
    async fn create(client: &Client, operation: &str, (group, version): (&str, &str), resource: &str) -> Result<Self> {
        let silent = TcpListener::bind("127.0.0.1:0")?;
        silent.set_nonblocking(true)?;
        let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let hook = serde_json::from_value(json!({
            "metadata": {"name": "hangs"},
            "webhooks": [{
                "name": "hangs.example.com",
                "clientConfig": {"url": format!("https://{}/", silent.local_addr()?)},
                "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                // The longest that the API server accepts.
                "timeoutSeconds": 30,
            }],
        }))?;
        api.create(&PostParams::default(), &hook).await?;
        Ok(Self { api, silent })
    }

    /// Waits until the API server calls the webhook for a request.
    async fn wait_in_force<T, F>(&self, request: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = kube::Result<T>>,
    {
        wait_until(secs(10), "the webhook is in force", || async {
            // There is no answer once the webhook is in force.
            let _answer = timeout(millis(500), request()).await;
            Ok(Seen::when(self.silent.accept().is_ok(), || "it is not called".to_owned()))
        })
        .await
    }

    /// Deletes the webhook, and ends the calls that hang.
    async fn delete(self) -> Result<()> {
        self.api.delete("hangs", &DeleteParams::default()).await?;
        drop(self.silent);
        Ok(())
    }
}

/// The parameters of a request that changes nothing.
fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// How many ReplicaSets need a PodGroup in the namespace with the webhook: more than the controller has workers.
const BLOCKED_OWNERS: usize = 20;

/// O9. A webhook for PodGroups. Its requests take half a minute, so no worker that waits for one of them is free again before the end. A
/// ReplicaSet of another namespace has its PodGroup within seconds, and when the webhook is removed, those of the namespace are there, too.
pub(super) async fn for_podgroups(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "64Gi")]).await?;
    Owner::namespace(OTHER).make(&client).await?;
    // A worker is busy as long as its request.
    w.controller()?.restart_with(&LONG_REQUESTS).await?;
    let hook = Webhook::create(&client, "CREATE", ("scheduling.volcano.sh", "v1beta1"), "podgroups").await?;
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "probe"}, "spec": {"minMember": 1},
    }))?;
    let (groups, parameters) = (podgroups_in(&client, NAMESPACE), dry_run());
    hook.wait_in_force(|| groups.create(&parameters, &group)).await?;
    w.watched()?.excuse(&[1]);
    let mut blocked = Vec::new();
    for number in 0..BLOCKED_OWNERS {
        blocked.push(Owner::replica_set(&format!("blocked-{number}")).replicas(1).make(&client).await?);
    }
    // Every worker that the namespace can have is busy with it.
    tokio::time::sleep(secs(1)).await;
    for round in 0..4 {
        let name = format!("free-{round}");
        let free = Owner::replica_set(&name).replicas(1).make_in(&client, OTHER).await?;
        wait_until(secs(10), &format!("{name} has its PodGroup"), || async {
            let there = podgroups_in(&client, OTHER).get_opt(&group_name(&free)).await?;
            Ok(Seen::when(there.is_some(), || "it has none".to_owned()))
        })
        .await?;
        tokio::time::sleep(secs(1)).await;
    }
    ensure!(groups_made(&client).await?.is_empty(), "a PodGroup came past the webhook");
    hook.delete().await?;
    for owner in &blocked {
        wait_min_member(&client, owner, 1, 90).await?;
    }
    w.watched()?.insist(&[1]);
    Ok(())
}
