//! Which of the nodes that can take a pod is the best?
//!
//! A score is compared field by field, so the order of the fields *is* the policy, and the name at the end makes it one answer:
//!
//! 1. **devices stay free for who needs them**: a node that offers fewer extended resources (names with a `/`) that the pod does not ask for;
//! 2. **spread** (the default): the node that is emptiest afterwards; **pack**: the fullest. Measured in the fullest of the dimensions that
//!    the pod asks for.
//!
//! Spread is the default because most pods of a cluster are services, for which the death of a node should take little with it, and because it
//! is what people know from kube-scheduler. Clusters that exist for large gangs want `--placement pack`: whole nodes stay free.

use std::sync::Arc;

use crate::accounting::NodeView;
use crate::cycle::placement::Strategy;
use crate::resources::{Amount, Resources};

/// How good a node is for a pod; the smallest is the best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// How many kinds of devices would lie idle beside it.
    wasted: u32,
    /// How full the node is afterwards in millionths (spread), or how empty (pack).
    cost: u32,
    /// Its name.
    name: Arc<str>,
}

impl Score {
    /// The score of a node of which these figures are known already.
    pub(super) const fn new(wasted: u32, cost: u32, name: Arc<str>) -> Self {
        Self { wasted, cost, name }
    }
}

/// A whole, in the steps that fullness is measured in. Finer steps than a millionth tell no two nodes apart that differ.
pub(super) const WHOLE: u32 = 1_000_000;

/// The score of a node that can take the request.
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

/// `used` of `whole` in millionths, rounded down, at most a whole.
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
