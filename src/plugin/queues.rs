//! The queues of a cluster and their tree, from the queue objects and from the scheduler if it was asked.
//!
//! The tree is that of the accounting's own [`Quota`], so it has the same faults. Amounts come from the scheduler's debug endpoint, or else from the
//! status of the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::accounting::{QueueFault, QueueLimits, QueueShape, QueueTree, Quota, ROOT_QUEUE};
use crate::api::QueueFacts;
use crate::api::quantities;
use crate::api::queue::NodeGroupAffinity;
use crate::cycle::explain::Refusal;
use crate::resources::{Amount, Limits, ResourceName, Resources, quantity};

use super::answers::{self, QueueAnswer};

/// The queues of a cluster.
#[derive(Debug, Default)]
pub struct Queues {
    /// The tree with the guarantees. Nothing is charged in it.
    quota: Quota,
    facts: BTreeMap<String, QueueFacts>,
    answers: BTreeMap<String, QueueAnswer>,
}

/// One queue, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Whether the queue object exists. `root` and `default` count as existing.
    pub exists: bool,
    /// The state in its status: Open, Closing or Closed; `None` if it is not set.
    pub state: Option<String>,
    /// The closed queue: this one or the nearest ancestor.
    pub closed_by: Option<String>,
    /// The fault of its place in the tree. A fault of an ancestor is not repeated here.
    pub fault: Option<String>,
    /// The queue because of which nothing is placed in it, whatever its state: itself, or one above it.
    pub broken_by: Option<String>,
    /// The invalid values of its object.
    pub faults: Vec<String>,
    /// The resources with a limit, a use or a request.
    pub dimensions: Vec<Dimension>,
}

/// One resource in one queue. An unknown amount and an unset limit are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The resource.
    pub name: ResourceName,
    /// The capability.
    pub capability: Option<Amount>,
    /// The deserved amount in the spec.
    pub deserved: Option<Amount>,
    /// The guarantee in the spec.
    pub guarantee: Option<Amount>,
    /// The use of pods.
    pub used: Option<Amount>,
    /// The amount reserved for PodGroups beyond that.
    pub reserved: Option<Amount>,
    /// The unused guarantees beyond that.
    pub kept: Option<Amount>,
    /// The share in force.
    pub share: Option<Amount>,
    /// The additional request.
    pub asked: Amount,
}

impl Dimension {
    /// Returns an amount of the resource as a Kubernetes quantity.
    #[must_use]
    pub fn shown(&self, amount: Amount) -> String {
        quantity::format(amount, self.name.style())
    }

    /// Returns the JSON for `why` and `tree`.
    #[must_use]
    pub fn json(&self) -> Value {
        let asked = Some(self.asked).filter(|asked| asked.is_positive());
        let fields = [
            ("capability", self.capability),
            ("deserved", self.deserved),
            ("guarantee", self.guarantee),
            ("used", self.used),
            ("reserved", self.reserved),
            ("kept", self.kept),
            ("share", self.share),
            ("asked", asked),
        ];
        let mut object = Map::new();
        object.insert("resource".to_owned(), json!(self.name.as_str()));
        for (key, amount) in fields {
            object.insert(key.to_owned(), amount.map_or(Value::Null, |amount| json!(self.shown(amount))));
        }
        Value::Object(object)
    }
}

impl Level {
    /// Returns the JSON for `why` and `tree`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "exists": self.exists,
            "state": self.state,
            "closedBy": self.closed_by,
            "fault": self.fault,
            "brokenBy": self.broken_by,
            "faults": self.faults,
            "resources": self.dimensions.iter().map(Dimension::json).collect::<Vec<_>>(),
        })
    }
}

impl Queues {
    /// Returns the node groups that are reserved for other queues, by the scheduler's rule.
    #[must_use]
    pub(super) fn barred_groups(&self, queue: &str) -> BTreeSet<String> {
        let affinity = |facts: &QueueFacts| facts.node_group_affinity.clone();
        let named = self.facts.values().filter_map(affinity).flat_map(|affinity| affinity.own).collect();
        let own = self.tree().way(queue).into_iter().find_map(|queue| self.facts.get(&*queue).and_then(affinity));
        NodeGroupAffinity::barred(own.as_ref(), &named)
    }

    /// Creates the queues from their objects and the scheduler's answers.
    #[must_use]
    pub fn new(facts: Vec<QueueFacts>, answers: Option<BTreeMap<String, QueueAnswer>>) -> Self {
        let mut queues = Self { answers: answers.unwrap_or_default(), ..Self::default() };
        for queue in facts {
            let shape = QueueShape { name: Arc::from(queue.name.as_str()), parent: queue.parent.as_deref().map(Arc::from) };
            let limits = QueueLimits { guarantee: queue.guarantee.clone(), priority: queue.priority, ..QueueLimits::default() };
            queues.quota.queue_upsert(&shape, limits);
            queues.facts.insert(queue.name.clone(), queue);
        }
        queues
    }

    fn tree(&self) -> &QueueTree {
        self.quota.tree()
    }

    /// Returns the facts of the queue object, if it exists.
    #[must_use]
    pub fn facts(&self, queue: &str) -> Option<&QueueFacts> {
        self.facts.get(queue)
    }

    /// Returns the names of all queue objects, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.facts.keys().map(String::as_str)
    }

    /// Returns the queue and its ancestors, as far as the parents can be followed, also in an invalid tree.
    #[must_use]
    pub fn way(&self, queue: &str) -> Vec<String> {
        self.tree().way(queue).iter().map(ToString::to_string).collect()
    }

    /// Returns the children of the queue, by name.
    pub fn children(&self, queue: &str) -> impl Iterator<Item = &str> {
        self.tree().children(queue).map(|name| &**name)
    }

    /// Returns the descendants of the queue, by name.
    #[must_use]
    pub fn below(&self, queue: &str) -> Vec<String> {
        self.tree().subtree(queue).iter().filter(|name| ***name != *queue).map(ToString::to_string).collect()
    }

    /// Returns every queue with its depth below `root`: parents first, siblings by name. Queues that are not below `root` are last, with depth 0.
    #[must_use]
    pub fn in_order(&self) -> Vec<(usize, String)> {
        let mut seen = BTreeSet::new();
        let mut listed = Vec::new();
        let mut open = vec![(0_usize, ROOT_QUEUE.to_owned())];
        while let Some((depth, name)) = open.pop() {
            if seen.insert(name.clone()) {
                let mut below: Vec<_> = self.children(&name).map(|child| (depth.saturating_add(1), child.to_owned())).collect();
                below.reverse();
                open.extend(below);
                listed.push((depth, name));
            }
        }
        let stray = |name: &&Arc<str>| !seen.contains(&***name);
        listed.extend(self.tree().names().filter(stray).map(|name| (0, name.to_string())));
        listed
    }

    /// Returns the deleted queues that the scheduler still charges, by name.
    pub fn deleted(&self) -> impl Iterator<Item = &str> {
        let is_some = |raw: &Option<quantities::RawResources>| answers::amounts(raw.as_ref()).is_some_and(|amounts| !amounts.is_zero());
        let is_charged = move |answer: &QueueAnswer| is_some(&answer.used) || is_some(&answer.reserved);
        let deleted = self.answers.iter().filter(move |(name, answer)| !self.tree().contains(name) && is_charged(answer));
        deleted.map(|(name, _)| name.as_str())
    }

    /// Returns one queue, with an additional request.
    #[must_use]
    pub fn level(&self, queue: &str, asked: &Resources) -> Level {
        let facts = self.facts.get(queue);
        let fault = self.quota.fault(queue);
        let closed_by = self.way(queue).into_iter().find(|name| self.facts.get(name).is_some_and(|facts| facts.closed_by_hand));
        Level {
            name: queue.to_owned(),
            exists: self.tree().contains(queue),
            state: facts.and_then(|facts| facts.status.state.clone()),
            closed_by,
            broken_by: fault.as_ref().filter(|_| facts.is_some()).map(|fault| fault.queue.to_string()),
            faults: facts.map(|facts| self.faults(facts, fault.is_some())).unwrap_or_default(),
            fault: fault.filter(|fault| *fault.queue == *queue).map(|fault| Refusal::Queue(fault).to_string()),
            dimensions: self.dimensions(queue, asked),
        }
    }

    /// What the scheduler says is wrong. Without its answer the values that cannot be used, and what it alone knows: the first of that is in
    /// the status, unless a fault of the tree is there.
    fn faults(&self, facts: &QueueFacts, is_broken: bool) -> Vec<String> {
        if let Some(said) = self.answers.get(&*facts.name).and_then(|answer| answer.faults.clone()) {
            return said;
        }
        let values: Vec<String> = facts.faults.iter().map(ToString::to_string).collect();
        let said = facts.status.message.iter().filter(|message| !is_broken && !values.contains(*message));
        said.cloned().chain(values.iter().cloned()).collect()
    }

    /// Returns a queue and its ancestors, each with the additional request.
    #[must_use]
    pub fn levels(&self, queue: &str, asked: &Resources) -> Vec<Level> {
        self.way(queue).iter().map(|name| self.level(name, asked)).collect()
    }

    /// Returns the fault because of which the queue accepts no pods.
    #[must_use]
    pub fn refusal(&self, queue: &str) -> Option<QueueFault> {
        self.quota.path(queue).err()
    }

    fn dimensions(&self, queue: &str, asked: &Resources) -> Vec<Dimension> {
        let none = Limits::new();
        let facts = self.facts.get(queue);
        let limits = |of: fn(&QueueFacts) -> &Limits| facts.map_or(&none, of);
        let (capability, deserved, guarantee) = (limits(|q| &q.capability), limits(|q| &q.deserved), limits(|q| &q.guarantee));
        let answer = self.answers.get(queue);
        let answered = |of: fn(&QueueAnswer) -> Option<&quantities::RawResources>| answers::amounts(answer.and_then(of));
        let status = || {
            let allocated = facts.and_then(|facts| facts.status.allocated.as_ref());
            answers::amounts(allocated)
        };
        let used = answered(|q| q.used.as_ref()).or_else(status);
        let (reserved, kept, share) = (answered(|q| q.reserved.as_ref()), answered(|q| q.kept.as_ref()), answered(|q| q.share.as_ref()));
        let mut names: BTreeSet<ResourceName> = BTreeSet::new();
        [capability, deserved, guarantee].iter().for_each(|limits| names.extend(limits.iter().map(|(name, _)| name.clone())));
        let amounts = [used.as_ref(), reserved.as_ref(), kept.as_ref(), Some(asked)];
        amounts.into_iter().flatten().for_each(|amounts| names.extend(amounts.iter().map(|(name, _)| name.clone())));
        let of = |amounts: &Option<Resources>, name: &ResourceName| amounts.as_ref().map(|amounts| amounts.get(name));
        let dimension = |name: ResourceName| Dimension {
            capability: capability.get(&name),
            deserved: deserved.get(&name),
            guarantee: guarantee.get(&name),
            used: of(&used, &name),
            reserved: of(&reserved, &name),
            kept: of(&kept, &name),
            share: of(&share, &name),
            asked: asked.get(&name),
            name,
        };
        names.into_iter().map(dimension).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::quantities::RawQuantity;
    use crate::cycle::testing::{amounts, limits, queue};

    fn used(mut queue: QueueFacts, cpu: &str) -> QueueFacts {
        queue.status.allocated = Some([("cpu".to_owned(), RawQuantity::Text(cpu.to_owned()))].into());
        queue
    }

    #[test]
    fn amounts_come_from_the_scheduler_or_else_from_the_status() {
        let answer =
            QueueAnswer { name: "p".into(), reserved: Some([("cpu".to_owned(), RawQuantity::Int(1))].into()), ..QueueAnswer::default() };
        let queues = Queues::new(vec![used(queue("p", None, &[("cpu", 4)]), "2")], Some([("p".to_owned(), answer)].into()));
        let [cpu] = queues.level("p", &amounts(&[("cpu", 2)])).dimensions.try_into().unwrap();
        let of = |units| Some(Amount::from_units(units));
        assert_eq!((cpu.used, cpu.reserved, cpu.capability, Some(cpu.asked)), (of(2), of(1), of(4), of(2)));
        let unknown = Queues::default().level("p", &amounts(&[("cpu", 9)])).dimensions;
        assert_eq!(unknown[0].used, None, "the use is unknown");
    }

    #[test]
    fn every_queue_is_listed_once_also_outside_the_tree_of_root() {
        let below = |name: &str, parent: &str| queue(name, Some(parent), &[]);
        let queues = Queues::new(vec![below("b", "a"), below("a", "root"), below("x", "y"), below("y", "x"), below("o", "gone")], None);
        let listed: Vec<_> = queues.in_order().into_iter().map(|(depth, name)| format!("{depth}{name}")).collect();
        assert_eq!(listed, ["0root", "1a", "2b", "1default", "0o", "0x", "0y"]);
        assert_eq!(queues.below("a"), ["b"]);
        let refusal = |name| Refusal::Queue(queues.refusal(name).unwrap()).to_string();
        assert_eq!(refusal("x"), "queue \"x\" is below itself");
        assert_eq!(refusal("a"), "queue \"a\" has queues below it, and pods go to queues that have none");
        assert_eq!(queues.level("a", &Resources::new()).fault, None, "a parent queue has no fault of its own");
    }

    #[test]
    fn a_queue_that_guarantees_less_than_those_below_it_has_a_fault() {
        let guarantees = |mut queue: QueueFacts, cpu| {
            queue.guarantee = limits(&[("cpu", cpu)]);
            queue
        };
        let queues = Queues::new(vec![guarantees(queue("par", None, &[]), 1), guarantees(queue("kid", Some("par"), &[]), 3)], None);
        let fault = "queue \"par\" is guaranteed cpu 1, and the queues below it 3 together".to_owned();
        assert_eq!(queues.level("par", &Resources::new()).fault, Some(fault.clone()));
        assert_eq!(queues.level("kid", &Resources::new()).fault, None, "it is that of par");
        assert_eq!(queues.refusal("kid").map(|fault| Refusal::Queue(fault).to_string()), Some(fault));
    }

    #[test]
    fn faults_are_all_that_the_scheduler_says_or_else_the_first_from_the_status() {
        let mut slip = queue("slip", None, &[]);
        slip.faults = vec![crate::api::Fault::new("spec.capability.cpu", "4Mi", "a million CPUs")];
        let read = slip.faults[0].to_string();
        slip.status.message = Some("no node offers it".to_owned());
        let of = |answer: Option<QueueAnswer>| {
            let answers = answer.map(|answer| [("slip".to_owned(), answer)].into());
            Queues::new(vec![slip.clone()], answers).level("slip", &Resources::new()).faults
        };
        let said =
            QueueAnswer { faults: Some(vec![read.clone(), "no node offers it".into(), "nor that".into()]), ..QueueAnswer::default() };
        assert_eq!(of(Some(said)), [&*read, "no node offers it", "nor that"]);
        assert_eq!(of(Some(QueueAnswer::default())), ["no node offers it", &*read], "an older scheduler does not say them");
        assert_eq!(of(None), ["no node offers it", &*read]);
    }

    #[test]
    fn the_nearest_closed_ancestor_is_named() {
        let closed = |mut queue: QueueFacts| {
            queue.closed_by_hand = true;
            queue
        };
        let queues = Queues::new(vec![closed(queue("a", None, &[])), queue("b", Some("a"), &[])], None);
        assert_eq!(queues.level("b", &Resources::new()).closed_by.as_deref(), Some("a"));
        assert_eq!(queues.level("default", &Resources::new()).closed_by, None);
    }
}
