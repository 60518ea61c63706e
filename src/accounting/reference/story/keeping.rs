//! How long is a reservation kept, and what becomes of it (A4, A5)?

use super::super::cluster::{amount, less};
use super::super::limits::fits;
use super::{Story, positive};

/// How long a group that finds no places keeps its reservation, in milliseconds.
pub(super) const PATIENCE: u64 = 30_000;
/// The rest is twice as long each time, and at most so many times the patience.
const LONGEST: u64 = 32;

impl Story {
    /// The group is not admitted, and reserves nothing.
    pub(super) fn pend(&mut self, group: &str) {
        let life = self.life(group);
        life.admitted = false;
        life.reserved.clear();
        (life.until, life.patience) = (None, None);
    }

    /// The same where its object says something else: that does not make the patience longer.
    pub(super) fn pend_anew(&mut self, group: &str) {
        let life = self.life(group);
        let patience = if life.admitted { life.until } else { life.patience };
        self.pend(group);
        self.life(group).patience = patience;
    }

    /// It has the places that its minimum needs: nothing is reserved any more, and it has not rested yet.
    pub(super) fn has_its_places(&mut self, group: &str) {
        self.pend(group);
        let life = self.life(group);
        life.admitted = true;
        life.minimum.clear();
        (life.times, life.rests_until) = (0, 0);
    }

    /// Something about the group changed. A4: the reservation shrinks by what its members are charged. A5: it is taken back when its minimum has its places.
    pub(super) fn follow(&mut self, group: &str) {
        if !self.groups.contains_key(group) {
            return;
        }
        let (charged, is_satisfied, min) = (self.charged(group), self.is_satisfied(group), self.groups[group].min_member);
        let (placed, places) = (self.placed(group), self.places(group));
        let is_bound = self.count(group, |stands| matches!(stands, super::Stands::On(place) if !place.bound)) == 0;
        let life = self.life(group);
        let left = less(&life.minimum, &charged);
        for (dimension, reserved) in &mut life.reserved {
            *reserved = (*reserved).min(amount(&left, dimension));
        }
        if is_satisfied {
            life.reserved.clear();
            if is_bound && placed > 0 {
                life.had = Some((min, places));
            }
        } else if let Some((_, had)) = &mut life.had {
            *had = (*had).min(places);
        }
    }

    /// A5: a gang of which a part is bound and whose other members are there, unless it had its places, has them still, and asks for more since, of which none is bound.
    pub(super) fn is_half_bound(&self, group: &str) -> bool {
        let places = self.places(group);
        let had = self.lives.get(group).and_then(|life| life.had);
        let asks_for_more = had.is_some_and(|(min, had)| places >= min && places <= had);
        self.placed(group) > 0 && self.is_whole(group) && !asks_for_more
    }

    /// It was admitted and has no places: A2, A4 and A5 say what it reserves, and until when.
    pub(super) fn reserve(&mut self, group: &str, now: u64) {
        let (half_bound, charged, is_satisfied) = (self.is_half_bound(group), self.charged(group), self.is_satisfied(group));
        let is_over = self.groups[group].over;
        let life = self.life(group);
        let until = if life.admitted { life.until } else { life.patience };
        if !half_bound && until.is_some_and(|until| until <= now) {
            self.rest(group, now);
        }
        let life = self.life(group);
        if !half_bound && life.rests_until > now {
            self.pend(group);
            return;
        }
        life.admitted = true;
        life.patience = None;
        life.reserved = if is_satisfied || is_over { super::Amounts::new() } else { positive(&less(&life.minimum, &charged)) };
        let ends = !half_bound && !life.reserved.is_empty();
        life.until = ends.then(|| until.unwrap_or(now + PATIENCE));
    }

    fn rest(&mut self, group: &str, now: u64) {
        let life = self.life(group);
        life.times += 1;
        life.rests_until = now + PATIENCE * LONGEST.min(1 << (life.times - 1));
    }

    /// A5: what is reserved by A3 alone is taken back at once when the group asks in vain for the places of others; here nobody may go, so that is whenever it asks and what is
    /// terminating would not be enough (R4).
    pub(super) fn asks_in_vain(&mut self, group: &str, now: u64) {
        let Some(life) = self.lives.get(group).filter(|life| life.by_right && !positive(&life.reserved).is_empty()) else { return };
        let (queue, without) = (self.groups[group].queue.clone(), self.cluster().without_reservation(group));
        if self.is_half_bound(group) || fits(&without, &queue, &life.reserved).is_ok() {
            return;
        }
        let mut settled = without;
        settled.pods.retain(|_, pod| !pod.terminating);
        if settled.pods.len() < self.cluster().pods.len() && self.find_places(&settled, group, self.missing(group)) {
            return;
        }
        self.rest(group, now);
        self.pend(group);
    }
}
