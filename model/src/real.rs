//! The code under test, called from the model: the real [`decide`], the real [`Memory`], the real reading of replies, the real dialect, and the real
//! function that says whose member a pod is. Nothing of theirs is repeated here.
//!
//! They are functions of values alone, so each distinct question is asked once and its answer kept ([`Asked`]). What the dialect writes is asked
//! once for each kind of request ([`crate::protocol`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::packed::{Packed, pack, unpack};
use podgroup::api::workload::ObjectRef;
use podgroup::api::{GroupKey, Uid};
use podgroup::lifecycle::{
    Applied, Existing, Intent, Members, Memory, Ours, Owner, Reply, Sight, Situation, Step, Version, Wish, answer, decide as real_decide,
};

use crate::values::{At, Back, Life, Owner as OwnerValue, Req, SLOTS, Seen, UNREADABLE};

pub(crate) const OWNERS: [&str; SLOTS] = ["0a1b2c3d-0000-1111-2222-333344445555", "0a1b2c3d-0000-1111-2222-333344446666"];
pub(crate) const NAMESPACE: &str = "ns";

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

pub(crate) fn wish(slot: usize, to: u8, wants_pods: bool) -> Wish {
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
