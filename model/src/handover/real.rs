//! Calls the code under test: the real [`Takeover`], the real [`may_release`], the real election, and the real next step of a binding.
//! The model does not repeat any of this code.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use podgroup::api::{GroupKey, Uid};
use podgroup::cycle::plan::{Bind, Victim};
use podgroup::runtime::leader::decide::{Handover, Observed, Presence, Record, Step, decide, handover};
use podgroup::scheduler::command;
use podgroup::scheduler::dispatch::bind_outcome::{
    BindAnswer, NextStep, Place as RealPlace, Requests, after_answer as real_after_answer, after_conflict, is_newer, without_lease,
};
use podgroup::scheduler::kinds::{Kind, Nodes, Pods, WatchedKind};
use podgroup::scheduler::takeover::{FenceAnswer, Release, Stage, Takeover, may_release};
use tokio::time::Instant;

use super::values::{Attempt, Back, Lease, PODS, Place};

/// The number of the request for lists that a process makes when it wins the lease. It wins once.
const GENERATION: u64 = 1;
/// The duration of the lease.
const LEASE: Duration = Duration::from_secs(15);

/// A [`Takeover`], by its number in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Packed(u16);

/// A call of a [`Takeover`], with labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The process has started: its first lists are complete.
    Started,
    Won(Handover),
    /// A list of this kind is complete. `fresh`: it began after the lease was won.
    Listed {
        kind: usize,
        fresh: bool,
    },
    /// The pods without a node, by the number of their UID.
    Fence([Option<u8>; PODS]),
    Answered(usize, u8, FenceAnswer),
    /// The watch shows that the pod has a node, or is gone.
    Shown(usize, u8),
}

/// The takeovers seen so far, and where each event leads.
#[derive(Default)]
struct Table {
    takeovers: Vec<Takeover>,
    numbers: HashMap<Takeover, u16>,
    next: HashMap<(Packed, Event), Packed>,
}

/// One table for all threads: stateright searches in threads of its own.
static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().expect("nothing panics with the table")
}

impl Table {
    fn number(&mut self, takeover: Takeover) -> Packed {
        if self.takeovers.is_empty() {
            self.takeovers.push(Takeover::standby());
            self.numbers.insert(Takeover::standby(), 0);
        }
        let number = u16::try_from(self.takeovers.len()).expect("few takeovers");
        let known = *self.numbers.entry(takeover).or_insert_with_key(|takeover| {
            self.takeovers.push(takeover.clone());
            number
        });
        Packed(known)
    }

    fn get(&self, packed: Packed) -> Takeover {
        self.takeovers.get(usize::from(packed.0)).cloned().unwrap_or_else(Takeover::standby)
    }
}

impl Packed {
    /// Returns the takeover after an event.
    pub(crate) fn after(self, event: Event) -> Self {
        let mut table = table();
        if let Some(next) = table.next.get(&(self, event)) {
            return *next;
        }
        let mut takeover = table.get(self);
        happen(&mut takeover, event);
        let next = table.number(takeover);
        table.next.insert((self, event), next);
        next
    }

    /// Returns what the takeover waits for.
    pub(crate) fn stage(self) -> Stage {
        table().get(self).stage()
    }

    /// Returns whether the process may decide.
    pub(crate) fn is_complete(self) -> bool {
        self.stage() == Stage::Complete
    }
}

fn happen(takeover: &mut Takeover, event: Event) {
    match event {
        Event::Started => Kind::all().for_each(|kind| takeover.listed(kind, 0)),
        Event::Won(handover) => takeover.won(handover, GENERATION),
        Event::Listed { kind, fresh } => {
            for kind in kinds(kind) {
                takeover.listed(kind, if fresh { GENERATION } else { GENERATION - 1 });
            }
        }
        Event::Fence(unbound) => {
            let pods = (0..PODS).filter_map(|slot| Some(uid(slot, unbound[slot]?)));
            let all: Vec<Uid> = pods.collect();
            assert_eq!(takeover.fence(all.clone()), all, "every pod without a node is fenced");
        }
        Event::Answered(slot, number, answer) => takeover.answered(&uid(slot, number), answer),
        Event::Shown(slot, number) => takeover.shown(&uid(slot, number)),
    }
}

/// Returns the real kinds of a kind of the model. Where the kinds matter that are not modelled is left out: their lists come with that of the queues.
fn kinds(kind: usize) -> Vec<Kind> {
    match kind {
        0 => vec![Pods::KIND],
        1 => vec![Nodes::KIND],
        _ => Kind::all().filter(|kind| ![Pods::KIND, Nodes::KIND].contains(kind)).collect(),
    }
}

fn uid(slot: usize, number: u8) -> Uid {
    Uid::from(format!("{slot}-{number}").as_str())
}

/// Returns how a leader that stops gives its lease up now: whether with the annotation that says that it is drained. None while it keeps the lease.
pub(crate) fn releases_drained(complete: bool, unknown: usize) -> Option<bool> {
    match may_release(complete, unknown) {
        Release::Drained => Some(true),
        Release::Unmarked => Some(false),
        Release::Keep => None,
    }
}

/// Returns how this process wins the lease now; none while another process holds it. `run_out`: the lease was seen unchanged, or absent,
/// for its whole duration. A process that has started since the Lease was deleted has not seen it.
pub(crate) fn win(lease: Lease, id: u8, run_out: bool) -> Option<Handover> {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let name = |id: u8| if id == 0 { String::new() } else { format!("process-{id}") };
    let record = Record { holder: name(lease.holder), duration_seconds: Some(15), drained: lease.drained, ..Record::default() };
    let known = (lease.exists || lease.holder != 0).then(|| Observed { record, since: *START });
    let presence = if lease.exists { Presence::Present } else { Presence::Absent { since: *START } };
    let now = if run_out { *START + LEASE } else { *START };
    let win = |seen: Option<&Observed>| match decide(seen, presence, &name(id), LEASE, now) {
        Step::Wait { .. } | Step::WaitForHolder { .. } => None,
        step => Some(handover(seen, &step)),
    };
    win(known.as_ref()).or_else(|| if lease.exists { None } else { win(None) })
}

/// The preconditions that the real requests carry.
pub(crate) struct Guards {
    /// Whether a Binding names the UID and the resourceVersion of its pod.
    pub(crate) uid: bool,
    pub(crate) version: bool,
    /// Whether an eviction names the UID.
    pub(crate) evicted_uid: bool,
}

/// Returns the preconditions of the real requests, read from their bodies once.
pub(crate) fn guards() -> &'static Guards {
    static GUARDS: LazyLock<Guards> = LazyLock::new(|| {
        let group = GroupKey { namespace: Arc::from("ns"), name: Arc::from("group") };
        let bind = Bind {
            uid: uid(0, 7),
            resource_version: 9,
            namespace: Arc::from("ns"),
            name: Arc::from("pod"),
            node: Arc::from("node"),
            queue: Arc::from("queue"),
            path: Arc::from("root/queue"),
            group: group.clone(),
            minimum: None,
        };
        let binding = &command::binding(&bind)["metadata"];
        let victim = Victim { uid: uid(0, 7), namespace: Arc::from("ns"), name: Arc::from("pod"), queue: Arc::from("queue"), group };
        let eviction = serde_json::to_value(command::eviction(&victim)).expect("a body is JSON");
        Guards {
            uid: binding["uid"] == *bind.uid,
            version: binding["resourceVersion"] == "9",
            evicted_uid: eviction["deleteOptions"]["preconditions"]["uid"] == *victim.uid,
        }
    });
    &GUARDS
}

/// Returns the real next step after the answer to a binding.
pub(crate) fn after_answer(attempt: Attempt, back: Back) -> NextStep {
    let answer = match back {
        Back::Done | Back::Landed => BindAnswer::Accepted,
        Back::Conflict => BindAnswer::Conflict,
        Back::NotFound => BindAnswer::Refused("not_found"),
        Back::Refused => BindAnswer::Refused("forbidden"),
        Back::Busy | Back::Unknown => BindAnswer::Open,
    };
    real_after_answer(answer, requests(attempt))
}

/// Returns whether no request of the binding can take effect on a pod of this version any more.
pub(crate) fn is_void(attempt: Attempt, at: u8) -> bool {
    is_newer(u64::from(at), requests(attempt))
}

/// Returns whether a process that does not lead keeps the binding.
pub(crate) fn stays_without_lease(attempt: Attempt) -> bool {
    !matches!(without_lease(requests(attempt)), NextStep::NotBound(_))
}

/// Returns the real next step after the read of the pod after a 409; no place: the read failed.
pub(crate) fn after_read(attempt: Attempt, place: Option<Place>, conflicts: u32, leads: bool) -> NextStep {
    let place = place.map(|place| match place {
        Place::Waits { at } => RealPlace::Waits { version: u64::from(at) },
        Place::Bound => RealPlace::Bound,
        Place::Gone => RealPlace::Gone,
    });
    after_conflict(place, Requests { conflicts, ..requests(attempt) }, leads)
}

fn requests(attempt: Attempt) -> Requests {
    Requests { version: u64::from(attempt.at), unanswered: attempt.open, conflicts: 1 }
}
