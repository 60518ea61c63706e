//! What a process learns from the answers to its requests. The real code says what follows.

use podgroup::scheduler::dispatch::bind_outcome::NextStep;
use podgroup::scheduler::takeover::FenceAnswer;

use super::action::What;
use super::mutant::Mutant;
use super::real::{self, Event};
use super::requests::{fenced, settle};
use super::values::{Attempt, Back, Call, Place, Stage, State};
use super::world::World;

impl World {
    /// A fence is answered.
    pub(crate) fn answered(&self, state: &mut State, proc: usize, pod: usize, uid: u8, answer: FenceAnswer) {
        let now = &mut state.procs[proc];
        now.work[pod].fence = None;
        let answer = if self.mutant == Mutant::LandedNotWaitedFor && answer == FenceAnswer::Landed { FenceAnswer::Fenced } else { answer };
        now.takeover = now.takeover.after(Event::Answered(pod, uid, answer));
        if self.mutant != Mutant::ShownBeforeOnly {
            settle(state, proc);
        }
    }

    /// A process learns the answer to a request.
    pub(crate) fn learn(&self, state: &mut State, proc: usize, pod: usize, what: What, back: Back) {
        match what {
            What::Bind => {
                let Some(attempt) = state.procs[proc].work[pod].bind else { return };
                let mut requests = attempt;
                requests.open &= self.mutant != Mutant::RefusalEndsOpen;
                self.follow(state, proc, pod, real::after_answer(requests, back), back == Back::Unknown);
            }
            What::Evict => {
                let work = &mut state.procs[proc].work[pod];
                let Some(Call::Sent(uid, _)) = work.evict else { return };
                work.evict = Some(if back == Back::Unknown { Call::Again(uid) } else { Call::Done(uid) });
                settle(state, proc);
            }
            What::Fence => {
                let answer = match back {
                    Back::Done => FenceAnswer::Fenced,
                    Back::Landed => FenceAnswer::Landed,
                    Back::Conflict | Back::NotFound => FenceAnswer::Gone,
                    Back::Refused | Back::Busy | Back::Unknown => {
                        let fence = &mut state.procs[proc].work[pod].fence;
                        *fence = fence.and_then(|call| match call {
                            Call::Sent(uid, _) if self.mutant != Mutant::FenceOnce => Some(Call::Again(uid)),
                            Call::Sent(..) | Call::Again(_) | Call::Done(_) => None,
                        });
                        return;
                    }
                };
                let uid = fenced(&state.procs[proc], pod);
                self.answered(state, proc, pod, uid, answer);
            }
        }
    }

    /// A process learns the state of the pod of a binding, after so many answers 409; none: the read failed.
    pub(crate) fn learn_place(&self, state: &mut State, proc: usize, pod: usize, place: Option<Place>, conflicts: u32) {
        let now = &state.procs[proc];
        let Some(attempt) = now.work[pod].bind else { return };
        if let Stage::Reading { conflict: false, .. } = attempt.stage {
            self.learn_before_retry(state, proc, pod, attempt, place);
            return;
        }
        let leads = self.leads(now) || self.mutant == Mutant::ResendWithoutLease;
        self.follow(state, proc, pod, real::after_read(attempt, place, conflicts, leads), false);
    }

    /// A process learns the state of the pod before it sends a binding again that had no answer.
    fn learn_before_retry(&self, state: &mut State, proc: usize, pod: usize, attempt: Attempt, place: Option<Place>) {
        let bind = &mut state.procs[proc].work[pod].bind;
        *bind = match place {
            Some(Place::Gone) => None,
            Some(Place::Bound) => Some(Attempt { stage: Stage::Bound, ..attempt }),
            Some(Place::Waits { at }) if real::is_void(attempt, at) => Some(Attempt { at, open: false, stage: Stage::Ready, ..attempt }),
            Some(Place::Waits { .. }) | None => Some(Attempt { stage: Stage::Ready, ..attempt }),
        };
        settle(state, proc);
    }

    /// Does the next step of a binding.
    fn follow(&self, state: &mut State, proc: usize, pod: usize, next: NextStep, unknown: bool) {
        let bind = &mut state.procs[proc].work[pod].bind;
        let Some(attempt) = bind else { return };
        match next {
            NextStep::Bound => attempt.stage = Stage::Bound,
            NextStep::NotBound(_) => *bind = None,
            NextStep::Read => attempt.stage = Stage::ToRead,
            NextStep::Send { version } => {
                let at = u8::try_from(version).expect("a label");
                *attempt = Attempt { at, sent: true, open: false, stage: Stage::Ready, ..*attempt };
                // It is sent at once.
                self.send_binding(state, proc, pod);
            }
            // Only a binding whose decision does not hold any more makes the pod void, and none here does that.
            NextStep::BackOff | NextStep::Void => {
                attempt.open |= unknown;
                attempt.stage = Stage::Ready;
            }
        }
        settle(state, proc);
    }
}
