//! What the real dialect writes, and which PodGroup the real code assigns to a pod. Both are computed once.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use podgroup::api::GroupKey;
use podgroup::api::membership::group_of;
use podgroup::api::names::{APPLIED, GROUP_LABEL, GROUP_NAME, RETIRING};
use podgroup::controller::{act, dialect};
use podgroup::lifecycle::Applied;
use serde_json::Value;

use crate::real::{NAMESPACE, OWNERS, desired, fields, seen, version};
use crate::values::{ELSEWHERE, Labels, ORPHAN, Pod, SLOTS, UNREADABLE};

/// The writes of the real dialect.
pub(crate) struct Protocol {
    pub(crate) amend: Guards,
    pub(crate) mark: Guards,
    pub(crate) unmark: Guards,
    pub(crate) delete: Guards,
    /// The spec of a new object, by the fields of the intent.
    pub(crate) created: [u8; 4],
    /// The size and the queue that an amendment writes, by the fields that were written last (the fifth: not known) and the fields of the intent.
    pub(crate) amended: [[(Option<u8>, Option<u8>); 4]; 5],
    /// The owner of the pod's PodGroup, by the controller and the stamp of the pod.
    pub(crate) member_of: [[Option<usize>; 4]; 3],
    /// Whether the lists of members before a DELETE show a pod, by its labels.
    pub(crate) listed: [bool; 3],
}

/// The preconditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guards {
    pub(crate) uid: bool,
    pub(crate) at: bool,
}

/// Returns the writes of the real dialect, computed once.
pub(crate) fn protocol() -> &'static Protocol {
    static PROTOCOL: LazyLock<Protocol> = LazyLock::new(|| {
        let on = version((7, 9));
        let guards = |patch: &Value| Guards {
            uid: patch["metadata"]["uid"] == *on.uid,
            at: patch["metadata"]["resourceVersion"] == *on.resource_version,
        };
        let (mark, unmark) = (dialect::mark(&on, true), dialect::mark(&on, false));
        let marks = |patch: &Value| patch["metadata"]["annotations"][RETIRING] == "true";
        assert!(marks(&mark) && unmark["metadata"]["annotations"].get(RETIRING) == Some(&Value::Null), "a mark is this annotation");
        let delete = dialect::preconditions(&on);
        let amend = |from: u8, to: u8| dialect::amendment(&on, fields(from).as_ref(), &desired(0, to, true).intent, true);
        let written = |from: u8, to: u8| {
            let patch = amend(from, to);
            let owner = &patch["metadata"]["ownerReferences"][0]["uid"];
            let applied = patch["metadata"]["annotations"][APPLIED].as_str().map(|text| serde_json::from_str::<Applied>(text).ok());
            assert!(*owner == *OWNERS[0] && applied == Some(fields(to)), "an amendment writes the owner and the applied fields");
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
            listed: [Labels::Selected, Labels::OfGroup, Labels::Neither].map(is_listed),
        }
    });
    &PROTOCOL
}

fn created(to: u8) -> u8 {
    let object = dialect::object(&desired(0, to, true).intent);
    let seen = seen(&dialect::existing(&object, &[]), 0);
    assert!(seen.applied == to && seen.owned && !seen.retiring, "a new object has the fields of the intent");
    let spec = spec(&serde_json::to_value(&object.spec).expect("a spec is JSON"));
    spec.0.expect("minMember") | spec.1.expect("queue") << 1
}

/// Returns the size and the queue in a spec or in a patch of a spec.
fn spec(spec: &Value) -> (Option<u8>, Option<u8>) {
    let size = spec["minMember"].as_u64().map(|size| u8::from(size > 1));
    let queue = spec["queue"].as_str().map(|queue| u8::from(queue == "queue-1"));
    (size, queue)
}

fn member_of(of: usize, stamp: usize) -> Option<usize> {
    let controller = OWNERS.get(of).map(|uid| OwnerReference { uid: (*uid).into(), controller: Some(true), ..OwnerReference::default() });
    let generated = stamp.checked_sub(1).and_then(|slot| OWNERS.get(slot)).map(|uid| GroupKey::generated(NAMESPACE, uid).name.to_string());
    let named = generated.or_else(|| (stamp == usize::from(ELSEWHERE)).then(|| "of-another-controller".to_owned()));
    let meta = ObjectMeta {
        namespace: Some(NAMESPACE.into()),
        uid: Some("ffffffff-0000-1111-2222-333344445555".into()),
        owner_references: controller.map(|controller| vec![controller]),
        annotations: named.map(|name| [(GROUP_NAME.to_owned(), name)].into()),
        ..ObjectMeta::default()
    };
    let group = group_of(&meta);
    (0..SLOTS).find(|slot| GroupKey::generated(NAMESPACE, OWNERS[*slot]) == group)
}

/// Returns whether one of the real label selectors matches a pod with these labels.
fn is_listed(labels: Labels) -> bool {
    const SELECTED: (&str, &str) = ("app", "web");
    let key = GroupKey::generated(NAMESPACE, OWNERS[0]);
    let of_pod: &[(&str, &str)] = match labels {
        Labels::Selected => &[SELECTED],
        Labels::OfGroup => &[("app", "changed"), (GROUP_LABEL, &*key.name)],
        Labels::Neither => &[("app", "changed")],
    };
    let matches = |selector: &str| match (selector.strip_prefix('!'), selector.split_once('=')) {
        (Some(absent), _) => of_pod.iter().all(|(name, _)| *name != absent),
        (None, Some(label)) => of_pod.contains(&label),
        (None, None) => panic!("the model cannot read the selector {selector}"),
    };
    let own = format!("{}={}", SELECTED.0, SELECTED.1);
    act::labels_of_members(&key, Some(&own)).iter().any(|selector| selector.as_deref().is_none_or(matches))
}

/// Returns the owner of the PodGroup that the pod belongs to.
pub(crate) fn slot_of(pod: Pod) -> Option<usize> {
    protocol().member_of[usize::from(pod.of.min(ORPHAN))][usize::from(pod.stamp)]
}
