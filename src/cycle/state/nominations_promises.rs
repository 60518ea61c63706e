//! The promises of nominations over random histories: no bind before the victims free its resources, no leftover records, no nomination
//! without an end.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::accounting::Placement;
use crate::accounting::Stage;
use crate::api::pod_facts::PodPhase;
use crate::api::{NodeFacts, QueueFacts};
use crate::cycle::cache::{Member, State};
use crate::cycle::plan::EvictionCause;
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::testing::steps::empty_state;
use crate::cycle::testing::{PEACEFUL, group, node, nominated_node, pod, queue, running, taken_over};
use crate::resources::Resources;

#[derive(Clone, Debug)]
enum Step {
    /// A node offers so much, is cordoned or not.
    Node(u8, i64, bool),
    NodeGone(u8),
    /// A queue's ceiling, and whether it is closed.
    Queue(u8, i64, bool),
    /// A pod that waits.
    Pod(u8, u8, i64),
    /// A pod that runs already.
    Runs(u8, u8, u8, i64),
    Group(u8, u32),
    GroupGone(u8),
    /// The members that a PodGroup needs are nominated from this node on, and all pods there are victims, for so long.
    Take(u8, u8, u64),
    /// The n-th victim is gone, leaving, or has ended.
    VictimGone(u8),
    VictimLeaves(u8),
    VictimEnds(u8),
    /// Evictions for the PodGroup are refused; of an older nomination or of this one.
    Refused(u8, bool),
    PodGone(u8),
    /// Another scheduler bound it to this node.
    Elsewhere(u8, u8),
    /// The outcome of a bind.
    Bound(u8, bool),
    Time(u64),
    /// Another leader takes over. Each waiting pod names its nominated node, none, or another one.
    Handover(u8),
    Cycle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..3_u8, 0..6_i64, prop::bool::weighted(0.2)).prop_map(|(n, cpu, cordon)| Step::Node(n, cpu, cordon)),
        1 => (0..3_u8).prop_map(Step::NodeGone),
        1 => (0..2_u8, 1..12_i64, prop::bool::weighted(0.2)).prop_map(|(q, cpu, closed)| Step::Queue(q, cpu, closed)),
        3 => (0..12_u8, 0..3_u8, 1..4_i64).prop_map(|(p, g, cpu)| Step::Pod(p, g, cpu)),
        3 => (0..12_u8, 0..4_u8, 0..3_u8, 1..4_i64).prop_map(|(p, g, n, cpu)| Step::Runs(p, g, n, cpu)),
        1 => (0..4_u8, 0..4_u32).prop_map(|(g, min)| Step::Group(g, min)),
        1 => (0..4_u8).prop_map(Step::GroupGone),
        6 => (0..4_u8, 0..3_u8, 1..60_u64).prop_map(|(g, n, time)| Step::Take(g, n, time)),
        6 => (0..6_u8).prop_map(Step::VictimGone),
        2 => (0..6_u8).prop_map(Step::VictimLeaves),
        2 => (0..6_u8).prop_map(Step::VictimEnds),
        1 => (0..4_u8, any::<bool>()).prop_map(|(g, old)| Step::Refused(g, old)),
        1 => (0..12_u8).prop_map(Step::PodGone),
        1 => (0..12_u8, 0..3_u8).prop_map(|(p, n)| Step::Elsewhere(p, n)),
        2 => (0..12_u8, any::<bool>()).prop_map(|(p, well)| Step::Bound(p, well)),
        1 => (1..30_u64).prop_map(Step::Time),
        2 => (0..4_u8).prop_map(Step::Handover),
        6 => Just(Step::Cycle),
    ]
}

/// The data that the test has in addition to the state.
struct History {
    state: SchedulingState,
    now: u64,
    /// The deadline of the nomination of each PodGroup.
    until: BTreeMap<GroupKey, u64>,
}

fn key(g: u8) -> GroupKey {
    GroupKey::new("ns", &format!("g{g}"))
}

fn uid(p: u8) -> Uid {
    Uid::from(format!("ns/p{p}").as_str())
}

impl History {
    fn take(&mut self, step: &Step) {
        let state = &mut self.state;
        let victim = |state: &SchedulingState, n: u8| {
            let victims: Vec<Uid> = state.nominations.victims().cloned().collect();
            victims.get(usize::from(n) % victims.len().max(1)).cloned()
        };
        match step {
            Step::Node(n, cpu, unschedulable) => {
                state.apply_node(NodeFacts { unschedulable: *unschedulable, ..node(&format!("n{n}"), &[("cpu", *cpu)]) });
            }
            Step::NodeGone(n) => state.delete_node(&format!("n{n}")),
            Step::Queue(q, cpu, closed_by_hand) => {
                state.apply_queue(QueueFacts { closed_by_hand: *closed_by_hand, ..queue(&format!("q{q}"), None, &[("cpu", *cpu)]) });
            }
            Step::Pod(p, g, cpu) => {
                if !state.cache().pods().contains_key(&uid(*p)) {
                    state.apply_pod(pod("ns", &format!("p{p}"), &format!("g{g}"), &[("cpu", *cpu)]));
                }
            }
            Step::Runs(p, g, n, cpu) => {
                if !state.cache().pods().contains_key(&uid(*p)) {
                    state.apply_pod(running(pod("ns", &format!("p{p}"), &format!("g{g}"), &[("cpu", *cpu)]), &format!("n{n}")));
                }
            }
            Step::Group(g, min) => state.apply_group(group("ns", &format!("g{g}"), *min, &format!("q{}", g % 2))),
            Step::GroupGone(g) => state.delete_group(&key(*g)),
            Step::Take(g, n, time) => self.nominate(*g, *n, *time),
            Step::VictimGone(n) => {
                if let Some(uid) = victim(state, *n) {
                    state.delete_pod(&uid);
                }
            }
            Step::VictimLeaves(n) => {
                if let Some(facts) = victim(state, *n).and_then(|uid| Some(PodFacts::clone(&state.cache().pods().get(&uid)?.facts))) {
                    state.apply_pod(PodFacts { deleting: true, ..facts });
                }
            }
            Step::VictimEnds(n) => {
                if let Some(facts) = victim(state, *n).and_then(|uid| Some(PodFacts::clone(&state.cache().pods().get(&uid)?.facts))) {
                    state.apply_pod(PodFacts { phase: PodPhase::Failed, ..facts });
                }
            }
            Step::Refused(g, old) => {
                let id = state.nominations.gangs.get(&key(*g)).map_or(0, |nomination| nomination.id);
                let stood = state.nominated(&key(*g)).is_some();
                state.refuse_eviction(&key(*g), if *old { id.saturating_sub(1) } else { id }, "refused");
                assert_eq!(state.nominated(&key(*g)).is_some(), stood && *old);
            }
            Step::PodGone(p) => state.delete_pod(&uid(*p)),
            Step::Elsewhere(p, n) => {
                let waits = |member: &&Member| matches!(member.state(), State::Waiting | State::Nominated);
                if let Some(facts) = state.cache().pods().get(&uid(*p)).filter(waits).map(|member| PodFacts::clone(&member.facts)) {
                    state.apply_pod(running(facts, &format!("n{n}")));
                }
            }
            Step::Bound(p, well) => {
                let open = |member: &&Member| member.assumed.as_ref().is_some_and(|assumed| !assumed.confirmed);
                let Some(member) = state.cache().pods().get(&uid(*p)).filter(open).cloned() else { return };
                if *well {
                    state.confirm(&uid(*p));
                    let at = member.assumed.unwrap();
                    let seen = running(PodFacts::clone(&member.facts), &at.node);
                    state.apply_pod(PodFacts { charged_queue: Some(at.queue.to_string()), ..seen });
                } else {
                    state.refuse_bind(&uid(*p), "test", Duration::from_secs(self.now), |_| Duration::ZERO);
                }
            }
            Step::Time(seconds) => self.now += seconds,
            Step::Handover(names) => {
                let named = |member: &Member| match names {
                    0 | 1 => nominated_node(member),
                    2 => None,
                    _ => Some(Arc::from(format!(
                        "n{}",
                        member.facts.name.len() + member.facts.name.bytes().map(usize::from).sum::<usize>() % 4
                    ))),
                };
                self.state = taken_over(state, named);
                self.until.clear();
            }
            Step::Cycle => self.cycle(),
        }
    }

    /// Nominates like a search: what the PodGroup needs, on nodes that would have room without all other pods there.
    fn nominate(&mut self, g: u8, first: u8, time: u64) {
        let state = &mut self.state;
        let Some((facts, waiting, has)) = state
            .cache()
            .groups()
            .get(&key(g))
            .and_then(|group| Some((group.facts.clone()?, group.waiting.clone(), group.counts.placed + group.counts.succeeded)))
        else {
            return;
        };
        let needed = usize::try_from(facts.min_member.saturating_sub(has).max(1)).unwrap();
        if waiting.len() < needed {
            return;
        }
        let place = |(at, uid): (usize, &Uid)| Placement {
            uid: uid.clone(),
            node: format!("n{}", (usize::from(first) + at) % 3).as_str().into(),
            queue: facts.queue.as_str().into(),
            resources: state.cache().pods()[uid].facts.request.clone(),
        };
        let places: Vec<Placement> = waiting.iter().take(needed).enumerate().map(place).collect();
        let there = |uid: &&Uid| {
            let at = state.cache().accounting().pod(uid).filter(|pod| pod.stage == Stage::Observed).and_then(|pod| pod.node);
            state.cache().pods()[*uid].facts.group != key(g) && places.iter().any(|place| Some(&*place.node) == at)
        };
        let victims: Vec<Uid> = state.cache().pods().keys().filter(there).cloned().collect();
        let until = self.now + time;
        let stood = state.nominated(&key(g)).is_some();
        let eviction = state.nominate(&key(g), &places, &victims, EvictionCause::Reclaim, Duration::from_secs(until));
        assert_eq!(eviction.is_some(), !stood, "a waiting PodGroup is nominated once");
        if eviction.is_some() {
            self.until.insert(key(g), until);
        }
    }

    fn cycle(&mut self) {
        let needs: BTreeMap<GroupKey, u32> = self
            .state
            .cache()
            .groups()
            .iter()
            .filter_map(|(key, group)| {
                let has = group.counts.placed + group.counts.succeeded;
                Some((key.clone(), group.facts.as_ref()?.min_member.saturating_sub(has)))
            })
            .collect();
        let plan: Plan = run(&mut self.state, &PEACEFUL, Duration::from_secs(self.now));
        let state = &self.state;
        for key in &plan.nominated_again {
            let until = state.nominations.gangs.get(key).map(|nomination| nomination.until.as_secs());
            let is_bound = plan.binds.iter().any(|bind| bind.group == *key);
            assert!(until.is_some() || is_bound, "{key} was nominated again, and could not be");
            self.until.extend(until.map(|until| (key.clone(), until)));
        }
        // Counted from the pods themselves: the pods that are on the node or being bound to it.
        let holds = |member: &Member| match (&member.facts.node, &member.assumed) {
            (Some(node), _) if !member.facts.phase.ended() => Some(Arc::clone(node)),
            (None, Some(assumed)) => Some(Arc::clone(&assumed.node)),
            (Some(_) | None, _) => None,
        };
        let mut used: BTreeMap<Arc<str>, Resources> = BTreeMap::new();
        for member in state.cache().pods().values() {
            if let Some(node) = holds(member) {
                used.entry(node).or_default().add(&member.facts.request);
            }
        }
        for bind in &plan.binds {
            let asks = &state.cache().pods()[&bind.uid].facts.request;
            let offered = state.cache().accounting().ledger().node(&bind.node).unwrap().allocatable;
            let over = asks.iter().find(|(name, _)| used[&bind.node].get(name) > offered.get(name));
            assert_eq!(over, None, "{bind:?} puts its node over");
            assert_eq!(state.cache().accounting().quota().closed_by(&bind.queue), None, "{bind:?} goes to a closed queue");
            let node = state.cache().nodes().id(&bind.node).and_then(|id| state.cache().nodes().get(id)).unwrap();
            assert!(!node.unschedulable, "{bind:?} goes to a node that is cordoned");
        }
        for (queue, members) in plan.binds.iter().fold(BTreeMap::<_, Vec<_>>::new(), |mut by, bind| {
            by.entry(Arc::clone(&bind.queue)).or_default().push(bind);
            by
        }) {
            let mut taken = Resources::new();
            for (_, pod) in state.cache().accounting().pods().filter(|(_, pod)| pod.stage != Stage::Nominated && pod.queue == Some(&*queue))
            {
                taken.add(pod.resources);
            }
            let limits = state.cache().accounting().quota().queue(&queue).limits.unwrap();
            let over = limits.capability.iter().find(|(name, most)| taken.get(name) > *most);
            assert_eq!(over, None, "{members:?} put {queue} over");
        }
        for (key, needed) in needs {
            let bound = u32::try_from(plan.binds.iter().filter(|bind| bind.group == key).count()).unwrap();
            assert!(bound == 0 || bound >= needed, "{key} needs {needed}, and {bound} are bound");
        }
        for (key, until) in &self.until {
            assert!(*until > self.now || state.nominated(key).is_none(), "{key} is nominated for longer than its time");
        }
    }

    /// The three records of a nomination agree.
    fn check(&self) {
        let state = &self.state;
        let report = state.cache().accounting().audit();
        assert!(report.is_clean(), "{:?}", report.differences);
        let mut nominated: BTreeMap<Arc<str>, Resources> = BTreeMap::new();
        for (uid, pod) in state.cache().accounting().pods().filter(|(_, pod)| pod.stage == Stage::Nominated) {
            let is_kept = state.nominations.kept.values().flatten().any(|place| place.uid == *uid);
            let is_nominated = state.cache().pods().get(uid).is_some_and(|member| member.state() == State::Nominated);
            assert!(is_nominated != is_kept && is_kept == pod.queue.is_none(), "{uid} is charged for what it has not");
            nominated.entry(pod.node.unwrap().into()).or_default().add(pod.resources);
        }
        assert_eq!(state.nominations.nodes, nominated);
        for (uid, member) in state.cache().pods().iter() {
            let stage = state.cache().accounting().pod(uid).map(|pod| pod.stage);
            assert_eq!(member.state() == State::Nominated, stage == Some(Stage::Nominated), "{uid}");
            assert!(member.state() != State::Waiting || stage.is_none(), "{uid} waits and is charged");
        }
        for (key, group) in state.cache().groups().iter() {
            let places = state.nominations.gangs.get(key).map_or(0, |nomination| nomination.places.len());
            assert_eq!(usize::try_from(group.counts.nominated).unwrap(), places, "{key}");
        }
        assert_eq!(state.cache().groups().values().map(|group| group.waiting.len()).sum::<usize>(), state.cache().waiting_pods());
        let victims: BTreeSet<&Uid> = state.nominations.gangs.values().flat_map(|nomination| &nomination.victims).collect();
        assert_eq!(victims, state.nominations.victims().collect(), "the index of victims");
        assert!(victims.iter().all(|uid| state.cache().accounting().pod(uid).is_some()), "a nomination waits for a pod without a charge");
    }
}

proptest! {
    #![proptest_config(crate::random_tests::config(1024))]

    #[test]
    fn no_history_binds_too_early_or_leaves_anything_behind(steps in prop::collection::vec(step(), 1..70)) {
        let mut history = History { state: empty_state(), now: 0, until: BTreeMap::new() };
        for n in 0..3 {
            history.take(&Step::Node(n, 4, false));
        }
        for g in 0..4 {
            history.take(&Step::Queue(g % 2, 9, false));
            history.take(&Step::Group(g, u32::from(g % 3)));
        }
        for step in steps {
            history.take(&step);
            history.check();
        }
        // The time of a kept place begins with the next cycle.
        for _ in 0..2 {
            history.now += 1_000;
            history.cycle();
            history.check();
        }
        prop_assert!(history.state.nominations.gangs.is_empty() && history.state.nominations.deadlines.is_empty());
        prop_assert!(history.state.nominations.nodes.is_empty() && history.state.nominations.victims.is_empty());
    }
}
