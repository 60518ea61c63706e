//! How many terms may a pod have, and what counts of a pod with more, or with terms that cannot be read?

use serde_json::{Value, json};

use crate::api::PodFacts;
use crate::api::pod_terms::{MOST_TERMS, PodSelector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn facts(spec: &Value) -> PodFacts {
    PodFacts::of(&serde_json::from_value(json!({ "metadata": { "namespace": "ns" }, "spec": spec })).unwrap())
}

fn term(number: usize, key: &str) -> Value {
    json!({ "labelSelector": { "matchLabels": { "number": number.to_string() } }, "topologyKey": key })
}

fn spread(number: usize, when: &str) -> Value {
    json!({ "maxSkew": 1, "topologyKey": format!("key-{number}"), "whenUnsatisfiable": when, "labelSelector": { "matchLabels": { "app": "x" } } })
}

/// A pod with so many terms of each kind: affinity, anti-affinity, spread, and the preferred ones of these and of node affinity.
fn with(counts: [usize; 7]) -> PodFacts {
    let [affinity, anti, hard, near, far, soft, nodes] = counts;
    let required = |count: usize| (0..count).map(|number| term(number, "zone")).collect::<Vec<_>>();
    let preferred =
        |count: usize| (0..count).map(|number| json!({ "weight": 1, "podAffinityTerm": term(number, "zone") })).collect::<Vec<_>>();
    let preferred_nodes: Vec<Value> = (0..nodes)
        .map(|number| json!({ "weight": 1, "preference": { "matchExpressions": [{ "key": format!("k{number}"), "operator": "Exists" }] } }))
        .collect();
    let hard = (0..hard).map(|number| spread(number, "DoNotSchedule"));
    let soft = (0..soft).map(|number| spread(number, "ScheduleAnyway"));
    facts(&json!({
        "affinity": {
            "podAffinity": { REQUIRED: required(affinity), PREFERRED: preferred(near) },
            "podAntiAffinity": { REQUIRED: required(anti), PREFERRED: preferred(far) },
            "nodeAffinity": { PREFERRED: preferred_nodes },
        },
        "topologySpreadConstraints": hard.chain(soft).collect::<Vec<_>>(),
    }))
}

#[test]
fn a_pod_with_more_terms_than_are_read_says_so() {
    for kind in 0..7 {
        let mut counts = [0; 7];
        counts[kind] = MOST_TERMS;
        assert_eq!(with(counts).faults, [], "{counts:?}");
        // All kinds count together.
        counts[(kind + 1) % 7] = 1;
        let said: Vec<String> = with(counts).faults.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["spec.affinity \"101\": is more than 100 terms of affinity, anti-affinity and spread"], "{counts:?}");
    }
}

#[test]
fn a_spread_constraint_is_required_or_preferred_and_any_other_is_a_fault() {
    let read = |when: &str| facts(&json!({ "topologySpreadConstraints": [spread(0, when)] }));
    let counts = |read: &PodFacts| (read.terms.spread.len(), read.terms.preferences.as_ref().map_or(0, |own| own.spread.len()));
    for (when, wanted) in [("DoNotSchedule", (1, 0)), ("ScheduleAnyway", (0, 1))] {
        let read = read(when);
        assert_eq!((counts(&read), read.faults), (wanted, vec![]), "{when}");
    }
    for other in ["", "scheduleAnyway", "ScheduleLater"] {
        let read = read(other);
        let said: Vec<String> = read.faults.iter().map(ToString::to_string).collect();
        let wanted = format!("spec.topologySpreadConstraints.whenUnsatisfiable {other:?}: is neither DoNotSchedule nor ScheduleAnyway");
        assert_eq!(said, [wanted]);
        assert_eq!(counts(&read), (0, 0), "{other}");
    }
}

#[test]
fn the_namespaces_that_terms_name_count_as_values() {
    let named = |count: usize| {
        let mut one = term(0, "zone");
        one["namespaces"] = (0..count).map(|number| json!(format!("ns-{number}"))).collect();
        facts(&json!({ "affinity": { "podAntiAffinity": { REQUIRED: [one] } } }))
    };
    assert_eq!(named(900).faults, []);
    assert_eq!(named(1_100).faults.len(), 1);
}

/// A pod of another scheduler runs whatever it says, and must keep away what it says.
#[test]
fn of_a_pod_with_too_many_terms_the_anti_affinity_counts_for_all_pods_in_its_reach() {
    let mut terms: Vec<Value> = (0..2 * MOST_TERMS).map(|number| term(number, "zone")).collect();
    terms.push(json!({ "labelSelector": { "matchLabels": { "a": "b" } }, "topologyKey": "rack", "namespaceSelector": {} }));
    terms.push(json!({ "topologyKey": "matches-nothing" }));
    terms.push(term(0, "rack"));
    let read = facts(&json!({ "affinity": { "podAntiAffinity": { REQUIRED: terms }, "podAffinity": { REQUIRED: [term(0, "zone")] } } }));
    assert_eq!(read.faults.len(), 1);
    let anti: Vec<(&str, &PodSelector)> = read.terms.anti_affinity.iter().map(|term| (&*term.topology_key, &term.pods)).collect();
    let [("rack", anywhere), ("zone", within)] = anti[..] else { panic!("{anti:?}") };
    let (none, labels) = ([].into(), [("x".to_owned(), "y".to_owned())].into());
    assert!(within.matches("ns", &none, &labels) && !within.matches("other", &none, &labels));
    assert!(anywhere.matches("ns", &none, &labels) && anywhere.matches("other", &none, &labels));
    assert!(read.terms.affinity.is_empty() && read.terms.spread.is_empty() && read.terms.preferences.is_none());
    // The same where its selectors are too large.
    let values: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    let large =
        json!({ "labelSelector": { "matchExpressions": [{ "key": "k", "operator": "NotIn", "values": values }] }, "topologyKey": "zone" });
    let read = facts(&json!({ "affinity": { "podAntiAffinity": { REQUIRED: [large] } } }));
    assert!(read.terms.anti_affinity[0].pods.matches("ns", &none, &[("k".to_owned(), "1".to_owned())].into()));
    // And never more domains than terms are read.
    let keys = (0..2 * MOST_TERMS).map(|number| term(number, &format!("key-{number:03}"))).collect::<Vec<_>>();
    let read = facts(&json!({ "affinity": { "podAntiAffinity": { REQUIRED: keys } } }));
    assert_eq!(read.terms.anti_affinity.len(), MOST_TERMS);
}

/// A pod of another scheduler may have a selector with an operator of a later version.
#[test]
fn a_term_of_anti_affinity_that_cannot_be_read_counts_for_all_pods_in_its_reach() {
    let unknown = json!({ "matchExpressions": [{ "key": "k", "operator": "Later", "values": ["1"] }] });
    let (none, labels) = ([].into(), [("x".to_owned(), "y".to_owned())].into());
    for (term, reaches_others) in [
        (json!({ "topologyKey": "zone", "labelSelector": unknown }), false),
        (json!({ "topologyKey": "zone", "labelSelector": unknown, "namespaces": ["ns"] }), false),
        (json!({ "topologyKey": "zone", "labelSelector": unknown, "namespaces": ["ns", "other"] }), true),
        (json!({ "topologyKey": "zone", "labelSelector": unknown, "namespaceSelector": {} }), true),
        (json!({ "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": unknown }), true),
    ] {
        let read = facts(&json!({ "affinity": { "podAntiAffinity": { REQUIRED: [term] } } }));
        assert_eq!(read.faults.len(), 1, "{term}");
        let [keeps_away] = &read.terms.anti_affinity[..] else { panic!("{term}: {:?}", read.terms.anti_affinity) };
        assert_eq!(&*keeps_away.topology_key, "zone");
        assert!(keeps_away.pods.matches("ns", &none, &labels), "{term}");
        assert_eq!(keeps_away.pods.matches("other", &none, &labels), reaches_others, "{term}");
    }
    // A term of affinity that cannot be read keeps no other pod away.
    let term = json!({ "topologyKey": "zone", "labelSelector": unknown });
    let read = facts(&json!({ "affinity": { "podAffinity": { REQUIRED: [term] } } }));
    assert!(read.faults.len() == 1 && read.terms.is_empty());
}
