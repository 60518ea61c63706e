//! The kinds of which the scheduling state alone needs to know.

use std::sync::Arc;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;

use crate::api::volumes::{
    AttachmentFacts, CapacityFacts, CapacityKey, ClaimFacts, ClaimKey, CsiDriver, CsiDriverFacts, CsiNode, CsiNodeFacts,
    CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClassFacts, VolumeAttachment, VolumeFacts,
};
use crate::api::workload::{Namespace, NamespaceLabels};
use crate::api::{BudgetFacts, BudgetKey, PodDisruptionBudget, PriorityClassFacts};
use crate::cycle::cache::Cache;
use crate::cycle::state::SchedulingState;
use crate::scheduler::state::State;

use super::{Kind, WatchedKind};

/// Makes a kind of: its name here and whether its view has a limit of age; its objects; its facts; the key in them; which keys are known; how
/// the state takes in that an object is there, and that it is gone.
macro_rules! plain {
    ($(#[$doc:meta])* $kind:ident = $limit:ident($resource:literal), $object:ty => $facts:ty, by $field:ident: $key:ty, $known:expr, $apply:ident, $delete:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $kind {}

        impl WatchedKind for $kind {
            type Object = $object;
            type Facts = $facts;
            type Key = $key;

            const KIND: Kind = Kind::$limit($resource);

            fn facts(object: $object) -> $facts {
                <$facts>::of(&object)
            }

            fn key(facts: &$facts) -> $key {
                facts.$field.clone()
            }

            fn known(scheduling: &SchedulingState) -> Vec<$key> {
                let known: fn(&Cache) -> Vec<$key> = $known;
                known(scheduling.cache())
            }

            fn apply(state: &mut State, facts: $facts) {
                state.scheduling.$apply(facts);
            }

            fn delete(state: &mut State, key: &$key) {
                state.scheduling.$delete(key);
            }
        }
    };
}

plain! {
    /// The priority classes, by name.
    PriorityClasses = of_any_age("priorityclasses"), PriorityClass => PriorityClassFacts, by name: String,
    |cache| cache.priority_class_names().cloned().collect(), apply_priority_class, delete_priority_class
}

plain! {
    /// The disruption budgets.
    Budgets = of_any_age("poddisruptionbudgets"), PodDisruptionBudget => BudgetFacts, by key: BudgetKey,
    |cache| cache.budget_keys().cloned().collect(), apply_budget, delete_budget
}

plain! {
    /// The namespaces, for their labels.
    Namespaces = new("namespaces"), Namespace => NamespaceLabels, by name: Arc<str>,
    |cache| cache.namespaces().cloned().collect(), apply_namespace, delete_namespace
}

plain! {
    /// The claims of pods.
    Claims = new("persistentvolumeclaims"), PersistentVolumeClaim => ClaimFacts, by key: ClaimKey,
    |cache| cache.volumes().claims().cloned().collect(), apply_claim, delete_claim
}

plain! {
    /// The volumes, by name.
    Volumes = new("persistentvolumes"), PersistentVolume => VolumeFacts, by name: Arc<str>,
    |cache| cache.volumes().volumes().cloned().collect(), apply_volume, delete_volume
}

plain! {
    /// The classes of claims, by name.
    StorageClasses = new("storageclasses"), StorageClass => StorageClassFacts, by name: Arc<str>,
    |cache| cache.volumes().classes().cloned().collect(), apply_storage_class, delete_storage_class
}

plain! {
    /// What kubelets say about CSI drivers, by the name of the node.
    CsiNodes = new("csinodes"), CsiNode => CsiNodeFacts, by node: Arc<str>,
    |cache| cache.csi_nodes().cloned().collect(), apply_csi_node, delete_csi_node
}

plain! {
    /// The volumes that are attached to nodes, by the name of the attachment.
    Attachments = new("volumeattachments"), VolumeAttachment => AttachmentFacts, by name: Arc<str>,
    |cache| cache.volumes().attachments().cloned().collect(), apply_attachment, delete_attachment
}

plain! {
    /// What CSI drivers say about themselves, by name.
    CsiDrivers = new("csidrivers"), CsiDriver => CsiDriverFacts, by name: Arc<str>,
    |cache| cache.volumes().drivers_with_capacity().cloned().collect(), apply_csi_driver, delete_csi_driver
}

plain! {
    /// How much storage CSI drivers have left.
    StorageCapacities = new("csistoragecapacities"), CsiStorageCapacity => CapacityFacts, by key: CapacityKey,
    |cache| cache.volumes().capacities().cloned().collect(), apply_capacity, delete_capacity
}
