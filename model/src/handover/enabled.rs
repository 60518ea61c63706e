//! Lists the actions that are possible in a state.

use podgroup::scheduler::takeover;

use super::action::{Action, What};
use super::mutant::Mutant;
use super::real;
use super::values::{Call, Life, POD, PODS, Place, Proc, Req, Stage, State, Term};
use super::world::World;

/// The kinds of requests.
const WHATS: [What; 3] = [What::Bind, What::Evict, What::Fence];

impl Proc {
    /// Returns the request that was sent and has no answer yet, and whether it was applied.
    pub(crate) fn sent(&self, pod: usize, what: What) -> Option<bool> {
        let work = &self.work[pod];
        match what {
            What::Bind => match work.bind?.stage {
                Stage::Sent(back) => Some(back.is_some()),
                _ => None,
            },
            What::Evict => sent(work.evict),
            What::Fence => sent(work.fence),
        }
    }
}

fn sent(call: Option<Call>) -> Option<bool> {
    match call {
        Some(Call::Sent(_, back)) => Some(back.is_some()),
        Some(Call::Again(_) | Call::Done(_)) | None => None,
    }
}

impl World {
    /// Adds the actions of people, other programs and faults.
    pub(crate) fn others(&self, state: &State, out: &mut Vec<Action>) {
        let left = state.left;
        for (pod, now) in state.pods.iter().enumerate() {
            out.extend((now.life == Life::Never && pod < self.births).then_some(Action::Create { pod }));
            out.extend((left.deletes > 0 && matches!(now.life, Life::Waits | Life::Bound)).then_some(Action::Delete { pod }));
            out.extend((left.touches > 0 && now.life == Life::Waits).then_some(Action::Touch { pod }));
        }
        if left.clears > 0 && state.lease.exists && state.lease.holder != 0 {
            out.push(Action::DeleteLease);
            out.extend(self.has_run_out(state).then_some(Action::ClearHolder));
        }
        for (proc, now) in state.procs.iter().enumerate().filter(|(_, now)| now.id != 0) {
            let leads = now.term == Term::Leads;
            out.extend((left.stops > 0 && leads && !now.stopping).then_some(Action::Stop { proc }));
            out.extend((left.kills > 0 && leads).then_some(Action::Kill { proc }));
            out.extend((left.freezes > 0 && leads).then_some(Action::Freeze { proc }));
            let holds = state.lease.exists && state.lease.holder == now.id;
            out.extend((left.renewals > 0 && now.term == Term::Over && holds).then_some(Action::Renew { proc }));
            if left.relists > 0 {
                out.extend((now.at[POD]..self.length(state, POD)).map(|at| Action::ListByItself { proc, kind: POD, at }));
                out.extend((1..=2).map(|kind| Action::ListByItself { proc, kind, at: now.at[kind] }));
            }
            out.extend((left.losses > 0 && self.can_win(state, proc)).then_some(Action::WinUnanswered { proc }));
            for pod in 0..PODS {
                self.trouble(state, proc, pod, out);
            }
        }
    }

    /// Adds the faults of the requests of a process for a pod.
    fn trouble(&self, state: &State, proc: usize, pod: usize, out: &mut Vec<Action>) {
        let (left, now) = (state.left, &state.procs[proc]);
        for what in WHATS {
            match now.sent(pod, what) {
                Some(false) if left.timeouts > 0 => out.push(Action::TimeOut { proc, pod, what }),
                Some(true) if left.losses > 0 => out.push(Action::LoseAnswer { proc, pod, what }),
                _ => {}
            }
        }
        if now.sent(pod, What::Bind) == Some(false) {
            out.extend((left.refusals > 0).then_some(Action::Refuse { proc, pod }));
            out.extend((left.busy > 0).then_some(Action::Busy { proc, pod }));
        }
        if let Some(attempt) = now.work[pod].bind {
            match attempt.stage {
                Stage::Reading { conflict: true, back: Some(_), .. } => out.push(Action::TireOfConflicts { proc, pod }),
                Stage::Reading { back: None, .. } if left.losses > 0 => out.push(Action::LoseRead { proc, pod }),
                Stage::Reading { last, conflict: false, back: Some(Place::Waits { at }) } if last || real::is_void(attempt, at) => {
                    out.push(Action::GiveUpBinding { proc, pod });
                }
                _ => {}
            }
        }
        if left.unfenced > 0 && now.work[pod].fence.is_some() {
            let early = self.mutant == Mutant::FenceGivenUpEarly;
            // No request lives longer than the fence was tried: what the model knows of time.
            out.extend((early || !is_alive(state, proc, pod)).then_some(Action::GiveUpFence { proc, pod }));
        }
    }

    /// Adds the actions that the cluster performs by itself.
    pub(crate) fn cluster(&self, state: &State, out: &mut Vec<Action>) {
        for (pod, now) in state.pods.iter().enumerate() {
            out.extend((now.life == Life::Leaving).then_some(Action::Kubelet { pod }));
            out.extend((now.life == Life::Gone && state.replacements > 0).then_some(Action::Replace { pod }));
        }
        for late in 0..state.late.len() {
            out.extend([Action::LandLate { late }, Action::DropLate { late }]);
        }
        for (proc, _) in state.procs.iter().enumerate().filter(|(_, now)| now.id == 0) {
            let last = self.length(state, POD) - 1;
            out.extend((last.saturating_sub(self.travel)..=last).map(|pods| Action::Start { proc, pods }));
        }
    }

    /// Adds the actions of the processes and their requests.
    pub(crate) fn processes(&self, state: &State, out: &mut Vec<Action>) {
        for (proc, now) in state.procs.iter().enumerate().filter(|(_, now)| now.id != 0) {
            out.extend(
                (0..super::values::KINDS)
                    .filter(|kind| now.at[*kind] + 1 < self.length(state, *kind))
                    .map(|kind| Action::Event { proc, kind }),
            );
            out.extend(self.can_win(state, proc).then_some(Action::Win { proc }));
            self.lists(state, proc, out);
            if now.stopping && now.term == Term::Leads {
                out.extend(self.releases_drained(now).map(|drained| Action::Release { proc, drained }));
            }
            out.extend((now.stopping || now.term == Term::Over).then_some(Action::End { proc }));
            let view = &state.seen[usize::from(now.at[POD])];
            let (used, size) = self.believed(state, now);
            let decides = self.decides(now);
            for pod in 0..PODS {
                let work = &now.work[pod];
                let outranked = self.evicts && pod == 0 && view[1].life == Life::Waits && now.work[1].bind.is_none();
                if decides && view[pod].life == Life::Waits && work.bind.is_none() && used < size && !outranked {
                    out.push(Action::Decide { proc, pod });
                }
                match work.bind.map(|attempt| (attempt.stage, attempt.sent)) {
                    Some((Stage::Ready, sent)) => {
                        out.push(Action::SendBinding { proc, pod });
                        out.extend(sent.then_some(Action::Read { proc, pod }));
                    }
                    Some((Stage::ToRead, _)) => out.push(Action::Read { proc, pod }),
                    Some((Stage::Reading { back, .. }, _)) => {
                        out.push(if back.is_none() { Action::LandRead { proc, pod } } else { Action::AnswerRead { proc, pod } });
                    }
                    Some((Stage::Sent(_) | Stage::Bound, _)) | None => {}
                }
                out.extend(matches!(work.fence, Some(Call::Again(_))).then_some(Action::SendFence { proc, pod }));
                out.extend(matches!(work.evict, Some(Call::Again(_))).then_some(Action::SendEviction { proc, pod }));
                for what in WHATS {
                    match now.sent(pod, what) {
                        Some(false) => out.push(Action::Land { proc, pod, what }),
                        Some(true) => out.push(Action::Answer { proc, pod, what }),
                        None => {}
                    }
                }
            }
            let leaving = view.iter().any(|pod| pod.life == Life::Leaving);
            let wanted = view[1].life == Life::Waits && now.work[1].bind.is_none() && used >= size;
            let chosen = view[0].life == Life::Bound && now.work[0].evict.is_none();
            out.extend((self.evicts && decides && wanted && chosen && !leaving).then_some(Action::DecideEviction { proc }));
        }
    }

    /// Adds the lists of a process that has won the lease.
    fn lists(&self, state: &State, proc: usize, out: &mut Vec<Action>) {
        let now = &state.procs[proc];
        if now.term != Term::Leads || now.takeover.stage() != takeover::Stage::Listing {
            return;
        }
        for (kind, since) in now.since.iter().enumerate() {
            let Some(since) = *since else { continue };
            let first = if self.mutant == Mutant::ListBehind { now.at[kind] } else { since.max(now.at[kind]) };
            out.extend((first..self.length(state, kind)).map(|at| Action::List { proc, kind, at }));
        }
    }

    /// Returns whether another process may see that the lease has run out, or that it was absent for its whole duration. This is the one
    /// assumption on time: the clock of its holder has passed the renew deadline by then, or the holder is dead.
    pub(crate) fn has_run_out(&self, state: &State) -> bool {
        let holds = |proc: &&Proc| proc.id == state.lease.holder;
        state.procs.iter().find(holds).is_none_or(|holder| holder.term != Term::Leads)
    }

    /// Returns how a process that stops gives its lease up now: with the annotation or without; none while it keeps the lease.
    fn releases_drained(&self, now: &Proc) -> Option<bool> {
        let complete = now.takeover.is_complete() || self.mutant == Mutant::ReleaseIncomplete;
        let unknown = if self.mutant == Mutant::ReleaseWithoutDrain { 0 } else { self.unknown(now) };
        real::releases_drained(complete, unknown)
    }

    fn can_win(&self, state: &State, proc: usize) -> bool {
        let now = &state.procs[proc];
        now.term == Term::Waits && real::win(state.lease, now.id, self.has_run_out(state)).is_some()
    }
}

/// Returns whether a binding of another process for this pod can still be applied.
fn is_alive(state: &State, proc: usize, pod: usize) -> bool {
    let id = state.procs[proc].id;
    let binds = |req: Req| matches!(req, Req::Bind { .. });
    let late = state.late.iter().any(|late| usize::from(late.pod) == pod && late.by != id && binds(late.req));
    let waited = |other: &Proc| other.id != id && other.sent(pod, What::Bind) == Some(false);
    late || state.procs.iter().any(waited)
}
