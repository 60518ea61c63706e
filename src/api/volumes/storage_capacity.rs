//! The CSIStorageCapacity and the CSIDriver: how large may a volume be that a driver makes for a node?

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};

use crate::api::label_selector::LabelSelector;
use crate::api::podgroup::Selector;
use crate::api::quantities::{RawQuantity, offered};
use crate::api::wire::resource;
use crate::resources::Amount;

use super::request::STORAGE;

/// A CSIDriver. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// The object's metadata. Its name is that of the driver.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: CsiDriverSpec,
}

resource!(CsiDriver, "storage.k8s.io", "v1", "CSIDriver", "csidrivers", ClusterResourceScope);

/// The spec of a CSIDriver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether it publishes its capacity.
    pub storage_capacity: Option<bool>,
}

/// The facts about a CSIDriver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriverFacts {
    /// The name of the driver.
    pub name: Arc<str>,
    /// Whether it publishes its capacity, so that a node without enough of it takes no new volume.
    pub publishes_capacity: bool,
}

impl CsiDriverFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(driver: &CsiDriver) -> Self {
        Self {
            name: Arc::from(driver.metadata.name.as_deref().unwrap_or_default()),
            publishes_capacity: driver.spec.storage_capacity == Some(true),
        }
    }
}

/// A CSIStorageCapacity. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiStorageCapacity {
    /// The object's metadata. Its namespace is that of the driver.
    pub metadata: ObjectMeta,
    /// The StorageClass that it is about.
    pub storage_class_name: String,
    /// The nodes that can use the storage; without it none.
    pub node_topology: Option<Selector>,
    /// The storage that is left.
    pub capacity: Option<RawQuantity>,
    /// The largest volume that can be made.
    pub maximum_volume_size: Option<RawQuantity>,
}

resource!(CsiStorageCapacity, "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", NamespaceResourceScope);

/// The namespace and name of a CSIStorageCapacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapacityKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl CapacityKey {
    /// Returns the key of the object `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

/// The facts about a CSIStorageCapacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityFacts {
    /// The namespace and name of the object.
    pub key: CapacityKey,
    /// The StorageClass that it is about.
    pub class: Arc<str>,
    /// The labels of the nodes that can use the storage.
    pub nodes: LabelSelector,
    /// The largest volume, in whole bytes; none where the driver does not know it, and then no volume is small enough.
    pub largest: Option<Amount>,
}

impl CapacityFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(capacity: &CsiStorageCapacity) -> Self {
        let meta = &capacity.metadata;
        let amount = |size: &RawQuantity| {
            let raw = [(STORAGE.to_owned(), size.clone())].into();
            // The API server accepts no quantity that cannot be read; it would count as nothing.
            offered(Some(&raw), "capacity", &mut Vec::new()).get(STORAGE).rounded_up()
        };
        Self {
            key: CapacityKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
            class: Arc::from(capacity.storage_class_name.as_str()),
            // Nor a selector that cannot be read; kube-scheduler takes it for no nodes.
            nodes: LabelSelector::of(capacity.node_topology.as_ref()).unwrap_or_default(),
            largest: capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref()).map(amount),
        }
    }

    /// Returns whether this may cover a volume that `before` did not cover.
    #[must_use]
    pub fn may_cover_more_than(&self, before: &Self) -> bool {
        self.class != before.class || self.nodes != before.nodes || self.largest > before.largest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn capacity(fields: Value) -> CapacityFacts {
        let mut object = json!({ "metadata": { "namespace": "csi", "name": "c" }, "storageClassName": "class" });
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        CapacityFacts::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_largest_volume_is_stated_or_else_what_is_left_in_whole_bytes() {
        let table = [
            (json!({}), None),
            (json!({ "capacity": "10" }), Some(10)),
            (json!({ "capacity": "10", "maximumVolumeSize": "4" }), Some(4)),
            (json!({ "maximumVolumeSize": "4" }), Some(4)),
            (json!({ "capacity": "10", "maximumVolumeSize": "0" }), Some(0)),
            (json!({ "capacity": "1500m" }), Some(2)),
            (json!({ "capacity": 7 }), Some(7)),
        ];
        for (fields, largest) in table {
            assert_eq!(capacity(fields.clone()).largest, largest.map(Amount::from_units), "{fields}");
        }
    }

    #[test]
    fn without_a_topology_no_node_can_use_it_and_with_an_empty_one_every_node() {
        let labels: BTreeMap<String, String> = [("zone".to_owned(), "a".to_owned())].into();
        for (topology, uses) in [
            (Value::Null, false),
            (json!({}), true),
            (json!({ "matchLabels": { "zone": "a" } }), true),
            (json!({ "matchLabels": { "zone": "b" } }), false),
            (json!({ "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["b"] }] }), true),
        ] {
            assert_eq!(capacity(json!({ "nodeTopology": topology })).nodes.matches(&labels), uses, "{topology}");
        }
    }

    #[test]
    fn a_driver_publishes_its_capacity_only_where_it_says_so() {
        for (spec, publishes) in
            [(json!({}), false), (json!({ "storageCapacity": false }), false), (json!({ "storageCapacity": true }), true)]
        {
            let driver = json!({ "metadata": { "name": "d" }, "spec": spec });
            assert_eq!(CsiDriverFacts::of(&serde_json::from_value(driver).unwrap()).publishes_capacity, publishes, "{spec}");
        }
    }
}
