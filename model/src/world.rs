//! How does one modelled world go on? What may happen in a state, and what state it leads to: a [`stateright::Model`].
//!
//! A world is bounded by what may still happen ([`Left`], crashes, lists read again, pods at a time), never by a depth: it is searched to its end.

use stateright::{Model, Property};

use crate::canon::canonical;
use crate::mutant::{self, Mutant};
use crate::promises;
use crate::real::{self, Event, View, slot_of};
use crate::values::{Back, Ctrl, Flight, Group, Kept, Left, Life, Looked, NOBODY, Owner, Pod, Pods, Req, SLOTS, Sent, State};
use podgroup::lifecycle::Members;

/// A bounded world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) controllers: usize,
    /// How many pods each owner wants at first; they and their group are there. 0: nothing is there yet.
    pub(crate) wants: [Option<u8>; SLOTS],
    /// What owners are changed to: how many pods, and the queue.
    pub(crate) targets: &'static [(u8, u8)],
    /// Pods of one owner at a time, with those of nobody.
    pub(crate) pods: usize,
    /// Whether pods are born with the stamp.
    pub(crate) stamps: &'static [bool],
    pub(crate) left: [Left; SLOTS],
    pub(crate) crashes: u8,
    pub(crate) relists: u8,
    /// How many events back a new start or list may be.
    pub(crate) travel: u8,
    /// How many events a watch can be behind.
    pub(crate) lag: usize,
    /// Whether a look that saw a member can be doubted while the cache of pods is still behind.
    pub(crate) early_doubts: bool,
    pub(crate) mutant: Mutant,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // People and programs that are not ours.
    Scale { slot: usize, wants: u8, queue: u8 },
    DeleteGroup { slot: usize },
    StripOwner { slot: usize },
    WriteStatus { slot: usize },
    DeleteOwner { slot: usize },
    OrphanOwner { slot: usize },
    RecreateOwner { slot: usize },
    // Faults.
    GiveUp { ctrl: usize, slot: usize },
    Crash { ctrl: usize, at: [u8; 3] },
    ListAgain { ctrl: usize, kind: usize, at: u8 },
    // What goes on by itself.
    ManagerSees { slot: usize },
    Birth { slot: usize, stamped: bool },
    ScaleDown { slot: usize, pod: usize },
    Adopt { slot: usize },
    PodGone { pod: usize },
    CollectPod { pod: usize },
    CollectGroup { slot: usize },
    LeavePods { slot: usize },
    LeaveGroup { slot: usize },
    FinishOrphaning { slot: usize },
    Event { ctrl: usize, kind: usize },
    Send { ctrl: usize, slot: usize },
    Land { ctrl: usize, slot: usize },
    Answer { ctrl: usize, slot: usize },
    LandLate { ctrl: usize, late: usize },
    NeverLand { ctrl: usize, late: usize },
    Doubt { ctrl: usize, slot: usize },
    Forget { ctrl: usize, slot: usize },
}

impl Action {
    /// Whether it goes on by itself: no fault, and nobody decides on it anew.
    pub(crate) const fn is_system(&self) -> bool {
        !matches!(
            self,
            Self::Scale { .. }
                | Self::DeleteGroup { .. }
                | Self::StripOwner { .. }
                | Self::WriteStatus { .. }
                | Self::DeleteOwner { .. }
                | Self::OrphanOwner { .. }
                | Self::RecreateOwner { .. }
                | Self::GiveUp { .. }
                | Self::Crash { .. }
                | Self::ListAgain { .. }
        )
    }
}

impl World {
    /// What the controller sees of a group.
    pub(crate) fn view(&self, state: &State, ctrl: usize, slot: usize) -> View {
        let at = state.ctrls[ctrl].at.map(usize::from);
        let mut owner = state.owners_seen[at[0]][slot];
        if self.mutant == Mutant::CreateForTheDead && owner.life != Life::Alive {
            owner = Owner { life: Life::Alive, wants: 1, queue: 0 };
        }
        let mut members = members(&state.pods_seen[at[1]], slot);
        if self.mutant == Mutant::BlindToMembers {
            members = Members::None;
        }
        View { slot, owner, members, cached: state.groups_seen[at[2]][slot] }
    }

    /// What the controller would do next about a group, if it is not busy with it.
    pub(crate) fn decide(&self, state: &State, ctrl: usize, slot: usize) -> Option<real::Decided> {
        let kept = &state.ctrls[ctrl].kept[slot];
        if kept.flight.is_some() {
            return None;
        }
        let decided = real::decide(self.view(state, ctrl, slot), &kept.memory);
        Some(mutant::mutate(self.mutant, kept, decided, self.view(state, ctrl, slot)))
    }

    /// Whether nothing goes on by itself any more.
    pub(crate) fn is_quiet(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.cluster(state, &mut actions);
        self.controllers(state, &mut actions);
        actions.is_empty()
    }

    fn start(&self) -> State {
        let mut state = State {
            owners: self.wants.map(|wants| wants.map_or_else(Owner::default, |wants| Owner { life: Life::Alive, wants, queue: 0 })),
            pods: Pods::default(),
            groups: [None; SLOTS],
            manager: self.wants,
            owners_seen: Vec::new(),
            pods_seen: Vec::new(),
            groups_seen: Vec::new(),
            ctrls: vec![Ctrl { at: [0; 3], kept: [Kept::default(); SLOTS], late: Vec::new() }; self.controllers],
            left: self.left,
            crashes: self.crashes,
            relists: self.relists,
            last_at: 0,
            last_uid: 0,
            broken: None,
        };
        for (slot, owner) in state.owners.into_iter().enumerate() {
            let of = u8::try_from(slot).expect("few");
            for _ in 0..owner.wants {
                state.pods.add(Pod { of, ending: false, stamp: if self.stamps[0] { of + 1 } else { 0 } });
            }
            if owner.wants > 0 {
                state.last_at += 1;
                state.last_uid += 1;
                let fields = owner.fields();
                let (uid, at) = (state.last_uid, state.last_at);
                state.groups[slot] = Some(Group { uid, at, marked: false, owned: true, applied: fields, spec: fields });
            }
        }
        state.owners_seen.push(state.owners.map(Owner::shown));
        state.pods_seen.push(state.pods);
        state.groups_seen.push(state.groups.map(|group| group.map(|group| group.seen())));
        state
    }

    /// What people, programs and faults can do.
    fn others(&self, state: &State, out: &mut Vec<Action>) {
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
            if owner.life == Life::Never && left.recreates > 0 && matches!(state.owners[0].life, Life::Orphaning | Life::Gone) {
                out.push(Action::RecreateOwner { slot });
            }
            if let Some(group) = state.groups[slot] {
                out.extend((left.deletes > 0).then_some(Action::DeleteGroup { slot }));
                out.extend((left.strips > 0 && group.owned).then_some(Action::StripOwner { slot }));
                out.extend((left.statuses > 0).then_some(Action::WriteStatus { slot }));
            }
            for (ctrl, kept) in state.ctrls.iter().map(|ctrl| ctrl.kept[slot]).enumerate() {
                if let Some(flight) = kept.flight {
                    let budget = if flight.back.is_none() { left.timeouts } else { left.losses };
                    out.extend((budget > 0).then_some(Action::GiveUp { ctrl, slot }));
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

    /// What goes on by itself in the cluster.
    fn cluster(&self, state: &State, out: &mut Vec<Action>) {
        for (slot, owner) in state.owners.iter().enumerate() {
            let wanted = (owner.life == Life::Alive).then_some(owner.wants);
            if wanted != state.manager[slot] {
                out.push(Action::ManagerSees { slot });
            }
            let mine = |pod: &Pod| usize::from(pod.of) == slot && !pod.ending;
            let living = state.pods.iter().filter(mine).count();
            if let Some(wants) = state.manager[slot].map(usize::from) {
                let all = state.pods.iter().filter(|pod| usize::from(pod.of) == slot || pod.of == NOBODY).count();
                if living < wants && all < self.pods && state.pods.len() < crate::values::PODS {
                    out.extend(self.stamps.iter().map(|stamped| Action::Birth { slot, stamped: *stamped }));
                }
                if living > wants {
                    out.extend(state.pods.distinct().filter(|(_, pod)| mine(pod)).map(|(pod, _)| Action::ScaleDown { slot, pod }));
                }
                // Who adopts asks the API server first whether the owner is still there.
                if owner.life == Life::Alive && state.pods.iter().any(|pod| pod.of == NOBODY && !pod.ending) {
                    out.push(Action::Adopt { slot });
                }
            }
            let owned = state.groups[slot].is_some_and(|group| group.owned);
            match owner.life {
                Life::Gone => {
                    out.extend(state.pods.distinct().filter(|(_, pod)| mine(pod)).map(|(pod, _)| Action::CollectPod { pod }));
                    out.extend(owned.then_some(Action::CollectGroup { slot }));
                }
                Life::Orphaning => {
                    let pods = state.pods.iter().any(|pod| usize::from(pod.of) == slot);
                    out.extend(pods.then_some(Action::LeavePods { slot }));
                    out.extend(owned.then_some(Action::LeaveGroup { slot }));
                    out.extend((!state.has_dependents(slot)).then_some(Action::FinishOrphaning { slot }));
                }
                Life::Never | Life::Alive => {}
            }
        }
        out.extend(state.pods.distinct().filter(|(_, pod)| pod.ending).map(|(pod, _)| Action::PodGone { pod }));
    }

    /// What controllers do, and what becomes of their requests.
    fn controllers(&self, state: &State, out: &mut Vec<Action>) {
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
                match now.kept[slot].flight {
                    Some(Flight { back: None, .. }) => out.push(Action::Land { ctrl, slot }),
                    Some(Flight { back: Some(_), .. }) => out.push(Action::Answer { ctrl, slot }),
                    None => match self.decide(state, ctrl, slot) {
                        Some((Some(_), _)) => out.push(Action::Send { ctrl, slot }),
                        Some((None, known)) => {
                            let memory = &now.kept[slot].memory;
                            let doubts = self.early_doubts || usize::from(now.at[1]) + 1 == state.length(1);
                            let waits = memory.beyond && self.mutant != Mutant::NeverDoubt;
                            out.extend((waits && doubts).then_some(Action::Doubt { ctrl, slot }));
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

    fn send(&self, state: &mut State, ctrl: usize, slot: usize) {
        let Some((Some(req), known)) = self.decide(state, ctrl, slot) else { return };
        let marked = state.groups[slot].is_some_and(|group| group.marked);
        let kept = &mut state.ctrls[ctrl].kept[slot];
        let looked = match req {
            Req::Look(_) => Some(Looked { under_mark: marked, member: false }),
            Req::Delete(_) => kept.looked,
            Req::Read | Req::Create(_) | Req::Amend { .. } | Req::Mark(_) | Req::Unmark(_) => None,
        };
        let sent = Sent { slot: u8::try_from(slot).expect("few"), req, looked };
        kept.flight = Some(Flight { sent, known, back: None });
    }

    fn land(&self, state: &mut State, ctrl: usize, slot: usize) {
        let Some(flight) = state.ctrls[ctrl].kept[slot].flight else { return };
        let cache = usize::from(state.ctrls[ctrl].at[1]);
        let (back, looked) = state.apply(&flight.sent, self.mutant, cache);
        let kept = &mut state.ctrls[ctrl].kept[slot];
        let sent = Sent { looked, ..flight.sent };
        kept.flight = Some(Flight { sent, back: Some(back), ..flight });
    }

    fn answer(&self, state: &mut State, ctrl: usize, slot: usize, arrives: bool) {
        let Some(flight) = state.ctrls[ctrl].kept[slot].flight.take() else { return };
        let back = if arrives { flight.back.unwrap_or(Back::Unknown) } else { Back::Unknown };
        if flight.back.is_none() && !matches!(flight.sent.req, Req::Read | Req::Look(_)) {
            state.ctrls[ctrl].late.push(flight.sent);
        }
        let view = self.view(state, ctrl, slot);
        mutant::learn(self.mutant, &mut state.ctrls[ctrl].kept[slot], view, &flight, back);
    }

    fn saw(&self, state: &mut State, ctrl: usize, slot: usize, event: Event) {
        let kept = &mut state.ctrls[ctrl].kept[slot];
        if !mutant::is_deaf(self.mutant, kept, event) {
            kept.memory = real::saw(&kept.memory, slot, event);
        }
    }

    /// The watch of one kind moves to another place: by an event, or because a list was read again.
    fn show(&self, state: &mut State, ctrl: usize, kind: usize, to: u8, listed: bool) {
        let from = usize::from(std::mem::replace(&mut state.ctrls[ctrl].at[kind], to));
        let to = usize::from(to);
        for slot in 0..SLOTS {
            match kind {
                0 if state.owners_seen[from][slot] != state.owners_seen[to][slot] => self.saw(state, ctrl, slot, Event::Owner),
                1 if of(&state.pods_seen[from], slot) != of(&state.pods_seen[to], slot) => self.saw(state, ctrl, slot, Event::Member),
                2 => {
                    let (before, after) = (state.groups_seen[from][slot], state.groups_seen[to][slot]);
                    match crate::server::went(before, after).filter(|_| !listed) {
                        Some(uid) => self.saw(state, ctrl, slot, Event::Deleted(uid)),
                        None if before != after => self.saw(state, ctrl, slot, Event::Group),
                        None => {}
                    }
                    if listed {
                        self.saw(state, ctrl, slot, Event::Listed { there: after.is_some() });
                    }
                }
                _ => {}
            }
        }
    }

    fn crash(state: &mut State, ctrl: usize, at: [u8; 3]) {
        let ctrl = &mut state.ctrls[ctrl];
        let writes = ctrl.kept.iter().filter_map(|kept| kept.flight.filter(|flight| flight.back.is_none()).map(|flight| flight.sent));
        ctrl.late.extend(writes.filter(|sent| !matches!(sent.req, Req::Read | Req::Look(_))));
        ctrl.kept = [Kept::default(); SLOTS];
        ctrl.at = at;
    }
}

/// The pods of the group of one owner, in order.
fn of(pods: &Pods, slot: usize) -> Pods {
    let mut own = Pods(pods.0.map(|pod| pod.filter(|pod| slot_of(*pod) == Some(slot))));
    own.sort();
    own
}

/// What a cache of pods shows of the members of one group.
pub(crate) fn members(pods: &Pods, slot: usize) -> Members {
    let member = |pod: Pod| if pod.ending { Members::Ending } else { Members::Living };
    pods.iter().filter(|pod| slot_of(*pod) == Some(slot)).map(member).max().unwrap_or_default()
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![canonical(self, self.start())]
    }

    fn actions(&self, state: &State, out: &mut Vec<Action>) {
        if state.broken.is_none() {
            self.others(state, out);
            self.cluster(state, out);
            self.controllers(state, out);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.happen(&mut state, action);
        let behind = |at: &[u8; 3]| (0..3).any(|kind| usize::from(at[kind]) + 1 + self.lag < state.length(kind));
        if state.ctrls.iter().any(|ctrl| behind(&ctrl.at)) {
            return None;
        }
        Some(canonical(self, state))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

impl World {
    fn happen(&self, state: &mut State, action: Action) {
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
            Action::GiveUp { ctrl, slot } => {
                let landed = state.ctrls[ctrl].kept[slot].flight.is_some_and(|flight| flight.back.is_some());
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
            Action::ManagerSees { slot } => {
                state.manager[slot] = (state.owners[slot].life == Life::Alive).then_some(state.owners[slot].wants);
            }
            Action::Birth { slot, stamped } => {
                let of = u8::try_from(slot).expect("few");
                state.pods.add(Pod { of, ending: false, stamp: if stamped { of + 1 } else { 0 } });
                state.pods_seen.push(state.pods);
            }
            Action::ScaleDown { pod, .. } | Action::CollectPod { pod } => {
                state.change_pods(|pods| pods[pod].iter_mut().for_each(|pod| pod.ending = true));
            }
            Action::Adopt { slot } => {
                let of = u8::try_from(slot).expect("few");
                let orphan = |pod: &&mut Pod| pod.of == NOBODY && !pod.ending;
                state.change_pods(|pods| pods.iter_mut().flatten().filter(orphan).take(1).for_each(|pod| pod.of = of));
            }
            Action::PodGone { pod } => state.change_pods(|pods| pods[pod] = None),
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
            Action::Doubt { ctrl, slot } => self.saw(state, ctrl, slot, Event::Waited),
            Action::Forget { ctrl, slot } => state.ctrls[ctrl].kept[slot] = Kept::default(),
        }
    }
}

/// Nothing happens but what goes on by itself.
pub(crate) const QUIET: Left =
    Left { scales: 0, timeouts: 0, losses: 0, deletes: 0, strips: 0, statuses: 0, ends: 0, orphans: 0, recreates: 0 };
