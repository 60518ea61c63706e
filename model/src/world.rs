//! A world: a bounded scenario that is searched completely, as a [`stateright::Model`].
//!
//! A world is bounded by the number of actions that may still happen ([`Left`], crashes, new lists, pods at a time). The depth of the
//! search has no bound.

use stateright::{Model, Property};

use crate::canon::canonical;
use crate::mutant::{self, Mutant};
use crate::promises;
use crate::protocol::slot_of;
use crate::real::{self, View};
use crate::report::Checked;
use crate::search::{Kind, Space};
use crate::values::{Ctrl, ELSEWHERE, Group, GroupState, Labels, Left, Life, Owner, Pod, Pods, SLOTS, State};
use podgroup::lifecycle::Members;

/// A bounded world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) controllers: usize,
    /// The number of pods that each owner wants at first. These pods and their PodGroup exist at the start.
    pub(crate) wants: [Option<u8>; SLOTS],
    /// The states that owners can be changed to: the number of pods and the queue.
    pub(crate) targets: &'static [(u8, u8)],
    /// The most pods of one owner at a time, including orphans.
    pub(crate) pods: usize,
    /// Whether new pods may have the stamp (the annotation with the generated name).
    pub(crate) stamps: &'static [bool],
    /// Whether a webhook may name the PodGroup of another controller on a new pod.
    pub(crate) webhook: bool,
    pub(crate) left: [Left; SLOTS],
    pub(crate) crashes: u8,
    pub(crate) relists: u8,
    /// The most events that a restart or a new list may go back.
    pub(crate) travel: u8,
    /// The most events that a watch can be behind.
    pub(crate) lag: usize,
    /// Whether the wait for a listed member may end while the cache of pods is still behind.
    pub(crate) early_wait_end: bool,
    /// Whether every PodGroup has a finalizer.
    pub(crate) finalizers: bool,
    /// Whether the owners are of a kind that is not watched: only their pods show them.
    pub(crate) unwatched: bool,
    /// Whether the owners are sets, as a JobSet: not watched themselves, and with one PodGroup for the two watched owners that each creates.
    pub(crate) set: bool,
    pub(crate) mutant: Mutant,
}

/// An action that changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Actions of people and other programs.
    Scale { slot: usize, wants: u8, queue: u8 },
    DeleteGroup { slot: usize },
    StripOwner { slot: usize },
    Garble { slot: usize },
    WriteStatus { slot: usize },
    DeleteOwner { slot: usize },
    OrphanOwner { slot: usize },
    RecreateOwner { slot: usize },
    Leave { slot: usize },
    CreateForeign { slot: usize },
    Relabel { slot: usize, pod: usize, to: Labels },
    // Faults.
    GiveUp { ctrl: usize, slot: usize },
    Refuse { ctrl: usize, slot: usize, later: bool },
    Crash { ctrl: usize, at: [u8; 3] },
    ListAgain { ctrl: usize, kind: usize, at: u8 },
    // Actions that the cluster performs by itself.
    CreateInSet { slot: usize },
    CollectInSet { slot: usize },
    ManagerSees { slot: usize },
    Birth { slot: usize, stamp: u8 },
    ScaleDown { slot: usize, pod: usize },
    Adopt { slot: usize },
    PodGone { pod: usize },
    CollectPod { pod: usize },
    Release { pod: usize },
    CollectGroup { slot: usize },
    LeavePods { slot: usize },
    LeaveGroup { slot: usize },
    FinishOrphaning { slot: usize },
    FinishEnd { slot: usize },
    Event { ctrl: usize, kind: usize },
    Send { ctrl: usize, slot: usize },
    Land { ctrl: usize, slot: usize },
    Answer { ctrl: usize, slot: usize },
    LandLate { ctrl: usize, late: usize },
    NeverLand { ctrl: usize, late: usize },
    EndMemberWait { ctrl: usize, slot: usize },
    Forget { ctrl: usize, slot: usize },
}

impl Action {
    /// Returns whether the cluster performs the action by itself: it is neither a fault nor an action of a person or another program.
    pub(crate) const fn is_system(&self) -> bool {
        !matches!(
            self,
            Self::Scale { .. }
                | Self::DeleteGroup { .. }
                | Self::StripOwner { .. }
                | Self::Garble { .. }
                | Self::WriteStatus { .. }
                | Self::DeleteOwner { .. }
                | Self::OrphanOwner { .. }
                | Self::RecreateOwner { .. }
                | Self::Leave { .. }
                | Self::CreateForeign { .. }
                | Self::Relabel { .. }
                | Self::Refuse { .. }
                | Self::GiveUp { .. }
                | Self::Crash { .. }
                | Self::ListAgain { .. }
        )
    }
}

impl World {
    /// Returns what the caches of a controller show of a PodGroup.
    pub(crate) fn view(&self, state: &State, ctrl: usize, slot: usize) -> View {
        let at = state.ctrls[ctrl].at.map(usize::from);
        let mut owner = state.owners_seen[at[0]][slot];
        if self.mutant == Mutant::CreateForDeletedOwner && owner.life != Life::Alive {
            owner = Owner { life: Life::Alive, wants: 1, queue: 0 };
        }
        let mut members = members(&state.pods_seen[at[1]], slot);
        if self.mutant == Mutant::IgnoreMembers {
            members = Members::None;
        }
        let cached = state.groups_seen[at[2]][slot];
        if self.unwatched {
            owner = match (members, cached) {
                (Members::Active, _) => Owner { life: Life::Alive, wants: 1, queue: 0 },
                (_, Some(seen)) if seen.owned => Owner { life: Life::Unknown, ..Owner::default() },
                _ => Owner { life: Life::Gone, ..Owner::default() },
            };
        }
        if self.set {
            owner = match (owner.life, cached) {
                (Life::Alive, _) if self.mutant == Mutant::CountPartsThatAreThere => owner,
                (Life::Alive, _) => Owner { wants: real::min_member_of_set(owner.wants), ..owner },
                (_, Some(seen)) if seen.owned => Owner { life: Life::Unknown, ..Owner::default() },
                _ => Owner { life: Life::Gone, ..Owner::default() },
            };
        }
        let pods_elsewhere = self.mutant != Mutant::IgnorePodsElsewhere && elsewhere(&state.pods_seen[at[1]], slot);
        View { slot, owner, members, cached, pods_elsewhere }
    }

    /// Returns the next step of a controller for a PodGroup; `None` while a request for it is under way.
    pub(crate) fn decide(&self, state: &State, ctrl: usize, slot: usize) -> Option<real::Decided> {
        let local = &state.ctrls[ctrl].local[slot];
        if local.flight.is_some() {
            return None;
        }
        let decided = real::decide(self.view(state, ctrl, slot), &local.memory);
        Some(mutant::mutate(self.mutant, local, decided, self.view(state, ctrl, slot)))
    }

    /// Returns whether no action that the cluster performs by itself is possible.
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
            ctrls: vec![Ctrl { at: [0; 3], local: [GroupState::default(); SLOTS], late: Vec::new() }; self.controllers],
            left: self.left,
            crashes: self.crashes,
            relists: self.relists,
            finalizers: self.finalizers,
            set: self.set,
            last_at: 0,
            last_uid: 0,
            broken: None,
        };
        for (slot, owner) in state.owners.into_iter().enumerate() {
            let of = u8::try_from(slot).expect("few");
            for _ in 0..owner.wants {
                let stamp = if self.stamps[0] { of + 1 } else { 0 };
                state.pods.add(Pod { of, terminating: false, stamp, labels: Labels::Selected });
            }
            if owner.wants > 0 {
                state.last_at += 1;
                state.last_uid += 1;
                let fields = owner.fields();
                let (uid, at) = (state.last_uid, state.last_at);
                let (ending, foreign) = (false, false);
                state.groups[slot] = Some(Group { uid, at, marked: false, owned: true, applied: fields, spec: fields, ending, foreign });
            }
        }
        state.owners_seen.push(state.owners.map(|owner| owner.shown(self.set)));
        state.pods_seen.push(state.pods);
        state.groups_seen.push(state.groups.map(|group| group.map(|group| group.seen())));
        state
    }
}

/// Returns the members of one PodGroup in a cache of pods.
pub(crate) fn members(pods: &Pods, slot: usize) -> Members {
    let member = |pod: Pod| if pod.terminating { Members::Terminating } else { Members::Active };
    pods.iter().filter(|pod| slot_of(*pod) == Some(slot)).map(member).max().unwrap_or_default()
}

/// Returns whether pods of the owner name another PodGroup.
pub(crate) fn elsewhere(pods: &Pods, slot: usize) -> bool {
    pods.iter().any(|pod| usize::from(pod.of) == slot && pod.stamp == ELSEWHERE)
}

/// Returns whether the pods of the owner belong to another PodGroup, and none to its own.
pub(crate) fn are_elsewhere(pods: &Pods, slot: usize) -> bool {
    elsewhere(pods, slot) && members(pods, slot) == Members::None
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

impl Space for World {
    const LIVENESS: &'static str = "L2";

    fn is_goal(&self, state: &State) -> bool {
        promises::is_right(state) && self.is_quiet(state)
    }

    /// Returns whether owners and pods have stopped changing, every controller has seen that, and no late request is under way.
    fn is_settled(&self, state: &State) -> bool {
        let shown = |ctrl: &Ctrl, kind: usize| usize::from(ctrl.at[kind]) + 1 == state.length(kind);
        state.ctrls.iter().all(|ctrl| ctrl.late.is_empty() && (0..2).all(|kind| shown(ctrl, kind)))
            && state.pods.iter().all(|pod| !pod.terminating)
    }

    fn kind(&self, before: &State, action: Action, after: &State) -> Kind {
        let own = matches!(action, Action::Send { .. } | Action::Land { .. } | Action::Answer { .. } | Action::Event { kind: 2, .. });
        let wrote = matches!(action, Action::Land { .. }) && after.groups != before.groups;
        Kind { system: action.is_system(), own, wrote }
    }
}

impl Checked for World {
    type Mutant = Mutant;
    const MUTANTS: &'static [Mutant] = &Mutant::ALL;

    fn name(&self) -> &'static str {
        self.name
    }

    fn with(self, mutant: Mutant) -> Self {
        Self { mutant, ..self }
    }

    fn breaks(mutant: Mutant) -> Option<&'static str> {
        mutant.breaks()
    }
}

/// The limits of a world without actions of people, other programs and faults.
pub(crate) const QUIET: Left = Left {
    scales: 0,
    timeouts: 0,
    losses: 0,
    deletes: 0,
    strips: 0,
    garbles: 0,
    statuses: 0,
    ends: 0,
    orphans: 0,
    recreates: 0,
    leaves: 0,
    foreigns: 0,
    refusals: 0,
    relabels: 0,
};
