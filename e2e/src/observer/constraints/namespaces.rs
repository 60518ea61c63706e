//! Names the namespaces that a `namespaceSelector` of a pod selects, where kube-scheduler would read it as every namespace.
//!
//! kube-scheduler 1.36 looks the namespaces of a term up, but keeps the selector, and asks it about a namespace without labels later
//! (`plugins/interpodaffinity`, `mergeAffinityTermNamespacesIfNotEmpty` changes a copy). So a selector of `NotIn` and `DoesNotExist` alone
//! matches every namespace. A binding by the documented meaning of the API must not be reported for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// A name that no namespace can have. A term without any name would be about the pod's own namespace.
const NONE: &str = "-none-";

/// Returns the pod with names in place of such selectors in its required terms.
pub(super) fn named(mut pod: Value, namespaces: &BTreeMap<String, Arc<Value>>) -> Value {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = pod.pointer_mut(&format!("/spec/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution"));
        for term in terms.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            name(term, namespaces);
        }
    }
    pod
}

fn name(term: &mut Map<String, Value>, namespaces: &BTreeMap<String, Arc<Value>>) {
    let Some(expressions) = term.get("namespaceSelector").and_then(matching_no_labels) else { return };
    let labels = |namespace: &Value, key: &str| Some(namespace.get("metadata")?.get("labels")?.get(key)?.as_str()?.to_owned());
    let selected = |namespace: &Value| {
        expressions.iter().all(|(key, not_in)| match (labels(namespace, key), not_in) {
            (Some(value), Some(values)) => !values.contains(&value),
            (Some(_), None) => false,
            (None, _) => true,
        })
    };
    let mut names: BTreeSet<String> =
        namespaces.iter().filter(|(_, namespace)| selected(namespace)).map(|(name, _)| name.clone()).collect();
    names.extend(term.get("namespaces").and_then(Value::as_array).into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())));
    if names.is_empty() {
        names.insert(NONE.to_owned());
    }
    term.remove("namespaceSelector");
    term.insert("namespaces".to_owned(), json!(names));
}

/// Returns the keys of a selector that a namespace without labels matches, each with the values that it must not have; none for any value.
/// None for other selectors, and for the empty one, which kube-scheduler reads rightly.
fn matching_no_labels(selector: &Value) -> Option<Vec<(String, Option<BTreeSet<String>>)>> {
    if selector.get("matchLabels").and_then(Value::as_object).is_some_and(|labels| !labels.is_empty()) {
        return None;
    }
    let expressions = selector.get("matchExpressions")?.as_array().filter(|all| !all.is_empty())?;
    let read = |expression: &Value| {
        let key = expression.get("key")?.as_str()?.to_owned();
        match expression.get("operator")?.as_str()? {
            "NotIn" => {
                let values = expression.get("values")?.as_array()?;
                Some((key, Some(values.iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect())))
            }
            "DoesNotExist" => Some((key, None)),
            _ => None,
        }
    };
    expressions.iter().map(read).collect()
}
