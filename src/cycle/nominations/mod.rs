//! Nominations: the nodes and the quota that are charged for a gang while its victims end (R7).
//!
//! ```text
//!            nominate                 victims gone, and it fits
//!  waiting ───────────▶ nominated ─────────────────────────────▶ assumed, bound like any other
//!     ▲                     │
//!     ╰──── withdraw ───────╯  as a whole, and the PodGroup backs off
//! ```
//!
//! A nominated gang is charged at once, to its nodes and its queue, though the victims are still there. Both are overcommitted in the
//! accounting for that time, so no other pod is placed there. A nominated member neither waits nor has a node: it does not count for its
//! gang and is not bound.
//!
//! When the last victim holds nothing any more, the whole gang is placed again with every filter and every limit of its queue. What is
//! nominated for *other* gangs is left out: they have nothing yet. So no bind is sent while a victim still holds what the bind needs.
//! A nomination is withdrawn, always as a whole, when:
//!
//! * its time is over;
//! * an eviction was refused;
//! * one of its pods, or the request of its PodGroup, changed or is gone (bound by another scheduler, deleted, gated, another minimum);
//! * a node is gone or refuses it (cordon, taint);
//! * its queue is broken, gone or closed (a closed queue places no pod, O1);
//! * it would not satisfy its gang any more;
//! * the victims are gone and the gang does not fit all the same. Then it waits on, within its time, while a terminating pod there could
//!   make the difference.
//!
//! The place of a member that a gang has lost is kept in the same way ([`kept`]).
//!
//! The nodes are in `status.nominatedNodeName` of the members, where the status writer puts them. After a takeover the first cycle reads them
//! and nominates again what still fits (`preemption::again`); the victims are leaving by then, and count as terminating pods.

mod kept;
mod register;
mod settle;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Placement, ROOT_QUEUE};
use crate::api::{GroupFacts, GroupKey, PodFacts, Uid};
use crate::backoff::Backoff;
use crate::resources::Resources;

use super::cache::{Cache, Member, State};
use super::explain::Refusal;

pub(in crate::cycle) use kept::KeptPlace;
pub(in crate::cycle) use register::{Nomination, Nominations};
pub(in crate::cycle) use settle::{Outlook, after_refusal, helpful, is_for_other_pods, outlook, settle};

/// The time that victims get beyond their grace period before the nomination is withdrawn.
pub const NOMINATION_MARGIN: Duration = Duration::from_secs(60);

/// The longest grace period that a nomination waits for: any author of a pod can write any number there.
pub const LONGEST_GRACE: Duration = Duration::from_secs(600);

/// The back-off of a PodGroup after a withdrawn nomination.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

impl Nominations {
    /// Returns the deadline of a nomination: the longest grace period of its victims, at most [`LONGEST_GRACE`], and
    /// [`NOMINATION_MARGIN`]. It may count on terminating pods as well: those on one of its nodes, or in a queue that shares a limit with
    /// its own.
    #[must_use]
    pub(in crate::cycle) fn deadline(&self, cache: &Cache, places: &[Placement], victims: &[Uid], now: Duration) -> Duration {
        let tree = cache.accounting().quota().tree();
        let nodes: BTreeSet<&str> = places.iter().map(|place| &*place.node).collect();
        let ways: BTreeSet<Arc<str>> =
            places.iter().flat_map(|place| tree.way(&place.queue)).filter(|queue| **queue != *ROOT_QUEUE).collect();
        let matters = |uid: &Uid| {
            let pod = cache.accounting().pod(uid);
            let shares = |queue: &str| tree.way(queue).iter().any(|above| ways.contains(above));
            pod.is_some_and(|pod| pod.node.is_some_and(|node| nodes.contains(node)) || pod.queue.is_some_and(shares))
        };
        let grace = |uid: &Uid| cache.pods().get(uid).map(|member| member.facts.grace);
        let others = cache.leaving().iter().filter(|(uid, _)| matters(uid)).map(|(_, grace)| *grace);
        let victims = self.victims().filter(|uid| matters(uid)).chain(victims).filter_map(grace);
        let longest = others.chain(victims).map(|grace| grace.min(LONGEST_GRACE)).max();
        now.saturating_add(longest.unwrap_or_default()).saturating_add(NOMINATION_MARGIN)
    }

    /// Returns the terminating pods and the victims of nominations. They count as gone in a search for victims.
    pub(super) fn terminating_or_victims(&self, cache: &Cache) -> BTreeSet<Uid> {
        cache.leaving().keys().chain(self.victims.keys()).cloned().collect()
    }

    /// Returns why the PodGroup waits while it is nominated; none where it is not.
    #[must_use]
    pub(super) fn nominated(&self, key: &GroupKey) -> Option<&Arc<Refusal>> {
        self.gangs.get(key).map(|nomination| &nomination.refusal)
    }

    /// The nominated resources of a queue: in it and all below it, and in itself.
    #[must_use]
    pub(super) fn in_queue(&self, cache: &Cache, queue: &str) -> (Resources, Resources) {
        let tree = cache.accounting().quota().tree();
        let (mut all, mut own) = (Resources::new(), Resources::new());
        for (leaf, nominated) in &self.queues {
            if tree.way(leaf).iter().any(|above| **above == *queue) {
                all.add(nominated);
            }
            if **leaf == *queue {
                own.add(nominated);
            }
        }
        (all, own)
    }
}

/// Returns the nominated PodGroup of the pod where these new facts of the pod break its nomination.
pub(in crate::cycle) fn broken_by_pod(cache: &Cache, facts: &PodFacts) -> Option<GroupKey> {
    let known = cache.pods().get(&facts.uid).filter(|known| known.nominated.is_some() && cache.serves(&facts.scheduler))?;
    let old = &known.facts;
    let same = (&old.group, &old.task, &old.request, &old.constraints, old.preemptable)
        == (&facts.group, &facts.task, &facts.request, &facts.constraints, facts.preemptable);
    let next = Member { facts: Arc::new(facts.clone()), ..known.clone() };
    (!same || next.state() != State::Nominated).then(|| old.group.clone())
}

/// Whether these new facts of a PodGroup break its nomination. The status does not matter: this scheduler writes it.
pub(super) fn is_broken_by_group(cache: &Cache, facts: &GroupFacts) -> bool {
    cache.groups().get(&facts.key).and_then(|group| group.facts.as_ref()).is_some_and(|old| !old.asks_the_same(facts))
}
