//! Calls the code under test: the real [`decide`], the real [`Memory`], the real translation of replies, the real dialect, and the real
//! membership of pods. The model does not repeat any of this code.
//!
//! The code is pure, so each distinct question is computed once and its answer stored ([`Answers`]). The writes of the dialect are in
//! [`crate::protocol`].

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use crate::outcomes::outcome;
use crate::packed::{Packed, pack, unpack};
use podgroup::api::names::{JOBSET_ATTEMPT, JOBSET_JOBS, JOBSET_NAME};
use podgroup::api::workload::{Job, NamespaceQueue, ObjectRef, OwnerFacts};
use podgroup::api::{GroupKey, Uid};
use podgroup::lifecycle::{
    Applied, CacheChange, DesiredGroup, Existing, Intent, Members, Memory, NotOurs, Ours, Owner, Reply, Situation, Step, Version, answer,
    decide as real_decide, intend_for_set,
};

use serde_json::{Value, json};

use crate::values::{At, Back, IN_SET, Life, Owner as OwnerValue, Req, SLOTS, Seen, UNREADABLE};

pub(crate) const OWNERS: [&str; SLOTS] = ["0a1b2c3d-0000-1111-2222-333344445555", "0a1b2c3d-0000-1111-2222-333344446666"];
pub(crate) const NAMESPACE: &str = "ns";

/// What the caches of a controller show of one PodGroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) slot: usize,
    pub(crate) owner: OwnerValue,
    pub(crate) members: Members,
    pub(crate) cached: Option<Seen>,
    /// Whether pods of the owner name another PodGroup.
    pub(crate) pods_elsewhere: bool,
}

/// The next step (`None` for `Step::Wait`) and the version that it was decided on.
pub(crate) type Decided = (Option<Req>, Option<At>);

/// The answers of the code under test so far, by question.
#[derive(Default)]
struct Answers {
    decided: HashMap<(View, Packed), Decided>,
    learned: HashMap<(Packed, usize, Option<At>, Req, Back), Packed>,
    observed: HashMap<(Packed, usize, Event), Packed>,
    outcomes: BTreeSet<&'static str>,
}

thread_local! {
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

/// A [`CacheChange`] with labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    Owner,
    Member,
    Group,
    Deleted(u8),
    Relisted { present: bool },
    WaitOver,
}

/// Returns the real decision.
pub(crate) fn decide(view: View, memory: &Packed) -> Decided {
    ANSWERS.with_borrow_mut(|answers| {
        let Answers { decided, outcomes, .. } = answers;
        *decided.entry((view, *memory)).or_insert_with(|| {
            let (decided, outcome) = decide_anew(view, memory);
            outcomes.insert(outcome);
            decided
        })
    })
}

/// Returns the outcomes of the decision so far.
pub(crate) fn outcomes() -> BTreeSet<&'static str> {
    ANSWERS.with_borrow(|answers| answers.outcomes.clone())
}

fn decide_anew(view: View, packed: &Packed) -> (Decided, &'static str) {
    let memory = unpack(packed, view.slot);
    let desired = desired(view.slot, view.owner.fields(), view.owner.wants > 0);
    let owner = match view.owner.life {
        Life::Alive => Owner::Served(&desired),
        Life::Unserved => Owner::Unserved,
        Life::Unknown => Owner::Unknown,
        Life::Never | Life::Orphaning | Life::Gone => Owner::Gone,
    };
    let cached = view.cached.map(|seen| existing(seen, view.slot));
    let situation =
        Situation { owner, members: view.members, cached: cached.as_ref(), pods_elsewhere: view.pods_elsewhere, memory: &memory };
    let step = real_decide(&situation);
    let known = memory.freshest(cached.as_ref()).map(|existing| at(existing.version()));
    ((request(&step), known), outcome(&situation, &step))
}

/// Returns the real memory after a reply, translated by the real code.
pub(crate) fn learn(memory: &Packed, slot: usize, known: Option<At>, req: Req, back: Back) -> Packed {
    let question = (*memory, slot, known, req, back);
    ANSWERS.with_borrow_mut(|answers| {
        *answers.learned.entry(question).or_insert_with(|| {
            changed(memory, slot, |memory| memory.learn(known.map(version).as_ref(), &answer(&step(req, slot), reply(back, slot))))
        })
    })
}

/// Returns the real memory after a change of the cache.
pub(crate) fn observe(memory: &Packed, slot: usize, event: Event) -> Packed {
    ANSWERS.with_borrow_mut(|answers| {
        *answers.observed.entry((*memory, slot, event)).or_insert_with(|| {
            changed(memory, slot, |memory| match event {
                Event::Owner => memory.observe(CacheChange::Owner),
                Event::Member => memory.observe(CacheChange::Member),
                Event::Group => memory.observe(CacheChange::Group),
                Event::Deleted(label) => memory.observe(CacheChange::Deleted(&uid(label))),
                Event::Relisted { present } => memory.observe(CacheChange::Relisted { present }),
                Event::WaitOver => memory.observe(CacheChange::WaitOver),
            })
        })
    })
}

fn changed(memory: &Packed, slot: usize, change: impl FnOnce(&mut Memory)) -> Packed {
    let mut real = unpack(memory, slot);
    assert_eq!(pack(&real, slot), *memory, "packing loses nothing");
    change(&mut real);
    pack(&real, slot)
}

pub(crate) fn fields(code: u8) -> Option<Applied> {
    (code != UNREADABLE).then(|| Applied {
        min_member: u32::from(code & 1) + 1,
        queue: format!("queue-{}", code >> 1),
        ..Applied::default()
    })
}

fn code(applied: &Applied) -> u8 {
    u8::from(applied.min_member > 1) | u8::from(applied.queue == "queue-1") << 1
}

pub(crate) fn desired(slot: usize, to: u8, wants_pods: bool) -> DesiredGroup {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: NAMESPACE.into(),
        name: "rs".into(),
        uid: Uid::from(OWNERS[slot]),
    };
    let group = GroupKey::generated(NAMESPACE, OWNERS[slot]);
    let intent = Intent { group, owner: owner.clone(), fields: fields(to).expect("an intent can be read") };
    DesiredGroup { intent, wants_pods, event_target: owner, part_of: None, faults: Vec::new() }
}

/// Returns the real minMember of a set of which so many owners are there, each with one pod.
pub(crate) fn min_member_of_set(there: u8) -> u8 {
    static ANSWERS: LazyLock<Vec<u8>> = LazyLock::new(|| (0..=IN_SET).map(min_member_of).collect());
    ANSWERS[usize::from(there)]
}

fn min_member_of(there: u8) -> u8 {
    let owners: Vec<OwnerFacts> = (0..there).map(owner_in_set).collect();
    let schedulers = ["ours".to_owned()];
    let desired =
        intend_for_set(&GroupKey::new(NAMESPACE, "jobset-set-0"), &owners.iter().collect::<Vec<_>>(), &NamespaceQueue::Unsaid, &schedulers);
    desired.map_or(0, |desired| u8::try_from(desired.intent.fields.min_member).expect("few"))
}

fn owner_in_set(index: u8) -> OwnerFacts {
    let labels = [(JOBSET_NAME, "set".to_owned()), (JOBSET_ATTEMPT, "0".to_owned()), (JOBSET_JOBS, IN_SET.to_string())];
    let labels: serde_json::Map<String, Value> = labels.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let jobset = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": OWNERS[0], "controller": true });
    let job: Job = serde_json::from_value(json!({
        "metadata": { "name": format!("set-{index}"), "namespace": NAMESPACE, "uid": index.to_string(), "ownerReferences": [jobset] },
        "spec": { "parallelism": 1, "completions": 1, "template": {
            "metadata": { "labels": labels },
            "spec": { "schedulerName": "ours", "containers": [] } } },
    }))
    .expect("a Job");
    let mut facts = OwnerFacts::of(&job);
    facts.set.as_mut().expect("a Job of a JobSet").joins = true;
    facts
}

/// Returns the UID for a label.
pub(crate) fn uid(label: u8) -> Uid {
    static UIDS: LazyLock<Vec<Uid>> = LazyLock::new(|| (0..=u8::MAX).map(|label| Uid::from(label.to_string())).collect());
    UIDS[usize::from(label)].clone()
}

/// Returns the label of a UID.
pub(crate) fn label(uid: &Uid) -> u8 {
    uid.parse().expect("a label")
}

/// Returns the version for labels.
pub(crate) fn version(at: At) -> Version {
    Version { uid: uid(at.0), resource_version: at.1.to_string() }
}

/// Returns the labels of a version.
pub(crate) fn at(version: &Version) -> At {
    (label(&version.uid), version.resource_version.parse().expect("a label"))
}

/// Returns the PodGroup that a cache has for this observation.
pub(crate) fn existing(seen: Seen, slot: usize) -> Existing {
    if seen.foreign {
        return Existing::Foreign(version((seen.uid, seen.at)), NotOurs::Unlabelled);
    }
    Existing::Ours(Ours {
        version: version((seen.uid, seen.at)),
        retiring: seen.retiring,
        terminating: seen.ending,
        owner: seen.owned.then(|| Uid::from(OWNERS[slot])),
        applied: fields(seen.applied),
    })
}

/// Returns the observation of a PodGroup.
pub(crate) fn seen(existing: &Existing, slot: usize) -> Seen {
    let ours = match existing {
        Existing::Ours(ours) => ours,
        Existing::Foreign(version, _) => {
            let (uid, at) = at(version);
            return Seen { uid, at, retiring: false, owned: false, applied: UNREADABLE, ending: false, foreign: true };
        }
    };
    // An object that was never stored has no version.
    let (uid, at) = if ours.version.uid.is_empty() { (0, 0) } else { at(&ours.version) };
    Seen {
        uid,
        at,
        retiring: ours.retiring,
        owned: ours.owner.as_deref() == Some(OWNERS[slot]),
        applied: ours.applied.as_ref().map_or(UNREADABLE, code),
        ending: ours.terminating,
        foreign: false,
    }
}

fn request(step: &Step) -> Option<Req> {
    Some(match step {
        Step::Wait => return None,
        Step::Read => Req::Read,
        Step::Create(intent) => Req::Create(code(&intent.fields)),
        Step::Amend { on, from, to, adopt } => {
            Req::Amend { on: at(on), from: from.as_ref().map_or(UNREADABLE, code), to: code(&to.fields), adopt: *adopt }
        }
        Step::Mark(on) => Req::Mark(at(on)),
        Step::Unmark(on) => Req::Unmark(at(on)),
        Step::ListMembers(on) => Req::ListMembers(at(on)),
        Step::Delete(on) => Req::Delete(at(on)),
    })
}

fn step(req: Req, slot: usize) -> Step {
    match req {
        Req::Read => Step::Read,
        Req::Create(to) => Step::Create(desired(slot, to, true).intent),
        Req::Amend { on, from, to, adopt } => {
            Step::Amend { on: version(on), from: fields(from), to: desired(slot, to, true).intent, adopt }
        }
        Req::Mark(on) => Step::Mark(version(on)),
        Req::Unmark(on) => Step::Unmark(version(on)),
        Req::ListMembers(on) => Step::ListMembers(version(on)),
        Req::Delete(on) => Step::Delete(version(on)),
    }
}

fn reply(back: Back, slot: usize) -> Reply {
    match back {
        Back::Object(seen) => Reply::Object(existing(seen, slot)),
        Back::Members(members) => Reply::Members(members),
        Back::Deleted => Reply::Deleted,
        Back::NotFound => Reply::NotFound,
        Back::Conflict => Reply::Conflict,
        Back::Refused => Reply::Refused("a quota".to_owned()),
        Back::Later => Reply::Later(Duration::from_secs(1)),
        Back::Unknown => Reply::Unknown,
    }
}
