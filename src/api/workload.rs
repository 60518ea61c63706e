//! The owners of pods: ReplicaSets, the Deployments above them, the namespaces around them and owners that only their pods tell of, as far as they
//! shape a PodGroup.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

use super::fault::Fault;
use super::membership::{controller_of, named_group};
use super::names::{COPIED_PREFIX, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use super::pod::{Pod, PodSpec};
use super::pod_facts::request_of_template;
use super::podgroup::Selector;
use super::uid::Uid;
use super::wire::resource;

/// A ReplicaSet. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplicaSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ReplicaSetSpec,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets", NamespaceResourceScope);

/// What is wanted of a ReplicaSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaSetSpec {
    /// How many pods; 1 where it is unset.
    pub replicas: Option<i32>,
    /// Which pods are its own.
    pub selector: Selector,
    /// What they look like.
    pub template: PodTemplate,
}

/// What the pods of an owner look like.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// Their labels and annotations.
    pub metadata: ObjectMeta,
    /// Their spec.
    pub spec: PodSpec,
}

/// A Deployment. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deployment {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: DeploymentSpec,
}

resource!(Deployment, "apps", "v1", "Deployment", "deployments", NamespaceResourceScope);

/// What is wanted of a Deployment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    /// How many pods in all its ReplicaSets; 1 where it is unset.
    pub replicas: Option<i32>,
}

/// A namespace. Only its metadata is used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Namespace {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

resource!(Namespace, "", "v1", "Namespace", "namespaces", ClusterResourceScope);

/// Those annotations that say something about a PodGroup; nothing else of them is kept.
pub type GroupAnnotations = BTreeMap<String, String>;

fn group_annotations(meta: &ObjectMeta) -> GroupAnnotations {
    let ours = |key: &str| matches!(key, MIN_MEMBER | MIN_RESOURCES | QUEUE_NAME) || key.starts_with(COPIED_PREFIX);
    meta.annotations.iter().flatten().filter(|(key, _)| ours(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn wanted(replicas: Option<i32>) -> u32 {
    u32::try_from(replicas.unwrap_or(1)).unwrap_or(0)
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

/// A ReplicaSet as the controller knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaSetFacts {
    /// Who it is.
    pub object: ObjectRef,
    /// Whether it is being deleted: then nothing is made for it, since the garbage collector would take it away again.
    pub deleting: bool,
    /// How many pods it wants now.
    pub wants: u32,
    /// The Deployment that controls it.
    pub deployment: Option<Uid>,
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

impl ReplicaSetFacts {
    /// What this object says.
    #[must_use]
    pub fn of(object: &ReplicaSet) -> Self {
        let meta = &object.metadata;
        let template = &object.spec.template;
        let mut faults = Vec::new();
        Self {
            object: object_ref("ReplicaSet", "apps/v1", meta),
            deleting: meta.deletion_timestamp.is_some(),
            wants: wanted(object.spec.replicas),
            deployment: controller_of(meta).filter(|owner| owner.kind == "Deployment").map(|owner| Uid::from(owner.uid.as_str())),
            scheduler: Arc::from(scheduler_of(object)),
            annotations: group_annotations(meta),
            template_annotations: group_annotations(&template.metadata),
            named_group: named_group(template.metadata.annotations.as_ref()).is_some(),
            priority_class: template.spec.priority_class_name.clone().filter(|class| !class.is_empty()),
            request: request_of_template(&template.spec, &mut faults),
            selector: selector_text(&object.spec.selector),
            faults,
        }
    }
}

/// Who places the pods of this ReplicaSet: looked at before anything else is read, since most may be somebody else's.
#[must_use]
pub fn scheduler_of(object: &ReplicaSet) -> &str {
    match object.spec.template.spec.scheduler_name.as_str() {
        "" => "default-scheduler",
        name => name,
    }
}

/// What a pod says of the group of an owner that is known only through its pods: itself, where nobody controls it, or a controller of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSource {
    /// The owner.
    pub owner: ObjectRef,
    /// The pod's annotations about the group.
    pub annotations: GroupAnnotations,
    /// Its priority class.
    pub priority_class: Option<String>,
    /// What it asks for, the dimension `pods` included.
    pub request: Resources,
    /// What could not be read.
    pub faults: Vec<Fault>,
}

impl PodSource {
    /// What this pod says; none where a ReplicaSet controls it, which is watched itself.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let owner = match controller_of(meta) {
            Some(owner) if owner.kind == "ReplicaSet" && owner.api_version.starts_with("apps/") => return None,
            Some(owner) => ObjectRef {
                kind: owner.kind.clone(),
                api_version: owner.api_version.clone(),
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: owner.name.clone(),
                uid: Uid::from(owner.uid.as_str()),
            },
            None => object_ref("Pod", "v1", meta),
        };
        let mut faults = Vec::new();
        Some(Self {
            owner,
            annotations: group_annotations(meta),
            priority_class: pod.spec.priority_class_name.clone().filter(|class| !class.is_empty()),
            request: request_of_template(&pod.spec, &mut faults),
            faults,
        })
    }
}

/// A Deployment as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentFacts {
    /// Who it is.
    pub object: ObjectRef,
    /// How many pods it wants in all.
    pub wants: u32,
    /// Its annotations about the group.
    pub annotations: GroupAnnotations,
}

impl DeploymentFacts {
    /// What this object says.
    #[must_use]
    pub fn of(object: &Deployment) -> Self {
        Self {
            object: object_ref("Deployment", "apps/v1", &object.metadata),
            wants: wanted(object.spec.replicas),
            annotations: group_annotations(&object.metadata),
        }
    }
}

/// The queue that a namespace names for those of its pods that name none.
#[must_use]
pub fn namespace_queue(namespace: &Namespace) -> Option<String> {
    namespace.metadata.annotations.as_ref()?.get(QUEUE_NAME).cloned()
}

fn object_ref(kind: &str, api_version: &str, meta: &ObjectMeta) -> ObjectRef {
    ObjectRef {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
    }
}

/// The selector as a list request takes it. None where it is empty (it would select everything) or has an operator that is not known.
fn selector_text(selector: &Selector) -> Option<String> {
    let mut parts: Vec<String> = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_deref().unwrap_or_default().join(",");
        let key = &requirement.key;
        parts.push(match requirement.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::podgroup::SelectorRequirement;

    #[test]
    fn a_selector_is_written_as_a_list_request_takes_it() {
        let requirement = |key: &str, operator: &str, values: &[&str]| SelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        let selector = Selector {
            match_labels: Some(BTreeMap::from([("app".to_owned(), "x".to_owned())])),
            match_expressions: Some(vec![
                requirement("a", "In", &["1", "2"]),
                requirement("b", "NotIn", &["3"]),
                requirement("c", "Exists", &[]),
                requirement("d", "DoesNotExist", &[]),
            ]),
        };
        assert_eq!(selector_text(&selector).as_deref(), Some("app=x,a in (1,2),b notin (3),c,!d"));
        assert_eq!(selector_text(&Selector::default()), None, "an empty selector would select every pod");
        let unknown = Selector { match_expressions: Some(vec![requirement("a", "Gt", &["1"])]), ..Selector::default() };
        assert_eq!(selector_text(&unknown), None);
    }

    #[test]
    fn nonsense_in_replicas_is_no_wish_for_pods() {
        assert_eq!([wanted(None), wanted(Some(-3)), wanted(Some(0)), wanted(Some(7))], [1, 0, 0, 7]);
    }
}
