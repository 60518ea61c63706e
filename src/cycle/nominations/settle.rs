//! Settles a nomination: it waits, it is broken, or the gang is placed now.

use std::collections::BTreeSet;

use crate::accounting::{Bound, Placement};
use crate::api::{GroupKey, Uid};
use crate::cycle::cache::{Cache, Member, State as PodState, gang};
use crate::cycle::explain::Refusal;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::filter::lasting_refusal;
use crate::cycle::placement::placer::{Attempt, Pod};
use crate::resources::Resources;

use super::Nominations;

/// The state of a nomination.
pub(in crate::cycle) enum Outlook {
    Waits,
    Ready,
    Broken(&'static str),
}

/// Returns what has become of the nomination of the PodGroup.
pub(in crate::cycle) fn outlook(cache: &Cache, nominations: &Nominations, key: &GroupKey) -> Outlook {
    let Some(nomination) = nominations.gangs.get(key) else { return Outlook::Waits };
    let Some((group, facts)) = cache.groups().get(key).and_then(|group| Some((group, group.facts.as_deref()?))) else {
        return Outlook::Broken("group_gone");
    };
    let quota = cache.accounting().quota();
    let takes_none = |queue: &str| quota.path(queue).is_err() || quota.closed_by(queue).is_some() || cache.node_groups(queue).is_some();
    if nomination.places.iter().any(|place| takes_none(&place.queue)) {
        return Outlook::Broken("queue");
    }
    if !nomination.places.iter().all(|place| could_take(cache, place)) {
        return Outlook::Broken("node");
    }
    let nominated = |task: Option<&str>| {
        let of_task = |uid: &Uid| task.is_none_or(|task| cache.pods().get(uid).is_some_and(|member| member.facts.task() == task));
        u32::try_from(nomination.places.iter().filter(|place| of_task(&place.uid)).count()).unwrap_or(u32::MAX)
    };
    let tasks = gang::missing_tasks(group, facts);
    if gang::Count::of(group, facts).missing() > nominated(None) || tasks.iter().any(|(task, missing)| *missing > nominated(Some(task))) {
        return Outlook::Broken("gang_changed");
    }
    if nomination.victims.is_empty() { Outlook::Ready } else { Outlook::Waits }
}

/// Whether the node exists and could take the pod without the victims.
fn could_take(cache: &Cache, place: &Placement) -> bool {
    let Some(node) = cache.nodes().id(&place.node).and_then(|id| cache.node(id)) else { return false };
    let Some(member) = cache.pods().get(&place.uid) else { return false };
    lasting_refusal(&member.facts.constraints, &cache.barred_groups(&place.queue), &node).is_none()
}

/// Places the gang on its nominated nodes, in an accounting without any nomination. All members, or the accounting is as before.
pub(in crate::cycle) fn settle(cache: &mut Cache, nominations: &Nominations, key: &GroupKey) -> Result<Vec<Placement>, Refusal> {
    settle_without(cache, nominations, key, &BTreeSet::new(), true)
}

/// Does the same without these pods, as if they were gone; and undoes it, unless it is to be kept.
fn settle_without(
    cache: &mut Cache,
    nominations: &Nominations,
    key: &GroupKey,
    gone: &BTreeSet<Uid>,
    keep: bool,
) -> Result<Vec<Placement>, Refusal> {
    let all: Vec<Placement> = nominations.gangs.values().flat_map(|nomination| nomination.places.iter().cloned()).collect();
    let own = nominations.gangs.get(key).map(|nomination| nomination.places.as_slice()).unwrap_or_default();
    cache.beside_nominated(&all, |cache| place_nominated(cache, key, own, gone, keep))
}

fn place_nominated(
    cache: &mut Cache,
    key: &GroupKey,
    own: &[Placement],
    gone: &BTreeSet<Uid>,
    keep: bool,
) -> Result<Vec<Placement>, Refusal> {
    let queue = own.first().map(|place| &*place.queue).unwrap_or_default();
    is_due(cache, key, queue, own, gone)?;
    // The nodes are given, so no preference is needed. What is reserved besides is for further members, and stays.
    let (mut placer, beside) = cache.placer_beside_holds(key, queue, Strategy::default());
    let pod = |place| {
        let Placement { uid, node, .. }: &Placement = place;
        beside.pods.get(uid).map(|member| Pod { facts: &member.facts, class: None, node: Some(&**node), within: None })
    };
    let members: Vec<Pod<'_>> = own.iter().filter_map(pod).collect();
    let needed = u32::try_from(own.len()).unwrap_or(u32::MAX);
    gone.iter().for_each(|uid| placer.trial().set_aside(uid));
    // Whether the queue may borrow is asked above.
    match placer.place(&Attempt { queue, pods: &members, needed, first: needed, preemptable: true, is_due: true }) {
        Ok(_) if keep => Ok(placer.commit()),
        Ok(_) => Ok(Vec::new()),
        Err(not) => Err(*not.refusal),
    }
}

/// Whether the queue has a right to these places, where it must not borrow for them (S3). What it borrows for preemptable pods does not count:
/// these came after the nomination.
fn is_due(cache: &mut Cache, key: &GroupKey, queue: &str, places: &[Placement], gone: &BTreeSet<Uid>) -> Result<(), Refusal> {
    let keeps = |place: &Placement| cache.pods().get(&place.uid).is_some_and(|member| !member.facts.preemptable);
    if cache.may_borrow(key) && !places.iter().any(keeps) {
        return Ok(());
    }
    let mut asked = Resources::new();
    places.iter().for_each(|place| asked.add(&place.resources));
    if cache.accounting().quota().within_entitlement(queue, &asked).is_ok() {
        return Ok(());
    }
    let borrows = |member: &Member| {
        let group = cache.groups().get(&member.facts.group).and_then(|group| group.facts.as_ref());
        member.state() == PodState::Placed && member.facts.preemptable && group.is_none_or(|group| group.preemptable)
    };
    let borrowers: Vec<Uid> = cache.pods().iter().filter(|(_, member)| borrows(member)).map(|(uid, _)| uid.clone()).collect();
    let mut trial = cache.trial();
    borrowers.iter().chain(gone).for_each(|uid| _ = trial.set_aside(uid));
    trial.accounting().quota().within_entitlement(queue, &asked)?;
    Ok(())
}

/// Returns what becomes of a nomination that could not be settled: it waits while a terminating pod could make the difference, else it
/// is broken.
pub(in crate::cycle) fn after_refusal(cache: &mut Cache, nominations: &Nominations, key: &GroupKey, refusal: &Refusal) -> Outlook {
    if is_for_other_pods(refusal) {
        // Which terminating pod is in the way is not known, and it may be on another node: of its zone, for instance.
        let gone = nominations.terminating_or_victims(cache);
        let would_fit = settle_without(cache, nominations, key, &gone, false).is_ok();
        return if would_fit { Outlook::Waits } else { Outlook::Broken("node") };
    }
    let places = nominations.gangs.get(key).map(|nomination| nomination.places.as_slice()).unwrap_or_default();
    let nodes: BTreeSet<&str> = places.iter().map(|place| &*place.node).collect();
    if helpful(cache, nominations, &nodes, refusal).next().is_some() { Outlook::Waits } else { Outlook::Broken("no_room") }
}

/// Whether nodes refused for another reason than an amount: since the node itself takes the pods ([`outlook`]), for other pods or their ports.
pub(in crate::cycle) fn is_for_other_pods(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Nodes { tally, .. } if tally.lacks().is_none())
}

/// Returns the terminating pods and the victims that could make the difference for a PodGroup that was refused on these nodes. Some come twice.
pub(in crate::cycle) fn helpful<'a>(
    cache: &'a Cache,
    nominations: &'a Nominations,
    nodes: &'a BTreeSet<&str>,
    refusal: &Refusal,
) -> impl Iterator<Item = &'a Uid> {
    let on_nodes = matches!(refusal, Refusal::Nodes { tally, .. } if tally.lacks().is_some());
    let ceiling = if let Refusal::Ceiling(ceiling) = refusal { Some(ceiling) } else { None };
    let below = ceiling.map(|ceiling| cache.accounting().quota().tree().subtree(&ceiling.queue)).unwrap_or_default();
    // What a pod outside our queues gives back is there for all of them (N2).
    let is_of_total = ceiling.is_some_and(|ceiling| matches!(ceiling.bound, Bound::Cluster | Bound::Entitlement));
    cache.leaving().keys().chain(nominations.victims.keys()).filter(move |uid| {
        let pod = cache.accounting().pod(uid);
        let frees = |node: &str| on_nodes && nodes.contains(node);
        pod.is_some_and(|pod| pod.node.is_some_and(frees) || pod.queue.map_or(is_of_total, |queue| below.contains(queue)))
    })
}
