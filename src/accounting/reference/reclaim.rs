//! Whether these pods may be evicted so that this PodGroup is placed (R1 to R5, and R1b within a queue).
//!
//! Terminating pods count as gone, and the reservation of the PodGroup itself is left out (A4): every function here gets
//! the cluster as [`settled`] makes it. Shares are those before the evictions.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::admission::{asks, live_members, needed, sum};
use super::cluster::{Amounts, Cluster, Group, Pod, amount, asked_in};
use super::limits::{Refusal, above_capability, fits, floor};
use super::shares::{is_within_entitlement, share};
use super::tree::{common_ancestor, spec, up_to_below, used, walk};

type Victims = BTreeSet<String>;
/// Checks whether the eviction of these pods from a settled cluster keeps a rule.
type Rule = fn(&Cluster, &Preemptor<'_>, &Victims) -> bool;

/// The preempting PodGroup, with the requests of its needed members, and what it asks for (A1).
struct Preemptor<'a> {
    queue: &'a str,
    group: &'a Group,
    members: Vec<Amounts>,
    asked: Amounts,
    /// The shares before the evictions, computed on demand: many choices are tried for one cluster.
    shares: RefCell<BTreeMap<(String, String), i128>>,
    lacked: OnceCell<Vec<String>>,
}

impl<'a> Preemptor<'a> {
    fn of(cluster: &Cluster, name: &str, group: &'a Group) -> Self {
        let members = needed(cluster, name);
        let (shares, lacked) = (RefCell::default(), OnceCell::new());
        Self { queue: &group.queue, group, asked: asks(cluster, name), members, shares, lacked }
    }

    fn share(&self, cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
        let mut shares = self.shares.borrow_mut();
        *shares.entry((queue.to_owned(), dimension.to_owned())).or_insert_with(|| share(cluster, queue, dimension))
    }
}

/// Returns the cluster without terminating pods and without the reservation of the PodGroup itself.
fn settled(before: &Cluster, preemptor: &str) -> Cluster {
    let mut after = before.without_reservation(preemptor);
    after.pods.retain(|_, pod| !pod.terminating);
    after
}

/// Returns the first rule that evicting these victims for this PodGroup violates.
pub(super) fn check_reclaim(before: &Cluster, preemptor: &str, victims: &Victims) -> Result<(), &'static str> {
    // Checked before the cluster is settled, because a terminating pod is no victim.
    let Some(group) = before.groups.get(preemptor) else {
        return Err("no such group");
    };
    let pods: Option<Vec<&Pod>> = victims.iter().map(|uid| before.pods.get(uid)).collect();
    let Some(pods) = pods else {
        return Err("no such victim");
    };
    if !pods.iter().all(|pod| may_go(pod, group, preemptor)) {
        return Err("R2c");
    }
    let cluster = settled(before, preemptor);
    let preemptor = Preemptor::of(&cluster, preemptor, group);
    if is_placed(&cluster, &preemptor, &Victims::new()) {
        // Either the PodGroup fits already, or it waits until the terminating pods are gone.
        return if victims.is_empty() { Ok(()) } else { Err("R3") };
    }
    check_victims(&cluster, &preemptor, victims)?;
    if parts_of(victims).any(|fewer| check_victims(&cluster, &preemptor, &fewer).is_ok()) {
        return Err("R5");
    }
    Ok(())
}

/// Returns the fewest victims that may be evicted for this PodGroup, possibly none, by trying every choice. When `thoroughly` is false, no
/// choice is tried if even the eviction of all pods would not be enough.
pub(super) fn some_reclaim(before: &Cluster, preemptor: &str, thoroughly: bool) -> Option<Victims> {
    if check_reclaim(before, preemptor, &Victims::new()).is_ok() {
        return Some(Victims::new());
    }
    let group = before.groups.get(preemptor)?;
    let cluster = settled(before, preemptor);
    let may: Victims = before.pods.iter().filter(|(_, pod)| may_go(pod, group, preemptor)).map(|(uid, _)| uid.clone()).collect();
    let preemptor = Preemptor::of(&cluster, preemptor, group);
    if !thoroughly && !is_placed(&cluster, &preemptor, &may) {
        return None;
    }
    // A pod that may not be evicted first may not be evicted at all, and need not be tried together with others.
    let alone = |uid: &String| {
        let one = Victims::from([uid.clone()]);
        may_reclaim_from(&cluster, &preemptor, &one) && borrows(&cluster, &preemptor, uid, &Victims::new())
    };
    let may: Victims = may.into_iter().filter(alone).collect();
    if !thoroughly && !is_placed(&cluster, &preemptor, &may) {
        return None;
    }
    let mut choices: Vec<Victims> = parts_of(&may).chain([may.clone()]).filter(|choice| !choice.is_empty()).collect();
    choices.sort_by_key(Victims::len);
    // The cheapest checks come first.
    let is_right = |victims: &Victims| {
        gangs_stay_or_go(&cluster, &preemptor, victims)
            && is_placed(&cluster, &preemptor, victims)
            && check_victims(&cluster, &preemptor, victims).is_ok()
    };
    choices.into_iter().find(is_right)
}

/// Checks all rules, except that every victim is needed.
fn check_victims(cluster: &Cluster, preemptor: &Preemptor<'_>, victims: &Victims) -> Result<(), &'static str> {
    let rules: [(&str, Rule); 6] = [
        ("R4", gangs_stay_or_go),
        ("R1", may_reclaim_from),
        ("R2", all_borrow),
        ("R2b", no_queue_falls_below_its_floor),
        ("R3b", no_ceiling_refuses),
        ("R3", is_placed),
    ];
    rules.iter().find(|(_, holds)| !holds(cluster, preemptor, victims)).map_or(Ok(()), |(rule, _)| Err(rule))
}

/// R2c, and R1b within one queue.
fn may_go(pod: &Pod, preemptor: &Group, name: &str) -> bool {
    let low_enough = if pod.queue == preemptor.queue { pod.priority < preemptor.priority } else { pod.priority <= preemptor.priority };
    pod.preemptable && !pod.terminating && pod.ours && low_enough && pod.group.as_deref() != Some(name)
}

/// R1, against the queue of every victim.
fn may_reclaim_from(cluster: &Cluster, preemptor: &Preemptor<'_>, victims: &Victims) -> bool {
    queues_of(cluster, victims).iter().all(|victim| {
        up_to_below(cluster, preemptor.queue, common_ancestor(cluster, preemptor.queue, victim)).iter().all(|queue| {
            asked_in(&preemptor.asked)
                .all(|(dimension, asked)| used(cluster, queue, dimension) + asked <= preemptor.share(cluster, queue, dimension))
        })
    })
}

/// R2: there is an order in which the queue of each victim is over its share when the previous victims are gone.
fn all_borrow(cluster: &Cluster, preemptor: &Preemptor<'_>, victims: &Victims) -> bool {
    let units = units(cluster, victims);
    victims.is_empty()
        || units.iter().any(|last| {
            let before: Victims = victims.difference(last).cloned().collect();
            last.iter().all(|uid| borrows(cluster, preemptor, uid, &before)) && all_borrow(cluster, preemptor, &before)
        })
}

/// R2 for one pod, after the eviction of others.
fn borrows(cluster: &Cluster, preemptor: &Preemptor<'_>, uid: &str, gone: &Victims) -> bool {
    let Some(pod) = cluster.pods.get(uid) else {
        return false;
    };
    let left = cluster.without_pods(gone);
    let way = up_to_below(cluster, &pod.queue, common_ancestor(cluster, preemptor.queue, &pod.queue));
    let over = |dimension: &String| way.iter().all(|queue| used(&left, queue, dimension) > preemptor.share(cluster, queue, dimension));
    let reclaimable = way.iter().all(|queue| spec(cluster, queue).reclaimable);
    // Within its own queue (R1b) the way is empty and no queue borrows.
    way.is_empty() || reclaimable && preemptor.lacked.get_or_init(|| lacked(cluster, preemptor)).iter().any(over)
}

/// R2: returns the dimensions that the PodGroup lacks: where F4 refuses, or less is idle than its members request. Where the room exists but
/// in pieces, it lacks everything that it asks for.
fn lacked(cluster: &Cluster, preemptor: &Preemptor<'_>) -> Vec<String> {
    let dimensions: Vec<(String, i128)> = asked_in(&preemptor.asked).map(|(name, asked)| (name.to_owned(), asked)).collect();
    let lacks = |(name, asked): &&(String, i128)| {
        let alone = Amounts::from([(name.clone(), *asked)]);
        idle(cluster, name) < amount(&sum(&preemptor.members), name)
            || matches!(fits(cluster, preemptor.queue, &alone), Err(Refusal { dimension: Some(_), .. }))
    };
    let lacked: Vec<String> = dimensions.iter().filter(lacks).map(|(name, _)| name.clone()).collect();
    if lacked.is_empty() { dimensions.into_iter().map(|(name, _)| name).collect() } else { lacked }
}

/// R2b: for every queue from a victim's up to below the common ancestor.
fn no_queue_falls_below_its_floor(cluster: &Cluster, preemptor: &Preemptor<'_>, victims: &Victims) -> bool {
    let after = cluster.without_pods(victims);
    queues_of(cluster, victims).iter().all(|victim| {
        up_to_below(cluster, victim, common_ancestor(cluster, preemptor.queue, victim)).iter().all(|queue| {
            cluster.dimensions().iter().all(|dimension| {
                let (was, is) = (used(cluster, queue, dimension), used(&after, queue, dimension));
                is == was || is >= floor(cluster, queue, dimension)
            })
        })
    })
}

/// R3: all needed members have a node when the victims are gone.
fn is_placed(cluster: &Cluster, preemptor: &Preemptor<'_>, victims: &Victims) -> bool {
    let after = cluster.without_pods(victims);
    // S3: a member that keeps its place keeps that of its gang.
    let may_go = preemptor.group.preemptable && !preemptor.group.member_keeps;
    let may_stay = may_go || is_within_entitlement(&after, preemptor.queue, &sum(&preemptor.members));
    fits(&after, preemptor.queue, &preemptor.asked).is_ok() && may_stay && have_nodes(&after, &preemptor.members)
}

/// N2, by trying every node for every member; where no nodes are named, with all nodes together.
fn have_nodes(cluster: &Cluster, members: &[Amounts]) -> bool {
    if cluster.nodes.is_empty() {
        return asked_in(&sum(members)).all(|(dimension, asked)| asked <= idle(cluster, dimension));
    }
    let Some((first, rest)) = members.split_first() else {
        return true;
    };
    cluster.nodes.iter().any(|(node, offered)| {
        let charged = sum(&on_node(cluster, node));
        let room = asked_in(first).all(|(dimension, asked)| amount(&charged, dimension) + asked <= amount(offered, dimension));
        let mut with_first = cluster.clone();
        let uid = format!("member-{}", rest.len());
        with_first.pods.insert(uid, Pod { amounts: first.clone(), node: Some(node.clone()), ..Pod::default() });
        room && have_nodes(&with_first, rest)
    })
}

/// N1: returns the amounts of the pods on a node, of our queues and outside of them.
fn on_node(cluster: &Cluster, node: &str) -> Vec<Amounts> {
    let ours = cluster.pods.values().filter(|pod| pod.node.as_deref() == Some(node)).map(|pod| pod.amounts.clone());
    ours.chain(cluster.foreign.values().filter(|(at, _)| at == node).map(|(_, amounts)| amounts.clone())).collect()
}

/// Returns what no pod uses: of all nodes together, or the sum of what is left on each.
fn idle(cluster: &Cluster, dimension: &str) -> i128 {
    if cluster.nodes.is_empty() {
        return amount(&cluster.total, dimension) - amount(&sum(&on_node(cluster, "all")), dimension) - used(cluster, "root", dimension);
    }
    let left =
        |(node, offered): (&String, &Amounts)| (amount(offered, dimension) - amount(&sum(&on_node(cluster, node)), dimension)).max(0);
    cluster.nodes.iter().map(left).sum()
}

/// R3b: when a queue refuses because of its own capability, only evictions below it help, and they must be enough.
fn no_ceiling_refuses(cluster: &Cluster, preemptor: &Preemptor<'_>, victims: &Victims) -> bool {
    let after = cluster.without_pods(victims);
    walk(&after, preemptor.queue)
        .iter()
        .all(|queue| asked_in(&preemptor.asked).all(|(dimension, asked)| above_capability(&after, queue, dimension, asked).is_none()))
}

/// R4: each PodGroup that loses members keeps minMember and its oldest member, or no member.
fn gangs_stay_or_go(cluster: &Cluster, _: &Preemptor<'_>, victims: &Victims) -> bool {
    cluster.groups.iter().all(|(name, group)| {
        let live = live_members(cluster, name);
        let stay: Vec<&String> = live.iter().filter(|uid| !victims.contains(*uid)).collect();
        let oldest = live.iter().min_by_key(|uid| (cluster.pods.get(*uid).map(|pod| pod.created), *uid));
        let keeps = group.min_member == 0 || stay.len() >= group.min_member && oldest.is_none_or(|oldest| stay.contains(&oldest));
        stay.len() == live.len() || stay.is_empty() || keeps
    })
}

/// R4: returns the units of an eviction: a whole gang, or each member beyond minMember, or each pod without a PodGroup.
fn units(cluster: &Cluster, victims: &Victims) -> Vec<Victims> {
    let whole = |uid: &String| {
        let group = cluster.pods.get(uid).and_then(|pod| pod.group.clone())?;
        let live: Victims = live_members(cluster, &group).into_iter().collect();
        let is_gang = cluster.groups.get(&group).is_some_and(|spec| spec.min_member > 0);
        (is_gang && live.is_subset(victims)).then_some(live)
    };
    let units: BTreeSet<Victims> = victims.iter().map(|uid| whole(uid).unwrap_or_else(|| Victims::from([uid.clone()]))).collect();
    units.into_iter().collect()
}

fn queues_of(cluster: &Cluster, victims: &Victims) -> BTreeSet<String> {
    victims.iter().filter_map(|uid| cluster.pods.get(uid)).map(|pod| pod.queue.clone()).collect()
}

/// Returns every proper part of the victims. There are few in a test.
fn parts_of(victims: &Victims) -> impl Iterator<Item = Victims> {
    let all: Vec<String> = victims.iter().cloned().collect();
    (0..(1_usize << all.len()) - 1).map(move |chosen| {
        let is_in = |(at, uid): (usize, &String)| (chosen >> at & 1 == 1).then(|| uid.clone());
        all.iter().enumerate().filter_map(is_in).collect()
    })
}
