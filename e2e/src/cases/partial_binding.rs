//! Row B2: half of a gang is bound and the other half is refused. The gang is completed first, on another node, and no other PodGroup waits for it.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::seen::{accounting_matches_api, bound, group_says, queue_uses};
use crate::objects::{NAMESPACE, make_member, make_node, make_pod, make_podgroup, make_queue};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, pods_of, wait_running};
use crate::world::World;

/// An admission policy refuses the binding of members to one node, as any webhook or quota can do. Bound members stay bound, the gang tries
/// again after a back-off, and other pods use the node. A third node is added: the gang is completed there, because the refusing node is
/// its last choice. A refused binding is charged to no node.
pub(super) async fn refused_on_one_node(w: &mut World) -> Result<()> {
    let client = w.client();
    let policy = |kind: &str, plural: &str, object: Value| {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural));
        async move { api.create(&PostParams::default(), &serde_json::from_value(object)?).await.map_err(anyhow::Error::from) }
    };
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]});
    let says_no = json!({
        "expression": "!(object.metadata.name.startsWith('gang') && object.target.name == 'refuses')", "message": "not there", "reason": "Invalid",
    });
    let refuses = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "refuses"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [says_no]},
    });
    policy("ValidatingAdmissionPolicy", "validatingadmissionpolicies", refuses).await?;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "refuses"},
        "spec": {"policyName": "refuses", "validationActions": ["Deny"]},
    });
    policy("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", binding).await?;
    in_force(&client).await?;

    for node in ["takes", "refuses"] {
        make_node(&client, node, &[("cpu", "2"), ("memory", "16Gi")]).await?;
    }
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    // Half of the gang is bound for longer than the observer forgives. This case has its own deadline, longer than the longest back-off.
    w.watched()?.excuse(&[6]);
    make_podgroup(&client, "gang", json!({"minMember": 4, "queue": "team"})).await?;
    for number in 0..4 {
        make_member(&client, &format!("gang-{number}"), "gang", &[("cpu", "1")]).await?;
    }
    group_says(&client, "gang", "a binding failed: invalid").await?;
    let half = || async {
        let count = bound(&client, "gang").await?;
        Ok(Seen::when(count == 2, || format!("{count} pods are bound")))
    };
    wait_until(secs(10), "half of the gang is bound", half).await?;
    // The node takes other pods.
    Workload::new("other").asks(&[("memory", "8Gi")]).on_node("refuses").make(&client).await?;
    wait_running(&client, "other", 1, 10).await?;
    holds_for(secs(1), "the bound members stay bound", half).await?;
    make_node(&client, "third", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    wait_running(&client, "gang", 4, 45).await?;
    w.watched()?.insist(&[6]);
    let nodes: Vec<_> = pods_of(&client, "gang").await?.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    ensure!(!nodes.iter().any(|node| node == "refuses"), "the pods are on {nodes:?}");
    queue_uses(&client, "team", "cpu", "4").await?;
    accounting_matches_api(w).await
}

/// Waits until the policy refuses a binding. It is a dry run, so nothing changes.
async fn in_force(client: &Client) -> Result<()> {
    make_pod(
        client,
        json!({"metadata": {"name": "gang-probe"}, "spec": {"schedulerName": "no-scheduler", "containers": [crate::objects::container(&[])]}}),
    )
    .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": "refuses"});
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "gang-probe", "namespace": NAMESPACE}, "target": target});
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    wait_until(secs(10), "the policy is in force", || async {
        let outcome = pods.create_subresource::<Value, Value>("binding", "gang-probe", &dry, &body).await;
        Ok(Seen::when(matches!(&outcome, Err(kube::Error::Api(status)) if status.code == 422), || format!("{outcome:?}")))
    })
    .await?;
    pods.delete("gang-probe", &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}
