//! Rows A7, A8 and A9: a pod is charged exactly as the rules of Kubernetes say, in every sum.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::seen::{group_says, pod_says, queue_uses};
use crate::objects::{NAMESPACE, amounts, container, make_node, make_queue, make_queue_of, set_allocatable};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::{Owner, wait_group};
use crate::workloads::{Workload, pods_of, scale, wait_one_group, wait_running};
use crate::world::World;

/// A7. In-place resize of a running pod above its queue's capability: the usage is correct, and no pod is bound in the queue or on the used capacity. No crash.
/// After the resize back, the usage falls when the kubelet has done it, not when it is requested.
pub(super) async fn resized_in_place(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    // Not reclaimable: otherwise the other queue would reclaim what exceeds the share.
    make_queue_of(&client, "team", json!({"capability": {"cpu": "4"}, "reclaimable": false})).await?;
    Workload::new("grows").asks(&[("cpu", "2")]).queue("team").make(&client).await?;
    wait_running(&client, "grows", 1, 10).await?;
    queue_uses(&client, "team", "cpu", "2").await?;
    let pod = pods_of(&client, "grows").await?.first().map(ResourceExt::name_any).unwrap_or_default();
    // A kubelet that does not report allocated resources is taken for one that cannot resize.
    set_allocated(&client, &pod, "2").await?;
    resize(&client, &pod, "6").await?;
    queue_uses(&client, "team", "cpu", "6").await?;
    Workload::new("late").queue("team").make(&client).await?;
    Workload::new("other").asks(&[("cpu", "3")]).make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, "queue \"team\" is over its quota: cpu requested 1, used 6, capability 4").await?;
    let group = wait_one_group(&client, "other", 10).await?.name_any();
    group_says(&client, &group, "Insufficient cpu; cpu: requested 3, most free 2").await?;
    stays_unbound(w, "late", 2).await?;
    stays_unbound(w, "other", 0).await?;

    set_allocated(&client, &pod, "6").await?;
    resize(&client, &pod, "1").await?;
    holds_for(secs(2), "the resources that the kubelet has allocated count", || async {
        let seen = crate::objects::field(&crate::objects::queues(&client).get("team").await?, "/status/allocated/cpu");
        Ok(Seen::when(seen == "6", || seen.to_string()))
    })
    .await?;
    stays_unbound(w, "late", 0).await?;
    set_allocated(&client, &pod, "1").await?;
    wait_running(&client, "late", 1, 10).await?;
    wait_running(&client, "other", 1, 10).await?;
    queue_uses(&client, "team", "cpu", "2").await
}

/// Resizes a pod like `kubectl patch pod --subresource resize`.
async fn resize(client: &Client, pod: &str, cpu: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let main = json!({"name": "main", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
    let patch = Patch::Strategic(json!({"spec": {"containers": [main]}}));
    pods.patch_subresource("resize", pod, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Writes the status of a kubelet that has allocated this cpu.
async fn set_allocated(client: &Client, pod: &str, cpu: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let statuses = pods.get(pod).await?.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let mut statuses = json!(statuses);
    let main = statuses.get_mut(0).and_then(Value::as_object_mut).context("the container has no status")?;
    let amounts = amounts(&[("cpu", cpu)]);
    main.insert("allocatedResources".to_owned(), amounts.clone());
    main.insert("resources".to_owned(), json!({"requests": amounts, "limits": amounts}));
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(json!({"status": {"containerStatuses": statuses}}))).await?;
    Ok(())
}

/// A8. Init container 4 cpu, main 1 cpu, sidecar 1 cpu, overhead 100m on a node that fits exactly: PodGroup.minResources, ledger and queue follow the kubelet's
/// rule, in which the order of sidecar and init container matters.
pub(super) async fn init_sidecar_and_overhead(w: &mut World) -> Result<()> {
    let client = w.client();
    make_queue(&client, "team", None, &[]).await?;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("node.k8s.io", "v1", "RuntimeClass"), "runtimeclasses");
    let class: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "boxed"}, "handler": "boxed", "overhead": {"podFixed": {"cpu": "100m"}},
    }))?;
    Api::all_with(client.clone(), &kind).create(&PostParams::default(), &class).await?;
    let init = named("init", container(&[("cpu", "4")]));
    let sidecar = named("sidecar", with(container(&[("cpu", "1")]), "restartPolicy", json!("Always")));
    for (name, order, cpu, less) in
        [("init-first", [&init, &sidecar], "4100m", "4099m"), ("sidecar-first", [&sidecar, &init], "5100m", "5099m")]
    {
        make_node(&client, name, &[("cpu", less), ("memory", "1Gi")]).await?;
        let set = Owner::replica_set(name)
            .queue("team")
            .with_pod("/spec", "initContainers", json!(order))
            .with_pod("/spec", "runtimeClassName", json!("boxed"))
            .with_pod("/spec", "overhead", json!({"cpu": "100m"}))
            .with_pod("/spec", "nodeSelector", json!({"kubernetes.io/hostname": name}))
            .make(&client)
            .await?;
        let group = wait_group(&client, &set, 10, &format!("minResources is {cpu}"), |group| {
            let seen = crate::objects::field(group, "/spec/minResources/cpu");
            (seen != cpu).then(|| seen.to_string())
        })
        .await?;
        let shown = format!("requested {cpu}, most free {less}");
        group_says(&client, &group.name_any(), &shown).await?;
        stays_unbound(w, name, 1).await?;
        set_allocatable(&client, name, &[("cpu", cpu)]).await?;
        wait_running(&client, name, 1, 10).await?;
        let port = w.scheduler()?.port();
        wait_until(secs(10), &format!("the ledger reports {name} as exactly full"), || async {
            let ledger = crate::http::json(port, "/debug/ledger").await?;
            let nodes = ledger.get("nodes").and_then(Value::as_array).cloned().unwrap_or_default();
            let node = nodes.into_iter().find(|node| node.get("name").is_some_and(|seen| seen == name)).unwrap_or_default();
            let [used, idle] = ["/used/cpu", "/idle/cpu"].map(|at| node.pointer(at).cloned().unwrap_or_default());
            Ok(Seen::when(used == cpu && (idle.is_null() || idle == "0"), || node.to_string()))
        })
        .await?;
    }
    queue_uses(&client, "team", "cpu", "9200m").await
}

fn named(name: &str, container: Value) -> Value {
    with(container, "name", json!(name))
}

fn with(mut container: Value, key: &str, value: Value) -> Value {
    if let Some(map) = container.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
    container
}

/// A9 (#5844). 100 pods of 7 TB and one byte of ephemeral-storage are created and deleted, and a queue has `ephemeral-storage: 100P`. Sums are exact and return
/// to exactly 0; 100P means 100P.
pub(super) async fn large_and_odd(w: &mut World) -> Result<()> {
    const DISK: &str = "ephemeral-storage";
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), (DISK, "200P"), ("pods", "250")]).await?;
    // The capability fits exactly a hundred pods.
    make_queue(&client, "exact", None, &[(DISK, "700000000000100")]).await?;
    Workload::new("odd").replicas(100).asks(&[(DISK, "7000000000001")]).queue("exact").make(&client).await?;
    wait_running(&client, "odd", 100, 10).await?;
    queue_uses(&client, "exact", DISK, "700000000000100").await?;
    scale(&client, "odd", 101).await?;
    pod_says(
        &client,
        "odd",
        "queue \"exact\" is over its quota: ephemeral-storage requested 7000000000001, used 700000000000100, capability 700000000000100",
    )
    .await?;
    scale(&client, "odd", 0).await?;
    wait_running(&client, "odd", 0, 10).await?;
    queue_uses(&client, "exact", DISK, "0").await?;
    queue_uses(&client, "exact", "pods", "0").await?;
    queue_uses(&client, "root", DISK, "0").await?;

    make_queue(&client, "hundred", None, &[(DISK, "100P")]).await?;
    for (name, asked) in [("most", "99999999999999999"), ("rest", "1")] {
        Workload::new(name).asks(&[(DISK, asked)]).queue("hundred").make(&client).await?;
        wait_running(&client, name, 1, 10).await?;
    }
    Workload::new("byte").asks(&[(DISK, "1")]).queue("hundred").make(&client).await?;
    let group = wait_one_group(&client, "byte", 10).await?.name_any();
    let said = group_says(&client, &group, "queue \"hundred\" is over its quota: ephemeral-storage requested 1, used").await?;
    stays_unbound(w, "byte", 2).await?;
    ensure!(!said.contains("capability 0"), "the message is {said}");
    for pod in pods_of(&client, "rest").await? {
        crate::workloads::delete(&client, "rest").await?;
        let _ = Api::<Pod>::namespaced(client.clone(), NAMESPACE).delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
    }
    wait_running(&client, "byte", 1, 10).await
}
