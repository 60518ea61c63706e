//! Lists the actions that are possible in a state.

use podgroup::lifecycle::Members;

use crate::mutant::Mutant;
use crate::values::{ELSEWHERE, Flight, IN_SET, Labels, Life, ORPHAN, Pod, SLOTS, State, UNREADABLE};
use crate::world::{Action, World};

impl World {
    /// Adds the actions of people, other programs and faults.
    pub(crate) fn others(&self, state: &State, out: &mut Vec<Action>) {
        for (slot, left) in state.left.iter().enumerate() {
            let owner = state.owners[slot];
            if owner.life == Life::Alive {
                if left.scales > 0 {
                    let other = |(wants, queue): &(u8, u8)| (*wants, *queue) != (owner.wants, owner.queue);
                    out.extend(self.targets.iter().copied().filter(other).map(|(wants, queue)| Action::Scale { slot, wants, queue }));
                }
                out.extend((left.ends > 0).then_some(Action::DeleteOwner { slot }));
                out.extend((left.orphans > 0).then_some(Action::OrphanOwner { slot }));
            }
            if left.relabels > 0 {
                let selected = |pod: &Pod| usize::from(pod.of) == slot && !pod.terminating && pod.labels == Labels::Selected;
                let pods = state.pods.distinct().filter(|(_, pod)| selected(pod));
                out.extend(pods.flat_map(|(pod, _)| Labels::CHANGED.map(|to| Action::Relabel { slot, pod, to })));
            }
            let exists = matches!(owner.life, Life::Alive | Life::Unserved);
            out.extend((left.leaves > 0 && exists).then_some(Action::Leave { slot }));
            out.extend((left.foreigns > 0 && state.groups[slot].is_none()).then_some(Action::CreateForeign { slot }));
            if owner.life == Life::Never && left.recreates > 0 && matches!(state.owners[0].life, Life::Orphaning | Life::Gone) {
                out.push(Action::RecreateOwner { slot });
            }
            if let Some(group) = state.groups[slot] {
                out.extend((left.deletes > 0 && !group.ending).then_some(Action::DeleteGroup { slot }));
                out.extend((left.strips > 0 && group.owned).then_some(Action::StripOwner { slot }));
                out.extend((left.garbles > 0 && group.applied != UNREADABLE).then_some(Action::Garble { slot }));
                out.extend((left.statuses > 0).then_some(Action::WriteStatus { slot }));
            }
            for (ctrl, local) in state.ctrls.iter().map(|ctrl| ctrl.local[slot]).enumerate() {
                if let Some(flight) = local.flight {
                    let budget = if flight.back.is_none() { left.timeouts } else { left.losses };
                    out.extend((budget > 0).then_some(Action::GiveUp { ctrl, slot }));
                    if left.refusals > 0 && flight.back.is_none() {
                        out.extend([false, true].map(|later| Action::Refuse { ctrl, slot, later }));
                    }
                }
            }
        }
        let places = |kind: usize| {
            let last = state.length(kind) - 1;
            (last.saturating_sub(usize::from(self.travel))..=last).map(|at| u8::try_from(at).expect("histories are short"))
        };
        for ctrl in 0..state.ctrls.len() {
            if state.crashes > 0 {
                for owners in places(0) {
                    for pods in places(1) {
                        out.extend(places(2).map(|groups| Action::Crash { ctrl, at: [owners, pods, groups] }));
                    }
                }
            }
            if state.relists > 0 {
                for kind in 0..3 {
                    out.extend(places(kind).map(|at| Action::ListAgain { ctrl, kind, at }));
                }
            }
        }
    }

    /// Adds the actions that the cluster performs by itself.
    pub(crate) fn cluster(&self, state: &State, out: &mut Vec<Action>) {
        for (slot, owner) in state.owners.iter().enumerate() {
            if self.set && self.wants[slot].is_some() {
                out.extend((owner.life == Life::Alive && owner.wants < IN_SET).then_some(Action::CreateInSet { slot }));
                out.extend((owner.life == Life::Gone && owner.wants > 0).then_some(Action::CollectInSet { slot }));
            }
            let wanted = if self.set && self.wants[slot].is_none() { None } else { owner.wanted(self.set) };
            if wanted != state.manager[slot] {
                out.push(Action::ManagerSees { slot });
            }
            let owned = |pod: &Pod| usize::from(pod.of) == slot && !pod.terminating;
            let mine = |pod: &Pod| owned(pod) && pod.labels == Labels::Selected;
            let active = state.pods.iter().filter(mine).count();
            if let Some(wants) = state.manager[slot].map(usize::from) {
                let all = state.pods.iter().filter(|pod| usize::from(pod.of) == slot || pod.of == ORPHAN).count();
                if active < wants && all < self.pods && state.pods.len() < crate::values::PODS {
                    let own = u8::try_from(slot + 1).expect("few");
                    let stamps = self.stamps.iter().map(|stamped| if *stamped { own } else { 0 });
                    out.extend(stamps.chain(self.webhook.then_some(ELSEWHERE)).map(|stamp| Action::Birth { slot, stamp }));
                }
                if active > wants {
                    out.extend(state.pods.distinct().filter(|(_, pod)| mine(pod)).map(|(pod, _)| Action::ScaleDown { slot, pod }));
                }
                let changed = |(_, pod): &(usize, Pod)| owned(pod) && !mine(pod);
                out.extend(state.pods.distinct().filter(changed).map(|(pod, _)| Action::Release { pod }));
                // Before an adoption the controller asks the API server whether the owner still exists.
                if owner.life == Life::Alive
                    && state.pods.iter().any(|pod| pod.of == ORPHAN && !pod.terminating && pod.labels == Labels::Selected)
                {
                    out.push(Action::Adopt { slot });
                }
            }
            let has_owner = state.groups[slot].is_some_and(|group| group.owned);
            let ending = state.groups[slot].is_some_and(|group| group.ending);
            out.extend(ending.then_some(Action::FinishEnd { slot }));
            match owner.life {
                Life::Gone => {
                    // The pods of a set are collected with the owners that it has created.
                    let collected = |(_, pod): &(usize, Pod)| owned(pod) && !self.set;
                    out.extend(state.pods.distinct().filter(collected).map(|(pod, _)| Action::CollectPod { pod }));
                    out.extend((has_owner && !ending).then_some(Action::CollectGroup { slot }));
                }
                Life::Orphaning => {
                    let pods = state.pods.iter().any(|pod| usize::from(pod.of) == slot);
                    out.extend(pods.then_some(Action::LeavePods { slot }));
                    out.extend(has_owner.then_some(Action::LeaveGroup { slot }));
                    out.extend((!state.has_dependents(slot)).then_some(Action::FinishOrphaning { slot }));
                }
                Life::Never | Life::Alive | Life::Unserved | Life::Unknown => {}
            }
        }
        out.extend(state.pods.distinct().filter(|(_, pod)| pod.terminating).map(|(pod, _)| Action::PodGone { pod }));
    }

    /// Adds the actions of the controllers and their requests.
    pub(crate) fn controllers(&self, state: &State, out: &mut Vec<Action>) {
        for (ctrl, now) in state.ctrls.iter().enumerate() {
            out.extend((0..3).filter(|kind| usize::from(now.at[*kind]) + 1 < state.length(*kind)).map(|kind| Action::Event { ctrl, kind }));
            for late in 0..now.late.len() {
                out.push(Action::LandLate { ctrl, late });
                out.push(Action::NeverLand { ctrl, late });
            }
            for slot in 0..SLOTS {
                if self.wants[slot].is_none() && self.left[slot].recreates == 0 {
                    continue;
                }
                match now.local[slot].flight {
                    Some(Flight { back: None, .. }) => out.push(Action::Land { ctrl, slot }),
                    Some(Flight { back: Some(_), .. }) => out.push(Action::Answer { ctrl, slot }),
                    None => match self.decide(state, ctrl, slot) {
                        Some((Some(_), _)) => out.push(Action::Send { ctrl, slot }),
                        Some((None, known)) => {
                            let memory = &now.local[slot].memory;
                            let may_end = self.early_wait_end || usize::from(now.at[1]) + 1 == state.length(1);
                            let waits = memory.unseen_member && self.mutant != Mutant::NeverStopWaiting;
                            out.extend((waits && may_end).then_some(Action::EndMemberWait { ctrl, slot }));
                            let view = self.view(state, ctrl, slot);
                            let nothing = view.owner.life != Life::Alive && view.members == Members::None && view.cached.is_none();
                            out.extend(
                                (nothing && known.is_none() && *memory != Default::default()).then_some(Action::Forget { ctrl, slot }),
                            );
                        }
                        None => {}
                    },
                }
            }
        }
    }
}
