//! What do kube-scheduler's filters and our predicates answer about the same objects?

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use crate::api::volumes::{AttachmentFacts, CapacityFacts, ClaimFacts, CsiDriverFacts, CsiNodeFacts, StorageClassFacts, VolumeFacts};
use crate::api::workload::NamespaceLabels;
use crate::api::{NodeFacts, PodFacts, Uid};
use crate::cycle::explain::Reason;
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::placement::filter::{Query, refusal};
use crate::cycle::placement::finder::{Asks, NodeFinder};
use crate::cycle::placement::placer::{Attempt, Pod};
use crate::cycle::placement::topology::counting::counting;
use crate::cycle::state::SchedulingState;

/// For each node that refuses: the plugin and its reasons.
pub(super) type Answer = BTreeMap<String, Vec<String>>;

/// For each node that takes the pod: the points by plugin, with the plugin's weight.
pub(super) type Scores = BTreeMap<String, BTreeMap<String, i64>>;

/// What is said about a pod.
pub(super) struct Said {
    pub(super) answer: Answer,
    /// The message of a pod without a node, with the counts of nodes by reason; none where a node takes the pod.
    pub(super) message: Option<String>,
}

/// The running oracle.
pub(super) struct Oracle {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    pub(super) fn start() -> Self {
        let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/tools");
        let path = Command::new("bash").args(["build.sh", "--path"]).current_dir(tools).output().unwrap();
        let program = format!("{}/oracle", String::from_utf8(path.stdout).unwrap().trim());
        let started = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{program}: {error}; make tools builds it"));
        let (questions, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, questions, answers }
    }

    /// Asks about each pending pod.
    pub(super) fn ask(&mut self, question: &Value) -> Vec<Said> {
        let nodes = question["nodes"].as_array().unwrap().len();
        let said = |mut answer: Answer| {
            let message = answer.remove("").unwrap().remove(0);
            Said { message: (answer.len() == nodes).then_some(message), answer }
        };
        serde_json::from_value::<Vec<Answer>>(self.reply(question)["answers"].take()).unwrap().into_iter().map(said).collect()
    }

    /// Asks which points each plugin gives the nodes that take each pending pod.
    pub(super) fn scores(&mut self, question: &Value) -> Vec<Scores> {
        let mut question = question.clone();
        question["scores"] = true.into();
        serde_json::from_value(self.reply(&question)["scores"].take()).unwrap()
    }

    /// Returns the reply. A pod that has ended is not in kube-scheduler's snapshot.
    fn reply(&mut self, question: &Value) -> Value {
        let mut question = question.clone();
        let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        question["pods"].as_array_mut().unwrap().retain(|pod| !ended(pod));
        // In one write: the text of a value is made in small pieces, and nothing stands between this pipe and the kernel.
        self.questions.write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        assert!(reply["error"].is_null(), "{reply} for {question}");
        reply
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Answers the same question by our predicates.
pub(super) fn ours(question: &Value) -> Vec<Said> {
    let mut state = state_of(question);
    pending(question).iter().map(|uid| answer(&mut state, uid)).collect()
}

/// Returns the UIDs of the pending pods.
pub(super) fn pending(question: &Value) -> Vec<Uid> {
    let uid = |pod: &Value| Uid::from(pod["metadata"]["uid"].as_str().unwrap());
    question["pending"].as_array().unwrap().iter().map(uid).collect()
}

/// Returns a scheduling with the objects of the question.
pub(super) fn state_of(question: &Value) -> SchedulingState {
    let list = |name: &str| question[name].as_array().unwrap().clone();
    let mut state = SchedulingState::new(["ours".to_owned()]);
    for namespace in list("namespaces") {
        let labels = serde_json::from_value(namespace["metadata"]["labels"].clone()).unwrap();
        state.apply_namespace(NamespaceLabels::new(namespace["metadata"]["name"].as_str().unwrap(), labels));
    }
    for node in list("nodes") {
        state.apply_node(NodeFacts::of(&serde_json::from_value(node).unwrap()));
    }
    // Most questions have no storage objects.
    fn each<T: serde::de::DeserializeOwned>(question: &Value, name: &str) -> Vec<T> {
        question.get(name).map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default()
    }
    each(question, "claims").iter().for_each(|claim| state.apply_claim(ClaimFacts::of(claim)));
    each(question, "volumes").iter().for_each(|volume| state.apply_volume(VolumeFacts::of(volume)));
    each(question, "classes").iter().for_each(|class| state.apply_storage_class(StorageClassFacts::of(class)));
    each(question, "csiNodes").iter().for_each(|node| state.apply_csi_node(CsiNodeFacts::of(node)));
    each(question, "attachments").iter().for_each(|attachment| state.apply_attachment(AttachmentFacts::of(attachment)));
    each(question, "drivers").iter().for_each(|driver| state.apply_csi_driver(CsiDriverFacts::of(driver)));
    each(question, "capacities").iter().for_each(|capacity| state.apply_capacity(CapacityFacts::of(capacity)));
    let nominated = question["nominated"].as_array().cloned().unwrap_or_default();
    for pod in list("pods").into_iter().chain(nominated).chain(list("pending")) {
        state.apply_pod(PodFacts::of(&serde_json::from_value(pod).unwrap()));
    }
    state
}

fn answer(state: &mut SchedulingState, uid: &Uid) -> Said {
    let cache = &mut state.cache;
    let member = cache.pods()[uid].clone();
    assert!(member.facts.faults.is_empty() && member.facts.unsupported.is_empty(), "{:?}", member.facts);
    if let Some(unusable) = &member.facts.unusable_claim {
        let answer = cache.nodes().iter().map(|node| (node.name.to_string(), vec![CLAIM.to_owned(), unusable.to_string()])).collect();
        return Said { answer, message: None };
    }
    let class = Arc::clone(cache.classes().get(member.class.unwrap()).unwrap());
    let barred = [].into();
    let (mut placer, _) = cache.placer(&member.facts.group, "default", NodeStrategy::Spread);
    let pods = [Pod::new(&member.facts, member.class)];
    placer.respect_nominations(&Attempt { queue: "default", pods: &pods, needed: 1, parts: &[], preemptable: true, is_due: false });
    let snapshot = placer.trial.snapshot(NodeStrategy::Spread, &barred);
    let nodes = snapshot.nodes;
    let verdict = NodeFinder::default().verdict(&class.terms, &counting(&class, nodes), snapshot);
    let query = Query { request: &class.request, constraints: &class.constraints, verdict: &verdict, barred: &barred, images: None };
    let refused = |facts: &NodeFacts| {
        let node = snapshot.node(nodes.id(&facts.name)?)?;
        let reason = refusal(&query, &node)?.reason;
        let words: Vec<String> = if matches!(reason, Reason::Lacks(_)) {
            node.accounting.shortages(query.request).map(|short| Reason::Lacks(short.name).to_string()).collect()
        } else {
            vec![reason.to_string()]
        };
        let words = [plugin(&reason).to_owned()].into_iter().chain(words).collect();
        Some((facts.name.to_string(), words))
    };
    let answer: Answer = nodes.iter().filter_map(|facts| refused(facts)).collect();
    let asks = Asks { id: member.class.unwrap(), class: &class, users: 1, replica_of: None, images: None, within: None };
    let found = NodeFinder::default().best(asks, &[].into(), snapshot);
    assert_eq!(found.is_ok(), answer.len() < nodes.len(), "{answer:?}");
    // kube-scheduler ends its sentence.
    let message = found.err().map(|tally| format!("{}.", tally.in_words_of_kube_scheduler()));
    Said { answer, message }
}

/// Stands for the plugin where a claim cannot be used: each plugin for volumes may be the first to say so.
pub(super) const CLAIM: &str = "claim";

/// The plugin of kube-scheduler that refuses for this reason.
fn plugin(reason: &Reason) -> &'static str {
    match reason {
        Reason::Unschedulable => "NodeUnschedulable",
        Reason::Taint(_) => "TaintToleration",
        Reason::NodeSelector | Reason::NodeAffinity | Reason::NotNamed | Reason::NamesConflict => "NodeAffinity",
        Reason::HostPorts => "NodePorts",
        Reason::Lacks(_) => "NodeResourcesFit",
        Reason::TopologySpreadLabel { .. } | Reason::TopologySpread { .. } => "PodTopologySpread",
        Reason::PodAffinity { .. } | Reason::PodAntiAffinity { .. } | Reason::ExistingAntiAffinity { .. } => "InterPodAffinity",
        Reason::DeclaredFeature { .. } => "NodeDeclaredFeatures",
        Reason::ClaimInUse => "VolumeRestrictions",
        Reason::VolumeLimit => "NodeVolumeLimits",
        Reason::VolumeNodeAffinity | Reason::NoVolume | Reason::NotEnoughStorage => "VolumeBinding",
        Reason::VolumeZone => "VolumeZone",
        Reason::NodeGroup { .. } => panic!("no node has a group"),
    }
}

/// Whether both refuse a node by the same plugin, in the same words. Neither lists resources in an order that means anything.
pub(super) fn agree(ours: &[String], theirs: &[String]) -> bool {
    let sorted = |words: &[String]| words.iter().cloned().collect::<BTreeSet<String>>();
    ours[0] == theirs[0] && sorted(ours) == sorted(theirs)
}
