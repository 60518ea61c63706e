//! What do the kubelets do? A bound pod runs at once, and a deleted pod is gone after a moment, unless the scenario says otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::server::kinds::Kind;
use crate::server::patch::set_condition;
use crate::server::store::{Store, ended, has_finalizers, names};

/// The annotation of a pod that says how long it takes to end, in seconds, or `never`.
pub const ENDS: &str = "scenario/ends";

/// The annotation of a pod that never starts.
pub const STAYS_PENDING: &str = "scenario/stays-pending";

/// How long a deleted pod takes to end otherwise.
const USUAL_END: Duration = Duration::from_millis(500);

/// The kubelets of all nodes.
#[derive(Debug, Default)]
pub struct Kubelet {
    /// When each deleted pod is gone, by UID.
    ends: BTreeMap<String, Instant>,
}

impl Kubelet {
    /// Runs and ends pods. Returns when the next one is gone; `None` if none is on its way.
    pub fn act(&mut self, store: &mut Store, now: Instant) -> Option<Instant> {
        let kind = Kind::by_plural("pods")?;
        let on_nodes: Vec<Value> = store.all("pods").filter(|pod| pod["spec"]["nodeName"].is_string()).cloned().collect();
        let mut ends = BTreeMap::new();
        for pod in on_nodes {
            let (namespace, name) = names(&pod);
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            if pod["metadata"]["deletionTimestamp"].is_string() {
                let Some(time) = time_to_end(&pod) else { continue };
                let at = self.ends.get(&uid).copied().unwrap_or(now + time);
                if at > now {
                    ends.insert(uid, at);
                } else if !has_finalizers(&pod) {
                    store.remove(kind, &namespace, &name);
                }
            } else if pod["status"]["phase"] == "Pending"
                && pod["metadata"]["annotations"][STAYS_PENDING].is_null()
                && has_node(store, &pod)
            {
                let mut running = pod;
                running["status"]["phase"] = "Running".into();
                running["status"]["startTime"] = store.time().into();
                set_condition(&mut running, &json!({ "type": "Ready", "status": "True" }));
                store.change(kind, running);
            }
        }
        self.ends = ends;
        self.ends.values().min().copied()
    }
}

fn has_node(store: &Store, pod: &Value) -> bool {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    Kind::by_plural("nodes").is_some_and(|kind| store.get(kind, "", node).is_some())
}

/// Returns how long a deleted pod takes to end; `None` if it never does.
fn time_to_end(pod: &Value) -> Option<Duration> {
    if ended(pod) {
        return Some(Duration::ZERO);
    }
    match pod["metadata"]["annotations"][ENDS].as_str() {
        Some("never") => None,
        Some(seconds) => Some(Duration::from_secs(seconds.parse().unwrap_or(0))),
        None => Some(USUAL_END),
    }
}
