//! What holds the quota that a PodGroup waits for, beside the pods that run? By name, each with its amount: PodGroups that have reserved it,
//! or for which places are nominated, pods that are terminating, and queues with a guarantee.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling};
use crate::api::{GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::resources::{Amount, ResourceName, Resources, quantity};

use super::{Cache, Member};

/// What stands before the names of the holders.
const RESERVED_BY: &str = "reserved by PodGroup";
const NOMINATED_FOR: &str = "nominated for PodGroup";
const TERMINATING: &str = "still terminating: pod";
const GUARANTEED_TO: &str = "guaranteed to queue";
/// Those that begin and end in turn, so that another name is no news.
const IN_TURN: [&str; 2] = [RESERVED_BY, NOMINATED_FOR];
/// How many are named.
const NAMED: usize = 3;
/// How many pods are looked at.
const LOOKED_AT: usize = 1_000;

impl Cache {
    /// Returns the end of a message about a ceiling: what holds it, with amounts, but for the PodGroup itself. Empty for other refusals.
    pub(super) fn who_holds(&self, own: Option<&GroupKey>, refusal: &Refusal) -> String {
        let (Refusal::Ceiling(ceiling) | Refusal::AfterOthers { ceiling, .. }) = refusal.cause() else { return String::new() };
        let (mut text, dimension) = (String::new(), &ceiling.dimension);
        if ceiling.reserved.is_positive() {
            let holders = if ceiling.bound == Bound::Minimums { self.come_first(own, dimension) } else { self.reserving(ceiling) };
            let own = own.map(ToString::to_string);
            list(&mut text, RESERVED_BY, dimension, &mut holders.into_iter().filter(|(group, _)| Some(group) != own.as_ref()));
        }
        let mut nominated: BTreeMap<String, Amount> = BTreeMap::new();
        for (member, amount) in self.charged_in(self.nominated.iter(), &ceiling.queue, dimension) {
            let sum = nominated.entry(member.facts.group.to_string()).or_default();
            *sum = sum.plus(amount);
        }
        list(&mut text, NOMINATED_FOR, dimension, &mut nominated.into_iter());
        let mut pods = self.charged_in(self.leaving.keys(), &ceiling.queue, dimension).map(|(member, amount)| {
            let facts = &member.facts;
            (format!("{}/{} on node \"{}\"", facts.namespace, facts.name, facts.node.as_deref().unwrap_or_default()), amount)
        });
        list(&mut text, TERMINATING, dimension, &mut pods);
        if ceiling.unused_guarantee.is_positive() {
            list(&mut text, GUARANTEED_TO, dimension, &mut self.guaranteed(ceiling));
        }
        text
    }

    /// What PodGroups have reserved in the queue that refuses, and below it.
    fn reserving(&self, ceiling: &Ceiling) -> Vec<(String, Amount)> {
        let quota = self.accounting.quota();
        let queues = quota.tree().subtree(&ceiling.queue);
        let reservations = queues.iter().flat_map(|queue| quota.reservations_in(queue));
        reservations.map(|(group, amounts)| (group.to_owned(), amounts.get(&ceiling.dimension))).collect()
    }

    /// What comes before further members of the PodGroup (A7): what is reserved in other queues only as far as it counts for them.
    fn come_first(&self, own: Option<&GroupKey>, dimension: &ResourceName) -> Vec<(String, Amount)> {
        let group = own.and_then(|key| self.groups.get(key));
        let Some((group, facts)) = group.and_then(|group| Some((group, group.facts.as_ref()?))) else { return Vec::new() };
        let oldest = self.oldest_waiting(group).unwrap_or_default();
        let mut counted = self.first_before(oldest).counted(self.accounting.quota());
        let holders = self.reserving_first(oldest).map(|(key, queue, reserved)| {
            let mut amount = reserved.get(dimension);
            if **queue != *facts.queue {
                let left = counted.entry(Arc::clone(queue)).or_default();
                amount = amount.min(left.get(dimension));
                left.sub(&Resources::new().with(dimension.as_str(), amount));
            }
            (key.to_string(), amount)
        });
        holders.collect()
    }

    /// The queues below the one that refuses with a part of the unused guarantees, each with what is its own: what no queue below it keeps.
    fn guaranteed<'a>(&'a self, ceiling: &'a Ceiling) -> impl Iterator<Item = (String, Amount)> + 'a {
        let quota = self.accounting.quota();
        let kept = |queue: &str| {
            let view = quota.queue(queue);
            if ceiling.bound == Bound::Cluster { view.unfilled } else { view.unused_guarantee }.get(&ceiling.dimension)
        };
        let below = quota.tree().subtree(&ceiling.queue).into_iter().filter(|queue| *queue != ceiling.queue);
        below.map(move |queue| {
            let of_children = quota.tree().children(&queue).fold(Amount::ZERO, |sum, child| sum.plus(kept(child)));
            (format!("\"{queue}\""), kept(&queue).minus(of_children))
        })
    }

    /// Whether a message has no news for the reader of the former one: they differ at most in what is named as holding quota, and those that
    /// the former one names exist. Reservations begin and end in turn.
    #[must_use]
    pub fn is_no_news(&self, former: &str, message: &str) -> bool {
        former == message || differ_in_holders_alone(former, message) && !self.names_who_is_gone(former)
    }

    /// Whether the message names a PodGroup as holding quota that does not exist.
    fn names_who_is_gone(&self, message: &str) -> bool {
        let lists = message.split("; ").filter_map(|part| part.strip_prefix(RESERVED_BY));
        let names = lists.flat_map(|list| list.split(", ")).filter_map(|named| named.trim_start().split_once(' ')?.0.split_once('/'));
        let exists = |key: &GroupKey| self.groups.get(key).is_some_and(|group| group.facts.is_some());
        names.map(|(namespace, name)| GroupKey::new(namespace, name)).any(|key| !exists(&key))
    }

    /// Those of these pods that are charged to the queue or to one below it, with the amount.
    fn charged_in<'a>(
        &'a self,
        pods: impl Iterator<Item = &'a Uid> + 'a,
        queue: &'a str,
        dimension: &'a ResourceName,
    ) -> impl Iterator<Item = (&'a Member, Amount)> {
        let quota = self.accounting.quota();
        let charged = move |uid: &'a Uid| {
            let (of, amounts) = quota.charge_of(uid)?;
            let amount = amounts.get(dimension);
            (amount.is_positive() && quota.tree().way(of).iter().any(|level| **level == *queue)).then_some((uid, amount))
        };
        pods.take(LOOKED_AT).filter_map(charged).filter_map(|(uid, amount)| Some((self.pods.get(uid)?, amount)))
    }
}

/// Whether the two messages differ at most in what is named as holding quota.
fn differ_in_holders_alone(one: &str, other: &str) -> bool {
    let name = |part: &str| IN_TURN.iter().find(|what| part.starts_with(**what)).map_or(part.len(), |what| what.len());
    let mut others = other.split("; ");
    one.split("; ").all(|part| others.next().is_some_and(|other| part.get(..name(part)) == other.get(..name(other))))
        && others.next().is_none()
}

/// Adds the first of them with an amount above 0. No more are looked for: this is written for every pod that waits.
fn list(text: &mut String, what: &str, dimension: &ResourceName, all: &mut impl Iterator<Item = (String, Amount)>) {
    let mut all = all.filter(|(_, amount)| amount.is_positive());
    let shown = |(name, amount): (String, Amount)| format!("{name} ({})", quantity::format(amount, dimension.style()));
    let named: Vec<String> = all.by_ref().take(NAMED).map(shown).collect();
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
        let terminating = |name: &str| says(&format!("; still terminating: pod ns/{name} on node \"n\""));
        assert!(!differ_in_holders_alone(&terminating("a"), &terminating("b")), "a pod that is gone is not waited for");
        assert!(!differ_in_holders_alone(&one, &says("")) && !differ_in_holders_alone(&says(""), &one));
        assert!(!differ_in_holders_alone(&one, &other.replace("reserved 1", "reserved 2")));
        assert!(!differ_in_holders_alone(&one, &says("; still terminating: pod ns/a on node \"n\"")));
    }
}
