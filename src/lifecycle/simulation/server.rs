//! A simulated API server with one owner, its pods and its PodGroup, for the tests of the protocol.
//!
//! It has:
//!
//! * resourceVersions that grow over all kinds, and preconditions on UID and resourceVersion;
//! * merge patches of real objects;
//! * a history of each kind. A watch reads it at its own pace and can go back to an older position;
//! * finalizers and the garbage collector;
//! * the other writers: kube-controller-manager, the kubelet, people, and a writer of statuses.
//!
//! Each method is one event. The caller decides when it happens. S1 and S2 are checked when a DELETE is applied, because only a DELETE can
//! break them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::api::PodGroup;
use crate::api::names::{APPLIED, RETIRING};
use crate::controller::dialect;
use crate::lifecycle::{Existing, Reply as DecodedReply};

/// The UID of the owner. The name of the PodGroup contains it.
pub(super) const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";

/// The state of the owner that its PodGroup depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerState {
    pub(super) wants: u32,
    pub(super) queue: u32,
}

/// The members, by number. The value says whether the pod is being deleted.
pub(super) type Pods = BTreeMap<u64, bool>;

/// A request to the server.
#[derive(Clone)]
pub(super) enum Request {
    Get,
    List,
    Create(Value),
    Patch(Value),
    /// `uid` and `version` are the preconditions. `decided` is the object that the sender decided on, and `listed` the time of its list of members.
    Delete {
        uid: Option<String>,
        version: Option<String>,
        decided: String,
        listed: Option<u64>,
    },
}

/// A reply of the server.
#[derive(Clone)]
pub(super) enum Reply {
    Object(Value),
    Members(bool),
    Deleted,
    NotFound,
    Conflict,
}

impl Reply {
    /// Returns the reply as `controller::act` would return it.
    pub(super) fn decoded(&self) -> DecodedReply {
        match self {
            Self::Object(object) => DecodedReply::Object(existing(object)),
            Self::Members(members) => DecodedReply::Members(*members),
            Self::Deleted => DecodedReply::Deleted,
            Self::NotFound => DecodedReply::NotFound,
            Self::Conflict => DecodedReply::Conflict,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("GET"),
            Self::List => f.write_str("LIST pods"),
            Self::Create(object) => write!(f, "CREATE {}", object["spec"]),
            Self::Patch(patch) => write!(f, "PATCH {patch}"),
            Self::Delete { uid, version, listed, .. } => write!(f, "DELETE {uid:?} {version:?}, members listed at {listed:?}"),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => {
                let meta = &object["metadata"];
                let marked = if meta["annotations"][RETIRING].is_null() { "" } else { "marked " };
                let wrote = &meta["annotations"][APPLIED];
                write!(f, "{marked}{}@{} {} {wrote}", meta["uid"], meta["resourceVersion"], object["spec"])
            }
            Self::Members(members) => write!(f, "members: {members}"),
            Self::Deleted => f.write_str("deleted"),
            Self::NotFound => f.write_str("404"),
            Self::Conflict => f.write_str("409"),
        }
    }
}

/// The state of the server and the history of each kind.
pub(super) struct Server {
    /// The number of events so far. It is the time of the simulation.
    pub(super) now: u64,
    version: u64,
    objects: u64,
    pub(super) owner: Option<OwnerState>,
    pub(super) pods: Pods,
    pub(super) group: Option<Value>,
    /// When the current PodGroup got its mark; `None` if it has none.
    marked_at: Option<u64>,
    pub(super) owners_seen: Vec<Option<OwnerState>>,
    pub(super) pods_seen: Vec<Pods>,
    pub(super) groups_seen: Vec<Option<Existing>>,
    /// The position of kube-controller-manager in the history of the owner.
    manager: usize,
    /// The first broken promise.
    pub(super) broken: Option<String>,
}

impl Server {
    pub(super) fn new() -> Self {
        let owner = Some(OwnerState { wants: 1, queue: 0 });
        Self {
            now: 0,
            version: 1,
            objects: 0,
            owner,
            pods: Pods::new(),
            group: None,
            marked_at: None,
            owners_seen: vec![owner],
            pods_seen: vec![Pods::new()],
            groups_seen: vec![None],
            manager: 0,
            broken: None,
        }
    }

    /// Applies a request and returns the reply.
    pub(super) fn apply(&mut self, request: &Request) -> Reply {
        match request {
            Request::Get => self.group.clone().map_or(Reply::NotFound, Reply::Object),
            Request::List => Reply::Members(!self.pods.is_empty()),
            Request::Create(_) if self.group.is_some() => Reply::Conflict,
            Request::Create(object) => {
                let mut object = object.clone();
                self.objects += 1;
                object["metadata"]["uid"] = json!(format!("group-{}", self.objects));
                self.put(Some(object))
            }
            Request::Patch(patch) => {
                let Some(mut group) = self.group.clone() else { return Reply::NotFound };
                let precondition = |field: &str| patch["metadata"].get(field).is_none_or(|asked| *asked == group["metadata"][field]);
                if !precondition("uid") || !precondition("resourceVersion") {
                    return Reply::Conflict;
                }
                merge(&mut group, patch);
                if Some(&group) == self.group.as_ref() {
                    return Reply::Object(group);
                }
                self.put(Some(group))
            }
            Request::Delete { uid, version, decided, listed } => {
                let Some(group) = self.group.clone() else { return Reply::NotFound };
                let differs =
                    |asked: &Option<String>, field: &str| asked.as_ref().is_some_and(|asked| group["metadata"][field] != json!(asked));
                if differs(uid, "uid") || differs(version, "resourceVersion") {
                    return Reply::Conflict;
                }
                self.check_delete(&group, decided, *listed);
                self.remove()
            }
        }
    }

    /// Checks S1 and S2 when a DELETE of the controller is applied.
    fn check_delete(&mut self, group: &Value, decided: &str, listed: Option<u64>) {
        let broken = if group["metadata"]["uid"] != json!(decided) {
            Some("S1: another object was deleted than the one decided on")
        } else if self.marked_at.is_none() {
            Some("S2: a group without the mark was deleted")
        } else if listed.is_none() || listed < self.marked_at {
            Some("S2: the list of members began before the mark was there")
        } else {
            None
        };
        if let Some(broken) = broken {
            self.broken.get_or_insert_with(|| broken.to_owned());
        }
    }

    fn put(&mut self, object: Option<Value>) -> Reply {
        self.version += 1;
        self.group = object;
        let Some(group) = &mut self.group else {
            self.marked_at = None;
            self.groups_seen.push(None);
            return Reply::Deleted;
        };
        group["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let marked = !group["metadata"]["annotations"][RETIRING].is_null();
        self.marked_at = marked.then(|| self.marked_at.unwrap_or(self.now));
        self.groups_seen.push(Some(existing(group)));
        Reply::Object(group.clone())
    }

    /// Deletes the PodGroup. With a finalizer it only gets a deletionTimestamp.
    fn remove(&mut self) -> Reply {
        match self.group.clone() {
            Some(mut group) if !group["metadata"]["finalizers"].is_null() => {
                group["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                if Some(&group) == self.group.as_ref() { Reply::Object(group) } else { self.put(Some(group)) }
            }
            Some(_) => self.put(None),
            None => Reply::NotFound,
        }
    }

    fn edit(&mut self, patch: &Value) {
        if let Some(mut group) = self.group.clone() {
            merge(&mut group, patch);
            if Some(&group) != self.group.as_ref() {
                let _ = self.put(Some(group));
            }
        }
    }

    /// Writes a status. The resourceVersion grows, because there is no status subresource.
    pub(super) fn status(&mut self) {
        self.edit(&json!({ "status": { "phase": self.version.to_string() } }));
    }

    /// A person deletes the PodGroup.
    pub(super) fn person_deletes(&mut self) {
        let _ = self.remove();
    }

    /// A person adds a finalizer, removes the owner reference, or destroys the annotation `podgroup.dev/applied`.
    pub(super) fn person_edits(&mut self, which: usize) {
        let metadata = match which % 3 {
            0 => json!({ "finalizers": ["example.com/slow"] }),
            1 => json!({ "ownerReferences": null }),
            _ => json!({ "annotations": { APPLIED: "garbled" } }),
        };
        self.edit(&json!({ "metadata": metadata }));
    }

    /// Another controller removes its finalizer.
    pub(super) fn finalize(&mut self) {
        self.edit(&json!({ "metadata": { "finalizers": null } }));
        if self.group.as_ref().is_some_and(|group| !group["metadata"]["deletionTimestamp"].is_null()) {
            let _ = self.put(None);
        }
    }

    /// The garbage collector deletes the dependents of a deleted owner.
    pub(super) fn collect(&mut self) {
        if self.owner.is_some() {
            return;
        }
        if self.group.as_ref().is_some_and(|group| !group["metadata"]["ownerReferences"].is_null()) {
            let _ = self.remove();
        }
        self.change_pods(|pods| pods.values_mut().for_each(|ending| *ending = true));
    }

    pub(super) fn change_owner(&mut self, owner: Option<OwnerState>) {
        if self.owner.is_some() && self.owner != owner {
            self.owner = owner;
            self.version += 1;
            self.owners_seen.push(owner);
        }
    }

    /// The owner is deleted with orphaned dependents: its pods are not members any more, and its PodGroup has no owner.
    pub(super) fn orphan(&mut self) {
        if self.owner.is_some() {
            self.change_owner(None);
            self.change_pods(Pods::clear);
            self.edit(&json!({ "metadata": { "ownerReferences": null } }));
        }
    }

    /// kube-controller-manager creates or deletes one pod for the owner that it has seen, or sees one more change. Returns false if it has no work.
    pub(super) fn manage(&mut self, catch_up: bool) -> bool {
        let seen = self.owners_seen[self.manager];
        let living = self.pods.values().filter(|ending| !**ending).count();
        let wants = seen.map_or(0, |owner| owner.wants as usize);
        if catch_up && self.manager + 1 < self.owners_seen.len() {
            self.manager += 1;
        } else if seen.is_some() && living < wants {
            // The API server accepts a pod even if its owner does not exist any more.
            self.objects += 1;
            let pod = self.objects;
            self.change_pods(|pods| pods.extend([(pod, false)]));
        } else if let Some((pod, _)) = self.pods.iter().find(|(_, ending)| living > wants && !**ending).map(|(pod, ending)| (*pod, *ending))
        {
            self.change_pods(|pods| pods.extend([(pod, true)]));
        } else {
            return false;
        }
        true
    }

    /// The kubelet finishes the deletion of the first terminating pod.
    pub(super) fn pod_goes(&mut self) {
        if let Some(pod) = self.pods.iter().find(|(_, ending)| **ending).map(|(pod, _)| *pod) {
            self.change_pods(|pods| pods.retain(|other, _| *other != pod));
        }
    }

    fn change_pods(&mut self, change: impl FnOnce(&mut Pods)) {
        let before = self.pods.clone();
        change(&mut self.pods);
        if self.pods != before {
            self.version += 1;
            self.pods_seen.push(self.pods.clone());
        }
    }
}

/// Returns what the controller reads in an object.
pub(super) fn existing(object: &Value) -> Existing {
    let group: PodGroup = serde_json::from_value(object.clone()).expect("every object of the model is a PodGroup");
    dialect::existing(&group, &[])
}

/// Applies a JSON merge patch (RFC 7396), as the API server does.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(key));
        } else {
            merge(&mut target[key], value);
        }
    }
}
