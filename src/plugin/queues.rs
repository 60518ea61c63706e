//! What do the queues' objects, and the scheduler where it was asked, say of each queue and of its place in the tree?
//!
//! The shape is the accounting's own [`QueueTree`], so what is broken is broken here too. Amounts are those that the scheduler said last: at its debug
//! endpoint, else in the status of the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::accounting::{QueueFault, QueueShape, QueueTree, ROOT_QUEUE};
use crate::api::QueueFacts;
use crate::api::quantities;
use crate::api::queue::NodeGroupAffinity;
use crate::cycle::explain::Refusal;
use crate::resources::{Amount, Limits, ResourceName, Resources, quantity};

use super::answers::{self, QueueAnswer};

/// The queues of a cluster.
#[derive(Debug, Default)]
pub struct Queues {
    tree: QueueTree,
    facts: BTreeMap<String, QueueFacts>,
    answers: BTreeMap<String, QueueAnswer>,
}

/// One queue, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Whether there is such an object. `root` and `default` count without one.
    pub exists: bool,
    /// What its status says: Open, Closing, Closed; none where nobody wrote it.
    pub state: Option<String>,
    /// The queue that somebody closed: this one or the nearest above it.
    pub closed_by: Option<String>,
    /// What is wrong with its place in the tree. What is wrong above it stands there.
    pub fault: Option<String>,
    /// Values of its object that could not be used.
    pub faults: Vec<String>,
    /// By resource, those in which anything is stated, used or asked.
    pub dimensions: Vec<Dimension>,
}

/// One resource in one queue. What is not known is none; a limit that is unset is none too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Which.
    pub name: ResourceName,
    /// The ceiling, if there is one.
    pub capability: Option<Amount>,
    /// The stated share.
    pub deserved: Option<Amount>,
    /// The stated floor.
    pub guarantee: Option<Amount>,
    /// What pods use; none where nobody said.
    pub used: Option<Amount>,
    /// What groups have reserved beyond that.
    pub reserved: Option<Amount>,
    /// What is kept for guarantees beyond that.
    pub kept: Option<Amount>,
    /// The share in force.
    pub share: Option<Amount>,
    /// What is asked on top.
    pub asked: Amount,
}

impl Dimension {
    /// An amount of it as people write it.
    #[must_use]
    pub fn shown(&self, amount: Amount) -> String {
        quantity::format(amount, self.name.style())
    }

    /// As it stands in the JSON of `why` and `tree`.
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
    /// As it stands in the JSON of `why` and `tree`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "exists": self.exists,
            "state": self.state,
            "closedBy": self.closed_by,
            "fault": self.fault,
            "faults": self.faults,
            "resources": self.dimensions.iter().map(Dimension::json).collect::<Vec<_>>(),
        })
    }
}

impl Queues {
    /// The node groups that are labelled for other queues than this one, as the scheduler has it.
    #[must_use]
    pub(super) fn barred_groups(&self, queue: &str) -> BTreeSet<String> {
        let affinity = |facts: &QueueFacts| facts.node_group_affinity.clone();
        let named = self.facts.values().filter_map(affinity).flat_map(|affinity| affinity.own).collect();
        let own = self.tree.way(queue).into_iter().find_map(|queue| self.facts.get(&*queue).and_then(affinity));
        NodeGroupAffinity::barred(own.as_ref(), &named)
    }

    /// The queues with these objects, and what the scheduler answered about them.
    #[must_use]
    pub fn new(facts: Vec<QueueFacts>, answers: Option<BTreeMap<String, QueueAnswer>>) -> Self {
        let mut queues = Self { answers: answers.unwrap_or_default(), ..Self::default() };
        for queue in facts {
            queues.tree.upsert(&QueueShape { name: Arc::from(queue.name.as_str()), parent: queue.parent.as_deref().map(Arc::from) });
            queues.facts.insert(queue.name.clone(), queue);
        }
        queues
    }

    /// What its object says; none where there is none.
    #[must_use]
    pub fn facts(&self, queue: &str) -> Option<&QueueFacts> {
        self.facts.get(queue)
    }

    /// The names of all that there are, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.facts.keys().map(String::as_str)
    }

    /// The names on the way up from a queue, that first, as far as they can be followed: also where it is broken.
    #[must_use]
    pub fn way(&self, queue: &str) -> Vec<String> {
        self.tree.way(queue).iter().map(ToString::to_string).collect()
    }

    /// The queues right below this one, by name.
    pub fn children(&self, queue: &str) -> impl Iterator<Item = &str> {
        self.tree.children(queue).map(|name| &**name)
    }

    /// All below this one, itself left out, by name.
    #[must_use]
    pub fn below(&self, queue: &str) -> Vec<String> {
        self.tree.subtree(queue).iter().filter(|name| ***name != *queue).map(ToString::to_string).collect()
    }

    /// Every queue with how far below `root` it is: parents before what is below them, siblings by name. What does not end at `root` comes last, at 0.
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
        listed.extend(self.tree.names().filter(stray).map(|name| (0, name.to_string())));
        listed
    }

    /// One queue, with so much asked on top of what it has.
    #[must_use]
    pub fn level(&self, queue: &str, asked: &Resources) -> Level {
        let facts = self.facts.get(queue);
        let closed_by = self.way(queue).into_iter().find(|name| self.facts.get(name).is_some_and(|facts| facts.closed_by_hand));
        Level {
            name: queue.to_owned(),
            exists: self.tree.contains(queue),
            state: facts.and_then(|facts| facts.status.state.clone()),
            closed_by,
            fault: self.tree.fault(queue).filter(|fault| *fault.queue == *queue).map(|fault| Refusal::Queue(fault).to_string()),
            faults: facts.map(|facts| facts.faults.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            dimensions: self.dimensions(queue, asked),
        }
    }

    /// A queue and all above it, with so much asked of each.
    #[must_use]
    pub fn levels(&self, queue: &str, asked: &Resources) -> Vec<Level> {
        self.way(queue).iter().map(|name| self.level(name, asked)).collect()
    }

    /// Why no pods can go to the queue, whatever is free in it.
    #[must_use]
    pub fn refusal(&self, queue: &str) -> Option<QueueFault> {
        self.tree.path(queue).err()
    }

    fn dimensions(&self, queue: &str, asked: &Resources) -> Vec<Dimension> {
        let none = Limits::new();
        let facts = self.facts.get(queue);
        let limits = |of: fn(&QueueFacts) -> &Limits| facts.map_or(&none, of);
        let (capability, deserved, guarantee) = (limits(|q| &q.capability), limits(|q| &q.deserved), limits(|q| &q.guarantee));
        let answer = self.answers.get(queue);
        let said = |of: fn(&QueueAnswer) -> Option<&quantities::RawResources>| answers::amounts(answer.and_then(of));
        let status = || {
            let allocated = facts.and_then(|facts| facts.status.allocated.as_ref());
            answers::amounts(allocated)
        };
        let used = said(|q| q.used.as_ref()).or_else(status);
        let (reserved, kept, share) = (said(|q| q.reserved.as_ref()), said(|q| q.kept.as_ref()), said(|q| q.share.as_ref()));
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
    use crate::cycle::testing::{amounts, queue};

    fn used(mut queue: QueueFacts, cpu: &str) -> QueueFacts {
        queue.status.allocated = Some([("cpu".to_owned(), RawQuantity::Text(cpu.to_owned()))].into());
        queue
    }

    #[test]
    fn what_is_used_and_reserved_is_what_the_scheduler_says_else_what_stands_in_the_status() {
        let answer =
            QueueAnswer { name: "p".into(), reserved: Some([("cpu".to_owned(), RawQuantity::Int(1))].into()), ..QueueAnswer::default() };
        let queues = Queues::new(vec![used(queue("p", None, &[("cpu", 4)]), "2")], Some([("p".to_owned(), answer)].into()));
        let [cpu] = queues.level("p", &amounts(&[("cpu", 2)])).dimensions.try_into().unwrap();
        let of = |units| Some(Amount::from_units(units));
        assert_eq!((cpu.used, cpu.reserved, cpu.capability, Some(cpu.asked)), (of(2), of(1), of(4), of(2)));
        let unknown = Queues::default().level("p", &amounts(&[("cpu", 9)])).dimensions;
        assert_eq!(unknown[0].used, None, "nobody said what is used");
    }

    #[test]
    fn every_queue_is_listed_once_also_those_that_do_not_end_at_root() {
        let below = |name: &str, parent: &str| queue(name, Some(parent), &[]);
        let queues = Queues::new(vec![below("b", "a"), below("a", "root"), below("x", "y"), below("y", "x"), below("o", "gone")], None);
        let listed: Vec<_> = queues.in_order().into_iter().map(|(depth, name)| format!("{depth}{name}")).collect();
        assert_eq!(listed, ["0root", "1a", "2b", "1default", "0o", "0x", "0y"]);
        assert_eq!(queues.below("a"), ["b"]);
        let refusal = |name| Refusal::Queue(queues.refusal(name).unwrap()).to_string();
        assert_eq!(refusal("x"), "queue \"x\" is below itself");
        assert_eq!(refusal("a"), "queue \"a\" has queues below it, and pods go to queues that have none");
        assert_eq!(queues.level("a", &Resources::new()).fault, None, "who stands above others is not at fault for that");
    }

    #[test]
    fn who_closed_a_queue_is_the_nearest_above_it() {
        let closed = |mut queue: QueueFacts| {
            queue.closed_by_hand = true;
            queue
        };
        let queues = Queues::new(vec![closed(queue("a", None, &[])), queue("b", Some("a"), &[])], None);
        assert_eq!(queues.level("b", &Resources::new()).closed_by.as_deref(), Some("a"));
        assert_eq!(queues.level("default", &Resources::new()).closed_by, None);
    }
}
