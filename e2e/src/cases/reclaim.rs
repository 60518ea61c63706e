//! Row Q6: a queue gets back its deserved share by reclaim.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, bound, group_says, metric, queue_uses};
use crate::objects::{NAMESPACE, make_node, make_queue_of};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, delete, pods_of, wait_running};
use crate::world::World;

/// Creates queues `a` and `b`, which deserve 5 of 10 cpu each; `a` has borrowed everything.
async fn borrowed(client: &Client) -> Result<()> {
    for node in ["n1", "n2"] {
        make_node(client, node, &[("cpu", "5"), ("memory", "16Gi")]).await?;
    }
    for name in ["a", "b"] {
        make_queue_of(client, name, json!({"deserved": {"cpu": "5"}})).await?;
    }
    Workload::new("borrows").replicas(10).asks(&[("cpu", "1")]).queue("a").make(client).await?;
    wait_running(client, "borrows", 10, 10).await
}

/// Q6 (#4679, #4817). `a` borrows everything, and `b` submits pods for its deserved share. `b` gets that share by reclaim, and no more,
/// when the victims are really gone. The victims name the reason, are recreated and wait, and no further pod is evicted.
pub(super) async fn deserved_share_is_reclaimed(w: &mut World) -> Result<()> {
    let client = w.client();
    borrowed(&client).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    // The conditions of a victim can be read while it exists: from now on the case deletes these pods, not kwok.
    let held = json!({"metadata": {"annotations": {"kwok.x-k8s.io/status": "custom"}, "finalizers": ["example.com/looked-at"]}});
    for pod in pods_of(&client, "borrows").await? {
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&held)).await?;
    }
    Workload::new("owed").replicas(5).gang("5").asks(&[("cpu", "1")]).queue("b").make(&client).await?;
    // Under faults an Event or condition may be lost; the programs do not wait for it.
    let must_say = w.faults().is_empty();
    let leaving = wait_until(secs(10), "five pods terminate with a DisruptionTarget condition", || async {
        let all = pods.list(&ListParams::default().labels("app=borrows")).await?.items;
        let leaving: Vec<Pod> = all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).collect();
        let messages: Vec<_> =
            leaving.iter().filter_map(disruption_message).filter(|message| message.contains("queue b is below its share")).collect();
        let said = messages.len() == leaving.len() || !must_say;
        Ok(if leaving.len() == 5 && said { Seen::Yes(leaving) } else { Seen::NotYet(format!("{} terminate, {messages:?}", leaving.len())) })
    })
    .await?;
    stays_unbound(w, "owed", 1).await?;
    // The nominated capacity is not used yet: the usage never exceeds the capacity.
    for (queue, uses) in [("a", "10"), ("b", "0"), ("root", "10")] {
        queue_uses(&client, queue, "cpu", uses).await?;
    }
    let shown = metric(w.scheduler()?.port(), "podgroup_scheduler_queue_allocated{queue=\"root\",resource=\"cpu\",unit=\"core\"}").await?;
    ensure!((shown - 10.0).abs() < 0.5, "the metric has a usage of root of {shown}, expected 10 cpu");
    for pod in leaving {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        pods.patch(&pod.name_any(), &PatchParams::default(), &free).await?;
    }
    wait_running(&client, "owed", 5, 10).await?;
    Workload::new("more").asks(&[("cpu", "1")]).queue("b").make(&client).await?;
    each_queue_has_its_share(&client, 5).await?;
    let port = w.scheduler()?.port();
    let evicted = metric(port, "podgroup_scheduler_evictions_total{outcome=\"evicted\"}").await?;
    ensure!((evicted - 5.0).abs() < 0.5, "{evicted} pods were evicted, expected 5");
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let told = events.list(&ListParams::default()).await?.items;
    let reclaimed = told.iter().filter(|event| event.reason.as_deref() == Some("Reclaimed")).count();
    ensure!(reclaimed == 5, "{reclaimed} Events report a reclaimed pod, expected 5");
    stays_unbound(w, "more", 2).await?;
    // Half of the recreated pods are deleted, and one queue has capacity again.
    delete(&client, "owed").await?;
    wait_running(&client, "more", 1, 10).await?;
    accounting_matches_api(w).await
}

/// Returns the message of the pod's condition DisruptionTarget, with the reason that Kubernetes uses for preemption by a scheduler. The API
/// server has set its time.
pub(super) fn disruption_message(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let target = conditions.iter().find(|each| each.type_ == "DisruptionTarget" && each.status == "True")?;
    target.message.clone().filter(|_| target.reason.as_deref() == Some("PreemptionByScheduler") && target.last_transition_time.is_some())
}

async fn each_queue_has_its_share(client: &Client, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), "each queue has its deserved share", || async {
        let (a, b) = (bound(client, "borrows").await?, bound(client, "owed").await?);
        Ok(Seen::when((a, b) == (5, 5), || format!("a has {a}, b has {b}")))
    })
    .await?;
    holds_for(secs(3), "each queue keeps its deserved share", || async {
        let (a, b) = (bound(client, "borrows").await?, bound(client, "owed").await?);
        Ok(Seen::when((a, b) == (5, 5), || format!("a has {a}, b has {b}")))
    })
    .await
}

/// Q6-budget. A PodDisruptionBudget protects all pods of `a`: `b` waits with a reason. The budget is deleted, and `b` gets its deserved share.
pub(super) async fn a_budget_is_obeyed(w: &mut World) -> Result<()> {
    let client = w.client();
    borrowed(&client).await?;
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> = Api::namespaced(client.clone(), NAMESPACE);
    let budget = json!({"metadata": {"name": "all"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "borrows"}}}});
    budgets.create(&kube::api::PostParams::default(), &serde_json::from_value(budget)?).await?;
    wait_until(secs(10), "the budget is in force", || async {
        let status = budgets.get("all").await?.status;
        Ok(Seen::when(status.as_ref().is_some_and(|status| status.expected_pods == Some(10)), || format!("{status:?}")))
    })
    .await?;
    Workload::new("owed").replicas(5).gang("5").asks(&[("cpu", "1")]).queue("b").make(&client).await?;
    let group = crate::workloads::wait_one_group(&client, "owed", 10).await?.name_any();
    group_says(&client, &group, "PodDisruptionBudget").await?;
    stays_unbound(w, "owed", 3).await?;
    ensure!(bound(&client, "borrows").await? == 10, "a pod was evicted against the budget");
    budgets.delete("all", &DeleteParams::default()).await?;
    wait_running(&client, "owed", 5, 10).await?;
    each_queue_has_its_share(&client, 10).await
}
