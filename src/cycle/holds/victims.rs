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
//! The nodes are in `status.nominatedNodeName` of the members, where the status writer puts them. After a takeover the first cycle reads them
//! and nominates again what still fits (`preemption::again`); the victims are leaving by then, and count as terminating pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Bound, Placement, ROOT_QUEUE};
use crate::api::{GroupFacts, GroupKey, PodFacts, SubGroup, Uid};
use crate::cycle::cache::subgroups::SubgroupNeeds;
use crate::cycle::cache::{Cache, Member, State as PodState, gang};
use crate::cycle::explain::Refusal;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::filter::lasting_refusal;
use crate::cycle::placement::placer::{Attempt, Placer, Pod};
use crate::resources::Resources;

use super::Outlook;
use super::hold::{Hold, Kind};
use super::table::Holds;

/// The time that victims get beyond their grace period before the nomination is withdrawn.
pub const NOMINATION_MARGIN: Duration = Duration::from_secs(60);

/// The longest grace period that a nomination waits for: any author of a pod can write any number there.
pub const LONGEST_GRACE: Duration = Duration::from_secs(600);

impl Holds {
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
}

/// Returns what has become of the nomination of the PodGroup.
pub(in crate::cycle) fn outlook(cache: &Cache, hold: &Hold) -> Outlook {
    let Some((group, facts)) = cache.groups().get(&hold.group).and_then(|group| Some((group, group.facts.as_deref()?))) else {
        return Outlook::broken("group_gone");
    };
    let quota = cache.accounting().quota();
    let takes_none = |queue: &str| quota.path(queue).is_err() || quota.closed_by(queue).is_some() || cache.node_groups(queue).is_some();
    if hold.places.iter().any(|place| takes_none(&place.queue)) {
        return Outlook::broken("queue");
    }
    if !hold.places.iter().all(|place| could_take(cache, place)) {
        return Outlook::broken("node");
    }
    let nominated = |task: Option<&str>| {
        let of_task = |uid: &Uid| task.is_none_or(|task| cache.pods().get(uid).is_some_and(|member| member.facts.task() == task));
        u32::try_from(hold.places.iter().filter(|place| of_task(&place.uid)).count()).unwrap_or(u32::MAX)
    };
    let tasks = gang::missing_tasks(group, facts);
    if gang::Count::of(group, facts).missing() > nominated(None) || tasks.iter().any(|(task, missing)| *missing > nominated(Some(task))) {
        return Outlook::broken("gang_changed");
    }
    let needs = SubgroupNeeds::of(group, facts, std::iter::empty());
    let in_subgroup = |subgroup: &SubGroup| {
        let places = hold.places.iter().filter(|place| group.subgroups.of(&place.uid) == Some(subgroup));
        u32::try_from(places.count()).unwrap_or(u32::MAX)
    };
    let becomes_whole = |policy: usize| {
        let whole = needs.lack.iter().filter(|(subgroup, lacks)| subgroup.policy == policy && in_subgroup(subgroup) >= **lacks);
        u32::try_from(whole.count()).unwrap_or(u32::MAX)
    };
    let is_part = |(subgroup, lacks): (&SubGroup, &u32)| (1..*lacks).contains(&in_subgroup(subgroup));
    if needs.missing.iter().any(|(policy, missing)| *missing > becomes_whole(*policy)) || needs.lack.iter().any(is_part) {
        return Outlook::broken("gang_changed");
    }
    if hold.victims().is_none_or(BTreeSet::is_empty) { Outlook::Ready } else { Outlook::Waits }
}

/// Whether the node exists and could take the pod without the victims.
fn could_take(cache: &Cache, place: &Placement) -> bool {
    let Some(node) = cache.nodes().id(&place.node).and_then(|id| cache.node(id)) else { return false };
    let Some(member) = cache.pods().get(&place.uid) else { return false };
    lasting_refusal(&member.facts.constraints, &cache.barred_groups(&place.queue), &node).is_none()
}

/// Places the gang on its nominated nodes, as if nothing were nominated. All members, or nothing has changed.
pub(in crate::cycle) fn settle(cache: &mut Cache, holds: &Holds, key: &GroupKey) -> Result<Vec<Placement>, Refusal> {
    settle_without(cache, holds, key, &BTreeSet::new(), true)
}

/// Does the same without these pods, as if they were gone; and undoes it, unless it is to be kept.
fn settle_without(cache: &mut Cache, holds: &Holds, key: &GroupKey, gone: &BTreeSet<Uid>, keep: bool) -> Result<Vec<Placement>, Refusal> {
    let own = holds.nomination(key).map(|hold| hold.places.as_slice()).unwrap_or_default();
    let queue = own.first().map(|place| &*place.queue).unwrap_or_default();
    let keeps = |place: &Placement| cache.pods().get(&place.uid).is_some_and(|member| !member.facts.preemptable);
    let may_borrow = cache.may_borrow(key) && !own.iter().any(keeps);
    let borrowers = if may_borrow { Vec::new() } else { borrowers(cache, gone) };
    // The nodes are given, so no preference is needed. What is reserved besides is for further members, and stays.
    let (mut placer, beside) = cache.placer_beside_holds(key, queue, Strategy::default());
    let nominated = holds.of_kind(Kind::Victims).flat_map(|hold| &hold.places).map(|place| &place.uid);
    nominated.chain(gone).for_each(|uid| placer.trial().set_aside(uid));
    if !may_borrow {
        is_due(&mut placer, queue, own, &borrowers)?;
    }
    let pod = |place| {
        let Placement { uid, node, .. }: &Placement = place;
        beside.pods.get(uid).map(|member| Pod { node: Some(&**node), ..Pod::new(&member.facts, None) })
    };
    let members: Vec<Pod<'_>> = own.iter().filter_map(pod).collect();
    let needed = u32::try_from(own.len()).unwrap_or(u32::MAX);
    // Whether the queue may borrow is asked above.
    match placer.place(&Attempt { queue, pods: &members, needed, parts: &[], preemptable: true, is_due: true }) {
        Ok(_) if keep => Ok(placer.commit()),
        Ok(_) => Ok(Vec::new()),
        Err(not) => Err(*not.refusal),
    }
}

/// Whether the queue has a right to these places, where it must not borrow for them (S3). What it borrows for preemptable pods does not count:
/// these came after the nomination.
fn is_due(placer: &mut Placer<'_>, queue: &str, places: &[Placement], borrowers: &[Uid]) -> Result<(), Refusal> {
    let mut asked = Resources::new();
    places.iter().for_each(|place| asked.add(&place.resources));
    if placer.accounting().quota().within_entitlement(queue, &asked).is_ok() {
        return Ok(());
    }
    borrowers.iter().for_each(|uid| placer.trial().set_aside(uid));
    placer.accounting().quota().within_entitlement(queue, &asked)?;
    borrowers.iter().for_each(|uid| placer.trial().put_back(uid));
    Ok(())
}

/// Returns the pods with a node that are there as long as their queues may borrow, but for these.
fn borrowers(cache: &Cache, gone: &BTreeSet<Uid>) -> Vec<Uid> {
    let borrows = |member: &Member| {
        let group = cache.groups().get(&member.facts.group).and_then(|group| group.facts.as_ref());
        member.state() == PodState::Placed && member.facts.preemptable && group.is_none_or(|group| group.preemptable)
    };
    let placed = cache.pods().iter().filter(|(uid, member)| borrows(member) && !gone.contains(*uid));
    placed.map(|(uid, _)| uid.clone()).collect()
}

/// Returns what becomes of a nomination that could not be settled: it waits while a terminating pod could make the difference, else it
/// is broken.
pub(in crate::cycle) fn after_refusal(cache: &mut Cache, holds: &Holds, key: &GroupKey, refusal: &Refusal) -> Outlook {
    if is_for_other_pods(refusal) {
        // Which terminating pod is in the way is not known, and it may be on another node: of its zone, for instance.
        let gone = holds.terminating_or_victims(cache);
        let would_fit = settle_without(cache, holds, key, &gone, false).is_ok();
        return if would_fit { Outlook::Waits } else { Outlook::broken("node") };
    }
    let places = holds.nomination(key).map(|hold| hold.places.as_slice()).unwrap_or_default();
    let nodes: BTreeSet<&str> = places.iter().map(|place| &*place.node).collect();
    if helpful(cache, holds, &nodes, refusal).next().is_some() { Outlook::Waits } else { Outlook::broken("no_room") }
}

/// Whether nodes refused for another reason than an amount: since the node itself takes the pods ([`outlook`]), for other pods or their ports.
pub(in crate::cycle) fn is_for_other_pods(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Nodes { tally, .. } if tally.lacks().is_none())
}

/// Returns the terminating pods and the victims that could make the difference for a PodGroup that was refused on these nodes. Some come twice.
pub(in crate::cycle) fn helpful<'a>(
    cache: &'a Cache,
    holds: &'a Holds,
    nodes: &'a BTreeSet<&str>,
    refusal: &Refusal,
) -> impl Iterator<Item = &'a Uid> {
    let on_nodes = matches!(refusal, Refusal::Nodes { tally, .. } if tally.lacks().is_some());
    let ceiling = if let Refusal::Ceiling(ceiling) = refusal { Some(ceiling) } else { None };
    let below = ceiling.map(|ceiling| cache.accounting().quota().tree().subtree(&ceiling.queue)).unwrap_or_default();
    // What a pod outside our queues gives back is there for all of them (N2).
    let is_of_total = ceiling.is_some_and(|ceiling| matches!(ceiling.bound, Bound::Cluster | Bound::Entitlement));
    cache.leaving().keys().chain(holds.victims()).filter(move |uid| {
        let pod = cache.accounting().pod(uid);
        let frees = |node: &str| on_nodes && nodes.contains(node);
        pod.is_some_and(|pod| pod.node.is_some_and(frees) || pod.queue.map_or(is_of_total, |queue| below.contains(queue)))
    })
}

/// Returns the nominated PodGroup of the pod where these new facts of the pod break its nomination.
pub(in crate::cycle) fn broken_by_pod(cache: &Cache, facts: &PodFacts) -> Option<GroupKey> {
    let known = cache.pods().get(&facts.uid).filter(|known| known.nominated.is_some() && cache.serves(&facts.scheduler))?;
    let old = &known.facts;
    let same = (&old.group, &old.task, &old.request, &old.constraints, old.preemptable)
        == (&facts.group, &facts.task, &facts.request, &facts.constraints, facts.preemptable);
    let next = Member { facts: Arc::new(facts.clone()), ..known.clone() };
    (!same || next.state() != PodState::Nominated).then(|| old.group.clone())
}

/// Whether these new facts of a PodGroup break its nomination. The status does not matter: this scheduler writes it.
pub(in crate::cycle) fn is_broken_by_group(cache: &Cache, facts: &GroupFacts) -> bool {
    cache.groups().get(&facts.key).and_then(|group| group.facts.as_ref()).is_some_and(|old| !old.asks_the_same(facts))
}
