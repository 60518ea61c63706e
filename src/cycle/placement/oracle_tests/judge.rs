//! What do kube-scheduler's filters and our predicates answer about the same objects?

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::api::volumes::{AttachmentFacts, ClaimFacts, CsiNodeFacts, StorageClassFacts, VolumeFacts};
use crate::api::{NodeFacts, PodFacts, Uid};
use crate::cycle::explain::Reason;
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::placement::filter::{Query, refusal};
use crate::cycle::placement::finder::{Asks, NodeFinder};
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::topology::counting::counting;
use crate::cycle::state::SchedulingState;

/// For each node that refuses: the plugin and its reasons.
pub(super) type Answer = BTreeMap<String, Vec<String>>;

/// For each reason: how many nodes refuse for it.
pub(super) type Counts = BTreeMap<String, u32>;

/// What ours says about a pod.
pub(super) struct Ours {
    pub(super) answer: Answer,
    /// The counts of the message; none where a node takes the pod.
    pub(super) counts: Option<Counts>,
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

    /// Asks about each pending pod. A pod that has ended is not in kube-scheduler's snapshot.
    pub(super) fn ask(&mut self, question: &Value) -> Vec<Answer> {
        let mut question = question.clone();
        let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        question["pods"].as_array_mut().unwrap().retain(|pod| !ended(pod));
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
pub(super) fn ours(question: &Value) -> Vec<Ours> {
    let list = |name: &str| question[name].as_array().unwrap().clone();
    let mut state = SchedulingState::new(["ours".to_owned()]);
    for namespace in list("namespaces") {
        let labels = serde_json::from_value(namespace["metadata"]["labels"].clone()).unwrap();
        state.apply_namespace(namespace["metadata"]["name"].as_str().unwrap(), labels);
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
    for pod in list("pods").into_iter().chain(list("pending")) {
        state.apply_pod(PodFacts::of(&serde_json::from_value(pod).unwrap()));
    }
    let uid = |pod: &Value| Uid::from(pod["metadata"]["uid"].as_str().unwrap());
    list("pending").iter().map(|pod| answer(&state, &uid(pod))).collect()
}

fn answer(state: &SchedulingState, uid: &Uid) -> Ours {
    let cache = &state.cache;
    let member = &cache.pods[uid];
    assert!(member.facts.faults.is_empty() && member.facts.unsupported.is_empty(), "{:?}", member.facts);
    if let Some(unusable) = &member.facts.unusable_claim {
        let answer = cache.nodes.iter().map(|node| (node.name.to_string(), vec![CLAIM.to_owned(), unusable.to_string()])).collect();
        return Ours { answer, counts: None };
    }
    let class = cache.classes.get(member.class.unwrap()).unwrap();
    let barred = [].into();
    let (nodes, placed) = (&cache.nodes, &cache.on_nodes);
    let snapshot = Snapshot { nodes, ledger: cache.accounting.ledger(), placed, strategy: NodeStrategy::Spread, barred: &barred };
    let verdict = NodeFinder::default().verdict(&class.terms, &counting(class, nodes), snapshot);
    let query = Query { request: &class.request, constraints: &class.constraints, verdict: &verdict, barred: &barred };
    let refused = |facts: &NodeFacts| {
        let node = snapshot.node(nodes.id(&facts.name)?)?;
        let reason = refusal(&query, &node)?.reason;
        let words = if matches!(reason, Reason::Lacks(_)) {
            let short = node.accounting.shortages(query.request);
            ["NodeResourcesFit".to_owned()].into_iter().chain(short.map(|short| Reason::Lacks(short.name).to_string())).collect()
        } else {
            said(&reason)
        };
        Some((facts.name.to_string(), words))
    };
    let answer: Answer = nodes.iter().filter_map(|facts| refused(facts)).collect();
    let asks = Asks { id: member.class.unwrap(), class, users: 1, group: None, only: None };
    let found = NodeFinder::default().best(asks, &[].into(), snapshot);
    assert_eq!(found.is_ok(), answer.len() < nodes.len(), "{answer:?}");
    let counts = found.err().map(|tally| {
        let mut counts = Counts::new();
        tally.reasons.iter().for_each(|(reason, count)| *counts.entry(said(reason).remove(1)).or_default() += count.nodes);
        counts
    });
    Ours { answer, counts }
}

/// Counts the reasons of nodes as kube-scheduler does: each reason of each node.
pub(super) fn counted(answer: &Answer) -> Counts {
    let mut counts = Counts::new();
    for words in answer.values() {
        // Its reason names the taint.
        let plain = |reason: &String| if words[0] == TAINTS[0] { TAINTS[1].to_owned() } else { reason.clone() };
        words[1..].iter().for_each(|reason| *counts.entry(plain(reason)).or_default() += 1);
    }
    counts
}

/// Stands for the plugin where a claim cannot be used: each plugin for volumes may be the first to say so.
pub(super) const CLAIM: &str = "claim";

/// The plugin for taints, and how its reason begins.
const TAINTS: [&str; 2] = ["TaintToleration", "node(s) had untolerated taint"];

/// The plugin of kube-scheduler that refuses for this reason, and its words.
fn said(reason: &Reason) -> Vec<String> {
    let text = match reason {
        Reason::Unschedulable => ["NodeUnschedulable", "node(s) were unschedulable"],
        Reason::Taint(_) => TAINTS,
        Reason::NodeSelector | Reason::NodeAffinity => ["NodeAffinity", "node(s) didn't match Pod's node affinity/selector"],
        Reason::HostPorts => ["NodePorts", "node(s) didn't have free ports for the requested pod ports"],
        Reason::Lacks(_) => return vec!["NodeResourcesFit".to_owned(), reason.to_string()],
        Reason::TopologySpreadLabel { .. } => {
            ["PodTopologySpread", "node(s) didn't match pod topology spread constraints (missing required label)"]
        }
        Reason::TopologySpread { .. } => ["PodTopologySpread", "node(s) didn't match pod topology spread constraints"],
        Reason::PodAffinity { .. } => ["InterPodAffinity", "node(s) didn't match pod affinity rules"],
        Reason::PodAntiAffinity { .. } => ["InterPodAffinity", "node(s) didn't match pod anti-affinity rules"],
        Reason::ExistingAntiAffinity { .. } => ["InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"],
        Reason::DeclaredFeature { .. } => ["NodeDeclaredFeatures", "node(s) didn't match Pod's required features"],
        Reason::ClaimInUse => [
            "VolumeRestrictions",
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        ],
        Reason::VolumeLimit => ["NodeVolumeLimits", "node(s) exceed max volume count"],
        Reason::VolumeNodeAffinity => ["VolumeBinding", "node(s) didn't match PersistentVolume's node affinity"],
        Reason::VolumeZone => ["VolumeZone", "node(s) had no available volume zone"],
        Reason::NodeGroup { .. } => panic!("no node has a group"),
    };
    text.map(str::to_owned).into()
}

/// Whether the node affinity of the pod names nodes. Elsewhere the pod is refused by the node affinity before any filter is asked; our order is that of the
/// filters.
pub(super) fn names_nodes(pod: &Value) -> bool {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let names_nodes = |term: &Value| term["matchFields"].as_array().is_some_and(|fields| !fields.is_empty());
    terms.as_array().is_some_and(|terms| terms.iter().all(names_nodes))
}

/// Whether both refuse a node for the same reasons.
pub(super) fn agree(ours: &[String], theirs: &[String], pod: &Value) -> bool {
    if theirs[0] == "NodeAffinity" && names_nodes(pod) {
        return true;
    }
    let sorted = |words: &[String]| words.iter().cloned().collect::<BTreeSet<String>>();
    match theirs[0].as_str() {
        plugin if plugin == TAINTS[0] => ours[0] == plugin && theirs[1].starts_with(&ours[1]),
        _ => ours[0] == theirs[0] && sorted(ours) == sorted(theirs),
    }
}
