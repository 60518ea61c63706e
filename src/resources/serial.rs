//! Writes amounts as JSON.
//!
//! As in the API, a vector is an object of canonical quantity texts. Reading is in `api::quantities`, which accepts numbers and texts and
//! reports faults.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Amount, Limits, ResourceName, Resources, quantity};

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for ResourceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        entries(self.iter(), self.len(), serializer)
    }
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        entries(self.iter(), self.len(), serializer)
    }
}

fn entries<'a, S: Serializer>(all: impl Iterator<Item = (&'a ResourceName, Amount)>, len: usize, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(len))?;
    for (name, amount) in all {
        map.serialize_entry(name, &quantity::format(amount, name.style()))?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_canonical_quantity_texts() {
        let some = Resources::new().with("memory", Amount::from_units(1 << 30)).with("cpu", Amount::from_units(2));
        assert_eq!(serde_json::to_string(&some).unwrap(), r#"{"cpu":"2","memory":"1Gi"}"#);
        let none = Limits::new().with("nvidia.com/gpu", Amount::ZERO);
        assert_eq!(serde_json::to_string(&none).unwrap(), r#"{"nvidia.com/gpu":"0"}"#);
    }
}
