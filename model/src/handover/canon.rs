//! Brings a state into its canonical form: states that can never behave differently become equal.

use super::mutant::Mutant;
use super::real::guards;
use super::values::{Late, Life, POD, PODS, Place, Req, Stage, State, Term};
use super::world::World;
use crate::canon::rank;

/// Returns the canonical form of a state.
pub(crate) fn canonical(world: &World, mut state: State) -> State {
    forget(world, &mut state);
    relabel(&mut state);
    state.late.sort_unstable();
    state
}

/// Drops the history that no watch can show any more, and the requests that can have no effect any more.
fn forget(world: &World, state: &mut State) {
    let last = u8::try_from(state.seen.len() - 1).expect("histories are short");
    for proc in &mut state.procs {
        // It decides nothing any more.
        if proc.term == Term::Over && state.left.renewals == 0 && world.mutant != Mutant::NeverOver {
            proc.at[POD] = last;
            proc.since = Default::default();
        }
    }
    let shown = state.procs.iter().filter(|proc| proc.id != 0).map(|proc| proc.at[POD]).min().unwrap_or(last);
    let first = shown.min(last.saturating_sub(world.travel));
    state.seen.drain(..usize::from(first));
    for proc in state.procs.iter_mut().filter(|proc| proc.id != 0) {
        proc.at[POD] -= first;
        proc.since[POD] = proc.since[POD].map(|since| since.saturating_sub(first));
    }
    let (pods, procs) = (state.pods, state.procs);
    state.late.retain(|late| has_effect(world, late, &pods));
    for late in &mut state.late {
        if procs.iter().all(|proc| proc.id != late.by) {
            late.by = 0;
        }
    }
}

/// Returns whether the request can still take effect: a UID and a resourceVersion never come back.
fn has_effect(world: &World, late: &Late, pods: &[super::values::Pod; PODS]) -> bool {
    let pod = pods[usize::from(late.pod)];
    match late.req {
        Req::Bind { uid, at } => {
            let versioned = guards().version && world.mutant != Mutant::NoVersion;
            pod.uid == uid && pod.life == Life::Waits && (!versioned || pod.at == at)
        }
        Req::Evict { .. } if world.mutant == Mutant::EvictByName => true,
        Req::Evict { uid } => pod.uid == uid && matches!(pod.life, Life::Waits | Life::Bound),
        Req::Fence { uid, .. } => pod.uid == uid && pod.life == Life::Waits,
    }
}

fn relabel(state: &mut State) {
    let (mut ats, mut ids) = ([[0_u8; 256]; PODS], [0_u8; 256]);
    each(state, &mut |label| match label {
        Label::At(slot, at) => ats[slot][usize::from(*at)] = 1,
        Label::Id(id) => ids[usize::from(*id)] = 1,
    });
    state.last_at = ats.iter_mut().map(rank).max().unwrap_or(0);
    state.last_id = rank(&mut ids);
    each(state, &mut |label| match label {
        Label::At(slot, at) => *at = ats[slot][usize::from(*at)],
        Label::Id(id) => *id = ids[usize::from(*id)],
    });
}

enum Label<'a> {
    /// A resourceVersion of the pod. Those of different pods are never compared.
    At(usize, &'a mut u8),
    Id(&'a mut u8),
}

fn each(state: &mut State, f: &mut impl FnMut(Label<'_>)) {
    for pods in state.seen.iter_mut().chain([&mut state.pods]) {
        for (slot, pod) in pods.iter_mut().enumerate() {
            f(Label::At(slot, &mut pod.at));
            f(Label::Id(&mut pod.fenced_by));
        }
    }
    f(Label::Id(&mut state.lease.holder));
    for late in &mut state.late {
        f(Label::Id(&mut late.by));
        match &mut late.req {
            Req::Bind { at, .. } => f(Label::At(usize::from(late.pod), at)),
            Req::Evict { .. } => {}
            Req::Fence { by, .. } => f(Label::Id(by)),
        }
    }
    for proc in &mut state.procs {
        f(Label::Id(&mut proc.id));
        for (slot, work) in proc.work.iter_mut().enumerate() {
            let Some(attempt) = &mut work.bind else { continue };
            f(Label::At(slot, &mut attempt.at));
            if let Stage::Reading { back: Some(Place::Waits { at }), .. } = &mut attempt.stage {
                f(Label::At(slot, at));
            }
        }
    }
}
