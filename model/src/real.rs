//! The code under test, called from the model: the real [`decide`], the real [`Memory`], the real reading of replies, the real dialect, and the real
//! function that says whose member a pod is. Nothing of theirs is repeated here.
//!
//! They are functions of values alone, so each distinct question is asked once and its answer kept ([`Asked`]). What the dialect writes is asked
//! once for each kind of request ([`protocol`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use crate::packed::{Packed, pack, unpack};
use podgroup::api::membership::group_of;
use podgroup::api::names::{APPLIED, GROUP_NAME, RETIRING};
use podgroup::api::workload::ObjectRef;
use podgroup::api::{GroupKey, Uid};
use podgroup::controller::dialect;
use podgroup::lifecycle::{
    Applied, Existing, Intent, Members, Memory, Ours, Owner, Reply, Sight, Situation, Step, Version, Wish, answer, decide as real_decide,
};

use crate::values::{At, Back, Life, NOBODY, Owner as OwnerValue, Pod, Req, SLOTS, Seen, UNREADABLE};

const OWNERS: [&str; SLOTS] = ["0a1b2c3d-0000-1111-2222-333344445555", "0a1b2c3d-0000-1111-2222-333344446666"];
const NAMESPACE: &str = "ns";

/// What a controller sees of one group.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) slot: usize,
    pub(crate) owner: OwnerValue,
    pub(crate) members: Members,
    pub(crate) cached: Option<Seen>,
}

/// The next step, none for rest, and what is believed to be there.
pub(crate) type Decided = (Option<Req>, Option<At>);

/// Answers of the code under test to every question that came up so far.
#[derive(Default)]
struct Asked {
    decided: HashMap<(View, Packed), Decided>,
    learned: HashMap<(Packed, usize, Option<At>, Req, Back), Packed>,
    saw: HashMap<(Packed, usize, Event), Packed>,
}

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::default();
}

/// A [`Sight`] with labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    Owner,
    Member,
    Group,
    Deleted(u8),
    Listed { there: bool },
    Waited,
}

/// The real decision.
pub(crate) fn decide(view: View, memory: &Packed) -> Decided {
    ASKED.with_borrow_mut(|asked| *asked.decided.entry((view, *memory)).or_insert_with(|| decide_anew(view, memory)))
}

fn decide_anew(view: View, packed: &Packed) -> Decided {
    let memory = unpack(packed, view.slot);
    let wish = wish(view.slot, view.owner.fields(), view.owner.wants > 0);
    let owner = if view.owner.life == Life::Alive { Owner::Wishes(&wish) } else { Owner::Gone };
    let cached = view.cached.map(|seen| existing(seen, view.slot));
    let step = real_decide(&Situation { owner, members: view.members, cached: cached.as_ref(), memory: &memory });
    (request(&step), memory.freshest(cached.as_ref()).map(|existing| at(existing.version())))
}

/// What the real memory learns from a reply, as the real reading understands it.
pub(crate) fn learn(memory: &Packed, slot: usize, known: Option<At>, req: Req, back: Back) -> Packed {
    let question = (*memory, slot, known, req, back);
    ASKED.with_borrow_mut(|asked| {
        *asked.learned.entry(question).or_insert_with(|| {
            changed(memory, slot, |memory| memory.learn(known.map(version).as_ref(), &answer(&step(req, slot), reply(back, slot))))
        })
    })
}

/// What the real memory learns from what was seen.
pub(crate) fn saw(memory: &Packed, slot: usize, event: Event) -> Packed {
    ASKED.with_borrow_mut(|asked| {
        *asked.saw.entry((*memory, slot, event)).or_insert_with(|| {
            changed(memory, slot, |memory| match event {
                Event::Owner => memory.saw(Sight::Owner),
                Event::Member => memory.saw(Sight::Member),
                Event::Group => memory.saw(Sight::Group),
                Event::Deleted(label) => memory.saw(Sight::Deleted(&uid(label))),
                Event::Listed { there } => memory.saw(Sight::Listed { there }),
                Event::Waited => memory.saw(Sight::Waited),
            })
        })
    })
}

fn changed(memory: &Packed, slot: usize, change: impl FnOnce(&mut Memory)) -> Packed {
    let mut real = unpack(memory, slot);
    assert_eq!(pack(&real, slot), *memory, "nothing is lost on the way");
    change(&mut real);
    pack(&real, slot)
}

/// What the dialect really writes.
pub(crate) struct Protocol {
    pub(crate) amend: Guards,
    pub(crate) mark: Guards,
    pub(crate) unmark: Guards,
    pub(crate) delete: Guards,
    /// What a new object says, by the fields that are intended.
    pub(crate) created: [u8; 4],
    /// By what was written last (the fifth: nobody knows) and what is intended: the size and the queue, where they are written.
    pub(crate) amended: [[(Option<u8>, Option<u8>); 4]; 5],
    /// By controller and stamp: the owner whose group the pod is in.
    pub(crate) member_of: [[Option<usize>; 3]; 3],
}

/// Which preconditions a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guards {
    pub(crate) uid: bool,
    pub(crate) at: bool,
}

/// Asks the dialect once.
pub(crate) fn protocol() -> &'static Protocol {
    static PROTOCOL: LazyLock<Protocol> = LazyLock::new(|| {
        let on = version((7, 9));
        let guards = |patch: &Value| Guards {
            uid: patch["metadata"]["uid"] == *on.uid,
            at: patch["metadata"]["resourceVersion"] == *on.resource_version,
        };
        let (mark, unmark) = (dialect::mark(&on, true), dialect::mark(&on, false));
        let marks = |patch: &Value| &patch["metadata"]["annotations"][RETIRING] == &Value::from("true");
        assert!(marks(&mark) && unmark["metadata"]["annotations"].get(RETIRING) == Some(&Value::Null), "that is what a mark is");
        let delete = dialect::preconditions(&on);
        let amend = |from: u8, to: u8| dialect::amendment(&on, fields(from).as_ref(), &wish(0, to, true).intent, true);
        let written = |from: u8, to: u8| {
            let patch = amend(from, to);
            let owner = &patch["metadata"]["ownerReferences"][0]["uid"];
            let applied = patch["metadata"]["annotations"][APPLIED].as_str().map(|text| serde_json::from_str::<Applied>(text).ok());
            assert!(*owner == *OWNERS[0] && applied == Some(fields(to)), "whoever amends remembers it");
            spec(&patch["spec"])
        };
        Protocol {
            amend: guards(&amend(0, 1)),
            mark: guards(&mark),
            unmark: guards(&unmark),
            delete: Guards {
                uid: delete.uid == Some(on.uid.to_string()),
                at: delete.resource_version.as_ref() == Some(&on.resource_version),
            },
            created: std::array::from_fn(|to| created(u8::try_from(to).expect("small"))),
            amended: std::array::from_fn(|from| {
                let from = if from == 4 { UNREADABLE } else { u8::try_from(from).expect("small") };
                std::array::from_fn(|to| written(from, u8::try_from(to).expect("small")))
            }),
            member_of: std::array::from_fn(|of| std::array::from_fn(|stamp| member_of(of, stamp))),
        }
    });
    &PROTOCOL
}

fn created(to: u8) -> u8 {
    let object = dialect::object(&wish(0, to, true).intent);
    let seen = seen(&dialect::existing(&object), 0);
    assert!(seen.applied == to && seen.owned && !seen.retiring, "a new object says what is intended");
    let spec = spec(&serde_json::to_value(&object.spec).expect("a spec is JSON"));
    spec.0.expect("minMember") | spec.1.expect("queue") << 1
}

/// The size and the queue that a spec, or a patch of one, says.
fn spec(spec: &Value) -> (Option<u8>, Option<u8>) {
    let size = spec["minMember"].as_u64().map(|size| u8::from(size > 1));
    let queue = spec["queue"].as_str().map(|queue| u8::from(queue == "queue-1"));
    (size, queue)
}

fn member_of(of: usize, stamp: usize) -> Option<usize> {
    let controller = OWNERS.get(of).map(|uid| OwnerReference { uid: (*uid).into(), controller: Some(true), ..OwnerReference::default() });
    let named = stamp.checked_sub(1).and_then(|slot| OWNERS.get(slot));
    let meta = ObjectMeta {
        namespace: Some(NAMESPACE.into()),
        uid: Some("ffffffff-0000-1111-2222-333344445555".into()),
        owner_references: controller.map(|controller| vec![controller]),
        annotations: named.map(|uid| [(GROUP_NAME.to_owned(), GroupKey::generated(NAMESPACE, uid).name.to_string())].into()),
        ..ObjectMeta::default()
    };
    let group = group_of(&meta);
    (0..SLOTS).find(|slot| GroupKey::generated(NAMESPACE, OWNERS[*slot]) == group)
}

/// The owner whose group this pod is in.
pub(crate) fn slot_of(pod: Pod) -> Option<usize> {
    protocol().member_of[usize::from(pod.of.min(NOBODY))][usize::from(pod.stamp)]
}

fn fields(code: u8) -> Option<Applied> {
    (code != UNREADABLE).then(|| Applied {
        min_member: u32::from(code & 1) + 1,
        queue: format!("queue-{}", code >> 1),
        ..Applied::default()
    })
}

fn code(applied: &Applied) -> u8 {
    u8::from(applied.min_member > 1) | u8::from(applied.queue == "queue-1") << 1
}

fn wish(slot: usize, to: u8, wants_pods: bool) -> Wish {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: NAMESPACE.into(),
        name: "rs".into(),
        uid: Uid::from(OWNERS[slot]),
    };
    let group = GroupKey::generated(NAMESPACE, OWNERS[slot]);
    let intent = Intent { group, owner: owner.clone(), fields: fields(to).expect("an intent can be read") };
    Wish { intent, wants_pods, told: owner, faults: Vec::new() }
}

/// The object's UID for a label.
pub(crate) fn uid(label: u8) -> Uid {
    static UIDS: LazyLock<Vec<Uid>> = LazyLock::new(|| (0..=u8::MAX).map(|label| Uid::from(label.to_string())).collect());
    UIDS[usize::from(label)].clone()
}

/// And back.
pub(crate) fn label(uid: &Uid) -> u8 {
    uid.parse().expect("a label")
}

/// The version for labels.
pub(crate) fn version(at: At) -> Version {
    Version { uid: uid(at.0), resource_version: at.1.to_string() }
}

/// And back.
pub(crate) fn at(version: &Version) -> At {
    (label(&version.uid), version.resource_version.parse().expect("a label"))
}

/// What a cache has of a group.
pub(crate) fn existing(seen: Seen, slot: usize) -> Existing {
    Existing::Ours(Ours {
        version: version((seen.uid, seen.at)),
        retiring: seen.retiring,
        ending: false,
        owner: seen.owned.then(|| Uid::from(OWNERS[slot])),
        applied: fields(seen.applied),
    })
}

/// And back.
pub(crate) fn seen(existing: &Existing, slot: usize) -> Seen {
    let Existing::Ours(ours) = existing else { panic!("nobody else makes groups here") };
    // An object that was never stored has no version.
    let (uid, at) = if ours.version.uid.is_empty() { (0, 0) } else { at(&ours.version) };
    Seen {
        uid,
        at,
        retiring: ours.retiring,
        owned: ours.owner.as_deref() == Some(OWNERS[slot]),
        applied: ours.applied.as_ref().map_or(UNREADABLE, code),
    }
}

fn request(step: &Step) -> Option<Req> {
    Some(match step {
        Step::Rest => return None,
        Step::Read => Req::Read,
        Step::Create(intent) => Req::Create(code(&intent.fields)),
        Step::Amend { on, from, to, adopt } => {
            Req::Amend { on: at(on), from: from.as_ref().map_or(UNREADABLE, code), to: code(&to.fields), adopt: *adopt }
        }
        Step::Mark(on) => Req::Mark(at(on)),
        Step::Unmark(on) => Req::Unmark(at(on)),
        Step::Look(on) => Req::Look(at(on)),
        Step::Delete(on) => Req::Delete(at(on)),
    })
}

fn step(req: Req, slot: usize) -> Step {
    match req {
        Req::Read => Step::Read,
        Req::Create(to) => Step::Create(wish(slot, to, true).intent),
        Req::Amend { on, from, to, adopt } => Step::Amend { on: version(on), from: fields(from), to: wish(slot, to, true).intent, adopt },
        Req::Mark(on) => Step::Mark(version(on)),
        Req::Unmark(on) => Step::Unmark(version(on)),
        Req::Look(on) => Step::Look(version(on)),
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
        Back::Unknown => Reply::Unknown,
    }
}
