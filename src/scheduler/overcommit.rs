//! Tracks the overcommitted nodes, so that each change is logged once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::{NodeView, QueueView};
use crate::cycle::state::SchedulingState;
use crate::resources::Resources;

/// The nodes that were overcommitted at the last update.
#[derive(Debug, Default)]
pub struct Overcommit {
    mark: Option<u64>,
    nodes: BTreeMap<Arc<str>, Resources>,
}

impl Overcommit {
    /// Returns the nodes with changed overcommitted resources since the last update, with the amounts; `None` for a node that is no longer
    /// overcommitted.
    pub fn update(&mut self, scheduling: &SchedulingState) -> Vec<(Arc<str>, Option<Resources>)> {
        let nodes = scheduling.cache().nodes();
        let changed: Vec<_> = match self.mark.and_then(|mark| nodes.since(mark)) {
            Some(changed) => changed.to_vec(),
            None => nodes.ids().collect(),
        };
        self.mark = Some(nodes.head());
        let mut changed_nodes = Vec::new();
        for facts in changed.into_iter().filter_map(|id| nodes.get(id)) {
            let over = scheduling.cache().accounting().ledger().node(&facts.name).map(|node| over(node, scheduling)).unwrap_or_default();
            let name = Arc::clone(&facts.name);
            if over.is_zero() {
                if self.nodes.remove(&name).is_some() {
                    changed_nodes.push((name, None));
                }
                continue;
            }
            let dimensions = |over: &Resources| over.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            let before = self.nodes.insert(Arc::clone(&name), over.clone());
            if before.as_ref().map(dimensions) != Some(dimensions(&over)) {
                changed_nodes.push((name, Some(over)));
            }
        }
        // A node that was deleted is forgotten without a message.
        self.nodes.retain(|name, _| nodes.id(name).is_some());
        changed_nodes
    }

    /// Returns the overcommitted nodes, with the amounts.
    #[must_use]
    pub const fn nodes(&self) -> &BTreeMap<Arc<str>, Resources> {
        &self.nodes
    }
}

/// Returns the overcommitted amounts of the node. Nominated amounts do not count, because no pod uses them yet.
fn over(node: NodeView<'_>, scheduling: &SchedulingState) -> Resources {
    NodeView { used: &used(node, scheduling), ..node }.overcommitted()
}

/// Returns the use of the pods in the queue and all below it, and of the pods in the queue itself.
pub(super) fn used_in(queue: QueueView<'_>, scheduling: &SchedulingState) -> (Resources, Resources) {
    let (mut used, mut own) = (queue.used.clone(), queue.own.clone());
    // Neither nominated pods nor those that wait for volumes are bound.
    for (kept, kept_itself) in [scheduling.nominated_in(queue.name), scheduling.held_in(queue.name)] {
        used.sub(&kept);
        own.sub(&kept_itself);
    }
    (used, own)
}

/// Returns the use of the pods on the node.
pub(super) fn used(node: NodeView<'_>, scheduling: &SchedulingState) -> Resources {
    let mut used = node.used.clone();
    if let Some(kept) = scheduling.nominated_on(node.name) {
        used.sub(&kept);
    }
    used
}
