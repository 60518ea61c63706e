//! The answers of the rules to one state of the facts, for the differential test of the accounting.

use super::admission::can_reclaim;
use super::cluster::{Amounts, Cluster};
use super::limits::{fits, floor, held};
use super::scenario::cluster;
use super::shares::{is_within_entitlement, right, share};
use super::tree::{broken, closed_by, reserved, state, used, walk};

/// One state of the facts. Every question is answered from them alone.
pub(in crate::accounting) struct ByRules(Cluster);

impl ByRules {
    /// Reads the facts of a scenario.
    pub(in crate::accounting) fn read(facts: &str) -> Self {
        Self(cluster(facts))
    }

    /// T2.
    pub(in crate::accounting) fn used(&self, queue: &str, dimension: &str) -> i128 {
        used(&self.0, queue, dimension)
    }

    /// T2.
    pub(in crate::accounting) fn reserved(&self, queue: &str, dimension: &str) -> i128 {
        reserved(&self.0, queue, dimension)
    }

    /// F2.
    pub(in crate::accounting) fn floor(&self, queue: &str, dimension: &str) -> i128 {
        floor(&self.0, queue, dimension)
    }

    /// F3.
    pub(in crate::accounting) fn held(&self, queue: &str, dimension: &str) -> i128 {
        held(&self.0, queue, dimension)
    }

    /// S2.
    pub(in crate::accounting) fn share(&self, queue: &str, dimension: &str) -> i128 {
        share(&self.0, queue, dimension)
    }

    /// S3.
    pub(in crate::accounting) fn entitlement(&self, queue: &str, dimension: &str) -> i128 {
        right(&self.0, queue, dimension)
    }

    /// T1b.
    pub(in crate::accounting) fn broken<'a>(&'a self, queue: &'a str) -> Option<&'a str> {
        broken(&self.0, queue)
    }

    /// O1.
    pub(in crate::accounting) fn closed_by<'a>(&'a self, queue: &'a str) -> Option<&'a str> {
        closed_by(&self.0, queue)
    }

    /// O1.
    pub(in crate::accounting) fn state(&self, queue: &str) -> &'static str {
        state(&self.0, queue)
    }

    /// T2: returns the number of queues above this one.
    pub(in crate::accounting) fn depth(&self, queue: &str) -> usize {
        walk(&self.0, queue).len() - 1
    }

    /// F4: the refusal has the queue, the dimension if there is one, and the rule.
    pub(in crate::accounting) fn fits(&self, queue: &str, asked: &Amounts) -> Result<(), (String, Option<String>, &'static str)> {
        fits(&self.0, queue, asked).map_err(|refusal| (refusal.queue, refusal.dimension, refusal.rule))
    }

    /// A3.
    pub(in crate::accounting) fn can_reclaim(&self, queue: &str, asked: &Amounts) -> bool {
        can_reclaim(&self.0, queue, asked)
    }

    /// S3.
    pub(in crate::accounting) fn is_within_entitlement(&self, queue: &str, asked: &Amounts) -> bool {
        is_within_entitlement(&self.0, queue, asked)
    }
}
