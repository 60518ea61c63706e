//! The owners of pods, and the facts that the controller reads from them.
//!
//! Every kind becomes the same [`OwnerFacts`] here. The kinds differ only in how many pods they want now, and in whether these pods can wait for each
//! other ([`Gang`]).
//!
//! * [`replica_set`], [`stateful_set`], [`daemon_set`], [`job`]: the kinds that are watched.
//! * [`pod`]: owners that are known only through their pods.
//! * [`deployment`], [`namespace`]: the other objects that a PodGroup depends on.

pub mod daemon_set;
pub mod deployment;
pub mod job;
pub mod namespace;
pub mod pod;
pub mod replica_set;
mod selector;
pub mod stateful_set;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

use super::fault::Fault;
use super::membership::{GroupKey, asks_for_jobset, asks_for_lws, controller_of, named_group};
use super::misspelt::meant_by;
use super::names::{COPIED_PREFIX, GANG, KUBE_SCHEDULER, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use super::pod::PodSpec;
use super::pod_facts::request_of_template;
use super::podgroup::Selector;
use super::uid::Uid;

pub use daemon_set::DaemonSet;
pub use deployment::{Deployment, DeploymentFacts};
pub use job::Job;
pub use namespace::{Namespace, NamespaceFacts, NamespaceLabels, NamespaceQueue};
pub use pod::{PodSource, is_watched};
pub use replica_set::ReplicaSet;
pub use selector::selector_text;
pub use stateful_set::StatefulSet;

/// The pod template of an owner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// The labels and annotations of the pods.
    pub metadata: ObjectMeta,
    /// The spec of the pods.
    pub spec: PodSpec,
}

impl PodTemplate {
    /// Returns the scheduler of the pods. It is read first, because most owners of a cluster may belong to another scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &str {
        match self.spec.scheduler_name.as_str() {
            "" => KUBE_SCHEDULER,
            name => name,
        }
    }
}

/// The annotations of an object that a PodGroup depends on, and those that look like one of them. Other annotations are not stored.
pub type GroupAnnotations = BTreeMap<String, String>;

fn group_annotations(meta: &ObjectMeta) -> GroupAnnotations {
    let is_relevant =
        |key: &str| matches!(key, MIN_MEMBER | MIN_RESOURCES | QUEUE_NAME) || key.starts_with(COPIED_PREFIX) || meant_by(key).is_some();
    meta.annotations.iter().flatten().filter(|(key, _)| is_relevant(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A reference to an object, as in an Event or an owner reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The kind of the object.
    pub kind: String,
    /// The API group and version of the object.
    pub api_version: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The UID of the object.
    pub uid: Uid,
}

impl ObjectRef {
    fn of(kind: &str, api_version: &str, meta: &ObjectMeta) -> Self {
        Self {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
        }
    }

    /// Returns the owner that the reference names. An owner is always in the namespace of its dependent. `meta` is the metadata of the dependent.
    fn referred(reference: &OwnerReference, meta: &ObjectMeta) -> Self {
        Self {
            kind: reference.kind.clone(),
            api_version: reference.api_version.clone(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: reference.name.clone(),
            uid: Uid::from(reference.uid.as_str()),
        }
    }
}

/// The object whose pods have one PodGroup, seen from one of their owners: a JobSet from each of its Jobs, the leader of a group of a
/// LeaderWorkerSet from the StatefulSet of its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerSet {
    /// The object itself.
    pub object: ObjectRef,
    /// The number of owners that it creates: at least 1.
    pub owners: u32,
    /// The PodGroup of all these owners together.
    pub group: GroupKey,
    /// Whether the pods of this owner belong to that PodGroup. Otherwise the owner has a PodGroup of its own.
    pub joins: bool,
    /// The position of this owner among them.
    pub index: u32,
    /// The number of pods that this owner runs at the same time from now on, also while it is suspended; 0 if it is finished.
    pub pods: u32,
    /// The pods of this owner that succeeded; `None` for pods that do not end.
    pub succeeded: Option<u32>,
    /// When this owner was created. The newest one shows which object exists under this name now.
    pub born: Option<Timestamp>,
}

/// How many pods of an owner can start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gang {
    /// All the pods that the owner wants. minMember is never above `now`: otherwise pods would wait for pods that are never created.
    UpTo {
        /// The number of pods that the owner wants now.
        now: u32,
        /// The number of pods that the owner wants when no rollout or completion is under way. A larger minMember is a fault.
        in_all: u32,
        /// The number of pods that are to succeed in all, those that succeeded among them; `None` for pods that do not end.
        completions: Option<u32>,
    },
    /// Only one pod, because the pods cannot wait for each other. The text is the cause, for the fault.
    One(&'static str),
    /// The number of wanted pods is not known. The minMember that is asked for is used.
    Unknown,
}

/// The facts about an owner of pods, of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerFacts {
    /// The owner itself.
    pub object: ObjectRef,
    /// Whether the owner is being deleted. Then no PodGroup is created, because the garbage collector would delete it again.
    pub deleting: bool,
    /// Whether the owner wants any pod now.
    pub wants_pods: bool,
    /// How many of its pods can start together.
    pub gang: Gang,
    /// The controller of the owner, if people edit that one: the Deployment of a ReplicaSet, the CronJob of a Job.
    pub parent: Option<ObjectRef>,
    /// The object that created this owner together with others, if its labels say so.
    pub set: Option<OwnerSet>,
    /// The scheduler of its pods.
    pub scheduler: Arc<str>,
    /// The annotations of the owner that a PodGroup depends on.
    pub annotations: GroupAnnotations,
    /// The same annotations of its pod template.
    pub template_annotations: GroupAnnotations,
    /// Whether its pod template names another PodGroup, or that of its set. Then the controller creates none of its own for it.
    pub named_group: bool,
    /// The name of the priority class of its pods.
    pub priority_class: Option<String>,
    /// The resources that one of its pods requests, including `pods`.
    pub request: Resources,
    /// The label selector of its pods, as text for a list request; `None` if it cannot be written as text.
    pub selector: Option<String>,
    /// The values that could not be used.
    pub faults: Vec<Fault>,
}

/// A watched kind of owner, with what [`OwnerFacts::of`] reads from it.
pub trait PodOwner: Resource<DynamicType = ()> {
    /// Returns the pod template.
    fn template(&self) -> &PodTemplate;
    /// Returns the label selector of its pods.
    fn selector(&self) -> &Selector;
    /// Returns whether the owner wants any pod now, and how many of its pods can start together.
    fn wants(&self) -> (bool, Gang);
    /// Returns whether people edit this controller of the owner instead of the owner itself.
    fn is_made_by(_controller: &OwnerReference) -> bool {
        false
    }
    /// Returns the object that created this owner together with others.
    fn set(&self) -> Option<OwnerSet> {
        None
    }
}

impl OwnerFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of<K: PodOwner>(object: &K) -> Self {
        let meta = object.meta();
        let template = object.template();
        let (wants_pods, gang) = object.wants();
        let set = object.set();
        let named = named_group(template.metadata.annotations.as_ref()).is_some();
        let asks = asks_for_jobset(&template.metadata).is_some() || asks_for_lws(&template.metadata).is_some();
        let mut faults = Vec::new();
        // Pods that ask and are not of a JobSet wait for a PodGroup that nothing creates; that is their own reason.
        let annotations = template.metadata.annotations.as_ref();
        if let Some(gang) = annotations.and_then(|annotations| annotations.get(GANG)).filter(|_| !asks && !named) {
            faults.push(Fault::new(
                GANG,
                gang,
                "it is ignored: only jobset and leaderworkerset have a meaning, on the pod templates of such an object",
            ));
        }
        Self {
            object: ObjectRef::of(&K::kind(&()), &K::api_version(&()), meta),
            deleting: meta.deletion_timestamp.is_some(),
            wants_pods,
            gang,
            parent: controller_of(meta)
                .filter(|controller| K::is_made_by(controller))
                .map(|controller| ObjectRef::referred(controller, meta)),
            scheduler: Arc::from(template.scheduler()),
            annotations: group_annotations(meta),
            template_annotations: group_annotations(&template.metadata),
            named_group: named || asks,
            set,
            priority_class: priority_class(&template.spec),
            request: request_of_template(&template.spec, &mut faults),
            selector: selector_text(object.selector()),
            faults,
        }
    }
}

fn priority_class(spec: &PodSpec) -> Option<String> {
    spec.priority_class_name.clone().filter(|class| !class.is_empty())
}

/// Returns a number of pods. Absent means `default`; a number below 0, which the API server refuses, means 0.
fn count(stated: Option<i32>, default: u32) -> u32 {
    stated.map_or(default, |number| u32::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests;
