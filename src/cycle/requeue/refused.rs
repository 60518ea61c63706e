//! What has to change before a PodGroup that was refused can succeed?

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, ROOT_QUEUE};
use crate::api::GroupKey;
use crate::cycle::cache::Cache;
use crate::cycle::explain::Refusal;
use crate::resources::Resources;

use super::Requeue;
use super::parked::{Blocker, Lacking, LineKey};

impl Requeue {
    /// The PodGroup was refused: it is parked under what has to change.
    pub(in crate::cycle) fn park_refused(&mut self, cache: &Cache, key: &GroupKey, refusal: &Refusal) {
        let Some(group) = cache.groups.get(key) else { return };
        let Some(facts) = &group.facts else { return };
        let queue: Arc<str> = Arc::from(facts.queue.as_str());
        let classes: BTreeSet<_> = group.waiting.iter().filter_map(|uid| cache.pods.get(uid)?.class).collect();
        let preemptable: BTreeSet<bool> = group
            .waiting
            .iter()
            .filter_map(|uid| cache.pods.get(uid))
            .map(|member| member.facts.preemptable && facts.preemptable)
            .collect();
        let differ = classes.len() > 1 || preemptable.len() > 1 || !cache.anti_affinity.is_empty();
        let cause = refusal.cause();
        let blocker = if let Refusal::Nodes { needed, .. } = cause {
            match (classes.first(), preemptable.first()) {
                (Some(class), Some(preemptable)) if !differ => {
                    let minimum =
                        facts.min_resources.iter().flat_map(Resources::iter).map(|(name, amount)| (name.clone(), amount)).collect();
                    let reserves = group.admission.reservation.is_some();
                    let line = LineKey { class: *class, members: *needed, queue, preemptable: *preemptable, reserves, minimum };
                    Blocker::Nodes(line, cache.rank(group, facts))
                }
                _ => Blocker::Members(classes),
            }
        } else if let Refusal::Ceiling(ceiling) = cause {
            if differ { Blocker::Members(classes) } else { Blocker::Quota(lacking(queue, ceiling)) }
        } else if matches!(cause, Refusal::Backoff { failures: 0, .. }) {
            // The accounting changed between the answer of a node and the placement.
            Blocker::Members(classes)
        } else {
            Blocker::Itself
        };
        self.refused(key, blocker);
    }
}

/// What a queue has too little of, for a PodGroup of `queue`. What a queue is entitled to follows from what every queue uses and wants.
fn lacking(queue: Arc<str>, ceiling: &Ceiling) -> Lacking {
    if ceiling.bound == Bound::Entitlement {
        return Lacking { level: Arc::from(ROOT_QUEUE), queue, asked: None };
    }
    Lacking { level: Arc::clone(&ceiling.queue), queue, asked: Some((ceiling.dimension.clone(), ceiling.asked)) }
}
