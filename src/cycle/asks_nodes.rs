//! Which waiting pods ask for nodes? As many as their queues would take, whatever refused them first. The others say that the queue is full.
//!
//! An autoscaler adds nodes for the pods that ask ([`Refusal::pod_reason`]). A node for a pod that its queue would not take stays empty.

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::AskedOfNodes;
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;

use super::cache::gang::{self, Count};
use super::cache::{Answers, Cache, Group, members};
use super::explain::Refusal;

/// The least time between two decisions. Each reads all pods that wait; a pod says why it waits only after two seconds.
const PAUSE: Duration = Duration::from_secs(1);

/// When it is decided next.
#[derive(Debug, Default)]
pub(super) struct Asking {
    next: Duration,
    is_due: bool,
}

impl Asking {
    /// Returns when a cycle is to decide; none where nothing changed since the last decision.
    pub(super) fn next(&self) -> Option<Duration> {
        self.is_due.then_some(self.next)
    }

    /// Decides at the end of a cycle, if pods below a capability wait for nodes and the last decision was long enough ago.
    pub(in crate::cycle) fn follow<'k>(&mut self, cache: &mut Cache, waiting: impl Iterator<Item = &'k GroupKey>, now: Duration) {
        self.is_due |= cache.may_ask_for_nodes();
        if self.is_due && self.next <= now {
            decide(cache, waiting);
            *self = Self { next: now.saturating_add(PAUSE), is_due: false };
        }
    }
}

/// Decides it for all pods that wait, in the order of their PodGroups over all queues, and marks those whose answer changed.
fn decide<'k>(cache: &mut Cache, waiting: impl Iterator<Item = &'k GroupKey>) {
    let mut asked = AskedOfNodes::new(cache.accounting().quota());
    let mut asking: Vec<_> = waiting
        .filter_map(|key| {
            let group = cache.groups().get(key)?;
            let facts = group.facts.as_ref()?;
            let asks = asked.is_limited(&facts.queue) && group.waiting.iter().any(|uid| cache.said_by_nodes(uid).is_some());
            asks.then(|| (cache.rank(group, facts), group, facts))
        })
        .collect();
    asking.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    // The admissions of those that wait for nodes end and begin in turn. Who asks does not depend on whose turn it is.
    for (_, group, facts) in &asking {
        asked.set_aside(&facts.queue, cache.reserved(group));
    }
    let mut answers = Answers::new();
    for (_, group, facts) in asking {
        of_group(cache, group, facts, &mut asked, &mut answers);
    }
    cache.set_answers(answers);
}

/// Decides it for one PodGroup: for what its minimum needs as a whole, then for each further member. Where the minimum does not ask, none does.
fn of_group(cache: &Cache, group: &Group, facts: &GroupFacts, asked: &mut AskedOfNodes<'_>, answers: &mut Answers) {
    let Ok(needed) = gang::resolve(cache, group, facts) else { return };
    let said = |uid: Uid| cache.said_by_nodes(&uid).cloned().map(|said| (uid, said));
    let members: Vec<(Uid, Arc<Refusal>)> = members::in_order(cache, group, &needed).into_iter().filter_map(said).collect();
    let missing = usize::try_from(Count::of(group, facts).missing().max(needed.needed)).unwrap_or(usize::MAX).min(members.len());
    let (minimum, further) = members.split_at(missing);
    let mut reserved = cache.reserved(group).clone();
    let mut ask = |some: &[(Uid, Arc<Refusal>)], answers: &mut Answers| {
        let mut amounts = Resources::new();
        some.iter().filter_map(|(uid, _)| cache.pods().get(uid)).for_each(|member| amounts.add(&member.facts.request));
        let refusal = match asked.take(&facts.queue, &amounts) {
            Ok(()) => {
                reserved.sub(&amounts);
                None
            }
            Err((ceiling, waiting)) => Some(Arc::new(Refusal::AfterOthers { ceiling, waiting })),
        };
        answers.extend(some.iter().map(|(uid, said)| (uid.clone(), (Arc::clone(said), refusal.clone()))));
        refusal
    };
    if let Some(refusal) = if minimum.is_empty() { None } else { ask(minimum, answers) } {
        answers.extend(further.iter().map(|(uid, said)| (uid.clone(), (Arc::clone(said), Some(Arc::clone(&refusal))))));
        return;
    }
    for one in further {
        let _answered = ask(std::slice::from_ref(one), answers);
    }
    // What is reserved for members that do not wait.
    asked.add(&facts.queue, &reserved.without_negative());
}
