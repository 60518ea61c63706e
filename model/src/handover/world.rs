//! A world: a bounded scenario of a handover that is searched completely, as a [`stateright::Model`].
//!
//! A process that is frozen is one that does no step: nothing forces a process to do a step, so the model needs no state for it. When its clock has
//! passed the renew deadline, it is [`Term::Over`]; when it thaws, it does steps again.

use stateright::{Model, Property};

use super::action::Action;
use super::canon::canonical;
use super::mutant::Mutant;
use super::real::{Event, Packed};
use super::values::{Call, KINDS, Lease, Left, Life, POD, PODS, PROCS, Pod, Proc, Stage, State, Term, Work};
use crate::report::Checked;
use crate::search::{Kind, Space};

/// A bounded world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    /// The pods at the start.
    pub(crate) pods: [Life; PODS],
    /// Of the first so many pods, one that was never there may be created.
    pub(crate) births: usize,
    /// What the node had and has, and the capability that the queue had and has.
    pub(crate) sizes: [&'static [u8]; 2],
    /// Whether the first process leads at the start; otherwise there is no Lease yet.
    pub(crate) led: bool,
    /// How many states the watches of the second process are behind at the start: nodes and queues.
    pub(crate) behind: [u8; 2],
    /// Whether pod 1 has a higher priority than pod 0: a leader evicts pod 0 for it.
    pub(crate) evicts: bool,
    /// How many pods may be created in the place of deleted ones.
    pub(crate) replacements: u8,
    pub(crate) left: Left,
    /// The most events that the first lists of a process, and a list that is behind, may go back.
    pub(crate) travel: u8,
    /// The most events that the watch of a process that leads or waits can be behind.
    pub(crate) lag: u8,
    pub(crate) mutant: Mutant,
}

impl World {
    /// Returns how many the node and the queue have room for.
    pub(crate) fn room(&self) -> u8 {
        self.sizes.iter().map(|sizes| sizes[sizes.len() - 1]).min().unwrap_or(0)
    }

    /// Returns the number of states that watches of a kind can show.
    pub(crate) fn length(&self, state: &State, kind: usize) -> u8 {
        let length = if kind == POD { state.seen.len() } else { self.sizes[kind - 1].len() };
        u8::try_from(length).expect("histories are short")
    }

    /// Returns whether a process may send what it has decided.
    pub(crate) fn leads(&self, proc: &Proc) -> bool {
        proc.term == Term::Leads || proc.term == Term::Over && self.mutant == Mutant::NeverOver
    }

    /// Returns whether a process may decide.
    pub(crate) fn decides(&self, proc: &Proc) -> bool {
        let listed = proc.since.iter().all(Option::is_none);
        let complete = match self.mutant {
            Mutant::DecideBeforeFences => listed,
            Mutant::DecideOnOldView => true,
            _ => proc.takeover.is_complete(),
        };
        self.leads(proc) && !proc.stopping && complete
    }

    /// Returns what a process believes of the room: how much is used, and how much there is.
    pub(crate) fn believed(&self, state: &State, proc: &Proc) -> (u8, u8) {
        let view = &state.seen[usize::from(proc.at[POD])];
        let uses = |slot: usize| match view[slot].life {
            Life::Bound => true,
            Life::Leaving => self.mutant != Mutant::LeavingIsRoom,
            Life::Waits => proc.work[slot].bind.is_some(),
            Life::Never | Life::Gone => false,
        };
        let used = u8::try_from((0..PODS).filter(|slot| uses(*slot)).count()).expect("few");
        let size = |kind: usize| self.sizes[kind - 1][usize::from(proc.at[kind])];
        (used, size(1).min(size(2)))
    }

    /// Returns the number of requests of a process without a known outcome.
    pub(crate) fn unknown(&self, proc: &Proc) -> usize {
        let binds = |work: &Work| match work.bind.map(|attempt| attempt.stage) {
            None | Some(Stage::Bound) => false,
            Some(Stage::Ready | Stage::ToRead | Stage::Reading { .. }) if self.mutant == Mutant::ReleaseWithUnknown => false,
            Some(_) => true,
        };
        let evicts = |work: &Work| matches!(work.evict, Some(Call::Again(_) | Call::Sent(..)));
        proc.work.iter().map(|work| usize::from(binds(work)) + usize::from(evicts(work))).sum()
    }

    fn start(&self) -> State {
        let mut state = State {
            pods: self.pods.map(|life| Pod { life, uid: 0, at: u8::from(life.exists()), fenced_by: 0 }),
            seen: Vec::new(),
            lease: Lease::default(),
            procs: [Proc::default(); PROCS],
            late: Vec::new(),
            left: self.left,
            replacements: self.replacements,
            last_at: 1,
            last_id: 0,
            broken: None,
        };
        state.seen.push(state.pods);
        for proc in 0..PROCS {
            self.start_process(&mut state, proc, 0);
        }
        for (kind, behind) in (1..).zip(self.behind) {
            state.procs[1].at[kind] -= behind;
        }
        if self.led {
            let leader = &mut state.procs[0];
            leader.term = Term::Leads;
            state.lease = Lease { exists: true, holder: leader.id, drained: false };
            leader.takeover = led();
        }
        state
    }

    /// Starts a process: its first lists are complete.
    pub(crate) fn start_process(&self, state: &mut State, proc: usize, pods: u8) {
        state.last_id += 1;
        let mut at = [pods; KINDS];
        for (kind, at) in at.iter_mut().enumerate().skip(1) {
            *at = self.length(state, kind) - 1;
        }
        state.procs[proc] = Proc { id: state.last_id, at, takeover: Packed::default().after(Event::Started), ..Proc::default() };
    }
}

/// Returns the takeover of a leader that is complete.
fn led() -> Packed {
    let won = Packed::default().after(Event::Started).after(Event::Won(podgroup::runtime::leader::Handover::Clean));
    (0..KINDS).fold(won, |takeover, kind| takeover.after(Event::Listed { kind, fresh: true }))
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
            self.processes(state, out);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.happen(&mut state, action);
        let state = canonical(self, state);
        let end = self.length(&state, POD);
        let behind = |proc: &Proc| proc.id != 0 && proc.at[POD] + 1 + self.lag < end;
        if state.procs.iter().any(behind) { None } else { Some(state) }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("oversold", |world: &Self, state: &State| state.used() <= world.room()),
            Property::always("eviction", |_, state: &State| state.broken.is_none()),
        ]
    }
}

impl Space for World {
    const LIVENESS: &'static str = "decided";

    /// Returns whether everything is decided: a leader works, nothing is under way, and no pod waits for room that is there.
    fn is_goal(&self, state: &State) -> bool {
        let last = self.length(state, POD) - 1;
        let works = |proc: &Proc| proc.term == Term::Leads && !proc.stopping && proc.takeover.is_complete() && proc.at[POD] == last;
        let waits = |slot: usize| state.pods[slot].life == Life::Waits;
        let room = state.used() < self.room();
        let preempts = self.evicts && waits(1) && state.pods[0].life.uses();
        state.late.is_empty()
            && state.procs.iter().all(|proc| proc.work == [Work::default(); PODS])
            && state.procs.iter().any(works)
            && !(0..PODS).any(|slot| waits(slot) && room)
            && !preempts
    }

    fn is_settled(&self, _: &State) -> bool {
        true
    }

    fn kind(&self, before: &State, action: Action, after: &State) -> Kind {
        let system = action.is_system();
        Kind { system, own: system, wrote: before.pods != after.pods }
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
