//! The CSINode, and how many volumes of each driver its node takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::wire::resource;

/// The annotation that names the plugins that the kubelet has migrated to their CSI drivers.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// A CSINode. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    /// The object's metadata. Its name is that of the node.
    pub metadata: ObjectMeta,
    /// The spec, written by the kubelet.
    pub spec: CsiNodeSpec,
}

resource!(CsiNode, "storage.k8s.io", "v1", "CSINode", "csinodes", ClusterResourceScope);

/// The spec of a CSINode.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers on the node. The API server writes `null` where there is none.
    pub drivers: Option<Vec<CsiNodeDriver>>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeDriver {
    /// The name of the driver.
    pub name: String,
    /// What the node takes; none where there is no limit.
    pub allocatable: Option<Allocatable>,
}

/// What a node takes of a driver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    /// The number of volumes; none where there is no limit.
    pub count: Option<i64>,
}

/// The facts about a CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNodeFacts {
    /// The name of its node.
    pub node: Arc<str>,
    /// The most volumes by driver; a driver without a limit is left out.
    pub limits: BTreeMap<Arc<str>, i64>,
    /// The plugins that the kubelet has migrated to their CSI drivers.
    pub migrated: BTreeSet<String>,
}

impl CsiNodeFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(node: &CsiNode) -> Self {
        let meta = &node.metadata;
        let migrated = meta.annotations.as_ref().and_then(|all| all.get(MIGRATED)).filter(|plugins| !plugins.is_empty());
        let limit = |driver: &CsiNodeDriver| Some((Arc::from(driver.name.as_str()), driver.allocatable.as_ref()?.count?));
        Self {
            node: Arc::from(meta.name.as_deref().unwrap_or_default()),
            limits: node.spec.drivers.iter().flatten().filter_map(limit).collect(),
            migrated: migrated.into_iter().flat_map(|plugins| plugins.split(',')).map(ToOwned::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_driver_without_a_count_has_no_limit_and_one_of_0_takes_none() {
        let drivers = json!([{ "name": "a", "allocatable": { "count": 0 } }, { "name": "b", "allocatable": {} }, { "name": "c" }]);
        let meta = json!({ "name": "n", "annotations": { MIGRATED: "kubernetes.io/cinder,kubernetes.io/gce-pd" } });
        let facts = CsiNodeFacts::of(&serde_json::from_value(json!({ "metadata": meta, "spec": { "drivers": drivers } })).unwrap());
        assert_eq!(facts.limits, [(Arc::from("a"), 0)].into());
        assert!(facts.migrated.contains("kubernetes.io/cinder") && facts.migrated.len() == 2);
    }

    #[test]
    fn a_node_without_drivers_is_read_with_its_migrated_plugins() {
        for spec in [json!({ "drivers": null }), json!({})] {
            let meta = json!({ "name": "n", "annotations": { MIGRATED: "kubernetes.io/cinder" } });
            let facts = CsiNodeFacts::of(&serde_json::from_value(json!({ "metadata": meta, "spec": spec })).unwrap());
            assert!(facts.limits.is_empty() && facts.migrated.len() == 1, "{facts:?}");
        }
    }
}
