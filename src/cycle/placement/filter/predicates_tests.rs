//! A predicate holds for placing, for preempting and for settling a nomination, and says so.

use crate::api::names::NODE_GROUP;
use crate::api::node::Taint;
use crate::api::pod::{NodeRequirement, NodeSelectorTerm};
use crate::api::pod_terms::{HostPort, PodTerms};
use crate::api::queue::NodeGroupAffinity;
use crate::api::volumes::{ClaimFacts, CsiNodeFacts, PodClaim, StorageClassFacts, VolumeFacts};
use crate::api::{NodeFacts, PodFacts, QueueFacts};
use crate::cycle::explain::Reason;
use crate::cycle::placement::filter::COUNT;
use crate::cycle::testing::steps::{bound, empty_state};
use crate::cycle::testing::{POLICY, group, keeps_away as anti_affinity, limits, node, pod, queue, running};
use crate::cycle::*;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A node that takes every pod of these tests.
fn good() -> NodeFacts {
    let mut facts = node("n", &[("cpu", 4)]);
    facts.declared_features.insert("RestartAllContainersOnContainerExits".to_owned());
    facts.labels.extend([("zone".to_owned(), "a".to_owned()), ("disk".to_owned(), "ssd".to_owned())]);
    facts.labels.extend([("mount".to_owned(), "yes".to_owned()), (ZONE.to_owned(), "a".to_owned())]);
    facts
}

fn port() -> HostPort {
    HostPort { port: 80, protocol: "TCP".into(), address: None }
}

fn asks() -> PodFacts {
    let mut facts = pod("ns", "g-0", "g", &[("cpu", 3)]);
    facts.labels.insert("app".into(), "db".into());
    facts.constraints.node_selector.insert("zone".into(), "a".into());
    facts.constraints.node_features.insert("RestartAllContainersOnContainerExits");
    facts.terms = Arc::new(PodTerms { host_ports: [port()].into(), namespace: Arc::from("ns"), claims: claims(), ..PodTerms::default() });
    let requirement = NodeRequirement { key: "disk".into(), operator: "In".into(), values: vec!["ssd".into()] };
    let name = NodeRequirement { key: "metadata.name".into(), operator: "In".into(), values: vec!["n".into()] };
    facts.constraints.node_affinity = Some(vec![NodeSelectorTerm { match_expressions: vec![requirement], match_fields: vec![name] }]);
    facts
}

fn claims() -> Vec<PodClaim> {
    ["data", "scratch"].map(|name| PodClaim { name: Arc::from(name), is_ephemeral: false }).into()
}

/// The claim `data`, and its volume: for one pod, of a driver, in zone `a` and on nodes with the label `mount`. The claim `scratch` has no
/// volume, and the volume `free` serves it on every node.
fn apply_claim(state: &mut SchedulingState) {
    let json = serde_json::json!({
        "metadata": { "namespace": "ns", "name": "data", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "disk", "accessModes": ["ReadWriteOncePod"] },
    });
    state.apply_claim(ClaimFacts::of(&serde_json::from_value(json).unwrap()));
    let terms = [serde_json::json!({ "matchExpressions": [{ "key": "mount", "operator": "Exists" }] })];
    let json = serde_json::json!({
        "metadata": { "name": "disk", "labels": { ZONE: "a" } },
        "spec": { "csi": { "driver": "d", "volumeHandle": "h" }, "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } },
    });
    state.apply_volume(VolumeFacts::of(&serde_json::from_value(json).unwrap()));
    let class = serde_json::json!({ "metadata": { "name": "local" }, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer" });
    state.apply_storage_class(StorageClassFacts::of(&serde_json::from_value(class).unwrap()));
    let claim = serde_json::json!({ "metadata": { "namespace": "ns", "name": "scratch" }, "spec": { "storageClassName": "local" } });
    state.apply_claim(ClaimFacts::of(&serde_json::from_value(claim).unwrap()));
    let free =
        serde_json::json!({ "metadata": { "name": "free" }, "spec": { "storageClassName": "local" }, "status": { "phase": "Available" } });
    state.apply_volume(VolumeFacts::of(&serde_json::from_value(free).unwrap()));
}

/// The number of pods that are placed. One of these waits for its claim then.
fn placed(plan: &Plan) -> usize {
    assert_eq!(bound(plan), []);
    plan.volumes.len()
}

/// What makes the node refuse the pod, and the reported reason.
type Case = (fn(&mut SchedulingState), Reason);

/// One case for each predicate but that for sets of nodes, which no object asks for.
fn spoiled() -> [Case; COUNT - 1] {
    fn change(state: &mut SchedulingState, change: impl FnOnce(&mut NodeFacts)) {
        let mut facts = good();
        change(&mut facts);
        state.apply_node(facts);
    }
    fn taint() -> Taint {
        Taint { key: "k".into(), value: None, effect: "NoSchedule".into() }
    }
    fn keeps_away(state: &mut SchedulingState) {
        let other = running(pod("ns", "other", "none", &[]), "n");
        state.apply_pod(PodFacts { scheduler: "other".into(), terms: anti_affinity("ns", ("app", "db"), "zone"), ..other });
    }
    fn takes_port(state: &mut SchedulingState) {
        let other = running(pod("ns", "other", "none", &[]), "n");
        let terms = Arc::new(PodTerms { host_ports: [port()].into(), ..PodTerms::default() });
        state.apply_pod(PodFacts { scheduler: "other".into(), terms, ..other });
    }
    fn uses_claim(state: &mut SchedulingState) {
        let other = running(pod("ns", "other", "none", &[]), "n");
        let terms = Arc::new(PodTerms { namespace: Arc::from("ns"), claims: claims(), ..PodTerms::default() });
        state.apply_pod(PodFacts { scheduler: "other".into(), terms, ..other });
    }
    fn named_otherwise(state: &mut SchedulingState) {
        state.delete_node("n");
        state.apply_node(NodeFacts { name: "m".into(), ..good() });
    }
    fn of_others(state: &mut SchedulingState) {
        let groups = || ["others".to_owned()].into();
        let affinity = NodeGroupAffinity { own: groups(), allowed: groups() };
        state.apply_queue(QueueFacts { node_group_affinity: Some(affinity), ..queue("others", None, &[]) });
        change(state, |node| _ = node.labels.insert(NODE_GROUP.to_owned(), "others".to_owned()));
    }
    [
        (named_otherwise, Reason::NotNamed),
        (|state| change(state, |node| node.unschedulable = true), Reason::Unschedulable),
        (|state| change(state, |node| node.taints.push(taint())), Reason::Taint(taint())),
        (of_others, Reason::NodeGroup { group: "others".to_owned() }),
        (|state| change(state, |node| _ = node.labels.remove("zone")), Reason::NodeSelector),
        (|state| change(state, |node| _ = node.labels.remove("disk")), Reason::NodeAffinity),
        (keeps_away, Reason::ExistingAntiAffinity { topology_key: "zone".into() }),
        (takes_port, Reason::HostPorts),
        (uses_claim, Reason::ClaimInUse),
        (
            |state| state.apply_csi_node(CsiNodeFacts { node: "n".into(), limits: [("d".into(), 0)].into(), ..CsiNodeFacts::default() }),
            Reason::VolumeLimit,
        ),
        (|state| change(state, |node| _ = node.labels.remove("mount")), Reason::VolumeNodeAffinity),
        (|state| state.delete_volume(&"free".into()), Reason::NoVolume),
        (|state| change(state, |node| _ = node.labels.insert(ZONE.to_owned(), "b".to_owned())), Reason::VolumeZone),
        (
            |state| change(state, |node| node.declared_features.clear()),
            Reason::DeclaredFeature { feature: "RestartAllContainersOnContainerExits" },
        ),
        (|state| change(state, |node| node.allocatable.set("cpu", crate::resources::Amount::from_units(2))), Reason::Lacks("cpu".into())),
    ]
}

fn empty() -> SchedulingState {
    let mut state = empty_state();
    for (name, cpu) in [("mine", 4), ("theirs", 0)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", cpu), ("pods", 100)]), ..queue(name, None, &[]) });
    }
    state.apply_node(good());
    apply_claim(&mut state);
    state
}

fn came(state: &mut SchedulingState) {
    state.apply_group(group("ns", "g", 1, "mine"));
    state.apply_pod(asks());
}

/// The node is full of a pod of a queue over its share.
fn full() -> SchedulingState {
    let mut state = empty();
    let borrower = running(pod("ns", "v-0", "v", &[("cpu", 2)]), "n");
    state.apply_group(group("ns", "v", 1, "theirs"));
    state.apply_pod(PodFacts { charged_queue: Some("theirs".into()), ..borrower });
    state
}

fn cycle(state: &mut SchedulingState) -> Plan {
    run(state, &POLICY, Duration::ZERO)
}

fn nodes_said(state: &SchedulingState) -> Vec<Reason> {
    let mut refusal = state.cache().groups()[&GroupKey::new("ns", "g")].refusal.as_deref();
    loop {
        match refusal {
            Some(Refusal::WithoutPreemption { refusal: inner, .. }) => refusal = Some(inner),
            Some(Refusal::Nodes { tally, .. }) => return tally.reasons.keys().cloned().collect(),
            _ => return Vec::new(),
        }
    }
}

#[test]
fn every_predicate_holds_for_placing_preempting_and_settling() {
    let none = |_: &mut SchedulingState| {};
    let cases = spoiled();
    let good: (fn(&mut SchedulingState), Option<Reason>) = (none, None);
    for (spoil, reason) in std::iter::once(good).chain(cases.map(|(spoil, reason)| (spoil, Some(reason)))) {
        let takes = reason.is_none();

        let mut state = empty();
        spoil(&mut state);
        came(&mut state);
        assert_eq!(placed(&cycle(&mut state)), usize::from(takes), "placing: {reason:?}");
        assert_eq!(nodes_said(&state), reason.clone().into_iter().collect::<Vec<_>>());

        let mut state = full();
        spoil(&mut state);
        came(&mut state);
        assert_eq!(cycle(&mut state).evictions.len(), usize::from(takes), "preempting: {reason:?}");

        let mut state = full();
        came(&mut state);
        assert_eq!(cycle(&mut state).evictions.len(), 1);
        spoil(&mut state);
        state.delete_pod(&"ns/v-0".into());
        assert_eq!(placed(&cycle(&mut state)), usize::from(takes), "settling: {reason:?}");
        assert!(state.nominated(&GroupKey::new("ns", "g")).is_none());
        assert!(state.cache().accounting().audit().is_clean());
    }
}
