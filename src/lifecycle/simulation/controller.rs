//! A simulated controller: the real [`decide`] and the real [`Memory`], with simulated caches and requests.
//!
//! It does the same as `controller::reconciler` does for one key. A [`Mutant`] breaks one rule of the protocol on purpose, so that the
//! tests show that they find the fault. The other rules have mutants in the exhaustive model (`model/`).

use serde_json::Value;

use crate::api::workload::ObjectRef;
use crate::api::{GroupKey, Uid};
use crate::controller::dialect;
use crate::lifecycle::{
    Answer, Applied, CacheChange, DesiredGroup, Existing, Intent, Members, Memory, Owner, Reply as DecodedReply, Situation, Step, Version,
    answer, decide,
};

use super::server::{OWNER, OwnerState, Pods, Reply, Request, Server};

/// A rule of the protocol that the simulated controller breaks on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lifecycle) enum Mutant {
    /// No rule is broken.
    None,
    /// A DELETE has no precondition on the resourceVersion.
    DeleteAnyVersion,
    /// An amendment does not contain the resourceVersion that it was computed from.
    AmendAnyVersion,
}

/// A request that was decided on, until its answer.
pub(super) struct Pending {
    pub(super) step: Step,
    pub(super) known: Option<Version>,
    pub(super) request: Request,
}

/// A simulated controller of one owner.
pub(super) struct SimController {
    mutant: Mutant,
    pub(super) memory: Memory,
    /// The position of each watch (owners, pods, PodGroups) in its history. The next three fields are the caches at these positions.
    pub(super) at: [usize; 3],
    owner: Option<OwnerState>,
    pods: Pods,
    group: Option<Existing>,
    /// Whether a step is under way.
    pub(super) busy: bool,
    /// When the last list of members was sent, for the check of S2.
    listed: Option<u64>,
}

impl SimController {
    pub(super) fn new(server: &Server, mutant: Mutant) -> Self {
        let mut controller =
            Self { mutant, memory: Memory::default(), at: [0; 3], owner: None, pods: Pods::new(), group: None, busy: false, listed: None };
        controller.show(server);
        controller
    }

    fn show(&mut self, server: &Server) {
        self.owner = server.owners_seen[self.at[0]];
        self.pods = server.pods_seen[self.at[1]].clone();
        self.group = server.groups_seen[self.at[2]].clone();
    }

    /// Delivers the next event of one kind. Returns false if there is none.
    pub(super) fn deliver(&mut self, server: &Server, kind: usize) -> bool {
        if self.at[kind] + 1 >= history(server, kind) {
            return false;
        }
        let before = self.group.take();
        self.at[kind] += 1;
        self.show(server);
        match kind {
            1 => self.memory.observe(CacheChange::Member),
            2 => {
                if let (Some(before), None) = (&before, &self.group) {
                    self.memory.observe(CacheChange::Deleted(&before.version().uid));
                }
            }
            _ => {}
        }
        true
    }

    /// Lists one kind again, at some position of its history. The position may be before the last event that was seen.
    pub(super) fn relist(&mut self, server: &Server, kind: usize, place: usize) {
        self.at[kind] = old_or_now(server, kind, place);
        self.show(server);
        match kind {
            1 => self.memory.observe(CacheChange::Member),
            2 => self.memory.observe(CacheChange::Relisted { present: self.group.is_some() }),
            _ => {}
        }
    }

    /// Restarts the controller: the memory is empty, and the first lists may be old.
    pub(super) fn crash(&mut self, server: &Server, place: usize) {
        let at = std::array::from_fn(|kind| old_or_now(server, kind, place));
        *self = Self { at, ..Self::new(server, self.mutant) };
        self.show(server);
    }

    /// Returns the next request; `None` if there is nothing to do.
    pub(super) fn act(&mut self) -> Option<Pending> {
        if self.busy {
            return None;
        }
        let desired = self.owner.map(desired);
        let members = match self.pods.values().max_by_key(|ending| !**ending) {
            None => Members::None,
            Some(true) => Members::Terminating,
            Some(false) => Members::Active,
        };
        let owner = desired.as_ref().map_or(Owner::Gone, Owner::Served);
        let situation = Situation { owner, members, cached: self.group.as_ref(), pods_elsewhere: false, memory: &self.memory };
        let step = decide(&situation);
        if step == Step::Wait {
            return None;
        }
        let known = self.memory.freshest(self.group.as_ref()).map(|existing| existing.version().clone());
        self.busy = true;
        let request = self.request(&step);
        Some(Pending { step, known, request })
    }

    /// Ends the wait for the cache to show a listed member. Returns false if there is no such wait.
    pub(super) fn end_member_wait(&mut self) -> bool {
        let waits = !self.busy && self.memory.waits_for_cache();
        if waits {
            self.memory.observe(CacheChange::WaitOver);
        }
        waits
    }

    fn request(&self, step: &Step) -> Request {
        match step {
            Step::Wait | Step::Read => Request::Get,
            Step::ListMembers(_) => Request::List,
            Step::Create(intent) => Request::Create(serde_json::to_value(dialect::object(intent)).expect("a PodGroup is JSON")),
            Step::Amend { on, from, to, adopt } => {
                let mut patch = dialect::amendment(on, from.as_ref(), to, *adopt);
                if self.mutant == Mutant::AmendAnyVersion {
                    patch["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
                }
                Request::Patch(patch)
            }
            Step::Mark(on) => Request::Patch(dialect::mark(on, true)),
            Step::Unmark(on) => Request::Patch(dialect::mark(on, false)),
            Step::Delete(version) => Request::Delete {
                uid: Some(version.uid.to_string()),
                version: (self.mutant != Mutant::DeleteAnyVersion).then(|| version.resource_version.clone()),
                decided: version.uid.to_string(),
                listed: self.listed,
            },
        }
    }

    /// Learns from the reply to a request; `None` if the reply was lost or late. `sent` is the time when the request was sent.
    pub(super) fn learn(&mut self, pending: &Pending, reply: Option<&Reply>, sent: u64) {
        self.busy = false;
        let answer = answer(&pending.step, reply.map_or(DecodedReply::Unknown, Reply::decoded));
        if matches!(&answer, Answer::MembersListed { .. }) {
            self.listed = Some(sent);
        }
        self.memory.learn(pending.known.as_ref(), &answer);
    }
}

/// Returns a position in the history of a kind: its end for an even number, otherwise any.
fn old_or_now(server: &Server, kind: usize, place: usize) -> usize {
    let length = history(server, kind);
    if place.is_multiple_of(2) { length - 1 } else { (place / 2) % length }
}

fn history(server: &Server, kind: usize) -> usize {
    [server.owners_seen.len(), server.pods_seen.len(), server.groups_seen.len()][kind]
}

/// Returns the PodGroup that an owner in this state asks for. Its minMember and queue depend on the state.
pub(super) fn desired(state: OwnerState) -> DesiredGroup {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: "ns".into(),
        name: "rs".into(),
        uid: Uid::from(OWNER),
    };
    let fields = Applied { min_member: state.wants.max(1), queue: format!("queue-{}", state.queue), ..Applied::default() };
    let intent = Intent { group: GroupKey::generated("ns", OWNER), owner: owner.clone(), fields };
    DesiredGroup { intent, wants_pods: state.wants > 0, event_target: owner, part_of: None, faults: Vec::new() }
}

/// Returns whether the object of the server is the PodGroup that this owner should have. L1
pub(super) fn is_right(group: &Value, state: OwnerState) -> bool {
    let right = serde_json::to_value(dialect::object(&desired(state).intent)).expect("a PodGroup is JSON");
    let same = |field: &str| group["metadata"][field] == right["metadata"][field];
    group["spec"] == right["spec"]
        && same("annotations")
        && same("ownerReferences")
        && same("labels")
        && group["metadata"]["deletionTimestamp"].is_null()
}
