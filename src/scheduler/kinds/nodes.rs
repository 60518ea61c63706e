//! The nodes, by name.

use std::sync::Arc;

use crate::api::{Node, NodeFacts};
use crate::cycle::state::SchedulingState;
use crate::scheduler::state::State;

use super::{Kind, WatchedKind};

/// The nodes, by name.
#[derive(Debug)]
pub enum Nodes {}

impl WatchedKind for Nodes {
    type Object = Node;
    type Facts = NodeFacts;
    type Key = Arc<str>;

    const KIND: Kind = Kind::new("nodes");

    fn facts(object: Node) -> NodeFacts {
        NodeFacts::of(&object)
    }

    fn key(facts: &NodeFacts) -> Arc<str> {
        Arc::clone(&facts.name)
    }

    fn known(scheduling: &SchedulingState) -> Vec<Arc<str>> {
        scheduling.cache().nodes().iter().map(|node| Arc::clone(&node.name)).collect()
    }

    fn apply(state: &mut State, facts: NodeFacts) {
        let nodes = state.scheduling.cache().nodes();
        let known = nodes.id(&facts.name).and_then(|id| nodes.get(id));
        super::log_faults("node", &facts.name, known.map(|known| known.faults.as_slice()), &facts.faults);
        state.scheduling.apply_node(facts);
    }

    fn delete(state: &mut State, key: &Arc<str>) {
        state.scheduling.delete_node(key);
    }
}
