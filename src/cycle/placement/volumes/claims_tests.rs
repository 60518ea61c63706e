//! Pods with claims, as small scenarios: where they are placed, why not, and what wakes them.

use std::sync::Arc;

use crate::api::pod::{NodeRequirement, NodeSelectorTerm};
use crate::api::pod_terms::PodTerms;
use crate::api::volumes::storage_class::AllowedTopologies;
use crate::api::volumes::{
    AttachmentFacts, ClaimFacts, ClaimKey, CsiNodeFacts, PodClaim, StorageClassFacts, VolumeAffinity, VolumeFacts, VolumeId, VolumeZone,
};
use crate::api::{PodFacts, Uid};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, cycle, empty_state, message};
use crate::cycle::testing::{group, node, pod, running};

const ZONE: &str = "topology.kubernetes.io/zone";

/// The claim `ns/name` that is bound to the volume of the same name.
fn claim(name: &str) -> ClaimFacts {
    ClaimFacts {
        key: ClaimKey::new("ns", name),
        owner: None,
        volume: Some(Arc::from(name)),
        is_bound: true,
        is_lost: false,
        is_deleting: false,
        class: Some(Arc::from("class")),
        is_for_one_pod: false,
        request: None,
    }
}

/// A claim of this class that is not bound.
fn unbound(name: &str, class: Option<&str>) -> ClaimFacts {
    ClaimFacts { volume: None, is_bound: false, class: class.map(Arc::from), ..claim(name) }
}

/// A claim without a volume whose selector has so many requirements.
fn with_selector(name: &str, class: &str, size: usize) -> ClaimFacts {
    let requirements: Vec<_> = (0..size).map(|at| serde_json::json!({ "key": format!("k{at}"), "operator": "DoesNotExist" })).collect();
    let object = serde_json::json!({
        "metadata": { "namespace": "ns", "name": name },
        "spec": { "storageClassName": class, "selector": { "matchExpressions": requirements } },
    });
    ClaimFacts::of(&serde_json::from_value(object).unwrap())
}

/// A volume that every node may mount and no limit counts.
fn volume(name: &str) -> VolumeFacts {
    let (affinity, name) = (VolumeAffinity::default(), Arc::from(name));
    VolumeFacts { name, affinity, zones: Vec::new(), id: None, csi_handle: None, claim: None, offer: None }
}

/// A volume of the CSI driver `d`.
fn disk(name: &str) -> VolumeFacts {
    VolumeFacts { id: VolumeId::new("d", name), csi_handle: Some(Arc::from(name)), ..volume(name) }
}

/// A volume that only nodes in the zone may mount.
fn in_zone(name: &str, zone: &str) -> VolumeFacts {
    let requirement = NodeRequirement { key: ZONE.into(), operator: "In".into(), values: vec![zone.into()] };
    let term = NodeSelectorTerm { match_expressions: vec![requirement], match_fields: Vec::new() };
    VolumeFacts { affinity: VolumeAffinity { terms: Some(Arc::from([term])), migrated: None }, ..volume(name) }
}

fn takes(node: &str, disks: i64) -> CsiNodeFacts {
    CsiNodeFacts { node: Arc::from(node), limits: [(Arc::from("d"), disks)].into(), ..CsiNodeFacts::default() }
}

fn with_claims(pod: PodFacts, claims: &[&str]) -> PodFacts {
    let claims = claims.iter().map(|name| PodClaim { name: Arc::from(*name), is_ephemeral: false }).collect();
    PodFacts { terms: Arc::new(PodTerms { namespace: Arc::from("ns"), claims, ..PodTerms::default() }), ..pod }
}

/// A state with these nodes of 4 cpu, each in a zone.
fn state(nodes: &[(&str, &str)]) -> SchedulingState {
    let mut state = empty_state();
    for (name, zone) in nodes {
        let mut facts = node(name, &[("cpu", 4)]);
        facts.labels.insert(ZONE.into(), (*zone).into());
        state.apply_node(facts);
    }
    state
}

/// Adds a claim that is bound to the volume of its name.
fn add(state: &mut SchedulingState, volume: VolumeFacts) {
    state.apply_claim(claim(&volume.name.clone()));
    state.apply_volume(volume);
}

/// A PodGroup with one pod, `name-0`, for each of these lists of claims, all of which must be placed.
fn gang(state: &mut SchedulingState, name: &str, cpu: i64, claims: &[&[&str]]) {
    state.apply_group(group("ns", name, u32::try_from(claims.len()).unwrap(), "default"));
    for (at, claims) in claims.iter().enumerate() {
        state.apply_pod(with_claims(pod("ns", &format!("{name}-{at}"), name, &[("cpu", cpu)]), claims));
    }
}

#[test]
fn a_gang_goes_to_the_zone_of_its_volumes() {
    let mut state = state(&[("a1", "a"), ("b1", "b"), ("b2", "b")]);
    for name in ["v0", "v1", "v2", "v3"] {
        add(&mut state, in_zone(name, "b"));
    }
    gang(&mut state, "g", 2, &[&["v0"], &["v1"], &["v2"], &["v3"]]);
    let plan = cycle(&mut state);
    assert_eq!(bound(&plan).len(), 4);
    assert!(bound(&plan).iter().all(|(_, node)| node.starts_with('b')), "{plan:?}");
    add(&mut state, in_zone("v4", "b"));
    gang(&mut state, "h", 1, &[&["v4"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(
        message(&state, "h"),
        "0/3 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 2 Insufficient cpu; cpu: requested 1, most free 0; \
         persistentvolumeclaim \"v4\" keeps persistentvolume \"v4\" (topology.kubernetes.io/zone=b)"
    );
}

#[test]
fn pods_with_equal_requirements_of_different_claims_share_a_class() {
    let mut state = state(&[]);
    for (name, zone) in [("v0", "a"), ("v1", "a"), ("v2", "b")] {
        add(&mut state, in_zone(name, zone));
    }
    gang(&mut state, "g", 1, &[&["v0"], &["v1"], &["v2"]]);
    let class = |name: &str| state.cache().pods()[&Uid::from(name)].class;
    assert_eq!(class("ns/g-0"), class("ns/g-1"));
    assert_ne!(class("ns/g-0"), class("ns/g-2"));
}

#[test]
fn zone_labels_of_a_volume_refuse_nodes_of_other_zones_and_no_node_without_any() {
    let mut state = state(&[("a1", "a"), ("b1", "b")]);
    let zone = VolumeZone { label: ZONE, present: ZONE, values: [Arc::from("b"), Arc::from("c")].into() };
    add(&mut state, VolumeFacts { zones: vec![zone], ..volume("v") });
    gang(&mut state, "g", 4, &[&["v"], &["v"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    assert!(message(&state, "g").contains("1 node(s) had no available volume zone"), "{}", message(&state, "g"));
    // A node that is in no zone at all is in each.
    state.apply_node(node("plain", &[("cpu", 4)]));
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "b1"), ("g-1", "plain")]);
}

#[test]
fn each_fault_of_a_claim_has_its_reason_and_its_end_wakes_the_pod() {
    let lost = ClaimFacts { is_lost: true, ..claim("c") };
    let prebound = ClaimFacts { is_bound: false, ..claim("c") };
    let table: [(Option<ClaimFacts>, &str, &str); 8] = [
        (None, "ClaimNotFound", "persistentvolumeclaim \"c\" not found"),
        (Some(lost), "ClaimLost", "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"c\""),
        (Some(ClaimFacts { is_deleting: true, ..claim("c") }), "ClaimBeingDeleted", "persistentvolumeclaim \"c\" is being deleted"),
        (Some(unbound("c", None)), "ClaimNotBound", "persistentvolumeclaim \"c\" is not bound, and it has no StorageClass"),
        (
            Some(unbound("c", Some("now"))),
            "ClaimNotBound",
            "persistentvolumeclaim \"c\" is not bound; its StorageClass \"now\" binds immediately",
        ),
        (Some(prebound), "ClaimNotBound", "persistentvolumeclaim \"c\" is not bound to its persistentvolume \"c\" yet"),
        (
            Some(unbound("c", Some("none"))),
            "StorageClassNotFound",
            "persistentvolumeclaim \"c\" is not bound, and its StorageClass \"none\" does not exist",
        ),
        (
            Some(with_selector("c", "later", 1001)),
            "InvalidField",
            "persistentvolumeclaim \"c\": spec.selector: 1001 is more than 1000 requirements and values in the selectors of the pod's claims",
        ),
    ];
    for (facts, code, text) in table {
        let mut state = state(&[("n", "a")]);
        for (name, waits_for_pod) in [("now", false), ("later", true)] {
            let (name, topologies) = (Arc::from(name), AllowedTopologies::default());
            state.apply_storage_class(StorageClassFacts { name, waits_for_pod, driver: None, provisioner: None, topologies });
        }
        state.apply_volume(volume("c"));
        facts.into_iter().for_each(|facts| state.apply_claim(facts));
        gang(&mut state, "g", 1, &[&["c"], &["c"]]);
        assert!(bound(&cycle(&mut state)).is_empty(), "{code}");
        assert_eq!(message(&state, "g"), text);
        let refusal = state.cache().groups().values().find_map(|group| group.refusal.clone()).unwrap();
        assert_eq!(refusal.code().as_str(), code);
        assert!(!state.has_work(std::time::Duration::ZERO), "{code}");
        state.apply_claim(claim("c"));
        assert_eq!(bound(&cycle(&mut state)).len(), 2, "{code}");
    }
}

#[test]
fn the_selectors_of_the_claims_of_a_pod_are_bounded_together() {
    let mut state = state(&[("n", "a")]);
    let (name, topologies) = (Arc::from("later"), AllowedTopologies::default());
    state.apply_storage_class(StorageClassFacts { name, waits_for_pod: true, driver: None, provisioner: None, topologies });
    for (name, size) in [("a", 600), ("b", 401), ("c", 400)] {
        state.apply_claim(with_selector(name, "later", size));
    }
    gang(&mut state, "too-many", 1, &[&["a", "b"]]);
    gang(&mut state, "pod", 1, &[&["a", "c"]]);
    gang(&mut state, "pods", 1, &[&["a"], &["b"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    let why =
        "persistentvolumeclaim \"b\": spec.selector: 1001 is more than 1000 requirements and values in the selectors of the pod's claims";
    assert_eq!(message(&state, "too-many"), why);
    for name in ["pod", "pods"] {
        assert!(message(&state, name).contains("didn't find available persistent volumes to bind"), "{}", message(&state, name));
    }
}

#[test]
fn a_volume_that_does_not_exist_refuses_and_wakes_its_pods_when_it_comes() {
    let mut state = state(&[("n", "a")]);
    state.apply_claim(claim("c"));
    gang(&mut state, "g", 1, &[&["c"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(message(&state, "g"), "persistentvolume \"c\" of persistentvolumeclaim \"c\" not found");
    state.apply_volume(volume("c"));
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "n")]);
}

#[test]
fn a_claim_that_changes_wakes_only_the_podgroups_of_its_pods() {
    let mut state = state(&[("n", "a")]);
    gang(&mut state, "g", 1, &[&["c"]]);
    gang(&mut state, "h", 1, &[&["d"]]);
    assert_eq!(cycle(&mut state).tried.len(), 2);
    state.apply_claim(unbound("c", None));
    assert_eq!(cycle(&mut state).tried.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ns/g"]);
    // The same again is no news, and neither is a claim that no pod names.
    state.apply_claim(unbound("c", None));
    state.apply_claim(claim("e"));
    assert!(!state.has_work(std::time::Duration::ZERO));
}

#[test]
fn an_ephemeral_claim_must_be_that_of_the_pod() {
    let mut state = state(&[("n", "a")]);
    state.apply_volume(volume("v"));
    state.apply_group(group("ns", "g", 1, "default"));
    let claims = vec![PodClaim { name: Arc::from("p-scratch"), is_ephemeral: true }];
    let terms = Arc::new(PodTerms { namespace: Arc::from("ns"), claims, ..PodTerms::default() });
    state.apply_pod(PodFacts { terms, ..pod("ns", "p", "g", &[("cpu", 1)]) });
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(message(&state, "g"), "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-scratch\"");
    let of = |owner: &str| ClaimFacts { owner: Some(Uid::from(owner)), volume: Some(Arc::from("v")), ..claim("p-scratch") };
    state.apply_claim(of("ns/other"));
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(message(&state, "g"), "persistentvolumeclaim \"p-scratch\" was not created for the pod (the pod is not its owner)");
    state.apply_claim(of("ns/p"));
    assert_eq!(bound(&cycle(&mut state)), [("p", "n")]);
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_pod_wherever_it_is() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    state.apply_claim(ClaimFacts { is_for_one_pod: true, ..claim("c") });
    state.apply_volume(volume("c"));
    // Not even two members of one gang.
    gang(&mut state, "g", 1, &[&["c"], &["c"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    let in_use = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    assert_eq!(message(&state, "g"), format!("1 of 2 members find a place; for g-1: 0/2 nodes are available: {in_use}"));
    state.delete_pod(&Uid::from("ns/g-1"));
    state.apply_group(group("ns", "g", 1, "default"));
    let plan = cycle(&mut state);
    assert_eq!(bound(&plan).len(), 1);
    // It runs on one node, full or not; the next waits, and is woken for the other node when it ends.
    let node = plan.binds[0].node.to_string();
    state.confirm(&Uid::from("ns/g-0"));
    let runs = running(with_claims(pod("ns", "g-0", "g", &[("cpu", 1)]), &["c"]), &node);
    state.apply_pod(runs.clone());
    gang(&mut state, "h", 1, &[&["c"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(message(&state, "h"), format!("0/2 nodes are available: {in_use}"));
    let mut cordoned = crate::cycle::testing::node(&node, &[("cpu", 4)]);
    cordoned.unschedulable = true;
    state.apply_node(cordoned);
    assert!(bound(&cycle(&mut state)).is_empty());
    state.apply_pod(PodFacts { phase: crate::api::pod_facts::PodPhase::Succeeded, ..runs });
    assert_eq!(bound(&cycle(&mut state)).len(), 1);
}

#[test]
fn a_pod_of_another_scheduler_uses_its_claims_too() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    state.apply_claim(ClaimFacts { is_for_one_pod: true, ..claim("c") });
    state.apply_volume(volume("c"));
    let theirs = with_claims(running(pod("ns", "theirs", "none", &[]), "n1"), &["c"]);
    let theirs = PodFacts { scheduler: Arc::from("another"), names_group: false, ..theirs };
    state.apply_pod(theirs);
    gang(&mut state, "g", 1, &[&["c"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    state.delete_pod(&Uid::from("ns/theirs"));
    assert_eq!(bound(&cycle(&mut state)).len(), 1);
}

#[test]
fn a_node_takes_as_many_volumes_as_it_says_and_a_shared_one_counts_once() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    for name in ["v0", "v1", "v2", "v3", "v4"] {
        add(&mut state, disk(name));
    }
    state.apply_csi_node(takes("n1", 2));
    state.apply_csi_node(takes("n2", 2));
    // Five volumes do not fit onto two nodes of two; four do.
    gang(&mut state, "g", 0, &[&["v0"], &["v1"], &["v2"], &["v3"], &["v4"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(message(&state, "g"), "4 of 5 members find a place; for g-4: 0/2 nodes are available: 2 node(s) exceed max volume count");
    // With a volume that the gang shares, there is room again.
    state.apply_pod(with_claims(pod("ns", "g-4", "g", &[("cpu", 0)]), &["v3"]));
    let plan = cycle(&mut state);
    assert_eq!(bound(&plan).len(), 5);
    let of = |name: &str| plan.binds.iter().find(|bind| &*bind.name == name).map(|bind| Arc::clone(&bind.node));
    assert_eq!(of("g-3"), of("g-4"));
}

#[test]
fn attachments_count_until_they_are_gone_and_a_larger_limit_wakes() {
    let mut state = state(&[("n", "a")]);
    ["v0", "v1", "old", "more"].into_iter().for_each(|name| add(&mut state, disk(name)));
    state.apply_csi_node(takes("n", 2));
    let attachment = |volume: &str| AttachmentFacts {
        name: Arc::from(format!("a-{volume}")),
        node: Arc::from("n"),
        driver: Arc::from("d"),
        volume: Some(Arc::from(volume)),
    };
    state.apply_attachment(attachment("old"));
    gang(&mut state, "g", 1, &[&["v0", "v1"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    assert_eq!(message(&state, "g"), "0/1 nodes are available: 1 node(s) exceed max volume count");
    state.apply_attachment(attachment("more"));
    assert!(!state.has_work(std::time::Duration::ZERO), "one more helps no pod");
    state.delete_attachment(&Arc::from("a-old"));
    assert!(bound(&cycle(&mut state)).is_empty());
    state.delete_attachment(&Arc::from("a-more"));
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "n")]);
    state.apply_attachment(attachment("v0"));
    gang(&mut state, "h", 1, &[&["old"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    state.apply_csi_node(takes("n", 3));
    assert_eq!(bound(&cycle(&mut state)), [("h-0", "n")], "a volume that is attached and used counts once");
}

#[test]
fn the_state_without_storage_objects_ignores_claims() {
    let mut state = state(&[("n", "a")]);
    state.ignore_volumes();
    gang(&mut state, "g", 1, &[&["c"]]);
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "n")]);
}

#[test]
fn a_pod_that_uses_a_claim_for_one_pod_is_preempted_for_it() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    state.apply_claim(ClaimFacts { is_for_one_pod: true, ..claim("c") });
    state.apply_volume(volume("c"));
    state.apply_priority_class(crate::cycle::testing::class("high", 10));
    state.apply_group(group("ns", "low", 1, "default"));
    state.apply_group(group("ns", "other", 1, "default"));
    state.apply_pod(running(with_claims(pod("ns", "low-0", "low", &[("cpu", 1)]), &["c"]), "n1"));
    state.apply_pod(running(pod("ns", "other-0", "other", &[("cpu", 1)]), "n2"));
    state.apply_group(crate::api::GroupFacts { priority_class: Some("high".into()), ..group("ns", "g", 1, "default") });
    state.apply_pod(PodFacts { priority: 10, ..with_claims(pod("ns", "g-0", "g", &[("cpu", 1)]), &["c"]) });
    let plan = cycle(&mut state);
    let victims: Vec<&str> = plan.evictions.iter().flat_map(|eviction| &eviction.victims).map(|victim| &*victim.name).collect();
    assert_eq!(victims, ["low-0"], "{}", message(&state, "g"));
}
