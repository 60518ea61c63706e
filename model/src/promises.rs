//! The promises of `src/lifecycle/mod.rs` as properties of a state.
//!
//! L2 (from every state a right one can be reached) is not a property of one state: [`crate::search`] checks it backwards from the right states.

use stateright::Property;

use crate::protocol::slot_of;
use crate::values::{Broken, Life, Req, SLOTS, State};
use crate::world::{World, are_elsewhere};

/// Returns the properties S1, S2, S3, L1 and W.
pub(crate) fn properties() -> Vec<Property<World>> {
    vec![
        Property::always("S1", |_, state: &State| state.broken != Some(Broken::S1)),
        Property::always("S2", |_, state: &State| state.broken != Some(Broken::S2)),
        Property::always("S3", is_made_again),
        Property::always("L1", |world: &World, state: &State| state.broken.is_some() || is_right(state) || !world.is_quiet(state)),
        Property::always("W", |world: &World, state: &State| !world.set || waits_for_all(state)),
    ]
}

/// Checks S3: every controller with complete caches creates a missing PodGroup that is needed, at once or after the read that it needs.
fn is_made_again(world: &World, state: &State) -> bool {
    (0..SLOTS).filter(|slot| state.groups[*slot].is_none() && is_needed(world, state, *slot)).all(|slot| {
        (0..state.ctrls.len()).filter(|ctrl| has_seen_all(state, *ctrl)).all(|ctrl| match world.decide(state, ctrl, slot) {
            None => true,
            Some((step, _)) => matches!(step, Some(Req::Create(_) | Req::Read)),
        })
    })
}

fn is_needed(world: &World, state: &State, slot: usize) -> bool {
    let owner = state.owners[slot];
    let active = state.pods.iter().any(|pod| !pod.terminating && slot_of(pod) == Some(slot));
    owner.life == Life::Alive && (owner.wants > 0 && !world.unwatched || active) && !are_elsewhere(&state.pods, slot)
}

/// Checks W: the pods of one part of a set never satisfy the PodGroup of the whole, whatever the controller has seen.
fn waits_for_all(state: &State) -> bool {
    state.groups.iter().flatten().all(|group| group.foreign || group.spec & 1 == 1)
}

/// Returns whether the caches of the controller show every event.
pub(crate) fn has_seen_all(state: &State, ctrl: usize) -> bool {
    (0..3).all(|kind| usize::from(state.ctrls[ctrl].at[kind]) + 1 == state.length(kind))
}

/// Checks L1: an owner that wants pods has its PodGroup, with the right spec and without a mark. A deleted owner, an owner that wants no
/// pods, and one whose pods all name another PodGroup have none.
pub(crate) fn is_right(state: &State) -> bool {
    (0..SLOTS).all(|slot| {
        let owner = state.owners[slot];
        match state.groups[slot] {
            // A foreign PodGroup is left alone.
            Some(group) if group.foreign => true,
            Some(group) => {
                let fields = owner.fields();
                let wanted = owner.life == Life::Alive && owner.wants > 0 && !are_elsewhere(&state.pods, slot);
                wanted && !group.marked && !group.ending && group.owned && group.spec == fields && group.applied == fields
            }
            None => owner.life != Life::Alive || owner.wants == 0 || are_elsewhere(&state.pods, slot),
        }
    })
}
