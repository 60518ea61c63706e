//! Small histories, judged by kube-scheduler's filters. `at` is in milliseconds.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::kit::Kit;

const SEEN: i64 = 2000;

struct Trace {
    constraints: Constraints,
    version: u64,
    at: i64,
}

impl Trace {
    /// Two nodes in zone a and one in zone b.
    fn begin() -> Self {
        let oracle = Kit::locate().unwrap().program("oracle");
        let constraints = Constraints::start(Some(&oracle), [("ours".to_owned(), 0)].into()).unwrap();
        let mut trace = Self { constraints, version: 10, at: 0 };
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            trace.node(name, json!({ "zone": zone, "kubernetes.io/hostname": name }));
        }
        trace.wait(60_000);
        trace
    }

    fn wait(&mut self, millis: i64) -> &mut Self {
        self.at += millis;
        self
    }

    fn add(&mut self, kind: Kind, object: Value) -> &mut Self {
        self.version += 10;
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.constraints.add((self.version, self.at), kind, &object, false);
        self
    }

    fn delete(&mut self, pod: &str) -> &mut Self {
        self.version += 10;
        let object = json!({ "metadata": { "name": pod, "namespace": "n", "uid": pod } });
        self.constraints.add((self.version, self.at), Kind::Pod, &serde_json::from_value(object).unwrap(), true);
        self
    }

    fn node(&mut self, name: &str, labels: Value) -> &mut Self {
        self.add(Kind::Node, json!({ "metadata": { "name": name, "labels": labels }, "spec": {}, "status": {} }))
    }

    fn pod(&mut self, name: &str, spec: Value, node: Option<&str>) -> &mut Self {
        let mut object = json!({
            "metadata": { "name": name, "namespace": "n", "uid": name, "labels": { "app": "web" } }, "status": {},
            "spec": { "schedulerName": "ours", "containers": [{ "name": "c" }] },
        });
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        if let Some(node) = node {
            object["spec"]["nodeName"] = json!(node);
        }
        self.add(Kind::Pod, object)
    }

    /// Creates a claim and its volume of this access mode and driver, which the nodes of a zone can mount.
    fn claim(&mut self, name: &str, mode: &str, zone: &str) -> &mut Self {
        let affinity = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [zone] }] }] } });
        self.add(
            Kind::Volume,
            json!({
                "metadata": { "name": format!("pv-{name}") }, "status": { "phase": "Bound" },
                "spec": { "accessModes": [mode], "csi": { "driver": "disks", "volumeHandle": name }, "nodeAffinity": affinity },
            }),
        );
        self.add(
            Kind::Claim,
            json!({
                "metadata": { "name": name, "namespace": "n", "uid": name, "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
                "spec": { "accessModes": [mode], "volumeName": format!("pv-{name}") }, "status": { "phase": "Bound" },
            }),
        )
    }

    /// Creates these pods and binds them, in this order.
    fn bind(&mut self, pods: &[(&str, &Value, &str)]) -> &mut Self {
        pods.iter().for_each(|(name, spec, _)| _ = self.pod(name, (*spec).clone(), None));
        pods.iter().for_each(|(name, spec, node)| _ = self.pod(name, (*spec).clone(), Some(node)));
        self
    }

    /// The pods that were bound wrongly.
    fn found(&mut self) -> Vec<String> {
        self.constraints.settle(self.at + 10_000, false, |at| at - SEEN);
        self.constraints
            .findings()
            .iter()
            .map(|finding| format!("{} {}", finding.object.split([' ', '/']).nth(2).unwrap(), finding.detail))
            .collect()
    }
}

fn term(key: &str) -> Value {
    json!([{ "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": key }])
}

fn away(key: &str) -> Value {
    json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term(key) } } })
}

fn beside(key: &str) -> Value {
    json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term(key) } } })
}

fn spread() -> Value {
    let selector = json!({ "matchLabels": { "app": "web" } });
    json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector }] })
}

#[test]
fn a_binding_that_a_constraint_forbids_is_found() {
    let port = json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] });
    let selector = json!({ "nodeSelector": { "zone": "b" } });
    type Case<'a> = (&'a [(&'a str, &'a Value, &'a str)], &'a str);
    let cases: [Case<'_>; 5] = [
        (&[("p", &away("zone"), "a1"), ("q", &away("zone"), "a2")], "q the filters of kube-scheduler refuse its node a2: InterPodAffinity"),
        (
            &[("p", &beside("zone"), "a1"), ("q", &beside("zone"), "b1")],
            "q the filters of kube-scheduler refuse its node b1: InterPodAffinity",
        ),
        (&[("p", &spread(), "a1"), ("q", &spread(), "a2")], "q the filters of kube-scheduler refuse its node a2: PodTopologySpread"),
        (&[("p", &port, "a1"), ("q", &port, "a1")], "q the filters of kube-scheduler refuse its node a1: NodePorts"),
        (&[("p", &json!({}), "a1"), ("q", &selector, "a1")], "q the filters of kube-scheduler refuse its node a1: NodeAffinity"),
    ];
    for (pods, finding) in cases {
        let together = Trace::begin().bind(pods).found();
        let mut trace = Trace::begin();
        let apart = trace.bind(&pods[..1]).wait(5000).bind(&pods[1..]).found();
        for found in [together, apart] {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(finding), "{found:?}");
        }
        assert_eq!(trace.constraints.counts().constrained + trace.constraints.counts().others, 2);
    }
}

/// A pod with these claims.
fn mounts(claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    json!({ "volumes": claims.iter().map(volume).collect::<Vec<_>>() })
}

#[test]
fn a_binding_to_a_node_that_cannot_mount_the_volumes_is_found() {
    let (once, far, other) = (mounts(&["once"]), mounts(&["far"]), mounts(&["other"]));
    let ephemeral = json!({ "volumes": [{ "name": "scratch", "ephemeral": {} }] });
    type Case<'a> = (&'a [(&'a str, &'a Value, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 5] = [
        (&[("p", &once, "a1")], &[]),
        (&[("p", &once, "a1"), ("q", &once, "a1")], &["q the filters of kube-scheduler refuse its node a1: VolumeRestrictions"]),
        (&[("p", &far, "a1")], &["p the filters of kube-scheduler refuse its node a1: VolumeBinding"]),
        (&[("p", &once, "a1"), ("q", &other, "a1")], &["q the filters of kube-scheduler refuse its node a1: NodeVolumeLimits"]),
        (&[("p", &ephemeral, "a1")], &["p the filters of kube-scheduler refuse its node a1: VolumeBinding: claim p-scratch is not bound"]),
    ];
    for (pods, findings) in cases {
        let mut trace = Trace::begin();
        let drivers = json!([{ "name": "disks", "nodeID": "a1", "allocatable": { "count": 1 } }]);
        trace.add(Kind::CsiNode, json!({ "metadata": { "name": "a1" }, "spec": { "drivers": drivers } }));
        trace.claim("once", "ReadWriteOncePod", "a").claim("far", "ReadWriteOnce", "b").claim("other", "ReadWriteOnce", "a").wait(60_000);
        let found = trace.bind(pods).found();
        assert_eq!(found.len(), findings.len(), "{found:?}");
        assert!(found.iter().zip(findings).all(|(found, finding)| found.starts_with(finding)), "{found:?}");
        assert!(trace.constraints.findings().iter().all(|finding| finding.check == 11));
    }
}

#[test]
fn a_pod_that_is_bound_before_its_claim_is_found_however_short_a_time_ago_the_claim_was_bound() {
    let pod = mounts(&["c"]);
    let unbound = json!({ "metadata": { "name": "c", "namespace": "n", "uid": "c" }, "spec": {}, "status": { "phase": "Pending" } });
    let mut trace = Trace::begin();
    trace.add(Kind::Claim, unbound).wait(100).bind(&[("p", &pod, "a1")]).claim("c", "ReadWriteOnce", "a");
    assert_eq!(trace.found().len(), 1);
    // Bound just before it, and deleted just before it: the scheduler may not have seen that. The phase comes after the rest.
    let mut trace = Trace::begin();
    let volume = json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": "other", "volumeHandle": "c" } });
    trace.add(Kind::Volume, json!({ "metadata": { "name": "pv-c" }, "spec": volume, "status": { "phase": "Bound" } }));
    trace.add(
        Kind::Claim,
        json!({
            "metadata": { "name": "p-own", "namespace": "n", "uid": "c", "annotations": { "pv.kubernetes.io/bind-completed": "yes" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true }] },
            "spec": { "accessModes": ["ReadWriteOnce"], "volumeName": "pv-c" }, "status": { "phase": "Pending" },
        }),
    );
    let ephemeral = json!({ "volumes": [{ "name": "own", "ephemeral": {} }] });
    assert_eq!(trace.wait(100).bind(&[("p", &ephemeral, "a1")]).found(), Vec::<String>::new());
    let mut trace = Trace::begin();
    trace.claim("c", "ReadWriteOnce", "a").wait(100).bind(&[("p", &pod, "a1")]);
    assert_eq!(trace.found(), Vec::<String>::new());
    let deleted = |moment: i64| {
        let mut trace = Trace::begin();
        trace.claim("c", "ReadWriteOnce", "a").wait(5000).version += 10;
        let claim = serde_json::from_value(json!({ "metadata": { "name": "c", "namespace": "n", "uid": "c" } })).unwrap();
        trace.constraints.add((trace.version, trace.at), Kind::Claim, &claim, true);
        trace.wait(moment).bind(&[("p", &pod, "a1")]).found().len()
    };
    assert_eq!([deleted(500), deleted(4000)], [0, 1]);
}

#[test]
fn many_claims_without_a_volume_do_not_keep_a_binding_from_being_judged() {
    let mut trace = Trace::begin();
    for number in 0..=MOST_STATES {
        let name = format!("c-{number}");
        trace.add(
            Kind::Claim,
            json!({ "metadata": { "name": name, "namespace": "n", "uid": name }, "spec": {}, "status": { "phase": "Pending" } }),
        );
    }
    let found = trace.bind(&[("p", &mounts(&["c-0"]), "a1"), ("q", &json!({}), "a1")]).found();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("VolumeBinding: claim c-0 is not bound"), "{found:?}");
    assert_eq!(trace.constraints.counts(), JudgedConstraints { constrained: 1, others: 1, unjudged: 0 });
}

#[test]
fn bindings_that_were_decided_together_arrive_in_any_order() {
    let plain = json!({});
    // The follower needs the leader, and the leader's binding arrives later.
    let mut trace = Trace::begin();
    let mut other = beside("zone");
    other["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] =
        json!({ "matchLabels": { "app": "leader" } });
    trace.pod("follower", other.clone(), None).pod("follower", other, Some("a2"));
    let leader = |node: Value| {
        json!({ "metadata": { "name": "l", "namespace": "n", "uid": "l", "labels": { "app": "leader" } }, "status": {},
            "spec": { "schedulerName": "ours", "containers": [{ "name": "c" }], "nodeName": node } })
    };
    trace.add(Kind::Pod, leader(Value::Null)).wait(300).add(Kind::Pod, leader(json!("a1")));
    assert_eq!(trace.found(), Vec::<String>::new());
    // Four are spread over two zones; the bindings of one zone arrive first.
    let spread = spread();
    let pods = [("1", &spread, "a1"), ("2", &spread, "a2"), ("3", &spread, "b1"), ("4", &spread, "b1")];
    assert_eq!(Trace::begin().bind(&pods).found(), Vec::<String>::new());
    assert_eq!(Trace::begin().bind(&[("1", &plain, "a1")]).found(), Vec::<String>::new());
}

#[test]
fn a_change_by_another_client_is_forgiven_for_a_moment() {
    let selector = json!({ "nodeSelector": { "zone": "a" } });
    let relabelled = |moment: i64| {
        let mut trace = Trace::begin();
        trace.node("a1", json!({ "zone": "c" })).wait(moment).bind(&[("p", &selector, "a1")]).found().len()
    };
    assert_eq!([relabelled(500), relabelled(4000)], [0, 1]);
    // Its own binding counts at once, also in the states from before it.
    let away = away("kubernetes.io/hostname");
    let mut trace = Trace::begin();
    trace.bind(&[("p", &away, "a1")]).wait(1500).bind(&[("q", &away, "a1")]);
    assert_eq!(trace.found().len(), 1);
    // A pod that is gone keeps no other away.
    let mut trace = Trace::begin();
    trace.bind(&[("p", &away, "a1")]).wait(1500).delete("p").bind(&[("q", &away, "a1")]);
    assert_eq!(trace.found(), Vec::<String>::new());
    // Nor does a member of the same batch, once it is gone.
    let mut trace = Trace::begin();
    trace.bind(&[("p", &away, "a1")]).wait(300).delete("p").wait(300).bind(&[("q", &away, "a1")]);
    assert_eq!(trace.found(), Vec::<String>::new());
    // One that goes after the other binding does.
    let mut trace = Trace::begin();
    trace.bind(&[("p", &away, "a1")]).wait(300).bind(&[("q", &away, "a1")]).wait(300).delete("p");
    assert_eq!(trace.found().len(), 1);
}

#[test]
fn what_cannot_be_judged_is_counted() {
    let mut trace = Trace::begin();
    (0..MOST_NODES).for_each(|number| _ = trace.node(&format!("n{number}"), json!({})));
    let away = away("kubernetes.io/hostname");
    assert!(trace.bind(&[("p", &away, "a1"), ("q", &away, "a1")]).found().is_empty());
    assert_eq!(trace.constraints.counts(), JudgedConstraints { unjudged: 2, ..JudgedConstraints::default() });
    assert!(trace.constraints.counts().to_string().ends_with("; not judged: 2"));
}

#[test]
fn a_namespace_selector_selects_what_the_api_says_also_where_kube_scheduler_reads_it_as_every_namespace() {
    let not_team = |operator: &str| {
        let values = if operator == "NotIn" { json!(["a"]) } else { Value::Null };
        let expression = json!({ "key": "team", "operator": operator, "values": values });
        let mut away = away("zone");
        away["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
            json!({ "matchExpressions": [expression] });
        away
    };
    for operator in ["NotIn", "DoesNotExist"] {
        // The namespace of the pod that is there has the label or not.
        for (team, findings) in [(json!({ "team": "a" }), 0), (json!({}), 1)] {
            let mut trace = Trace::begin();
            trace.add(Kind::Namespace, json!({ "metadata": { "name": "n", "labels": { "team": "b" } } }));
            trace.add(Kind::Namespace, json!({ "metadata": { "name": "x", "labels": team } }));
            let there = json!({
                "metadata": { "name": "there", "namespace": "x", "uid": "there", "labels": { "app": "web" } }, "status": {},
                "spec": { "schedulerName": "other", "containers": [{ "name": "c" }], "nodeName": "a1" },
            });
            trace.add(Kind::Pod, there).wait(60_000);
            let found = trace.bind(&[("p", &not_team(operator), "a2")]).found();
            assert_eq!(found.len(), findings, "{operator}: {found:?}");
        }
        // Where the selector selects no namespace at all, the term is about none, the pod's own included.
        let mut trace = Trace::begin();
        trace.add(Kind::Namespace, json!({ "metadata": { "name": "n", "labels": { "team": "a" } } }));
        trace.pod("there", json!({ "schedulerName": "other" }), Some("a1")).wait(60_000);
        assert_eq!(trace.bind(&[("p", &not_team(operator), "a2")]).found(), Vec::<String>::new());
    }
}
