//! Claims that get their volumes with the node of a pod, as small scenarios: which volume is chosen, when the pods are bound, and what
//! becomes of a failure.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::pod_terms::PodTerms;
use crate::api::volumes::{ClaimFacts, ClaimKey, PodClaim, StorageClassFacts, VolumeFacts};
use crate::api::{GroupKey, NodeFacts, PodFacts, Uid};
use crate::cycle::cache::Phase;
use crate::cycle::cache::phase::phase;
use crate::cycle::plan::{Plan, Tie};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, message};
use crate::cycle::testing::{POLICY, group, node, pod};
use crate::resources::Amount;

pub(super) const HOST: &str = "kubernetes.io/hostname";

/// A node of 4 cpu.
fn in_zone(name: &str, zone: &str) -> NodeFacts {
    let mut facts = node(name, &[("cpu", 4)]);
    facts.labels.extend([(HOST.to_owned(), name.to_owned()), ("zone".to_owned(), zone.to_owned())]);
    facts
}

/// A state with these nodes of 4 cpu, and a class `local` of volumes that people make and a class `made` of volumes that a provisioner
/// makes in zone `a`.
pub(super) fn state(nodes: &[(&str, &str)]) -> SchedulingState {
    let mut state = empty_state();
    nodes.iter().for_each(|(name, zone)| state.apply_node(in_zone(name, zone)));
    let topologies = json!([{ "matchLabelExpressions": [{ "key": "zone", "values": ["a"] }] }]);
    for class in [
        json!({ "metadata": { "name": "local" }, "provisioner": "kubernetes.io/no-provisioner" }),
        json!({ "metadata": { "name": "made" }, "provisioner": "p.example.com", "allowedTopologies": topologies }),
    ] {
        let mut class = class;
        class["volumeBindingMode"] = json!("WaitForFirstConsumer");
        state.apply_storage_class(StorageClassFacts::of(&serde_json::from_value(class).unwrap()));
    }
    state
}

/// A free volume of the class `local` with this size in Gi; on this node, or on every node.
fn volume(name: &str, size: u32, host: Option<&str>) -> Value {
    let term = |host| json!({ "matchExpressions": [{ "key": HOST, "operator": "In", "values": [host] }] });
    let affinity = host.map(|host| json!({ "required": { "nodeSelectorTerms": [term(host)] } }));
    json!({
        "metadata": { "name": name, "resourceVersion": "7" },
        "spec": { "capacity": { "storage": format!("{size}Gi") }, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "nodeAffinity": affinity },
        "status": { "phase": "Available" },
    })
}

fn apply_volume(state: &mut SchedulingState, volume: &Value) {
    state.apply_volume(VolumeFacts::of(&serde_json::from_value(volume.clone()).unwrap()));
}

/// A claim `ns/name` of this class and size in Gi, without a volume.
pub(super) fn claim(name: &str, class: &str, size: u32) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5", "annotations": {} },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": { "requests": { "storage": format!("{size}Gi") } } },
        "status": { "phase": "Pending" },
    })
}

pub(super) fn apply_claim(state: &mut SchedulingState, claim: &Value) {
    state.apply_claim(ClaimFacts::of(&serde_json::from_value(claim.clone()).unwrap()));
}

/// The binder of kube-controller-manager binds the claim to the volume, from both sides.
fn bind_claim(state: &mut SchedulingState, mut volume: Value, mut claim: Value) {
    let (meta, name) = (claim["metadata"].clone(), volume["metadata"]["name"].clone());
    volume["spec"]["claimRef"] = json!({ "namespace": "ns", "name": meta["name"], "uid": meta["uid"] });
    volume["status"]["phase"] = json!("Bound");
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    claim["spec"]["volumeName"] = name;
    claim["status"]["phase"] = json!("Bound");
    apply_volume(state, &volume);
    apply_claim(state, &claim);
}

fn member(name: &str, group: &str, cpu: i64, claims: &[&str]) -> PodFacts {
    let claims = claims.iter().map(|name| PodClaim { name: Arc::from(*name), is_ephemeral: false }).collect();
    let terms = Arc::new(PodTerms { namespace: Arc::from("ns"), claims, ..PodTerms::default() });
    PodFacts { terms, ..pod("ns", name, group, &[("cpu", cpu)]) }
}

/// A PodGroup with one pod, `name-0`, for each of these lists of claims, all of which must be placed.
pub(super) fn gang(state: &mut SchedulingState, name: &str, cpu: i64, claims: &[&[&str]]) {
    state.apply_group(group("ns", name, u32::try_from(claims.len()).unwrap(), "default"));
    for (at, claims) in claims.iter().enumerate() {
        state.apply_pod(member(&format!("{name}-{at}"), name, cpu, claims));
    }
}

fn cycle_at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = crate::cycle::run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

pub(super) fn cycle(state: &mut SchedulingState) -> Plan {
    cycle_at(state, 0)
}

/// Each claim with the volume or `@node` that it is tied to.
pub(super) fn ties(plan: &Plan) -> Vec<(String, String)> {
    let tie = |tie: &Tie| match tie {
        Tie::Volume { name, .. } => name.to_string(),
        Tie::Node { name, .. } => format!("@{name}"),
    };
    plan.volumes.iter().map(|write| (write.claim.name.to_string(), tie(&write.tie))).collect()
}

pub(super) fn tied(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(claim, to)| ((*claim).to_owned(), (*to).to_owned())).collect()
}

fn phase_of(state: &SchedulingState, name: &str) -> Phase {
    let group = &state.cache().groups()[&GroupKey::new("ns", name)];
    phase(group, group.facts.as_ref().unwrap())
}

#[test]
fn the_smallest_volume_that_serves_is_chosen_on_the_node_and_the_pod_is_bound_when_the_claim_is() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    for (name, size, host) in [("large", 10, Some("n1")), ("fits", 5, Some("n1")), ("small", 4, None), ("other", 9, Some("n2"))] {
        apply_volume(&mut state, &volume(name, size, host));
    }
    let data = claim("data", "local", 5);
    apply_claim(&mut state, &data);
    state.apply_group(group("ns", "g", 1, "default"));
    let mut pod = member("g-0", "g", 1, &["data"]);
    pod.constraints.node_selector.insert(HOST.into(), "n1".into());
    state.apply_pod(pod);
    let plan = cycle(&mut state);
    assert_eq!((ties(&plan), bound(&plan)), (tied(&[("data", "fits")]), vec![]));
    let write = &plan.volumes[0];
    let tie = Tie::Volume { name: "fits".into(), resource_version: 7, is_named: false };
    assert_eq!((&write.claim, &write.claim_uid, &write.tie), (&ClaimKey::new("ns", "data"), &Uid::from("uid-data"), &tie));
    assert_eq!(
        message(&state, "g"),
        "waiting for 1 persistentvolumeclaim(s) to be bound, the first is \"data\" (see kubectl describe pvc data); the places of their pods stay reserved"
    );
    assert_eq!(phase_of(&state, "g"), Phase::Inqueue);
    assert!(state.cache().accounting().quota().used("default").get("cpu").is_positive(), "its place is charged");
    assert_eq!(crate::cycle::queue_status::report(&state, "default").allocated.get("cpu"), Amount::ZERO, "no pod is bound");
    assert!(bound(&cycle(&mut state)).is_empty());
    bind_claim(&mut state, volume("fits", 5, Some("n1")), data);
    let _before = state.take_dirty();
    let plan = cycle(&mut state);
    assert!(state.take_dirty().queues.contains("default"), "its status counts the pod from now on");
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![("g-0", "n1")]));
    assert_eq!(phase_of(&state, "g"), Phase::Running);
    assert!(crate::cycle::queue_status::report(&state, "default").allocated.get("cpu").is_positive());
    assert!(state.holds.is_empty());
}

#[test]
fn a_gang_reserves_a_volume_for_each_claim_and_is_bound_after_the_last_of_them() {
    let mut state = state(&[("n1", "a"), ("n2", "a"), ("n3", "a")]);
    for host in ["n1", "n2"] {
        apply_volume(&mut state, &volume(&format!("on-{host}"), 5, Some(host)));
    }
    let claims: Vec<Value> = ["c0", "c1", "c2"].iter().map(|name| claim(name, "local", 5)).collect();
    claims.iter().for_each(|claim| apply_claim(&mut state, claim));
    // Three claims, two volumes: nothing is reserved.
    gang(&mut state, "g", 1, &[&["c0"], &["c1"], &["c2"]]);
    let plan = cycle(&mut state);
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![]));
    let refused =
        "2 of 3 members find a place; for g-2: 0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind";
    assert_eq!(message(&state, "g"), refused);
    assert!(!state.has_work(Duration::ZERO));
    // A third one wakes it.
    apply_volume(&mut state, &volume("on-n3", 5, Some("n3")));
    let plan = cycle(&mut state);
    let volumes: std::collections::BTreeSet<String> = ties(&plan).into_iter().map(|(_, volume)| volume).collect();
    assert_eq!(volumes.len(), 3, "{plan:?}");
    for (at, (name, to)) in ties(&plan).into_iter().enumerate() {
        assert_eq!(bound(&cycle(&mut state)), [], "{at} of 3 are bound");
        let (host, data) = (to.strip_prefix("on-").unwrap(), claims.iter().find(|claim| claim["metadata"]["name"] == *name).unwrap());
        bind_claim(&mut state, volume(&to, 5, Some(host)), data.clone());
    }
    assert_eq!(bound(&cycle(&mut state)).len(), 3);
    assert!(state.holds.is_empty());
}

#[test]
fn a_reserved_volume_goes_to_no_other_claim_and_a_shared_claim_is_tied_once() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    apply_volume(&mut state, &volume("only", 5, None));
    for name in ["shared", "other"] {
        apply_claim(&mut state, &claim(name, "local", 5));
    }
    gang(&mut state, "g", 4, &[&["shared"], &["shared"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("shared", "only")]));
    gang(&mut state, "h", 0, &[&["other"]]);
    assert_eq!(ties(&cycle(&mut state)), []);
    assert!(message(&state, "h").contains("2 node(s) didn't find available persistent volumes to bind"), "{}", message(&state, "h"));
    // Another PodGroup with the same claim waits for it, too.
    gang(&mut state, "i", 0, &[&["shared"]]);
    let plan = cycle(&mut state);
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![]));
    bind_claim(&mut state, volume("only", 5, None), claim("shared", "local", 5));
    assert_eq!(bound(&cycle(&mut state)).len(), 3);
}

#[test]
fn a_claim_that_is_not_bound_in_time_gives_the_places_of_the_whole_gang_back() {
    let mut state = state(&[("n1", "a")]);
    for (name, host) in [("v0", "n1"), ("v1", "n1")] {
        apply_volume(&mut state, &volume(name, 5, Some(host)));
    }
    for name in ["c0", "c1"] {
        apply_claim(&mut state, &claim(name, "local", 5));
    }
    gang(&mut state, "g", 2, &[&["c0"], &["c1"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c0", "v0"), ("c1", "v1")]));
    let _plan = cycle(&mut state);
    bind_claim(&mut state, volume("v0", 5, Some("n1")), claim("c0", "local", 5));
    assert_eq!(bound(&cycle_at(&mut state, 599)), []);
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(600)));
    assert_eq!(bound(&cycle_at(&mut state, 600)), []);
    assert_eq!(state.cache().accounting().ledger().node("n1").unwrap().used.get("cpu"), crate::resources::Amount::ZERO);
    let given_back = "the nodes were given back without volumes: persistentvolumeclaim \"c1\" was not bound in time (see kubectl describe pvc c1) \
         (1 in a row); it is retried after a back-off; persistentvolumeclaim \"c0\" keeps persistentvolume \"v0\" (kubernetes.io/hostname=n1)";
    assert_eq!(message(&state, "g"), given_back);
    // The retry ties the claim that has no volume, and no other.
    assert_eq!(ties(&cycle_at(&mut state, 700)), tied(&[("c1", "v1")]));
}

#[test]
fn a_gang_that_waits_says_which_volumes_and_nodes_its_claims_keep() {
    let mut state = state(&[("a1", "a"), ("a2", "a")]);
    let [made, mut asked] = ["c0", "c1"].map(|name| claim(name, "made", 5));
    bind_claim(&mut state, volume("pv", 5, Some("a1")), made);
    asked["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("a2");
    apply_claim(&mut state, &asked);
    // No node has 5 cpu.
    gang(&mut state, "g", 5, &[&["c0"], &["c1"]]);
    gang(&mut state, "h", 5, &[&["c1"]]);
    gang(&mut state, "none", 5, &[&[]]);
    assert_eq!(bound(&cycle(&mut state)), []);
    let kept = "; persistentvolumeclaim \"c0\" keeps persistentvolume \"pv\" (kubernetes.io/hostname=a1), and 1 further claim is like it";
    assert!(message(&state, "g").ends_with(kept), "{}", message(&state, "g"));
    let tied = "; persistentvolumeclaim \"c1\" gets its volume on node \"a2\" only";
    assert!(message(&state, "h").ends_with(tied), "{}", message(&state, "h"));
    assert!(!message(&state, "none").contains("persistentvolume"), "{}", message(&state, "none"));
}

#[test]
fn what_claims_keep_is_said_whatever_the_gang_waits_for() {
    let mut state = state(&[("a1", "a")]);
    // Any node may mount the volume of each: most were made for a pod, one was there, and one is used by a pod.
    let there = |name: &str| {
        let mut claim = claim(name, "made", 5);
        claim["spec"]["storageClassName"] = json!("");
        claim
    };
    for claim in [claim("made", "made", 5), claim("used", "made", 5), there("there")] {
        let name = format!("pv-{}", claim["metadata"]["name"].as_str().unwrap());
        bind_claim(&mut state, volume(&name, 5, None), claim);
    }
    state.apply_pod(crate::cycle::testing::running(member("user", "user", 1, &["used"]), "a1"));
    gang(&mut state, "absent", 1, &[&["made"], &["no-such-claim"]]);
    gang(&mut state, "both", 1, &[&["made", "no-such-claim"]]);
    gang(&mut state, "few", 1, &[&["made"]]);
    state.apply_group(group("ns", "few", 2, "default"));
    gang(&mut state, "closed", 1, &[&["made"]]);
    state.apply_group(group("ns", "closed", 1, "no-such-queue"));
    gang(&mut state, "silent", 5, &[&["there", "used"]]);
    assert_eq!(bound(&cycle(&mut state)), []);
    let kept = "; persistentvolumeclaim \"made\" keeps persistentvolume \"pv-made\" (any node)";
    for name in ["absent", "both", "few", "closed"] {
        assert!(message(&state, name).ends_with(kept), "{name}: {}", message(&state, name));
    }
    assert!(message(&state, "silent").ends_with("most free 3"), "{}", message(&state, "silent"));
}

#[test]
fn a_pod_says_what_its_own_claims_keep_as_soon_as_that_changes() {
    let mut state = state(&[("a1", "a")]);
    gang(&mut state, "g", 1, &[&["c0", "c1"]]);
    state.apply_group(group("ns", "g", 1, "no-such-queue"));
    let uid = Uid::from("ns/g-0");
    // How the message ends, after a change that the status has to show.
    let said = |state: &mut SchedulingState| {
        assert!(state.take_dirty().pods.contains(&uid));
        assert_eq!(bound(&cycle(state)), []);
        let member = &state.cache().pods()[&uid];
        let last = |message: &str| message.rsplit("; ").next().unwrap().to_owned();
        let (own, of_group) = (state.cache().pod_message(member, &member.blocked().unwrap()), message(state, "g"));
        assert_eq!(own.contains("; "), of_group.contains("; "), "{own}, and {of_group}");
        last(&own)
    };
    let mut tied = claim("c0", "made", 5);
    tied["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("a1");
    apply_claim(&mut state, &tied);
    assert_eq!(said(&mut state), "persistentvolumeclaim \"c0\" gets its volume on node \"a1\" only");
    apply_claim(&mut state, &claim("c0", "made", 5));
    assert!(said(&mut state).ends_with("\"c1\" not found"), "c0 keeps nothing");
    let mut names = claim("c0", "made", 5);
    names["spec"]["volumeName"] = json!("pv");
    apply_volume(&mut state, &volume("pv", 5, Some("a1")));
    apply_claim(&mut state, &names);
    assert!(said(&mut state).ends_with("\"c1\" not found"), "the volume is not its own yet");
    bind_claim(&mut state, volume("pv", 5, Some("a1")), claim("c0", "made", 5));
    assert_eq!(said(&mut state), "persistentvolumeclaim \"c0\" keeps persistentvolume \"pv\" (kubernetes.io/hostname=a1)");
    let mut deleting = claim("c0", "made", 5);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    bind_claim(&mut state, volume("pv", 5, Some("a1")), deleting);
    assert!(said(&mut state).ends_with("is being deleted"), "it does not stay");
}

#[test]
fn a_volume_that_its_claim_has_got_is_free_for_no_other_and_wakes_no_other() {
    let mut state = state(&[("n1", "a")]);
    apply_volume(&mut state, &volume("v0", 5, Some("n1")));
    for name in ["c0", "c1"] {
        apply_claim(&mut state, &claim(name, "local", 5));
    }
    gang(&mut state, "g", 1, &[&["c0"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c0", "v0")]));
    gang(&mut state, "waits", 1, &[&["c1"]]);
    assert_eq!(bound(&cycle(&mut state)), []);
    bind_claim(&mut state, volume("v0", 5, Some("n1")), claim("c0", "local", 5));
    let plan = cycle(&mut state);
    assert_eq!(bound(&plan), [("g-0", "n1")]);
    assert!(!plan.tried.contains(&GroupKey::new("ns", "waits")), "{:?}", plan.tried);
}

#[test]
fn a_refused_write_gives_the_places_back_and_a_volume_that_names_the_claim_is_used_again() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    apply_volume(&mut state, &volume("small", 5, Some("n1")));
    apply_volume(&mut state, &volume("large", 9, Some("n2")));
    let data = claim("data", "local", 5);
    apply_claim(&mut state, &data);
    gang(&mut state, "g", 1, &[&["data"]]);
    let plan = cycle(&mut state);
    state.refuse_volume(plan.volumes[0].binding, &ClaimKey::new("ns", "data"), "conflict");
    let _plan = cycle(&mut state);
    assert!(message(&state, "g").contains("could not be tied to its volume or node: conflict"), "{}", message(&state, "g"));
    // The write had taken effect: the large volume names the claim, with its UID.
    let mut large = volume("large", 9, Some("n2"));
    large["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "data", "uid": "uid-data" });
    apply_volume(&mut state, &large);
    let plan = cycle_at(&mut state, 100);
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![]), "it is tied already");
    bind_claim(&mut state, large, data);
    assert_eq!(bound(&cycle_at(&mut state, 100)), [("g-0", "n2")]);
}

#[test]
fn a_volume_that_a_user_reserves_by_name_goes_to_that_claim_alone() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    let mut reserved = volume("reserved", 9, Some("n2"));
    reserved["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "mine" });
    apply_volume(&mut state, &reserved);
    apply_volume(&mut state, &volume("small", 5, Some("n1")));
    for name in ["mine", "theirs"] {
        apply_claim(&mut state, &claim(name, "local", 5));
    }
    gang(&mut state, "g", 1, &[&["mine"], &["theirs"]]);
    let plan = cycle(&mut state);
    assert_eq!(ties(&plan), tied(&[("mine", "reserved"), ("theirs", "small")]));
    assert!(matches!(plan.volumes[0].tie, Tie::Volume { is_named: true, .. }));
}

#[test]
fn a_volume_that_names_an_earlier_claim_of_the_name_is_not_taken() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    let mut earlier = volume("earlier", 5, Some("n2"));
    earlier["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "data", "uid": "uid-of-the-earlier" });
    apply_volume(&mut state, &earlier);
    apply_volume(&mut state, &volume("free", 9, Some("n1")));
    apply_claim(&mut state, &claim("data", "local", 5));
    gang(&mut state, "g", 1, &[&["data"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("data", "free")]));
}

#[test]
fn two_claims_of_one_pod_get_two_volumes_of_its_node_and_the_smaller_claim_chooses_first() {
    let mut state = state(&[("n1", "a"), ("n2", "a")]);
    for (name, size, host) in [("a", 5, "n1"), ("b", 5, "n2"), ("c", 8, "n2")] {
        apply_volume(&mut state, &volume(name, size, Some(host)));
    }
    apply_claim(&mut state, &claim("large", "local", 5));
    apply_claim(&mut state, &claim("small", "local", 1));
    gang(&mut state, "g", 1, &[&["large", "small"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("large", "c"), ("small", "b")]));
}

#[test]
fn a_held_pod_that_goes_gives_its_place_and_its_volume_back() {
    let mut state = state(&[("n1", "a")]);
    apply_volume(&mut state, &volume("only", 5, None));
    apply_claim(&mut state, &claim("c0", "local", 5));
    apply_claim(&mut state, &claim("c1", "local", 5));
    gang(&mut state, "g", 4, &[&["c0"]]);
    gang(&mut state, "h", 4, &[&["c1"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c0", "only")]));
    state.delete_pod(&Uid::from("ns/g-0"));
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c1", "only")]), "{}", message(&state, "h"));
}

#[test]
fn a_claim_without_a_volume_is_made_for_a_node_of_an_allowed_topology_and_all_of_a_gang_before_a_pod_is_bound() {
    let mut state = state(&[("a1", "a"), ("b1", "b"), ("b2", "b")]);
    let claims: Vec<Value> = ["c0", "c1"].iter().map(|name| claim(name, "made", 5)).collect();
    claims.iter().for_each(|claim| apply_claim(&mut state, claim));
    gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
    let plan = cycle(&mut state);
    assert_eq!((ties(&plan), bound(&plan)), (tied(&[("c0", "@a1"), ("c1", "@a1")]), vec![]));
    assert!(matches!(plan.volumes[0].tie, Tie::Node { resource_version: 5, .. }));
    for (at, claim) in claims.iter().enumerate() {
        assert_eq!(bound(&cycle(&mut state)), [], "{at} of 2 are bound");
        bind_claim(&mut state, volume(&format!("made-{at}"), 5, Some("a1")), claim.clone());
    }
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "a1"), ("g-1", "a1")]);
    gang(&mut state, "h", 4, &[&["c2"]]);
    apply_claim(&mut state, &claim("c2", "made", 5));
    assert_eq!(ties(&cycle(&mut state)), []);
    assert!(message(&state, "h").contains("2 node(s) didn't find available persistent volumes to bind"), "{}", message(&state, "h"));
}

#[test]
fn after_a_restart_a_claim_with_a_selected_node_goes_there_and_nothing_is_written_twice() {
    let mut state = state(&[("a1", "a"), ("a2", "a")]);
    let mut data = claim("data", "made", 5);
    data["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("a2");
    apply_claim(&mut state, &data);
    gang(&mut state, "g", 1, &[&["data"]]);
    let plan = cycle(&mut state);
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![]));
    bind_claim(&mut state, volume("made", 5, Some("a2")), data);
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "a2")]);
}

#[test]
fn a_provisioner_that_takes_the_selected_node_away_ends_the_attempt() {
    let mut state = state(&[("a1", "a"), ("a2", "a")]);
    let data = claim("data", "made", 5);
    apply_claim(&mut state, &data);
    gang(&mut state, "g", 1, &[&["data"]]);
    let plan = cycle(&mut state);
    let Tie::Node { name: first, .. } = plan.volumes[0].tie.clone() else { panic!("{plan:?}") };
    let _plan = cycle(&mut state);
    let mut selected = data.clone();
    selected["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!(&*first);
    apply_claim(&mut state, &selected);
    assert_eq!(bound(&cycle(&mut state)), []);
    apply_claim(&mut state, &data);
    let _plan = cycle(&mut state);
    assert!(message(&state, "g").contains("the provisioner made no volume for persistentvolumeclaim \"data\""), "{}", message(&state, "g"));
    // The next attempt prefers another node.
    let plan = cycle_at(&mut state, 100);
    assert!(matches!(&plan.volumes[0].tie, Tie::Node { name, .. } if *name != first), "{plan:?}");
}

#[test]
fn a_claim_that_is_bound_elsewhere_than_asked_sends_the_pod_there() {
    let mut state = state(&[("a1", "a"), ("a2", "a")]);
    let data = claim("data", "made", 5);
    apply_claim(&mut state, &data);
    gang(&mut state, "g", 1, &[&["data"]]);
    let plan = cycle(&mut state);
    let Tie::Node { name: asked, .. } = plan.volumes[0].tie.clone() else { panic!("{plan:?}") };
    let other = if &*asked == "a1" { "a2" } else { "a1" };
    bind_claim(&mut state, volume("made", 5, Some(other)), data);
    assert_eq!(bound(&cycle(&mut state)), []);
    assert_eq!(bound(&cycle_at(&mut state, 100)), [("g-0", other)]);
}

#[test]
fn a_volume_that_is_seen_after_its_claim_is_waited_for() {
    let mut state = state(&[("a1", "a")]);
    let data = claim("data", "made", 5);
    apply_claim(&mut state, &data);
    gang(&mut state, "g", 1, &[&["data"]]);
    let _plan = cycle(&mut state);
    let mut bound_claim = data.clone();
    bound_claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    bound_claim["spec"]["volumeName"] = json!("made");
    apply_claim(&mut state, &bound_claim);
    assert_eq!(bound(&cycle(&mut state)), []);
    bind_claim(&mut state, volume("made", 5, Some("a1")), data);
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "a1")]);
}

mod faults;
mod while_held;
