//! Applies an action to a state.

use crate::mutant;
use crate::protocol::slot_of;
use crate::real::{self, Event};
use crate::server::disappeared;
use crate::values::{Back, Flight, GroupState, Labels, Life, Listing, ORPHAN, Owner, Pod, Pods, Req, SLOTS, Sent, State};
use crate::world::{Action, World};

impl World {
    /// Applies one action to the state.
    pub(crate) fn happen(&self, state: &mut State, action: Action) {
        match action {
            Action::Scale { slot, wants, queue } => {
                state.left[slot].scales -= 1;
                state.change_owner(slot, |owner| *owner = Owner { wants, queue, ..*owner });
            }
            Action::DeleteGroup { slot } => {
                state.left[slot].deletes -= 1;
                state.remove(slot);
            }
            Action::StripOwner { slot } => {
                state.left[slot].strips -= 1;
                state.strip(slot);
            }
            Action::Garble { slot } => {
                state.left[slot].garbles -= 1;
                state.garble(slot);
            }
            Action::WriteStatus { slot } => {
                state.left[slot].statuses -= 1;
                state.status(slot);
            }
            Action::DeleteOwner { slot } => {
                state.left[slot].ends -= 1;
                state.change_owner(slot, |owner| owner.life = Life::Gone);
            }
            Action::OrphanOwner { slot } => {
                state.left[slot].orphans -= 1;
                state.change_owner(slot, |owner| owner.life = Life::Orphaning);
            }
            Action::RecreateOwner { slot } => {
                state.left[slot].recreates -= 1;
                state.change_owner(slot, |owner| *owner = Owner { life: Life::Alive, wants: 1, queue: 0 });
            }
            Action::Leave { slot } => {
                state.left[slot].leaves -= 1;
                let served = Owner { life: Life::Alive, wants: 1, queue: 0 };
                let unserved = Owner { life: Life::Unserved, ..Owner::default() };
                state.change_owner(slot, |owner| *owner = if owner.life == Life::Alive { unserved } else { served });
            }
            Action::CreateForeign { slot } => {
                state.left[slot].foreigns -= 1;
                state.create_foreign(slot);
            }
            Action::Refuse { ctrl, slot, later } => {
                state.left[slot].refusals -= 1;
                let Some(flight) = state.ctrls[ctrl].local[slot].flight.take() else { return };
                let view = self.view(state, ctrl, slot);
                let back = if later { Back::Later } else { Back::Refused };
                mutant::learn(self.mutant, &mut state.ctrls[ctrl].local[slot], view, &flight, back);
            }
            Action::FinishEnd { slot } => state.finish_end(slot),
            Action::GiveUp { ctrl, slot } => {
                let landed = state.ctrls[ctrl].local[slot].flight.is_some_and(|flight| flight.back.is_some());
                let left = &mut state.left[slot];
                *(if landed { &mut left.losses } else { &mut left.timeouts }) -= 1;
                self.answer(state, ctrl, slot, false);
            }
            Action::Crash { ctrl, at } => {
                state.crashes -= 1;
                Self::crash(state, ctrl, at);
            }
            Action::ListAgain { ctrl, kind, at } => {
                state.relists -= 1;
                self.show(state, ctrl, kind, at, true);
            }
            Action::CreateInSet { slot } => state.change_owner(slot, |owner| owner.wants += 1),
            Action::CollectInSet { slot } => state.change_owner(slot, |owner| owner.wants -= 1),
            Action::ManagerSees { slot } => {
                state.manager[slot] = state.owners[slot].wanted(self.set);
            }
            Action::Birth { slot, stamp } => {
                let of = u8::try_from(slot).expect("few");
                state.pods.add(Pod { of, terminating: false, stamp, labels: Labels::Selected });
                state.pods_seen.push(state.pods);
            }
            Action::ScaleDown { pod, .. } | Action::CollectPod { pod } => {
                state.change_pods(|pods| pods[pod].iter_mut().for_each(|pod| pod.terminating = true));
            }
            Action::Adopt { slot } => {
                let of = u8::try_from(slot).expect("few");
                let orphan = |pod: &&mut Pod| pod.of == ORPHAN && !pod.terminating && pod.labels == Labels::Selected;
                state.change_pods(|pods| pods.iter_mut().flatten().filter(orphan).take(1).for_each(|pod| pod.of = of));
            }
            Action::Relabel { slot, pod, to } => {
                state.left[slot].relabels -= 1;
                state.change_pods(|pods| pods[pod].iter_mut().for_each(|pod| pod.labels = to));
            }
            // It has no owner any more, so it is a member of another PodGroup.
            Action::PodGone { pod } | Action::Release { pod } => state.change_pods(|pods| pods[pod] = None),
            Action::CollectGroup { slot } => state.remove(slot),
            Action::LeavePods { slot } => state.leave_pods(slot),
            Action::LeaveGroup { slot } => state.strip(slot),
            Action::FinishOrphaning { slot } => state.change_owner(slot, |owner| owner.life = Life::Gone),
            Action::Event { ctrl, kind } => {
                let to = state.ctrls[ctrl].at[kind] + 1;
                self.show(state, ctrl, kind, to, false);
            }
            Action::Send { ctrl, slot } => self.send(state, ctrl, slot),
            Action::Land { ctrl, slot } => self.land(state, ctrl, slot),
            Action::Answer { ctrl, slot } => self.answer(state, ctrl, slot, true),
            Action::LandLate { ctrl, late } => {
                let sent = state.ctrls[ctrl].late.remove(late);
                let cache = usize::from(state.ctrls[ctrl].at[1]);
                state.apply(&sent, self.mutant, cache);
            }
            Action::NeverLand { ctrl, late } => {
                state.ctrls[ctrl].late.remove(late);
            }
            Action::EndMemberWait { ctrl, slot } => self.observe(state, ctrl, slot, Event::WaitOver),
            Action::Forget { ctrl, slot } => state.ctrls[ctrl].local[slot] = GroupState::default(),
        }
    }

    fn send(&self, state: &mut State, ctrl: usize, slot: usize) {
        let Some((Some(req), known)) = self.decide(state, ctrl, slot) else { return };
        let marked = state.groups[slot].is_some_and(|group| group.marked);
        let local = &mut state.ctrls[ctrl].local[slot];
        let listing = match req {
            Req::ListMembers(_) => Some(Listing { under_mark: marked, member: false }),
            Req::Delete(_) => local.listing,
            Req::Read | Req::Create(_) | Req::Amend { .. } | Req::Mark(_) | Req::Unmark(_) => None,
        };
        let sent = Sent { slot: u8::try_from(slot).expect("few"), req, listing };
        local.flight = Some(Flight { sent, known, back: None });
    }

    fn land(&self, state: &mut State, ctrl: usize, slot: usize) {
        let Some(flight) = state.ctrls[ctrl].local[slot].flight else { return };
        let cache = usize::from(state.ctrls[ctrl].at[1]);
        let (back, listing) = state.apply(&flight.sent, self.mutant, cache);
        let local = &mut state.ctrls[ctrl].local[slot];
        let sent = Sent { listing, ..flight.sent };
        local.flight = Some(Flight { sent, back: Some(back), ..flight });
    }

    fn answer(&self, state: &mut State, ctrl: usize, slot: usize, arrives: bool) {
        let Some(flight) = state.ctrls[ctrl].local[slot].flight.take() else { return };
        let back = if arrives { flight.back.unwrap_or(Back::Unknown) } else { Back::Unknown };
        if flight.back.is_none() && !matches!(flight.sent.req, Req::Read | Req::ListMembers(_)) {
            state.ctrls[ctrl].late.push(flight.sent);
        }
        let view = self.view(state, ctrl, slot);
        mutant::learn(self.mutant, &mut state.ctrls[ctrl].local[slot], view, &flight, back);
    }

    fn observe(&self, state: &mut State, ctrl: usize, slot: usize, event: Event) {
        let local = &mut state.ctrls[ctrl].local[slot];
        if !mutant::ignores(self.mutant, local, event) {
            local.memory = real::observe(&local.memory, slot, event);
        }
    }

    /// Moves the watch of one kind to another position of its history, by an event or by a new list.
    fn show(&self, state: &mut State, ctrl: usize, kind: usize, to: u8, listed: bool) {
        let from = usize::from(std::mem::replace(&mut state.ctrls[ctrl].at[kind], to));
        let to = usize::from(to);
        for slot in 0..SLOTS {
            match kind {
                0 if state.owners_seen[from][slot] != state.owners_seen[to][slot] => self.observe(state, ctrl, slot, Event::Owner),
                1 if of(&state.pods_seen[from], slot) != of(&state.pods_seen[to], slot) => self.observe(state, ctrl, slot, Event::Member),
                2 => {
                    let (before, after) = (state.groups_seen[from][slot], state.groups_seen[to][slot]);
                    match disappeared(before, after).filter(|_| !listed) {
                        Some(uid) => self.observe(state, ctrl, slot, Event::Deleted(uid)),
                        None if before != after => self.observe(state, ctrl, slot, Event::Group),
                        None => {}
                    }
                    if listed {
                        self.observe(state, ctrl, slot, Event::Relisted { present: after.is_some() });
                    }
                }
                _ => {}
            }
        }
    }

    fn crash(state: &mut State, ctrl: usize, at: [u8; 3]) {
        let ctrl = &mut state.ctrls[ctrl];
        let writes = ctrl.local.iter().filter_map(|local| local.flight.filter(|flight| flight.back.is_none()).map(|flight| flight.sent));
        ctrl.late.extend(writes.filter(|sent| !matches!(sent.req, Req::Read | Req::ListMembers(_))));
        ctrl.local = [GroupState::default(); SLOTS];
        ctrl.at = at;
    }
}

/// Returns the members of one PodGroup, in order.
fn of(pods: &Pods, slot: usize) -> Pods {
    let mut own = Pods(pods.0.map(|pod| pod.filter(|pod| slot_of(*pod) == Some(slot))));
    own.sort();
    own
}
