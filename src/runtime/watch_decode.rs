//! What did the API server send, and can this object be read?
//!
//! One object that cannot be decoded must not fail the list or the watch that it is in. So every object is first read
//! as JSON, loses its `managedFields` (often half of it, and nobody here looks at them), and is then decoded; what
//! fails is a [`BadObject`] with whatever its metadata says. kube's own guard does the first half, but fails a list for
//! odd metadata and asks for whole objects where only metadata is wanted.

use kube::core::ListMeta;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::bounded;

/// An object that is there but cannot be read. Everything in it is as the server sent it, and empty where it sent
/// nothing usable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BadObject {
    /// `metadata.namespace`; `None` for an object without one.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
    /// What could not be read, one bounded line.
    pub error: String,
    /// The object was deleted: with this event it is gone.
    pub deleted: bool,
}

/// An object of a list or a watch event: read, or not.
#[derive(Clone, Debug)]
pub(super) enum Decoded<K> {
    Good { object: K, version: Option<String> },
    Bad(BadObject),
}

impl<K> Decoded<K> {
    /// The resourceVersion, from which a watch goes on.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::Good { version, .. } => version.as_deref(),
            Self::Bad(bad) => bad.resource_version.as_deref(),
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if !value.is_object() {
            return Err(D::Error::custom("an object is expected"));
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let text = |field: &str| {
            let found = value.get("metadata").and_then(|meta| meta.get(field));
            found.and_then(Value::as_str).map(str::to_owned)
        };
        let version = text("resourceVersion");
        Ok(match K::deserialize(&value) {
            Ok(object) => Self::Good { object, version },
            Err(error) => Self::Bad(BadObject {
                namespace: text("namespace"),
                name: text("name").unwrap_or_default(),
                uid: text("uid"),
                resource_version: version,
                error: bounded(&error.to_string()),
                deleted: false,
            }),
        })
    }
}

/// One page of a list.
#[derive(Deserialize)]
pub(super) struct Page<K: DeserializeOwned> {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub(super) items: Vec<Decoded<K>>,
}

/// Go writes an empty slice as `null` in places.
fn null_is_empty<'de, D, K>(deserializer: D) -> Result<Vec<Decoded<K>>, D::Error>
where
    D: Deserializer<'de>,
    K: DeserializeOwned,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn decode(value: Value) -> Decoded<Pod> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn managed_fields_are_gone_and_the_rest_is_there() {
        let decoded = decode(json!({"metadata": {
            "name": "p", "resourceVersion": "7", "labels": {"a": "b"}, "managedFields": [{"manager": "kubectl"}]
        }}));
        assert_eq!(decoded.version(), Some("7"));
        let Decoded::Good { object, .. } = decoded else { panic!("{decoded:?}") };
        assert_eq!(object.metadata.managed_fields, None);
        assert!(object.metadata.labels.is_some());
    }

    #[test]
    fn an_object_that_cannot_be_read_keeps_its_identity() {
        let decoded = decode(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"containers": "none"}
        }));
        let Decoded::Bad(bad) = decoded else { panic!("{decoded:?}") };
        assert_eq!((bad.namespace.as_deref(), bad.name.as_str()), (Some("n"), "p"));
        assert_eq!((bad.uid.as_deref(), bad.resource_version.as_deref()), (Some("u"), Some("7")));
        assert!(bad.error.contains("none"), "{}", bad.error);
    }

    #[test]
    fn nonsense_in_the_metadata_fails_that_object_alone() {
        let page: Page<Pod> = serde_json::from_value(json!({
            "metadata": {"resourceVersion": "9"},
            "items": [
                {"metadata": {"name": 5, "labels": []}},
                {"metadata": "nonsense"},
                {"metadata": {"name": "fine"}}
            ]
        }))
        .unwrap();
        let bad = page.items.iter().filter(|d| matches!(d, Decoded::Bad(_)));
        assert_eq!((page.items.len(), bad.count()), (3, 2));
    }

    #[test]
    fn a_list_of_nothing_may_be_null() {
        let page: Page<Pod> = serde_json::from_value(json!({"metadata": {}, "items": null})).unwrap();
        assert!(page.items.is_empty());
    }
}
