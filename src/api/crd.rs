//! The CustomResourceDefinitions, made from the Rust types: what `make generate` writes and the API server enforces.
//!
//! Made by hand around the generated schema, because a derive would add a status subresource to PodGroup (design.md §2 forbids it) and demand
//! a spec (Volcano's objects need none). Descriptions are our own.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::podgroup::{PodGroupSpec, PodGroupStatus};
use super::queue::{QueueSpec, QueueStatus};

/// The group of both kinds.
const GROUP: &str = "scheduling.volcano.sh";

/// The definition of PodGroup: no status subresource, or every existing writer of its status would break.
#[must_use]
pub fn podgroup() -> Value {
    let names = json!({ "kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "shortNames": ["pg", "podgroup-v1beta1"], "singular": "podgroup" });
    let columns = json!([
        column("STATUS", "string", ".status.phase", "Where the group is in its life", 0),
        column("minMember", "integer", ".spec.minMember", "How many members must find a place together", 0),
        column("RUNNINGS", "integer", ".status.running", "How many members run", 0),
        column("AGE", "date", ".metadata.creationTimestamp", "When the group was made", 0),
        column("QUEUE", "string", ".spec.queue", "The queue that the members are charged to", 1),
        column("OWNER", "string", ".metadata.ownerReferences[0].name", "Whose group it is", 1),
        column("WHY", "string", r#".status.conditions[?(@.type=="Unschedulable")].message"#, "Why the group waits", 1),
    ]);
    let description = "A group of pods that are placed together: all of its minMember at once, or none.";
    definition("Namespaced", names, schema::<PodGroupSpec, PodGroupStatus>(description), columns, json!({}))
}

/// The definition of Queue, with its status subresource.
#[must_use]
pub fn queue() -> Value {
    let names =
        json!({ "kind": "Queue", "listKind": "QueueList", "plural": "queues", "shortNames": ["q", "queue-v1beta1"], "singular": "queue" });
    let columns = json!([
        column("PARENT", "string", ".spec.parent", "The queue above this one", 0),
        column("STATE", "string", ".status.state", "Whether the queue takes new groups", 1),
        column("PENDING", "integer", ".status.pending", "How many groups wait", 1),
        column("INQUEUE", "integer", ".status.inqueue", "How many groups are admitted and do not run yet", 1),
        column("RUNNING", "integer", ".status.running", "How many groups run", 1),
        column("AGE", "date", ".metadata.creationTimestamp", "When the queue was made", 1),
    ]);
    definition(
        "Cluster",
        names,
        schema::<QueueSpec, QueueStatus>("A share of the cluster, in a tree of shares."),
        columns,
        json!({ "status": {} }),
    )
}

fn column(name: &str, kind: &str, path: &str, description: &str, priority: u8) -> Value {
    json!({ "name": name, "type": kind, "jsonPath": path, "description": description, "priority": priority })
}

fn definition(scope: &str, names: Value, schema: Value, columns: Value, subresources: Value) -> Value {
    let name = format!("{}.{GROUP}", names.get("plural").and_then(Value::as_str).unwrap_or_default());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": name },
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": scope,
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": subresources,
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn schema<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": { "type": "string", "description": "The version of the API that this object is written in." },
            "kind": { "type": "string", "description": "The kind of this object." },
            "metadata": { "type": "object" },
            "spec": part::<Spec>(),
            "status": part::<Status>(),
        },
    })
}

fn part<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut value = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    make_structural(&mut value);
    value
}

/// What Kubernetes asks of a schema beyond JSON Schema: no `nullable` (a null is absent there, as for Volcano), no titles, no defaults that
/// only Rust knows, no integer formats that it does not know, no empty extensions.
fn make_structural(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("nullable");
            object.remove("title");
            object.remove("$schema");
            object.retain(|_, inner| !inner.is_null());
            if object.get("format").is_some_and(|format| !matches!(format.as_str(), Some("int32" | "date-time"))) {
                object.remove("format");
            }
            // The struct-level `#[serde(default)]` is written as a default of null or {} for every optional field; those that the API
            // has are scalars.
            if object.get("default").is_some_and(|default| default.is_object() || default.is_array()) {
                object.remove("default");
            }
            one_description(object);
            object.values_mut().for_each(make_structural);
        }
        Value::Array(items) => items.iter_mut().for_each(make_structural),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A paragraph of documentation is wrapped in the source; in the schema it is one line.
fn one_description(object: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// The files that `make generate` writes: path in the repository and content.
///
/// # Errors
///
/// Where a definition cannot be written as YAML, which would be a defect of the writer.
pub fn files() -> Result<Vec<(String, String)>, serde_saphyr::ser::Error> {
    let mut files = Vec::new();
    for (plural, definition) in [("podgroups", podgroup()), ("queues", queue())] {
        let text = format!("# Generated from src/api by `make generate`; do not edit.\n{}", serde_saphyr::to_string(&definition)?);
        for folder in ["crds", "charts/podgroup/files/crds"] {
            files.push((format!("{folder}/{plural}.{GROUP}.yaml"), text.clone()));
        }
    }
    Ok(files)
}

#[cfg(test)]
#[path = "crd_tests.rs"]
mod tests;
