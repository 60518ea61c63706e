//! Which objects does a list or a watch ask for?

use serde_json::Value;

/// The selectors of a list or a watch.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// The namespace; empty for all.
    pub namespace: String,
    /// Selectors of labels, in the syntax of kubectl.
    pub labels: String,
    /// Selectors of fields.
    pub fields: String,
}

impl Selector {
    /// Whether the object is asked for.
    #[must_use]
    pub fn takes(&self, object: &Value) -> bool {
        let in_namespace = self.namespace.is_empty() || object["metadata"]["namespace"] == *self.namespace;
        in_namespace && parts(&self.labels).all(|part| label(object, part)) && parts(&self.fields).all(|part| field(object, part))
    }
}

/// Splits at commas outside of parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let at = move |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    };
    text.split(at).map(str::trim).filter(|part| !part.is_empty())
}

fn label(object: &Value, part: &str) -> bool {
    let value = |key: &str| object["metadata"]["labels"].get(key.trim()).and_then(Value::as_str).map(str::to_owned);
    let listed = |list: &str, value: Option<String>| {
        let list = list.trim().trim_start_matches('(').trim_end_matches(')');
        value.is_some_and(|value| list.split(',').any(|entry| entry.trim() == value))
    };
    if let Some(key) = part.strip_prefix('!') {
        value(key).is_none()
    } else if let Some((key, list)) = part.split_once(" notin ") {
        !listed(list, value(key))
    } else if let Some((key, list)) = part.split_once(" in ") {
        listed(list, value(key))
    } else if let Some((key, wanted)) = part.split_once("!=") {
        value(key).as_deref() != Some(wanted.trim())
    } else if let Some((key, wanted)) = part.split_once('=') {
        value(key).as_deref() == Some(wanted.trim_start_matches('=').trim())
    } else {
        value(part).is_some()
    }
}

fn field(object: &Value, part: &str) -> bool {
    let value = |path: &str| object.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str).unwrap_or_default().to_owned();
    match part.split_once("!=") {
        Some((path, unwanted)) => value(path) != unwanted,
        None => part.split_once('=').is_none_or(|(path, wanted)| value(path) == wanted.trim_start_matches('=')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_mean_what_kubectl_means() {
        let pod = json!({ "metadata": { "namespace": "ns", "labels": { "app": "a", "x/y": "1" } }, "status": { "phase": "Running" } });
        let takes = |namespace: &str, labels: &str, fields: &str| {
            Selector { namespace: namespace.to_owned(), labels: labels.to_owned(), fields: fields.to_owned() }.takes(&pod)
        };
        assert!(takes("", "app=a,x/y", "status.phase!=Failed") && takes("ns", "app in (a,b),!z", "status.phase=Running"));
        assert!(
            !takes("other", "", "") && !takes("", "!app", "") && !takes("", "app notin (a)", "") && !takes("", "", "status.phase!=Running")
        );
    }
}
