//! Decodes the answers of the API server, one object at a time.
//!
//! One object that cannot be decoded must not fail the list or the watch that contains it. So every object is first read as JSON and loses
//! its `managedFields` (no code here reads them). Then it is decoded; a failure becomes a [`BadObject`] with whatever its metadata says. A
//! list can be long, so the text of each of its objects is separated and decoded directly, and only a failure goes the longer way. kube's
//! own guard fails a whole list for invalid metadata, and needs whole objects where only metadata is wanted.

use kube::core::{ListMeta, Resource};
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::runtime::call::bounded;

/// An object that exists but could not be decoded. Its fields are as the server sent them, and empty when it sent
/// nothing usable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BadObject {
    /// `metadata.namespace`; `None` for an object without a namespace.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
    /// What could not be read, as one line of limited length.
    pub error: String,
    /// The object was deleted by this event.
    pub deleted: bool,
}

/// An object of a list or a watch event: decoded, or not.
#[derive(Clone, Debug)]
pub(super) enum Decoded<K> {
    Good(K),
    Bad(BadObject),
}

impl<K: Resource> Decoded<K> {
    /// Returns the resourceVersion, from which a watch continues.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::Good(object) => object.meta().resource_version.as_deref(),
            Self::Bad(bad) => bad.resource_version.as_deref(),
        }
    }
}

impl<K: Resource + DeserializeOwned> Decoded<K> {
    /// Decodes an object from its text. The error is that the text is no object at all.
    fn read(text: &RawValue) -> Result<Self, serde_json::Error> {
        match serde_json::from_str::<K>(text.get()) {
            Ok(mut object) => {
                object.meta_mut().managed_fields = None;
                Ok(Self::Good(object))
            }
            Err(_) => serde_json::from_str(text.get()),
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
        Ok(match K::deserialize(&value) {
            Ok(object) => Self::Good(object),
            Err(error) => Self::Bad(BadObject {
                namespace: text("namespace"),
                name: text("name").unwrap_or_default(),
                uid: text("uid"),
                resource_version: text("resourceVersion"),
                error: bounded(&error.to_string()),
                deleted: false,
            }),
        })
    }
}

/// One page of a list, each object as its text. The position of the next page is known before any object is decoded.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    /// Go writes an empty slice as `null` in some places.
    #[serde(default)]
    items: Option<Vec<Box<RawValue>>>,
}

impl Page {
    /// Decodes each object by itself and drops its text. The error is that the text is no object at all.
    pub(super) fn objects<K: Resource + DeserializeOwned>(self) -> impl Iterator<Item = Result<Decoded<K>, serde_json::Error>> {
        self.items.into_iter().flatten().map(|text| Decoded::read(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn decode(value: Value) -> Decoded<Pod> {
        serde_json::from_value(value).unwrap()
    }

    /// Decodes the objects as those of a list.
    fn listed(page: Value) -> Vec<Decoded<Pod>> {
        serde_json::from_value::<Page>(page).unwrap().objects().map(Result::unwrap).collect()
    }

    #[test]
    fn managed_fields_are_gone_and_the_rest_is_there() {
        let decoded = decode(json!({"metadata": {
            "name": "p", "resourceVersion": "7", "labels": {"a": "b"}, "managedFields": [{"manager": "kubectl"}]
        }}));
        assert_eq!(decoded.version(), Some("7"));
        let listed = listed(json!({"items": [{"metadata": {"managedFields": [{"manager": "kubectl"}]}}]}));
        assert!(matches!(&*listed, [Decoded::Good(pod)] if pod.metadata.managed_fields.is_none()), "{listed:?}");
        let Decoded::Good(object) = decoded else { panic!("{decoded:?}") };
        assert_eq!(object.metadata.managed_fields, None);
        assert!(object.metadata.labels.is_some());
    }

    #[test]
    fn invalid_managed_fields_do_no_harm() {
        let text = json!({"metadata": {"name": "p", "resourceVersion": "7", "managedFields": 5}});
        for decoded in [decode(text.clone()), listed(json!({"items": [text]})).remove(0)] {
            assert!(matches!(&decoded, Decoded::Good(pod) if pod.metadata.name.as_deref() == Some("p")), "{decoded:?}");
        }
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
        let page = listed(json!({
            "metadata": {"resourceVersion": "9"},
            "items": [
                {"metadata": {"name": 5, "labels": []}},
                {"metadata": "nonsense"},
                {"metadata": {"name": "fine"}}
            ]
        }));
        let bad = page.iter().filter(|d| matches!(d, Decoded::Bad(_)));
        assert_eq!((page.len(), bad.count()), (3, 2));
    }

    #[test]
    fn a_list_of_nothing_may_be_null() {
        assert!(listed(json!({"metadata": {}, "items": null})).is_empty());
        assert!(listed(json!({"metadata": {}})).is_empty());
    }
}
