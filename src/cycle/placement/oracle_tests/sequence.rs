//! Pods and gangs come and go, nodes and namespaces change, and the scheduler decides: kube-scheduler's filters take each pod that is
//! bound, on its node and at its moment, and no node of those that wait for one.
//!
//! A moment of a binding is the snapshot before the cycle, with the bindings of the cycle before it: members of a gang may need the earlier ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::api::names::{CHARGED_QUEUE, GROUP_NAME, QUEUE_PATH};
use crate::api::workload::NamespaceLabels;
use crate::api::{GroupKey, NodeFacts, PodFacts, Uid};
use crate::cycle;
use crate::cycle::explain::Refusal;
use crate::cycle::plan::{Bind, Plan};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{PEACEFUL, POLICY, group};

use super::clusters::{named_node, namespace, namespace_labels, node, placed};
use super::judge::Oracle;
use super::nominated::{counts_nominated_alone, nominated};
use super::pods::{NAMESPACES, named, pod};
use super::terms::labels;

#[derive(Clone, Debug)]
enum Step {
    /// A PodGroup comes with these pods, of which so many must be placed together.
    Gang {
        members: Vec<Value>,
        minimum: usize,
        priority: i32,
    },
    /// A pod comes that is on a node already.
    Placed(Box<Value>, Index),
    /// A pod of another scheduler comes, with a nominated node.
    Nominated(Box<Value>, Index),
    Gone(Index),
    /// A pod on a node is to terminate.
    Terminating(Index),
    /// A pod on a node succeeds.
    Ended(Index),
    /// A pod has other labels.
    Relabelled(Index, Value),
    /// A node comes or changes.
    Node(usize, Value),
    NodeGone(usize),
    /// A namespace has other labels, or is gone.
    Namespace(usize, Option<Value>),
}

#[derive(Clone, Debug)]
struct History {
    nodes: Vec<Value>,
    namespaces: Vec<Option<Value>>,
    evictions: bool,
    steps: Vec<Step>,
}

const NODES: usize = 8;

fn gang() -> impl Strategy<Value = Step> {
    let members = prop_oneof![
        2 => prop::collection::vec(pod(), 1..2),
        2 => (pod(), 2..5_usize).prop_map(|(pod, count)| vec![pod; count]),
        1 => prop::collection::vec(pod(), 2..5),
    ];
    (members, any::<Index>(), 0..3_i32).prop_map(|(members, minimum, priority)| {
        let minimum = minimum.index(members.len()) + 1;
        Step::Gang { members, minimum, priority }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    prop_oneof![
        12 => gang(),
        3 => (placed(), index()).prop_map(|(pod, node)| Step::Placed(Box::new(pod), node)),
        1 => nominated().prop_map(|(pod, node)| Step::Nominated(Box::new(pod), node)),
        4 => index().prop_map(Step::Gone),
        1 => index().prop_map(Step::Terminating),
        1 => index().prop_map(Step::Ended),
        2 => (index(), labels()).prop_map(|(pod, labels)| Step::Relabelled(pod, labels)),
        3 => (0..NODES, node()).prop_map(|(number, node)| Step::Node(number, node)),
        1 => (0..NODES).prop_map(Step::NodeGone),
        1 => (0..NAMESPACES.len(), namespace_labels()).prop_map(|(at, labels)| Step::Namespace(at, labels)),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let namespaces = prop::collection::vec(namespace_labels(), NAMESPACES.len());
    (prop::collection::vec(node(), 3..NODES), namespaces, any::<bool>(), prop::collection::vec(step(), 1..40))
        .prop_map(|(nodes, namespaces, evictions, steps)| History { nodes, namespaces, evictions, steps })
}

/// The cluster as the API server has it, and the scheduler's state.
struct Cluster {
    nodes: BTreeMap<String, Value>,
    namespaces: BTreeMap<&'static str, Value>,
    pods: BTreeMap<String, Value>,
    state: SchedulingState,
    pods_so_far: usize,
    now: Duration,
}

impl Cluster {
    fn new() -> Self {
        let (nodes, namespaces, pods) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { nodes, namespaces, pods, state: SchedulingState::new(["ours".to_owned()]), pods_so_far: 0, now: Duration::ZERO }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Gang { members, minimum, priority } => self.add_gang(members, minimum, priority),
            Step::Placed(pod, node) => {
                let Some(node) = pick(&self.nodes, &node) else { return };
                let mut pod = named(*pod, &self.next_name());
                pod["spec"]["nodeName"] = json!(node);
                self.put_pod(pod);
            }
            Step::Nominated(pod, node) => {
                let Some(node) = pick(&self.nodes, &node) else { return };
                let mut pod = named(*pod, &self.next_name());
                pod["status"]["nominatedNodeName"] = json!(node);
                self.put_pod(pod);
            }
            Step::Gone(pod) => pick(&self.pods, &pod).into_iter().for_each(|uid| self.delete_pod(&uid)),
            Step::Terminating(pod) => self.change_pod(&pod, |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            Step::Ended(pod) => self.change_pod(&pod, |pod| pod["status"]["phase"] = json!("Succeeded")),
            Step::Relabelled(pod, labels) => {
                let Some(uid) = pick(&self.pods, &pod) else { return };
                let mut pod = self.pods[&uid].clone();
                pod["metadata"]["labels"] = labels;
                self.put_pod(pod);
            }
            Step::Node(number, node) => {
                let node = named_node(node, number);
                self.state.apply_node(NodeFacts::of(&serde_json::from_value(node.clone()).unwrap()));
                self.nodes.insert(format!("n{number}"), node);
            }
            Step::NodeGone(number) => {
                let name = format!("n{number}");
                self.state.delete_node(&name);
                self.nodes.remove(&name);
                let there: Vec<String> =
                    self.pods.iter().filter(|(_, pod)| pod["spec"]["nodeName"] == name).map(|(uid, _)| uid.clone()).collect();
                there.iter().for_each(|uid| self.delete_pod(uid));
            }
            Step::Namespace(at, Some(labels)) => {
                self.state.apply_namespace(NamespaceLabels::new(NAMESPACES[at], serde_json::from_value(labels.clone()).unwrap()));
                self.namespaces.insert(NAMESPACES[at], namespace(NAMESPACES[at], &labels));
            }
            Step::Namespace(at, None) => {
                self.state.delete_namespace(NAMESPACES[at]);
                self.namespaces.remove(NAMESPACES[at]);
            }
        }
    }

    fn add_gang(&mut self, members: Vec<Value>, minimum: usize, priority: i32) {
        let of_gang = members[0]["metadata"]["namespace"].clone();
        let name = format!("g{}", self.pods_so_far);
        self.state.apply_group(group(of_gang.as_str().unwrap(), &name, u32::try_from(minimum).unwrap(), "default"));
        for member in members {
            let mut member = named(member, &self.next_name());
            member["metadata"]["namespace"] = of_gang.clone();
            member["metadata"]["annotations"] = json!({ GROUP_NAME: name });
            member["spec"]["priority"] = json!(priority);
            self.put_pod(member);
        }
    }

    fn next_name(&mut self) -> String {
        self.pods_so_far += 1;
        format!("p{:03}", self.pods_so_far)
    }

    fn put_pod(&mut self, pod: Value) {
        self.state.apply_pod(PodFacts::of(&serde_json::from_value(pod.clone()).unwrap()));
        self.pods.insert(pod["metadata"]["uid"].as_str().unwrap().to_owned(), pod);
    }

    /// Changes a pod that is on a node.
    fn change_pod(&mut self, pod: &Index, change: impl Fn(&mut Value)) {
        let Some(mut pod) = pick(&self.pods, pod).map(|uid| self.pods[&uid].clone()) else { return };
        if is_placed(&pod) {
            change(&mut pod);
            self.put_pod(pod);
        }
    }

    fn delete_pod(&mut self, uid: &str) {
        self.state.delete_pod(&Uid::from(uid));
        self.pods.remove(uid);
    }

    /// What kube-scheduler is asked about a pod at this moment.
    fn question(&self, pod: &Value) -> Value {
        let pods: Vec<&Value> = self.pods.values().filter(|pod| is_placed(pod)).collect();
        let (nodes, namespaces): (Vec<_>, Vec<_>) = (self.nodes.values().collect(), self.namespaces.values().collect());
        let nominated: Vec<&Value> = self.pods.values().filter(|pod| !is_placed(pod) && is_nominated(pod)).collect();
        json!({ "nodes": nodes, "pods": pods, "namespaces": namespaces, "pending": [pod], "nominated": nominated })
    }

    /// The bindings and the evictions of a plan take effect. Returns the pods as they are bound, in order.
    fn carry_out(&mut self, plan: &Plan, mut before: impl FnMut(&Self, &Value, &Bind)) {
        for bind in &plan.binds {
            let mut pod = self.pods[bind.uid.as_str()].clone();
            before(self, &pod, bind);
            pod["spec"]["nodeName"] = json!(*bind.node);
            pod["metadata"]["annotations"][CHARGED_QUEUE] = json!(*bind.queue);
            pod["metadata"]["annotations"][QUEUE_PATH] = json!(*bind.path);
            self.pods.insert(bind.uid.as_str().to_owned(), pod);
        }
        for bind in &plan.binds {
            self.state.confirm(&bind.uid);
            let pod = self.pods[bind.uid.as_str()].clone();
            self.put_pod(pod);
        }
        for victim in plan.evictions.iter().flat_map(|eviction| &eviction.victims) {
            let mut pod = self.pods[victim.uid.as_str()].clone();
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            self.put_pod(pod);
        }
    }

    /// The pods of PodGroups of one that wait because every node refuses them, as the scheduler says.
    fn refused_everywhere(&self) -> impl Iterator<Item = &Value> {
        let waits = |pod: &&Value| {
            let Some(name) = pod["metadata"]["annotations"][GROUP_NAME].as_str().filter(|_| !is_placed(pod)) else { return false };
            let key = GroupKey::new(pod["metadata"]["namespace"].as_str().unwrap(), name);
            let group = &self.state.cache().groups()[&key];
            let one = group.facts.as_ref().is_some_and(|facts| facts.min_member == 1) && group.waiting.len() == 1;
            one && matches!(group.refusal.as_deref(), Some(Refusal::Nodes { .. }))
        };
        self.pods.values().filter(waits)
    }
}

fn pick(from: &BTreeMap<String, Value>, index: &Index) -> Option<String> {
    (!from.is_empty()).then(|| from.keys().nth(index.index(from.len())).unwrap().clone())
}

fn is_nominated(pod: &Value) -> bool {
    pod["status"]["nominatedNodeName"].is_string()
}

fn is_placed(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

/// What was judged in a run.
#[derive(Debug, Default)]
struct Judged {
    bindings: Cell<u32>,
    of_gangs: Cell<u32>,
    evictions: Cell<u32>,
    refusals: Cell<u32>,
    beside_nominated: Cell<u32>,
}

fn play(history: History, oracle: &RefCell<Oracle>, judged: &Judged) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::new();
    history.nodes.into_iter().enumerate().for_each(|(number, node)| cluster.apply(Step::Node(number, node)));
    history.namespaces.into_iter().enumerate().for_each(|(at, labels)| cluster.apply(Step::Namespace(at, labels)));
    let more = |count: &Cell<u32>, by: usize| count.set(count.get() + u32::try_from(by).unwrap());
    let policy = if history.evictions { POLICY } else { PEACEFUL };
    for (number, step) in history.steps.into_iter().enumerate() {
        let shown = format!("{step:?}");
        cluster.apply(step);
        cluster.now += Duration::from_secs(1);
        for _ in 0..5 {
            let plan = cycle::run(&mut cluster.state, &policy, cluster.now);
            let mut wrong = None;
            cluster.carry_out(&plan, |cluster, pod, bind| {
                let question = cluster.question(pod);
                let refused = oracle.borrow_mut().ask(&question).remove(0).answer.remove(&*bind.node);
                let beside_nominated = question["nominated"] != json!([]);
                // A difference on purpose: such a spread counts no pod, and for kube-scheduler nominated pods.
                let differs = |said: &Vec<String>| beside_nominated && said[0] == "PodTopologySpread" && counts_nominated_alone(pod);
                let refused = refused.filter(|said| !differs(said));
                more(&judged.bindings, 1);
                more(&judged.beside_nominated, usize::from(beside_nominated));
                wrong = wrong.take().or_else(|| refused.map(|said| format!("{} on {}: {said:?} in {question}", bind.name, bind.node)));
            });
            prop_assert!(wrong.is_none(), "{wrong:?} after {shown}");
            more(
                &judged.of_gangs,
                plan.binds.iter().filter(|bind| plan.binds.iter().filter(|one| one.group == bind.group).count() > 1).count(),
            );
            more(&judged.evictions, plan.evictions.len());
            if !cluster.state.has_work(cluster.now) {
                break;
            }
        }
        // What is kept for others (a gang that preempts, or that has lost a member) is not free and counts in domains, and kube-scheduler
        // is not told of it.
        if cluster.nodes.keys().any(|name| cluster.state.nominated_on(name).is_some()) {
            continue;
        }
        // A few of them in each step, in turn.
        for pod in cluster.refused_everywhere().skip(number % 3).step_by(3) {
            let question = cluster.question(pod);
            let refused = oracle.borrow_mut().ask(&question).remove(0).answer;
            more(&judged.refusals, 1);
            let taken = cluster.nodes.keys().find(|name| !refused.contains_key(*name));
            prop_assert!(taken.is_none(), "{pod} is parked, and {taken:?} takes it: {refused:?} after {shown} in {question}");
        }
    }
    Ok(())
}

#[test]
fn property_kube_scheduler_takes_each_pod_on_its_node_at_the_moment_of_its_binding() {
    let (oracle, judged) = (RefCell::new(Oracle::start()), Judged::default());
    TestRunner::new(crate::random_tests::config(300)).run(&history(), |history| play(history, &oracle, &judged)).unwrap();
    println!("{judged:?}");
    assert!(judged.bindings.get() > 1_000 && judged.of_gangs.get() > 500, "{judged:?}");
    assert!(judged.beside_nominated.get() > 100, "{judged:?}");
    assert!(judged.evictions.get() > 10 && judged.refusals.get() > 1_000, "{judged:?}");
}
