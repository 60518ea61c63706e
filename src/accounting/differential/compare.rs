//! Compares the accounting with the rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, QueueRefusal, QueueState, Quota, ROOT_QUEUE, Waiting, Why};
use crate::resources::Resources;

use super::events::Question;
use super::facts::{Amounts, DIMENSIONS, Facts, NAMES, by_name};
use super::pair::{Pair, compare_pods, resources, same};
use crate::accounting::reference::ByRules;

impl Pair {
    /// Compares one queue's sums, whether it is broken or closed, and whether the amounts fit.
    pub(super) fn compare_briefly(&self, rules: &ByRules, questions: &[Question]) -> Result<(), String> {
        let quota = self.accounting.quota();
        for question in questions {
            let (name, asked) = (NAMES[question.queue], resources(&question.request));
            compare_queue(quota, rules, name)?;
            let is = quota.fits(name, &asked).map_err(|refusal| read_refusal(&refusal));
            same(format_args!("{name} fits {asked:?}"), is, rules.fits(name, &by_name(&question.request)))?;
        }
        Ok(())
    }

    /// Compares every queue, also whether this amount fits, every pod, the audit, the shares and the entitlements.
    pub(super) fn compare_wholly(&self, rules: &ByRules, request: &Amounts) -> Result<(), String> {
        let quota = self.accounting.quota();
        NAMES.iter().try_for_each(|name| compare_queue(quota, rules, name))?;
        compare_pods(&self.accounting, &self.facts)?;
        let report = self.accounting.audit();
        if !report.is_clean() {
            return Err(format!("the audit reports {:?}", report.differences));
        }
        let shares = quota.shares(Waiting::Of(&waiting(&self.facts)));
        for name in NAMES {
            let (share, used) = (by_dimension(|at| rules.share(name, at)), by_dimension(|at| rules.used(name, at)));
            same(format_args!("the share of {name}"), amounts(shares.of(name)), share)?;
            let over: Vec<&str> = shares.over(name, quota.used(name)).map(|dimension| dimension.as_str()).collect();
            let ought: Vec<&str> = (0..3).filter(|at| used[*at] > share[*at]).map(|at| DIMENSIONS[at]).collect();
            same(format_args!("{name} is over its share"), over, ought)?;
            let entitlement = by_dimension(|at| rules.entitlement(name, at));
            same(format_args!("the entitlement of {name}"), amounts(quota.entitlements().of(name)), entitlement)?;
        }
        // Every queue is compared, because reclaim can free enough in few of them.
        let (asked, by_rules) = (resources(request), by_name(request));
        for name in NAMES {
            let fits = rules.fits(name, &by_rules);
            if fits.as_ref().is_err_and(|(_, dimension, _)| dimension.is_some()) {
                let is = quota.can_reclaim(name, &asked, &shares);
                same(format_args!("{name} can reclaim {asked:?}"), is, rules.can_reclaim(name, &by_rules))?;
            }
            same(format_args!("{name} fits {asked:?}"), quota.fits(name, &asked).map_err(|refusal| read_refusal(&refusal)), fits)?;
            if quota.path(name).is_ok() {
                let is = quota.within_entitlement(name, &asked).is_ok();
                same(format_args!("{asked:?} is within the entitlement of {name}"), is, rules.is_within_entitlement(name, &by_rules))?;
            }
        }
        Ok(())
    }
}

fn compare_queue(quota: &Quota, rules: &ByRules, name: &str) -> Result<(), String> {
    let view = quota.queue(name);
    let [used, reserved] = [view.used, view.reserved].map(amounts);
    let mut held = amounts(view.unused_guarantee);
    held.iter_mut().zip(used).zip(reserved).for_each(|((held, used), reserved)| *held += used + reserved);
    // The floor of root is the cluster, and the accounting does not show it.
    let floor = by_dimension(|at| if name == ROOT_QUEUE { 0 } else { rules.floor(name, at) });
    let [by_pods, by_groups, ought] = [ByRules::used, ByRules::reserved, ByRules::held].map(|of| by_dimension(|at| of(rules, name, at)));
    let (is, ought) = ([used, reserved, amounts(view.floor), held], [by_pods, by_groups, floor, ought]);
    if is != ought {
        return Err(format!("{name}: used, reserved, floor and held are {is:?} in the accounting, {ought:?} by the rules"));
    }
    same(format_args!("{name} is broken"), quota.fault(name).map(|fault| fault.queue).as_deref(), rules.broken(name))?;
    same(format_args!("{name} is closed"), quota.closed_by(name).as_deref(), rules.closed_by(name))?;
    same(name, written(quota.state(name)), rules.state(name))
}

fn by_dimension(of: impl Fn(&str) -> i128) -> Amounts {
    DIMENSIONS.map(of)
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

/// Returns the state as scenarios write it (O1).
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
        QueueRefusal::Fault(fault) => (fault.queue.to_string(), None, if fault.why == Why::NotLeaf { "T1" } else { "T1b" }),
        QueueRefusal::Closed { queue } => (queue.to_string(), None, "O1"),
        QueueRefusal::Ceiling(Ceiling { queue, dimension, unused_guarantee, bound, .. }) => {
            let rule = if *bound == Bound::Minimums {
                "A7"
            } else if *bound == Bound::Entitlement {
                "S3"
            } else if unused_guarantee.is_zero() {
                "F1"
            } else {
                "F3"
            };
            debug_assert!(*bound != Bound::Cluster || **queue == *ROOT_QUEUE);
            (queue.to_string(), Some(dimension.to_string()), rule)
        }
    }
}
