//! Tests with small histories. `at` is in milliseconds.

use super::amounts::{Amounts, parse};
use super::facts::{Change, GroupFact, Key, PodFact, QueueFact};
use super::history::History;
use super::judge::Graces;

/// Checks 3 and 4.
mod bindings;
/// Check 9.
mod evictions;
/// Checks 1, 2, 5 and 6.
mod object_checks;
/// Check 4, while the queue tree changes.
mod queue_usage;

struct Trace {
    history: History,
    version: u64,
    at: i64,
}

fn amounts(text: &str) -> Amounts {
    let mut all = Amounts::default();
    for (name, amount) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
        all.set(name, parse(amount).unwrap());
    }
    all
}

fn key(name: &str) -> Key {
    ("n".to_owned(), name.to_owned())
}

/// Returns a pod of the scheduler in PodGroup `g`. A test changes the fields that differ.
fn pod(name: &str, asks: &str, node: Option<&str>) -> PodFact {
    PodFact {
        key: key(name),
        served: Some(0),
        node: node.map(str::to_owned),
        ended: false,
        failed: false,
        terminating: false,
        evicted: false,
        protected: false,
        group: key("g"),
        group_owner: None,
        queue: None,
        requests: amounts(asks),
    }
}

fn group(queue: &str, min_member: i64) -> GroupFact {
    GroupFact {
        managed: false,
        terminating: false,
        protected: false,
        queue: queue.to_owned(),
        min_member,
        owners: ["o".to_owned()].into(),
        owner: Some(("o".to_owned(), true)),
    }
}

impl Trace {
    /// Starts with one node of 4 cpu and a PodGroup `g` with a live owner, in queue `q` with a capability of 4 cpu.
    fn begin() -> Self {
        let mut trace = Self { history: History::new(Graces { group: 5000, gang: 10_000, ..Graces::default() }), version: 10, at: 0 };
        trace.node("a", "cpu=4 pods=10").queue("q", "root", "cpu=4").queue("root", "", "").owner(true).put_group("g", Some(group("q", 1)));
        trace.history.begins_after(10);
        trace.wait(60);
        trace
    }

    fn wait(&mut self, seconds: i64) -> &mut Self {
        self.at += seconds * 1000;
        self
    }

    fn add(&mut self, change: Change) -> &mut Self {
        self.version += 10;
        self.history.add(self.version, self.at, change);
        self
    }

    fn node(&mut self, name: &str, allocatable: &str) -> &mut Self {
        self.add(Change::Node { name: name.to_owned(), now: Some(amounts(allocatable)) })
    }

    fn queue(&mut self, name: &str, parent: &str, capability: &str) -> &mut Self {
        let now = QueueFact {
            parent: (!parent.is_empty()).then(|| parent.to_owned()),
            capability: amounts(capability),
            guarantee: Amounts::default(),
            allocated: Amounts::default(),
        };
        self.add(Change::Queue { name: name.to_owned(), now: Some(Box::new(now)) })
    }

    /// Writes only the status of a queue below `root`.
    fn allocated(&mut self, name: &str, allocated: &str) -> &mut Self {
        let now = QueueFact {
            parent: Some("root".to_owned()),
            capability: amounts("cpu=4"),
            guarantee: Amounts::default(),
            allocated: amounts(allocated),
        };
        self.add(Change::Queue { name: name.to_owned(), now: Some(Box::new(now)) })
    }

    fn owner(&mut self, alive: bool) -> &mut Self {
        self.add(Change::Owner { uid: "o".to_owned(), alive })
    }

    fn put_group(&mut self, name: &str, now: Option<GroupFact>) -> &mut Self {
        self.add(Change::Group { key: key(name), now: now.map(Box::new) })
    }

    fn put(&mut self, pod: PodFact) -> &mut Self {
        self.add(Change::Pod { uid: pod.key.1.clone(), now: Some(Box::new(pod)), exact: true })
    }

    /// Creates a pod of the scheduler and binds it.
    fn bind(&mut self, name: &str, asks: &str) -> &mut Self {
        self.put(pod(name, asks, None)).put(pod(name, asks, Some("a")))
    }

    fn delete(&mut self, name: &str) -> &mut Self {
        self.add(Change::Pod { uid: name.to_owned(), now: None, exact: true })
    }

    /// Returns the check numbers of all findings, in order.
    fn found(&mut self) -> Vec<u8> {
        self.history.settle(self.at);
        self.history.findings().iter().map(|finding| finding.check).collect()
    }
}
