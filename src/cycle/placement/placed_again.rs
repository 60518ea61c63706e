//! Would a pod that is charged on a node be placed there again?

use super::placer::{Attempt, Placer, Pod};

impl Placer<'_> {
    /// Returns whether the pod, which is charged on this node and in this queue, would be placed there again. It is set aside for that
    /// until the trial ends.
    pub fn places_again(&mut self, queue: &str, pod: Pod<'_>, node: &str, preemptable: bool) -> bool {
        let attempt = Attempt { queue, pods: &[pod], needed: 1, parts: &[], preemptable, is_due: false };
        self.trial.set_aside(&pod.facts.uid);
        self.respect_nominations(&attempt);
        if self.fixed_node(pod.facts, node).is_err() {
            return false;
        }
        let (accounting, request) = (self.accounting(), &pod.facts.request);
        let may_borrow = preemptable && pod.facts.preemptable;
        accounting.fits_queue(queue, request).is_ok() && (may_borrow || accounting.quota().within_entitlement(queue, request).is_ok())
    }
}
