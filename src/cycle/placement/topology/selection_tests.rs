//! How many selectors are told apart, and by what are their pods found?

use std::sync::Arc;

use super::placed::PlacedPods;
use super::selection::{MOST_ALIKE, PodLabels, Selection, SelectorId};
use crate::api::label_selector::{LabelSelector, Requirement, ValueRequirement};
use crate::api::pod_terms::PodSelector;

fn requirement(key: &str, value: ValueRequirement) -> Requirement {
    Requirement { key: key.to_owned(), value }
}

fn is(key: &str, value: &str) -> Requirement {
    requirement(key, ValueRequirement::In([value.to_owned()].into()))
}

fn is_not(key: &str, value: &str) -> Requirement {
    requirement(key, ValueRequirement::NotIn([value.to_owned()].into()))
}

/// Selects pods of the namespace.
fn in_namespace(namespace: &str, requirements: &[Requirement]) -> PodSelector {
    let labels = LabelSelector::Requirements(requirements.iter().cloned().collect());
    PodSelector { namespaces: [Arc::from(namespace)].into(), namespace_selector: LabelSelector::Nothing, labels }
}

fn pod(namespace: &str, labels: &[(&str, &str)]) -> PodLabels {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    PodLabels { namespace: Arc::from(namespace), labels }
}

#[test]
fn a_namespace_may_have_so_many_selectors_without_a_value_and_no_more() {
    let (mut selection, owner) = (Selection::default(), Arc::from("a"));
    let broad = |number: usize| [in_namespace("a", &[is_not("index", &number.to_string())])];
    let joined: Vec<SelectorId> = (0..MOST_ALIKE).map(|number| selection.join_selector(&broad(number), &owner).unwrap().0).collect();
    assert!(selection.join_selector(&broad(MOST_ALIKE), &owner).is_none() && !selection.has_room_for(&[&broad(MOST_ALIKE)], &owner));
    assert!(selection.join_selector(&broad(7), &owner).is_some(), "it is in use");
    assert!(selection.join_selector(&broad(MOST_ALIKE), &Arc::from("b")).is_some(), "another namespace's pods have their own number");
    assert!(selection.join_selector(&[in_namespace("a", &[is("app", "x")])], &owner).is_some(), "it is found by its value");
    assert_eq!(selection.leave_selector(joined[0]), Some(owner.clone()));
    assert!(selection.join_selector(&broad(MOST_ALIKE + 1), &owner).is_some());
}

#[test]
fn selectors_are_found_by_the_label_that_the_fewest_others_have() {
    let (mut selection, owner) = (Selection::default(), Arc::from("a"));
    let of_app = |number: usize| [in_namespace("a", &[is("component", "worker"), is("name", &number.to_string())])];
    for number in 0..3 * MOST_ALIKE {
        assert!(selection.join_selector(&of_app(number), &owner).is_some(), "{number}");
    }
    let (id, _) = selection.join_selector(&of_app(5), &owner).unwrap();
    let set = selection.join_set(pod("a", &[("component", "worker"), ("name", "5")]));
    assert_eq!(selection.selectors_of(set).collect::<Vec<_>>(), [id]);
}

#[test]
fn the_selectors_of_one_pod_count_together() {
    let (mut selection, owner) = (Selection::default(), Arc::from("a"));
    let broad: Vec<[PodSelector; 1]> =
        (0..=MOST_ALIKE).map(|number| [in_namespace("a", &[is_not("index", &number.to_string())])]).collect();
    let all: Vec<&[PodSelector]> = broad.iter().map(<[PodSelector; 1]>::as_slice).collect();
    assert!(selection.has_room_for(&all[1..], &owner) && !selection.has_room_for(&all, &owner));
    // One that is in use, or that comes twice, takes no room.
    selection.join_selector(all[0], &owner).unwrap();
    assert!(selection.has_room_for(&all[..MOST_ALIKE], &owner) && !selection.has_room_for(&all, &owner));
    assert!(selection.has_room_for(&[all[1]; 2 * MOST_ALIKE], &owner));
    // Of two labels that one is taken that the fewest others have, of those of the pod as well.
    let of_app: Vec<[PodSelector; 1]> =
        (0..2 * MOST_ALIKE).map(|number| [in_namespace("a", &[is("component", "worker"), is("name", &number.to_string())])]).collect();
    assert!(selection.has_room_for(&of_app.iter().map(<[PodSelector; 1]>::as_slice).collect::<Vec<_>>(), &owner));
}

#[test]
fn too_many_selectors_are_taken_to_select_all_pods_in_reach() {
    let (mut placed, owner) = (PlacedPods::default(), Arc::from("a"));
    for number in 0..MOST_ALIKE {
        placed.join_selector(&[in_namespace("a", &[is_not("index", &number.to_string())])], &owner);
    }
    let one = placed.join_selector(&[in_namespace("a", &[is_not("index", "x")])], &owner);
    let other = placed.join_selector(&[in_namespace("a", &[is_not("index", "y")])], &owner);
    assert_eq!(one, other);
    placed.learn(&crate::cycle::testing::pod("a", "p", "g", &[("cpu", 1)]));
    let set = placed.set_of(&crate::cycle::testing::pod("a", "p", "g", &[("cpu", 1)]).uid).unwrap();
    assert!(placed.matches(one, set));
}

#[test]
fn a_selector_without_values_is_compared_with_the_pods_in_its_reach() {
    let mut selection = Selection::default();
    let here = selection.join_set(pod("a", &[("app", "x")]));
    let elsewhere = selection.join_set(pod("b", &[("app", "x")]));
    let (id, _) = selection.join_selector(&[in_namespace("a", &[is_not("app", "y")])], &Arc::from("b")).unwrap();
    assert_eq!(selection.sets_of(id).collect::<Vec<_>>(), [here]);
    let later = selection.join_set(pod("a", &[("app", "z")]));
    assert_eq!(selection.sets_of(id).collect::<Vec<_>>(), [here, later]);
    assert!(!selection.matches(id, elsewhere));
}
