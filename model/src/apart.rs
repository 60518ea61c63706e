//! What does one owner with its group go through, in a world in which there are two?
//!
//! The other is taken away: from the truth, from what watches show (an event that was about the other alone is none), and from the controllers. What
//! is left must be a state of the world in which there was never another; then owners can be looked at one by one.

use crate::canon::canonical;
use crate::values::{Kept, Life, NOBODY, Owner, Pod, Pods, SLOTS, State};
use crate::world::{QUIET, World};

/// The state as the owner in this place knows it, moved to the first place.
pub(crate) fn alone(state: &State, slot: usize, world: &World) -> State {
    let mut state = state.clone();
    keep(&mut state.owners, slot, Owner::default());
    keep(&mut state.groups, slot, None);
    keep(&mut state.manager, slot, None);
    keep(&mut state.left, slot, QUIET);
    state.pods = pods(&state.pods, slot);
    state.owners_seen.iter_mut().for_each(|owners| keep(owners, slot, Owner { life: Life::Gone, ..Owner::default() }));
    state.pods_seen.iter_mut().for_each(|seen| *seen = pods(seen, slot));
    state.groups_seen.iter_mut().for_each(|groups| keep(groups, slot, None));
    for ctrl in &mut state.ctrls {
        keep(&mut ctrl.kept, slot, Kept::default());
        ctrl.late.retain(|sent| usize::from(sent.slot) == slot);
        ctrl.late.iter_mut().for_each(|sent| sent.slot = 0);
        ctrl.kept.iter_mut().filter_map(|kept| kept.flight.as_mut()).for_each(|flight| flight.sent.slot = 0);
    }
    let places = [places(&state.owners_seen), places(&state.pods_seen), places(&state.groups_seen)];
    for ctrl in &mut state.ctrls {
        for (at, places) in ctrl.at.iter_mut().zip(&places) {
            *at = places[usize::from(*at)];
        }
    }
    state.owners_seen.dedup();
    state.pods_seen.dedup();
    state.groups_seen.dedup();
    canonical(world, state)
}

fn keep<T: Copy>(places: &mut [T; SLOTS], slot: usize, nothing: T) {
    *places = [places[slot], nothing];
}

fn pods(pods: &Pods, slot: usize) -> Pods {
    let own = |pod: Pod| usize::from(pod.of) == slot || pod.of == NOBODY;
    let moved = |pod: Pod| Pod { of: if pod.of == NOBODY { NOBODY } else { 0 }, stamp: pod.stamp.min(1), ..pod };
    let mut own = Pods(pods.0.map(|pod| pod.filter(|pod| own(*pod)).map(moved)));
    own.sort();
    own
}

/// Where each place of a history is, once what is the same as the one before it is dropped.
fn places<T: PartialEq>(history: &[T]) -> Vec<u8> {
    let mut place = 0;
    (0..history.len())
        .map(|at| {
            if at > 0 && history[at] != history[at - 1] {
                place += 1;
            }
            place
        })
        .collect()
}
