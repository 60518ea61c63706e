//! Makes states canonical: states that can never behave differently become equal.
//!
//! * UIDs and resourceVersions get new labels in the old order. The code under test only compares UIDs for equality and orders resourceVersions.
//! * History that no watch can show any more is dropped. A remembered UID that can never appear again is forgotten.
//! * Requests under way have no order, and controllers have no names.

use crate::packed::PackedLatest;

use crate::mutant::Mutant;
use crate::values::{At, Back, Flight, Req, SLOTS, Seen, Sent, State};
use crate::world::World;

/// A mutable reference to a label in the state.
enum Label<'a> {
    Uid(&'a mut u8),
    At(&'a mut u8),
}

/// Returns the canonical form of a state.
pub(crate) fn canonical(world: &World, mut state: State) -> State {
    trim(world, &mut state);
    forget(world, &mut state);
    relabel(&mut state);
    for ctrl in &mut state.ctrls {
        ctrl.late.sort_unstable();
    }
    state.ctrls.sort_unstable();
    state
}

/// Drops the history that no watch can show any more.
fn trim(world: &World, state: &mut State) {
    let travels = state.crashes > 0 || state.relists > 0;
    for kind in 0..3 {
        let length = state.length(kind);
        let seen = state.ctrls.iter().map(|ctrl| usize::from(ctrl.at[kind])).min().unwrap_or(0);
        let low = if travels { seen.min(length.saturating_sub(1 + usize::from(world.travel))) } else { seen };
        if low == 0 {
            continue;
        }
        match kind {
            0 => drop(state.owners_seen.drain(..low)),
            1 => drop(state.pods_seen.drain(..low)),
            _ => drop(state.groups_seen.drain(..low)),
        }
        for ctrl in &mut state.ctrls {
            ctrl.at[kind] -= u8::try_from(low).expect("histories are short");
        }
    }
}

/// Forgets deleted UIDs that neither a watch nor an answer under way can show again.
fn forget(world: &World, state: &mut State) {
    for slot in 0..SLOTS {
        for ctrl in &mut state.ctrls {
            let local = &mut ctrl.local[slot];
            let answer = match local.flight.and_then(|flight| flight.back) {
                Some(Back::Object(seen)) => seen.uid,
                _ => 0,
            };
            let memory = &mut local.memory;
            memory.deleted.iter_mut().filter(|uid| **uid != answer).for_each(|uid| *uid = 0);
            memory.deleted.sort_unstable_by(|one, other| other.cmp(one));
            if let PackedLatest::Gone(uid) = memory.latest
                && state.groups_seen.iter().all(|groups| groups[slot].is_none_or(|seen| seen.uid != uid))
            {
                memory.latest = PackedLatest::Nothing;
            }
            // Only a remembered list of members can lead to a DELETE, unless a mutant remembers more.
            if world.mutant == Mutant::None && memory.listing.is_none() {
                local.listing = None;
            }
        }
    }
}

fn relabel(state: &mut State) {
    let (mut uids, mut ats) = ([0_u8; 256], [0_u8; 256]);
    each(state, &mut |label| match label {
        Label::Uid(uid) => uids[usize::from(*uid)] = 1,
        Label::At(at) => ats[usize::from(*at)] = 1,
    });
    state.last_uid = rank(&mut uids);
    state.last_at = rank(&mut ats);
    each(state, &mut |label| match label {
        Label::Uid(uid) => *uid = uids[usize::from(*uid)],
        Label::At(at) => *at = ats[usize::from(*at)],
    });
}

/// Assigns new labels in the old order; 0 stays 0. Returns the last new label.
pub(crate) fn rank(labels: &mut [u8; 256]) -> u8 {
    let mut last = 0;
    labels[0] = 0;
    for label in labels.iter_mut().filter(|label| **label > 0) {
        last += 1;
        *label = last;
    }
    last
}

fn each(state: &mut State, f: &mut impl FnMut(Label<'_>)) {
    for group in state.groups.iter_mut().flatten() {
        f(Label::Uid(&mut group.uid));
        f(Label::At(&mut group.at));
    }
    state.groups_seen.iter_mut().flatten().flatten().for_each(|seen| each_seen(seen, f));
    for ctrl in &mut state.ctrls {
        for local in &mut ctrl.local {
            match &mut local.memory.latest {
                PackedLatest::Nothing => {}
                PackedLatest::Exists(seen) => each_seen(seen, f),
                PackedLatest::Gone(uid) => f(Label::Uid(uid)),
            }
            if let Some((at, _)) = &mut local.memory.listing {
                each_at(at, f);
            }
            local.memory.deleted.iter_mut().for_each(|uid| f(Label::Uid(uid)));
            f(Label::Uid(&mut local.early));
            if let Some(Flight { sent, known, back }) = &mut local.flight {
                each_sent(sent, f);
                known.iter_mut().for_each(|at| each_at(at, f));
                if let Some(Back::Object(seen)) = back {
                    each_seen(seen, f);
                }
            }
        }
        ctrl.late.iter_mut().for_each(|sent| each_sent(sent, f));
    }
}

fn each_seen(seen: &mut Seen, f: &mut impl FnMut(Label<'_>)) {
    f(Label::Uid(&mut seen.uid));
    f(Label::At(&mut seen.at));
}

fn each_at(at: &mut At, f: &mut impl FnMut(Label<'_>)) {
    f(Label::Uid(&mut at.0));
    f(Label::At(&mut at.1));
}

fn each_sent(sent: &mut Sent, f: &mut impl FnMut(Label<'_>)) {
    match &mut sent.req {
        Req::Read | Req::Create(_) => {}
        Req::Amend { on, .. } | Req::Mark(on) | Req::Unmark(on) | Req::ListMembers(on) | Req::Delete(on) => each_at(on, f),
    }
}
