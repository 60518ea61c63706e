//! Generates the CustomResourceDefinitions from the Rust types, for `make generate`.
//!
//! The schema is generated; the definition around it is written here. The derive of kube-rs would add a status subresource to PodGroup
//! (writers that exist would lose their status) and require a spec (Volcano's objects need none):
//! docs/decisions/2026-11-21-crds-without-the-derive.md. The descriptions are not copied from Volcano.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::podgroup::{PodGroupSpec, PodGroupStatus};
use super::queue::{QueueSpec, QueueStatus};

/// The API group of both kinds.
const GROUP: &str = "scheduling.volcano.sh";

/// Returns the definition of PodGroup. It has no status subresource, because existing writers of the status would break.
#[must_use]
pub fn podgroup() -> Value {
    let names = json!({ "kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "shortNames": ["pg", "podgroup-v1beta1"], "singular": "podgroup" });
    let columns = json!([
        column("STATUS", "string", ".status.phase", "The phase of the PodGroup", 0),
        column("minMember", "integer", ".spec.minMember", "The number of pods that must be placed together", 0),
        column("RUNNINGS", "integer", ".status.running", "The number of running pods", 0),
        column("AGE", "date", ".metadata.creationTimestamp", "When the PodGroup was created", 0),
        column("QUEUE", "string", ".spec.queue", "The queue that the pods are charged to", 0),
        column("OWNER", "string", ".metadata.ownerReferences[0].name", "The owner of the PodGroup", 0),
        column("OWNER-KIND", "string", ".metadata.ownerReferences[0].kind", "The kind of the owner", 1),
        column("WHY", "string", r#".status.conditions[?(@.type=="Unschedulable")].message"#, "Why the PodGroup is not scheduled", 1),
    ]);
    let description = "A group of pods that are scheduled together: minMember pods at once, or none.";
    definition("Namespaced", names, schema::<PodGroupSpec, PodGroupStatus>(description), columns, json!({}))
}

/// Returns the definition of Queue, with a status subresource.
#[must_use]
pub fn queue() -> Value {
    let names =
        json!({ "kind": "Queue", "listKind": "QueueList", "plural": "queues", "shortNames": ["q", "queue-v1beta1"], "singular": "queue" });
    let columns = json!([
        column("PARENT", "string", ".spec.parent", "The parent of the queue", 0),
        column("STATE", "string", ".status.state", "Whether the queue admits new PodGroups", 0),
        column("USED", "string", ".status.usage", "What the pods of the queue and of those below it use of its capability", 0),
        column("WHY", "string", ".status.message", "What is wrong with the queue", 0),
        column("CAPABILITY", "string", ".spec.capability", "The most that the queue may use", 1),
        column("DESERVED", "string", ".spec.deserved", "The share that the queue can reclaim", 1),
        column("GUARANTEE", "string", ".spec.guarantee.resource", "What is kept for the queue", 1),
        column("PENDING", "integer", ".status.pending", "The number of pending PodGroups", 1),
        column("INQUEUE", "integer", ".status.inqueue", "The number of PodGroups that are admitted and not running yet", 1),
        column("RUNNING", "integer", ".status.running", "The number of running PodGroups", 1),
        column("AGE", "date", ".metadata.creationTimestamp", "When the queue was created", 0),
    ]);
    definition(
        "Cluster",
        names,
        schema::<QueueSpec, QueueStatus>("A queue with a quota of the cluster's resources. Queues form a tree."),
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

/// Makes a JSON Schema a structural schema of Kubernetes: removes `nullable` (a null means absent there, as for Volcano), titles, defaults that only
/// Rust knows, integer formats that Kubernetes does not know, and empty extensions.
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
            // The struct-level `#[serde(default)]` becomes a default of null or {} for every optional field. The real defaults of the API
            // are scalars.
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

/// Joins the lines of a description: documentation is wrapped in the source, and one line in the schema.
fn one_description(object: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// Returns the files that `make generate` writes: the path in the repository and the content of each.
///
/// # Errors
///
/// Returns an error if a definition cannot be written as YAML, which would be a defect of the YAML writer.
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
