//! Helpers that wait for conditions, statuses and metrics, and compare the scheduler's accounting with the API.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::http;
use crate::objects::{condition, field, has_node, milli_of, podgroups, queues};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::pods_of;
use crate::world::World;

/// Waits until the PodGroup has the condition Unschedulable with a message that contains `part`; returns the message.
pub(super) async fn group_says(client: &Client, group: &str, part: &str) -> Result<String> {
    group_says_within(client, 10, group, part).await
}

/// Does the same with a timeout in seconds.
pub(super) async fn group_says_within(client: &Client, seconds: u64, group: &str, part: &str) -> Result<String> {
    wait_until(secs(seconds), &format!("PodGroup {group} says: {part}"), || async {
        let object: DynamicObject = podgroups(client).get(group).await?;
        Ok(match condition(&object, "Unschedulable") {
            Some((status, _, message)) if status == "True" && message.contains(part) => Seen::Yes(message),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
}

/// Waits until a pod of `name` has PodScheduled=False with a message that contains `part`.
pub(super) async fn pod_says(client: &Client, name: &str, part: &str) -> Result<()> {
    wait_until(secs(30), &format!("a pod of {name} says: {part}"), || async {
        let said: Vec<_> = pods_of(client, name).await?.iter().filter_map(super::ledger::why_unscheduled).collect();
        Ok(Seen::when(said.iter().any(|message| message.contains(part)), || format!("{said:?}")))
    })
    .await
}

/// Waits until so many pods of `name` say PodScheduled=False with this reason, and no pod of it with another. For `Unschedulable`
/// autoscalers add nodes.
pub(super) async fn pods_wait_for(client: &Client, name: &str, count: usize, reason: &str) -> Result<()> {
    wait_until(secs(30), &format!("{count} pods of {name} wait for {reason}"), || async {
        let pods = pods_of(client, name).await?;
        let conditions = pods.into_iter().filter_map(|pod| pod.status?.conditions).flatten();
        let said: Vec<_> =
            conditions.filter(|each| each.type_ == "PodScheduled" && each.status == "False").map(|each| each.reason).collect();
        let right = said.len() == count && said.iter().all(|said| said.as_deref() == Some(reason));
        Ok(Seen::when(right, || format!("{said:?}")))
    })
    .await
}

/// Returns the phase of a PodGroup.
pub(super) async fn phase(client: &Client, group: &str) -> Result<String> {
    let object = podgroups(client).get(group).await?;
    Ok(field(&object, "/status/phase").as_str().unwrap_or_default().to_owned())
}

/// Waits until a PodGroup is in this phase.
pub(super) async fn wait_phase(client: &Client, group: &str, wanted: &str, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("PodGroup {group} is {wanted}"), || async {
        let now = phase(client, group).await?;
        Ok(Seen::when(now == wanted, || now))
    })
    .await
}

/// Waits until `status.allocated` of a queue has this amount of a dimension, as the API writes it; `0` also matches a missing dimension.
pub(super) async fn queue_uses(client: &Client, queue: &str, dimension: &str, wanted: &str) -> Result<()> {
    queue_uses_within(client, 10, queue, dimension, wanted).await
}

/// Does the same with a timeout in seconds.
pub(super) async fn queue_uses_within(client: &Client, seconds: u64, queue: &str, dimension: &str, wanted: &str) -> Result<()> {
    let pointer = format!("/status/allocated/{}", dimension.replace('/', "~1"));
    wait_until(secs(seconds), &format!("queue {queue} uses {wanted} {dimension}"), || async {
        let object = queues(client).get(queue).await?;
        let seen = field(&object, &pointer);
        let text = seen.as_str().map_or_else(|| if seen.is_null() { "0".to_owned() } else { seen.to_string() }, str::to_owned);
        Ok(Seen::when(text == wanted, || format!("{text}; all of it: {}", field(&object, "/status/allocated"))))
    })
    .await
}

/// Waits until a queue is in this state.
pub(super) async fn queue_is(client: &Client, queue: &str, state: &str) -> Result<()> {
    wait_until(secs(10), &format!("queue {queue} is {state}"), || async {
        let seen = field(&queues(client).get(queue).await?, "/status/state");
        Ok(Seen::when(seen == state, || seen.to_string()))
    })
    .await
}

/// Returns how many pods of `name` are bound, without terminating pods.
pub(super) async fn bound(client: &Client, name: &str) -> Result<usize> {
    Ok(pods_of(client, name).await?.iter().filter(|pod| has_node(pod)).count())
}

/// Returns how many pods the scheduler has bound since its start.
pub(super) async fn bound_so_far(port: u16) -> Result<f64> {
    metric(port, "podgroup_scheduler_binds_total{outcome=\"bound\"}").await
}

/// Returns the value of one line of /metrics; 0 when the line is missing.
pub(super) async fn metric(port: u16, name: &str) -> Result<f64> {
    let (_, body) = http::get(port, "/metrics").await?;
    let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.map_or(Ok(0.0), |value| value.trim().parse())?)
}

/// Waits up to ten seconds until each node's ledger (cpu and number of pods) is the sum of the pods in the API, then checks that the audit finds no
/// difference. Only for pods with one container.
pub(super) async fn accounting_matches_api(w: &mut World) -> Result<()> {
    accounting_matches_api_within(w, 10).await
}

/// Does the same with a timeout in seconds. A pod whose binding is retried is in the ledger and not on a node.
pub(super) async fn accounting_matches_api_within(w: &mut World, seconds: u64) -> Result<()> {
    let (client, port) = (w.client(), w.scheduler()?.port());
    let pods: Api<Pod> = Api::all(client);
    wait_until(secs(seconds), "the ledger equals the API", || async {
        let mut wanted: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for pod in pods.list(&ListParams::default()).await?.items {
            let ended =
                pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(|it| it == "Succeeded" || it == "Failed");
            let Some((node, spec)) = pod.spec.and_then(|spec| Some((spec.node_name.clone()?, spec))).filter(|_| !ended) else { continue };
            let requests = spec.containers.first().and_then(|main| main.resources.as_ref()?.requests.as_ref()?.get("cpu").cloned());
            let cpu = requests.map_or(Some(0), |cpu| crate::objects::milli(&cpu.0)).context("an invalid amount")?;
            let sum = wanted.entry(node).or_default();
            *sum = (sum.0 + cpu, sum.1 + 1);
        }
        let ledger = http::json(port, "/debug/ledger").await?;
        let mut seen = BTreeMap::new();
        for node in ["nodes", "missingNodes"].iter().filter_map(|key| ledger.get(key)?.as_array()).flatten() {
            let name = node.get("name").and_then(Value::as_str).context("a node without a name")?;
            let cpu = milli_of(node.pointer("/used/cpu")).context("an invalid amount")?;
            let count = node.get("pods").and_then(Value::as_i64).context("pods")?;
            if count > 0 {
                seen.insert(name.to_owned(), (cpu, count));
            }
        }
        Ok(Seen::when(seen == wanted, || format!("the ledger has {seen:?}, the pods request {wanted:?}")))
    })
    .await?;
    let audit = http::json(port, "/debug/audit").await?;
    let differences = audit.get("differences").and_then(Value::as_array).context("no differences")?;
    ensure!(differences.is_empty(), "the audit finds differences: {differences:?}");
    Ok(())
}
