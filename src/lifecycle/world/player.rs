//! What does one controller know, and what does it send? The real [`decide`] and the real [`Memory`] between caches and requests of the model.
//!
//! It does what `controller::keeper` does with one key, and nothing else. A [`Mutant`] breaks one rule of the protocol on purpose, so that the
//! tests can show that its absence is found; the other rules have their mutants in the exhaustive model (`model/`).

use serde_json::Value;

use crate::api::workload::ObjectRef;
use crate::api::{GroupKey, Uid};
use crate::controller::dialect;
use crate::lifecycle::{
    Answer, Applied, Existing, Intent, Members, Memory, Owner, Reply as Said, Sight, Situation, Step, Version, Wish, answer, decide,
};

use super::server::{OWNER, OwnerState, Pods, Reply, Request, Server};

/// A rule of the protocol that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lifecycle) enum Mutant {
    /// None: the real thing.
    None,
    /// A DELETE names the object and not the version.
    DeleteAnyVersion,
    /// The difference to what was written last is sent without the version that it was computed from.
    AmendAnyVersion,
}

/// A request that was decided on.
pub(super) struct Asked {
    pub(super) step: Step,
    pub(super) known: Option<Version>,
    pub(super) request: Request,
}

/// One controller.
pub(super) struct Player {
    mutant: Mutant,
    pub(super) memory: Memory,
    /// How far each watch has come, and what the caches show there.
    pub(super) at: [usize; 3],
    owner: Option<OwnerState>,
    pods: Pods,
    group: Option<Existing>,
    /// A step is under way.
    pub(super) busy: bool,
    /// When the last look was sent, for S2.
    looked: Option<u64>,
}

impl Player {
    pub(super) fn new(server: &Server, mutant: Mutant) -> Self {
        let mut player =
            Self { mutant, memory: Memory::default(), at: [0; 3], owner: None, pods: Pods::new(), group: None, busy: false, looked: None };
        player.show(server);
        player
    }

    fn show(&mut self, server: &Server) {
        self.owner = server.owners_seen[self.at[0]];
        self.pods = server.pods_seen[self.at[1]].clone();
        self.group = server.groups_seen[self.at[2]].clone();
    }

    /// The next event of one kind. False where there is none.
    pub(super) fn deliver(&mut self, server: &Server, kind: usize) -> bool {
        if self.at[kind] + 1 >= history(server, kind) {
            return false;
        }
        let before = self.group.take();
        self.at[kind] += 1;
        self.show(server);
        match kind {
            1 => self.memory.saw(Sight::Member),
            2 => {
                if let (Some(before), None) = (&before, &self.group) {
                    self.memory.saw(Sight::Deleted(&before.version().uid));
                }
            }
            _ => {}
        }
        true
    }

    /// A list of one kind is read again, as it was at some place in its history: also one before what was seen.
    pub(super) fn relist(&mut self, server: &Server, kind: usize, place: usize) {
        self.at[kind] = old_or_now(server, kind, place);
        self.show(server);
        match kind {
            1 => self.memory.saw(Sight::Member),
            2 => self.memory.saw(Sight::Listed { there: self.group.is_some() }),
            _ => {}
        }
    }

    /// A new process: nothing is remembered, and its first lists may be old.
    pub(super) fn crash(&mut self, server: &Server, place: usize) {
        let at = std::array::from_fn(|kind| old_or_now(server, kind, place));
        *self = Self { at, ..Self::new(server, self.mutant) };
        self.show(server);
    }

    /// The next request, if there is anything to do.
    pub(super) fn act(&mut self) -> Option<Asked> {
        if self.busy {
            return None;
        }
        let wish = self.owner.map(wish);
        let members = match self.pods.values().max_by_key(|ending| !**ending) {
            None => Members::None,
            Some(true) => Members::Ending,
            Some(false) => Members::Living,
        };
        let owner = wish.as_ref().map_or(Owner::Gone, Owner::Wishes);
        let situation = Situation { owner, members, cached: self.group.as_ref(), memory: &self.memory };
        let step = decide(&situation);
        if step == Step::Rest {
            return None;
        }
        let known = self.memory.freshest(self.group.as_ref()).map(|existing| existing.version().clone());
        self.busy = true;
        let request = self.request(&step);
        Some(Asked { step, known, request })
    }

    /// The keeper waits a while for a member that only a look has seen, then doubts the look. False where it does not wait.
    pub(super) fn doubt(&mut self) -> bool {
        let waits = !self.busy && self.memory.waits_for_pods();
        if waits {
            self.memory.saw(Sight::Waited);
        }
        waits
    }

    fn request(&self, step: &Step) -> Request {
        match step {
            Step::Rest | Step::Read => Request::Get,
            Step::Look(_) => Request::List,
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
                looked: self.looked,
            },
        }
    }

    /// The answer to a step, or none where it was lost or late; `sent` is when the request was sent.
    pub(super) fn learn(&mut self, asked: &Asked, reply: Option<&Reply>, sent: u64) {
        self.busy = false;
        let answer = answer(&asked.step, reply.map_or(Said::Unknown, Reply::said));
        if matches!(&answer, Answer::Looked { .. }) {
            self.looked = Some(sent);
        }
        self.memory.learn(asked.known.as_ref(), &answer);
    }
}

/// A place in the history of a kind: its end, or any.
fn old_or_now(server: &Server, kind: usize, place: usize) -> usize {
    let length = history(server, kind);
    if place.is_multiple_of(2) { length - 1 } else { (place / 2) % length }
}

fn history(server: &Server, kind: usize) -> usize {
    [server.owners_seen.len(), server.pods_seen.len(), server.groups_seen.len()][kind]
}

/// What an owner in this state wishes: two of the fields follow it.
pub(super) fn wish(state: OwnerState) -> Wish {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: "ns".into(),
        name: "rs".into(),
        uid: Uid::from(OWNER),
    };
    let fields = Applied { min_member: state.wants.max(1), queue: format!("queue-{}", state.queue), ..Applied::default() };
    let intent = Intent { group: GroupKey::generated("ns", OWNER), owner: owner.clone(), fields };
    Wish { intent, wants_pods: state.wants > 0, told: owner, faults: Vec::new() }
}

/// Whether the object of the server is what this owner should have. L1
pub(super) fn is_right(group: &Value, state: OwnerState) -> bool {
    let right = serde_json::to_value(dialect::object(&wish(state).intent)).expect("a PodGroup is JSON");
    let same = |field: &str| group["metadata"][field] == right["metadata"][field];
    group["spec"] == right["spec"]
        && same("annotations")
        && same("ownerReferences")
        && same("labels")
        && group["metadata"]["deletionTimestamp"].is_null()
}
