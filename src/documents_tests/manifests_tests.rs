//! Checks the manifests below docs/: fields that the CRDs have, values without faults, and annotations that the programs read.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{between, names_below, read};
use crate::api::{GroupFacts, PodGroup, Queue, QueueFacts};

/// Returns every manifest below a folder, with the name of its file.
fn manifests(folder: &str) -> Vec<(String, Value)> {
    let of = |name: String| {
        let text = read(&name);
        let object = |object| serde_saphyr::from_str(object).unwrap_or_else(|error| panic!("{name}: {error}"));
        text.split("\n---\n").map(|text| (name.clone(), object(text))).collect::<Vec<_>>()
    };
    names_below(folder, ".yaml").into_iter().flat_map(of).collect()
}

/// Returns the fields of the value that the schema does not have.
fn unknown_fields(value: &Value, schema: &Value, at: &str) -> Vec<String> {
    let (Some(fields), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else { return Vec::new() };
    let of = |(name, field): (&String, &Value)| match properties.get(name) {
        Some(known) => unknown_fields(field, known, &format!("{at}.{name}")),
        None => vec![format!("{at}.{name}")],
    };
    fields.iter().flat_map(of).collect()
}

/// Returns the schema of the spec in a CRD of the repository.
fn spec_of(crd: &str) -> Value {
    let crd: Value = serde_saphyr::from_str(&read(crd)).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn manifests_of_the_pages_have_known_fields_values_and_annotations() {
    let names = read("src/api/names.rs");
    let keys = between(&names, "= \"", '"');
    let [queues, groups] = ["queues", "podgroups"].map(|plural| spec_of(&format!("crds/{plural}.scheduling.volcano.sh.yaml")));
    let mut seen = BTreeSet::new();
    for (file, object) in manifests("docs") {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let (schema, faults) = match kind.as_str() {
            "Queue" => (&queues, QueueFacts::of(&serde_json::from_value::<Queue>(object.clone()).unwrap()).faults),
            "PodGroup" => (&groups, GroupFacts::of(&serde_json::from_value::<PodGroup>(object.clone()).unwrap()).faults),
            _ => (&Value::Null, Vec::new()),
        };
        assert!(faults.is_empty(), "{file}: {faults:?}");
        assert_eq!(unknown_fields(&object["spec"], schema, "spec"), Vec::<String>::new(), "{file}: {kind}");
        let text = object.to_string();
        let annotations = text.split('"').filter(|word| word.contains("volcano.sh/") || word.starts_with("scheduling.k8s.io/"));
        let unknown: Vec<_> = annotations.filter(|word| !word.contains("/v1") && !keys.contains(word)).collect();
        assert!(unknown.is_empty(), "{file} has the annotations {unknown:?}");
        seen.insert(kind);
    }
    for kind in ["Queue", "PodGroup", "Deployment", "Job", "JobSet", "LeaderWorkerSet"] {
        assert!(seen.contains(kind), "no manifest of a {kind}: {seen:?}");
    }
}
