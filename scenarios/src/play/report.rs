//! What does a reader need to know of a line that failed?

use std::fmt::Write;

use serde_json::Value;

use super::World;
use super::view::{condition, waits};
use crate::server::store::names;
use crate::text::Line;

/// Returns the line, what was wrong with it, and what the API shows: nodes, queues, PodGroups with their conditions, pods with their
/// nodes.
pub(super) fn failure(world: &World, line: &Line, wrong: &str) -> String {
    let mut text = format!("line {}: {}\n  {wrong}\n", line.number, line.text);
    let inside = world.server.inside();
    let _ = writeln!(text, "  what `kubectl get` shows:");
    for node in inside.store.all("nodes") {
        let cordoned = if node["spec"]["unschedulable"] == true { ", cordoned" } else { "" };
        let _ = writeln!(text, "    node {}: {}{cordoned}", names(node).1, amounts(&node["status"]["allocatable"]));
    }
    for queue in inside.store.all("queues") {
        let (limits, used) = (amounts(&queue["spec"]["capability"]), amounts(&queue["status"]["allocated"]));
        let state = queue["status"]["state"].as_str().unwrap_or("without a state");
        let _ = writeln!(text, "    queue {}: {state}, capability {limits}, allocated {used}", names(queue).1);
    }
    for group in inside.store.all("podgroups") {
        let (_, name) = names(group);
        let owner = group["metadata"]["ownerReferences"][0]["name"].as_str().map(|owner| format!(" of {owner}")).unwrap_or_default();
        let why = waits(group).map(|why| format!(", waits: {why}")).unwrap_or_default();
        let phase = group["status"]["phase"].as_str().unwrap_or("without a phase");
        let _ = writeln!(text, "    podgroup {name}{owner}: minMember {}, {phase}{why}", group["spec"]["minMember"]);
    }
    for pod in inside.store.all("pods") {
        let _ = writeln!(text, "    {}", of_pod(pod));
    }
    text
}

/// Writes amounts as in a line of a scenario.
fn amounts(amounts: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all: Vec<String> = amounts.as_object().into_iter().flatten().map(|(name, value)| format!("{name}:{}", text(value))).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(",") }
}

fn of_pod(pod: &Value) -> String {
    let (_, name) = names(pod);
    let goes = if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { ", terminating" };
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let place = match pod["spec"]["nodeName"].as_str() {
        Some(node) => format!("on {node}"),
        None => {
            condition(pod, "PodScheduled", "False").map_or_else(|| "without a node".to_owned(), |why| format!("without a node ({why})"))
        }
    };
    format!("pod {name}: {phase}{goes} {place}")
}
