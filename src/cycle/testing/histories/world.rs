//! What does each step of a random history change?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::objects::{QUEUES, parent, terms, zoned};
use super::{Choice, Step};
use crate::api::label_selector::LabelSelector;
use crate::api::pod_facts::PodPhase;
use crate::api::queue::DequeueStrategy;
use crate::api::workload::NamespaceLabels;
use crate::api::{BudgetFacts, BudgetKey, GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts, SubGroupPolicyFacts, Uid};
use crate::cycle::cache::{Member, State};
use crate::cycle::plan::{Bind, Eviction};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{empty_state, takes_effect};
use crate::cycle::testing::worlds::ZONE;
use crate::cycle::testing::{amounts, class, group, limits, pod, queue, running};

/// The state of the scheduler, and what the cluster has beside it: three nodes and four queues in the beginning.
pub(in crate::cycle) struct World {
    pub(in crate::cycle) state: SchedulingState,
    pub(in crate::cycle) now: Duration,
    /// The pods of other schedulers.
    pub(in crate::cycle) foreign: BTreeMap<Uid, PodFacts>,
    pub(super) namespace: Option<bool>,
    pub(super) budgets: BTreeMap<BudgetKey, BudgetFacts>,
    /// The bindings and evictions under way.
    pub(in crate::cycle) binds: Vec<Bind>,
    pub(in crate::cycle) evictions: Vec<Eviction>,
    /// Until when each nomination may stand, by its number.
    pub(in crate::cycle) until: BTreeMap<u64, Duration>,
    /// Whether a step since this was reset only took room on a node.
    pub(in crate::cycle) took_room: bool,
    came: usize,
}

impl World {
    pub(in crate::cycle) fn new() -> Self {
        let mut world = Self {
            state: empty_state(),
            now: Duration::ZERO,
            foreign: BTreeMap::new(),
            namespace: None,
            budgets: BTreeMap::new(),
            binds: Vec::new(),
            evictions: Vec::new(),
            until: BTreeMap::new(),
            took_room: false,
            came: 0,
        };
        (0..3).for_each(|at| world.state.apply_node(zoned(at, 0, 4)));
        (0..4).for_each(|at| world.state.apply_queue(queue(QUEUES[at], parent(at), &[])));
        world
    }

    pub(in crate::cycle) fn uids(&self, which: impl Fn(&Member) -> bool) -> Vec<Uid> {
        let mut uids: Vec<Uid> = self.state.cache().pods().iter().filter(|(_, member)| which(member)).map(|(uid, _)| uid.clone()).collect();
        uids.sort();
        uids
    }

    pub(super) fn one(&self, at: u8, which: impl Fn(&Member) -> bool) -> Option<Uid> {
        let uids = self.uids(which);
        uids.get(usize::from(at).checked_rem(uids.len())?).cloned()
    }

    pub(super) fn change(&mut self, uid: Option<Uid>, change: impl Fn(&mut PodFacts)) {
        let Some(uid) = uid else { return };
        let mut facts = PodFacts::clone(&self.state.cache().pods()[&uid].facts);
        change(&mut facts);
        self.state.apply_pod(facts);
    }

    pub(in crate::cycle) fn pod(&mut self, group: &str, cpu: i64, priority: i32) -> PodFacts {
        self.came += 1;
        // Of every fourth one no part is known.
        let part = Some(self.came % 4).filter(|part| *part > 0).map(|part| ("part".to_owned(), part.to_string()));
        let mut facts = pod("ns", &format!("p{:03}", self.came), group, &[("cpu", cpu)]);
        facts.labels.extend(part);
        PodFacts { priority, ..facts }
    }

    pub(in crate::cycle) fn take(&mut self, step: &Step) {
        let lives = |member: &Member| member.facts.node.is_some() && !member.facts.phase.ended();
        self.took_room |=
            matches!(step, Step::Foreign(at @ 0..=4, ..) if !self.foreign.contains_key(&Uid::from(format!("ns/f{at}").as_str())));
        match step.clone() {
            Step::Pods(group, count, cpu, priority) => (0..count).for_each(|_| {
                let facts = self.pod(&format!("g{}", group % 6), cpu, priority);
                self.state.apply_pod(facts);
            }),
            Step::Choosy(group, choice, cpu) => {
                let mut facts = self.pod(&format!("g{}", group % 6), cpu, 0);
                match choice {
                    Choice::Zone(zone) => _ = facts.constraints.node_selector.insert(ZONE.to_owned(), format!("z{zone}")),
                    Choice::Beside(false) => {}
                    Choice::Apart | Choice::ApartFromTeam | Choice::Beside(true) | Choice::Spread | Choice::Port => {
                        facts.labels.insert("app".to_owned(), "x".to_owned());
                    }
                }
                facts.terms = terms(choice);
                self.state.apply_pod(facts);
            }
            Step::Runs(group, at, cpu) => {
                let facts = self.pod(&format!("g{}", group % 6), cpu, 0);
                self.state.apply_pod(running(facts, &format!("n{}", at % 3)));
            }
            Step::Foreign(at, node, cpu) => {
                let mut facts = running(pod("ns", &format!("f{at}"), "theirs", &[("cpu", cpu)]), &format!("n{}", node % 3));
                match at {
                    0 | 1 => {}
                    2 => facts.terms = terms(Choice::Apart),
                    3 => facts.terms = terms(Choice::Port),
                    4 => facts.terms = terms(Choice::ApartFromTeam),
                    _ => _ = facts.labels.insert("app".to_owned(), "x".to_owned()),
                }
                self.apply_foreign(facts, cpu > 0);
            }
            Step::NominatedByOther(at, node, cpu, priority) => {
                let mut facts = pod("ns", &format!("m{}", at % 3), "theirs", &[("cpu", cpu)]);
                facts.nominated_node = Some(Arc::from(format!("n{}", node % 3)));
                if at % 3 > 0 {
                    facts.labels.insert("app".to_owned(), "x".to_owned());
                    facts.terms = terms(if at < 4 { Choice::Port } else { Choice::Apart });
                }
                self.apply_foreign(PodFacts { priority, ..facts }, cpu > 0);
            }
            Step::Namespace(team) => {
                self.namespace = team;
                self.apply_namespace();
            }
            Step::Gone(at) => {
                let uid = self.one(at, |_| true);
                uid.iter().for_each(|uid| self.state.delete_pod(uid));
            }
            Step::Leaves(at) => self.change(self.one(at, lives), |facts| facts.deleting = true),
            Step::Ends(at) => {
                self.change(self.one(at, lives), |facts| facts.phase = PodPhase::Succeeded);
            }
            Step::Lost(at, fails) => {
                let is_needed = |member: &Member| {
                    let group = &self.state.cache().groups()[&member.facts.group];
                    let min = group.facts.as_ref().map_or(0, |facts| facts.min_member);
                    lives(member) && min > 1 && group.counts.placed + group.counts.succeeded == min
                };
                let uid = self.one(at, is_needed);
                if fails {
                    self.change(uid, |facts| facts.phase = PodPhase::Failed);
                } else {
                    uid.iter().for_each(|uid| self.state.delete_pod(uid));
                }
            }
            Step::Group { at, min, queue, class, preemptable, min_resources } => {
                let plain = group("ns", &format!("g{}", at % 6), min, &format!("q{}", queue % 3));
                let known = self.state.cache().groups().get(&plain.key).and_then(|group| group.facts.clone());
                self.state.apply_group(GroupFacts {
                    preemptable,
                    managed: at % 6 == 0,
                    priority_class: (class < 3).then(|| format!("c{class}")),
                    min_resources: min_resources.map(|cpu| amounts(&[("cpu", cpu)])),
                    // Of every second one the pods belong together from the beginning.
                    sub_groups: known.map_or_else(|| policies(2 * u32::from(at % 2), min % 2), |facts| facts.sub_groups.clone()),
                    ..plain
                });
            }
            Step::Parted(at, size, needed) => {
                let key = GroupKey::new("ns", &format!("g{}", at % 6));
                let facts = self.state.cache().groups().get(&key).and_then(|group| group.facts.clone());
                let sub_groups = policies(size, needed);
                facts
                    .into_iter()
                    .for_each(|facts| self.state.apply_group(GroupFacts { sub_groups: sub_groups.clone(), ..(*facts).clone() }));
            }
            Step::GroupGone(at) => self.state.delete_group(&GroupKey::new("ns", &format!("g{}", at % 6))),
            Step::Keeps(at, preemptable) => self.change(self.one(at, lives), |facts| facts.preemptable = preemptable),
            Step::Labelled(at, guarded) => self.change(self.one(at, |_| true), |facts| {
                facts.labels = if guarded { [("app".to_owned(), "x".to_owned())].into() } else { [].into() };
            }),
            Step::Moves(at, group) => {
                self.change(self.one(at, |_| true), |facts| facts.group = GroupKey::new("ns", &format!("g{}", group % 6)));
            }
            Step::Resized(at, cpu) => self.change(self.one(at, |_| true), |facts| {
                facts.request = amounts(&[("cpu", cpu), ("pods", 1)]);
            }),
            Step::Ready(at, ready) => self.change(self.one(at, lives), |facts| facts.ready = ready),
            Step::Queue { at, capability, deserved, guarantee, weight, flags } => {
                let said = |amount: Option<i64>| amount.map(|cpu| limits(&[("cpu", cpu)])).unwrap_or_default();
                let at = usize::from(at % 4);
                let plain = queue(QUEUES[at], parent(at), &[]);
                self.state.apply_queue(QueueFacts {
                    capability: said(capability),
                    deserved: said(deserved),
                    guarantee: said(guarantee),
                    weight,
                    reclaimable: flags & 7 != 0,
                    closed_by_hand: flags >> 3 & 7 == 1,
                    dequeue_strategy: if flags >> 6 == 0 { DequeueStrategy::Fifo } else { DequeueStrategy::Traverse },
                    ..plain
                });
            }
            Step::QueueGone(at) => self.state.delete_queue(QUEUES[usize::from(at % 4)]),
            Step::Class(at, value) => self.state.apply_priority_class(class(&format!("c{at}"), value)),
            Step::Node(at, cpu, unschedulable) => {
                // Of every fourth one the zone is another.
                self.state.apply_node(NodeFacts { unschedulable, ..zoned(at % 3, at / 4, cpu) });
            }
            Step::NodeGone(at) => self.state.delete_node(&format!("n{}", at % 3)),
            Step::Budget(at, allowed, frees_unready) => {
                let key = BudgetKey::new("ns", &format!("b{at}"));
                if allowed == 2 {
                    self.budgets.remove(&key);
                    self.state.delete_budget(&key);
                } else {
                    let facts = BudgetFacts { key: key.clone(), selector: LabelSelector::label("app", "x"), allowed, frees_unready };
                    self.budgets.insert(key, facts.clone());
                    self.state.apply_budget(facts);
                }
            }
            Step::Taken(at) => {
                if let Some(at) = usize::from(at).checked_rem(self.binds.len()) {
                    let bind = self.binds.remove(at);
                    takes_effect(&mut self.state, &bind);
                }
            }
            Step::Refused(at) => {
                if let Some(at) = usize::from(at).checked_rem(self.binds.len()) {
                    let bind = self.binds.remove(at);
                    self.state.refuse_bind(&bind.uid, "test", self.now, |failures| Duration::from_secs(u64::from(failures.min(9))));
                }
            }
            Step::VictimGoes(at) => _ = self.goes(usize::from(at)),
            Step::VictimStays(at) => {
                if let Some(at) = usize::from(at).checked_rem(self.evictions.len()) {
                    let eviction = self.evictions.remove(at);
                    eviction.victims.first().iter().for_each(|victim| self.state.back_off_eviction(&victim.uid, self.now));
                    self.state.refuse_eviction(&eviction.group, eviction.nomination, "test");
                }
            }
            Step::VictimLeaves(at) => self.change(self.victim(at), |facts| facts.deleting = true),
            Step::VictimFails(at) => self.change(self.victim(at), |facts| facts.phase = PodPhase::Failed),
            Step::Nominated(at, first, seconds) => self.nominate(at, first, seconds),
            Step::EvictionRefused(at, before) => self.refuse_eviction(at, before),
            Step::Elsewhere(at, node) => {
                let waits = |member: &Member| {
                    let state = member.state();
                    state == State::Nominated || state == State::Waiting && at % 2 == 0
                };
                self.change(self.one(at, waits), |facts| *facts = running(facts.clone(), &format!("n{}", node % 3)));
            }
            Step::AtOnce(steps) => steps.iter().for_each(|step| self.take(step)),
            Step::Handover(how) => self.hand_over(how),
            Step::Borrowed(owed) => self.borrow(i64::from(owed)),
            Step::Later(seconds) => self.now += Duration::from_secs(seconds),
        }
    }

    /// Fills a queue with pods of `g4`, and lets `g5` ask for what its queue is owed there.
    fn borrow(&mut self, owed: i64) {
        for (at, capability, deserved) in [(3, &[("cpu", 6)][..], 6), (0, &[], 6 - owed), (1, &[], owed)] {
            let plain = queue(QUEUES[at], parent(at), &[]);
            self.state.apply_queue(QueueFacts { capability: limits(capability), deserved: limits(&[("cpu", deserved)]), ..plain });
        }
        let members = self.uids(|member| ["g4", "g5"].contains(&&*member.facts.group.name));
        members.iter().for_each(|uid| self.state.delete_pod(uid));
        self.state.apply_group(group("ns", "g4", 1, QUEUES[0]));
        for at in 0..6 {
            let facts = self.pod("g4", 1, 0);
            self.state.apply_pod(running(facts, &format!("n{}", at % 3)));
        }
        self.state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", owed)])), ..group("ns", "g5", 3, QUEUES[1]) });
    }

    fn apply_foreign(&mut self, facts: PodFacts, is_there: bool) {
        let facts = PodFacts { scheduler: Arc::from("another"), names_group: false, ..facts };
        if is_there {
            self.foreign.insert(facts.uid.clone(), facts.clone());
            self.state.apply_pod(facts);
        } else {
            self.foreign.remove(&facts.uid);
            self.state.delete_pod(&facts.uid);
        }
    }

    pub(super) fn apply_namespace(&mut self) {
        match self.namespace {
            Some(team) => {
                let labels = team.then(|| ("team".to_owned(), "a".to_owned())).into_iter().collect();
                self.state.apply_namespace(NamespaceLabels::new("ns", labels));
            }
            None => self.state.delete_namespace("ns"),
        }
    }
}

/// Returns the policy by which pods with the same label `part` belong together; none for a size of 0.
fn policies(size: u32, needed: u32) -> Vec<SubGroupPolicyFacts> {
    let policy = SubGroupPolicyFacts {
        name: String::new(),
        selector: LabelSelector::everything(),
        keys: vec!["part".to_owned()],
        size: size.max(1),
        needed,
    };
    if size > 0 { vec![policy] } else { Vec::new() }
}
