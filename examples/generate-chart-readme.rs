//! Writes the table of values into the chart's README, from its schema (what a value means) and `values.yaml` (what it is unless somebody
//! says otherwise). Called by `make generate`, from the repository's root.

use serde_json::{Map, Value};

const README: &str = "charts/podgroup/README.md";
const SCHEMA: &str = "charts/podgroup/values.schema.json";
const VALUES: &str = "charts/podgroup/values.yaml";

/// The table stands between these two lines.
const BEGIN: &str = "<!-- values: written by make generate -->";
const END: &str = "<!-- end of values -->";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let readme = std::fs::read_to_string(README)?;
    let schema = serde_json::from_str(&std::fs::read_to_string(SCHEMA)?)?;
    let values = serde_saphyr::from_str(&std::fs::read_to_string(VALUES)?)?;
    std::fs::write(README, with_table(&readme, &table(&schema, &values)?)?)?;
    Ok(())
}

/// The README with this table in its place.
fn with_table(readme: &str, table: &str) -> Result<String, String> {
    let (before, rest) = readme.split_once(BEGIN).ok_or_else(|| format!("{README} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| format!("{README} has no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

/// One row for each value, by name.
fn table(schema: &Value, values: &Value) -> Result<String, String> {
    let mut text = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    let mut rows = Vec::new();
    collect(schema, schema, values, "", &mut rows)?;
    for Row { name, default, meaning } in rows {
        let cell = |text: &str| text.replace('|', "\\|");
        text.push_str(&format!("| `{name}` | `{}` | {} |\n", cell(&default), cell(&meaning)));
    }
    Ok(text)
}

struct Row {
    name: String,
    default: String,
    meaning: String,
}

/// The values of `node`, a part of `schema`, under the name `above`, with their part of `values.yaml`.
fn collect(schema: &Value, node: &Value, values: &Value, above: &str, rows: &mut Vec<Row>) -> Result<(), String> {
    let mut properties: Vec<_> = node.get("properties").and_then(Value::as_object).into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| *name);
    let known = |name: &String| properties.iter().any(|(known, _)| *known == name);
    if let Some(stray) = values.as_object().unwrap_or(&Map::new()).keys().find(|name| !known(name)) {
        return Err(format!("{VALUES} has {above}{stray}, which {SCHEMA} does not know"));
    }
    for (name, property) in &properties {
        let path = format!("{above}{name}");
        let definition = property.get("$ref").and_then(Value::as_str).and_then(|to| schema.pointer(to.trim_start_matches('#')));
        let whole = definition.unwrap_or(property);
        let value = values.get(name).ok_or_else(|| format!("{VALUES} does not say {path}"))?;
        if definition.is_none() && whole.get("properties").is_some() {
            collect(schema, whole, value, &format!("{path}."), rows)?;
            continue;
        }
        let described = [*property, whole].iter().find_map(|each| each.get("description")?.as_str());
        let meaning = described.ok_or_else(|| format!("{SCHEMA} does not describe {path}"))?;
        rows.push(Row { name: path, default: value.to_string(), meaning: meaning.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(path: &str) -> String {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    }

    #[test]
    fn the_charts_readme_says_what_schema_and_values_say() {
        let (schema, values) = (serde_json::from_str(&file(SCHEMA)).unwrap(), serde_saphyr::from_str(&file(VALUES)).unwrap());
        let readme = file(README);
        let wanted = with_table(&readme, &table(&schema, &values).unwrap()).unwrap();
        assert!(readme == wanted, "{README} is out of step: run `make generate` and commit the result");
    }

    #[test]
    fn a_value_that_one_of_the_two_files_does_not_know_is_an_error() {
        let schema = json!({ "properties": { "a": { "description": "A | b." }, "b": { "properties": { "c": { "$ref": "#/definitions/c" } } } },
            "definitions": { "c": { "description": "C.", "properties": { "inner": {} } } } });
        let told = |schema: &Value, values: Value| table(schema, &values).unwrap_err();
        let rows = table(&schema, &json!({ "a": "x|y", "b": { "c": {} } })).unwrap();
        assert!(rows.contains("| `a` | `\"x\\|y\"` | A \\| b. |\n| `b.c` | `{}` | C. |"), "{rows}");
        assert!(told(&schema, json!({ "a": 1, "b": {} })).contains("does not say b.c"));
        assert!(told(&schema, json!({ "a": 1, "b": { "c": 1, "d": 1 } })).contains("has b.d"));
        assert!(told(&json!({ "properties": { "a": {} } }), json!({ "a": 1 })).contains("does not describe a"));
    }
}
