//! What does the API server make of an object and a merge patch? For tests of what the controller writes.

use serde_json::{Value, json};

/// Applies a JSON merge patch (RFC 7396), as the API server does.
pub(in crate::controller) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(key));
        } else {
            merge(&mut target[key], value);
        }
    }
}
