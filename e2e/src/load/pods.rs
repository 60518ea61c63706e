//! The pods to bind, and the times of their bindings. The pods are in the namespace of the cases, and kwok does not run them: only the time from
//! creation to binding is measured, and kubelets would use the same two cores. The pods that run from the start are in their own namespace.

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::claims;
use super::constraint::Constraint;
use super::look::{self, until_all_run, until_count};
use super::stage::{AT_ONCE, Side, Stage, each};
use crate::audit_log::{AuditLog, Entry};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, podgroups, podgroups_in};
use crate::wait::{millis, secs};
use crate::workloads::kinds::PLAYED_BY_THE_CASE;

/// Members of each gang.
pub const GANG: usize = 10;

/// The namespace of the pods that run from the start.
pub const RUNNING: &str = "running";

/// The kinds of pods: their scheduler and their PodGroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours, in gangs with existing PodGroups.
    Gangs,
    /// Ours, each with its own existing PodGroup.
    Single,
    /// Ours, without a PodGroup: the controller creates it.
    Bare,
    /// Pods of kube-scheduler.
    Stock,
    /// Pods without a scheduler, for the raw flood.
    Flood,
}

impl Kind {
    /// Returns the name in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gangs => "podgroup-scheduler, gangs of 10",
            Self::Single => "podgroup-scheduler, single pods whose PodGroup exists",
            Self::Bare => "podgroup-scheduler and -controller, bare pods",
            Self::Stock => "kube-scheduler",
            Self::Flood => "raw binding flood",
        }
    }

    /// Returns the programs that bind its pods, and create its PodGroups where they do not exist; `None` for those of the flood.
    pub const fn side(self) -> Option<Side> {
        match self {
            Self::Gangs | Self::Single => Some(Side::Scheduler),
            Self::Bare => Some(Side::Ours),
            Self::Stock => Some(Side::Stock),
            Self::Flood => None,
        }
    }

    const fn scheduler(self) -> &'static str {
        match self {
            Self::Gangs | Self::Single | Self::Bare => SCHEDULER_NAME,
            Self::Stock => "default-scheduler",
            Self::Flood => "no-scheduler",
        }
    }

    /// Returns how many of its pods share a PodGroup; `None` when the PodGroup is not created before.
    const fn gang(self) -> Option<usize> {
        match self {
            Self::Gangs => Some(GANG),
            Self::Single => Some(1),
            Self::Bare | Self::Stock | Self::Flood => None,
        }
    }
}

fn pod(kind: Kind, constraint: Constraint, number: usize) -> Result<Pod> {
    let mut annotations = json!({PLAYED_BY_THE_CASE: "custom"});
    if let (Some(gang), Some(annotations)) = (kind.gang(), annotations.as_object_mut()) {
        annotations.insert("scheduling.k8s.io/group-name".to_owned(), json!(group_name(number / gang)));
    }
    let containers = [container(&[("cpu", "100m"), ("memory", "128Mi")])];
    let app = if constraint == Constraint::Nothing { "bench".to_owned() } else { group_name(number / GANG) };
    let mut spec = constraint.spec(&app, &claims::name(number));
    let rest = json!({"schedulerName": kind.scheduler(), "terminationGracePeriodSeconds": 0, "containers": containers});
    if let (Some(spec), Value::Object(rest)) = (spec.as_object_mut(), rest) {
        spec.extend(rest);
    }
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name(number), "labels": {"app": app}, "annotations": annotations}, "spec": spec}),
    )?)
}

/// Returns the name of the pod with this number.
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

/// Creates the PodGroups of `count` pods, if they must exist before the pods.
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

/// Creates one pod.
pub async fn make(pods: &Api<Pod>, kind: Kind, constraint: Constraint, number: usize) -> Result<()> {
    pods.create(&PostParams::default(), &pod(kind, constraint, number)?).await?;
    Ok(())
}

/// Creates `count` pods at once.
pub async fn make_all(stage: &Stage, kind: Kind, constraint: Constraint, count: usize) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stage.client(), NAMESPACE);
    each(count, AT_ONCE, |number| make(&pods, kind, constraint, number)).await?;
    until_count(&pods, count, "the pods exist").await
}

/// Deletes all pods and PodGroups except those that run from the start.
pub async fn clear(stage: &Stage) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stage.client(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    until_count(&pods, 0, "the pods are gone").await?;
    let groups = podgroups(&stage.client());
    groups.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until_count(&groups, 0, "the PodGroups are gone").await
}

/// Creates `count` running pods of ours, in gangs, on all nodes in turn, with a bound claim each if wanted.
pub async fn run_many(stage: &Stage, count: usize, constraint: Constraint) -> Result<()> {
    let client = stage.client();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": RUNNING}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    claims::make(stage, RUNNING, constraint, count).await?;
    let (groups, pods) = (podgroups_in(&client, RUNNING), Api::<Pod>::namespaced(client.clone(), RUNNING));
    let nodes = look::count(&Api::<k8s_openapi::api::core::v1::Node>::all(client.clone())).await?;
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
            let mut pod = pod(Kind::Gangs, constraint, number)?;
            pod.metadata.annotations.iter_mut().for_each(|all| drop(all.remove(PLAYED_BY_THE_CASE)));
            pod.spec.iter_mut().for_each(|spec| spec.node_name = Some(format!("node-{:04}", number % nodes)));
            pods.create(&PostParams::default(), &pod).await?;
            Ok(())
        }
    })
    .await?;
    until_all_run(&pods, count).await
}

/// Returns whether the call bound a pod.
pub fn binds(call: &Entry) -> bool {
    call.kind() == "create pods/binding" && call.code == 201
}

/// Returns all calls until `count` pods are bound. Fails when one of our programs has ended by itself.
pub async fn until_bound(stage: &mut Stage, log: &mut AuditLog, count: usize) -> Result<Vec<Entry>> {
    let (start, mut calls, mut bound) = (Instant::now(), Vec::new(), 0);
    loop {
        let fresh = log.fresh()?;
        bound += fresh.iter().filter(|call| binds(call)).count();
        calls.extend(fresh);
        if bound >= count {
            return Ok(calls);
        }
        let ended = stage.ended();
        ensure!(ended.is_empty(), "{bound} of {count} pods are bound; {}", ended.join("; "));
        if start.elapsed() > secs(600) {
            bail!("{bound} of {count} pods are bound after 600 s");
        }
        sleep(millis(100)).await;
    }
}
