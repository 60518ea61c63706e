//! Finds the PodGroup that a user means.
//!
//! A user knows the name of a Deployment, a Job or a pod. The PodGroup follows from it as everywhere in this project
//! ([`crate::api::membership`]).

use futures::future::join_all;
use futures::join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::membership::{GroupKey, controller_of, group_of};
use crate::api::{GroupFacts, PodGroup};
use crate::runtime::call::CallError;

use super::events::Event;
use super::fetch::{Fetch, decoded, told};
use super::flags::{Kind, Target, is_name};
use super::gap::{self, Gap};
use super::nearest::nearest;
use super::page::{Line, Page, Tone};

/// How many namespaces are named.
const NAMESPACES: usize = 3;

/// A PodGroup, and the object that it was found by.
#[derive(Debug)]
pub struct Found {
    /// The PodGroup.
    pub group: GroupFacts,
    /// Its owner, as in `ReplicaSet train-7c9`.
    pub owner: Option<String>,
    /// The UIDs of the requested object, of its controller and of the PodGroup: their Events are shown.
    pub uids: Vec<String>,
    /// Other PodGroups of the requested object.
    pub others: Vec<String>,
}

/// An object without a PodGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Absent {
    what: String,
    uid: String,
    why: Vec<String>,
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
    let uids: Vec<String> = [uid.clone()].into_iter().chain(controller_of(&meta).map(|owner| owner.uid.clone())).collect();
    if kind == Kind::PodGroup {
        let group =
            PodGroup::deserialize(&object).map_err(|error| format!("PodGroup {namespace}/{} cannot be read: {error}", target.name))?;
        return Ok(Ok(found(&group, uids, Vec::new())));
    }
    let keys = match kind {
        Kind::Pod => vec![group_of(&meta)],
        Kind::Deployment => groups_below(fetch, Kind::ReplicaSet, namespace, &uid, gaps).await,
        Kind::CronJob => groups_below(fetch, Kind::Job, namespace, &uid, gaps).await,
        Kind::PodGroup | Kind::StatefulSet | Kind::Job | Kind::DaemonSet | Kind::ReplicaSet => vec![group_of_owner(&object)],
    };
    let path = Kind::PodGroup.path(Some(namespace));
    let listed = fetch.list(&path, "").await.map_err(|error| format!("PodGroups of namespace {namespace}: {}", told(&error)))?;
    let mut groups: Vec<PodGroup> = decoded("PodGroups", listed, gaps);
    groups.retain(|group| keys.iter().any(|key| Some(&*key.name) == group.metadata.name.as_deref()));
    // Waiting PodGroups come first; of several, the newest.
    groups.sort_by_key(|group| (has_places(group), std::cmp::Reverse(group.metadata.creation_timestamp.clone().map(|time| time.0))));
    let mut groups = groups.into_iter();
    let Some(group) = groups.next() else {
        let what = format!("{} {namespace}/{}", kind.as_str(), target.name);
        return Ok(Err(Absent { what, uid, why: why_absent(kind, &object, &keys), events: Vec::new(), unknown: Vec::new() }));
    };
    let others = groups
        .map(|group| format!("{} ({})", group.metadata.name.as_deref().unwrap_or_default(), phase(&group).unwrap_or("no phase yet")))
        .collect();
    Ok(Ok(found(&group, uids, others)))
}

/// Returns the PodGroups of the owners of this kind that are owned by this UID.
async fn groups_below(fetch: &Fetch, kind: Kind, namespace: &str, uid: &str, gaps: &mut Vec<Gap>) -> Vec<GroupKey> {
    let what = format!("{}s", kind.as_str());
    let below = |owner: &Value| controller_of(&meta(owner)).is_some_and(|above| above.uid == uid).then(|| group_of_owner(owner));
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
    uids.extend(group.metadata.uid.clone());
    uids.retain(|uid| !uid.is_empty());
    uids.dedup();
    let owner = controller_of(&group.metadata).map(|owner| format!("{} {}", owner.kind, owner.name));
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

/// Returns the PodGroup of the pods that an owner creates: the PodGroup that its template names, else that of its JobSet, else its generated PodGroup.
fn group_of_owner(owner: &Value) -> GroupKey {
    let template = owner.pointer("/spec/template/metadata").and_then(|meta| ObjectMeta::deserialize(meta).ok()).unwrap_or_default();
    let meta = meta(owner);
    let (namespace, uid) = (meta.namespace, meta.uid);
    // A template has no owner and no UID. With those of its pods' owner it is as good as one of the pods.
    group_of(&ObjectMeta { namespace, uid, owner_references: None, ..template })
}

fn why_absent(kind: Kind, object: &Value, keys: &[GroupKey]) -> Vec<String> {
    let mut why = Vec::new();
    let spec = match kind {
        Kind::Pod => "/spec/schedulerName",
        Kind::CronJob => "/spec/jobTemplate/spec/template/spec/schedulerName",
        Kind::PodGroup | Kind::Deployment | Kind::StatefulSet | Kind::Job | Kind::DaemonSet | Kind::ReplicaSet => {
            "/spec/template/spec/schedulerName"
        }
    };
    let scheduler = object.pointer(spec).and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or("default-scheduler");
    for key in keys {
        let odd = if is_name(&key.name) { "" } else { ", which can be no name" };
        why.push(format!("it would be PodGroup {}{odd}", key.name));
    }
    if keys.is_empty() {
        why.push(format!("it has no {} yet", if kind == Kind::CronJob { "Job" } else { "ReplicaSet" }));
    }
    if object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        why.push("it is suspended (spec.suspend)".to_owned());
    }
    if object.pointer("/spec/replicas").and_then(Value::as_u64) == Some(0) {
        why.push("it wants no pods (replicas: 0)".to_owned());
    }
    why.push(format!(
        "its pods say schedulerName {scheduler}: the controller makes PodGroups only for the names that it serves (--scheduler-name)"
    ));
    why.push("what the controller cannot use it says in Events on the object; without any, see whether podgroup-controller runs and holds its Lease".to_owned());
    why
}

impl Absent {
    /// Returns the UID of the object. Its Events are shown.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the same with Events and gaps.
    #[must_use]
    pub fn told(mut self, events: Vec<Event>, unknown: Vec<Gap>) -> Self {
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
            "changes": self.why,
            "events": self.events.iter().map(Event::json).collect::<Vec<_>>(),
            "unknown": gap::json(&self.unknown),
        })
    }

    /// Returns the page for people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.line(Line::default().and(Tone::Strong, &self.what).and(Tone::Bad, " has no PodGroup"));
        self.why.iter().for_each(|why| page.text(format!("  * {why}")));
        for event in &self.events {
            page.text(format!("  {} {} ({}): {}", event.kind, event.reason, event.from, event.message));
        }
        gap::show(&mut page, &self.unknown);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_an_owner_comes_from_its_template_or_is_its_own() {
        let uid = "0a1b2c3d-0000-1111-2222-333344445555";
        let owner = |annotations: Value| json!({"metadata": {"namespace": "ns", "uid": uid}, "spec": {"template": {"metadata": {"annotations": annotations}}}});
        assert_eq!(group_of_owner(&owner(json!({}))), GroupKey::generated("ns", uid));
        assert_eq!(group_of_owner(&owner(json!({"scheduling.k8s.io/group-name": "spark"}))), GroupKey::new("ns", "spark"));
        assert_eq!(group_of_owner(&owner(json!(7))), GroupKey::generated("ns", uid));
        let mut job = owner(json!({"podgroup.dev/gang": "jobset"}));
        assert_eq!(group_of_owner(&job), GroupKey::generated("ns", uid), "no labels of a JobSet");
        job["spec"]["template"]["metadata"]["labels"] = json!({"jobset.sigs.k8s.io/jobset-name": "train",
            "jobset.sigs.k8s.io/restart-attempt": "0", "jobset.sigs.k8s.io/global-replicas": "2"});
        assert_eq!(group_of_owner(&job), GroupKey::new("ns", "jobset-train-0"));
    }

    #[test]
    fn a_missing_name_is_searched_in_other_namespaces_and_among_similar_names() {
        let target = Target { kind: None, name: "trian".to_owned() };
        let object = |kind, namespace: &str, name: &str| {
            (kind, ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() })
        };
        let here = [object(Kind::PodGroup, "ns", "podgroup-0a1b"), object(Kind::Deployment, "ns", "tran")];
        let there: Vec<_> = ["b", "a", "a", "d", "c"].iter().map(|namespace| object(Kind::Pod, namespace, "trian")).collect();
        assert_eq!(meant(&target, &here, &[]), "did you mean deployment/tran?");
        assert_eq!(meant(&target, &here[..1], &there[..1]), "there is one in namespace b (say -n b)");
        assert_eq!(
            meant(&target, &here, &there[..3]),
            "there are some in 2 other namespaces (a, b; say -n); or did you mean deployment/tran?"
        );
        assert_eq!(meant(&target, &[], &there), "there are some in 4 other namespaces (a, b, c and 1 more; say -n)");
        assert_eq!(meant(&target, &here[..1], &[]), "see kubectl get podgroups -A, or say -n");
    }

    #[test]
    fn for_an_object_without_a_group_the_missing_parts_are_named() {
        let object = json!({"spec": {"replicas": 0, "template": {"spec": {}}}});
        let why = why_absent(Kind::Deployment, &object, &[GroupKey::new("ns", "../x")]).join(" | ");
        for part in ["PodGroup ../x, which can be no name", "wants no pods", "schedulerName default-scheduler"] {
            assert!(why.contains(part), "{why}");
        }
        let template = json!({"spec": {"template": {"spec": {"schedulerName": "ours"}}}});
        let why = why_absent(Kind::CronJob, &json!({"spec": {"suspend": true, "jobTemplate": template}}), &[]).join(" | ");
        for part in ["it has no Job yet", "it is suspended", "schedulerName ours"] {
            assert!(why.contains(part), "{why}");
        }
    }
}
