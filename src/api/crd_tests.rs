//! Tests that the definitions are the files in the repository, and have the fields of Volcano's definitions.

use super::*;
use crate::api::podgroup::QUEUE;

type Definition = fn() -> Value;

#[test]
fn the_crd_files_in_the_repository_match_the_types() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in files().unwrap() {
        let there = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        assert!(there == text, "{path} does not match the types: run `make generate` and commit the result");
    }
}

fn version(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]
}

#[test]
fn a_podgroup_has_no_status_subresource_and_a_queue_has_one() {
    assert_eq!(version(&podgroup())["subresources"], json!({}));
    assert_eq!(version(&queue())["subresources"], json!({ "status": {} }));
}

/// Fields of Volcano's definitions: path, type, limits and defaults.
#[test]
fn the_fields_have_the_types_limits_and_defaults_of_volcano() {
    let fields: &[(Definition, &str, Value)] = &[
        (podgroup, "spec.minMember", json!({ "type": "integer", "minimum": 0, "format": "int32" })),
        (podgroup, "spec.minTaskMember", json!({ "type": "object" })),
        (podgroup, "spec.networkTopology.highestTierAllowed", json!({ "type": "integer", "minimum": 0 })),
        (podgroup, "spec.networkTopology.highestTierName", json!({ "type": "string", "maxLength": 253 })),
        (podgroup, "spec.networkTopology.mode", json!({ "type": "string", "default": "hard", "enum": ["hard", "soft"] })),
        (podgroup, "spec.priorityClassName", json!({ "type": "string", "maxLength": 253 })),
        (podgroup, "spec.queue", json!({ "type": "string", "maxLength": 253, "default": "default", "pattern": QUEUE })),
        (podgroup, "spec.subGroupPolicy", json!({ "type": "array" })),
        (podgroup, "spec.subGroupPolicy[].minSubGroups", json!({ "type": "integer", "minimum": 0, "default": 0, "format": "int32" })),
        (podgroup, "spec.subGroupPolicy[].subGroupSize", json!({ "type": "integer", "minimum": 1, "default": 1, "format": "int32" })),
        (podgroup, "spec.subGroupPolicy[].matchLabelKeys", json!({ "type": "array", "x-kubernetes-list-type": "atomic" })),
        (podgroup, "status.conditions[].lastTransitionTime", json!({ "type": "string", "format": "date-time" })),
        (podgroup, "status.conditions[].transitionID", json!({ "type": "string" })),
        (podgroup, "status.failed", json!({ "type": "integer", "minimum": 0, "format": "int32" })),
        (podgroup, "status.phase", json!({ "enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"] })),
        (queue, "spec.dequeueStrategy", json!({ "type": "string", "default": "traverse", "enum": ["fifo", "traverse"] })),
        (queue, "spec.extendClusters[].weight", json!({ "type": "integer", "format": "int32" })),
        (queue, "spec.guarantee.resource", json!({ "type": "object" })),
        (queue, "spec.parent", json!({ "type": "string", "maxLength": 253, "pattern": QUEUE })),
        (queue, "spec.priority", json!({ "type": "integer", "minimum": 0, "format": "int32" })),
        (queue, "spec.reclaimable", json!({ "type": "boolean" })),
        (queue, "spec.type", json!({ "type": "string", "maxLength": 253 })),
        (queue, "spec.weight", json!({ "type": "integer", "default": 1, "minimum": 1, "maximum": 65535, "format": "int32" })),
        (queue, "status.reservation.nodes", json!({ "type": "array" })),
        (queue, "status.state", json!({ "enum": ["Open", "Closed", "Closing", "Unknown"] })),
    ];
    for (definition, path, expected) in fields {
        let definition = definition();
        let mut schema = &version(&definition)["schema"]["openAPIV3Schema"];
        for step in path.split('.') {
            let name = step.trim_end_matches("[]");
            schema = &schema["properties"][name];
            if step.ends_with("[]") {
                schema = &schema["items"];
            }
        }
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&schema[key], value, "{path}: {key}");
        }
    }
}

#[test]
fn unknown_fields_are_preserved_and_no_field_is_required() {
    for definition in [podgroup(), queue()] {
        let schema = &version(&definition)["schema"]["openAPIV3Schema"];
        for part in ["spec", "status"] {
            assert_eq!(schema["properties"][part]["x-kubernetes-preserve-unknown-fields"], json!(true), "{part}");
            assert_eq!(schema["properties"][part]["required"], Value::Null, "{part}");
        }
        assert_eq!(schema["required"], Value::Null);
        let text = definition.to_string();
        for word in ["nullable", "\"title\"", "int64", "uint", "double"] {
            assert!(!text.contains(word), "a structural schema must not contain {word}");
        }
    }
}
