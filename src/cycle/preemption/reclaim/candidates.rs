//! The candidates: the pods that may be victims of a PodGroup (R1, R2, R2c).
//!
//! Only the pods of some queues are read. The PodGroup can reclaim from such a queue (R1). The queue and all above it are over their
//! shares in a resource that the PodGroup lacks (R2).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::{Accounting, QueueRefusal, Shares};
use crate::api::{GroupFacts, GroupKey, PriorityClassFacts, SubGroup, Uid};
use crate::by_key::ByKey;
use crate::cycle::cache::gang::{self, Count};
use crate::cycle::cache::{Group, Member, State, victim_priority};
use crate::cycle::eviction_backoff::EvictionBackoff;
use crate::cycle::explain::{Excluded, OverShare};
use crate::resources::{Amount, ResourceName, Resources};

use super::victims::QueueSlot;
use super::{Budgets, Preemptor};

/// The facts that decide which pods are candidates.
pub(super) struct Scope<'a> {
    pub(super) accounting: &'a Accounting,
    pub(super) pods: &'a ByKey<Uid, Member>,
    pub(super) groups: &'a ByKey<GroupKey, Group>,
    pub(super) classes: &'a BTreeMap<String, PriorityClassFacts>,
    pub(super) shares: &'a Shares,
    /// The pods with a refused eviction.
    pub(super) eviction_backoff: &'a EvictionBackoff,
    pub(super) preemptor: &'a Preemptor<'a>,
    /// What the PodGroup asks for (A1).
    pub(super) asked: &'a Resources,
    /// The request of all members together.
    pub(super) of_members: &'a Resources,
    pub(super) budgets: Budgets<'a>,
}

/// A pod that may be a victim.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) uid: Uid,
    pub(super) node: Option<Arc<str>>,
    pub(super) priority: i32,
    pub(super) created: Timestamp,
    /// The queues from its own up to below the common ancestor, as indices into the slots.
    pub(super) way: Arc<[usize]>,
    pub(super) amounts: Resources,
    /// Its gang, as an index; none where it has none.
    pub(super) gang: Option<usize>,
    /// Its task, as an index into the tasks of the gang, where the gang needs members of it.
    pub(super) task: Option<usize>,
    /// Its subgroup, as an index into the subgroups of the gang; none where it is in none.
    pub(super) subgroup: Option<usize>,
    pub(super) budgets: Vec<usize>,
}

/// A PodGroup with a minimum of members.
#[derive(Debug)]
pub(super) struct Gang {
    pub(super) live: u32,
    pub(super) min: u32,
    /// Its members that are candidates.
    pub(super) members: Vec<usize>,
    /// The member on which the others depend: it goes with all of them only.
    pub(super) leader: Option<Uid>,
    /// The live members and the minimum of each needed task.
    pub(super) tasks: Vec<(u32, u32)>,
    /// Its subgroups with live members.
    pub(super) subgroups: Vec<LiveSubgroup>,
    /// By policy: how many whole subgroups must stay.
    pub(super) policies: Vec<u32>,
}

/// A subgroup of a gang with live members.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveSubgroup {
    pub(super) policy: usize,
    pub(super) live: u32,
    /// How many live members it needs to be whole, beside those that succeeded.
    pub(super) size: u32,
}

impl LiveSubgroup {
    /// Whether it is whole without so many of its members.
    pub(super) const fn is_whole(&self, gone: u32) -> bool {
        self.live.saturating_sub(gone) >= self.size
    }
}

impl Gang {
    /// Whether this member may go alone: the gang has more than its minimum, its subgroup has more or less than its size, and the others do
    /// not depend on it (R4).
    pub(super) fn may_go_alone(&self, pod: &Candidate) -> bool {
        let just_whole = pod.subgroup.and_then(|at| self.subgroups.get(at)).is_some_and(|subgroup| subgroup.live == subgroup.size);
        self.live > self.min && !just_whole && self.leader.as_ref() != Some(&pod.uid)
    }
}

/// All candidates, with their gangs and queues.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    pub(super) gangs: Vec<Gang>,
    pub(super) slots: Vec<QueueSlot>,
    /// The resources that the PodGroup lacks (R2).
    pub(super) lacking: Vec<ResourceName>,
    /// Why other pods are no candidates.
    pub(super) excluded: Excluded,
}

impl Scope<'_> {
    pub(super) fn candidates(&self) -> Found {
        let mut found = Found { lacking: self.lacking(), ..Found::default() };
        let quota = self.accounting.quota();
        let own: Vec<Arc<str>> = quota.tree().way(self.preemptor.queue);
        let reach = self.reach(&own, &mut found.excluded);
        let mut slots: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for queue in quota.queues_with_pods() {
            let whole_way = quota.tree().way(queue);
            let level = |queue: &Arc<str>| own.iter().position(|above| above == queue);
            let Some(common) = whole_way.iter().find_map(level) else { continue };
            if common > reach {
                continue;
            }
            let way: Vec<Arc<str>> = whole_way.into_iter().take_while(|queue| level(queue).is_none()).collect();
            if !self.is_over_share(&way, &found.lacking) {
                continue;
            }
            if let Some(keeps) = way.iter().find(|queue| !self.is_reclaimable(queue)) {
                found.excluded.not_reclaimable.get_or_insert_with(|| Arc::clone(keeps));
                continue;
            }
            let way: Vec<usize> = way
                .into_iter()
                .map(|queue| {
                    *slots.entry(Arc::clone(&queue)).or_insert_with(|| {
                        found.slots.push(self.slot(&queue));
                        found.slots.len().saturating_sub(1)
                    })
                })
                .collect();
            let way: Arc<[usize]> = Arc::from(way);
            let own_queue = **queue == *self.preemptor.queue;
            for uid in quota.pods_in(queue) {
                if let Some(candidate) = self.candidate(uid, &way, own_queue, &mut found.excluded) {
                    found.candidates.push(candidate);
                }
            }
        }
        self.bind(&mut found);
        found
    }

    /// R1: returns how far up the common ancestor may be, as an index into the path.
    fn reach(&self, own: &[Arc<str>], excluded: &mut Excluded) -> usize {
        // The last is `root`, above which there is no common ancestor.
        for (at, queue) in own.iter().take(own.len().saturating_sub(1)).enumerate() {
            let (used, share) = (self.accounting.quota().used(queue), self.shares.of(queue));
            let over = |(name, asked): &(&ResourceName, Amount)| used.get(name).plus(*asked) > share.get(name);
            if let Some((dimension, asked)) = self.asked.iter().filter(|(_, asked)| asked.is_positive()).find(over) {
                let (used, share) = (used.get(dimension), share.get(dimension));
                excluded.share = Some(OverShare { queue: Arc::clone(queue), dimension: dimension.clone(), asked, used, share });
                return at;
            }
        }
        own.len()
    }

    /// R2: returns the resources that F4 refuses, or with fewer idle on all nodes than the members request; if there are none, all requested
    /// resources.
    fn lacking(&self) -> Vec<ResourceName> {
        let asked: Vec<(&ResourceName, Amount)> = self.asked.iter().filter(|(_, asked)| asked.is_positive()).collect();
        let mut idle = vec![Amount::ZERO; asked.len()];
        for node in self.accounting.ledger().nodes() {
            for ((name, _), idle) in asked.iter().zip(&mut idle) {
                *idle = idle.plus(node.idle_of(name.as_str()));
            }
        }
        let refused = |name: &ResourceName, asked: Amount| {
            let alone = Resources::new().with(name.clone(), asked);
            matches!(self.accounting.fits_queue(self.preemptor.queue, &alone), Err(QueueRefusal::Ceiling(_)))
        };
        let lacks =
            |((name, asked), idle): &(&(&ResourceName, Amount), &Amount)| **idle < self.of_members.get(name) || refused(name, *asked);
        let lacking: Vec<ResourceName> = asked.iter().zip(&idle).filter(lacks).map(|((name, _), _)| (*name).clone()).collect();
        if lacking.is_empty() {
            return asked.into_iter().map(|(name, _)| name.clone()).collect();
        }
        lacking
    }

    /// R2, without any victim. A queue on the path of the PodGroup itself always passes.
    fn is_over_share(&self, way: &[Arc<str>], lacking: &[ResourceName]) -> bool {
        let quota = self.accounting.quota();
        let over =
            |dimension: &ResourceName| way.iter().all(|queue| quota.used(queue).get(dimension) > self.shares.of(queue).get(dimension));
        way.is_empty() || lacking.iter().any(over)
    }

    fn is_reclaimable(&self, queue: &str) -> bool {
        self.accounting.quota().queue(queue).limits.is_none_or(|limits| limits.reclaimable)
    }

    fn slot(&self, queue: &str) -> QueueSlot {
        let view = self.accounting.quota().queue(queue);
        QueueSlot { used: view.used.clone(), share: self.shares.of(queue).clone(), floor: view.floor.clone() }
    }

    /// R2c, and R1b within one queue.
    fn candidate(&self, uid: &Uid, way: &Arc<[usize]>, own_queue: bool, excluded: &mut Excluded) -> Option<Candidate> {
        let member = self.pods.get(uid).filter(|member| member.state() == State::Placed)?;
        let facts = &member.facts;
        if facts.group == *self.preemptor.group {
            return None;
        }
        let group = self.groups.get(&facts.group).and_then(|group| group.facts.as_ref());
        let is_bound = member.assumed.as_ref().is_none_or(|assumed| assumed.confirmed);
        let may_be_victim = facts.preemptable && !facts.protected && group.is_none_or(|group| group.preemptable && !group.protected);
        let priority = victim_priority(self.groups, self.classes, member);
        let high = if own_queue { priority >= self.preemptor.priority } else { priority > self.preemptor.priority };
        let budgets = (self.budgets.of)(facts);
        let counter = if high {
            &mut excluded.higher
        } else if !may_be_victim {
            &mut excluded.not_preemptable
        } else if !is_bound {
            &mut excluded.binding
        } else if self.eviction_backoff.is_active(uid) {
            &mut excluded.refused
        } else if budgets.iter().any(|budget| self.budgets.left.get(*budget).is_none_or(|left| *left == 0)) {
            &mut excluded.budget
        } else {
            let charged = self.accounting.pod(uid)?;
            return Some(Candidate {
                uid: uid.clone(),
                node: charged.node.map(Arc::from),
                priority,
                created: facts.created,
                way: Arc::clone(way),
                amounts: charged.resources.clone(),
                gang: None,
                task: None,
                subgroup: None,
                budgets,
            });
        };
        *counter = counter.saturating_add(1);
        None
    }

    /// R4: finds the gangs of the candidates.
    fn bind(&self, found: &mut Found) {
        // A victim of another nomination counts as gone.
        let is_live = |uid: &Uid| self.pods.get(uid).is_some_and(|pod| pod.state() == State::Placed);
        let nominated_victims = |group: &Group| {
            let gone = group.members.iter().filter(|uid| is_live(uid) && self.accounting.pod(uid).is_none()).count();
            u32::try_from(gone).unwrap_or(u32::MAX)
        };
        let is_there = |uid: &Uid| is_live(uid) && self.accounting.pod(uid).is_some();
        let mut gangs: BTreeMap<&GroupKey, (usize, Vec<&String>, Vec<&SubGroup>)> = BTreeMap::new();
        for (at, candidate) in found.candidates.iter_mut().enumerate() {
            let Some(member) = self.pods.get(&candidate.uid) else { continue };
            let Some(group) = self.groups.get(&member.facts.group) else { continue };
            let Some(facts) = group.facts.as_ref().filter(|facts| facts.min_member > 0 || !facts.sub_groups.is_empty()) else { continue };
            let (at_gang, tasks, subgroups) = gangs.entry(&facts.key).or_insert_with(|| {
                // As for placing: where minMember is below the sum of the tasks, the tasks are ignored.
                let sum = facts.min_task_member.values().fold(0_u32, |sum, min| sum.saturating_add(*min));
                let needed: Vec<(&String, u32)> =
                    facts.min_task_member.iter().filter(|_| facts.min_member >= sum).map(|(task, min)| (task, *min)).collect();
                let live = |task: &String| {
                    let of_task = |uid: &&Uid| is_there(uid) && self.pods.get(*uid).is_some_and(|pod| pod.facts.task() == *task);
                    u32::try_from(group.members.iter().filter(of_task).count()).unwrap_or(u32::MAX)
                };
                let succeeded = |task: &String| {
                    let of_task =
                        |uid: &&Uid| self.pods.get(*uid).is_some_and(|pod| pod.state() == State::Succeeded && pod.facts.task() == *task);
                    let there = u32::try_from(group.members.iter().filter(of_task).count()).unwrap_or(u32::MAX);
                    there.saturating_add(group.successes.of_task(task))
                };
                let (names, subgroups): (Vec<_>, Vec<_>) = subgroups_with(group, facts, is_there).into_iter().unzip();
                found.gangs.push(Gang {
                    live: group.counts.placed.saturating_sub(nominated_victims(group)),
                    min: Count::of(group, facts).needs,
                    members: Vec::new(),
                    leader: gang::leader(self.pods, group, facts).cloned(),
                    tasks: needed.iter().map(|(task, min)| (live(task), min.saturating_sub(succeeded(task)))).collect(),
                    subgroups,
                    policies: facts.sub_groups.iter().map(|policy| policy.needed).collect(),
                });
                (found.gangs.len().saturating_sub(1), needed.into_iter().map(|(task, _)| task).collect(), names)
            });
            candidate.gang = Some(*at_gang);
            candidate.task = tasks.iter().position(|known| **known == *member.facts.task());
            let subgroup = group.subgroups.of(&candidate.uid);
            candidate.subgroup = subgroup.and_then(|subgroup| subgroups.binary_search(&subgroup).ok());
            if let Some(gang) = found.gangs.get_mut(*at_gang) {
                gang.members.push(at);
            }
        }
    }
}

/// Returns the subgroups with live members, in their order.
fn subgroups_with<'g>(group: &'g Group, facts: &GroupFacts, is_live: impl Fn(&Uid) -> bool) -> Vec<(&'g SubGroup, LiveSubgroup)> {
    if facts.sub_groups.is_empty() {
        return Vec::new();
    }
    let mut live: BTreeMap<&SubGroup, u32> = BTreeMap::new();
    for subgroup in group.members.iter().filter(|uid| is_live(uid)).filter_map(|uid| group.subgroups.of(uid)) {
        let live = live.entry(subgroup).or_default();
        *live = live.saturating_add(1);
    }
    let size = |subgroup: &SubGroup| {
        let size = facts.sub_groups.get(subgroup.policy).map_or(1, |policy| policy.size);
        size.saturating_sub(group.succeeded_in(subgroup))
    };
    live.into_iter().map(|(subgroup, live)| (subgroup, LiveSubgroup { policy: subgroup.policy, live, size: size(subgroup) })).collect()
}
