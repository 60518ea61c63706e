//! Who holds the quota that a PodGroup waits for? The PodGroups that have reserved it, and the pods that are terminating, by name.

use std::fmt::Write;

use crate::cycle::explain::Refusal;

use super::Cache;

/// How many are named.
const NAMED: usize = 3;

impl Cache {
    /// Returns the end of a message about a ceiling: who has reserved, and which terminating pods still count; empty for other refusals.
    pub(super) fn who_holds(&self, refusal: &Refusal) -> String {
        let (Refusal::Ceiling(ceiling) | Refusal::AfterOthers { ceiling, .. }) = refusal.cause() else { return String::new() };
        let (quota, mut text) = (self.accounting.quota(), String::new());
        let (queues, dimension) = (quota.tree().subtree(&ceiling.queue), &ceiling.dimension);
        if ceiling.reserved.is_positive() {
            let reserves = |(_, amounts): &(&str, &crate::resources::Resources)| amounts.get(dimension).is_positive();
            let mut holders =
                queues.iter().flat_map(|queue| quota.reservations_in(queue)).filter(reserves).map(|(group, _)| group.to_owned());
            list(&mut text, "reserved by PodGroup", &mut holders);
        }
        let leaving = self.leaving.keys().filter_map(|uid| Some((self.pods.get(uid)?, quota.charge_of(uid)?)));
        let holds = leaving.filter(|(_, (queue, amounts))| amounts.get(dimension).is_positive() && queues.iter().any(|of| **of == **queue));
        let mut pods = holds.map(|(member, _)| {
            let facts = &member.facts;
            format!("{}/{} on node \"{}\"", facts.namespace, facts.name, facts.node.as_deref().unwrap_or_default())
        });
        list(&mut text, "still terminating: pod", &mut pods);
        text
    }
}

/// Adds the first of them. No more are looked for: this is written for every pod that waits.
fn list(text: &mut String, what: &str, all: &mut impl Iterator<Item = String>) {
    let named: Vec<String> = all.take(NAMED).collect();
    if !named.is_empty() {
        let more = if all.next().is_some() { " and more" } else { "" };
        let _written: Result<(), _> = write!(text, "; {what} {}{more}", named.join(", "));
    }
}
