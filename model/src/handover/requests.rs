//! The requests of a process: which one is under way, and what becomes of them when the process ends.

use super::action::What;
use super::real::Event;
use super::values::{Attempt, Back, Call, Life, POD, PODS, Proc, Req, Stage, State};

/// A leader gets SIGTERM: what was never sent is dropped.
pub(crate) fn stop(now: &mut Proc) {
    now.stopping = true;
    for work in &mut now.work {
        work.bind = work.bind.filter(|attempt| attempt.sent);
    }
}

/// A process ends. Its requests that were not applied yet are left to the API server.
pub(crate) fn end(state: &mut State, proc: usize) {
    let now = std::mem::take(&mut state.procs[proc]);
    for pod in 0..PODS {
        for what in [What::Bind, What::Evict, What::Fence] {
            if now.sent(pod, what) == Some(false) {
                state.leave(now.id, pod, request(&now, pod, what));
            }
        }
    }
}

/// Returns the request that was sent.
pub(crate) fn request(now: &Proc, pod: usize, what: What) -> Req {
    let work = &now.work[pod];
    let uid = |call: Option<Call>| if let Some(Call::Sent(uid, _)) = call { uid } else { unreachable!("it was sent") };
    match what {
        What::Bind => {
            let attempt = work.bind.expect("it was sent");
            Req::Bind { uid: attempt.uid, at: attempt.at }
        }
        What::Evict => Req::Evict { uid: uid(work.evict) },
        What::Fence => Req::Fence { uid: uid(work.fence), by: now.id },
    }
}

pub(crate) fn answered(now: &Proc, pod: usize, what: What) -> Back {
    let work = &now.work[pod];
    let call = match what {
        What::Bind => {
            return match work.bind {
                Some(Attempt { stage: Stage::Sent(Some(back)), .. }) => back,
                _ => unreachable!("it was answered"),
            };
        }
        What::Evict => work.evict,
        What::Fence => work.fence,
    };
    if let Some(Call::Sent(_, Some(back))) = call { back } else { unreachable!("it was answered") }
}

pub(crate) fn answer(call: &mut Option<Call>, back: Back) {
    if let Some(Call::Sent(_, answer)) = call {
        *answer = Some(back);
    }
}

pub(crate) fn send(call: &mut Option<Call>, leads: bool) {
    *call = call.and_then(|call| match call {
        Call::Again(uid) if leads => Some(Call::Sent(uid, None)),
        Call::Again(_) => None,
        Call::Sent(..) | Call::Done(_) => Some(call),
    });
}

pub(crate) fn fenced(now: &Proc, pod: usize) -> u8 {
    match now.work[pod].fence {
        Some(Call::Again(uid) | Call::Sent(uid, _) | Call::Done(uid)) => uid,
        None => unreachable!("a fence is under way"),
    }
}

/// Returns the pods that the view of a process shows without a node, by their UIDs.
pub(crate) fn waiting(state: &State, proc: usize) -> [Option<u8>; PODS] {
    let view = &state.seen[usize::from(state.procs[proc].at[POD])];
    view.map(|pod| (pod.life == Life::Waits).then_some(pod.uid))
}

/// Returns whether a request of the binding can still be applied.
pub(crate) fn binding_lives(state: &State, proc: usize, pod: usize) -> bool {
    let id = state.procs[proc].id;
    state.late.iter().any(|late| late.by == id && usize::from(late.pod) == pod && matches!(late.req, Req::Bind { .. }))
}

/// Takes in what the view of a process shows.
pub(crate) fn settle(state: &mut State, proc: usize) {
    let now = &mut state.procs[proc];
    let view = &state.seen[usize::from(now.at[POD])];
    for (slot, shown) in view.iter().enumerate() {
        let over = |uid: u8| shown.uid > uid || shown.uid == uid && !matches!(shown.life, Life::Never | Life::Waits);
        let work = &mut now.work[slot];
        work.bind = work.bind.filter(|attempt| attempt.stage != Stage::Bound || !over(attempt.uid));
        let left = |uid: u8| shown.uid > uid || shown.uid == uid && matches!(shown.life, Life::Leaving | Life::Gone);
        work.evict = work.evict.filter(|call| !matches!(call, Call::Done(uid) if left(*uid)));
        for uid in (0..=shown.uid).filter(|uid| over(*uid)) {
            now.takeover = now.takeover.after(Event::Shown(slot, uid));
        }
    }
}
