//! Who holds the quota that a PodGroup waits for? The PodGroups that have reserved it, and the pods that are terminating, by name.

use std::fmt::Write;

use crate::api::Uid;
use crate::cycle::explain::Refusal;
use crate::resources::ResourceName;

use super::{Cache, Member};

/// What stands before the names of PodGroups, and of pods.
const RESERVED_BY: &str = "reserved by PodGroup";
const TERMINATING: &str = "still terminating: pod";
/// How many are named.
const NAMED: usize = 3;
/// How many terminating pods are looked at.
const LOOKED_AT: usize = 1_000;

/// Who holds a part of the quota that a queue lacks, beside the pods that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cycle) struct HeldBy {
    /// PodGroups that have reserved it.
    pub(in crate::cycle) reservations: bool,
    /// Pods that are terminating.
    pub(in crate::cycle) terminating: bool,
}

impl Cache {
    /// Returns the end of a message about a ceiling: who has reserved, and which terminating pods still count; empty for other refusals.
    pub(super) fn who_holds(&self, refusal: &Refusal) -> String {
        let (Refusal::Ceiling(ceiling) | Refusal::AfterOthers { ceiling, .. }) = refusal.cause() else { return String::new() };
        let (quota, mut text, dimension) = (self.accounting.quota(), String::new(), &ceiling.dimension);
        if ceiling.reserved.is_positive() {
            let queues = quota.tree().subtree(&ceiling.queue);
            let reserves = |(_, amounts): &(&str, &crate::resources::Resources)| amounts.get(dimension).is_positive();
            let mut holders =
                queues.iter().flat_map(|queue| quota.reservations_in(queue)).filter(reserves).map(|(group, _)| group.to_owned());
            list(&mut text, RESERVED_BY, &mut holders);
        }
        let mut pods = self.terminating_in(&ceiling.queue, dimension).map(|member| {
            let facts = &member.facts;
            format!("{}/{} on node \"{}\"", facts.namespace, facts.name, facts.node.as_deref().unwrap_or_default())
        });
        list(&mut text, TERMINATING, &mut pods);
        text
    }

    /// Returns who holds some of the quota of the queue or of those below it, beside the pods that run.
    pub(in crate::cycle) fn held_by(&self, queue: &str, dimension: &ResourceName) -> HeldBy {
        let reservations = self.accounting.quota().reserved(queue).get(dimension).is_positive();
        HeldBy { reservations, terminating: self.terminating_in(queue, dimension).next().is_some() }
    }

    /// The terminating pods that are charged to the queue or to one below it.
    fn terminating_in<'a>(&'a self, queue: &'a str, dimension: &'a ResourceName) -> impl Iterator<Item = &'a Member> {
        let quota = self.accounting.quota();
        let holds = move |uid: &&Uid| {
            quota.charge_of(uid).is_some_and(|(of, amounts)| {
                amounts.get(dimension).is_positive() && quota.tree().way(of).iter().any(|level| **level == *queue)
            })
        };
        self.leaving.keys().take(LOOKED_AT).filter(holds).filter_map(|uid| self.pods.get(uid))
    }
}

/// Whether the two messages differ at most in who is named as holding quota. That is no news: reservations begin and end in turn.
#[must_use]
pub fn differ_in_holders_alone(one: &str, other: &str) -> bool {
    let name = |part: &str| [RESERVED_BY, TERMINATING].iter().find(|what| part.starts_with(**what)).map_or(part.len(), |what| what.len());
    let mut others = other.split("; ");
    one.split("; ").all(|part| others.next().is_some_and(|other| part.get(..name(part)) == other.get(..name(other))))
        && others.next().is_none()
}

/// Adds the first of them. No more are looked for: this is written for every pod that waits.
fn list(text: &mut String, what: &str, all: &mut impl Iterator<Item = String>) {
    let named: Vec<String> = all.take(NAMED).collect();
    if !named.is_empty() {
        let more = if all.next().is_some() { " and more" } else { "" };
        let _written: Result<(), _> = write!(text, "; {what} {}{more}", named.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_holder_is_no_news_and_none_is() {
        let says = |holders: &str| format!("2 further members wait: queue \"q\": requested 1, reserved 1{holders}; more");
        let (one, other) = (says("; reserved by PodGroup ns/a"), says("; reserved by PodGroup ns/b, ns/c and more"));
        assert!(differ_in_holders_alone(&one, &other));
        assert!(differ_in_holders_alone(
            &says("; still terminating: pod ns/a on node \"n\""),
            &says("; still terminating: pod ns/b on node \"n\"")
        ));
        assert!(!differ_in_holders_alone(&one, &says("")) && !differ_in_holders_alone(&says(""), &one));
        assert!(!differ_in_holders_alone(&one, &other.replace("reserved 1", "reserved 2")));
        assert!(!differ_in_holders_alone(&one, &says("; still terminating: pod ns/a on node \"n\"")));
    }
}
