//! Which fields of a spec are unknown? The CRDs keep unknown fields, so that a rollback does not lose those of a newer release. Hence
//! neither kubectl nor the API server reports a misspelt field, and an Event of the scheduler does.

use serde::{Deserialize, Deserializer};
use serde_ignored::Path;

use super::fault::{Fault, shorten};

/// The most unknown fields of one spec that are remembered.
const REMEMBERED: usize = 3;

/// The place of the fault: not a field, but all that are not known.
pub(super) const PLACE: &str = "spec";

/// A spec that remembers its unknown fields.
pub(super) trait Spec {
    /// The place for their names.
    fn unknown(&mut self) -> &mut Vec<String>;
}

/// Reads a spec with the names of its first three unknown fields, each cut at 80 characters. Fields below those of the spec do not count:
/// there the CRDs keep none.
pub(super) fn remember<'de, D: Deserializer<'de>, S: Deserialize<'de> + Spec>(deserializer: D) -> Result<S, D::Error> {
    let mut unknown = Vec::new();
    let mut spec: S = serde_ignored::deserialize(deserializer, |path| {
        if let Path::Map { parent: Path::Root, key } = path
            && unknown.len() < REMEMBERED
        {
            unknown.push(shorten(&key));
        }
    })?;
    *spec.unknown() = unknown;
    Ok(spec)
}

/// Returns what an Event says about the unknown fields; `None` if there are none.
pub(super) fn fault(unknown: &[String]) -> Option<Fault> {
    let why = "no such field, at least not in this version; it is not read";
    (!unknown.is_empty()).then(|| Fault::new(PLACE, &unknown.join(", "), why))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, from_value, json};

    use crate::api::{GroupFacts, PodGroup, Queue, QueueFacts};

    fn queue(spec: &Value) -> Vec<String> {
        let queue: Queue = from_value(json!({ "metadata": { "name": "q" }, "spec": spec })).unwrap();
        QueueFacts::of(&queue).faults.iter().map(ToString::to_string).collect()
    }

    fn group(spec: &Value) -> (Option<String>, bool) {
        let group: PodGroup = from_value(json!({ "metadata": { "name": "g" }, "spec": spec })).unwrap();
        let facts = GroupFacts::of(&group);
        (facts.unknown.map(|fault| fault.to_string()), facts.faults.is_empty())
    }

    #[test]
    fn a_misspelt_field_is_named_and_blocks_nothing() {
        let said = "spec \"capabilty\": no such field, at least not in this version; it is not read";
        assert_eq!(queue(&json!({ "weight": 2, "capabilty": { "cpu": "4" } })), [said]);
        // The Event of a queue has its first fault, and an invalid value comes first.
        let both = queue(&json!({ "capabilty": {}, "dequeueStrategy": "lifo" }));
        assert!(both[0].contains("dequeueStrategy") && both[1] == said, "{both:?}");
        let (unknown, may_be_placed) = group(&json!({ "minMembers": 4, "minresources": null, "queue": "q" }));
        let said = "spec \"minMembers, minresources\": no such field, at least not in this version; it is not read";
        assert_eq!((unknown.as_deref(), may_be_placed), (Some(said), true));
    }

    #[test]
    fn fields_of_volcano_that_are_not_used_are_known() {
        let of_queue = json!({ "extendClusters": [{ "name": "c", "capacity": { "cpu": 1 } }], "type": "t", "guarantee": { "cpu": 1 } });
        assert_eq!(queue(&of_queue), [""; 0]);
        assert_eq!(group(&json!({ "subGroupPolicy": [{ "name": "a", "other": 1 }], "minTaskMember": { "a": 1 } })), (None, true));
        let without: PodGroup = from_value(json!({ "metadata": { "name": "g" } })).unwrap();
        assert_eq!(GroupFacts::of(&without).unknown, None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_harmless() {
        let many: Map<String, Value> = (0..10_000).map(|number| (format!("{number:05}\n{}", "x".repeat(1000)), json!([1]))).collect();
        let [said] = &queue(&Value::Object(many.clone()))[..] else { panic!("one fault") };
        assert!(said.starts_with("spec \"00000\\nxxx") && said.chars().count() < 200, "{said}");
        let remembered = from_value::<Queue>(json!({ "metadata": {}, "spec": many })).unwrap().spec.unknown;
        assert_eq!(remembered.iter().map(|name| name.chars().count()).collect::<Vec<_>>(), [81, 81, 81]);
    }

    #[test]
    fn the_value_of_a_field_is_judged_as_before() {
        assert!(from_value::<PodGroup>(json!({ "metadata": {}, "spec": { "minMember": "four" } })).is_err());
    }
}
