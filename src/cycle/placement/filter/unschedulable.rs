//! Is the node cordoned, and does the pod not mind?
//!
//! The field and the taint that Kubernetes derives from it are two writes, so between them the field alone must keep pods away.

use crate::api::node::Taint;
use crate::cycle::explain::Reason;

use super::{Asked, No, Sight, taints};

/// The taint of a cordoned node: who bears it may go there.
const CORDON: &str = "node.kubernetes.io/unschedulable";

pub(super) fn refuses(asked: &Asked<'_>, node: &Sight<'_>) -> Option<No> {
    let cordon = || Taint { key: CORDON.to_owned(), value: None, effect: "NoSchedule".to_owned() };
    (node.facts.unschedulable && !taints::borne(&asked.constraints.tolerations, &cordon())).then(|| Reason::Unschedulable.into())
}
