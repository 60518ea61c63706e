//! Random histories with preemptions: no PodGroup is forgotten, and preemptions end.
//!
//! After every step cycles run until nothing is left to do. Then every PodGroup is tried once more, and every preemption is retried:
//! nothing may change by that. At the end all binds are confirmed, all victims terminate and are recreated, and after a while no pod is
//! evicted any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::SchedulingState;
use crate::api::label_selector::LabelSelector;
use crate::api::pod_terms::{AffinityTerm, HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::{BudgetFacts, BudgetKey, GroupFacts, GroupKey, PodFacts, QueueFacts, Uid};
use crate::cycle::cache::{Group, Member, State};
use crate::cycle::plan::{Bind, Eviction, Plan};
use crate::cycle::run;
use crate::cycle::testing::{POLICY, class, group, limits, node, nominated_node, pod, queue, running, taken_over, worlds};
use crate::cycle::tests::empty_state;

/// What a pod is choosy about. All but the first are about the zone and pods labelled `app: x`, as it is itself.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// It goes to this zone.
    Zone(u8),
    /// It keeps such pods away.
    Apart,
    /// It keeps such pods of namespaces labelled `team: a` away.
    ApartFromTeam,
    /// It must be beside such a pod, and is one itself or not.
    Beside(bool),
    /// Such pods are spread over the zones.
    Spread,
    /// It has a host port.
    Port,
}

#[derive(Clone, Debug)]
enum Step {
    Pods(u8, u8, i64, i32),
    /// A pod that not every node takes, or beside which not every pod may be.
    Choosy(u8, Choice, i64),
    Runs(u8, u8, i64),
    /// A pod of another scheduler uses so much of a node; 0 where it is gone. Some have labels, anti-affinity or a host port.
    Foreign(u8, u8, i64),
    /// A pod of another scheduler has a nominated node, for so much and with this priority; 0 where it is gone.
    NominatedByOther(u8, u8, i64, i32),
    /// The namespace of the pods has the label `team: a` or not, or is gone.
    Namespace(Option<bool>),
    Gone(u8),
    Leaves(u8),
    Ends(u8),
    Group {
        at: u8,
        min: u32,
        queue: u8,
        class: u8,
        preemptable: bool,
        min_resources: Option<i64>,
    },
    GroupGone(u8),
    Keeps(u8, bool),
    Labelled(u8, bool),
    Moves(u8, u8),
    Resized(u8, i64),
    Ready(u8, bool),
    Queue {
        at: u8,
        capability: Option<i64>,
        deserved: Option<i64>,
        guarantee: Option<i64>,
        weight: u32,
        flags: u8,
    },
    QueueGone(u8),
    Class(u8, i32),
    Node(u8, i64, bool),
    NodeGone(u8),
    Budget(u8, u32, bool),
    Taken(u8),
    Refused(u8),
    VictimGoes(u8),
    VictimStays(u8),
    Later(u64),
    /// Another leader takes over. Some of the bindings and evictions under way have taken effect. The waiting pods name their nominated nodes, or any.
    Handover(u8),
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        (0..2_u8).prop_map(Choice::Zone),
        Just(Choice::Apart),
        Just(Choice::ApartFromTeam),
        any::<bool>().prop_map(Choice::Beside),
        Just(Choice::Spread),
        Just(Choice::Port),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..8_u8;
    let some = || prop::option::of(0..6_i64);
    prop_oneof![
        8 => (at.clone(), 1..4_u8, 1..4_i64, 0..3_i32).prop_map(|(group, count, cpu, priority)| Step::Pods(group, count, cpu, priority)),
        4 => (at.clone(), choice(), 1..3_i64).prop_map(|(group, choice, cpu)| Step::Choosy(group, choice, cpu)),
        2 => (at.clone(), at.clone(), 0..4_i64, 0..4_i32).prop_map(|(pod, node, cpu, priority)| Step::NominatedByOther(pod, node, cpu, priority)),
        1 => prop::option::of(any::<bool>()).prop_map(Step::Namespace),
        3 => (at.clone(), at.clone(), 1..3_i64).prop_map(|(group, node, cpu)| Step::Runs(group, node, cpu)),
        3 => (at.clone(), at.clone(), 0..4_i64).prop_map(|(pod, node, cpu)| Step::Foreign(pod, node, cpu)),
        3 => at.clone().prop_map(Step::Gone),
        2 => at.clone().prop_map(Step::Leaves),
        2 => at.clone().prop_map(Step::Ends),
        6 => (at.clone(), 0..4_u32, at.clone(), 0..4_u8, prop::bool::weighted(0.8), prop::option::weighted(0.3, 0..8_i64))
            .prop_map(|(at, min, queue, class, preemptable, min_resources)| Step::Group { at, min, queue, class, preemptable, min_resources }),
        1 => at.clone().prop_map(Step::GroupGone),
        2 => (at.clone(), any::<bool>()).prop_map(|(pod, preemptable)| Step::Keeps(pod, preemptable)),
        2 => (at.clone(), any::<bool>()).prop_map(|(pod, guarded)| Step::Labelled(pod, guarded)),
        1 => (at.clone(), at.clone()).prop_map(|(pod, group)| Step::Moves(pod, group)),
        1 => (at.clone(), 1..4_i64).prop_map(|(pod, cpu)| Step::Resized(pod, cpu)),
        1 => (at.clone(), any::<bool>()).prop_map(|(pod, ready)| Step::Ready(pod, ready)),
        4 => (at.clone(), some(), some(), prop::option::weighted(0.2, 0..4_i64), 1..4_u32, any::<u8>()).prop_map(
            |(at, capability, deserved, guarantee, weight, flags)| Step::Queue { at, capability, deserved, guarantee, weight, flags }
        ),
        1 => at.clone().prop_map(Step::QueueGone),
        1 => (0..3_u8, 0..4_i32).prop_map(|(at, value)| Step::Class(at, value)),
        2 => (at.clone(), 0..6_i64, prop::bool::weighted(0.2)).prop_map(|(at, cpu, cordoned)| Step::Node(at, cpu, cordoned)),
        1 => at.clone().prop_map(Step::NodeGone),
        2 => (0..2_u8, 0..3_u32, any::<bool>()).prop_map(|(at, allowed, free)| Step::Budget(at, allowed, free)),
        6 => at.clone().prop_map(Step::Taken),
        2 => at.clone().prop_map(Step::Refused),
        5 => at.clone().prop_map(Step::VictimGoes),
        1 => at.prop_map(Step::VictimStays),
        2 => any::<u8>().prop_map(Step::Handover),
        5 => prop::sample::select(&[1_u64, 5, 29, 30, 60, 700][..]).prop_map(Step::Later),
    ]
}

/// The queues; the last one is above the first two.
const QUEUES: [&str; 4] = ["q0", "q1", "q2", "inner"];

fn parent(at: usize) -> Option<&'static str> {
    (at < 2).then_some(QUEUES[3])
}

/// Node number `at`, of one of two zones.
fn zoned(at: u8, zone: u8, cpu: i64) -> crate::api::NodeFacts {
    let mut facts = node(&format!("n{at}"), &[("cpu", cpu)]);
    facts.labels.insert("zone".to_owned(), format!("z{}", (at + zone) % 2));
    facts
}

/// Keeps pods labelled `app: x` away from the zone.
fn apart() -> Arc<crate::api::pod_terms::PodTerms> {
    crate::cycle::testing::keeps_away("ns", ("app", "x"), "zone")
}

/// The terms of a choosy pod.
fn terms(choice: Choice) -> Arc<PodTerms> {
    let team = || LabelSelector::label("team", "a");
    let pods = PodSelector { namespace_selector: LabelSelector::Nothing, ..worlds::app("x") };
    let term = || AffinityTerm { pods: pods.clone(), topology_key: "zone".into() };
    match choice {
        Choice::Zone(_) => Arc::default(),
        Choice::Apart => apart(),
        Choice::ApartFromTeam => {
            let pods = PodSelector { namespaces: [].into(), namespace_selector: team(), ..pods };
            Arc::new(PodTerms { anti_affinity: vec![AffinityTerm { pods, topology_key: "zone".into() }], ..PodTerms::default() })
        }
        Choice::Beside(_) => Arc::new(PodTerms { affinity: vec![term()], ..PodTerms::default() }),
        Choice::Spread => {
            let spread = SpreadConstraint {
                pods: pods.clone(),
                topology_key: "zone".into(),
                max_skew: 1,
                min_domains: 1,
                honors_node_affinity: true,
                honors_taints: true,
            };
            Arc::new(PodTerms { spread: vec![spread], ..PodTerms::default() })
        }
        Choice::Port => {
            Arc::new(PodTerms { host_ports: [HostPort { port: 80, protocol: "TCP".into(), address: None }].into(), ..PodTerms::default() })
        }
    }
}

struct Play {
    state: SchedulingState,
    /// The pods of other schedulers.
    foreign: BTreeMap<Uid, PodFacts>,
    namespace: Option<bool>,
    now: Duration,
    binds: Vec<Bind>,
    evictions: Vec<Eviction>,
    budgets: BTreeMap<BudgetKey, BudgetFacts>,
    came: usize,
    evicted: usize,
}

impl Play {
    fn new() -> Self {
        let (binds, evictions, budgets) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (foreign, namespace) = (BTreeMap::new(), None);
        let mut play =
            Self { state: empty_state(), foreign, namespace, now: Duration::ZERO, binds, evictions, budgets, came: 0, evicted: 0 };
        (0..3).for_each(|at| play.state.apply_node(zoned(at, 0, 4)));
        (0..4).for_each(|at| play.state.apply_queue(queue(QUEUES[at], parent(at), &[])));
        play
    }

    fn uids(&self, which: impl Fn(&Member) -> bool) -> Vec<Uid> {
        let mut uids: Vec<Uid> = self.state.cache().pods().iter().filter(|(_, member)| which(member)).map(|(uid, _)| uid.clone()).collect();
        uids.sort();
        uids
    }

    fn one(&self, at: u8, which: impl Fn(&Member) -> bool) -> Option<Uid> {
        let uids = self.uids(which);
        uids.get(usize::from(at).checked_rem(uids.len())?).cloned()
    }

    fn change(&mut self, uid: Option<Uid>, change: impl Fn(&mut PodFacts)) {
        let Some(uid) = uid else { return };
        let mut facts = PodFacts::clone(&self.state.cache().pods()[&uid].facts);
        change(&mut facts);
        self.state.apply_pod(facts);
    }

    fn pod(&mut self, group: &str, cpu: i64, priority: i32) -> PodFacts {
        self.came += 1;
        PodFacts { priority, ..pod("ns", &format!("p{:03}", self.came), group, &[("cpu", cpu)]) }
    }

    fn take(&mut self, step: &Step) {
        let lives = |member: &Member| member.facts.node.is_some() && !member.facts.phase.ended();
        match step.clone() {
            Step::Pods(group, count, cpu, priority) => (0..count).for_each(|_| {
                let facts = self.pod(&format!("g{}", group % 6), cpu, priority);
                self.state.apply_pod(facts);
            }),
            Step::Choosy(group, choice, cpu) => {
                let mut facts = self.pod(&format!("g{}", group % 6), cpu, 0);
                match choice {
                    Choice::Zone(zone) => _ = facts.constraints.node_selector.insert("zone".to_owned(), format!("z{zone}")),
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
                    2 => facts.terms = apart(),
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
                self.change(self.one(at, lives), |facts| facts.phase = crate::api::pod_facts::PodPhase::Succeeded);
            }
            Step::Group { at, min, queue, class, preemptable, min_resources } => self.state.apply_group(GroupFacts {
                preemptable,
                priority_class: (class < 3).then(|| format!("c{class}")),
                min_resources: min_resources.map(|cpu| crate::cycle::testing::amounts(&[("cpu", cpu)])),
                ..group("ns", &format!("g{}", at % 6), min, &format!("q{}", queue % 3))
            }),
            Step::GroupGone(at) => self.state.delete_group(&GroupKey::new("ns", &format!("g{}", at % 6))),
            Step::Keeps(at, preemptable) => self.change(self.one(at, lives), |facts| facts.preemptable = preemptable),
            Step::Labelled(at, guarded) => self.change(self.one(at, |_| true), |facts| {
                facts.labels = if guarded { [("app".to_owned(), "x".to_owned())].into() } else { [].into() };
            }),
            Step::Moves(at, group) => {
                self.change(self.one(at, |_| true), |facts| facts.group = GroupKey::new("ns", &format!("g{}", group % 6)));
            }
            Step::Resized(at, cpu) => self.change(self.one(at, |_| true), |facts| {
                facts.request = crate::cycle::testing::amounts(&[("cpu", cpu), ("pods", 1)]);
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
                    dequeue_strategy: if flags >> 6 == 0 {
                        crate::api::queue::DequeueStrategy::Fifo
                    } else {
                        crate::api::queue::DequeueStrategy::Traverse
                    },
                    ..plain
                });
            }
            Step::QueueGone(at) => self.state.delete_queue(QUEUES[usize::from(at % 4)]),
            Step::Class(at, value) => self.state.apply_priority_class(class(&format!("c{at}"), value)),
            Step::Node(at, cpu, unschedulable) => {
                // Of every fourth one the zone is another.
                self.state.apply_node(crate::api::NodeFacts { unschedulable, ..zoned(at % 3, at / 4, cpu) });
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
                    self.is_bound(&bind);
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
            Step::Handover(how) => self.hand_over(how),
            Step::Later(seconds) => self.now += Duration::from_secs(seconds),
        }
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

    fn apply_namespace(&mut self) {
        match self.namespace {
            Some(team) => self.state.apply_namespace("ns", team.then(|| ("team".to_owned(), "a".to_owned())).into_iter().collect()),
            None => self.state.delete_namespace("ns"),
        }
    }

    fn is_bound(&mut self, bind: &Bind) {
        self.state.confirm(&bind.uid);
        let waits =
            self.state.cache().pods().get(&bind.uid).filter(|member| member.assumed.is_some()).map(|member| Arc::clone(&member.facts));
        if let Some(facts) = waits {
            let facts = running(PodFacts::clone(&facts), &bind.node);
            self.state.apply_pod(PodFacts { charged_queue: Some(bind.queue.to_string()), ..facts });
        }
    }

    /// A victim is gone. Returns its facts.
    fn goes(&mut self, at: usize) -> Option<PodFacts> {
        let at = at.checked_rem(self.evictions.len())?;
        let eviction = &mut self.evictions[at];
        let victim = eviction.victims.pop();
        if eviction.victims.is_empty() {
            self.evictions.remove(at);
        }
        let victim = victim?;
        let facts = self.state.cache().pods().get(&victim.uid).map(|member| PodFacts::clone(&member.facts));
        self.state.delete_pod(&victim.uid);
        facts
    }

    fn hand_over(&mut self, how: u8) {
        for (at, bind) in std::mem::take(&mut self.binds).iter().enumerate() {
            if (usize::from(how) >> (at % 8)) & 1 == 1 {
                self.is_bound(bind);
            } else {
                self.state.refuse_bind(&bind.uid, "test", self.now, |_| Duration::ZERO);
            }
        }
        for (at, eviction) in std::mem::take(&mut self.evictions).iter().enumerate() {
            // Either all of its evictions were sent, or the first one.
            let sent = if (usize::from(how) >> (at % 8)) & 1 == 1 { eviction.victims.len() } else { 1 };
            for victim in eviction.victims.iter().take(sent) {
                let there = self.state.cache().pods().contains_key(&victim.uid);
                self.change(there.then(|| victim.uid.clone()), |facts| facts.deleting = true);
            }
        }
        let any = |member: &Member| Some(Arc::from(format!("n{}", member.facts.name.bytes().map(usize::from).sum::<usize>() % 4)));
        self.state = taken_over(&self.state, |member| if how.is_multiple_of(4) { any(member) } else { nominated_node(member) });
        self.budgets.values().for_each(|budget| self.state.apply_budget(budget.clone()));
        self.foreign.values().for_each(|facts| self.state.apply_pod(facts.clone()));
        self.apply_namespace();
    }

    fn cycle(&mut self) -> Plan {
        let plan = run(&mut self.state, &POLICY, self.now);
        assert!(self.state.cache().accounting().audit().is_clean());
        for node in self.state.cache().accounting().ledger().nodes() {
            let bound_here = plan.binds.iter().any(|bind| *bind.node == *node.name);
            let used = self.state.nominated_on(node.name).map_or_else(
                || node.used.clone(),
                |kept| {
                    let mut used = node.used.clone();
                    used.sub(&kept);
                    used
                },
            );
            assert!(!bound_here || node.allocatable.covers(&used), "oversold {}", node.name);
        }
        self.what_is_nominated_again_fits(&plan);
        let withdrawn = self.state.take_withdrawn();
        self.evictions.retain(|eviction| !withdrawn.contains(&eviction.nomination));
        self.binds.extend(plan.binds.iter().cloned());
        self.evictions.extend(plan.evictions.iter().filter(|eviction| !eviction.victims.is_empty()).cloned());
        self.evicted += plan.evictions.iter().map(|eviction| eviction.victims.len()).sum::<usize>();
        plan
    }

    /// What a new leader nominates again fits beside all pods that stay, and nobody is evicted for it.
    fn what_is_nominated_again_fits(&self, plan: &Plan) {
        let (cache, nominations) = (self.state.cache(), &self.state.nominations);
        let gone = nominations.terminating_or_victims(cache);
        for key in &plan.nominated_again {
            // Where it is bound at once, a further member may preempt in the same cycle.
            let is_bound = plan.binds.iter().any(|bind| bind.group == *key);
            assert!(is_bound || plan.evictions.iter().all(|eviction| eviction.group != *key), "pods are evicted for {key}");
            for place in nominations.gangs.get(key).into_iter().flat_map(|nomination| &nomination.places) {
                let node = cache.accounting().ledger().node(&place.node).unwrap();
                let mut stays = node.used.clone();
                let here = gone.iter().filter_map(|uid| cache.accounting().pod(uid)).filter(|pod| pod.node == Some(&*place.node));
                here.for_each(|pod| stays.sub(pod.resources));
                // Of a lower priority, perhaps.
                cache.nominated_by_others.on(&place.node).into_iter().for_each(|nominated| stays.sub(nominated));
                assert!(node.allocatable.covers(&stays), "{key} is nominated again on {}, which has no room", place.node);
            }
        }
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..60 {
            match self.state.next_attempt() {
                Some(next) if next <= self.now + Duration::from_millis(300) => self.now = self.now.max(next),
                _ => return Ok(()),
            }
            let _plan = self.cycle();
        }
        Err(TestCaseError::fail("it does not come to rest"))
    }

    /// The admission, the reservation and the counts of every PodGroup.
    fn seen(&self) -> Vec<String> {
        let one = |(key, group): (&GroupKey, &Group)| {
            format!("{key}: {} {:?} {:?}", group.is_admitted(), self.state.cache().reserved(group), group.counts)
        };
        self.state.cache().groups().iter().map(one).collect()
    }

    fn no_podgroup_is_forgotten(&mut self) -> Result<(), TestCaseError> {
        let before = self.seen();
        self.state.requeue.changed(crate::cycle::cache::Wake::Everything);
        self.state.requeue.preemptions.changed();
        let plan = self.cycle();
        prop_assert!(plan.binds.is_empty(), "a PodGroup was not tried: {:?}", plan.binds);
        prop_assert!(plan.evictions.is_empty(), "a preemption was not retried: {:?}", plan.evictions);
        prop_assert_eq!(before, self.seen());
        self.settle()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(256) })]
    #[test]
    fn no_podgroup_is_forgotten_and_preemptions_come_to_rest(steps in prop::collection::vec(step(), 5..45)) {
        let mut play = Play::new();
        for step in &steps {
            play.take(step);
            play.settle()?;
            play.no_podgroup_is_forgotten()?;
        }
        // Every victim is recreated.
        let mut quiet = 0;
        for _ in 0..100 {
            let before = play.evicted;
            while let Some(bind) = play.binds.pop() {
                play.is_bound(&bind);
            }
            while !play.evictions.is_empty() {
                if let Some(facts) = play.goes(0) {
                    let again = play.pod(&facts.group.name, 0, facts.priority);
                    play.state.apply_pod(PodFacts { request: facts.request, preemptable: facts.preemptable, labels: facts.labels, task: facts.task, terms: facts.terms, constraints: facts.constraints, ..again });
                }
            }
            let leaving = play.uids(|member| member.state() == State::Leaving);
            leaving.iter().for_each(|uid| play.state.delete_pod(uid));
            play.now += Duration::from_secs(61);
            play.settle()?;
            quiet = if play.evicted == before && play.binds.is_empty() { quiet + 1 } else { 0 };
            if quiet > 12 {
                break;
            }
        }
        prop_assert!(quiet > 12, "it goes on for ever");
    }
}
