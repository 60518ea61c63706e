//! Says which PodGroup a pod belongs to. Both programs use this function.
//!
//! The answer depends only on the pod, so no program waits for a patch:
//!
//! * An annotation that names a PodGroup of a user or another controller (Spark, Kubeflow) is followed.
//! * An annotation may ask for one PodGroup for a whole JobSet, or for each group of a LeaderWorkerSet. The labels that these write onto
//!   their pods then name the PodGroup.
//! * An annotation with a generated name is only a copy of what is derived here. A pod that a new owner adopts belongs to the PodGroup of
//!   the new owner, whatever its annotation still says.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::jobset::{JobSetLabels, jobset_of_group};
use super::lws::{LwsLabels, selector_of_lws};
use super::names::{GANG, GANG_OF_JOBSET, GANG_OF_LWS, GENERATED_PREFIX, GROUP_NAME, GROUP_NAME_OLD};
use super::uid::Uid;

/// The namespace and name of a PodGroup. Everything about one PodGroup is stored under this key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// The namespace of the PodGroup and of all its members.
    pub namespace: Arc<str>,
    /// The name of the PodGroup.
    pub name: Arc<str>,
}

impl GroupKey {
    /// Returns the key of the PodGroup `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// Returns the key of the PodGroup that is generated for the owner with this UID.
    #[must_use]
    pub fn generated(namespace: &str, owner: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(generated_name(owner)) }
    }

    /// Returns whether the controller may manage a PodGroup of this name: that of one owner, that of a JobSet, or that of a group of a
    /// LeaderWorkerSet.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        let name = &self.name;
        owner_of_generated(name).is_some() || jobset_of_group(name).is_some() || selector_of_lws(name).is_some()
    }

    /// Returns the UID of the owner in the generated name of the PodGroup of one owner; `None` for any other name.
    #[must_use]
    pub fn owner(&self) -> Option<Uid> {
        owner_of_generated(&self.name).map(Uid::from)
    }
}

impl std::fmt::Display for GroupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns the name of the PodGroup that is generated for the owner with this UID.
#[must_use]
pub fn generated_name(owner: &str) -> String {
    format!("{GENERATED_PREFIX}{owner}")
}

/// Returns the UID in a generated name; `None` for any other name.
///
/// A generated name is the prefix and a UUID in lower case, as the API server writes it. A name such as `podgroup-train` is not a generated name.
#[must_use]
pub fn owner_of_generated(name: &str) -> Option<&str> {
    let uid = name.strip_prefix(GENERATED_PREFIX)?;
    let mut parts = uid.split('-');
    let well_formed = [8, 4, 4, 4, 12].iter().all(|length| {
        parts.next().is_some_and(|part| part.len() == *length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    });
    (well_formed && parts.next().is_none()).then_some(uid)
}

/// Returns the PodGroup that the annotations name. `None` if they name no PodGroup, or only contain a copy of a generated name.
#[must_use]
pub fn named_group(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    let annotations = annotations?;
    [GROUP_NAME, GROUP_NAME_OLD]
        .iter()
        .filter_map(|key| annotations.get(*key))
        .map(String::as_str)
        .find(|name| !name.is_empty() && owner_of_generated(name).is_none())
}

/// Returns the labels of a pod, or of a pod template, that asks for the PodGroup of its whole JobSet. `None` if it does not, if it names a
/// PodGroup, or if the labels of a JobSet are missing.
#[must_use]
pub fn asks_for_jobset(meta: &ObjectMeta) -> Option<JobSetLabels<'_>> {
    let annotations = meta.annotations.as_ref()?;
    let asks = annotations.get(GANG).is_some_and(|gang| gang == GANG_OF_JOBSET) && named_group(Some(annotations)).is_none();
    JobSetLabels::of(meta).filter(|_| asks)
}

/// Returns what a pod, or a pod template, says about its LeaderWorkerSet if it asks for one PodGroup for its group. `None` if it does not,
/// if it names another PodGroup, or if a part is missing.
#[must_use]
pub fn asks_for_lws(meta: &ObjectMeta) -> Option<LwsLabels<'_>> {
    let annotations = meta.annotations.as_ref()?;
    let labels = LwsLabels::of(meta).filter(|_| annotations.get(GANG).is_some_and(|gang| gang == GANG_OF_LWS))?;
    // The admission policy writes the name onto the pods.
    let is_copy = |name: &str| labels.key("").is_some_and(|key| *key.name == *name);
    named_group(Some(annotations)).is_none_or(is_copy).then_some(labels)
}

/// Returns the owner reference with `controller: true`; `None` if the object has none.
#[must_use]
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_deref().unwrap_or_default().iter().find(|reference| reference.controller == Some(true))
}

/// Returns the PodGroup of the pod with this metadata.
#[must_use]
pub fn group_of(meta: &ObjectMeta) -> GroupKey {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    if let Some(name) = named_group(meta.annotations.as_ref()) {
        return GroupKey::new(namespace, name);
    }
    if let Some(labels) = asks_for_jobset(meta) {
        return labels.group(namespace);
    }
    if let Some(key) = asks_for_lws(meta).and_then(|labels| labels.key(namespace)) {
        return key;
    }
    let owner = controller_of(meta).map(|reference| reference.uid.as_str()).or(meta.uid.as_deref()).unwrap_or_default();
    GroupKey::generated(namespace, owner)
}

#[cfg(test)]
mod tests {
    use super::super::names::{JOBSET_ATTEMPT, JOBSET_JOBS, JOBSET_NAME, LWS_GROUP, LWS_NAME, LWS_REVISION, LWS_SIZE, LWS_WORKER};
    use super::*;

    const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";
    const OTHER: &str = "ffffffff-0000-1111-2222-333344445555";

    fn pod(annotations: &[(&str, &str)], owner: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("ns".into()),
            uid: Some(OTHER.into()),
            annotations: Some(annotations.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()),
            owner_references: owner
                .map(|uid| vec![OwnerReference { uid: uid.into(), controller: Some(true), ..OwnerReference::default() }]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_pod_belongs_to_the_podgroup_of_its_controller_or_to_its_own() {
        assert_eq!(group_of(&pod(&[], Some(OWNER))), GroupKey::generated("ns", OWNER));
        assert_eq!(group_of(&pod(&[], None)), GroupKey::generated("ns", OTHER));
    }

    #[test]
    fn a_named_podgroup_is_followed_in_both_spellings_of_the_annotation() {
        assert_eq!(group_of(&pod(&[(GROUP_NAME, "spark")], Some(OWNER))), GroupKey::new("ns", "spark"));
        assert_eq!(group_of(&pod(&[(GROUP_NAME_OLD, "spark")], Some(OWNER))), GroupKey::new("ns", "spark"));
        assert_eq!(group_of(&pod(&[(GROUP_NAME, "podgroup-train")], Some(OWNER))), GroupKey::new("ns", "podgroup-train"));
    }

    #[test]
    fn a_pod_of_a_jobset_belongs_to_the_podgroup_of_the_whole_if_it_asks_for_it() {
        let of_jobset = |annotations: &[(&str, &str)], attempt: &str| {
            let labels = [(JOBSET_NAME, "train"), (JOBSET_ATTEMPT, attempt), (JOBSET_JOBS, "2")];
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            group_of(&ObjectMeta { labels: Some(labels), ..pod(annotations, Some(OWNER)) })
        };
        let (own, whole) = (GroupKey::generated("ns", OWNER), GroupKey::new("ns", "jobset-train-0"));
        assert_eq!(of_jobset(&[(GANG, GANG_OF_JOBSET)], "0"), whole);
        assert_eq!(of_jobset(&[(GANG, GANG_OF_JOBSET)], "1"), GroupKey::new("ns", "jobset-train-1"), "after a restart");
        assert_eq!(of_jobset(&[(GANG, GANG_OF_JOBSET), (GROUP_NAME, &generated_name(OWNER))], "0"), whole, "a copy does not count");
        assert_eq!(of_jobset(&[(GANG, GANG_OF_JOBSET), (GROUP_NAME, "mine")], "0"), GroupKey::new("ns", "mine"), "a name comes first");
        assert_eq!(of_jobset(&[(GROUP_NAME, "jobset-train-0")], "0"), whole, "the copy of the admission policy");
        for annotations in [&[][..], &[(GANG, "other")][..], &[(GANG, "")][..]] {
            assert_eq!(of_jobset(annotations, "0"), own, "{annotations:?}");
        }
        assert_eq!(of_jobset(&[(GANG, GANG_OF_JOBSET)], "x"), own, "a label that cannot be used");
        assert_eq!(group_of(&pod(&[(GANG, GANG_OF_JOBSET)], Some(OWNER))), own, "a pod of no JobSet");
        assert!(whole.is_generated() && own.is_generated() && !GroupKey::new("ns", "mine").is_generated());
    }

    #[test]
    fn a_pod_of_a_leaderworkerset_belongs_to_the_podgroup_of_its_group_if_it_asks_for_it() {
        let of_lws = |annotations: &[(&str, &str)], group: Option<&str>| {
            let labels =
                [Some((LWS_NAME, "serve")), Some((LWS_WORKER, "0")), Some((LWS_REVISION, "r1")), group.map(|group| (LWS_GROUP, group))];
            let labels = labels.into_iter().flatten().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let annotations = [annotations, &[(LWS_SIZE, "4")]].concat();
            let meta = ObjectMeta { labels: Some(labels), ..pod(&annotations, Some(OWNER)) };
            (group_of(&meta), asks_for_lws(&meta).is_some())
        };
        let (own, group) = (GroupKey::generated("ns", OWNER), GroupKey::new("ns", "lws-serve-1-r1"));
        let asks = (GANG, GANG_OF_LWS);
        assert_eq!(of_lws(&[asks], Some("1")), (group.clone(), true));
        assert_eq!(of_lws(&[asks, (GROUP_NAME, &generated_name(OWNER))], Some("1")), (group.clone(), true), "a copy does not count");
        assert_eq!(of_lws(&[asks, (GROUP_NAME, "lws-serve-1-r1")], Some("1")), (group.clone(), true), "the copy of the admission policy");
        assert_eq!(of_lws(&[asks, (GROUP_NAME, "mine")], Some("1")), (GroupKey::new("ns", "mine"), false), "a name comes first");
        assert_eq!(of_lws(&[asks], None), (own.clone(), true), "the template of the leaders");
        for annotations in [&[][..], &[(GANG, "other")][..], &[(GANG, GANG_OF_JOBSET)][..]] {
            assert_eq!(of_lws(annotations, Some("1")), (own.clone(), false), "{annotations:?}");
        }
        assert!(group.is_generated());
    }

    #[test]
    fn an_annotation_with_a_generated_name_is_ignored() {
        let stale = generated_name(OTHER);
        assert_eq!(group_of(&pod(&[(GROUP_NAME, &stale)], Some(OWNER))), GroupKey::generated("ns", OWNER));
        assert_eq!(group_of(&pod(&[(GROUP_NAME, "")], Some(OWNER))), GroupKey::generated("ns", OWNER));
    }

    #[test]
    fn an_owner_reference_without_controller_true_is_ignored() {
        let mut meta = pod(&[], Some(OWNER));
        for reference in meta.owner_references.iter_mut().flatten() {
            reference.controller = None;
        }
        assert_eq!(group_of(&meta), GroupKey::generated("ns", OTHER));
    }

    #[test]
    fn only_the_prefix_and_a_uuid_is_a_generated_name() {
        assert_eq!(owner_of_generated(&generated_name(OWNER)), Some(OWNER));
        for name in ["podgroup-", "podgroup-x", "podgroup-0A1b2c3d-0000-1111-2222-333344445555", OWNER, &format!("podgroup-{OWNER}-1")] {
            assert_eq!(owner_of_generated(name), None, "{name}");
        }
    }
}
