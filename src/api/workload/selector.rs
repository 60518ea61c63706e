//! Writes a label selector as text for a list request.

use crate::api::podgroup::Selector;

/// Returns the selector as text for a list request. `None` if it is empty (it would select every pod) or has an unknown operator.
pub fn selector_text(selector: &Selector) -> Option<String> {
    let mut parts: Vec<String> = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_deref().unwrap_or_default().join(",");
        let key = &requirement.key;
        parts.push(match requirement.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::api::podgroup::SelectorRequirement;

    #[test]
    fn a_selector_is_written_as_the_text_of_a_list_request() {
        let requirement = |key: &str, operator: &str, values: &[&str]| SelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        let selector = Selector {
            match_labels: Some(BTreeMap::from([("app".to_owned(), "x".to_owned())])),
            match_expressions: Some(vec![
                requirement("a", "In", &["1", "2"]),
                requirement("b", "NotIn", &["3"]),
                requirement("c", "Exists", &[]),
                requirement("d", "DoesNotExist", &[]),
            ]),
        };
        assert_eq!(selector_text(&selector).as_deref(), Some("app=x,a in (1,2),b notin (3),c,!d"));
        assert_eq!(selector_text(&Selector::default()), None, "an empty selector would select every pod");
        let unknown = Selector { match_expressions: Some(vec![requirement("a", "Gt", &["1"])]), ..Selector::default() };
        assert_eq!(selector_text(&unknown), None);
    }
}
