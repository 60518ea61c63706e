//! Which PodGroup does a pod belong to? The one function of design.md §3, used by both programs.
//!
//! It is a function of the pod alone: nothing waits for a patch. An annotation that names a group which somebody made (Spark, Kubeflow,
//! a user) is obeyed; one of the generated form is a copy of what is derived here, never its source, so a pod that a new owner adopted
//! belongs to the new owner's group whatever its annotation still says.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::names::{GENERATED_PREFIX, GROUP_NAME, GROUP_NAME_OLD};
use super::uid::Uid;

/// A PodGroup by its namespace and name: the key under which everything about one group meets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// The namespace of the group and of all its members.
    pub namespace: Arc<str>,
    /// The PodGroup's name.
    pub name: Arc<str>,
}

impl GroupKey {
    /// The key of the group called `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// The key of the group that is generated for the owner with this UID.
    #[must_use]
    pub fn generated(namespace: &str, owner: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(generated_name(owner)) }
    }

    /// The UID of the owner for whom this name was generated; none for a name that somebody chose.
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

/// The name of the PodGroup that is generated for an owner.
#[must_use]
pub fn generated_name(owner: &str) -> String {
    format!("{GENERATED_PREFIX}{owner}")
}

/// The UID in a name of the generated form; none for any other name.
///
/// The form is the prefix and a UUID in lower case, as the API server makes them; a name like `podgroup-train` is a name that a person chose.
#[must_use]
pub fn owner_of_generated(name: &str) -> Option<&str> {
    let uid = name.strip_prefix(GENERATED_PREFIX)?;
    let mut parts = uid.split('-');
    let well_formed = [8, 4, 4, 4, 12].iter().all(|length| {
        parts.next().is_some_and(|part| part.len() == *length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    });
    (well_formed && parts.next().is_none()).then_some(uid)
}

/// The group that the annotations name, if somebody made it; none where they name none, or only carry a copy of the generated name.
#[must_use]
pub fn named_group(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    let annotations = annotations?;
    [GROUP_NAME, GROUP_NAME_OLD]
        .iter()
        .filter_map(|key| annotations.get(*key))
        .map(String::as_str)
        .find(|name| !name.is_empty() && owner_of_generated(name).is_none())
}

/// The owner that controls the object; none for a bare one.
#[must_use]
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_deref().unwrap_or_default().iter().find(|reference| reference.controller == Some(true))
}

/// The group of the pod with this metadata (design.md §3).
#[must_use]
pub fn group_of(meta: &ObjectMeta) -> GroupKey {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    if let Some(name) = named_group(meta.annotations.as_ref()) {
        return GroupKey::new(namespace, name);
    }
    let owner = controller_of(meta).map(|reference| reference.uid.as_str()).or(meta.uid.as_deref()).unwrap_or_default();
    GroupKey::generated(namespace, owner)
}

#[cfg(test)]
mod tests {
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
    fn a_pod_belongs_to_the_group_of_its_controller_else_to_its_own() {
        assert_eq!(group_of(&pod(&[], Some(OWNER))), GroupKey::generated("ns", OWNER));
        assert_eq!(group_of(&pod(&[], None)), GroupKey::generated("ns", OTHER));
    }

    #[test]
    fn a_group_that_somebody_named_is_obeyed_in_both_spellings() {
        assert_eq!(group_of(&pod(&[(GROUP_NAME, "spark")], Some(OWNER))), GroupKey::new("ns", "spark"));
        assert_eq!(group_of(&pod(&[(GROUP_NAME_OLD, "spark")], Some(OWNER))), GroupKey::new("ns", "spark"));
        assert_eq!(group_of(&pod(&[(GROUP_NAME, "podgroup-train")], Some(OWNER))), GroupKey::new("ns", "podgroup-train"));
    }

    #[test]
    fn a_generated_annotation_is_a_copy_and_never_the_source() {
        let stale = generated_name(OTHER);
        assert_eq!(group_of(&pod(&[(GROUP_NAME, &stale)], Some(OWNER))), GroupKey::generated("ns", OWNER));
        assert_eq!(group_of(&pod(&[(GROUP_NAME, "")], Some(OWNER))), GroupKey::generated("ns", OWNER));
    }

    #[test]
    fn a_reference_that_does_not_control_is_no_owner() {
        let mut meta = pod(&[], Some(OWNER));
        for reference in meta.owner_references.iter_mut().flatten() {
            reference.controller = None;
        }
        assert_eq!(group_of(&meta), GroupKey::generated("ns", OTHER));
    }

    #[test]
    fn only_the_prefix_and_a_uuid_is_of_the_generated_form() {
        assert_eq!(owner_of_generated(&generated_name(OWNER)), Some(OWNER));
        for name in ["podgroup-", "podgroup-x", "podgroup-0A1b2c3d-0000-1111-2222-333344445555", OWNER, &format!("podgroup-{OWNER}-1")] {
            assert_eq!(owner_of_generated(name), None, "{name}");
        }
    }
}
