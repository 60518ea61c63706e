//! Which kinds of constraint does a question have, and which of them refused a node?

use std::collections::BTreeSet;

use serde_json::Value;

/// A kind of constraint: of the pod, or of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Cordoned,
    Taints,
    NodeAffinity,
    HostPorts,
    Resources,
    Spread,
    SpreadLabel,
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    Features,
}

pub(super) const KINDS: [Kind; 11] = [
    Kind::Cordoned,
    Kind::Taints,
    Kind::NodeAffinity,
    Kind::HostPorts,
    Kind::Resources,
    Kind::Spread,
    Kind::SpreadLabel,
    Kind::Affinity,
    Kind::AntiAffinity,
    Kind::ExistingAntiAffinity,
    Kind::Features,
];

/// Returns the kinds that the pod has, or that the cluster has for any pod.
pub(super) fn present(question: &Value, pod: &Value) -> BTreeSet<Kind> {
    let required = |pod: &Value, kind: &str| !is_none(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"]);
    let list = |name: &str| question[name].as_array().unwrap().iter();
    let containers = || ["containers", "initContainers"].into_iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let spread = pod["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten();
    let spread = spread.into_iter().any(|constraint| constraint["whenUnsatisfiable"] == "DoNotSchedule");
    let port = |container: &Value| container["ports"].as_array().into_iter().flatten().any(|port| port["hostPort"] != 0);
    let there = |kind: &Kind| match kind {
        Kind::Cordoned => list("nodes").any(|node| node["spec"]["unschedulable"] == true),
        Kind::Taints => list("nodes").any(|node| !is_none(&node["spec"]["taints"])),
        Kind::NodeAffinity => !is_none(&pod["spec"]["nodeSelector"]) || required(pod, "nodeAffinity"),
        Kind::HostPorts => containers().any(port),
        Kind::Resources => containers().chain([&pod["spec"]]).any(|with| !is_none(&with["resources"]["requests"])),
        Kind::Spread | Kind::SpreadLabel => spread,
        Kind::Affinity => required(pod, "podAffinity"),
        Kind::AntiAffinity => required(pod, "podAntiAffinity"),
        Kind::ExistingAntiAffinity => list("pods").any(|pod| required(pod, "podAntiAffinity")),
        Kind::Features => containers().any(|container| !is_none(&container["restartPolicyRules"])) || pod["spec"]["hostUsers"] == false,
    };
    KINDS.iter().copied().filter(there).collect()
}

/// Returns the kind for which a node refuses, by what the plugin of kube-scheduler says.
pub(super) fn refused_by(said: &[String]) -> Kind {
    let reason = said.get(1).map(String::as_str).unwrap_or_default();
    match said[0].as_str() {
        "NodeUnschedulable" => Kind::Cordoned,
        "TaintToleration" => Kind::Taints,
        "NodeAffinity" => Kind::NodeAffinity,
        "NodePorts" => Kind::HostPorts,
        "NodeResourcesFit" => Kind::Resources,
        "PodTopologySpread" if reason.ends_with("(missing required label)") => Kind::SpreadLabel,
        "PodTopologySpread" => Kind::Spread,
        "InterPodAffinity" if reason.ends_with("pod affinity rules") => Kind::Affinity,
        "InterPodAffinity" if reason.ends_with("didn't match pod anti-affinity rules") => Kind::AntiAffinity,
        "InterPodAffinity" => Kind::ExistingAntiAffinity,
        "NodeDeclaredFeatures" => Kind::Features,
        plugin => panic!("{plugin}"),
    }
}

/// Whether nothing is stated: the field is missing or empty.
fn is_none(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
