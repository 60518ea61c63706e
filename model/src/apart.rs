//! Projects a state with two owners onto one of them, to show that owners do not interfere.
//!
//! The other owner is removed from the real state, from the histories of the watches and from the controllers. The result must be a state
//! of the world with only one owner. Then owners can be checked one by one.

use crate::canon::canonical;
use crate::values::{ELSEWHERE, GroupState, Life, ORPHAN, Owner, Pod, Pods, SLOTS, State};
use crate::world::{QUIET, World};

/// Returns the state with only the owner in `slot`, moved to slot 0.
pub(crate) fn alone(state: &State, slot: usize, world: &World) -> State {
    let mut state = state.clone();
    keep_only(&mut state.owners, slot, Owner::default());
    keep_only(&mut state.groups, slot, None);
    keep_only(&mut state.manager, slot, None);
    keep_only(&mut state.left, slot, QUIET);
    state.pods = pods(&state.pods, slot);
    state.owners_seen.iter_mut().for_each(|owners| keep_only(owners, slot, Owner { life: Life::Gone, ..Owner::default() }));
    state.pods_seen.iter_mut().for_each(|seen| *seen = pods(seen, slot));
    state.groups_seen.iter_mut().for_each(|groups| keep_only(groups, slot, None));
    for ctrl in &mut state.ctrls {
        keep_only(&mut ctrl.local, slot, GroupState::default());
        ctrl.late.retain(|sent| usize::from(sent.slot) == slot);
        ctrl.late.iter_mut().for_each(|sent| sent.slot = 0);
        ctrl.local.iter_mut().filter_map(|local| local.flight.as_mut()).for_each(|flight| flight.sent.slot = 0);
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

fn keep_only<T: Copy>(places: &mut [T; SLOTS], slot: usize, nothing: T) {
    *places = [places[slot], nothing];
}

fn pods(pods: &Pods, slot: usize) -> Pods {
    let own = |pod: Pod| usize::from(pod.of) == slot || pod.of == ORPHAN;
    let moved = |pod: Pod| Pod {
        of: if pod.of == ORPHAN { ORPHAN } else { 0 },
        stamp: if pod.stamp == ELSEWHERE { ELSEWHERE } else { pod.stamp.min(1) },
        ..pod
    };
    let mut own = Pods(pods.0.map(|pod| pod.filter(|pod| own(*pod)).map(moved)));
    own.sort();
    own
}

/// Returns the new position of each entry of a history after equal neighbours are merged.
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
