//! Which text reports why nodes do not take a pod? That of kube-scheduler, and the values that it leaves out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::words::shown;
use super::{Reason, Tally};
use crate::api::node::Taint;
use crate::resources::ResourceName;

/// As kube-scheduler 1.36.3 says it of the nodes that refuse: `Insufficient cpu`, `node(s) were unschedulable`. What the words leave out is in
/// [`Reason::detail`]. Node groups are of Volcano, so kube-scheduler has no words for them.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint(_) => "node(s) had untolerated taint(s)",
            Self::NodeSelector | Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::NamesConflict => CONFLICT,
            Self::DeclaredFeature { .. } => "node(s) didn't match Pod's required features",
            Self::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::VolumeNodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::NotEnoughStorage => "node(s) did not have enough free storage",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::HostPorts => "node(s) didn't have free ports for the requested pod ports",
            Self::TopologySpreadLabel { .. } => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::TopologySpread { .. } => "node(s) didn't match pod topology spread constraints",
            Self::PodAffinity { .. } => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity { .. } => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity { .. } => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::NodeGroup { .. } => "node(s) were reserved for a node group of other queues",
            Self::Lacks(name) if is_pods(name) => "Too many pods",
            Self::Lacks(name) => return write!(f, "Insufficient {name}"),
        })
    }
}

impl Reason {
    /// The constraint that refuses, in a few words, and its value: the taint, the topology key, the feature or the node group. None where
    /// the reason says it all.
    #[must_use]
    pub fn detail(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Taint(taint) => Some(("taint", self::taint(taint))),
            Self::NodeGroup { group } => Some(("node group", group.clone())),
            Self::TopologySpreadLabel { topology_key } | Self::TopologySpread { topology_key } => {
                Some(("topology spread", topology_key.clone()))
            }
            Self::PodAffinity { topology_key } => Some(("pod affinity", topology_key.clone())),
            Self::PodAntiAffinity { topology_key } => Some(("pod anti-affinity", topology_key.clone())),
            Self::ExistingAntiAffinity { topology_key } => Some(("anti-affinity of existing pods", topology_key.clone())),
            Self::DeclaredFeature { feature } => Some(("feature", (*feature).to_owned())),
            Self::Unschedulable
            | Self::NodeSelector
            | Self::NodeAffinity
            | Self::NotNamed
            | Self::NamesConflict
            | Self::HostPorts
            | Self::ClaimInUse
            | Self::VolumeLimit
            | Self::VolumeNodeAffinity
            | Self::NoVolume
            | Self::NotEnoughStorage
            | Self::VolumeZone
            | Self::Lacks(_) => None,
        }
    }
}

/// What kube-scheduler says of the pod and not of nodes, so without a number of nodes.
const CONFLICT: &str = "pod affinity terms conflict";

/// Whether the node has as many pods as it takes, for which kube-scheduler has words of its own.
fn is_pods(name: &ResourceName) -> bool {
    name.as_str() == "pods"
}

/// A taint as kubectl writes it: `key=value:effect`.
fn taint(taint: &Taint) -> String {
    let value = taint.value.as_deref().filter(|value| !value.is_empty());
    format!("{}{}{}:{}", taint.key, if value.is_some() { "=" } else { "" }, value.unwrap_or_default(), taint.effect)
}

/// How many reasons of nodes a message names: those of most nodes first. There are more only where a pod requests many resources.
const REASONS: usize = 16;

/// How many taints, topology keys and so on a message names for each kind of reason.
const DETAILS: usize = 3;

impl Tally {
    /// Returns the text of kube-scheduler, without its full stop: `0/5 nodes are available: 2 node(s) had untolerated taint(s), 3
    /// Insufficient cpu`. Reasons with the same words are counted together.
    #[must_use]
    pub fn in_words_of_kube_scheduler(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        format!("0/{} nodes are available: {}", self.nodes, self.counts())
    }

    /// Returns the counts alone: `2 node(s) had untolerated taint(s), 3 Insufficient cpu`.
    #[must_use]
    pub fn counts(&self) -> String {
        if self.reasons.contains_key(&Reason::NamesConflict) {
            return CONFLICT.to_owned();
        }
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (reason, count) in &self.reasons {
            let sum = counts.entry(reason.to_string()).or_default();
            *sum = sum.saturating_add(count.nodes);
        }
        let mut counts: Vec<(String, u32)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, nodes)| Reverse(*nodes));
        let others = counts.split_off(REASONS.min(counts.len()));
        // Sorted as texts, with the numbers.
        let mut texts: Vec<String> = counts.into_iter().map(|(words, nodes)| format!("{nodes} {words}")).collect();
        texts.sort_unstable();
        let more = others.iter().fold(0_u32, |sum, (_, nodes)| sum.saturating_add(*nodes));
        texts.extend((!others.is_empty()).then(|| format!("{more} node(s) for {} more reasons", others.len())));
        texts.join(", ")
    }

    /// Returns what the words of kube-scheduler leave out: amounts, taints, topology keys. That of most nodes comes first.
    fn details(&self) -> Vec<String> {
        let mut amounts = Vec::new();
        let mut values: Vec<(&'static str, Vec<String>)> = Vec::new();
        for (reason, count) in self.listed() {
            if let Reason::Lacks(name) = reason
                && !is_pods(name)
                && amounts.len() < REASONS
            {
                amounts.push(format!("{name}: requested {}, most free {}", shown(name, count.asked), shown(name, count.most_free)));
            }
            let Some((what, value)) = reason.detail() else { continue };
            match values.iter_mut().find(|(known, _)| *known == what) {
                Some((_, all)) if all.contains(&value) => {}
                Some((_, all)) => all.push(value),
                None => values.push((what, vec![value])),
            }
        }
        let listed = |(what, all): (&str, Vec<String>)| {
            let more = all.len().saturating_sub(DETAILS);
            let named = all.into_iter().take(DETAILS).collect::<Vec<_>>().join(", ");
            if more == 0 { format!("{what}: {named}") } else { format!("{what}: {named} and {more} more") }
        };
        amounts.extend(values.into_iter().map(listed));
        amounts
    }
}

/// `0/5 nodes are available: 2 node(s) had untolerated taint(s), 3 Insufficient nvidia.com/gpu; nvidia.com/gpu: requested 2, most free 1;
/// taint: a=b:NoSchedule`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words_of_kube_scheduler())?;
        self.details().iter().try_for_each(|detail| write!(f, "; {detail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::explain::Count;
    use crate::resources::Amount;

    #[test]
    fn counts_stand_in_the_order_of_kube_scheduler_and_amounts_in_their_units() {
        let lacks = Count { nodes: 3, asked: Amount::from_units(2), most_free: Amount::from_units(1) };
        let taint = Taint { key: "a".into(), value: Some("b".into()), effect: "NoSchedule".into() };
        let tally = Tally {
            nodes: 5,
            reasons: [(Reason::Taint(taint), Count { nodes: 2, ..Count::default() }), (Reason::Lacks("nvidia.com/gpu".into()), lacks)]
                .into(),
        };
        assert_eq!(
            tally.to_string(),
            "0/5 nodes are available: 2 node(s) had untolerated taint(s), 3 Insufficient nvidia.com/gpu; nvidia.com/gpu: requested 2, most free 1; taint: a=b:NoSchedule"
        );
        let full = Count { nodes: 10, asked: Amount::from_units(1), most_free: Amount::ZERO };
        let tally = Tally {
            nodes: 12,
            reasons: [(Reason::Lacks("pods".into()), full), (Reason::Unschedulable, Count { nodes: 2, ..full })].into(),
        };
        assert_eq!(tally.to_string(), "0/12 nodes are available: 10 Too many pods, 2 node(s) were unschedulable");
        assert_eq!(Tally::default().to_string(), "no nodes available to schedule pods");
    }

    #[test]
    fn reasons_with_the_same_words_are_counted_together_and_their_values_are_named_after_them() {
        let on = |key: &str| key.to_owned();
        let count = |nodes| Count { nodes, ..Count::default() };
        let reasons = [
            (Reason::PodAffinity { topology_key: on("zone") }, count(2)),
            (Reason::PodAffinity { topology_key: on("rack") }, count(3)),
            (Reason::TopologySpread { topology_key: on("zone") }, count(1)),
            (Reason::TopologySpreadLabel { topology_key: on("zone") }, count(1)),
            (Reason::NodeSelector, count(4)),
            (Reason::NodeAffinity, count(4)),
            (Reason::NotNamed, count(1)),
        ];
        let text = Tally { nodes: 16, reasons: reasons.into() }.to_string();
        let wanted = "0/16 nodes are available: 1 node(s) didn't match pod topology spread constraints, \
                      1 node(s) didn't match pod topology spread constraints (missing required label), \
                      1 node(s) didn't satisfy plugin(s) [NodeAffinity], 5 node(s) didn't match pod affinity rules, \
                      8 node(s) didn't match Pod's node affinity/selector; pod affinity: rack, zone; topology spread: zone";
        assert_eq!(text, wanted);
        let conflict = Tally { nodes: 3, reasons: [(Reason::NamesConflict, count(3))].into() };
        assert_eq!(conflict.to_string(), "0/3 nodes are available: pod affinity terms conflict");
    }

    #[test]
    fn a_cluster_in_which_every_node_has_a_taint_of_its_own_makes_no_endless_message() {
        let taint = |at: u32| Reason::Taint(Taint { key: format!("of/{at:03}"), value: None, effect: "NoSchedule".into() });
        let count = |at: u32| Count { nodes: if at == 500 { 3 } else { 1 }, ..Count::default() };
        let text =
            |reasons: u32| Tally { nodes: 900, reasons: (501 - reasons..501).map(|at| (taint(at), count(at))).collect() }.to_string();
        let says =
            |nodes: u32, taints: &str| format!("0/900 nodes are available: {nodes} node(s) had untolerated taint(s); taint: {taints}");
        assert_eq!(text(500), says(502, "of/500:NoSchedule, of/001:NoSchedule, of/002:NoSchedule and 497 more"));
        assert_eq!(text(3), says(5, "of/500:NoSchedule, of/498:NoSchedule, of/499:NoSchedule"));
    }

    #[test]
    fn a_pod_that_requests_a_hundred_resources_makes_no_endless_message() {
        let lacks =
            |at: u32| (Reason::Lacks(format!("example.com/{at:03}").as_str().into()), Count { nodes: 1 + at / 99, ..Count::default() });
        let text = |reasons: u32| Tally { nodes: 900, reasons: (100 - reasons..100).map(lacks).collect() }.to_string();
        assert!(
            text(100)
                .contains(", 2 Insufficient example.com/099, 84 node(s) for 84 more reasons; example.com/099: requested 0, most free 0; ")
        );
        assert!(text(100).len() < 2_000, "{}", text(100));
        assert!(text(16).contains(", 2 Insufficient example.com/099; ") && !text(16).contains("more"), "{}", text(16));
    }
}
