//! Finds the PodGroup that a user means.
//!
//! A user knows the name of a Deployment, a Job or a pod. The PodGroup follows from it as everywhere in this project
//! ([`crate::api::membership`]).

use std::collections::BTreeSet;

use futures::future::join_all;
use futures::join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::membership::{GroupKey, asks_for_lws, controller_of, group_of};
use crate::api::names::{DEFAULT_SCHEDULER, GROUP_NAME, KUBE_SCHEDULER};
use crate::api::{GroupFacts, PodGroup};
use crate::runtime::call::CallError;

use super::events::Event;
use super::fetch::{Fetch, decoded, told};
use super::flags::{Kind, Target, is_name};
use super::gap::{self, Gap};
use super::page::{Line, Page, Tone};
use super::rights;
use crate::nearest::nearest;

/// How many namespaces are named.
const NAMESPACES: usize = 3;

/// A PodGroup, and the object that it was found by.
#[derive(Debug)]
pub struct Found {
    /// The PodGroup.
    pub group: GroupFacts,
    /// Its owner, as in `ReplicaSet train-7c9`.
    pub owner: Option<String>,
    /// The UIDs of the requested object and of the PodGroup, with their owners up to a Deployment, CronJob or JobSet: their Events are shown.
    pub uids: Vec<String>,
    /// Other PodGroups of the requested object.
    pub others: Vec<String>,
}

/// An object without a PodGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Absent {
    what: String,
    namespace: String,
    uids: Vec<String>,
    /// The scheduler of its pods.
    scheduler: String,
    /// Why it has none, or what to do about it. Empty where an Event says all of it.
    why: Option<String>,
    events: Vec<Event>,
    unknown: Vec<Gap>,
}

/// Finds the requested object, and its PodGroup if it has one.
///
/// # Errors
///
/// In one line: there is no object of that name, or it cannot be read.
pub async fn find(fetch: &Fetch, namespace: &str, target: &Target, gaps: &mut Vec<Gap>) -> Result<Result<Found, Absent>, String> {
    let (kind, object) = object(fetch, namespace, target).await?;
    let meta = meta(&object);
    let uid = meta.uid.clone().unwrap_or_default();
    let uids = with_owners(fetch, namespace, &meta, gaps).await;
    if kind == Kind::PodGroup {
        let group =
            PodGroup::deserialize(&object).map_err(|error| format!("PodGroup {namespace}/{} cannot be read: {error}", target.name))?;
        return Ok(Ok(found(&group, uids, Vec::new())));
    }
    let unread = gaps.len();
    let keys = match kind {
        Kind::Pod => vec![(group_of(&meta), true)],
        Kind::Deployment => groups_below(fetch, Kind::ReplicaSet, namespace, &uid, gaps).await,
        Kind::CronJob => groups_below(fetch, Kind::Job, namespace, &uid, gaps).await,
        Kind::PodGroup | Kind::StatefulSet | Kind::Job | Kind::DaemonSet | Kind::ReplicaSet => vec![(group_of_owner(&object), true)],
    };
    let is_listed = gaps.len() == unread;
    let path = Kind::PodGroup.path(Some(namespace));
    let listed = fetch.list(&path, "").await.map_err(|error| format!("PodGroups of namespace {namespace}: {}", told(&error)))?;
    let mut groups: Vec<PodGroup> = decoded("PodGroups", listed, gaps);
    groups.retain(|group| keys.iter().any(|(key, _)| Some(&*key.name) == group.metadata.name.as_deref()));
    // Waiting PodGroups come first; of several, the newest.
    groups.sort_by_key(|group| (has_places(group), std::cmp::Reverse(group.metadata.creation_timestamp.clone().map(|time| time.0))));
    let mut groups = groups.into_iter();
    let Some(group) = groups.next() else {
        let what = format!("{} {namespace}/{}", kind.as_str(), target.name);
        // Owners below that could not be listed are not missing.
        let why = if is_listed { cause(kind, &object, &keys) } else { wants_none(kind, &object).map(str::to_owned) };
        let scheduler = scheduler_of(kind, &object);
        return Ok(Err(Absent { what, namespace: namespace.to_owned(), uids, scheduler, why, events: Vec::new(), unknown: Vec::new() }));
    };
    let others = groups
        .map(|group| format!("{} ({})", group.metadata.name.as_deref().unwrap_or_default(), phase(&group).unwrap_or("no phase yet")))
        .collect();
    Ok(Ok(found(&group, uids, others)))
}

/// Returns the UIDs of the object and of its owners. The controller writes its warnings onto the object that people edit: a Deployment, not
/// its ReplicaSet, and for one PodGroup of a whole JobSet onto the JobSet, not its Jobs.
async fn with_owners(fetch: &Fetch, namespace: &str, meta: &ObjectMeta, gaps: &mut Vec<Gap>) -> Vec<String> {
    let mut uids: Vec<String> = meta.uid.iter().cloned().collect();
    let Some(owner) = controller_of(meta) else { return uids };
    uids.push(owner.uid.clone());
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "ReplicaSet") => Kind::ReplicaSet,
        ("batch/v1", "Job") => Kind::Job,
        _ => return uids,
    };
    // A user can write any owner reference.
    if is_name(&owner.name) {
        match fetch.get(&format!("{}/{}", kind.path(Some(namespace)), owner.name)).await {
            Ok(object) => {
                let above = object.as_ref().map(self::meta).filter(|meta| meta.uid.as_ref() == Some(&owner.uid));
                uids.extend(above.as_ref().and_then(controller_of).map(|above| above.uid.clone()));
            }
            Err(error) => gaps.push(Gap::new(format!("the owner of {} {}, and its Events", owner.kind, owner.name), told(&error))),
        }
    }
    uids
}

/// Returns the PodGroups of the owners of this kind that are owned by this UID, and whether each owner wants pods.
async fn groups_below(fetch: &Fetch, kind: Kind, namespace: &str, uid: &str, gaps: &mut Vec<Gap>) -> Vec<(GroupKey, bool)> {
    let what = format!("{}s", kind.as_str());
    let of_owner = |owner: &Value| (group_of_owner(owner), wants_none(kind, owner).is_none());
    let below = |owner: &Value| controller_of(&meta(owner)).is_some_and(|above| above.uid == uid).then(|| of_owner(owner));
    fetch.all(&what, &kind.path(Some(namespace)), "", gaps, below).await.unwrap_or_default().into_iter().flatten().collect()
}

/// Returns the object, and the kind that it turned out to be.
async fn object(fetch: &Fetch, namespace: &str, target: &Target) -> Result<(Kind, Value), String> {
    let kinds: Vec<Kind> = target.kind.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
    let mut refused = Vec::new();
    for kind in &kinds {
        match fetch.get(&format!("{}/{}", kind.path(Some(namespace)), target.name)).await {
            Ok(Some(object)) => return Ok((*kind, object)),
            Ok(None) => {}
            Err(error @ CallError::Forbidden(_)) => refused.push(told(&error)),
            // When the server does not answer or refuses the user, the other kinds are not tried.
            Err(error) => return Err(told(&error)),
        }
    }
    if !refused.is_empty() {
        return Err(refused.join("; "));
    }
    let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    // A generated name is copied and not typed.
    let typed = kinds.iter().filter(|kind| target.kind.is_some() || !kind.is_generated());
    let query = format!("&fieldSelector=metadata.name%3D{}", target.name);
    let (here, elsewhere) = join!(named(fetch, typed, Some(namespace), ""), named(fetch, kinds.iter(), None, &query));
    Err(format!("there is no {} {:?} in namespace {namespace}: {}", names.join(", "), target.name, meant(target, &here, &elsewhere)))
}

/// Returns the names of these kinds; empty where the user may not list them, or where the server does not answer.
async fn named(fetch: &Fetch, kinds: impl Iterator<Item = &Kind>, namespace: Option<&str>, query: &str) -> Vec<(Kind, ObjectMeta)> {
    let of_kind = |kind: Kind| async move {
        let names = fetch.names(&kind.path(namespace), query).await.unwrap_or_default();
        names.into_iter().map(|meta| (kind, meta)).collect::<Vec<_>>()
    };
    join_all(kinds.map(|kind| of_kind(*kind))).await.concat()
}

/// Returns what a missing name may mean: the same name in another namespace, or the nearest name in this one.
fn meant(target: &Target, here: &[(Kind, ObjectMeta)], elsewhere: &[(Kind, ObjectMeta)]) -> String {
    let mut places: Vec<&str> = elsewhere.iter().filter_map(|(_, meta)| meta.namespace.as_deref()).filter(|name| is_name(name)).collect();
    places.sort_unstable();
    places.dedup();
    let more = places.len().saturating_sub(NAMESPACES);
    let first = places.iter().take(NAMESPACES).copied().collect::<Vec<_>>().join(", ");
    let near = nearest(&target.name, here.iter().filter_map(|(_, meta)| meta.name.as_deref()));
    let kind = near.and_then(|near| here.iter().find(|(_, meta)| meta.name.as_deref() == Some(near)));
    let did = kind.zip(near).map(|((kind, _), near)| format!("did you mean {}/{near}?", kind.as_str().to_ascii_lowercase()));
    let there = match (places.len(), more) {
        (0, _) => None,
        (1, _) => Some(format!("there is one in namespace {first} (say -n {first})")),
        (count, 0) => Some(format!("there are some in {count} other namespaces ({first}; say -n)")),
        (count, more) => Some(format!("there are some in {count} other namespaces ({first} and {more} more; say -n)")),
    };
    match (there, did) {
        (Some(there), Some(did)) => format!("{there}; or {did}"),
        (Some(said), None) | (None, Some(said)) => said,
        (None, None) => "see kubectl get podgroups -A, or say -n".to_owned(),
    }
}

fn found(group: &PodGroup, mut uids: Vec<String>, others: Vec<String>) -> Found {
    let owner = controller_of(&group.metadata);
    uids.extend(group.metadata.uid.iter().chain(owner.map(|owner| &owner.uid)).cloned());
    let mut known = BTreeSet::new();
    uids.retain(|uid| !uid.is_empty() && known.insert(uid.clone()));
    let owner = owner.map(|owner| format!("{} {}", owner.kind, owner.name));
    Found { group: GroupFacts::of(group), owner, uids, others }
}

fn phase(group: &PodGroup) -> Option<&str> {
    group.status.as_ref()?.phase.as_deref()
}

fn has_places(group: &PodGroup) -> bool {
    matches!(phase(group), Some("Running" | "Completed"))
}

fn meta(object: &Value) -> ObjectMeta {
    object.get("metadata").and_then(|meta| ObjectMeta::deserialize(meta).ok()).unwrap_or_default()
}

/// Returns the PodGroup of the pods that an owner creates: the PodGroup that its template names, else that of its JobSet, else its
/// generated PodGroup.
fn group_of_owner(owner: &Value) -> GroupKey {
    let template = owner.pointer("/spec/template/metadata").and_then(|meta| ObjectMeta::deserialize(meta).ok()).unwrap_or_default();
    let meta = meta(owner);
    let (namespace, uid) = (meta.namespace, meta.uid);
    // A template has no owner and no UID. With those of its pods' owner it is as good as one of the pods.
    group_of(&ObjectMeta { namespace, uid, owner_references: None, ..template })
}

/// Returns why the object wants no pods; `None` if it wants some. An object that wants none has no PodGroup.
fn wants_none(kind: Kind, object: &Value) -> Option<&'static str> {
    let text = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_zero = |path: &str| object.pointer(path).and_then(Value::as_u64) == Some(0);
    let ends = |condition: &Value| ["Complete", "Failed"].contains(&&*text(condition, "/type")) && text(condition, "/status") == "True";
    let finished = || object.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|all| all.iter().any(ends));
    let found = match kind {
        Kind::Job => [
            (finished(), "it has finished: a finished Job has no PodGroup"),
            (is_suspended(object), "it is suspended (spec.suspend)"),
            (is_zero("/spec/parallelism"), "it wants no pods (parallelism: 0)"),
        ]
        .into_iter()
        .find(|(holds, _)| *holds),
        Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet => Some((is_zero("/spec/replicas"), "it wants no pods (replicas: 0)")),
        Kind::DaemonSet => {
            Some((is_zero("/status/desiredNumberScheduled"), "it wants no pods: no node matches it (desiredNumberScheduled: 0)"))
        }
        Kind::Pod => Some((
            ["Succeeded", "Failed"].contains(&&*text(object, "/status/phase")),
            "it has ended: when an owner wants no more pods, its PodGroup is deleted",
        )),
        Kind::PodGroup | Kind::CronJob => None,
    };
    found.filter(|(holds, _)| *holds).map(|(_, why)| why)
}

/// Returns the name of the LeaderWorkerSet, if this is the StatefulSet of its leaders and asks for one PodGroup for each group.
fn leaders_of(object: &Value) -> Option<String> {
    let template = object.pointer("/spec/template/metadata").and_then(|meta| ObjectMeta::deserialize(meta).ok())?;
    asks_for_lws(&template).filter(|labels| labels.group.is_none()).map(|labels| labels.name.to_owned())
}

fn is_suspended(object: &Value) -> bool {
    object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true)
}

/// Returns why the object has no PodGroup, if the objects show it. `below` are the PodGroups of its ReplicaSets or Jobs, and whether each wants pods.
fn cause(kind: Kind, object: &Value, below: &[(GroupKey, bool)]) -> Option<String> {
    let owners = if kind == Kind::CronJob { "Job" } else { "ReplicaSet" };
    if let Some(why) = wants_none(kind, object) {
        return Some(why.to_owned());
    }
    if let Some(name) = leaders_of(object) {
        return Some(format!(
            "its pods lead groups of LeaderWorkerSet {name}, and each group has a PodGroup: name one of its leaders, as pod/{name}-0"
        ));
    }
    if below.is_empty() {
        let suspended = if is_suspended(object) { ": it is suspended (spec.suspend)" } else { "" };
        return Some(format!("it has no {owners} yet{suspended}"));
    }
    if !below.iter().any(|(_, wants)| *wants) {
        return Some(format!("none of its {owners}s wants pods"));
    }
    let name = below.iter().map(|(key, _)| key).find(|key| !key.is_generated()).map(|key| &key.name)?;
    Some(if is_name(name) {
        format!("PodGroup {name} does not exist: its pods name it ({GROUP_NAME}), and the controller does not create such a PodGroup")
    } else {
        format!("{name:?} cannot be the name of a PodGroup: correct the annotation {GROUP_NAME} of its pods")
    })
}

/// Returns the scheduler of the object's pods.
fn scheduler_of(kind: Kind, object: &Value) -> String {
    let path = match kind {
        Kind::Pod => "/spec/schedulerName",
        Kind::CronJob => "/spec/jobTemplate/spec/template/spec/schedulerName",
        Kind::PodGroup | Kind::Deployment | Kind::StatefulSet | Kind::Job | Kind::DaemonSet | Kind::ReplicaSet => {
            "/spec/template/spec/schedulerName"
        }
    };
    object.pointer(path).and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or(KUBE_SCHEDULER).to_owned()
}

/// Returns the most likely cause where the objects show none: the scheduler's name, else why the controller does not work.
fn likely(scheduler: &str, controller: Option<String>) -> String {
    if scheduler != DEFAULT_SCHEDULER {
        let meant = nearest(scheduler, [DEFAULT_SCHEDULER]).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return format!(
            "its pods say schedulerName {scheduler}: the controller makes PodGroups only for the names in its flag --scheduler-name, by default \
             {DEFAULT_SCHEDULER}{meant}"
        );
    }
    controller.unwrap_or_else(|| {
        "the objects show no cause: the controller makes the PodGroup within seconds, or writes a warning Event on the object".to_owned()
    })
}

impl Absent {
    /// Returns the UIDs of the object and of its owners. Their Events are shown.
    #[must_use]
    pub fn uids(&self) -> &[String] {
        &self.uids
    }

    /// Returns whether the objects show the cause.
    #[must_use]
    pub const fn is_explained(&self) -> bool {
        self.why.is_some()
    }

    /// Returns the same with Events and gaps. `controller` is why the controller does not work, if that is known.
    #[must_use]
    pub fn told(mut self, events: Vec<Event>, unknown: Vec<Gap>, controller: Option<String>) -> Self {
        let is_refused = events.iter().any(|event| event.reason == "PodGroupRefused");
        if is_refused {
            self.why = self.why.or_else(|| events.iter().find_map(|event| rights::lacking(&event.message, &self.namespace)));
        } else if !self.is_explained() {
            self.why = Some(likely(&self.scheduler, controller));
        }
        self.events = events;
        self.unknown = unknown;
        self
    }

    /// Returns the answer of `why -o json` for an object without a PodGroup.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "podGroup": null,
            "of": self.what,
            "changes": self.why.iter().collect::<Vec<_>>(),
            "events": self.events.iter().map(Event::json).collect::<Vec<_>>(),
            "unknown": gap::json(&self.unknown),
        })
    }

    /// Returns the page for people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.line(Line::default().and(Tone::Strong, &self.what).and(Tone::Bad, " has no PodGroup"));
        for event in &self.events {
            page.text(format!("  {} {} ({}): {}", event.kind, event.reason, event.from, event.message));
        }
        self.why.iter().for_each(|why| page.text(format!("  * {why}")));
        gap::show(&mut page, &self.unknown);
        page
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
