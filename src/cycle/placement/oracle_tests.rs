//! kube-scheduler's own plugins and our predicates say the same of each node, for random clusters and pods.
//!
//! The oracle is a program that asks the filters of kube-scheduler 1.36.3 (`e2e/tools/oracle`, built by `make tools`). Both get the same objects as
//! JSON. Compared is, for each node, whether it takes the pod, and if not, the first plugin that refuses and its reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::api::{NodeFacts, PodFacts, Uid};
use crate::cycle::explain::Reason;
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::placement::filter::{Query, refusal};
use crate::cycle::placement::finder::NodeFinder;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::topology::counting::counting;
use crate::cycle::state::SchedulingState;

/// For each node that refuses: the plugin and its reasons.
type Answer = BTreeMap<String, Vec<String>>;

/// The running oracle.
struct Oracle {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start() -> Self {
        let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/tools");
        let path = Command::new("bash").args(["build.sh", "--path"]).current_dir(tools).output().unwrap();
        let program = format!("{}/oracle", String::from_utf8(path.stdout).unwrap().trim());
        let started = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{program}: {error}; make tools builds it"));
        let (questions, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, questions, answers }
    }

    fn ask(&mut self, question: &Value) -> Vec<Answer> {
        writeln!(self.questions, "{question}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let mut reply: Value = serde_json::from_str(&line).unwrap();
        assert!(reply["error"].is_null(), "{reply} for {question}");
        serde_json::from_value(reply["answers"].take()).unwrap()
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Answers the same question by our predicates.
fn ours(question: &Value) -> Vec<Answer> {
    let list = |name: &str| question[name].as_array().unwrap().clone();
    let mut state = SchedulingState::new(["ours".to_owned()]);
    for namespace in list("namespaces") {
        let labels = serde_json::from_value(namespace["metadata"]["labels"].clone()).unwrap();
        state.apply_namespace(namespace["metadata"]["name"].as_str().unwrap(), labels);
    }
    for node in list("nodes") {
        state.apply_node(NodeFacts::of(&serde_json::from_value(node).unwrap()));
    }
    for pod in list("pods").into_iter().chain(list("pending")) {
        state.apply_pod(PodFacts::of(&serde_json::from_value(pod).unwrap()));
    }
    let uid = |pod: &Value| Uid::from(pod["metadata"]["uid"].as_str().unwrap());
    list("pending").iter().map(|pod| answer(&state, &uid(pod))).collect()
}

fn answer(state: &SchedulingState, uid: &Uid) -> Answer {
    let cache = &state.cache;
    let member = &cache.pods[uid];
    assert!(member.facts.faults.is_empty() && member.facts.unsupported.is_empty(), "{:?}", member.facts);
    let class = cache.classes.get(member.class.unwrap()).unwrap();
    let barred = [].into();
    let (nodes, placed) = (&cache.nodes, &cache.on_nodes);
    let snapshot = Snapshot { nodes, ledger: cache.accounting.ledger(), placed, strategy: NodeStrategy::Spread, barred: &barred };
    let verdict = NodeFinder::default().verdict(&class.terms, &counting(class, nodes), snapshot);
    let query = Query { request: &class.request, constraints: &class.constraints, verdict: &verdict, barred: &barred };
    let refused = |facts: &NodeFacts| {
        let node = snapshot.node(nodes.id(&facts.name)?)?;
        Some((facts.name.to_string(), said(&refusal(&query, &node)?.reason)))
    };
    nodes.iter().filter_map(|facts| refused(facts)).collect()
}

/// The plugin of kube-scheduler that refuses for this reason, and its words.
fn said(reason: &Reason) -> Vec<String> {
    let text = match reason {
        Reason::Unschedulable => ["NodeUnschedulable", "node(s) were unschedulable"],
        Reason::Taint(_) => ["TaintToleration", "node(s) had untolerated taint"],
        Reason::NodeSelector | Reason::NodeAffinity => ["NodeAffinity", "node(s) didn't match Pod's node affinity/selector"],
        Reason::HostPorts => ["NodePorts", "node(s) didn't have free ports for the requested pod ports"],
        Reason::Lacks(name) => return vec!["NodeResourcesFit".into(), name.to_string()],
        Reason::TopologySpreadLabel { .. } => {
            ["PodTopologySpread", "node(s) didn't match pod topology spread constraints (missing required label)"]
        }
        Reason::TopologySpread { .. } => ["PodTopologySpread", "node(s) didn't match pod topology spread constraints"],
        Reason::PodAffinity { .. } => ["InterPodAffinity", "node(s) didn't match pod affinity rules"],
        Reason::PodAntiAffinity { .. } => ["InterPodAffinity", "node(s) didn't match pod anti-affinity rules"],
        Reason::ExistingAntiAffinity { .. } => ["InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"],
        Reason::DeclaredFeature { .. } => ["NodeDeclaredFeatures", "node(s) didn't match Pod's required features"],
        Reason::NodeGroup { .. } => panic!("no node has a group"),
    };
    text.map(str::to_owned).into()
}

/// Whether both refuse a node for the same reason.
///
/// A pod whose node affinity names nodes is refused elsewhere by the node affinity before any filter is asked; our order is that of the filters.
fn agree(ours: &[String], theirs: &[String], pod: &Value) -> bool {
    let [plugin, reason] = ours else { return false };
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let names_nodes = |term: &Value| term["matchFields"].as_array().is_some_and(|fields| !fields.is_empty());
    if theirs[0] == "NodeAffinity" && terms.as_array().is_some_and(|terms| terms.iter().all(names_nodes)) {
        return true;
    }
    let says = |text: &String| match plugin.as_str() {
        // Its reason names the taint.
        "TaintToleration" => text.starts_with(reason.as_str()),
        "NodeResourcesFit" => *text == format!("Insufficient {reason}") || (reason == "pods" && text == "Too many pods"),
        _ => text == reason,
    };
    theirs.first() == Some(plugin) && theirs.iter().skip(1).any(says)
}

fn labels() -> impl Strategy<Value = Value> {
    let value = || prop::option::weighted(0.7, 0..2_u8);
    (value(), value()).prop_map(|(app, tier)| {
        let label = |key: &str, value: Option<u8>| value.map(|value| (key.to_owned(), json!(value.to_string())));
        Value::Object(label("app", app).into_iter().chain(label("tier", tier)).collect())
    })
}

/// A label selector, sometimes empty or missing.
fn selector() -> impl Strategy<Value = Value> {
    let values = || prop::collection::btree_set((0..2_u8).prop_map(|value| value.to_string()), 1..3);
    let key = || prop_oneof![Just("app"), Just("tier")];
    let expression = prop_oneof![
        (key(), values()).prop_map(|(key, values)| json!({ "key": key, "operator": "In", "values": values })),
        (key(), values()).prop_map(|(key, values)| json!({ "key": key, "operator": "NotIn", "values": values })),
        key().prop_map(|key| json!({ "key": key, "operator": "Exists" })),
        key().prop_map(|key| json!({ "key": key, "operator": "DoesNotExist" })),
    ];
    prop_oneof![
        6 => (labels(), prop::collection::vec(expression, 0..2))
            .prop_map(|(labels, expressions)| json!({ "matchLabels": labels, "matchExpressions": expressions })),
        1 => Just(json!({})),
        1 => Just(Value::Null),
    ]
}

fn topology_key() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("zone"), 2 => Just("kubernetes.io/hostname"), 1 => Just("rack"), 1 => Just("nowhere")]
}

fn terms() -> impl Strategy<Value = Value> {
    let team = |operator: &str| json!({ "matchExpressions": [{ "key": "team", "operator": operator }] });
    let of_namespaces = prop_oneof![4 => Just(Value::Null), 1 => Just(json!({})), 2 => Just(team("Exists"))];
    let names = prop::collection::btree_set(prop_oneof![Just("x"), Just("y")], 0..2);
    let term = (selector(), topology_key(), of_namespaces, names).prop_map(|(selector, topology_key, of_namespaces, names)| {
        json!({ "labelSelector": selector, "topologyKey": topology_key, "namespaceSelector": of_namespaces, "namespaces": names })
    });
    prop::collection::vec(term, 0..3).prop_map(|terms| json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms }))
}

fn spread() -> impl Strategy<Value = Value> {
    let policy = || prop::option::of(prop_oneof![Just("Honor"), Just("Ignore")]);
    let keys = prop::collection::btree_set(prop_oneof![Just("app"), Just("tier"), Just("none")], 0..2);
    let constraint =
        (selector(), topology_key(), 1..3_i32, prop::option::of(1..4_i32), policy(), policy(), keys, prop::bool::weighted(0.8)).prop_map(
            |(selector, topology_key, max_skew, min_domains, affinity, taints, keys, hard)| {
                json!({
                    "labelSelector": selector, "topologyKey": topology_key, "maxSkew": max_skew,
                    "minDomains": if hard { json!(min_domains) } else { Value::Null },
                    "nodeAffinityPolicy": affinity, "nodeTaintsPolicy": taints, "matchLabelKeys": keys,
                    "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
                })
            },
        );
    prop::collection::vec(constraint, 0..3).prop_map(Value::Array)
}

fn ports() -> impl Strategy<Value = Value> {
    let address = prop_oneof![2 => Just(""), 1 => Just("0.0.0.0"), 1 => Just("10.0.0.1"), 1 => Just("10.0.0.2")];
    let port = (0..3_u16, address, prop::option::of(prop_oneof![Just("TCP"), Just("UDP")]))
        .prop_map(|(port, address, protocol)| json!({ "containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol }));
    prop_oneof![3 => Just(json!([])), 1 => prop::collection::vec(port, 1..3).prop_map(Value::Array)]
}

fn node_affinity() -> impl Strategy<Value = Value> {
    let label = prop_oneof![Just("zone"), Just("rack"), Just("gen"), Just("none")];
    let requirement = prop_oneof![
        (label.clone(), prop::collection::btree_set(0..3_u8, 1..3), any::<bool>()).prop_map(|(key, values, is_in)| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            json!({ "key": key, "operator": if is_in { "In" } else { "NotIn" }, "values": values })
        }),
        (label.clone(), any::<bool>())
            .prop_map(|(key, exists)| json!({ "key": key, "operator": if exists { "Exists" } else { "DoesNotExist" } })),
        (label, 0..3_u8, any::<bool>())
            .prop_map(|(key, bound, gt)| json!({ "key": key, "operator": if gt { "Gt" } else { "Lt" }, "values": [bound.to_string()] })),
    ];
    let field = (0..4_u8, any::<bool>()).prop_map(
        |(node, is_in)| json!({ "key": "metadata.name", "operator": if is_in { "In" } else { "NotIn" }, "values": [format!("n{node}")] }),
    );
    let term = (prop::collection::vec(requirement, 0..3), prop::collection::vec(field, 0..2))
        .prop_map(|(expressions, fields)| json!({ "matchExpressions": expressions, "matchFields": fields }));
    prop_oneof![
        3 => Just(Value::Null),
        1 => prop::collection::vec(term, 1..3)
            .prop_map(|terms| json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } })),
    ]
}

fn tolerations() -> impl Strategy<Value = Value> {
    let effect = prop_oneof![Just(""), Just("NoSchedule"), Just("NoExecute")];
    let toleration = prop_oneof![
        (prop_oneof![Just("k"), Just("l"), Just("node.kubernetes.io/unschedulable"), Just("")], effect.clone())
            .prop_map(|(key, effect)| json!({ "key": key, "operator": "Exists", "effect": effect })),
        (prop_oneof![Just("k"), Just("l")], prop_oneof![Just("v"), Just("w")], effect, prop_oneof![Just("Equal"), Just("")])
            .prop_map(|(key, value, effect, operator)| json!({ "key": key, "operator": operator, "value": value, "effect": effect })),
    ];
    prop::collection::vec(toleration, 0..3).prop_map(Value::Array)
}

/// A pod without a name. Each kind of constraint is there or not, so that each pair of kinds comes alone, too.
fn pod() -> impl Strategy<Value = Value> {
    fn some(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        prop_oneof![Just(Value::Null), value]
    }
    let selector = prop_oneof![4 => Just(json!({})), 1 => (0..2_u8).prop_map(|zone| json!({ "zone": zone.to_string() }))];
    let namespace = prop_oneof![Just("x"), Just("y")];
    let container = (
        ports(),
        prop_oneof![3 => Just(json!({})), 2 => (1..3_u8).prop_map(|cpu| json!({ "cpu": cpu.to_string() }))],
        prop::bool::weighted(0.1),
    );
    let init = (ports(), any::<bool>());
    let constraints = (some(terms()), some(terms()), some(spread()), node_affinity(), tolerations(), selector);
    let host = (prop::bool::weighted(0.1), prop::option::weighted(0.2, any::<bool>()));
    (namespace, labels(), container, init, constraints, host, prop::bool::weighted(0.2)).prop_map(
        |(namespace, labels, (ports, requests, restarts), (init_ports, sidecar), constraints, (network, users), leaving)| {
            let (affinity, anti_affinity, spread, node_affinity, tolerations, selector) = constraints;
            let rules = if restarts {
                json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [1] } }])
            } else {
                json!([])
            };
            let init = json!({ "name": "i", "ports": init_ports, "restartPolicy": if sidecar { json!("Always") } else { Value::Null } });
            json!({
                "metadata": {
                    "namespace": namespace, "labels": labels,
                    "deletionTimestamp": if leaving { json!("2026-01-01T00:00:00Z") } else { Value::Null },
                },
                "spec": {
                    "schedulerName": "ours", "hostNetwork": network, "hostUsers": users, "nodeSelector": selector, "tolerations": tolerations,
                    "containers": [{ "name": "c", "ports": ports, "resources": { "requests": requests }, "restartPolicyRules": rules }],
                    "initContainers": [init], "topologySpreadConstraints": spread,
                    "affinity": { "podAffinity": affinity, "podAntiAffinity": anti_affinity, "nodeAffinity": node_affinity },
                },
                "status": {},
            })
        },
    )
}

fn node() -> impl Strategy<Value = Value> {
    let taint = (
        prop_oneof![Just("k"), Just("l")],
        prop_oneof![Just("v"), Just("w")],
        prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")],
    )
        .prop_map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }));
    let taints = prop_oneof![3 => Just(json!([])), 1 => prop::collection::vec(taint, 1..3).prop_map(Value::Array)];
    let features = prop::bool::weighted(0.7);
    let label = || prop::option::weighted(0.8, 0..2_u8);
    (label(), label(), label(), taints, prop::bool::weighted(0.1), 0..5_u8, features).prop_map(
        |(zone, rack, generation, taints, unschedulable, cpu, features)| {
            let labels: Map<String, Value> = [("zone", zone), ("rack", rack), ("gen", generation)]
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), json!(value?.to_string()))))
                .collect();
            let features =
                if features { json!(["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]) } else { json!([]) };
            json!({
                "metadata": { "labels": labels },
                "spec": { "taints": taints, "unschedulable": unschedulable },
                "status": { "allocatable": { "cpu": cpu.to_string(), "pods": "4" }, "declaredFeatures": features },
            })
        },
    )
}

/// Takes the fields away that are null, as the API server does.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, without_nulls(value))).collect(),
        ),
        Value::Array(values) => Value::Array(values.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn question() -> impl Strategy<Value = Value> {
    let placed = prop::collection::vec((pod(), any::<prop::sample::Index>()), 0..9);
    let team = || prop_oneof![Just(json!({})), Just(json!({ "team": "a" }))];
    (prop::collection::vec(node(), 1..7), placed, prop::collection::vec(pod(), 1..4), team(), team()).prop_map(
        |(mut nodes, placed, mut pending, of_x, of_y)| {
            for (number, node) in nodes.iter_mut().enumerate() {
                let name = format!("n{number}");
                node["metadata"]["name"] = json!(name);
                node["metadata"]["uid"] = json!(name);
                node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
            }
            let name = |pod: &mut Value, name: String| {
                pod["metadata"]["name"] = json!(name);
                pod["metadata"]["uid"] = json!(name);
            };
            let mut pods = Vec::new();
            for (number, (mut pod, node)) in placed.into_iter().enumerate() {
                name(&mut pod, format!("placed-{number}"));
                pod["spec"]["nodeName"] = nodes[node.index(nodes.len())]["metadata"]["name"].clone();
                pod["spec"]["schedulerName"] = json!("theirs");
                pods.push(pod);
            }
            for (number, pod) in pending.iter_mut().enumerate() {
                name(pod, format!("pending-{number}"));
                pod["metadata"]["deletionTimestamp"] = Value::Null;
            }
            let namespace = |name: &str, labels: Value| json!({ "metadata": { "name": name, "labels": labels } });
            without_nulls(
                json!({ "nodes": nodes, "pods": pods, "pending": pending, "namespaces": [namespace("x", of_x), namespace("y", of_y)] }),
            )
        },
    )
}

#[test]
fn property_kube_scheduler_and_our_predicates_say_the_same_of_each_node() {
    let (oracle, seen) = (RefCell::new(Oracle::start()), RefCell::new(BTreeMap::<String, u32>::new()));
    let mut runner = TestRunner::new(crate::random_tests::config(5_000));
    let done = runner.run(&question(), |question| {
        let (theirs, ours) = (oracle.borrow_mut().ask(&question), ours(&question));
        for (number, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
            for node in question["nodes"].as_array().unwrap() {
                let name = node["metadata"]["name"].as_str().unwrap();
                let (ours, theirs) = (ours.get(name), theirs.get(name));
                let same = match (ours, theirs) {
                    (None, None) => true,
                    (Some(ours), Some(theirs)) => agree(ours, theirs, &question["pending"][number]),
                    _ => false,
                };
                prop_assert!(same, "{name}: ours {ours:?}, theirs {theirs:?} for {} in {question}", question["pending"][number]);
                *seen.borrow_mut().entry(ours.map_or_else(String::new, |said| said.join(": "))).or_default() += 1;
            }
        }
        Ok(())
    });
    done.unwrap();
    println!("{:#?}", seen.borrow());
    let plugins: BTreeSet<String> = seen.borrow().keys().map(|said| said.split(':').next().unwrap_or_default().to_owned()).collect();
    // With the nodes that take the pod.
    assert_eq!(plugins.len(), 9, "{plugins:?}");
}
