//! The Namespace of Kubernetes: its labels, the default queue of its pods, and whether it is being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::misspelt::meant_by;
use crate::api::names::QUEUE_NAME;
use crate::api::wire::resource;

/// A Namespace. Only its metadata is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Namespace {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

resource!(Namespace, "", "v1", "Namespace", "namespaces", ClusterResourceScope);

/// What the annotations of a Namespace say about the queue of its owners and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceQueue {
    /// Nothing.
    #[default]
    Unsaid,
    /// The name of the queue.
    Named(String),
    /// Nothing, but an annotation looks like the one that names the queue.
    Misspelt {
        /// The key of that annotation.
        key: String,
        /// Its value.
        value: String,
    },
}

impl NamespaceQueue {
    fn of(annotations: &BTreeMap<String, String>) -> Self {
        if let Some(name) = annotations.get(QUEUE_NAME) {
            return Self::Named(name.clone());
        }
        let slip = annotations.iter().find(|(key, _)| meant_by(key).as_deref() == Some(QUEUE_NAME));
        slip.map_or(Self::Unsaid, |(key, value)| Self::Misspelt { key: key.clone(), value: value.clone() })
    }
}

/// The facts about a Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// The name of the namespace.
    pub name: Arc<str>,
    /// The queue for owners and pods that name none.
    pub queue: NamespaceQueue,
    /// Whether the namespace is being deleted. The API server refuses new objects in it.
    pub deleting: bool,
}

impl NamespaceFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(object: &Namespace) -> Self {
        let meta = &object.metadata;
        Self {
            name: Arc::from(meta.name.as_deref().unwrap_or_default()),
            queue: meta.annotations.as_ref().map(NamespaceQueue::of).unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

/// The labels of a Namespace, which the selectors of affinity terms match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceLabels {
    /// The name of the namespace.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl NamespaceLabels {
    /// Returns these labels of the namespace with this name.
    #[must_use]
    pub fn new(name: &str, labels: BTreeMap<String, String>) -> Self {
        Self { name: Arc::from(name), labels }
    }

    /// Reads the labels from the object.
    #[must_use]
    pub fn of(object: &Namespace) -> Self {
        let meta = &object.metadata;
        Self { name: Arc::from(meta.name.as_deref().unwrap_or_default()), labels: meta.labels.clone().unwrap_or_default() }
    }
}
