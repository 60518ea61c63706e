//! Which sets of labels does a label selector match?
//!
//! Semantics of `metav1.LabelSelectorAsSelector` (Kubernetes 1.36, apimachinery): a selector that is not set matches nothing, an empty one matches
//! everything. Equal selectors have equal values here, so that they can be keys.

use std::collections::{BTreeMap, BTreeSet};

use super::podgroup::Selector;

/// A label selector that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelSelector {
    /// The selector is not set: it matches nothing.
    #[default]
    Nothing,
    /// All requirements must hold. Without any, the selector matches everything.
    Requirements(BTreeSet<Requirement>),
}

/// One requirement on the labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The key of the label.
    pub key: String,
    /// What is required of its value.
    pub value: ValueRequirement,
}

/// What is required of the value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueRequirement {
    /// It is one of these.
    In(BTreeSet<String>),
    /// It is none of these, or there is no such label.
    NotIn(BTreeSet<String>),
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
}

impl LabelSelector {
    /// Reads a selector.
    ///
    /// # Errors
    ///
    /// An operator that Kubernetes does not know, or values where there must be none, or none where there must be some. The error describes the
    /// requirement. The API server refuses such selectors.
    pub fn of(selector: Option<&Selector>) -> Result<Self, String> {
        let Some(selector) = selector else { return Ok(Self::Nothing) };
        let mut requirements = BTreeSet::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.insert(Requirement { key: key.clone(), value: ValueRequirement::In([value.clone()].into()) });
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let value = match (expression.operator.as_str(), values.is_empty()) {
                ("In", false) => ValueRequirement::In(values),
                ("NotIn", false) => ValueRequirement::NotIn(values),
                ("Exists", true) => ValueRequirement::Exists,
                ("DoesNotExist", true) => ValueRequirement::DoesNotExist,
                (operator, _) => return Err(format!("{} {operator:?} with {} values", expression.key, values.len())),
            };
            requirements.insert(Requirement { key: expression.key.clone(), value });
        }
        Ok(Self::Requirements(requirements))
    }

    /// Returns the selector that matches labels with this value of this key.
    #[must_use]
    pub fn label(key: &str, value: &str) -> Self {
        let mut selector = Self::everything();
        selector.require(key, value);
        selector
    }

    /// Returns the selector that matches everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self::Requirements(BTreeSet::new())
    }

    /// Returns whether the selector is set and has no requirement.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::Requirements(requirements) if requirements.is_empty())
    }

    /// Adds the requirement that a label has this value. A selector that matches nothing stays so.
    pub fn require(&mut self, key: &str, value: &str) {
        if let Self::Requirements(requirements) = self {
            requirements.insert(Requirement { key: key.to_owned(), value: ValueRequirement::In([value.to_owned()].into()) });
        }
    }

    /// Returns whether the selector matches these labels.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Requirements(requirements) => requirements.iter().all(|requirement| requirement.holds(labels)),
        }
    }

    /// Returns each key with the values of which a label of everything that is matched has one.
    pub fn listed(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        let requirements = match self {
            Self::Requirements(requirements) => Some(requirements),
            Self::Nothing => None,
        };
        requirements.into_iter().flatten().filter_map(|requirement| match &requirement.value {
            ValueRequirement::In(values) => Some((requirement.key.as_str(), values)),
            ValueRequirement::NotIn(_) | ValueRequirement::Exists | ValueRequirement::DoesNotExist => None,
        })
    }

    /// Returns the number of requirements and of the values in them: what it costs to compare the selector with labels.
    #[must_use]
    pub fn size(&self) -> usize {
        let Self::Requirements(requirements) = self else { return 0 };
        let size = |requirement: &Requirement| match &requirement.value {
            ValueRequirement::In(values) | ValueRequirement::NotIn(values) => values.len().saturating_add(1),
            ValueRequirement::Exists | ValueRequirement::DoesNotExist => 1,
        };
        requirements.iter().map(size).fold(0, usize::saturating_add)
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.value {
            ValueRequirement::In(values) => value.is_some_and(|value| values.contains(value)),
            ValueRequirement::NotIn(values) => !value.is_some_and(|value| values.contains(value)),
            ValueRequirement::Exists => value.is_some(),
            ValueRequirement::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::podgroup::SelectorRequirement;

    fn selector(labels: &[(&str, &str)], expressions: &[(&str, &str, &[&str])]) -> Selector {
        let expression = |(key, operator, values): &(&str, &str, &[&str])| SelectorRequirement {
            key: (*key).into(),
            operator: (*operator).into(),
            values: Some(values.iter().map(|value| (*value).into()).collect()),
        };
        Selector {
            match_labels: Some(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
            match_expressions: Some(expressions.iter().map(expression).collect()),
        }
    }

    #[test]
    fn every_operator_means_what_kubernetes_says() {
        let labels = BTreeMap::from([("app".to_owned(), "db".to_owned())]);
        let table = [
            ("app", "In", &["db", "web"][..], true),
            ("app", "In", &["web"], false),
            ("none", "In", &["db"], false),
            ("app", "NotIn", &["db"], false),
            ("app", "NotIn", &["web"], true),
            ("none", "NotIn", &["db"], true),
            ("app", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("app", "DoesNotExist", &[], false),
            ("none", "DoesNotExist", &[], true),
        ];
        for (key, operator, values, want) in table {
            let read = LabelSelector::of(Some(&selector(&[], &[(key, operator, values)]))).unwrap();
            assert_eq!(read.matches(&labels), want, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn a_selector_that_is_not_set_matches_nothing_and_an_empty_one_everything() {
        let none = BTreeMap::new();
        assert!(!LabelSelector::of(None).unwrap().matches(&none));
        let empty = LabelSelector::of(Some(&Selector::default())).unwrap();
        assert!(empty.matches(&none) && empty.is_everything() && empty == LabelSelector::everything());
        let mut nothing = LabelSelector::Nothing;
        nothing.require("app", "db");
        assert_eq!(nothing, LabelSelector::Nothing, "matchLabelKeys add nothing to it");
        let mut app = LabelSelector::everything();
        app.require("app", "db");
        assert!(app.matches(&[("app".to_owned(), "db".to_owned())].into()) && !app.matches(&none));
    }

    #[test]
    fn equal_selectors_are_equal_in_whatever_form_they_were_written() {
        let read = |labels: &[(&str, &str)], expressions: &[(&str, &str, &[&str])]| LabelSelector::of(Some(&selector(labels, expressions)));
        assert_eq!(read(&[("a", "1"), ("b", "2")], &[]), read(&[("b", "2")], &[("a", "In", &["1", "1"])]));
        assert_eq!(read(&[("a", "1")], &[("b", "In", &["2", "3"])]).unwrap().listed().next(), Some(("a", &["1".to_owned()].into())));
        assert_eq!(read(&[], &[("b", "Exists", &[])]).unwrap().listed().next(), None);
    }

    #[test]
    fn what_the_api_server_refuses_is_an_error_that_names_it() {
        for (operator, values) in [("Gt", &["1"][..]), ("In", &[]), ("NotIn", &[]), ("Exists", &["1"]), ("DoesNotExist", &["1"])] {
            let error = LabelSelector::of(Some(&selector(&[], &[("app", operator, values)]))).unwrap_err();
            assert!(error.contains("app") && error.contains(operator), "{error}");
        }
    }
}
