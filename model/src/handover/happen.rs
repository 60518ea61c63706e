//! Performs an action.

use podgroup::runtime::leader::Handover;
use podgroup::scheduler::dispatch::bind_outcome::CONFLICTS;
use podgroup::scheduler::takeover::{self, FenceAnswer};

use super::action::{Action, What};
use super::mutant::Mutant;
use super::real::{self, Event};
use super::requests::{answer, answered, binding_lives, end, fenced, request, send, settle, stop, waiting};
use super::values::{Attempt, Back, Call, KINDS, Life, POD, Place, Stage, State, Term};
use super::world::World;

impl World {
    pub(crate) fn happen(&self, state: &mut State, action: Action) {
        match action {
            Action::Create { pod } => state.write(pod, |pod| pod.life = Life::Waits),
            Action::Delete { pod } => {
                state.left.deletes -= 1;
                state.end(pod);
            }
            Action::Touch { pod } => {
                state.left.touches -= 1;
                state.write(pod, |_| {});
            }
            Action::ClearHolder => {
                state.left.clears -= 1;
                state.lease.holder = 0;
            }
            Action::DeleteLease => {
                state.left.clears -= 1;
                state.lease.exists = false;
            }
            Action::Stop { proc } => {
                state.left.stops -= 1;
                stop(&mut state.procs[proc]);
            }
            Action::Kill { proc } => {
                state.left.kills -= 1;
                end(state, proc);
            }
            Action::Freeze { proc } => {
                state.left.freezes -= 1;
                state.procs[proc].term = Term::Over;
            }
            Action::Renew { proc } => {
                state.left.renewals -= 1;
                state.procs[proc].term = Term::Leads;
            }
            Action::ListByItself { proc, kind, at } => {
                state.left.relists -= 1;
                self.list(state, proc, kind, at, self.mutant == Mutant::OldListCounts);
            }
            Action::WinUnanswered { proc } => {
                state.left.losses -= 1;
                self.take(state, proc);
            }
            Action::TimeOut { proc, pod, what } => {
                state.left.timeouts -= 1;
                let req = request(&state.procs[proc], pod, what);
                state.leave(state.procs[proc].id, pod, req);
                self.learn(state, proc, pod, what, Back::Unknown);
            }
            Action::LoseAnswer { proc, pod, what } => {
                state.left.losses -= 1;
                self.learn(state, proc, pod, what, Back::Unknown);
            }
            Action::Refuse { proc, pod } => {
                state.left.refusals -= 1;
                self.learn(state, proc, pod, What::Bind, Back::Refused);
            }
            Action::Busy { proc, pod } => {
                state.left.busy -= 1;
                self.learn(state, proc, pod, What::Bind, Back::Busy);
            }
            Action::LoseRead { proc, pod } => {
                state.left.losses -= 1;
                self.learn_place(state, proc, pod, None, 1);
            }
            Action::GiveUpFence { proc, pod } => {
                state.left.unfenced -= 1;
                let uid = fenced(&state.procs[proc], pod);
                // The pod is read first.
                let answer = match state.read(pod, uid) {
                    _ if self.mutant == Mutant::FenceGivenUpUnread => FenceAnswer::GivenUp,
                    Place::Bound => FenceAnswer::Landed,
                    Place::Gone => FenceAnswer::Gone,
                    Place::Waits { .. } => FenceAnswer::GivenUp,
                };
                self.answered(state, proc, pod, uid, answer);
            }
            Action::GiveUpBinding { proc, pod } => state.procs[proc].work[pod].bind = None,
            Action::Kubelet { pod } => state.write(pod, |pod| pod.life = Life::Gone),
            Action::Replace { pod } => {
                state.replacements -= 1;
                state.write(pod, |pod| (pod.life, pod.uid) = (Life::Waits, pod.uid + 1));
            }
            Action::LandLate { late } => {
                let late = state.late.remove(late);
                state.apply(usize::from(late.pod), late.req, self.mutant);
            }
            Action::DropLate { late } => drop(state.late.remove(late)),
            Action::Start { proc, pods } => self.start_process(state, proc, pods),
            Action::Event { proc, kind } => {
                state.procs[proc].at[kind] += 1;
                settle(state, proc);
            }
            Action::Win { proc } => self.win(state, proc),
            Action::List { proc, kind, at } => self.list(state, proc, kind, at, true),
            Action::SendFence { proc, pod } => {
                // Without the lease it is tried again later.
                if self.leads(&state.procs[proc]) {
                    send(&mut state.procs[proc].work[pod].fence, true);
                }
            }
            Action::SendEviction { proc, pod } => {
                let leads = self.leads(&state.procs[proc]);
                send(&mut state.procs[proc].work[pod].evict, leads);
            }
            Action::Decide { proc, pod } => {
                let shown = state.seen[usize::from(state.procs[proc].at[POD])][pod];
                let attempt = Attempt { uid: shown.uid, at: shown.at, sent: false, open: false, stage: Stage::Ready };
                state.procs[proc].work[pod].bind = Some(attempt);
            }
            Action::DecideEviction { proc } => {
                let shown = state.seen[usize::from(state.procs[proc].at[POD])][0];
                state.procs[proc].work[0].evict = Some(Call::Again(shown.uid));
            }
            Action::SendBinding { proc, pod } => self.send_binding(state, proc, pod),
            Action::Read { proc, pod } => {
                let last = self.mutant == Mutant::AbandonEarly || !binding_lives(state, proc, pod);
                if let Some(attempt) = &mut state.procs[proc].work[pod].bind {
                    attempt.stage = Stage::Reading { last, conflict: attempt.stage == Stage::ToRead, back: None };
                }
            }
            Action::LandRead { proc, pod } => {
                let uid = state.procs[proc].work[pod].bind.map_or(0, |attempt| attempt.uid);
                let place = state.read(pod, uid);
                if let Some(Attempt { stage: Stage::Reading { back, .. }, .. }) = &mut state.procs[proc].work[pod].bind {
                    *back = Some(place);
                }
            }
            Action::AnswerRead { proc, pod } => {
                if let Some(Attempt { stage: Stage::Reading { back, .. }, .. }) = state.procs[proc].work[pod].bind {
                    self.learn_place(state, proc, pod, back, 1);
                }
            }
            Action::TireOfConflicts { proc, pod } => {
                if let Some(Attempt { stage: Stage::Reading { back, .. }, .. }) = state.procs[proc].work[pod].bind {
                    self.learn_place(state, proc, pod, back, CONFLICTS);
                }
            }
            Action::Land { proc, pod, what } => {
                let req = request(&state.procs[proc], pod, what);
                let back = state.apply(pod, req, self.mutant);
                let work = &mut state.procs[proc].work[pod];
                match what {
                    What::Bind => work.bind.iter_mut().for_each(|attempt| attempt.stage = Stage::Sent(Some(back))),
                    What::Evict => answer(&mut work.evict, back),
                    What::Fence => answer(&mut work.fence, back),
                }
            }
            Action::Answer { proc, pod, what } => {
                let back = answered(&state.procs[proc], pod, what);
                self.learn(state, proc, pod, what, back);
            }
            Action::Release { proc, drained } => {
                (state.lease.holder, state.lease.drained) = (0, drained);
                end(state, proc);
            }
            Action::End { proc } => end(state, proc),
        }
    }

    /// Writes the lease for this process, as the real election decides.
    fn take(&self, state: &mut State, proc: usize) -> Handover {
        let id = state.procs[proc].id;
        let handover = real::win(state.lease, id, self.has_run_out(state)).expect("it was possible");
        let clean = match self.mutant {
            Mutant::EveryTakeoverIsClean => true,
            Mutant::EveryReleaseIsClean => state.lease.exists && state.lease.holder == 0,
            Mutant::MissingLeaseIsClean => !state.lease.exists,
            _ => false,
        };
        (state.lease.exists, state.lease.holder, state.lease.drained) = (true, id, false);
        if clean { Handover::Clean } else { handover }
    }

    /// The process knows that it has won the lease.
    fn win(&self, state: &mut State, proc: usize) {
        let handover = self.take(state, proc);
        let since = std::array::from_fn(|kind| Some(self.length(state, kind) - 1));
        let now = &mut state.procs[proc];
        now.term = Term::Leads;
        now.since = since;
        now.takeover = now.takeover.after(Event::Won(handover));
        if self.mutant == Mutant::FenceBeforeList && handover == Handover::Unclean {
            for (slot, uid) in waiting(state, proc).into_iter().enumerate() {
                state.procs[proc].work[slot].fence = uid.map(Call::Again);
            }
        }
        if self.mutant == Mutant::DecideOnOldView {
            for kind in 0..KINDS {
                let at = state.procs[proc].at[kind];
                self.list(state, proc, kind, at, true);
            }
        }
    }

    /// A list is complete.
    fn list(&self, state: &mut State, proc: usize, kind: usize, at: u8, fresh: bool) {
        let now = &mut state.procs[proc];
        now.at[kind] = at;
        now.takeover = now.takeover.after(Event::Listed { kind, fresh });
        if fresh {
            now.since[kind] = None;
        }
        settle(state, proc);
        if state.procs[proc].takeover.stage() == takeover::Stage::Fence {
            self.begin_fences(state, proc);
        }
    }

    /// Begins to fence the pods that the view shows without a node.
    fn begin_fences(&self, state: &mut State, proc: usize) {
        let waits = waiting(state, proc);
        state.procs[proc].takeover = state.procs[proc].takeover.after(Event::Fence(waits));
        for (slot, uid) in waits.into_iter().enumerate() {
            let Some(uid) = uid else { continue };
            let began_before = self.mutant == Mutant::FenceBeforeList;
            let fence = &mut state.procs[proc].work[slot].fence;
            if self.mutant == Mutant::NoFence || began_before && fence.is_none() {
                self.answered(state, proc, slot, uid, FenceAnswer::Fenced);
            } else if !began_before {
                *fence = Some(Call::Again(uid));
            }
        }
    }

    /// Sends a binding, if the process leads.
    pub(crate) fn send_binding(&self, state: &mut State, proc: usize, pod: usize) {
        let now = &mut state.procs[proc];
        let leads = self.leads(now);
        let work = &mut now.work[pod];
        let resends = self.mutant == Mutant::ResendWithoutLease && work.bind.is_some_and(|attempt| attempt.sent);
        if !leads && !resends {
            let stays = |attempt: &Attempt| self.mutant != Mutant::NotLeadingEndsOpen && real::stays_without_lease(*attempt);
            work.bind = work.bind.filter(stays);
        } else if let Some(attempt) = &mut work.bind {
            (attempt.sent, attempt.stage) = (true, Stage::Sent(None));
        }
    }
}
