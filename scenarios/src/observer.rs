//! Is what the API shows right? It reads the history of objects alone, and counts by rules of its own.
//!
//! Checked at each binding by this scheduler: the pod had no node before; the node has room for its request; no queue from its own up to
//! root goes over its capability. Checked after each line: no gang has fewer nodes than its minimum, if nothing that the scenario ordered
//! explains it.

use std::collections::{BTreeMap, BTreeSet};

use podgroup::resources::quantity;
use serde_json::Value;

use crate::server::store::{Change, Happened, ended, names};

/// The annotation of a bound pod with the queue that it is charged to.
const CHARGED_QUEUE: &str = "podgroup.dev/queue";

type Amounts = BTreeMap<String, i128>;

/// The objects as of a version, and what was wrong so far.
#[derive(Debug, Default)]
pub struct Observer {
    seen: u64,
    pods: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    queues: BTreeMap<String, Value>,
    groups: BTreeMap<(String, String), Value>,
    /// The UIDs of the members that were ever bound by a binding, by PodGroup.
    bound: BTreeMap<(String, String), BTreeSet<String>>,
    /// The PodGroups that once had as many bound members as they needed then.
    whole: BTreeSet<(String, String)>,
    /// The pods that another scheduler binds, by namespace and name.
    by_others: BTreeSet<(String, String)>,
    wrong: Vec<String>,
}

impl Observer {
    /// Takes in what happened since the last call, and returns what was wrong with it.
    pub fn take_in(&mut self, log: &[Change]) -> Vec<String> {
        let from = log.partition_point(|change| change.version <= self.seen);
        for change in &log[from..] {
            self.seen = change.version;
            self.one(change);
        }
        std::mem::take(&mut self.wrong)
    }

    /// The next binding of this pod is that of another scheduler, which knows no queues.
    pub fn bound_by_another(&mut self, namespace: &str, pod: &str) {
        self.by_others.insert((namespace.to_owned(), pod.to_owned()));
    }

    fn one(&mut self, change: &Change) {
        let (namespace, name) = names(&change.object);
        let gone = change.happened == Happened::Deleted;
        let object = (!gone).then(|| change.object.clone());
        match change.plural {
            "nodes" => set(&mut self.nodes, name, object),
            "queues" => set(&mut self.queues, name, object),
            "podgroups" => set(&mut self.groups, (namespace, name), object),
            "pods" => {
                let uid = change.object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                let before = self.pods.get(&uid).and_then(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned);
                let node = change.object["spec"]["nodeName"].as_str();
                let is_new = change.happened == Happened::Added;
                let is_ours = change.object["spec"]["schedulerName"] == "podgroup-scheduler";
                if !gone
                    && !is_new
                    && is_ours
                    && let (None, Some(node)) = (&before, node)
                {
                    self.judge_binding(&uid, &change.object, node);
                }
                if let (Some(before), Some(node)) = (&before, node)
                    && before != node
                {
                    self.wrong.push(format!("pod {name} moved from {before} to {node}"));
                }
                // A pod that another owner adopts counts in its new PodGroup.
                if before.is_some()
                    && let Some(group) = group_of(&change.object)
                    && self.bound.values().any(|bound| bound.contains(&uid))
                {
                    self.bound.entry((namespace, group)).or_default().insert(uid.clone());
                }
                set(&mut self.pods, uid, object);
            }
            _ => {}
        }
    }

    fn judge_binding(&mut self, uid: &str, pod: &Value, node: &str) {
        let (namespace, name) = names(pod);
        let asks = request(pod);
        let Some(offers) = self.nodes.get(node).map(|node| read(&node["status"]["allocatable"])) else {
            self.wrong.push(format!("pod {name} was bound to {node}, which does not exist"));
            return;
        };
        let mut used = Amounts::new();
        let here = |pod: &&Value| pod["spec"]["nodeName"] == node && !ended(pod);
        self.pods.values().filter(here).for_each(|pod| add(&mut used, &request(pod)));
        for (resource, amount) in asks.iter().filter(|(_, amount)| **amount > 0) {
            let (used, offered) = (used.get(resource).unwrap_or(&0), offers.get(resource).unwrap_or(&0));
            if used + amount > *offered {
                self.wrong.push(format!("node {node} is oversold by pod {name}: {resource} requested {amount}, used {used}, allocatable {offered} (in nano units)"));
            }
        }
        if !self.by_others.remove(&(namespace.clone(), name.clone())) {
            self.judge_queues(pod, &name, &asks);
        }
        if let Some(group) = group_of(pod) {
            let key = (namespace, group);
            let bound = self.bound.entry(key.clone()).or_default();
            bound.insert(uid.to_owned());
            if self.groups.get(&key).and_then(needed).is_some_and(|needed| bound.len() as u64 >= needed) {
                self.whole.insert(key);
            }
        }
    }

    fn judge_queues(&mut self, pod: &Value, name: &str, asks: &Amounts) {
        let Some(queue) = pod["metadata"]["annotations"][CHARGED_QUEUE].as_str() else {
            self.wrong.push(format!("pod {name} was bound without the name of its queue"));
            return;
        };
        for level in self.path(queue) {
            let limits = self.queues.get(&level).map(|queue| read(&queue["spec"]["capability"])).unwrap_or_default();
            let below = |pod: &&Value| {
                let charged = pod["metadata"]["annotations"][CHARGED_QUEUE].as_str();
                !ended(pod) && pod["spec"]["nodeName"].is_string() && charged.is_some_and(|queue| self.path(queue).contains(&level))
            };
            let mut used = Amounts::new();
            self.pods.values().filter(below).for_each(|pod| add(&mut used, &request(pod)));
            for (resource, limit) in &limits {
                let (asked, used) = (asks.get(resource).unwrap_or(&0), used.get(resource).unwrap_or(&0));
                if *asked > 0 && used + asked > *limit {
                    self.wrong.push(format!("queue {level} is over its capability by pod {name}: {resource} requested {asked}, used {used}, capability {limit} (in nano units)"));
                }
            }
        }
    }

    /// Returns the queue and those above it, at most 100.
    fn path(&self, queue: &str) -> Vec<String> {
        let mut path = vec![queue.to_owned()];
        while let Some(parent) = path.last().and_then(|last| self.queues.get(last)).filter(|_| path.len() < 100) {
            match parent["spec"]["parent"].as_str() {
                Some(parent) if !path.iter().any(|known| known == parent) => path.push(parent.to_owned()),
                _ if path.last().is_some_and(|last| last == "root") => break,
                _ => path.push("root".to_owned()),
            }
        }
        path
    }

    /// Returns the gangs of which members were bound, but never as many as they needed then.
    #[must_use]
    pub fn partial_gangs(&self) -> Vec<String> {
        let partial = |(key, bound): (&(String, String), &BTreeSet<String>)| {
            let needed = self.groups.get(key).filter(|_| !self.whole.contains(key)).and_then(needed)?;
            let bound = bound.len();
            (bound > 0 && (bound as u64) < needed).then(|| format!("PodGroup {} has {bound} bound pods of {needed} that it needs", key.1))
        };
        self.bound.iter().filter_map(partial).collect()
    }
}

fn needed(group: &Value) -> Option<u64> {
    group["spec"]["minMember"].as_u64()
}

fn set<K: Ord>(map: &mut BTreeMap<K, Value>, key: K, object: Option<Value>) {
    match object {
        Some(object) => _ = map.insert(key, object),
        None => _ = map.remove(&key),
    }
}

fn group_of(pod: &Value) -> Option<String> {
    let annotations = &pod["metadata"]["annotations"];
    let named = ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"].iter().find_map(|key| annotations[*key].as_str());
    let owner = || pod["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)?["uid"].as_str();
    named.map(str::to_owned).or_else(|| owner().map(|uid| format!("podgroup-{uid}")))
}

/// Returns amounts in billionths of their unit. What cannot be read counts as nothing.
fn read(amounts: &Value) -> Amounts {
    let amount = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        quantity::parse(&text).map_or(0, |amount| amount.nanos())
    };
    amounts.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), amount(value))).collect()
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    amounts.iter().for_each(|(name, amount)| *sum.entry(name.clone()).or_default() += amount);
}

/// Returns what a pod requests: its containers together or one init container, whichever is more, with its overhead, and one of `pods`. A
/// sidecar counts as a container.
#[must_use]
pub fn request(pod: &Value) -> Amounts {
    let of = |container: &Value| {
        let mut asks = read(&container["resources"]["limits"]);
        asks.extend(read(&container["resources"]["requests"]));
        asks
    };
    let list = |field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    let mut running = Amounts::new();
    let mut most = Amounts::new();
    for init in list("initContainers") {
        if init["restartPolicy"] == "Always" {
            add(&mut running, &of(&init));
        }
        let mut at_once = running.clone();
        if init["restartPolicy"] != "Always" {
            add(&mut at_once, &of(&init));
        }
        at_once.into_iter().for_each(|(name, amount)| {
            let known = most.entry(name).or_default();
            *known = amount.max(*known);
        });
    }
    list("containers").iter().for_each(|container| add(&mut running, &of(container)));
    most.into_iter().for_each(|(name, amount)| {
        let known = running.entry(name).or_default();
        *known = amount.max(*known);
    });
    add(&mut running, &read(&pod["spec"]["overhead"]));
    running.insert("pods".to_owned(), 1_000_000_000);
    running
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(version: u64, plural: &'static str, happened: Happened, object: Value) -> Change {
        Change { version, plural, happened, object }
    }

    fn pod(uid: &str, node: Option<&str>) -> Value {
        json!({
            "metadata": {
                "name": uid, "uid": uid, "namespace": "ns", "annotations": { "scheduling.k8s.io/group-name": "g", CHARGED_QUEUE: "q" },
            },
            "spec": { "schedulerName": "podgroup-scheduler", "nodeName": node, "containers": [{ "resources": { "requests": { "cpu": "2" } } }] },
        })
    }

    /// Binds two pods of 2 cpu of a gang of `needed`, on a node with `cpu`, in a queue with a capability of `quota`.
    fn bind_two(needed: u64, cpu: &str, quota: &str) -> (Vec<String>, Vec<String>) {
        let node = json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "cpu": cpu, "pods": "9" } } });
        let queue = |name: &str, parent: &str, quota: &str| json!({ "metadata": { "name": name }, "spec": { "parent": parent, "capability": { "cpu": quota } } });
        let group = json!({ "metadata": { "name": "g", "namespace": "ns" }, "spec": { "minMember": needed } });
        let mut log = vec![
            change(1, "nodes", Happened::Added, node),
            change(2, "queues", Happened::Added, queue("q", "p", "100")),
            change(3, "queues", Happened::Added, queue("p", "root", quota)),
            change(4, "podgroups", Happened::Added, group),
        ];
        for (at, uid) in [(5, "a"), (7, "b")] {
            log.push(change(at, "pods", Happened::Added, pod(uid, None)));
            log.push(change(at + 1, "pods", Happened::Modified, pod(uid, Some("n"))));
        }
        let mut observer = Observer::default();
        (observer.take_in(&log), observer.partial_gangs())
    }

    #[test]
    fn an_oversold_node_or_queue_and_a_partial_gang_are_found_and_a_right_binding_is_not() {
        assert_eq!(bind_two(2, "4", "4"), (Vec::new(), Vec::new()));
        let (wrong, _) = bind_two(2, "3", "4");
        assert!(matches!(wrong.as_slice(), [text] if text.contains("node n is oversold by pod b")), "{wrong:?}");
        let (wrong, _) = bind_two(2, "4", "3");
        assert!(matches!(wrong.as_slice(), [text] if text.contains("queue p is over its capability by pod b")), "{wrong:?}");
        let (wrong, partial) = bind_two(3, "4", "4");
        assert_eq!((wrong, partial), (Vec::new(), vec!["PodGroup g has 2 bound pods of 3 that it needs".to_owned()]));
    }

    #[test]
    fn a_request_counts_init_containers_one_by_one_and_sidecars_with_the_containers() {
        let of = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let mut sidecar = of("1");
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({ "spec": { "initContainers": [of("2"), sidecar, of("3")], "containers": [of("1"), of("1")], "overhead": { "cpu": "500m" } } });
        assert_eq!(request(&pod)["cpu"], 4_500_000_000, "the sidecar and the second init container, and the overhead");
    }
}
