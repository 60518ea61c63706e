//! The places of members that a gang has lost: they stay charged on their nodes for it (A8).
//!
//! A kept place is a nomination for a pod that does not exist yet: no pod has the UID of its charge. Its amount in the queue is the reservation of
//! the PodGroup, which is not in the PodGroup's own way either.

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::cache::LostMember;

use super::hold::{Because, Hold, Kind};
use super::table::Holds;

impl Holds {
    /// Keeps the place of a lost pod, until then (`None`: its time begins with the next cycle). Returns its number, or none if it is kept already.
    pub(in crate::cycle) fn keep(&mut self, lost: &LostMember, until: Option<Duration>) -> Option<u64> {
        let (facts, node) = (&lost.facts, &lost.node);
        let uid = Uid::from(format!("{} (kept)", facts.uid.as_str()).as_str());
        if self.kept_for(&facts.group).any(|place| place.uid == uid) {
            return None;
        }
        let (number, group) = (self.next_number(), facts.group.clone());
        let place = Placement { uid, node: Arc::clone(node), queue: Arc::clone(&lost.queue), resources: facts.request.clone() };
        self.insert(Hold { number, group, places: vec![place], until, because: Because::LostMember(lost.clone()) });
        Some(number)
    }

    /// The places that are kept for the PodGroup, in the order in which they were lost.
    pub(in crate::cycle) fn kept_for(&self, key: &GroupKey) -> impl Iterator<Item = &Placement> {
        self.held_for(key, Kind::LostMember).flat_map(|hold| &hold.places)
    }
}
