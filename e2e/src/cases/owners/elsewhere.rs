//! Row O10: a webhook names a PodGroup on the pods of an owner with a template that names none, as LeaderWorkerSet 0.7 does.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::called::{self, tally};
use crate::cases::seen::{accounting_matches_api, wait_phase};
use crate::chart;
use crate::objects::{make_node, make_podgroup, make_queue};
use crate::rights;
use crate::wait::{Seen, secs, settles, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, stays_without_group};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// The label that the chart's admission policy writes beside the annotation.
const GROUP_LABEL: &str = "podgroup.dev/group";

/// The pods of two StatefulSets belong to one PodGroup. Those that the controller makes before it has seen the pods are deleted, and no
/// quota stays reserved for them. The pods keep the label of the admission policy, which names the PodGroup of their owner, until the
/// controller runs with `--annotate-pods`.
pub(in crate::cases) async fn pods_name_another_group(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    // Policies have no order. A webhook is called after all policies, so the pods that it gets have the label of the chart's policy.
    let label = format!("{{'{GROUP_LABEL}': 'podgroup-' + object.metadata.ownerReferences[0].uid}}");
    let labels = format!("has(object.metadata.ownerReferences) ? {label} : {{}}");
    let mutation = format!("Object{{metadata: Object.metadata{{annotations: {{'{GROUP_NAME}': 'lws'}}, labels: {labels}}}}}");
    let policy = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "matchConditions": [{"name": "of-lws", "expression": "object.metadata.?labels[?'lws'].orValue('') == 'yes'"}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": mutation}}],
    });
    let metadata = json!({"name": "zz-lws"});
    let policy: MutatingAdmissionPolicy = serde_json::from_value(json!({"metadata": metadata, "spec": policy}))?;
    let binding = serde_json::from_value(json!({"metadata": metadata, "spec": {"policyName": "zz-lws"}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &policy).await?;
    Api::<MutatingAdmissionPolicyBinding>::all(client.clone()).create(&PostParams::default(), &binding).await?;
    wait_until(secs(10), "the policy is in force", || async {
        let made = Owner::pod("probe").with("/metadata/labels", "lws", "yes".into()).make(&client).await?;
        Kind::Pod.api(&client).delete("probe", &DeleteParams::default().grace_period(0)).await?;
        let named = made.annotations().get(GROUP_NAME).cloned().unwrap_or_default();
        Ok(Seen::when(named == "lws", || named))
    })
    .await?;

    let moment = called::now(w).await?;
    make_podgroup(&client, "lws", json!({"minMember": 4, "queue": "team", "minResources": {"cpu": "4"}})).await?;
    let set = |name: &str| {
        let owner = Owner::stateful_set(name, Order::Parallel).replicas(2).gang("2").queue("team").asks(&[("cpu", "1")]);
        owner.with_pod("/metadata/labels", "lws", "yes".into())
    };
    let (leaders, workers) = (set("leaders").make(&client).await?, set("workers").make(&client).await?);
    for name in ["leaders", "workers"] {
        wait_running(&client, name, 2, 15).await?;
    }
    settles("neither StatefulSet has a PodGroup", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(![&leaders, &workers].iter().any(|owner| made.contains(&group_name(owner))), || format!("{made:?}")))
    })
    .await?;
    wait_phase(&client, "lws", "Running", 10).await?;
    for owner in [&leaders, &workers] {
        let labels = group_labels(&client, owner).await?;
        ensure!(labels == vec![group_name(owner); 2], "without --annotate-pods the labels of {} are {labels:?}", owner.name_any());
    }
    let calls: Vec<_> = called::since(w, moment)?.into_iter().filter(|call| call.resource == "pods" && call.verb == "patch").collect();
    ensure!(calls.is_empty(), "without --annotate-pods pods were written: {:?}", tally(&calls));

    chart::upgrade(w.cluster(), &["controller.annotatePods=true"]).await?;
    rights::known(&client, chart::CONTROLLER).await?;
    let controller = w.controller()?;
    controller.terminate().await?;
    controller.also("--annotate-pods");
    controller.restart().await?;
    for owner in [&leaders, &workers] {
        wait_until(secs(10), &format!("the labels of {} are mended", owner.name_any()), || async {
            let labels = group_labels(&client, owner).await?;
            Ok(Seen::when(labels == ["lws", "lws"], || format!("{labels:?}")))
        })
        .await?;
        stays_without_group(&client, owner, 1).await?;
    }
    accounting_matches_api(w).await
}

/// Returns the label with the name of the PodGroup of each pod of an owner; empty where there is none.
async fn group_labels(client: &Client, owner: &DynamicObject) -> Result<Vec<String>> {
    let pods = pods_of(client, &owner.name_any()).await?;
    Ok(pods.iter().map(|pod| pod.labels().get(GROUP_LABEL).cloned().unwrap_or_default()).collect())
}
