//! The score of a node for a pod: the node with the smallest score is the best.
//!
//! Scores are compared field by field, so the order of the fields *is* the policy. The name is the last field, so no two nodes are equal:
//!
//! 1. **devices are left to the pods that need them**: a node with fewer extended resources (names with a `/`) that the pod does not request;
//! 2. **spread** (the default): the node that is emptiest afterwards; **pack**: the fullest. The measure is the fullest of the resources that
//!    the pod requests.
//!
//! Spread is the default for two reasons. Most pods of a cluster belong to services, and the failure of a node should stop few of them. It is also
//! what kube-scheduler does by default. `--placement pack` is for clusters with large gangs: it leaves whole nodes free.

use std::sync::Arc;

use crate::accounting::NodeView;
use crate::cycle::placement::Strategy;
use crate::resources::{Amount, Resources};

/// The score of a node for a pod; the smallest is the best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// The number of extended resources on the node that the pod does not request.
    wasted: u32,
    /// The used part of the node afterwards in millionths (spread), or the idle part (pack).
    cost: u32,
    /// The name of the node.
    name: Arc<str>,
}

impl Score {
    /// Makes a score from figures that are known already.
    pub(super) const fn new(wasted: u32, cost: u32, name: Arc<str>) -> Self {
        Self { wasted, cost, name }
    }
}

/// The value of a full node: fullness is measured in millionths.
pub(super) const WHOLE: u32 = 1_000_000;

/// Returns the score of a node that can take the request.
#[must_use]
pub fn score(placement: Strategy, request: &Resources, node: NodeView<'_>, name: &Arc<str>) -> Score {
    let wasted = node.allocatable.iter().filter(|(name, _)| name.contains('/') && request.get(name).is_zero()).count();
    let fullness =
        request.iter().map(|(name, asked)| share(node.used.get(name).plus(asked), node.allocatable.get(name))).max().unwrap_or(0);
    let cost = match placement {
        Strategy::Spread => fullness,
        Strategy::Pack => WHOLE.saturating_sub(fullness),
    };
    Score { wasted: u32::try_from(wasted).unwrap_or(u32::MAX), cost, name: Arc::clone(name) }
}

/// Returns `used / whole` in millionths, rounded down, at most [`WHOLE`]; [`WHOLE`] if `whole` is 0.
fn share(used: Amount, whole: Amount) -> u32 {
    // The largest amount that can be read is about 10²⁸ nano-units, so a million times that is far below the limit of about 10³⁸.
    let parts = used.nanos().max(0).saturating_mul(i128::from(WHOLE)).checked_div(whole.nanos().max(0));
    parts.map_or(WHOLE, |parts| u32::try_from(parts).unwrap_or(WHOLE).min(WHOLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::amounts;

    fn of(placement: Strategy, allocatable: &[(&str, i64)], used: &[(&str, i64)], name: &str) -> Score {
        let (allocatable, used) = (amounts(allocatable), amounts(used));
        score(placement, &amounts(&[("cpu", 1)]), NodeView { name, allocatable: &allocatable, used: &used }, &Arc::from(name))
    }

    #[test]
    fn spread_takes_the_emptiest_and_pack_the_fullest() {
        let empty = |placement| of(placement, &[("cpu", 4)], &[], "a");
        let half = |placement| of(placement, &[("cpu", 4)], &[("cpu", 2)], "b");
        assert!(empty(Strategy::Spread) < half(Strategy::Spread));
        assert!(half(Strategy::Pack) < empty(Strategy::Pack));
    }

    #[test]
    fn a_node_without_devices_comes_first_and_equal_nodes_go_by_name() {
        let plain = of(Strategy::Spread, &[("cpu", 4)], &[("cpu", 2)], "z");
        let device = of(Strategy::Spread, &[("cpu", 4), ("nvidia.com/gpu", 8)], &[], "a");
        assert!(plain < device);
        assert!(of(Strategy::Pack, &[("cpu", 4)], &[], "a") < of(Strategy::Pack, &[("cpu", 4)], &[], "b"));
    }
}
