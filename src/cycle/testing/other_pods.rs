//! Pods that mean something to each other: by ports, affinity and spread, of this scheduler and of others.

use std::sync::Arc;
use std::time::Duration;

use crate::api::pod_terms::{HostPort, PodTerms, SpreadConstraint};
use crate::api::{GroupKey, PodFacts};
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::worlds::{ZONE, app, term};
use crate::cycle::testing::{POLICY, group, pod, running};

pub(in crate::cycle) fn key(name: &str) -> GroupKey {
    GroupKey::new("ns", name)
}

fn port() -> HostPort {
    HostPort { port: 80, protocol: "TCP".into(), address: None }
}

pub(in crate::cycle) fn with_port() -> Arc<PodTerms> {
    Arc::new(PodTerms { host_ports: [port()].into(), ..PodTerms::default() })
}

pub(in crate::cycle) fn beside(of: &str, key: &str) -> Arc<PodTerms> {
    Arc::new(PodTerms { affinity: vec![term(of, key)], ..PodTerms::default() })
}

pub(in crate::cycle) fn spread(of: &str) -> Arc<PodTerms> {
    let (pods, topology_key) = (app(of), ZONE.into());
    let spread = SpreadConstraint { pods, topology_key, max_skew: 1, min_domains: 1, honors_node_affinity: true, honors_taints: false };
    Arc::new(PodTerms { spread: vec![spread], ..PodTerms::default() })
}

pub(in crate::cycle) fn of(name: &str, label: &str, cpu: i64, terms: &Arc<PodTerms>) -> PodFacts {
    let mut facts = pod("ns", name, name, &[("cpu", cpu)]);
    facts.labels.insert("app".into(), label.into());
    facts.terms = Arc::clone(terms);
    facts
}

pub(in crate::cycle) fn runs(state: &mut SchedulingState, priority: i32, facts: PodFacts, node: &str) {
    state.apply_group(group("ns", &facts.group.name, 1, "default"));
    state.apply_pod(PodFacts { priority, ..running(facts, node) });
}

pub(in crate::cycle) fn foreign(facts: PodFacts) -> PodFacts {
    PodFacts { scheduler: "other".into(), names_group: false, ..facts }
}

/// Of the pod `g` of priority 10: the bound pods, and the victims.
pub(in crate::cycle) fn asks(state: &mut SchedulingState, facts: PodFacts) -> (usize, Vec<String>) {
    state.apply_group(group("ns", "g", 1, "default"));
    state.apply_pod(PodFacts { group: key("g"), priority: 10, ..facts });
    let plan = run(state, &POLICY, Duration::ZERO);
    let mut victims: Vec<String> =
        plan.evictions.iter().flat_map(|eviction| &eviction.victims).map(|victim| victim.name.to_string()).collect();
    victims.sort();
    (plan.binds.len(), victims)
}

pub(in crate::cycle) fn none() -> Arc<PodTerms> {
    Arc::default()
}
