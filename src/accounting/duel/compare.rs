//! Do the books say what the rules say?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, QueueRefusal, QueueState, Quota, ROOT_QUEUE, Shares, Waiting, Why};
use crate::resources::Resources;

use super::both::{Both, compare_pods, resources, same};
use super::events::Question;
use super::facts::{Amounts, DIMENSIONS, Facts, NAMES, QUEUES, ROOT, add};
use super::sheet::{Refusal, Sheet};

impl Both {
    /// One queue's sums, whether it is broken or closed, and whether so much fits.
    pub(super) fn compare_briefly(&self, sheet: &Sheet, questions: &[Question]) -> Result<(), String> {
        let quota = self.books.quota();
        for question in questions {
            compare_queue(quota, sheet, question.queue)?;
            let asked = resources(&question.asked);
            let is = quota.fits(NAMES[question.queue], &asked).map_err(|refusal| read_refusal(&refusal));
            let ought = sheet.fits(&self.facts, question.queue, &question.asked).map_err(write);
            same(format_args!("{} fits {asked:?}", NAMES[question.queue]), is, ought)?;
        }
        Ok(())
    }

    /// Every queue, every pod, the audit, the shares, the rights.
    pub(super) fn compare_wholly(&self, sheet: &Sheet, questions: &[Question]) -> Result<(), String> {
        let quota = self.books.quota();
        (0..QUEUES).try_for_each(|queue| compare_queue(quota, sheet, queue))?;
        compare_pods(&self.books, &self.facts)?;
        let report = self.books.audit();
        if !report.is_clean() {
            return Err(format!("the audit says {:?}", report.differences));
        }
        let shares = quota.shares(Waiting::Of(&waiting(&self.facts)));
        let by_rule = sheet.shares(&self.facts, false);
        compare_shares("share", &shares, &by_rule)?;
        for (name, (used, share)) in NAMES.iter().zip(sheet.used.iter().zip(&by_rule)) {
            let over: Vec<&str> = shares.over(name, quota.used(name)).map(|dimension| dimension.as_str()).collect();
            let ought: Vec<&str> = (0..3).filter(|at| used[*at] > share[*at]).map(|at| DIMENSIONS[at]).collect();
            same(format_args!("{name} is over its share"), over, ought)?;
        }
        for question in
            questions.iter().filter(|question| sheet.fits(&self.facts, question.queue, &question.asked).is_err_and(|no| no.1.is_some()))
        {
            let is = quota.owed(NAMES[question.queue], &resources(&question.asked), &shares);
            same(format_args!("{question:?} is owed"), is, sheet.owed(&self.facts, question.queue, &question.asked, &by_rule))?;
        }
        let rights = sheet.shares(&self.facts, true);
        compare_shares("right", quota.rights(), &rights)?;
        for question in questions.iter().filter(|question| quota.path(NAMES[question.queue]).is_ok()) {
            let within = |queue: &usize| {
                let mut used = sheet.used[*queue];
                add(&mut used, &question.asked);
                (0..3).all(|at| question.asked[at] == 0 || used[at] <= rights[*queue][at])
            };
            let is = quota.by_right(NAMES[question.queue], &resources(&question.asked)).is_ok();
            same(format_args!("{question:?} is within the right"), is, sheet.ways[question.queue].iter().all(within))?;
        }
        Ok(())
    }
}

fn compare_queue(quota: &Quota, sheet: &Sheet, queue: usize) -> Result<(), String> {
    let name = NAMES[queue];
    let view = quota.queue(name);
    let [used, reserved] = [view.used, view.reserved].map(amounts);
    let mut held = amounts(view.kept);
    add(&mut held, &used);
    add(&mut held, &reserved);
    let floor = if queue == ROOT { [0; 3] } else { sheet.floor[queue] };
    let ought = [sheet.used[queue], sheet.reserved[queue], floor, sheet.held[queue]];
    let is = [used, reserved, amounts(view.floor), held];
    if is != ought {
        return Err(format!("{name}: used, reserved, floor and held are {is:?} in the books, {ought:?} by the rules"));
    }
    let broken = quota.fault(name).map(|fault| fault.queue);
    if broken.as_deref() != sheet.broken[queue].map(|at| NAMES[at]) {
        return Err(format!("{name} is broken: {broken:?}, by the rules {:?}", sheet.broken[queue]));
    }
    let closed = quota.closed_by(name);
    if closed.as_deref() != sheet.closed[queue].map(|at| NAMES[at]) {
        return Err(format!("{name} is closed: {closed:?}, by the rules {:?}", sheet.closed[queue]));
    }
    same(name, written(quota.state(name)), sheet.state(queue))
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

/// As scenarios write it (O3).
pub(in crate::accounting) fn written(state: QueueState) -> &'static str {
    match state {
        QueueState::Open => "Open",
        QueueState::Closing => "Closing",
        QueueState::Closed => "Closed",
    }
}

/// Who refuses, in which dimension, by which rule.
pub(in crate::accounting) fn read_refusal(refusal: &QueueRefusal) -> (String, Option<String>, &'static str) {
    match refusal {
        QueueRefusal::Fault(fault) => (fault.queue.to_string(), None, if fault.why == Why::NotLeaf { "T1" } else { "T2" }),
        QueueRefusal::Closed { queue } => (queue.to_string(), None, "O2"),
        QueueRefusal::Ceiling(Ceiling { queue, dimension, kept, bound, .. }) => {
            let rule = if *bound == Bound::Right {
                "S3"
            } else if kept.is_zero() {
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

/// Of one queue in one dimension, and whether an amount fits.
pub(super) fn ask_the_reference(facts: &Facts, sheet: &Sheet, question: Question, at: usize) -> Result<(), String> {
    let (queue, name, dimension) = (question.queue, NAMES[question.queue], DIMENSIONS[at]);
    let (shares, rights) = (sheet.shares(facts, false), sheet.shares(facts, true));
    let measures = [
        ("used", sheet.used[queue]),
        ("reserved", sheet.reserved[queue]),
        ("floor", sheet.floor[queue]),
        ("held", sheet.held[queue]),
        ("share", shares[queue]),
        ("right", rights[queue]),
    ];
    let amount = |amount: i128| if amount == 0 { "0".to_owned() } else { format!("{amount}n") };
    let mut said: Vec<(String, String)> =
        measures.map(|(what, of)| (format!("{what} {name} {dimension}"), amount(of[at]))).into_iter().collect();
    said.push((format!("state {name}"), sheet.state(queue).to_owned()));
    said.push((format!("broken {name}"), sheet.broken[queue].map_or("no".to_owned(), |at| format!("at {}", NAMES[at]))));
    let fits = match sheet.fits(facts, queue, &question.asked).map_err(write) {
        Ok(()) => "yes".to_owned(),
        Err((at, None, rule)) => format!("no at {at} {rule}"),
        Err((at, Some(dimension), rule)) => format!("no at {at} {dimension} {rule}"),
    };
    said.push((format!("fits {name} {}", super::facts::amounts(&question.asked)), fits));
    let (questions, said): (Vec<_>, Vec<_>) = said.into_iter().unzip();
    let answers = crate::accounting::reference::answers(&facts.text(), &questions);
    for ((question, said), answer) in questions.iter().zip(&said).zip(&answers) {
        if said != answer {
            return Err(format!("{question}: the sheet says {said}, the reference {answer} of\n{}", facts.text()));
        }
    }
    Ok(())
}
