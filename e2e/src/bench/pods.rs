//! What is to be bound, and when was it? Pods in the namespace of the cases, which no kubelet is played for: from their creation to their binding is what is measured, and what
//! a node makes of them would only cost the same two cores. The pods that run already are in a namespace of their own.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::stage::Stage;
use crate::load::calls::{Call, Log};
use crate::load::look::{until_all_run, until_count};
use crate::load::stage::{AT_ONCE, each};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, podgroups, podgroups_in};
use crate::wait::{millis, secs};
use crate::workloads::kinds::PLAYED_BY_THE_CASE;

/// Members of each gang.
pub const GANG: usize = 10;

/// The namespace of the pods that run already.
const RUNNING: &str = "running";

/// Whose pods they are, and what belongs to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours, in gangs whose PodGroups exist.
    Gangs,
    /// Ours, each with a PodGroup of its own, which exists.
    Single,
    /// Ours, without anything: the controller makes the PodGroup.
    Bare,
    /// kube-scheduler's.
    Stock,
    /// Nobody's.
    Flood,
}

impl Kind {
    /// As it stands in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gangs => "podgroup-scheduler, gangs of 10",
            Self::Single => "podgroup-scheduler, single pods whose PodGroup exists",
            Self::Bare => "podgroup-scheduler and -controller, bare pods",
            Self::Stock => "kube-scheduler",
            Self::Flood => "raw binding flood",
        }
    }

    const fn scheduler(self) -> &'static str {
        match self {
            Self::Gangs | Self::Single | Self::Bare => SCHEDULER_NAME,
            Self::Stock => "default-scheduler",
            Self::Flood => "nobody",
        }
    }

    /// How many of its pods share a PodGroup; none where there is none before them.
    const fn gang(self) -> Option<usize> {
        match self {
            Self::Gangs => Some(GANG),
            Self::Single => Some(1),
            Self::Bare | Self::Stock | Self::Flood => None,
        }
    }
}

fn pod(kind: Kind, number: usize) -> Result<Pod> {
    let mut annotations = json!({PLAYED_BY_THE_CASE: "custom"});
    if let (Some(gang), Some(annotations)) = (kind.gang(), annotations.as_object_mut()) {
        annotations.insert("scheduling.k8s.io/group-name".to_owned(), json!(group_name(number / gang)));
    }
    let containers = [container(&[("cpu", "100m"), ("memory", "128Mi")])];
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name(number), "labels": {"app": "bench"}, "annotations": annotations},
        "spec": {"schedulerName": kind.scheduler(), "terminationGracePeriodSeconds": 0, "containers": containers},
    }))?)
}

/// The name of the pod of this number.
pub fn name(number: usize) -> String {
    format!("bench-{number:06}")
}

fn group_name(number: usize) -> String {
    format!("gang-{number:06}")
}

fn group(number: usize, members: usize) -> Result<kube::api::DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": group_name(number)}, "spec": {"minMember": members},
    }))?)
}

/// Makes the PodGroups of `count` pods, where they are to be there first.
pub async fn make_groups(stage: &Stage, kind: Kind, count: usize) -> Result<()> {
    let Some(gang) = kind.gang() else { return Ok(()) };
    let groups = podgroups(&stage.client());
    each(count.div_ceil(gang), AT_ONCE, |number| {
        let groups = &groups;
        async move {
            groups.create(&PostParams::default(), &group(number, gang)?).await?;
            Ok(())
        }
    })
    .await
}

/// Makes one pod.
pub async fn make(pods: &Api<Pod>, kind: Kind, number: usize) -> Result<()> {
    pods.create(&PostParams::default(), &pod(kind, number)?).await?;
    Ok(())
}

/// Makes `count` pods at once.
pub async fn make_all(stage: &Stage, kind: Kind, count: usize) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stage.client(), NAMESPACE);
    each(count, AT_ONCE, |number| make(&pods, kind, number)).await?;
    until_count(&pods, count, "the pods are there").await
}

/// Takes all pods and PodGroups away, but for those that run already.
pub async fn clear(stage: &Stage) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stage.client(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    until_count(&pods, 0, "the pods are gone").await?;
    let groups = podgroups(&stage.client());
    groups.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until_count(&groups, 0, "the PodGroups are gone").await
}

/// Makes `count` pods of ours that run, in gangs, on all nodes in turn.
pub async fn run_many(stage: &Stage, count: usize) -> Result<()> {
    let client = stage.client();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": RUNNING}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let (groups, pods) = (podgroups_in(&client, RUNNING), Api::<Pod>::namespaced(client.clone(), RUNNING));
    let nodes = crate::load::look::count(&Api::<k8s_openapi::api::core::v1::Node>::all(client.clone())).await?;
    each(count.div_ceil(GANG), AT_ONCE, |number| {
        let groups = &groups;
        async move {
            groups.create(&PostParams::default(), &group(number, GANG)?).await?;
            Ok(())
        }
    })
    .await?;
    each(count, AT_ONCE, |number| {
        let pods = &pods;
        async move {
            let mut pod = pod(Kind::Gangs, number)?;
            pod.metadata.annotations.iter_mut().for_each(|all| drop(all.remove(PLAYED_BY_THE_CASE)));
            pod.spec.iter_mut().for_each(|spec| spec.node_name = Some(format!("node-{:04}", number % nodes)));
            pods.create(&PostParams::default(), &pod).await?;
            Ok(())
        }
    })
    .await?;
    until_all_run(&pods, count).await
}

/// Whether the call bound a pod.
pub fn binds(call: &Call) -> bool {
    call.kind() == "create pods/binding" && call.code == 201
}

/// All calls until so many pods were bound.
pub async fn until_bound(log: &mut Log, count: usize) -> Result<Vec<Call>> {
    let (start, mut calls, mut bound) = (Instant::now(), Vec::new(), 0);
    loop {
        let fresh = log.fresh()?;
        bound += fresh.iter().filter(|call| binds(call)).count();
        calls.extend(fresh);
        if bound >= count {
            return Ok(calls);
        }
        if start.elapsed() > secs(600) {
            bail!("{bound} of {count} pods are bound after 600 s");
        }
        sleep(millis(100)).await;
    }
}
