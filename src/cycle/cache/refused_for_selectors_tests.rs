//! When are pods placed that were refused because their namespace has more selectors than are told apart?

use crate::api::label_selector::{LabelSelector, Requirement, ValueRequirement};
use crate::api::pod_terms::{AffinityTerm, PodSelector, PodTerms};
use crate::api::{PodFacts, Uid};
use crate::cycle::placement::topology::selection::MOST_ALIKE;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, cycle, empty_state};
use crate::cycle::testing::{group, node, pod, running};
use crate::cycle::*;

/// More pods than are tried again at once.
const MANY: usize = 40;

fn requires(key: &str, value: ValueRequirement) -> Requirement {
    Requirement { key: key.to_owned(), value }
}

/// A requirement that lists no value of a label, and none that is equal.
fn broad(number: usize) -> Requirement {
    requires("index", ValueRequirement::NotIn([number.to_string()].into()))
}

/// Pods of the namespace that meet all of these.
fn selector(namespace: &str, all: impl IntoIterator<Item = Requirement>) -> PodSelector {
    let labels = LabelSelector::Requirements(all.into_iter().collect());
    PodSelector { namespaces: [Arc::from(namespace)].into(), namespace_selector: LabelSelector::Nothing, labels }
}

/// Anti-affinity in domains that no node belongs to, so that it keeps no pod away.
fn apart(namespace: &str, all: impl IntoIterator<Item = PodSelector>) -> PodTerms {
    let term = |pods| AffinityTerm { pods, topology_key: Arc::from("none") };
    PodTerms { namespace: Arc::from(namespace), anti_affinity: all.into_iter().map(term).collect(), ..PodTerms::default() }
}

fn comes(state: &mut SchedulingState, namespace: &str, name: &str, terms: PodTerms) -> Uid {
    state.apply_group(group(namespace, name, 1, "default"));
    let facts = PodFacts { terms: Arc::new(terms), ..pod(namespace, name, name, &[("cpu", 1)]) };
    let uid = facts.uid.clone();
    state.apply_pod(facts);
    uid
}

fn is_refused(state: &SchedulingState, uid: &Uid) -> bool {
    state.cache().pods()[uid].blocked().is_some_and(|refusal| refusal.to_string().contains("different selectors"))
}

/// Runs cycles until there is nothing to do.
fn settle(state: &mut SchedulingState) {
    for _ in 0..100 {
        _ = cycle(state);
        if !state.has_work(Duration::ZERO) {
            return;
        }
    }
    panic!("there is always something to do");
}

#[test]
fn a_namespace_without_room_keeps_no_pod_of_another_one_waiting() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1_000)]));
    for namespace in ["a", "b"] {
        comes(&mut state, namespace, "first", apart(namespace, [selector(namespace, [broad(0)])]));
        comes(&mut state, namespace, "many", apart(namespace, (1..MOST_ALIKE).map(|number| selector(namespace, [broad(number)]))));
    }
    let one = |namespace: &str, number: usize| apart(namespace, [selector(namespace, [broad(number)])]);
    let of_a: Vec<Uid> = (0..MANY).map(|at| comes(&mut state, "a", &format!("late-{at:02}"), one("a", MOST_ALIKE + at))).collect();
    let of_b = comes(&mut state, "b", "late", one("b", MOST_ALIKE));
    settle(&mut state);
    assert!(of_a.iter().chain([&of_b]).all(|uid| is_refused(&state, uid)));
    state.delete_pod(&"b/first".into());
    settle(&mut state);
    assert!(!is_refused(&state, &of_b), "a selector of its namespace went");
    assert!(of_a.iter().all(|uid| is_refused(&state, uid)));
}

#[test]
fn pods_that_have_no_room_yet_keep_no_other_pod_of_their_namespace_waiting() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1_000)]));
    let of_app = |number: usize| selector("a", [requires("app", ValueRequirement::In(["x".to_owned()].into())), broad(number)]);
    comes(&mut state, "a", "broad", apart("a", (0..MOST_ALIKE).map(|number| selector("a", [broad(number)]))));
    comes(&mut state, "a", "first-of-app", apart("a", [of_app(0)]));
    comes(&mut state, "a", "of-app", apart("a", (1..MOST_ALIKE).map(of_app)));
    let without_value = |at: usize| apart("a", [selector("a", [broad(MOST_ALIKE + at)])]);
    let others: Vec<Uid> = (0..MANY).map(|at| comes(&mut state, "a", &format!("late-{at:02}"), without_value(at))).collect();
    let late = comes(&mut state, "a", "later", apart("a", [of_app(MOST_ALIKE)]));
    settle(&mut state);
    assert!(is_refused(&state, &late));
    state.delete_pod(&"a/first-of-app".into());
    settle(&mut state);
    assert!(!is_refused(&state, &late));
    assert!(others.iter().all(|uid| is_refused(&state, uid)));
}

#[test]
fn affinity_for_which_there_is_no_room_is_not_read_as_any_pod() {
    let exists = |key: &str| selector("a", [requires(key, ValueRequirement::Exists)]);
    let host: Arc<str> = Arc::from("kubernetes.io/hostname");
    let beside = |keys: &[&str]| {
        let affinity = keys.iter().map(|key| AffinityTerm { pods: exists(key), topology_key: Arc::clone(&host) }).collect();
        PodTerms { affinity, ..apart("a", []) }
    };
    for free in 0..4 {
        let mut state = empty_state();
        let mut facts = node("n", &[("cpu", 1_000)]);
        facts.labels.insert(host.to_string(), "n".to_owned());
        state.apply_node(facts);
        state.apply_group(group("a", "runs", 1, "default"));
        state.apply_pod(running(pod("a", "runs", "runs", &[("cpu", 1)]), "n"));
        comes(&mut state, "a", "many", apart("a", (free..MOST_ALIKE).map(|number| selector("a", [broad(number)]))));
        let uid = comes(&mut state, "a", "beside", beside(&["k", "l"]));
        assert!(!bound(&cycle(&mut state)).contains(&("beside", "n")), "room for {free}: {:?}", state.cache().pods()[&uid].refusal);
        // Only what must hold is counted.
        assert_eq!(is_refused(&state, &uid), free == 0, "room for {free}");
    }
}
