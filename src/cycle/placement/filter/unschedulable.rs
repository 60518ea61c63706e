//! The predicate for cordoned nodes: the pod must tolerate the taint of a cordoned node.
//!
//! The field and the taint that Kubernetes derives from it are two writes, so between them the field alone must keep pods away.

use crate::api::NodeFacts;
use crate::api::node::Taint;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query, taints};

/// The taint of a cordoned node: a pod that tolerates it may go there.
const CORDON: &str = "node.kubernetes.io/unschedulable";

pub(super) struct Unschedulable;

impl Predicate for Unschedulable {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let cordon = || Taint { key: CORDON.to_owned(), value: None, effect: "NoSchedule".to_owned() };
        (node.facts.unschedulable && !taints::tolerated(&query.constraints.tolerations, &cordon())).then(|| Reason::Unschedulable.into())
    }

    fn concerns_node(&self, node: &NodeFacts) -> bool {
        node.unschedulable
    }
}
