//! May a group's minimum come in below every ceiling, and beside what is kept for others?
//!
//! `Pending → Inqueue`. Asked is what `spec.minResources` says less what its members are charged already (nothing counts twice), or, where it
//! says nothing, what the members ask for that are needed now. The one function that answers is the quota's (F6). Nothing is reserved yet:
//! a group that is admitted and finds no node keeps nobody out, and admission is asked again at every look.

use crate::accounting;
use crate::api::{GroupFacts, Uid};
use crate::resources::Resources;

use super::explain::Refusal;
use super::world::{Group, World};

/// Whether the group's minimum fits at every level of its queue.
///
/// # Errors
///
/// The queue that is broken or closed, or the nearest ceiling and its first dimension that is in the way.
pub fn admit(world: &World, group: &Group, facts: &GroupFacts, needed: &[Uid]) -> Result<(), Refusal> {
    let asked = match &facts.min_resources {
        Some(minimum) => {
            let mut asked = minimum.clone();
            asked.sub(&group.charged);
            asked.without_negative()
        }
        None => {
            let mut asked = Resources::new();
            for member in needed.iter().filter_map(|uid| world.pods().get(uid)) {
                asked.add(&member.facts.request);
            }
            asked
        }
    };
    world.books().fits_queue(&facts.queue, &asked).map_err(Refusal::from)
}

/// What the books' no means to a group.
pub(super) fn refusal(refusal: accounting::Refusal) -> Refusal {
    match refusal {
        accounting::Refusal::Queue(refusal) => refusal.into(),
        // Only asked of pods that wait and of nodes that said yes: neither happens, and trying again is right if it does.
        accounting::Refusal::AlreadyCharged | accounting::Refusal::Node(_) => {
            Refusal::Backoff { why: "the books changed".to_owned(), failures: 0 }
        }
    }
}
