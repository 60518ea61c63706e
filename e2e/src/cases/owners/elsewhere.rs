//! Row O10: a webhook names a PodGroup on the pods of an owner with a template that names none, as LeaderWorkerSet 0.7 does.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::cases::seen::accounting_matches_api;
use crate::objects::{field, make_node, make_podgroup, make_queue};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, stays_without_group, wait_no_group};
use crate::workloads::wait_running;
use crate::world::World;

const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// The pods of two StatefulSets belong to one PodGroup. Those that the controller makes before it has seen the pods are deleted, and no quota stays
/// reserved for them.
pub(in crate::cases) async fn pods_name_another_group(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    let policy = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "matchConditions": [{"name": "of-lws", "expression": "object.metadata.?labels[?'lws'].orValue('') == 'yes'"}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
            "expression": format!("Object{{metadata: Object.metadata{{annotations: {{'{GROUP_NAME}': 'lws'}}}}}}")
        }}],
    });
    let metadata = json!({"name": "zz-lws"});
    let policy: MutatingAdmissionPolicy = serde_json::from_value(json!({"metadata": metadata, "spec": policy}))?;
    let binding = serde_json::from_value(json!({"metadata": metadata, "spec": {"policyName": "zz-lws"}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &policy).await?;
    Api::<MutatingAdmissionPolicyBinding>::all(client.clone()).create(&PostParams::default(), &binding).await?;
    wait_until(secs(30), "the policy is in force", || async {
        let made = Owner::pod("probe").with("/metadata/labels", "lws", "yes".into()).make(&client).await?;
        Kind::Pod.api(&client).delete("probe", &DeleteParams::default().grace_period(0)).await?;
        let named = made.annotations().get(GROUP_NAME).cloned().unwrap_or_default();
        Ok(Seen::when(named == "lws", || named))
    })
    .await?;

    make_podgroup(&client, "lws", json!({"minMember": 4, "queue": "team", "minResources": {"cpu": "4"}})).await?;
    let set = |name: &str| {
        let owner = Owner::stateful_set(name, Order::Parallel).replicas(2).gang("2").queue("team").asks(&[("cpu", "1")]);
        owner.with_pod("/metadata/labels", "lws", "yes".into())
    };
    let (leaders, workers) = (set("leaders").make(&client).await?, set("workers").make(&client).await?);
    for name in ["leaders", "workers"] {
        wait_running(&client, name, 2, 15).await?;
    }
    for owner in [&leaders, &workers] {
        wait_no_group(&client, owner, 10).await?;
        stays_without_group(&client, owner, 2).await?;
    }
    let group = crate::objects::podgroups(&client).get("lws").await?;
    ensure!(field(&group, "/status/phase") == "Running", "the PodGroup is {}", field(&group, "/status"));
    accounting_matches_api(w).await
}
