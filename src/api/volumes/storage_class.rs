//! The facts that the scheduler reads from a StorageClass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use k8s_openapi::api::storage::v1::StorageClass;

use super::migrated::driver_of_plugin;

/// The provisioner of classes with volumes that are made by people.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The facts about a StorageClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClassFacts {
    /// The name of the class. Classes are cluster-scoped.
    pub name: Arc<str>,
    /// Whether a claim of it is bound only once a pod has a node (`WaitForFirstConsumer`).
    pub waits_for_pod: bool,
    /// The driver whose limits count a volume of it that is not known yet; none where nothing counts it.
    pub driver: Option<Arc<str>>,
    /// What makes its volumes; none where nothing does.
    pub provisioner: Option<Arc<str>>,
    /// The topologies for which volumes are made (`allowedTopologies`).
    pub topologies: AllowedTopologies,
}

/// Terms, at least one of which must hold for the labels of a node; without any, every node is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedTopologies(Vec<Vec<(String, BTreeSet<String>)>>);

impl AllowedTopologies {
    fn of(terms: &[TopologySelectorTerm]) -> Self {
        let term = |term: &TopologySelectorTerm| {
            let labels = term.match_label_expressions.iter().flatten();
            labels.map(|label| (label.key.clone(), label.values.iter().cloned().collect())).collect()
        };
        Self(terms.iter().map(term).collect())
    }

    /// Returns whether a node with these labels is allowed. A term without labels allows none, as in Kubernetes.
    #[must_use]
    pub fn allow(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds = |(key, values): &(String, BTreeSet<String>)| labels.get(key).is_some_and(|value| values.contains(value));
        self.0.is_empty() || self.0.iter().any(|term| !term.is_empty() && term.iter().all(holds))
    }
}

impl StorageClassFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(class: &StorageClass) -> Self {
        Self {
            name: Arc::from(class.metadata.name.as_deref().unwrap_or_default()),
            waits_for_pod: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            driver: driver_of_plugin(&class.provisioner).map(Arc::from),
            provisioner: Some(class.provisioner.as_str()).filter(|name| !name.is_empty() && *name != NO_PROVISIONER).map(Arc::from),
            topologies: AllowedTopologies::of(class.allowed_topologies.as_deref().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(fields: Value) -> StorageClassFacts {
        let mut class = json!({ "metadata": { "name": "c" }, "provisioner": "p.example.com" });
        class.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        StorageClassFacts::of(&serde_json::from_value(class).unwrap())
    }

    #[test]
    fn a_class_without_provisioner_makes_no_volumes() {
        assert_eq!(class(json!({})).provisioner.as_deref(), Some("p.example.com"));
        assert_eq!(class(json!({ "provisioner": NO_PROVISIONER })).provisioner, None);
    }

    #[test]
    fn a_node_must_meet_all_labels_of_one_topology() {
        let allows = |topologies: Value, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            class(json!({ "allowedTopologies": topologies })).topologies.allow(&labels)
        };
        let term = |labels: &[(&str, &[&str])]| {
            let labels: Vec<_> = labels.iter().map(|(key, values)| json!({ "key": key, "values": values })).collect();
            json!({ "matchLabelExpressions": labels })
        };
        let both = json!([term(&[("zone", &["a", "b"]), ("rack", &["1"])]), term(&[("zone", &["c"])])]);
        assert!(allows(json!([]), &[]));
        assert!(allows(both.clone(), &[("zone", "b"), ("rack", "1")]));
        assert!(allows(both.clone(), &[("zone", "c")]));
        assert!(!allows(both.clone(), &[("zone", "a"), ("rack", "2")]));
        assert!(!allows(both, &[("rack", "1")]));
        assert!(!allows(json!([term(&[])]), &[("zone", "a")]));
    }
}
