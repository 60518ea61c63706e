//! What does an object look like after a patch?

use serde_json::{Map, Value};

/// Applies a merge patch (RFC 7386): null removes a field.
pub fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    for (name, value) in fields {
        let of = as_map(object);
        if value.is_null() {
            of.remove(name);
        } else {
            merge(of.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Applies a strategic patch: as a merge patch, but conditions are merged by their type. No program here patches another list in this way.
pub fn strategic(object: &mut Value, patch: &Value) {
    let conditions = patch.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let mut rest = patch.clone();
    if let Some(status) = rest.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
    }
    merge(object, &rest);
    for condition in conditions.unwrap_or_default() {
        set_condition(object, &condition);
    }
}

/// Merges one condition into those of the object, by its type.
pub fn set_condition(object: &mut Value, condition: &Value) {
    let status = as_map(as_map(object).entry("status").or_insert(Value::Null));
    let list = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return };
    match list.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => merge(known, condition),
        None => list.push(condition.clone()),
    }
}

/// Returns the fields of a value, which becomes an empty object where it is none.
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was just made an object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_removes_a_field_and_conditions_are_merged_by_type() {
        let mut object = json!({ "a": 1, "status": { "conditions": [{ "type": "x", "status": "True", "since": 1 }] } });
        merge(&mut object, &json!({ "a": null, "b": { "c": null, "d": 2 } }));
        assert_eq!((object.get("a"), &object["b"]), (None, &json!({ "d": 2 })));
        strategic(&mut object, &json!({ "status": { "conditions": [{ "type": "x", "status": "False" }, { "type": "y" }] } }));
        let wanted = json!([{ "type": "x", "status": "False", "since": 1 }, { "type": "y" }]);
        assert_eq!(object["status"]["conditions"], wanted);
    }
}
