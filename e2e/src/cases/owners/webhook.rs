//! Row O8: a webhook or an admission policy sets the scheduler of pods at their creation. The owner's template does not name it.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::jobs::wait_condition;
use crate::called::{self, tally};
use crate::objects::{SCHEDULER_NAME, field, make_node, make_queue};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{
    Kind, Owner, group_name, groups_made, patch, resize, stays_without_group, wait_min_member, wait_no_group, wait_observed,
};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// The scheduler in the template of the owners.
const THEIRS: &str = "other-scheduler";

/// A policy of the cluster sets our scheduler on all pods with a label; the templates name another one. The pods of a ReplicaSet and of a StatefulSet
/// have their PodGroup with the owner's size and queue; it follows the owner, is deleted and comes back. Pods without the label cost nothing and are
/// left alone, also pods that lose the label.
pub(in crate::cases) async fn names_the_scheduler(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "8")]).await?;
    let policy = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "matchConditions": [{"name": "ours", "expression": "object.metadata.?labels[?'gang'].orValue('') == 'ours'"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
            "expression": format!("[JSONPatch{{op: 'replace', path: '/spec/schedulerName', value: '{SCHEDULER_NAME}'}}]")
        }}],
    });
    let metadata = json!({"name": "zz-gangs-are-ours"});
    let policy: MutatingAdmissionPolicy = serde_json::from_value(json!({"metadata": metadata, "spec": policy}))?;
    let binding = serde_json::from_value(json!({"metadata": metadata, "spec": {"policyName": "zz-gangs-are-ours"}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &policy).await?;
    Api::<MutatingAdmissionPolicyBinding>::all(client.clone()).create(&PostParams::default(), &binding).await?;
    // A new policy is in force some time after its creation.
    wait_until(secs(10), "the policy is in force", || async {
        let probe = Owner::pod("probe").scheduler(THEIRS).with("/metadata/labels", "gang", "ours".into());
        let made = probe.make(&client).await?;
        Kind::Pod.api(&client).delete("probe", &DeleteParams::default().grace_period(0)).await?;
        let scheduler = field(&made, "/spec/schedulerName");
        Ok(Seen::when(scheduler == SCHEDULER_NAME, || scheduler.to_string()))
    })
    .await?;

    let ours =
        |owner: Owner| owner.scheduler(THEIRS).with_pod("/metadata/labels", "gang", "ours".into()).replicas(3).gang("3").queue("team");
    let moment = called::now(w).await?;
    let set = ours(Owner::replica_set("set").replicas(3).gang("3")).make(&client).await?;
    let stateful = ours(Owner::stateful_set("stateful", Order::Parallel).replicas(3).gang("3")).make(&client).await?;
    for (kind, owner) in [(Kind::ReplicaSet, &set), (Kind::StatefulSet, &stateful)] {
        let name = owner.name_any();
        wait_running(&client, &name, 3, 10).await?;
        let group = wait_min_member(&client, owner, 3, 10).await?;
        ensure!(field(&group, "/spec/queue") == "team", "the queue of {name} is {}", field(&group, "/spec/queue"));
        resize(&client, kind, &name, 2).await?;
        wait_min_member(&client, owner, 2, 10).await?;
        resize(&client, kind, &name, 0).await?;
        wait_no_group(&client, owner, 10).await?;
        resize(&client, kind, &name, 3).await?;
        wait_running(&client, &name, 3, 10).await?;
        wait_min_member(&client, owner, 3, 10).await?;
    }
    ensure!(groups_made(&client).await?.len() == 2, "expected 2 PodGroups: {:?}", groups_made(&client).await?);
    // A Job creates its next pod a second after the last one has finished: there is one PodGroup for all of them.
    let job = ours(Owner::job("one-by-one", 1)).with("/spec", "completions", json!(3)).make(&client).await?;
    wait_condition(&client, "one-by-one", "Complete").await?;
    wait_no_group(&client, &job, 10).await?;
    for (owner, expected) in [(&set, 2), (&stateful, 2), (&job, 1)] {
        let calls: Vec<_> = called::since(w, moment)?.into_iter().filter(|call| call.name == group_name(owner)).collect();
        let creations = calls.iter().filter(|call| call.verb == "create").count();
        ensure!(
            w.faults().values().sum::<u64>() > 0 || creations == expected,
            "{} was created {creations} times: {:?}",
            owner.name_any(),
            tally(&calls)
        );
    }

    // Pods without the label cost nothing and are not written.
    let moment = called::now(w).await?;
    let theirs = Owner::replica_set("theirs").scheduler(THEIRS).replicas(2).make(&client).await?;
    wait_until(secs(10), "the pods of the other scheduler exist", || async {
        let pods = pods_of(&client, "theirs").await?.len();
        Ok(Seen::when(pods == 2, || pods.to_string()))
    })
    .await?;
    stays_without_group(&client, &theirs, 2).await?;
    let calls: Vec<_> = called::since(w, moment)?.into_iter().filter(|call| call.verb != "list" && call.verb != "get").collect();
    ensure!(calls.is_empty(), "pods of the other scheduler cost {:?}", tally(&calls));

    // The template loses the label: new pods belong to the other scheduler, and the PodGroup is deleted with the last of our pods.
    patch(&client, Kind::StatefulSet, "stateful", json!({"spec": {"template": {"metadata": {"labels": {"gang": Value::Null}}}}})).await?;
    wait_observed(&client, Kind::StatefulSet, "stateful").await?;
    // No scheduler binds the new pods, so the rollout would stop at the first.
    let old = ListParams::default().labels("app=stateful,gang=ours");
    Kind::Pod.api(&client).delete_collection(&DeleteParams::default(), &old).await?;
    wait_no_group(&client, &stateful, 60).await?;
    stays_without_group(&client, &stateful, 3).await?;
    let left = pods_of(&client, "stateful").await?;
    ensure!(!left.is_empty(), "stateful has no pods");
    for pod in left {
        let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.clone()).unwrap_or_default();
        ensure!(
            scheduler == THEIRS && !pod.labels().contains_key("podgroup.dev/group"),
            "{} is {scheduler}'s: {:?}",
            pod.name_any(),
            pod.labels()
        );
    }
    wait_min_member(&client, &set, 3, 10).await.map(drop)
}
