//! One cycle of the model (A2, A3, A6, N2, and the order by P1 and P1).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::admission::{can_reclaim, sum};
use super::super::cluster::{Amounts, Cluster, Pod, amount, asked_in, larger, less, plus};
use super::super::limits::fits;
use super::super::shares::right;
use super::super::tree::{broken, closed_by, is_leaf, spec, used, walk};
use super::order::{Rank, Shares};
use super::reservations::{ADMISSION_TIMEOUT, MINIMUMS_PASS};
use super::{CycleModel, Member, MemberState, Place, covers, positive};

/// A member that was bound to a node.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    pub(crate) pod: String,
    pub(crate) node: String,
}

/// The turn that a PodGroup still has in a cycle.
struct Want {
    group: String,
    rank: Rank,
    queue: String,
    /// How many members must be placed together; 0 where they are placed one by one.
    needed: usize,
    /// How many members wait and had no turn yet.
    left: usize,
    /// Whether a member found no node.
    failed: bool,
    /// How many members had their turn in vain.
    passed: usize,
}

#[derive(PartialEq, Eq)]
enum Turn {
    Over,
    Again,
    /// The PodGroup waits for room.
    WaitsForRoom,
}

impl CycleModel {
    /// Runs a cycle that tries these PodGroups and makes these binds, in this order. `backing_off` are the PodGroups that back off
    /// afterwards: when two fail, it is possible that only the first has to back off.
    ///
    /// The error is the first difference from the rules.
    pub(crate) fn cycle(
        &mut self,
        now: u64,
        tried: &BTreeSet<String>,
        binds: &[Bind],
        backing_off: &BTreeSet<String>,
    ) -> Result<(), String> {
        self.end_kept(now);
        let mut binds = binds.iter();
        let mut wants: Vec<Want> = tried.iter().filter_map(|group| self.prepare(group, now)).collect();
        let mut shares = Shares::of(self.cluster());
        let mut first: BTreeMap<String, String> = BTreeMap::new();
        let mut in_vain = Vec::new();
        while !wants.is_empty() {
            let wanting: Vec<(String, Rank)> = wants.iter().map(|want| (want.queue.clone(), want.rank.clone())).collect();
            let Some(next) = self.next(&wanting, &mut shares) else { return Err("no PodGroup is next".to_owned()) };
            let Some(at) = wants.iter().position(|want| want.rank == next) else { return Err("the next PodGroup is unknown".to_owned()) };
            let mut want = wants.remove(at);
            // A6. A partially bound gang is completed first, and so is one that keeps places (A8).
            let is_completed_first = want.needed > 0 && self.is_partially_bound(&want.group) || !self.life(&want.group).kept.is_empty();
            // A6: a PodGroup that has its places has reserved for its further members.
            let has_rest = self.is_satisfied(&want.group) && !positive(&self.life(&want.group).reserved).is_empty();
            let is_completed_first = is_completed_first || has_rest;
            if first.contains_key(&want.queue) && !is_completed_first {
                if !self.is_satisfied(&want.group) {
                    self.revoke(&want.group);
                }
                continue;
            }
            match self.turn(&mut want, now, &mut binds, &mut in_vain)? {
                Turn::Over => {}
                Turn::Again => {
                    if !std::mem::replace(&mut want.rank.3, true) {
                        want.rank.2 += MINIMUMS_PASS;
                    }
                    wants.push(want);
                }
                Turn::WaitsForRoom if self.fifo.contains(&want.queue) && self.could_ever_fit(&want) => {
                    first.insert(want.queue, want.group);
                }
                Turn::WaitsForRoom => {}
            }
        }
        if let Some(bind) = binds.next() {
            return Err(format!("{} is placed on {}, but no member may be placed", bind.pod, bind.node));
        }
        in_vain.sort_by_key(|group| !backing_off.contains(group));
        in_vain.iter().for_each(|group| self.finds_no_victims(group, now));
        Ok(())
    }

    fn prepare(&mut self, group: &str, now: u64) -> Option<Want> {
        let queue = self.groups.get(group)?.queue.clone();
        if self.placed(group) == 0 {
            self.life(group).had = None;
        }
        if self.life(group).rest_until.is_some_and(|until| until <= now) {
            self.life(group).rest_until = Some(0);
            if self.is_satisfied(group) {
                self.life(group).reserved.clear();
            }
        }
        let waiting = self.waiting(group).len();
        let has_places = self.is_satisfied(group) && self.places(group) > 0;
        if waiting == 0 && (has_places || self.groups[group].over) {
            self.minimum_is_placed(group, now);
            return None;
        }
        let cluster = self.cluster();
        // A5: the reservation ends when the queue is closed or broken.
        let is_usable = broken(&cluster, &queue).is_none() && is_leaf(&cluster, &queue);
        if !is_usable || closed_by(&cluster, &queue).is_some() && !self.is_satisfied(group) {
            self.revoke(group);
        }
        if !is_usable || waiting > 0 && self.life(group).tries_again.is_some_and(|at| at > now) {
            // A5: no reservation lasts longer than the timeout when all binds are refused.
            let refused_for = self.life(group).refused_since.map_or(0, |since| now - since);
            if refused_for >= ADMISSION_TIMEOUT && !self.is_partially_bound(group) && !self.life(group).reserved.is_empty() {
                self.revoke(group);
            }
            return None;
        }
        let whole = self.is_whole(group);
        if !whole && self.count(group, |state| *state == MemberState::Gated) > 0 {
            self.revoke(group);
            // A4: it is admitted without a reservation.
            self.life(group).admitted = closed_by(&cluster, &queue).is_none();
            return None;
        }
        if (!whole || waiting == 0) && !self.is_owed_a_beginning(group) {
            // A2. What is kept of a lost member is kept (A8).
            if self.life(group).kept.is_empty() {
                self.revoke(group);
            }
            return None;
        }
        let [needed, left] = if whole { [self.missing(group), waiting] } else { [0, 0] };
        Some(Want { group: group.to_owned(), rank: self.rank(group), queue, needed, left, failed: false, passed: 0 })
    }

    fn turn<'a>(
        &mut self,
        want: &mut Want,
        now: u64,
        binds: &mut impl Iterator<Item = &'a Bind>,
        in_vain: &mut Vec<String>,
    ) -> Result<Turn, String> {
        let group = want.group.clone();
        if want.needed > 0 || want.left == 0 {
            let lacks_members = want.left == 0;
            if !self.admit(&group, lacks_members) {
                self.revoke(&group);
                // A4: what later PodGroups of the queue have reserved gives way where nodes have room.
                let asked = self.asked(&group);
                if !lacks_members && self.place_without_later(&group, want.needed, &asked, binds)? {
                    self.minimum_is_placed(&group, now);
                    want.left -= want.needed;
                    want.needed = 0;
                    return Ok(if want.left > 0 { Turn::Again } else { Turn::Over });
                }
                let asks_later = want.left == 0 && self.life(&group).backs_off_until > now;
                return Ok(if asks_later { Turn::Over } else { Turn::WaitsForRoom });
            }
            if lacks_members {
                self.reserve(&group, lacks_members, now);
                return Ok(Turn::Over);
            }
            if !self.place(&group, want.needed, binds)? {
                self.reserve(&group, lacks_members, now);
                in_vain.push(group);
                return Ok(Turn::WaitsForRoom);
            }
            let charged = self.charged(&group);
            let life = self.life(&group);
            // A4: what the queues took of the minimum may stay reserved.
            if !life.by_reclaim {
                life.reserved = positive(&less(&life.minimum, &charged));
            }
            self.minimum_is_placed(&group, now);
            want.left -= want.needed;
            want.needed = 0;
        } else {
            let leaves_room = self.leaves_room(&group, want.passed, now);
            let mut placed = leaves_room && self.place(&group, 1, binds)?;
            if leaves_room
                && !placed
                && let Some(asks) = self.waiting(&group).first().map(|uid| self.members[uid].asks.clone())
            {
                placed = self.place_without_later(&group, 1, &asks, binds)?;
            }
            want.passed += usize::from(!placed);
            want.failed |= leaves_room && !placed;
            want.left -= 1;
        }
        if want.left > 0 {
            return Ok(Turn::Again);
        }
        self.minimum_is_placed(&group, now);
        Ok(if want.failed { Turn::WaitsForRoom } else { Turn::Over })
    }

    /// Whether the PodGroup is admitted (A2, A3). Its own reservation is neither requested again nor an obstacle (A4).
    fn admit(&mut self, group: &str, lacks_members: bool) -> bool {
        let (queue, charged, mut asked) = (self.groups[group].queue.clone(), self.charged(group), self.asked(group));
        let reserved = self.life(group).reserved.clone();
        if covers(&reserved, &asked) {
            asked.clear();
        }
        let without = self.cluster().without_reservation(group);
        let stays = lacks_members && !self.life(group).unreserved.is_empty() && closed_by(&without, &queue).is_none();
        // A3: what others without members were admitted for in the queue comes before it.
        let mut beside = asked.clone();
        let others = self.lives.iter().filter(|(name, _)| lacks_members && self.groups.get(*name).is_some_and(|spec| spec.queue == queue));
        for (_, life) in others {
            beside.iter_mut().for_each(|(dimension, sum)| *sum += amount(&life.unreserved, dimension));
        }
        let by_reclaim = match fits(&without, &queue, &asked) {
            Ok(()) => false,
            Err(_) if stays || can_reclaim(&without, &queue, &beside) => true,
            Err(_) => return false,
        };
        let life = self.life(group);
        if asked.is_empty() {
            life.minimum = plus(&charged, &reserved);
        } else {
            life.minimum = plus(&charged, &asked);
            life.by_reclaim = by_reclaim;
        }
        true
    }

    /// Places `count` members or none; where there is room for them, they are the next binds.
    fn place<'a>(&mut self, group: &str, count: usize, binds: &mut impl Iterator<Item = &'a Bind>) -> Result<bool, String> {
        let cluster = self.cluster().without_reservation(group);
        self.place_in(&cluster, group, count, binds)
    }

    /// A4: places them where only what later PodGroups of the queue have reserved is in the way. The last of these give way, so many as are
    /// in the way, and only if there is room on nodes.
    fn place_without_later<'a>(
        &mut self,
        group: &str,
        count: usize,
        asked: &Amounts,
        binds: &mut impl Iterator<Item = &'a Bind>,
    ) -> Result<bool, String> {
        let (own, queue) = (self.rank(group), self.groups[group].queue.clone());
        let mut cluster = self.cluster().without_reservation(group);
        if fits(&cluster, &queue, asked).is_ok() {
            return Ok(false);
        }
        // It counts from the creation of its PodGroup, or of the oldest waiting member if that is older.
        let holds = |name: &str| {
            let rank = self.rank(name);
            (rank.0, false, rank.2.min(self.groups[name].created), rank.3, rank.4)
        };
        let may = |name: &&String| {
            let of_queue = **name != *group && self.groups.get(*name).is_some_and(|spec| spec.queue == queue);
            of_queue && holds(name) > own && !self.is_satisfied(name) && !self.is_partially_bound(name)
        };
        let reserving = cluster.reservations.keys().filter(may).filter(|name| self.lives[*name].kept.is_empty());
        let mut later: Vec<(Rank, String)> = reserving.map(|name| (holds(name), name.clone())).collect();
        later.sort();
        let mut way = Vec::new();
        while fits(&cluster, &queue, asked).is_err() {
            let Some((_, last)) = later.pop() else { return Ok(false) };
            cluster = cluster.without_reservation(&last);
            way.push(last);
        }
        let placed = self.place_in(&cluster, group, count, binds)?;
        if placed {
            way.iter().for_each(|name| self.revoke(name));
        }
        Ok(placed)
    }

    fn place_in<'a>(
        &mut self,
        cluster: &Cluster,
        group: &str,
        count: usize,
        binds: &mut impl Iterator<Item = &'a Bind>,
    ) -> Result<bool, String> {
        let queue = self.groups[group].queue.clone();
        if !self.find_places(cluster, group, count) {
            return Ok(false);
        }
        for _ in 0..count {
            let Some(bind) = binds.next() else { return Err(format!("there is room for {group}, but no member is placed")) };
            if !self.waiting(group).contains(&bind.pod) {
                return Err(format!("{} is placed, and {group} comes first", bind.pod));
            }
            if !self.has_room(&self.cluster(), group, &bind.node, &self.members[&bind.pod].asks) {
                return Err(format!("{} is placed on {}, which has no room", bind.pod, bind.node));
            }
            let place = Place { node: bind.node.clone(), queue: queue.clone(), bound: false, terminating: false };
            if let Some(member) = self.members.get_mut(&bind.pod) {
                member.state = MemberState::On(place);
            }
        }
        self.follow(group);
        Ok(true)
    }

    /// Whether `count` equal members fit one after the other: below every ceiling, and each on a node.
    pub(super) fn find_places(&self, cluster: &Cluster, group: &str, count: usize) -> bool {
        let queue = &self.groups[group].queue;
        let Some(asks) = self.waiting(group).first().map(|uid| self.members[uid].asks.clone()) else { return false };
        let mut after = cluster.clone();
        (0..count).all(|at| {
            let fits = fits(&after, queue, &asks).is_ok();
            let node = after.nodes.keys().find(|node| fits && self.has_room(&after, group, node, &asks)).cloned();
            let pod = Pod { queue: queue.clone(), amounts: asks.clone(), node: node.clone(), ..Pod::default() };
            after.pods.insert(format!("place-{at}"), pod);
            node.is_some()
        })
    }

    /// A7: whether a further member leaves room for what other PodGroups have reserved for their minimum.
    fn leaves_room(&self, group: &str, passed: usize, now: u64) -> bool {
        let mut waiting: Vec<&Member> = self.waiting(group).iter().map(|uid| &self.members[uid]).collect();
        waiting.sort_by_key(|member| (Reverse(member.priority), member.created));
        let Some((created, asks)) = waiting.get(passed).map(|member| (member.created, member.asks.clone())) else { return true };
        let (cluster, reserved, own) = (self.cluster(), self.reserved_first(now, created), &self.groups[group].queue);
        asked_in(&positive(&asks)).all(|(dimension, asked)| {
            // Of another queue only as far as it uses less than its entitlement (S3).
            let counts = |queue: &str, amount: i128| {
                if queue == own {
                    amount
                } else {
                    amount.min((right(&cluster, queue, dimension) - used(&cluster, queue, dimension)).max(0))
                }
            };
            let first: i128 = reserved.iter().map(|(queue, reserved)| counts(queue, amount(reserved, dimension))).sum();
            first == 0 || used(&cluster, "root", dimension) + first + asked <= amount(&cluster.there_for_queues(), dimension)
        })
    }

    /// How many members with this request the nodes could take, if they were empty.
    fn nodes_if_empty(&self, asks: &Amounts) -> i128 {
        let on = |offers: &Amounts| {
            asked_in(&positive(asks)).map(|(dimension, asked)| amount(offers, dimension) / asked).min().unwrap_or(i128::MAX / 8)
        };
        self.nodes.values().map(on).sum()
    }

    /// A6: whether the request and each member stay below every capability on the way up and below the whole cluster.
    fn could_ever_fit(&self, want: &Want) -> bool {
        let cluster = self.cluster();
        let mut asked = self.asked(&want.group);
        if let Some(uid) = self.waiting(&want.group).first().filter(|_| self.is_whole(&want.group)) {
            let needs = vec![self.members[uid].asks.clone(); want.needed.max(1)];
            asked = larger(&asked, &sum(&needs));
            if self.nodes_if_empty(&self.members[uid].asks) < needs.len() as i128 {
                return false;
            }
        }
        let offered = cluster.offered();
        broken(&cluster, &want.queue).is_none()
            && asked_in(&asked).all(|(dimension, asked)| {
                let below = |queue: &&str| spec(&cluster, queue).capability.get(dimension).is_none_or(|most| asked <= *most);
                asked <= amount(&offered, dimension) && walk(&cluster, &want.queue).iter().all(below)
            })
    }

    /// Whether the node has room (N2) for a member of the PodGroup, beside what is kept there for others (A8).
    pub(super) fn has_room(&self, cluster: &Cluster, group: &str, node: &str, asks: &Amounts) -> bool {
        let kept = self.kept_for_others(node, group);
        let used = |dimension: &str| -> i128 {
            let on_it = cluster.pods.values().filter(|pod| pod.node.as_deref() == Some(node));
            on_it.map(|pod| amount(&pod.amounts, dimension)).sum()
        };
        let Some(offers) = cluster.nodes.get(node) else { return false };
        asked_in(&positive(asks)).all(|(dimension, asked)| used(dimension) + amount(&kept, dimension) + asked <= amount(offers, dimension))
    }
}
