//! Which nodes, queues and terms of pods do random histories have?

use std::sync::Arc;

use super::Choice;
use crate::api::NodeFacts;
use crate::api::label_selector::LabelSelector;
use crate::api::pod_terms::{AffinityTerm, HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::cycle::testing::node;
use crate::cycle::testing::worlds::{self, ZONE};

/// The queues; the last one is above the first two.
pub(super) const QUEUES: [&str; 4] = ["q0", "q1", "q2", "inner"];

pub(super) fn parent(at: usize) -> Option<&'static str> {
    (at < 2).then_some(QUEUES[3])
}

/// Node number `at`, of one of two zones.
pub(super) fn zoned(at: u8, zone: u8, cpu: i64) -> NodeFacts {
    let mut facts = node(&format!("n{at}"), &[("cpu", cpu)]);
    facts.labels.insert(ZONE.to_owned(), format!("z{}", (at + zone) % 2));
    facts
}

/// The terms of a choosy pod.
pub(super) fn terms(choice: Choice) -> Arc<PodTerms> {
    let (pods, term, none) = (worlds::app("x"), worlds::term("x", ZONE), PodTerms::default());
    let of_team = PodSelector { namespaces: [].into(), namespace_selector: LabelSelector::label("team", "a"), ..pods.clone() };
    Arc::new(match choice {
        Choice::Zone(_) => none,
        Choice::Apart => PodTerms { anti_affinity: vec![term], ..none },
        Choice::ApartFromTeam => PodTerms { anti_affinity: vec![AffinityTerm { pods: of_team, ..term }], ..none },
        Choice::Beside(_) => PodTerms { affinity: vec![term], ..none },
        Choice::Spread => {
            let (topology_key, max_skew, min_domains) = (ZONE.into(), 1, 1);
            let spread = SpreadConstraint { pods, topology_key, max_skew, min_domains, honors_node_affinity: true, honors_taints: true };
            PodTerms { spread: vec![spread], ..none }
        }
        Choice::Port => PodTerms { host_ports: [HostPort { port: 80, protocol: "TCP".into(), address: None }].into(), ..none },
    })
}
