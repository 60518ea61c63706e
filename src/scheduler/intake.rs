//! How do lists and watch events become what is known? One function for each kind: all there is, one more, one less.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::{BudgetFacts, BudgetKey, Fault, GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::runtime::flags::QueueStatusBy;

use super::event::Change;
use super::state::{Kind, Now, State};

impl State {
    pub(super) fn apply_nodes(&mut self, change: Change<NodeFacts, Arc<str>>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|node| Arc::clone(&node.name)).chain(unreadable).collect();
                let gone: Vec<_> =
                    self.world.nodes().iter().map(|node| Arc::clone(&node.name)).filter(|name| !there.contains(name)).collect();
                gone.iter().for_each(|name| self.world.delete_node(name));
                all.into_iter().for_each(|node| self.apply_node(node));
                self.complete.insert(Kind::Nodes);
            }
            Change::Apply(node) => self.apply_node(node),
            Change::Delete(name) => self.world.delete_node(&name),
            Change::Unreadable(_) => {}
        }
    }

    fn apply_node(&mut self, node: NodeFacts) {
        let nodes = self.world.nodes();
        let known = nodes.id(&node.name).and_then(|id| nodes.get(id));
        complain("node", &node.name, known.map(|known| known.faults.as_slice()), &node.faults);
        self.world.apply_node(node);
    }

    pub(super) fn apply_pods(&mut self, change: Change<PodFacts, Uid>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|pod| pod.uid.clone()).chain(unreadable).collect();
                let gone: Vec<_> = self.world.pod_uids().filter(|uid| !there.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.delete_pod(uid));
                all.into_iter().for_each(|pod| self.apply_pod(pod));
                self.complete.insert(Kind::Pods);
            }
            Change::Apply(pod) => self.apply_pod(pod),
            Change::Delete(uid) => self.delete_pod(&uid),
            Change::Unreadable(_) => {}
        }
    }

    fn apply_pod(&mut self, pod: PodFacts) {
        self.said.pod_seen(&pod.uid);
        self.world.apply_pod(pod);
    }

    fn delete_pod(&mut self, uid: &Uid) {
        self.said.pod_gone(uid);
        self.world.delete_pod(uid);
    }

    pub(super) fn apply_groups(&mut self, change: Change<GroupFacts, GroupKey>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|group| group.key.clone()).chain(unreadable).collect();
                let known = self.world.groups().iter().filter(|(_, group)| group.facts.is_some()).map(|(key, _)| key);
                let gone: Vec<_> = known.filter(|key| !there.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.delete_group(key));
                all.into_iter().for_each(|group| self.apply_group(group));
                self.complete.insert(Kind::Groups);
            }
            Change::Apply(group) => self.apply_group(group),
            Change::Delete(key) => self.delete_group(&key),
            Change::Unreadable(_) => {}
        }
    }

    fn apply_group(&mut self, group: GroupFacts) {
        self.said.group_seen(&group);
        self.world.apply_group(group);
    }

    fn delete_group(&mut self, key: &GroupKey) {
        self.said.group_gone(key);
        self.world.delete_group(key);
    }

    pub(super) fn apply_queues(&mut self, change: Change<QueueFacts, Arc<str>>, now: Now) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|queue| Arc::from(queue.name.as_str())).chain(unreadable).collect();
                let gone: Vec<_> = self.world.queues().keys().filter(|name| !there.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| self.delete_queue(name));
                all.into_iter().for_each(|queue| self.apply_queue(queue));
                self.complete.insert(Kind::Queues);
            }
            Change::Apply(queue) => self.apply_queue(queue),
            Change::Delete(name) => self.delete_queue(&name),
            Change::Unreadable(_) => {}
        }
        self.make_queues(now);
    }

    fn apply_queue(&mut self, queue: QueueFacts) {
        let queue = match self.said.queue_status_by {
            QueueStatusBy::Own => queue,
            QueueStatusBy::Obey => queue.obeying(),
        };
        complain("queue", &queue.name, self.world.queues().get(&*queue.name).map(|known| known.faults.as_slice()), &queue.faults);
        self.said.queue_seen(&queue.name);
        self.world.apply_queue(queue);
    }

    fn delete_queue(&mut self, name: &Arc<str>) {
        self.said.queue_gone(name);
        self.world.delete_queue(name);
    }

    pub(super) fn apply_priority_classes(&mut self, change: Change<PriorityClassFacts, String>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|class| class.name.clone()).chain(unreadable).collect();
                let gone: Vec<_> = self.world.priority_class_names().filter(|name| !there.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| self.world.delete_priority_class(name));
                all.into_iter().for_each(|class| self.world.apply_priority_class(class));
                self.complete.insert(Kind::PriorityClasses);
            }
            Change::Apply(class) => self.world.apply_priority_class(class),
            Change::Delete(name) => self.world.delete_priority_class(&name),
            Change::Unreadable(_) => {}
        }
    }

    pub(super) fn apply_budgets(&mut self, change: Change<BudgetFacts, BudgetKey>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|budget| budget.key.clone()).chain(unreadable).collect();
                let gone: Vec<_> = self.world.budget_keys().filter(|key| !there.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.world.delete_budget(key));
                all.into_iter().for_each(|budget| self.world.apply_budget(budget));
                self.complete.insert(Kind::Budgets);
            }
            Change::Apply(budget) => self.world.apply_budget(budget),
            Change::Delete(key) => self.world.delete_budget(&key),
            Change::Unreadable(_) => {}
        }
    }
}

/// One line for each value of a node or queue that cannot be used, when it is new.
fn complain(kind: &'static str, name: &str, known: Option<&[Fault]>, faults: &[Fault]) {
    for fault in faults.iter().filter(|fault| !known.is_some_and(|known| known.contains(fault))) {
        tracing::warn!(kind, name, %fault, "a value cannot be used");
    }
}
