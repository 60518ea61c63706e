//! What do the owners of pods say about the group of their pods?
//!
//! Every kind becomes the same [`OwnerFacts`] here, once: the kinds differ in how many pods they want now and in whether those can wait for each
//! other ([`Gang`]), and nowhere else. One file for each kind that is watched ([`replica_set`], [`stateful_set`], [`daemon_set`], [`job`]), one
//! for owners that only their pods tell of ([`pod`]), and one each for what stands above and around owners ([`deployment`], [`namespace`]).

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
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

use super::fault::Fault;
use super::membership::{controller_of, named_group};
use super::names::{COPIED_PREFIX, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use super::pod::PodSpec;
use super::pod_facts::request_of_template;
use super::podgroup::Selector;
use super::uid::Uid;

pub use daemon_set::DaemonSet;
pub use deployment::{Deployment, DeploymentFacts};
pub use job::Job;
pub use namespace::{Namespace, NamespaceFacts};
pub use pod::{PodSource, is_watched};
pub use replica_set::ReplicaSet;
pub use selector::selector_text;
pub use stateful_set::StatefulSet;

/// What the pods of an owner look like.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// Their labels and annotations.
    pub metadata: ObjectMeta,
    /// Their spec.
    pub spec: PodSpec,
}

impl PodTemplate {
    /// Who places the pods: looked at before anything else is read, since most may be somebody else's.
    #[must_use]
    pub fn scheduler(&self) -> &str {
        match self.spec.scheduler_name.as_str() {
            "" => "default-scheduler",
            name => name,
        }
    }
}

/// Those annotations that say something about a PodGroup; nothing else of them is kept.
pub type GroupAnnotations = BTreeMap<String, String>;

fn group_annotations(meta: &ObjectMeta) -> GroupAnnotations {
    let ours = |key: &str| matches!(key, MIN_MEMBER | MIN_RESOURCES | QUEUE_NAME) || key.starts_with(COPIED_PREFIX);
    meta.annotations.iter().flatten().filter(|(key, _)| ours(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Who an object is, as an Event or an owner reference names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: String,
    /// Its group and version.
    pub api_version: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
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

    /// Whom the reference names: an owner is always in the namespace of what it owns.
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

/// How many of an owner's pods can be asked to start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gang {
    /// As many as it wants. minMember is never above `now`, or pods would wait for others that nobody makes.
    UpTo {
        /// Pods that it wants now.
        now: u32,
        /// Pods that it wants when nothing is under way: asking for more than these is a mistake that people are told of.
        in_all: u32,
    },
    /// Only one: they cannot wait for each other, for this reason.
    One(&'static str),
    /// Nothing says how many it wants, so what is asked for is believed.
    Unknown,
}

/// An owner of pods as the controller knows it, of whatever kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerFacts {
    /// Who it is.
    pub object: ObjectRef,
    /// Whether it is being deleted: then nothing is made for it, since the garbage collector would take it away again.
    pub deleting: bool,
    /// Whether it wants any pod now.
    pub wants_pods: bool,
    /// How many of them can be a gang.
    pub gang: Gang,
    /// Who controls it and is edited in its stead: the Deployment of a ReplicaSet, the CronJob of a Job.
    pub above: Option<ObjectRef>,
    /// Who places its pods.
    pub scheduler: Arc<str>,
    /// Its own annotations about the group.
    pub annotations: GroupAnnotations,
    /// Those of its template.
    pub template_annotations: GroupAnnotations,
    /// Whether its template names a group that somebody else made: then none is made here.
    pub named_group: bool,
    /// The priority class of its pods.
    pub priority_class: Option<String>,
    /// What one of its pods will ask for, the dimension `pods` included.
    pub request: Resources,
    /// The selector of its pods, as a list request takes it; none where it cannot be written so.
    pub selector: Option<String>,
    /// What could not be read.
    pub faults: Vec<Fault>,
}

/// A kind of owner that is watched: what [`OwnerFacts::of`] reads in an object of it.
pub trait PodOwner: Resource<DynamicType = ()> {
    /// What its pods look like.
    fn template(&self) -> &PodTemplate;
    /// Which pods are its own.
    fn selector(&self) -> &Selector;
    /// Whether it wants any pod now, and how many of them can be a gang.
    fn wants(&self) -> (bool, Gang);
    /// Whether people edit this controller of it and not the object itself.
    fn is_made_by(_controller: &OwnerReference) -> bool {
        false
    }
}

impl OwnerFacts {
    /// What this object says.
    #[must_use]
    pub fn of<K: PodOwner>(object: &K) -> Self {
        let meta = object.meta();
        let template = object.template();
        let (wants_pods, gang) = object.wants();
        let mut faults = Vec::new();
        Self {
            object: ObjectRef::of(&K::kind(&()), &K::api_version(&()), meta),
            deleting: meta.deletion_timestamp.is_some(),
            wants_pods,
            gang,
            above: controller_of(meta)
                .filter(|controller| K::is_made_by(controller))
                .map(|controller| ObjectRef::referred(controller, meta)),
            scheduler: Arc::from(template.scheduler()),
            annotations: group_annotations(meta),
            template_annotations: group_annotations(&template.metadata),
            named_group: named_group(template.metadata.annotations.as_ref()).is_some(),
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

/// A number of pods as an object states it: absent is `default`, and less than 0, which the API server refuses, is none.
fn count(stated: Option<i32>, default: u32) -> u32 {
    stated.map_or(default, |number| u32::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests;
