//! Compares the accounting with the rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, QueueRefusal, QueueState, Quota, ROOT_QUEUE, Shares, Waiting, Why};
use crate::resources::Resources;

use super::events::Question;
use super::facts::{Amounts, DIMENSIONS, Facts, NAMES, QUEUES, ROOT, add};
use super::fast_reference::{FastReference, Refusal};
use super::pair::{Pair, compare_pods, resources, same};

impl Pair {
    /// Compares one queue's sums, whether it is broken or closed, and whether the amounts fit.
    pub(super) fn compare_briefly(&self, reference: &FastReference, questions: &[Question]) -> Result<(), String> {
        let quota = self.accounting.quota();
        for question in questions {
            compare_queue(quota, reference, question.queue)?;
            let asked = resources(&question.request);
            let is = quota.fits(NAMES[question.queue], &asked).map_err(|refusal| read_refusal(&refusal));
            let ought = reference.fits(&self.facts, question.queue, &question.request).map_err(write);
            same(format_args!("{} fits {asked:?}", NAMES[question.queue]), is, ought)?;
        }
        Ok(())
    }

    /// Compares every queue, every pod, the audit, the shares and the entitlements.
    pub(super) fn compare_wholly(&self, reference: &FastReference, questions: &[Question]) -> Result<(), String> {
        let quota = self.accounting.quota();
        (0..QUEUES).try_for_each(|queue| compare_queue(quota, reference, queue))?;
        compare_pods(&self.accounting, &self.facts)?;
        let report = self.accounting.audit();
        if !report.is_clean() {
            return Err(format!("the audit reports {:?}", report.differences));
        }
        let shares = quota.shares(Waiting::Of(&waiting(&self.facts)));
        let by_rule = reference.shares(&self.facts, false);
        compare_shares("share", &shares, &by_rule)?;
        for (name, (used, share)) in NAMES.iter().zip(reference.used.iter().zip(&by_rule)) {
            let over: Vec<&str> = shares.over(name, quota.used(name)).map(|dimension| dimension.as_str()).collect();
            let ought: Vec<&str> = (0..3).filter(|at| used[*at] > share[*at]).map(|at| DIMENSIONS[at]).collect();
            same(format_args!("{name} is over its share"), over, ought)?;
        }
        for question in questions
            .iter()
            .filter(|question| reference.fits(&self.facts, question.queue, &question.request).is_err_and(|no| no.1.is_some()))
        {
            let is = quota.can_reclaim(NAMES[question.queue], &resources(&question.request), &shares);
            same(
                format_args!("{question:?} can be reclaimed"),
                is,
                reference.can_reclaim(&self.facts, question.queue, &question.request, &by_rule),
            )?;
        }
        let entitlements = reference.shares(&self.facts, true);
        compare_shares("entitlement", quota.entitlements(), &entitlements)?;
        for question in questions.iter().filter(|question| quota.path(NAMES[question.queue]).is_ok()) {
            let within = |queue: &usize| {
                let mut used = reference.used[*queue];
                add(&mut used, &question.request);
                (0..3).all(|at| question.request[at] == 0 || used[at] <= entitlements[*queue][at])
            };
            let is = quota.within_entitlement(NAMES[question.queue], &resources(&question.request)).is_ok();
            same(format_args!("{question:?} is within the entitlement"), is, reference.ways[question.queue].iter().all(within))?;
        }
        Ok(())
    }
}

fn compare_queue(quota: &Quota, reference: &FastReference, queue: usize) -> Result<(), String> {
    let name = NAMES[queue];
    let view = quota.queue(name);
    let [used, reserved] = [view.used, view.reserved].map(amounts);
    let mut held = amounts(view.unused_guarantee);
    add(&mut held, &used);
    add(&mut held, &reserved);
    let floor = if queue == ROOT { [0; 3] } else { reference.floor[queue] };
    let ought = [reference.used[queue], reference.reserved[queue], floor, reference.held[queue]];
    let is = [used, reserved, amounts(view.floor), held];
    if is != ought {
        return Err(format!("{name}: used, reserved, floor and held are {is:?} in the accounting, {ought:?} by the rules"));
    }
    let broken = quota.fault(name).map(|fault| fault.queue);
    if broken.as_deref() != reference.broken[queue].map(|at| NAMES[at]) {
        return Err(format!("{name} is broken: {broken:?}, by the rules {:?}", reference.broken[queue]));
    }
    let closed = quota.closed_by(name);
    if closed.as_deref() != reference.closed[queue].map(|at| NAMES[at]) {
        return Err(format!("{name} is closed: {closed:?}, by the rules {:?}", reference.closed[queue]));
    }
    same(name, written(quota.state(name)), reference.state(queue))
}

fn compare_shares(what: &str, shares: &Shares, ought: &[Amounts; QUEUES]) -> Result<(), String> {
    NAMES.iter().zip(ought).try_for_each(|(name, ought)| same(format_args!("the {what} of {name}"), amounts(shares.of(name)), *ought))
}

fn waiting(facts: &Facts) -> BTreeMap<Arc<str>, Resources> {
    let mut waiting = BTreeMap::<Arc<str>, Resources>::new();
    for (queue, wants) in (0..facts.waits.len()).filter_map(|group| facts.wants(group)) {
        waiting.entry(NAMES[queue].into()).or_default().add(&resources(&wants));
    }
    waiting
}

fn amounts(resources: &Resources) -> Amounts {
    DIMENSIONS.map(|name| resources.get(name).nanos())
}

/// Returns the state as scenarios write it (O3).
pub(in crate::accounting) fn written(state: QueueState) -> &'static str {
    match state {
        QueueState::Open => "Open",
        QueueState::Closing => "Closing",
        QueueState::Closed => "Closed",
    }
}

/// Returns the queue that refuses, the dimension, and the rule.
pub(in crate::accounting) fn read_refusal(refusal: &QueueRefusal) -> (String, Option<String>, &'static str) {
    match refusal {
        QueueRefusal::Fault(fault) => (fault.queue.to_string(), None, if fault.why == Why::NotLeaf { "T1" } else { "T2" }),
        QueueRefusal::Closed { queue } => (queue.to_string(), None, "O2"),
        QueueRefusal::Ceiling(Ceiling { queue, dimension, unused_guarantee, bound, .. }) => {
            let rule = if *bound == Bound::Entitlement {
                "S3"
            } else if unused_guarantee.is_zero() {
                "F1"
            } else {
                "F5"
            };
            debug_assert!(*bound != Bound::Cluster || **queue == *ROOT_QUEUE);
            (queue.to_string(), Some(dimension.to_string()), rule)
        }
    }
}

fn write((queue, dimension, rule): Refusal) -> (String, Option<String>, &'static str) {
    (NAMES[queue].to_owned(), dimension.map(|at| DIMENSIONS[at].to_owned()), rule)
}

/// Compares the fast reference with the slow one: one queue in one dimension, and whether an amount fits.
pub(super) fn ask_the_reference(facts: &Facts, reference: &FastReference, question: Question, at: usize) -> Result<(), String> {
    let (queue, name, dimension) = (question.queue, NAMES[question.queue], DIMENSIONS[at]);
    let (shares, entitlements) = (reference.shares(facts, false), reference.shares(facts, true));
    let measures = [
        ("used", reference.used[queue]),
        ("reserved", reference.reserved[queue]),
        ("floor", reference.floor[queue]),
        ("held", reference.held[queue]),
        ("share", shares[queue]),
        ("right", entitlements[queue]),
    ];
    let amount = |amount: i128| if amount == 0 { "0".to_owned() } else { format!("{amount}n") };
    let mut computed: Vec<(String, String)> =
        measures.map(|(what, of)| (format!("{what} {name} {dimension}"), amount(of[at]))).into_iter().collect();
    computed.push((format!("state {name}"), reference.state(queue).to_owned()));
    computed.push((format!("broken {name}"), reference.broken[queue].map_or("no".to_owned(), |at| format!("at {}", NAMES[at]))));
    let fits = match reference.fits(facts, queue, &question.request).map_err(write) {
        Ok(()) => "yes".to_owned(),
        Err((at, None, rule)) => format!("no at {at} {rule}"),
        Err((at, Some(dimension), rule)) => format!("no at {at} {dimension} {rule}"),
    };
    computed.push((format!("fits {name} {}", super::facts::amounts(&question.request)), fits));
    let (questions, computed): (Vec<_>, Vec<_>) = computed.into_iter().unzip();
    let answers = crate::accounting::reference::answers(&facts.text(), &questions);
    for ((question, computed), answer) in questions.iter().zip(&computed).zip(&answers) {
        if computed != answer {
            return Err(format!("{question}: the fast reference answers {computed}, the slow one {answer} for\n{}", facts.text()));
        }
    }
    Ok(())
}
