//! Applies lists and watch events to the state, one function for each kind of object.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::volumes::{
    AttachmentFacts, CapacityFacts, CapacityKey, ClaimFacts, ClaimKey, CsiDriverFacts, CsiNodeFacts, StorageClassFacts, VolumeFacts,
};
use crate::api::workload::NamespaceLabels;
use crate::api::{BudgetFacts, BudgetKey, Fault, GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::cycle::state::SchedulingState;
use crate::runtime::flags::QueueStatusBy;

use super::event::Change;
use super::state::{Now, State};
use super::takeover::Kind;

impl State {
    /// Applies a change of one kind. After a list, objects that the list lacks are deleted first.
    fn apply_change<T, K: Ord>(
        &mut self,
        (kind, change): (Kind, Change<T, K>),
        key: impl Fn(&T) -> K,
        known: impl Fn(&SchedulingState) -> Vec<K>,
        apply: impl Fn(&mut Self, T),
        delete: impl Fn(&mut Self, &K),
    ) {
        match change {
            Change::Reset { all, unreadable, generation, back: _, as_of: _ } => {
                let there: BTreeSet<K> = all.iter().map(key).chain(unreadable).collect();
                known(&self.scheduling).iter().filter(|key| !there.contains(key)).for_each(|gone| delete(self, gone));
                all.into_iter().for_each(|object| apply(self, object));
                self.takeover.listed(kind, generation);
                self.view.listed(kind, generation);
            }
            Change::Apply(object) => apply(self, object),
            Change::Delete(key) => delete(self, &key),
            Change::UpToDate(_) | Change::Unreadable(_) => {}
        }
    }

    pub(super) fn apply_nodes(&mut self, change: Change<NodeFacts, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().nodes().iter().map(|node| Arc::clone(&node.name)).collect();
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_node(name);
        self.apply_change((Kind::Nodes, change), |node| Arc::clone(&node.name), known, Self::apply_node, delete);
    }

    fn apply_node(&mut self, node: NodeFacts) {
        let nodes = self.scheduling.cache().nodes();
        let known = nodes.id(&node.name).and_then(|id| nodes.get(id));
        log_faults("node", &node.name, known.map(|known| known.faults.as_slice()), &node.faults);
        self.scheduling.apply_node(node);
    }

    pub(super) fn apply_pods(&mut self, change: Change<PodFacts, Uid>) {
        if let Change::Reset { all, back: true, .. } = &change {
            // The API server had confirmed these binds, and does not know them any more.
            all.iter().filter(|pod| pod.node.is_none()).for_each(|pod| self.scheduling.lose_bind(&pod.uid));
            self.takeover.went_back();
        }
        let known = |scheduling: &SchedulingState| scheduling.cache().pod_uids().cloned().collect();
        self.apply_change((Kind::Pods, change), |pod| pod.uid.clone(), known, Self::apply_pod, Self::delete_pod);
    }

    fn apply_pod(&mut self, pod: PodFacts) {
        self.status_writer.pod_seen(&pod.uid);
        if pod.node.is_some() {
            self.takeover.shown(&pod.uid);
        }
        self.slips.seen(&pod, self.scheduling.cache().schedulers());
        self.scheduling.apply_pod(pod);
    }

    fn delete_pod(&mut self, uid: &Uid) {
        self.status_writer.pod_gone(uid);
        self.takeover.shown(uid);
        self.slips.gone(uid);
        self.scheduling.delete_pod(uid);
    }

    pub(super) fn apply_groups(&mut self, change: Change<GroupFacts, GroupKey>) {
        if matches!(change, Change::Reset { back: true, .. }) {
            self.status_writer.went_back();
        }
        let known = |scheduling: &SchedulingState| {
            let there = scheduling.cache().groups().iter().filter(|(_, group)| group.facts.is_some());
            there.map(|(key, _)| key.clone()).collect()
        };
        self.apply_change((Kind::Groups, change), |group| group.key.clone(), known, Self::apply_group, Self::delete_group);
    }

    fn apply_group(&mut self, group: GroupFacts) {
        self.status_writer.group_seen(&group);
        self.scheduling.apply_group(group);
    }

    fn delete_group(&mut self, key: &GroupKey) {
        self.status_writer.group_gone(key);
        self.scheduling.delete_group(key);
    }

    pub(super) fn apply_queues(&mut self, change: Change<QueueFacts, Arc<str>>, now: Now) {
        let known = |scheduling: &SchedulingState| scheduling.cache().queues().keys().cloned().collect();
        self.apply_change((Kind::Queues, change), |queue| Arc::from(queue.name.as_str()), known, Self::apply_queue, Self::delete_queue);
        // Before that, `start_deciding` creates them.
        if self.decides() {
            self.make_missing_queues(now);
        }
    }

    fn apply_queue(&mut self, queue: QueueFacts) {
        let queue = match self.status_writer.queue_status_by {
            QueueStatusBy::Own => queue,
            QueueStatusBy::Obey => queue.obeying(),
        };
        log_faults(
            "queue",
            &queue.name,
            self.scheduling.cache().queues().get(&*queue.name).map(|known| known.faults.as_slice()),
            &queue.faults,
        );
        self.status_writer.queue_seen(&queue.name);
        // A standby shows no queues.
        if self.decides() {
            self.metrics.waiting_times.queue_known(&Arc::from(queue.name.as_str()));
        }
        self.scheduling.apply_queue(queue);
    }

    fn delete_queue(&mut self, name: &Arc<str>) {
        self.status_writer.queue_gone(name);
        self.metrics.waiting_times.queue_deleted(name);
        self.scheduling.delete_queue(name);
    }

    pub(super) fn apply_priority_classes(&mut self, change: Change<PriorityClassFacts, String>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().priority_class_names().cloned().collect();
        let apply = |state: &mut Self, class| state.scheduling.apply_priority_class(class);
        let delete = |state: &mut Self, name: &String| state.scheduling.delete_priority_class(name);
        self.apply_change((Kind::PriorityClasses, change), |class| class.name.clone(), known, apply, delete);
    }

    pub(super) fn apply_budgets(&mut self, change: Change<BudgetFacts, BudgetKey>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().budget_keys().cloned().collect();
        let apply = |state: &mut Self, budget| state.scheduling.apply_budget(budget);
        let delete = |state: &mut Self, key: &BudgetKey| state.scheduling.delete_budget(key);
        self.apply_change((Kind::Budgets, change), |budget| budget.key.clone(), known, apply, delete);
    }

    pub(super) fn apply_namespaces(&mut self, change: Change<NamespaceLabels, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().namespaces().cloned().collect();
        let apply = |state: &mut Self, namespace: NamespaceLabels| state.scheduling.apply_namespace(&namespace.name, namespace.labels);
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_namespace(name);
        self.apply_change((Kind::Namespaces, change), |namespace| Arc::clone(&namespace.name), known, apply, delete);
    }

    pub(super) fn apply_claims(&mut self, change: Change<ClaimFacts, ClaimKey>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().volumes().claims().cloned().collect();
        let apply = |state: &mut Self, claim| state.scheduling.apply_claim(claim);
        let delete = |state: &mut Self, key: &ClaimKey| state.scheduling.delete_claim(key);
        self.apply_change((Kind::Claims, change), |claim| claim.key.clone(), known, apply, delete);
    }

    pub(super) fn apply_volumes(&mut self, change: Change<VolumeFacts, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().volumes().volumes().cloned().collect();
        let apply = |state: &mut Self, volume| state.scheduling.apply_volume(volume);
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_volume(name);
        self.apply_change((Kind::Volumes, change), |volume| Arc::clone(&volume.name), known, apply, delete);
    }

    pub(super) fn apply_storage_classes(&mut self, change: Change<StorageClassFacts, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().volumes().classes().cloned().collect();
        let apply = |state: &mut Self, class| state.scheduling.apply_storage_class(class);
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_storage_class(name);
        self.apply_change((Kind::StorageClasses, change), |class| Arc::clone(&class.name), known, apply, delete);
    }

    pub(super) fn apply_csi_nodes(&mut self, change: Change<CsiNodeFacts, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().csi_nodes().cloned().collect();
        let apply = |state: &mut Self, node| state.scheduling.apply_csi_node(node);
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_csi_node(name);
        self.apply_change((Kind::CsiNodes, change), |node| Arc::clone(&node.node), known, apply, delete);
    }

    pub(super) fn apply_attachments(&mut self, change: Change<AttachmentFacts, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().volumes().attachments().cloned().collect();
        let apply = |state: &mut Self, attachment| state.scheduling.apply_attachment(attachment);
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_attachment(name);
        self.apply_change((Kind::Attachments, change), |attachment| Arc::clone(&attachment.name), known, apply, delete);
    }

    pub(super) fn apply_csi_drivers(&mut self, change: Change<CsiDriverFacts, Arc<str>>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().volumes().drivers_with_capacity().cloned().collect();
        let apply = |state: &mut Self, driver| state.scheduling.apply_csi_driver(driver);
        let delete = |state: &mut Self, name: &Arc<str>| state.scheduling.delete_csi_driver(name);
        self.apply_change((Kind::CsiDrivers, change), |driver| Arc::clone(&driver.name), known, apply, delete);
    }

    pub(super) fn apply_capacities(&mut self, change: Change<CapacityFacts, CapacityKey>) {
        let known = |scheduling: &SchedulingState| scheduling.cache().volumes().capacities().cloned().collect();
        let apply = |state: &mut Self, capacity| state.scheduling.apply_capacity(capacity);
        let delete = |state: &mut Self, key: &CapacityKey| state.scheduling.delete_capacity(key);
        self.apply_change((Kind::StorageCapacities, change), |capacity| capacity.key.clone(), known, apply, delete);
    }
}

/// Logs each new fault of a node or queue.
fn log_faults(kind: &'static str, name: &str, known: Option<&[Fault]>, faults: &[Fault]) {
    for fault in faults.iter().filter(|fault| !known.is_some_and(|known| known.contains(fault))) {
        tracing::warn!(kind, name, %fault, "the value is invalid");
    }
}
