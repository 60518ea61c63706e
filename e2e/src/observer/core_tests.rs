//! What does the core make of lists, gaps and excuses?

use serde_json::json;

use super::super::ObserverConfig;
use super::*;
use crate::audit_log::Entry;
use crate::audit_log::tests::entry;

/// A core that knows nothing yet, with these graces.
fn core_with(graces: Graces) -> Core {
    let clock = Clock::start();
    let constraints = Constraints::start(None, BTreeMap::new()).unwrap();
    Core::new(clock, ObserverConfig::of_chart(&["s"]).names, graces, Audit::new("a", "b"), constraints, None)
}

/// An object as a list shows it.
fn listed(kind: &str, name: &str, uid: &str, version: u64, more: serde_json::Value) -> DynamicObject {
    let mut object =
        json!({"kind": kind, "metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": version.to_string()}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

#[test]
fn an_object_that_was_recreated_while_the_watch_was_down_exists() {
    let mut core = core_with(Graces { group: 0, ..Graces::default() });
    let pod = json!({"spec": {"schedulerName": "s"}});
    let mut pod = listed("Pod", "p", "pod", 2, pod);
    pod.annotations_mut().insert("scheduling.k8s.io/group-name".to_owned(), "g".to_owned());
    let group = |uid, version| {
        let mut group = listed("PodGroup", "g", uid, version, json!({"spec": {"minMember": 1}}));
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod", "controller": true}]);
        group.metadata.owner_references = serde_json::from_value(owner).unwrap();
        group
    };
    core.replace(Kind::Group, &[group("first", 1)], Some(1), true);
    core.replace(Kind::Pod, &[pod], Some(2), true);
    core.begin();
    assert_eq!(core.at_rest(), []);
    core.replace(Kind::Group, &[group("second", 8)], Some(10), false);
    assert_eq!(core.at_rest(), []);
    core.replace(Kind::Group, &[], Some(12), false);
    assert_eq!(core.at_rest().len(), 1);
}

#[test]
fn bindings_that_only_a_list_shows_are_judged() {
    let mut core = core_with(Graces::default());
    let node = listed("Node", "n", "node", 1, json!({"status": {"allocatable": {"cpu": "4", "pods": "10"}}}));
    let pod = |name: &str, version, node: Option<&str>, bound: bool| {
        let containers = json!([{"name": "main", "resources": {"requests": {"cpu": "2"}}}]);
        let mut pod =
            listed("Pod", name, name, version, json!({"spec": {"schedulerName": "s", "nodeName": node, "containers": containers}}));
        if bound {
            pod.annotations_mut().insert("podgroup.dev/queue".to_owned(), "default".to_owned());
        }
        pod
    };
    core.replace(Kind::Node, &[node], Some(1), true);
    core.replace(Kind::Pod, &[pod("p1", 2, None, false)], Some(2), true);
    core.begin();
    let judged = |core: &mut Core| {
        core.at_rest();
        (core.judged_bindings(), core.findings().iter().map(|finding| finding.check).collect::<Vec<_>>())
    };
    // p2 was created and bound in the gap; p3 was created with its node by another client.
    core.replace(Kind::Pod, &[pod("p1", 5, Some("n"), true), pod("p2", 7, Some("n"), true)], Some(8), false);
    assert_eq!(judged(&mut core), (2, vec![]));
    core.replace(
        Kind::Pod,
        &[pod("p1", 5, Some("n"), true), pod("p2", 7, Some("n"), true), pod("p3", 9, Some("n"), false)],
        Some(9),
        false,
    );
    assert_eq!(judged(&mut core), (2, vec![]));
    // p1 is gone, at an unknown time; p4 may have been bound after that. With p5 the node is too full at the end of the list, so it was at a binding.
    core.replace(Kind::Pod, &[pod("p2", 7, Some("n"), true), pod("p4", 12, Some("n"), true)], Some(14), false);
    assert_eq!(judged(&mut core), (3, vec![]));
    core.replace(
        Kind::Pod,
        &[pod("p2", 7, Some("n"), true), pod("p4", 12, Some("n"), true), pod("p5", 15, Some("n"), true)],
        Some(16),
        false,
    );
    assert_eq!(judged(&mut core), (4, vec![3]));
}

#[test]
fn a_binding_that_was_not_judged_is_found() {
    let mut core = core_with(Graces::default());
    assert_eq!(core.unjudged(), None);
    core.audit.judge(&entry("b", "create pods/binding", 201), 0);
    assert_eq!(core.unjudged(), None, "the watch need not have come so far");
    let marker = Entry { name: core.new_marker(), ..entry("admin", "get podgroups", 404) };
    core.audit.judge(&marker, 0);
    assert!(core.unjudged().is_some());
    core.gaps = 1;
    assert_eq!(core.unjudged(), None);
}

#[test]
fn the_return_of_a_program_ends_neither_the_excuses_of_a_case_nor_longer_graces() {
    let mut core = core_with(Graces::default());
    let open = |core: &Core| -> Vec<_> {
        core.history.excuses.iter().filter(|each| each.to.is_none()).map(|each| (each.check, each.at_most)).collect()
    };
    core.excuse(1);
    core.patient(1000);
    core.absent(5000);
    core.absent(5000);
    core.patient(500);
    let of_both = [(Some(1), None), (None, Some(1000))];
    let absent = [1, 2, 6].map(|check| (Some(check), Some(5000)));
    assert_eq!(open(&core), [of_both.as_slice(), &absent].concat());
    core.present();
    assert_eq!(open(&core), of_both);
    core.absent(5000);
    core.insist(1);
    core.strict();
    assert_eq!(open(&core), absent);
}

#[tokio::test(start_paused = true)]
async fn a_long_fault_makes_the_graces_longer_while_it_lasts() {
    let advance = |seconds| tokio::time::advance(std::time::Duration::from_secs(seconds));
    let mut core = core_with(Graces { group: 5000, ..Graces::default() });
    KINDS.iter().for_each(|of| core.replace(of.0, &[], Some(1), true));
    core.begin();
    // A pod without a PodGroup.
    let orphan = |core: &mut Core, name, version| {
        core.event(Kind::Pod, &listed("Pod", name, name, version, json!({"spec": {"schedulerName": "s"}})), false, true);
    };
    let found = |core: &mut Core| {
        core.beat(0);
        core.findings().len()
    };
    core.patient(2000);
    core.longer(30_000);
    advance(10).await;
    orphan(&mut core, "meanwhile", 2);
    advance(24).await;
    assert_eq!(found(&mut core), 0, "34 s after the fault");
    advance(2).await;
    assert_eq!(found(&mut core), 1, "36 s after the fault");
    orphan(&mut core, "later", 3);
    advance(8).await;
    assert_eq!(found(&mut core), 2, "the fault is over, so only the mix is forgiven");
    core.longer(30_000);
    core.strict();
    orphan(&mut core, "last", 4);
    advance(6).await;
    assert_eq!(found(&mut core), 3, "no fault is left");
}
