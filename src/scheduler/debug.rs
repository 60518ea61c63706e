//! The JSON of the debug endpoints. Amounts are Kubernetes quantities.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::accounting::{NodeView, Stage};
use crate::api::Fault;
use crate::api::quantities::{RawQuantity, written};
use crate::cycle::admission::admit;
use crate::cycle::cache::GroupRank;
use crate::cycle::cache::phase::phase;
use crate::cycle::explain::{Explanation, Refusal};
use crate::cycle::queue_faults::further_faults;
use crate::resources::{Limits, Resources, quantity};

use super::dialect;
use super::event::Question;
use super::kinds::Kind;
use super::metrics::queue_snapshot;
use super::overcommit;
use super::state::State;

/// Returns the answer to a question. `now` is the time since the start of the program.
#[must_use]
pub fn answer(state: &State, question: Question, now: Duration) -> Value {
    match question {
        Question::Ledger => ledger(state),
        Question::Queues => queues(state),
        Question::Audit => audit(state),
        Question::View => view(state, now),
    }
}

fn ledger(state: &State) -> Value {
    let ledger = state.scheduling.cache().accounting().ledger();
    let mut pods: BTreeMap<&str, u32> = BTreeMap::new();
    let there = state.scheduling.cache().accounting().pods().filter(|(_, pod)| pod.stage != Stage::Nominated);
    for node in there.filter_map(|(_, pod)| pod.node) {
        let count = pods.entry(node).or_default();
        *count = count.saturating_add(1);
    }
    let nodes = state.scheduling.cache().nodes();
    let node = |node: NodeView<'_>| {
        let used = overcommit::used(node, &state.scheduling);
        json!({
            "name": node.name,
            "allocatable": written(node.allocatable),
            "used": written(&used),
            "nominated": state.scheduling.nominated_on(node.name).as_ref().map(written).unwrap_or_default(),
            "idle": written(&node.idle()),
            "overcommitted": written(&NodeView { used: &used, ..node }.overcommitted()),
            "pods": pods.get(node.name).copied().unwrap_or(0),
            "faults": nodes.id(node.name).and_then(|id| nodes.get(id)).map(|facts| faults(&facts.faults)).unwrap_or_default(),
        })
    };
    let missing =
        |(name, used): (&str, &Resources)| json!({ "name": name, "used": written(used), "pods": pods.get(name).copied().unwrap_or(0) });
    json!({
        "nodes": ledger.nodes().map(node).collect::<Vec<_>>(),
        "missingNodes": ledger.missing_nodes().map(missing).collect::<Vec<_>>(),
    })
}

fn queues(state: &State) -> Value {
    let mut waiting: BTreeMap<String, Vec<(GroupRank, Value)>> = BTreeMap::new();
    let mut groupless: Vec<Value> = Vec::new();
    let mut copy = None;
    for (key, group) in state.scheduling.backlog().iter().filter_map(|key| Some((key, state.scheduling.cache().groups().get(key)?))) {
        let facts = group.facts.as_ref();
        // Without a PodGroup, only the pods carry the refusal.
        let of_pods = || group.waiting.iter().find_map(|uid| state.scheduling.cache().pods().get(uid)?.refusal.as_ref());
        let refusal = group.refusal.as_ref().or_else(|| if facts.is_none() { of_pods() } else { None });
        let entry = json!({
            "group": key.to_string(),
            "phase": facts.map(|facts| dialect::phase_name(phase(group, facts))),
            "waitingPods": group.waiting.len(),
            "reason": refusal.map(|refusal| dialect::reason(refusal)),
            "why": refusal.map_or_else(|| Explanation::plain(&queue_snapshot::cause_of(group)), |refusal| Explanation::of(refusal)),
            "requested": written(&admit::requested(state.scheduling.cache(), key)),
            "unreserved": group.is_unreserved(),
            "shortages": admit::shortages(state.scheduling.cache(), key, &mut copy),
            "message": refusal.map(|refusal| state.scheduling.cache().group_message(group, refusal)),
        });
        match facts {
            Some(facts) => {
                let rank = state.scheduling.cache().rank(group, facts);
                waiting.entry(facts.queue.clone()).or_default().push((rank, entry));
            }
            None => groupless.push(entry),
        }
    }
    let mut waiting: BTreeMap<String, Vec<Value>> = waiting.into_iter().map(|(queue, ranked)| (queue, in_order(ranked))).collect();
    let quota = state.scheduling.cache().accounting().quota();
    let shares = state.scheduling.cache().shares_now();
    let list: Vec<_> = quota
        .queues()
        .map(|queue| {
            let (used, own) = overcommit::used_in(queue, &state.scheduling);
            json!({
                "name": queue.name,
                "exists": queue.exists,
                "parent": queue.parent,
                "capability": queue.limits.map(|limits| limits_written(&limits.capability)).unwrap_or_default(),
                "deserved": queue.limits.map(|limits| limits_written(&limits.deserved)).unwrap_or_default(),
                "guarantee": queue.limits.map(|limits| limits_written(&limits.guarantee)).unwrap_or_default(),
                "weight": queue.limits.map_or(1, |limits| limits.weight),
                "floor": written(queue.floor),
                "share": written(shares.of(queue.name)),
                "kept": written(queue.unused_guarantee),
                "closedBy": quota.closed_by(queue.name).as_deref(),
                "used": written(&used),
                "nominated": written(&state.scheduling.nominated_in(queue.name).0),
                "reserved": written(queue.reserved),
                "usedByItself": written(&own),
                "fault": quota.fault(queue.name).map(|fault| Refusal::Queue(fault).message()),
                "faults": state.scheduling.cache().queues().get(queue.name).map(|facts| further_faults(state.scheduling.cache(), facts)).unwrap_or_default(),
                "waiting": waiting.remove(queue.name).unwrap_or_default(),
            })
        })
        .collect();
    // Homeless: PodGroups of a queue that does not exist. Groupless: pods of a PodGroup that does not exist; they are in no queue.
    json!({ "queues": list, "homeless": waiting, "groupless": groupless })
}

/// Returns the PodGroups of a queue in their order, each with its position from 1.
fn in_order(mut ranked: Vec<(GroupRank, Value)>) -> Vec<Value> {
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    let with_position = |(position, (_, mut entry)): (usize, (GroupRank, Value))| {
        entry.as_object_mut().into_iter().for_each(|entry| drop(entry.insert("position".to_owned(), json!(position))));
        entry
    };
    (1..).zip(ranked).map(with_position).collect()
}

fn faults(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

fn limits_written(limits: &Limits) -> BTreeMap<String, RawQuantity> {
    limits.iter().map(|(name, amount)| (name.to_string(), RawQuantity::Text(quantity::format(amount, name.style())))).collect()
}

fn audit(state: &State) -> Value {
    let report = state.recount();
    json!({
        "differences": report.differences,
        "checked": { "nodes": report.nodes, "pods": report.pods, "queues": report.queues },
    })
}

fn view(state: &State, now: Duration) -> Value {
    let age = |kind: Kind| Some((kind.resource(), state.view.age(kind, now)?.as_secs_f64()));
    let trouble = state.view.trouble(now);
    json!({
        "decides": state.decides() && trouble.is_none(),
        "trouble": trouble.map(|trouble| trouble.to_string()),
        "ageSeconds": Kind::all().filter_map(age).collect::<BTreeMap<_, _>>(),
    })
}
