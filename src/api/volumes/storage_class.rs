//! The facts that the scheduler reads from a StorageClass.

use std::sync::Arc;

use k8s_openapi::api::storage::v1::StorageClass;

use super::migrated::driver_of_plugin;

/// The facts about a StorageClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClassFacts {
    /// The name of the class. Classes are cluster-scoped.
    pub name: Arc<str>,
    /// Whether a claim of it is bound only once a pod has a node (`WaitForFirstConsumer`).
    pub waits_for_pod: bool,
    /// The driver whose limits count a volume of it that is not known yet; none where nothing counts it.
    pub driver: Option<Arc<str>>,
}

impl StorageClassFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(class: &StorageClass) -> Self {
        Self {
            name: Arc::from(class.metadata.name.as_deref().unwrap_or_default()),
            waits_for_pod: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            driver: driver_of_plugin(&class.provisioner).map(Arc::from),
        }
    }
}
