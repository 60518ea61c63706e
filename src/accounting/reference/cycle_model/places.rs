//! Which room do nodes have, and which places are kept for members that were lost (N2, A8)?

use super::super::admission::sum;
use super::super::cluster::{Amounts, amount, asked_in, larger, less, plus};
use super::super::limits::fits;
use super::{CycleModel, Kept, Life, Member, MemberState, Place, positive};

impl CycleModel {
    /// A5, A8: a member is gone or has failed; `before` is what it was.
    pub(super) fn lost(&mut self, before: &Member) {
        let group = before.group.clone();
        let Some(spec) = self.groups.get(&group).cloned() else { return };
        // A5: the back-off ends early when a member is gone or has failed and fewer exist than are missing.
        if !self.is_whole(&group) {
            self.life(&group).backs_off_until = 0;
        }
        // A8: a member that is bound, and not one of which the binding is under way.
        let MemberState::On(place @ Place { bound: true, .. }) = &before.state else { return };
        // A8: a gang (minMember above 1, once satisfied, and one member has a node still) that is not satisfied.
        let once = self.lives.get(&group).is_some_and(|life| life.had_its_places);
        if spec.min_member <= 1 || !once || self.placed(&group) == 0 || self.has_ended(&group) {
            return;
        }
        // A8: at most as many places are kept as members are missing, so none where it is satisfied.
        if self.life(&group).kept.len() >= self.missing(&group) {
            return;
        }
        // A8: nothing is kept of what did not fit there again, on the node, and in the queue if it was charged there.
        let is_charged_there = place.queue == spec.queue;
        let fits_queue = !is_charged_there || fits(&self.cluster(), &spec.queue, &before.asks).is_ok();
        if !fits_queue || !self.has_room(&place.node, &before.asks, None) {
            return;
        }
        let charged = self.charged(&group);
        let life = self.life(&group);
        life.kept.push(Kept { node: place.node.clone(), asks: before.asks.clone(), until: None });
        if is_charged_there {
            // A8: it is admitted with that.
            life.admitted = true;
            life.reserved = plus(&life.reserved, &before.asks);
            life.minimum = larger(&life.minimum, &plus(&charged, &life.reserved));
        }
        // A8: the back-off of the gang ends.
        life.backs_off_until = 0;
    }

    /// A8: these places are kept no longer. What is reserved for them ends, too, unless the gang was admitted since: then it asked for that. A
    /// partly bound gang keeps what it has reserved (A5).
    pub(super) fn give_up_kept(&mut self, group: &str, which: impl Fn(&Kept) -> bool) {
        let charged = self.charged(group);
        let is_partly_bound = self.is_partly_bound(group);
        let life = self.life(group);
        let (gone, stay): (Vec<Kept>, Vec<Kept>) = life.kept.drain(..).partition(which);
        life.kept = stay;
        if life.until.is_none() && !is_partly_bound && !gone.is_empty() {
            let of_places = sum(&gone.into_iter().map(|kept| kept.asks).collect::<Vec<_>>());
            life.reserved = positive(&less(&life.reserved, &of_places));
            life.minimum = plus(&charged, &life.reserved);
        }
    }

    /// N2: counts how many such members the nodes would take, as they are now or empty. All members are alike.
    pub(super) fn slots(&self, group: &str, one: &Amounts, as_they_are: bool) -> usize {
        let on = |(node, offers): (&String, &Amounts)| {
            let used = if as_they_are { self.used_on(node, Some(group)) } else { Amounts::new() };
            let of = |(dimension, asked): (&str, i128)| (amount(offers, dimension) - amount(&used, dimension)).max(0) / asked;
            asked_in(one).map(of).min().map_or(1_000_000, |count| usize::try_from(count).unwrap_or(usize::MAX).min(1_000_000))
        };
        self.nodes.iter().map(on).sum()
    }

    /// N2, A8: whether a node has room for a request beside all pods there, and beside what is kept there for others than this PodGroup.
    pub(super) fn has_room(&self, node: &str, asked: &Amounts, of: Option<&str>) -> bool {
        let Some(offers) = self.nodes.get(node) else { return false };
        let used = self.used_on(node, of);
        asked_in(asked).all(|(dimension, asked)| amount(&used, dimension) + asked <= amount(offers, dimension))
    }

    /// N1, A8: what is charged on a node, without what is kept there for this PodGroup.
    pub(super) fn used_on(&self, node: &str, of: Option<&str>) -> Amounts {
        let mut used = Amounts::new();
        for member in self.members.values() {
            if matches!(&member.state, MemberState::On(place) if place.node == node) {
                used = plus(&used, &member.asks);
            }
        }
        for (name, life) in &self.lives {
            for kept in life.kept.iter().filter(|kept| kept.node == node && of != Some(name.as_str())) {
                used = plus(&used, &kept.asks);
            }
        }
        used
    }
}

/// Returns what is reserved for the places that are kept.
pub(super) fn of_places(life: &Life) -> Amounts {
    sum(&life.kept.iter().map(|kept| kept.asks.clone()).collect::<Vec<_>>())
}
