//! Compares the accounting's answers to a scenario with the expected ones.
//!
//! After each fact the accounting gets the differences, so it goes through the same history as the scenario. It gets only questions that it
//! can answer: the choice of victims belongs to the cycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::admission::{Verdict, admit as reference_admit, asks, wanted};
use super::cluster::{Amounts, Bounds, Cluster};
use super::scenario::{lines, normal};
use super::scenario_text::{Fault, read_amounts, read_fact, write_amount};
use crate::accounting::differential::{read_refusal, written};
use crate::accounting::{Accounting, QueueLimits, QueueShape, Waiting};
use crate::resources::{Amount, Limits, Resources};

/// Returns the questions that the accounting answers differently.
pub(super) fn wrong_answers(text: &str) -> Result<Vec<String>, Fault> {
    let (mut accounting, mut cluster, mut wrong) = (Accounting::new(), Cluster::default(), Vec::new());
    for line in lines(text) {
        let Some((question, want)) = line.split_once("->") else {
            let before = cluster.clone();
            read_fact(&mut cluster, line)?;
            apply_changes(&mut accounting, &before, &cluster);
            continue;
        };
        let want = normal(want.trim());
        if let Some(got) = answer(&accounting, &cluster, question)?.filter(|got| *got != want) {
            wrong.push(format!("{} -> {got}, not {want}", question.trim()));
        }
    }
    let report = accounting.audit();
    wrong.extend(report.differences.iter().map(|difference| format!("{difference:?}")));
    Ok(wrong)
}

fn apply_changes(accounting: &mut Accounting, before: &Cluster, now: &Cluster) {
    let (nodes_before, nodes) = (nodes(before), nodes(now));
    nodes_before.keys().filter(|name| !nodes.contains_key(*name)).for_each(|name| accounting.node_delete(name));
    nodes.iter().for_each(|(name, offers)| accounting.node_upsert(name, resources(offers)));
    before.queues.keys().filter(|name| !now.queues.contains_key(*name)).for_each(|name| accounting.queue_remove(name));
    for (name, spec) in now.queues.iter().filter(|(name, spec)| before.queues.get(*name) != Some(*spec)) {
        let terms = QueueLimits {
            capability: limits(&spec.capability),
            deserved: limits(&spec.deserved),
            guarantee: limits(&spec.guarantee),
            weight: u32::try_from(spec.weight).unwrap(),
            priority: i32::try_from(spec.priority).unwrap(),
            reclaimable: spec.reclaimable,
            closed_by_hand: spec.closed_by_hand,
        };
        accounting.queue_upsert(&QueueShape { name: name.as_str().into(), parent: spec.parent.as_deref().map(Arc::from) }, terms);
    }
    for uid in before.pods.iter().filter(|(uid, pod)| now.pods.get(*uid) != Some(*pod)).map(|(uid, _)| uid) {
        accounting.release(&uid.as_str().into());
    }
    for (uid, pod) in now.pods.iter().filter(|(uid, pod)| before.pods.get(*uid) != Some(*pod)) {
        let (uid, node, amounts) = (uid.as_str().into(), pod.node.as_deref(), resources(&pod.amounts));
        let path: Vec<Arc<str>> = pod.path.iter().map(|queue| Arc::from(queue.as_str())).collect();
        match path.as_slice() {
            [] => accounting.charge_observed(&uid, node, Some(&pod.queue), &amounts),
            path => accounting.charge_observed_on_path(&uid, node, path, i64::try_from(pod.created).unwrap(), &amounts),
        }
    }
    before.foreign.keys().filter(|uid| !now.foreign.contains_key(*uid)).for_each(|uid| _ = accounting.release(&uid.as_str().into()));
    for (uid, (node, amounts)) in &now.foreign {
        accounting.charge_observed(&uid.as_str().into(), Some(node), None, &resources(amounts));
    }
    for group in before.reservations.keys().filter(|group| !now.reservations.contains_key(*group)) {
        accounting.unreserve(group);
    }
    now.reservations
        .iter()
        .for_each(|(group, reservation)| accounting.reserve(group, &reservation.queue, &resources(&reservation.amounts)));
    accounting.forget_unused_places();
}

/// Returns the nodes; `total` is one node where no nodes are named.
fn nodes(cluster: &Cluster) -> BTreeMap<String, Amounts> {
    if cluster.nodes.is_empty() { BTreeMap::from([("all".to_owned(), cluster.total.clone())]) } else { cluster.nodes.clone() }
}

fn resources(amounts: &Amounts) -> Resources {
    amounts.iter().map(|(name, amount)| (name.as_str().into(), Amount::from_nanos(*amount))).collect()
}

fn limits(bounds: &Bounds) -> Limits {
    bounds.iter().map(|(name, bound)| (name.as_str().into(), Amount::from_nanos(*bound))).collect()
}

/// Answers a question; `None` where the accounting has no answer to it.
fn answer(accounting: &Accounting, cluster: &Cluster, question: &str) -> Result<Option<String>, Fault> {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let words: Vec<&str> = question.split_whitespace().collect();
    let quota = accounting.quota();
    Ok(Some(match words.as_slice() {
        ["fits", queue, asked] => match quota.fits(queue, &resources(&read_amounts(asked)?)) {
            Ok(()) => yes(true),
            Err(refusal) => {
                let (at, dimension, rule) = read_refusal(&refusal);
                ["no at", at.as_str(), dimension.as_deref().unwrap_or_default(), rule].join(" ").replace("  ", " ")
            }
        },
        ["admit", group] => return Ok(admit(accounting, cluster, group)),
        ["walk", queue] => quota.tree().walk(queue).0.join(" "),
        ["broken", queue] => quota.fault(queue).map_or_else(|| yes(false), |fault| format!("at {}", fault.queue)),
        ["state", queue] => written(quota.state(queue)).to_owned(),
        ["may-stay", queue, asked] => yes(quota.within_entitlement(queue, &resources(&read_amounts(asked)?)).is_ok()),
        ["over", queue, dimension] => {
            let shares = quota.shares(Waiting::Of(&waiting(cluster)));
            yes(shares.over(queue, quota.used(queue)).any(|over| over.as_str() == *dimension))
        }
        [what, queue, dimension] => {
            let view = quota.queue(queue);
            let of = |resources: &Resources| resources.get(dimension);
            let taken = of(view.used).plus(of(view.reserved));
            write_amount(
                match *what {
                    "used" => of(view.used),
                    "reserved" => of(view.reserved),
                    "taken" => taken,
                    "held" => taken.plus(of(view.unused_guarantee)),
                    "right" => of(quota.entitlements().of(queue)),
                    "floor" if *queue != "root" => of(view.floor),
                    // It is the floor of root (S2).
                    "floor" | "share" => of(quota.shares(Waiting::Of(&waiting(cluster))).of(queue)),
                    _ => return Ok(None),
                }
                .nanos(),
            )
        }
        _ => return Ok(None),
    }))
}

/// Answers A2 to A4 for a PodGroup; `None` for one that asks for nothing (A1).
fn admit(accounting: &Accounting, cluster: &Cluster, group: &str) -> Option<String> {
    let queue = &cluster.groups.get(group).filter(|_| reference_admit(cluster, group) != Verdict::Nothing)?.queue;
    let asked = resources(&asks(cluster, group));
    let mut accounting = accounting.clone();
    let mut trial = accounting.trial();
    trial.reserve(group, queue, &Resources::new());
    let quota = trial.accounting().quota();
    Some(match quota.fits(queue, &asked) {
        Ok(()) => "yes".to_owned(),
        Err(_) if quota.can_reclaim(queue, &asked, &quota.shares(Waiting::Of(&waiting(&cluster.without_reservation(group))))) => {
            "by right".to_owned()
        }
        Err(refusal) => {
            let (at, dimension, rule) = read_refusal(&refusal);
            ["no at", at.as_str(), dimension.as_deref().unwrap_or_default(), rule].join(" ").replace("  ", " ")
        }
    })
}

/// Returns the waiting amounts (S1), as the cycle computes them.
fn waiting(cluster: &Cluster) -> BTreeMap<Arc<str>, Resources> {
    let mut waiting = BTreeMap::<Arc<str>, Resources>::new();
    for (name, group) in &cluster.groups {
        waiting.entry(group.queue.as_str().into()).or_default().add(&resources(&wanted(cluster, name)));
    }
    waiting
}
