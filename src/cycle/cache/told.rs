//! What is a waiting pod told, and its PodGroup? What nodes said, or what its queue said, whichever decides whether a further node would help.
//!
//! Of the pods that wait for nodes below a capability some ask for nodes, and the others are told that their queue is full
//! ([`asks_nodes`](crate::cycle::asks_nodes)).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::Bound;
use crate::api::{GroupKey, Uid};
use crate::cycle::explain::Refusal;

use super::gang;
use super::{Cache, Group, Member};

/// By pod that waits for nodes below a capability: what nodes said, and why its queue would not take it, if it would not.
pub(in crate::cycle) type Answers = BTreeMap<Uid, (Arc<Refusal>, Option<Arc<Refusal>>)>;

impl Cache {
    /// Records why each waiting member of the PodGroup waits, as a cycle found.
    pub(in crate::cycle) fn refuse_waiting(&mut self, key: &GroupKey, refusal: &Arc<Refusal>) {
        let waiting: Vec<Uid> = self.groups.get(key).map(|group| group.waiting.iter().cloned().collect()).unwrap_or_default();
        waiting.iter().for_each(|uid| self.refuse_pod(uid, Some(refusal)));
    }

    /// Returns why the pod waits, as it is told. Where it waits for nodes, that is what they said, or that its queue would not take it.
    #[must_use]
    pub fn why_waits<'a>(&'a self, member: &'a Member) -> Option<&'a Arc<Refusal>> {
        let refusal = member.refusal.as_ref()?;
        let answer = self.answers.get(&member.facts.uid).filter(|_| refusal.code().lacks_nodes() || is_for_reservations(refusal));
        Some(answer.map_or(refusal, |(said, in_vain)| in_vain.as_ref().unwrap_or(said)))
    }

    /// Returns why the PodGroup waits, as it is told: as its members are, where they wait for nodes. Which of those that wait has the quota
    /// reserved changes with every admission, and is no news.
    /// One that no member exists of waits for them, if it reserves its minimum or might.
    #[must_use]
    pub fn why_group_waits(&self, group: &Group) -> Option<Arc<Refusal>> {
        let facts = group.facts.as_ref()?;
        let Some(refusal) = &group.refusal else {
            return gang::resolve(self, group, facts)
                .err()
                .filter(|_| group.is_idle() && gang::is_owed_a_beginning(group, facts))
                .map(Arc::new);
        };
        if !(refusal.code().lacks_nodes() || is_for_reservations(refusal)) {
            return Some(Arc::clone(refusal));
        }
        let answers = || group.waiting.iter().filter_map(|uid| self.answers.get(uid));
        let asks = answers().find_map(|(said, in_vain)| in_vain.is_none().then_some(said));
        let told = asks.or_else(|| answers().find_map(|(_, in_vain)| in_vain.as_ref())).unwrap_or(refusal);
        Some(Arc::clone(told))
    }

    /// Returns what nodes said of a waiting pod. They may have said it before: since then its queue has refused it for what others reserve
    /// that wait for nodes, too.
    pub(in crate::cycle) fn said_by_nodes(&self, uid: &Uid) -> Option<&Arc<Refusal>> {
        let refusal = self.pods.get(uid)?.refusal.as_ref()?;
        if refusal.code().lacks_nodes() {
            return Some(refusal);
        }
        self.answers.get(uid).filter(|_| is_for_reservations(refusal)).map(|(said, _)| said)
    }

    /// Whether pods may wait for nodes below a capability: some did at the last decision, or nodes have refused a pod since.
    pub(in crate::cycle) const fn may_ask_for_nodes(&self) -> bool {
        self.may_ask_for_nodes
    }

    /// Sets what the pods that wait for nodes below a capability are told.
    pub(in crate::cycle) fn set_answers(&mut self, now: Answers) {
        self.may_ask_for_nodes = !now.is_empty();
        let before = std::mem::replace(&mut self.answers, now);
        let differs = |(uid, (_, in_vain)): &(&Uid, &(Arc<Refusal>, Option<Arc<Refusal>>))| {
            before.get(*uid).is_none_or(|(_, was)| was != in_vain)
                || self.pods.get(*uid).is_some_and(|member| member.refusal.as_ref().is_some_and(|refusal| is_for_reservations(refusal)))
        };
        let gone = before.keys().filter(|uid| !self.answers.contains_key(*uid));
        let new = self.answers.iter().filter(differs).map(|(uid, _)| uid);
        self.dirty.pods.extend(gone.chain(new).cloned());
    }

    /// Records that others may hold what these pods wait for.
    pub(in crate::cycle) fn tell_again(&mut self, pods: &[Uid]) {
        self.dirty.pods.extend(pods.iter().cloned());
    }

    /// Records why the pod waits, as a cycle found.
    pub(in crate::cycle) fn refuse_pod(&mut self, uid: &Uid, refusal: Option<&Arc<Refusal>>) {
        let Some(member) = self.pods.get_mut(uid) else { return };
        if member.refusal.as_ref() != refusal {
            let lacks_nodes = !self.may_ask_for_nodes && refusal.is_some_and(|refusal| refusal.code().lacks_nodes());
            let group = lacks_nodes.then(|| member.facts.group.clone());
            member.refusal = refusal.cloned();
            self.dirty.pods.insert(uid.clone());
            let facts = group.and_then(|group| self.groups.get(&group)?.facts.as_ref());
            self.may_ask_for_nodes |= facts.is_some_and(|facts| self.accounting.quota().is_limited(&facts.queue));
        }
    }
}

/// Whether a queue refuses for what others have reserved in it.
fn is_for_reservations(refusal: &Refusal) -> bool {
    matches!(refusal.cause(), Refusal::Ceiling(ceiling) if ceiling.bound == Bound::Capability && ceiling.reserved.is_positive())
}
