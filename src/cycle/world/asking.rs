//! Which groups were refused for what others use or have a right to, what were they told, and when is each asked again?
//!
//! The answer follows from what everybody uses and wants, so it may be another whenever that changed. Then those are asked first that were asked longest ago, a few in each
//! cycle; who is not looked at for another reason is asked a few at a time, so many times in a second, until everybody has an answer: a full cluster with thousands who wait
//! costs a bounded part of the time, and one in which nothing changes costs nothing. Until somebody is asked again, what it was told stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Bound, Ceiling};
use crate::api::{GroupKey, PodFacts};
use crate::cycle::explain::Refusal;
use crate::cycle::reclaim::NotTaken;

use super::budgets::is_guarded_otherwise;
use super::{State, World};

/// So many groups ask in one cycle, and so many are asked at a time.
pub const MOST_CLAIMS: usize = 16;

/// The next few are asked so much later.
const NEXT: Duration = Duration::from_millis(100);

/// Who asked, and when.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// How often anything changed so far that an answer follows from.
    changes: u64,
    /// All answers that are no older than this stand, whatever changed until then: none of these PodGroups may preempt any pod.
    settled: u64,
    /// Answers that are older than this are renewed, though no pod may be preempted: what they say of the nodes is old.
    refresh: u64,
    asked: BTreeMap<GroupKey, Asked>,
    /// Those of `asked`, longest ago first, and before them who had no answer yet.
    order: BTreeSet<(Option<u64>, GroupKey)>,
    /// Of those, who waits for binds that are under way: only who is bound may go for somebody.
    soon: BTreeSet<GroupKey>,
    /// Of those, whose own answer may be another now, though nothing changed for the others. They keep their place in the order: who often changes something about himself
    /// keeps nobody else from asking.
    reopened: BTreeSet<GroupKey>,
    /// When the next few are asked.
    next_at: Duration,
    /// Who is looked at in this cycle because it is to be asked again.
    chosen: Vec<GroupKey>,
}

#[derive(Debug)]
struct Asked {
    /// After how many changes; none where it had no turn yet.
    at: Option<u64>,
    answer: Answer,
    /// With which priority it preempts, where only that could change its answer: nodes or used quota refused it, and nothing is to be said of any victim.
    plain: Option<i32>,
}

/// Which pods may be preempted at all, whoever asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preemptable {
    /// Whether a queue uses more than its share.
    pub(super) over_share: bool,
    /// The lowest priority of a pod that has a node.
    pub(super) lowest: Option<i32>,
}

/// What a group was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cycle) struct Answer {
    /// Why nobody goes, where that is worth to be said.
    pub(in crate::cycle) why: Option<Arc<NotTaken>>,
    /// Whether others are leaving.
    pub(in crate::cycle) leaving: bool,
    /// Whether somebody may go, or more than do now, as soon as a bind has ended.
    pub(in crate::cycle) soon: bool,
}

impl Answer {
    /// Whether there is hope: somebody goes, or may as soon as a bind has ended.
    pub(in crate::cycle) const fn has_hope(&self) -> bool {
        self.leaving || self.soon
    }
}

impl Asking {
    /// Something changed that all answers follow from.
    pub(super) const fn changed(&mut self) {
        self.changes = self.changes.saturating_add(1);
    }

    /// The nodes are others, so what was said of them is old.
    pub(super) const fn nodes_changed(&mut self) {
        self.changed();
        self.refresh = self.changes;
    }

    /// Whether PodGroups are to be asked again at this time.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.next_at <= now && self.is_open()
    }

    /// The binds under way are fewer.
    pub(super) fn bound(&mut self) {
        self.reopened.append(&mut self.soon);
    }

    /// Something about the group changed, so its answer may be another.
    pub(super) fn reopen(&mut self, key: &GroupKey) {
        if self.asked.contains_key(key) {
            self.reopened.insert(key.clone());
        }
    }

    /// Returns the PodGroups that are asked again at this time, though nothing else is to be done for them. Those whose answer cannot be another one are left out.
    pub(super) fn choose(&mut self, now: Duration, preemptable: Preemptable) -> &[GroupKey] {
        self.chosen.clear();
        if self.is_due(now) {
            let is_old = |(at, _): &&(Option<u64>, GroupKey)| *at < Some(self.changes);
            let old = self.order.iter().take_while(is_old).map(|(_, key)| key);
            let may_differ = |key: &&GroupKey| {
                let Some(asked) = self.asked.get(*key) else { return false };
                let plain = asked.plain.filter(|_| asked.at >= Some(self.refresh) && !preemptable.over_share);
                asked.at.max(Some(self.settled)) < Some(self.changes)
                    && (asked.at.is_none() || plain.is_none_or(|priority| preemptable.lowest.is_some_and(|lowest| lowest < priority)))
            };
            let known = |key: &&GroupKey| self.asked.get(*key).is_some_and(|asked| asked.at.max(Some(self.settled)) == Some(self.changes));
            self.chosen.extend(old.filter(may_differ).chain(self.reopened.iter().filter(known)).take(MOST_CLAIMS).cloned());
            self.next_at = now.saturating_add(NEXT);
            if self.chosen.is_empty() {
                self.settled = self.changes;
            }
        }
        &self.chosen
    }

    /// When somebody is to be asked again; none where everybody has an answer.
    pub(super) fn next(&self) -> Option<Duration> {
        self.is_open().then_some(self.next_at)
    }

    fn is_open(&self) -> bool {
        let first = self.order.first().map(|(at, _)| at.map(|at| at.max(self.settled)));
        !self.reopened.is_empty() || first.is_some_and(|at| at < Some(self.changes))
    }

    fn put(&mut self, key: &GroupKey, at: Option<u64>, answer: Answer, plain: Option<i32>) {
        self.forget(key);
        if answer.soon {
            self.soon.insert(key.clone());
        }
        self.asked.insert(key.clone(), Asked { at, answer, plain });
        self.order.insert((at, key.clone()));
    }

    /// The group waits no more, or is another now.
    pub(super) fn forget(&mut self, key: &GroupKey) {
        if let Some(Asked { at, .. }) = self.asked.remove(key) {
            self.order.remove(&(at, key.clone()));
            self.soon.remove(key);
            self.reopened.remove(key);
        }
    }
}

impl World {
    /// After how many changes the group was asked; none where it was not asked since it waits.
    #[must_use]
    pub(in crate::cycle) fn asked_at(&self, key: &GroupKey) -> Option<u64> {
        self.asking.asked.get(key).and_then(|asked| asked.at)
    }

    /// What the group was told when it was asked last.
    #[must_use]
    pub(in crate::cycle) fn answer(&self, key: &GroupKey) -> Option<&Answer> {
        self.asking.asked.get(key).map(|asked| &asked.answer)
    }

    /// Whether the answer that the group got is still the answer.
    #[must_use]
    pub(in crate::cycle) fn was_answered(&self, key: &GroupKey) -> bool {
        let answered = self.asked_at(key).map(|at| at.max(self.asking.settled));
        answered == Some(self.asking.changes) && !self.asking.reopened.contains(key)
    }

    /// What this news of a pod that has its place means to those who were told that it stays: it may go now, alone, or for them (R6, R8, R9).
    pub(super) fn notice_who_may_go(&mut self, facts: &PodFacts) {
        let Some(known) = self.pods.get(&facts.uid).filter(|known| known.state() == State::Placed) else { return };
        let old = &known.facts;
        let same = (&old.group, &old.task, old.preemptable, old.protected, old.priority)
            == (&facts.group, &facts.task, facts.preemptable, facts.protected, facts.priority);
        if !same || is_guarded_otherwise(&self.budgets, old, facts) {
            self.stays.forget(&facts.uid);
            self.asking.changed();
        }
    }

    /// The group has its answer.
    pub(in crate::cycle) fn answered(&mut self, key: &GroupKey, answer: Answer) {
        // A queue that is owed room beside others has one beside it that uses more than its share (A3).
        let plain = self.groups.get(key).filter(|group| {
            answer == Answer::default()
                && group.refusal.as_deref().is_some_and(|refusal| {
                    let used = |ceiling: &Ceiling| ceiling.bound != Bound::Entitlement && ceiling.unused_guarantee.is_zero();
                    matches!(refusal, Refusal::Nodes { .. }) || matches!(refusal, Refusal::Ceiling(ceiling) if used(ceiling))
                })
        });
        let plain = plain.map(|group| self.priority(group));
        self.asking.put(key, Some(self.asking.changes), answer, plain);
    }

    /// The group could not ask in this cycle, in which others did.
    pub(in crate::cycle) fn asks_later(&mut self, key: &GroupKey) {
        if !self.asking.asked.contains_key(key) {
            self.asking.put(key, None, Answer::default(), None);
        }
    }

    /// Of those who were looked at to be asked again, who had no question is asked no more.
    pub(in crate::cycle) fn have_asked<'a>(&mut self, wanted: impl Iterator<Item = &'a GroupKey> + Clone) {
        // There are only a few.
        for key in std::mem::take(&mut self.asking.chosen) {
            if !wanted.clone().any(|wanted| *wanted == key) {
                self.asking.forget(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Preemptable = Preemptable { over_share: true, lowest: None };

    #[test]
    fn whose_answer_may_soon_be_another_again_and_again_keeps_nobody_from_asking() {
        let mut asking = Asking::default();
        let greedy: Vec<GroupKey> = (0..20).map(|index| GroupKey::new("a", &format!("{index:02}"))).collect();
        let owed = GroupKey::new("z", "owed");
        let soon = Answer { soon: true, ..Answer::default() };
        asking.changed();
        for key in greedy.iter().chain([&owed]) {
            asking.put(key, Some(0), soon.clone(), None);
        }
        let mut now = Duration::ZERO;
        let mut turns = 0;
        while !asking.choose(now, ANY).contains(&owed) {
            turns += 1;
            assert!(turns < 3, "they have all the turns");
            for key in asking.chosen.clone() {
                asking.put(&key, Some(asking.changes), soon.clone(), None);
                asking.reopen(&key);
            }
            asking.changed();
            asking.bound();
            now += NEXT;
        }
        // Without any other change they are asked again all the same, and once each.
        for key in greedy.iter().chain([&owed]) {
            asking.put(key, Some(asking.changes), soon.clone(), None);
        }
        assert_eq!(asking.next(), None);
        asking.bound();
        assert_eq!(asking.choose(now + NEXT, ANY).len(), MOST_CLAIMS);
        answered(&mut asking);
        assert_eq!(asking.choose(now + NEXT * 2, ANY).len(), 21 - MOST_CLAIMS);
        answered(&mut asking);
        assert_eq!(asking.next(), None);
    }

    fn answered(asking: &mut Asking) {
        for key in asking.chosen.clone() {
            asking.put(&key, Some(asking.changes), Answer::default(), None);
        }
    }
}
