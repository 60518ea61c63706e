//! Namespaces: the queue for those of their pods that name none, and whether anything can still be made in them.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::names::QUEUE_NAME;
use crate::api::wire::resource;

/// A namespace. Only its metadata is used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Namespace {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

resource!(Namespace, "", "v1", "Namespace", "namespaces", ClusterResourceScope);

/// A namespace as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its name.
    pub name: Arc<str>,
    /// The queue for pods that name none.
    pub queue: Option<String>,
    /// Whether it is being deleted: the API server lets nothing be made in it any more.
    pub ending: bool,
}

impl NamespaceFacts {
    /// What this object says.
    #[must_use]
    pub fn of(object: &Namespace) -> Self {
        let meta = &object.metadata;
        Self {
            name: Arc::from(meta.name.as_deref().unwrap_or_default()),
            queue: meta.annotations.as_ref().and_then(|annotations| annotations.get(QUEUE_NAME)).cloned(),
            ending: meta.deletion_timestamp.is_some(),
        }
    }
}
