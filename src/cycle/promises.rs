//! The promises C1–C4 of the cycle, over random histories.

use proptest::prelude::*;

use super::cache::State;
use super::state::SchedulingState;
use super::testing::{POLICY, amounts, class, group, limits, node, pod, queue, running};
use super::*;
use crate::accounting::ROOT_QUEUE;
use crate::accounting::Waiting;
use crate::api::Uid;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::pod_facts::PodPhase;
use crate::api::{PodFacts, QueueFacts};
use crate::resources::{Amount, Limits, Resources};

fn empty_state() -> SchedulingState {
    SchedulingState::new([DEFAULT_SCHEDULER.to_owned()])
}

fn cycle(state: &mut SchedulingState, now: Duration) -> Plan {
    run(state, &POLICY, now)
}

/// One event of a random history.
#[derive(Clone, Debug)]
enum Step {
    Node(u8, i64),
    NodeGone(u8),
    Queue(u8, i64),
    /// Its guarantee (0 is none), its priority, and whether it is closed; 3 is `top`.
    Terms(u8, i64, i32, bool),
    Pod(u8, u8, i64),
    Group(u8, u8, u32),
    GroupGone(u8),
    PodGone(u8),
    Ends(u8, bool),
    Seen(u8),
    Refused(u8),
    Foreign(u8, u8, i64),
    Cycle,
    /// A cycle so many seconds later.
    Later(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8, 0..6_i64).prop_map(|(n, cpu)| Step::Node(n, cpu)),
        (0..4_u8).prop_map(Step::NodeGone),
        (0..3_u8, 0..8_i64).prop_map(|(q, cpu)| Step::Queue(q, cpu)),
        (0..4_u8, 0..5_i64, 0..2_i32, prop::bool::weighted(0.2))
            .prop_map(|(q, cpu, priority, closed)| Step::Terms(q, cpu, priority, closed)),
        (0..12_u8, 0..4_u8, 0..3_i64).prop_map(|(p, g, cpu)| Step::Pod(p, g, cpu)),
        (0..12_u8, 0..4_u8, 0..3_i64).prop_map(|(p, g, cpu)| Step::Pod(p, g, cpu)),
        (0..4_u8, 0..4_u8, 0..5_u32).prop_map(|(g, q, min)| Step::Group(g, q, min)),
        (0..4_u8).prop_map(Step::GroupGone),
        (0..12_u8).prop_map(Step::PodGone),
        (0..12_u8, any::<bool>()).prop_map(|(p, well)| Step::Ends(p, well)),
        (0..12_u8).prop_map(Step::Seen),
        (0..12_u8).prop_map(Step::Refused),
        (0..4_u8, 0..4_u8, 0..4_i64).prop_map(|(p, n, cpu)| Step::Foreign(p, n, cpu)),
        Just(Step::Cycle),
        Just(Step::Cycle),
        (1..50_u8).prop_map(Step::Later),
    ]
}

/// Two levels: `q0` and `q1` below `top`, and `q2` below the root; `q3` is never there.
fn tree(state: &mut SchedulingState) {
    state.apply_queue(queue("top", None, &[("cpu", 6)]));
    state.apply_queue(queue("q0", Some("top"), &[]));
    state.apply_queue(queue("q1", Some("top"), &[("cpu", 3)]));
    state.apply_queue(queue("q2", None, &[]));
}

fn group_name(group: u8) -> String {
    format!("g{group}")
}

fn name(pod: u8) -> Uid {
    Uid::from(format!("ns/p{pod}").as_str())
}

fn take(state: &mut SchedulingState, step: &Step) {
    match step {
        Step::Node(n, cpu) => state.apply_node(node(&format!("n{n}"), &[("cpu", *cpu)])),
        Step::NodeGone(n) => state.delete_node(&format!("n{n}")),
        Step::Queue(q, cpu) => {
            let known = state.cache().queues()[&*format!("q{q}")].clone();
            state.apply_queue(QueueFacts { capability: limits(&[("cpu", *cpu)]), ..(*known).clone() });
        }
        Step::Terms(q, cpu, priority, closed_by_hand) => {
            let known = state.cache().queues()[if *q == 3 { "top".to_owned() } else { format!("q{q}") }.as_str()].clone();
            let guarantee = if *cpu == 0 { Limits::new() } else { limits(&[("cpu", *cpu)]) };
            state.apply_queue(QueueFacts { guarantee, priority: *priority, closed_by_hand: *closed_by_hand, ..(*known).clone() });
        }
        Step::Pod(p, g, cpu) => {
            if !state.cache().pods().contains_key(&name(*p)) {
                state.apply_pod(pod("ns", &format!("p{p}"), &group_name(*g), &[("cpu", *cpu)]));
            }
        }
        Step::Group(g, q, min) => {
            // The controller manages the first. It says what its members need, so that it may reserve that before one exists.
            let min_resources = (*g == 0).then(|| amounts(&[("cpu", i64::from(*min))]));
            state.apply_group(GroupFacts { min_resources, managed: *g == 0, ..group("ns", &group_name(*g), *min, &format!("q{q}")) });
        }
        Step::GroupGone(g) => state.delete_group(&GroupKey::new("ns", &group_name(*g))),
        Step::PodGone(p) => state.delete_pod(&name(*p)),
        Step::Ends(p, well) => {
            if let Some(member) = state.cache().pods().get(&name(*p)).filter(|member| member.facts.node.is_some()).cloned() {
                let phase = if *well { PodPhase::Succeeded } else { PodPhase::Failed };
                state.apply_pod(PodFacts { phase, ..(*member.facts).clone() });
            }
        }
        Step::Seen(p) => {
            if let Some((facts, at)) =
                state.cache().pods().get(&name(*p)).and_then(|member| Some((member.facts.clone(), member.assumed.clone()?)))
            {
                state.confirm(&name(*p));
                let seen = running((*facts).clone(), &at.node);
                state.apply_pod(PodFacts { charged_queue: Some(at.queue.to_string()), ..seen });
            }
        }
        Step::Refused(p) => {
            let assumed =
                state.cache().pods().get(&name(*p)).is_some_and(|member| member.assumed.as_ref().is_some_and(|assumed| !assumed.confirmed));
            if assumed {
                state.refuse_bind(&name(*p), "test", Duration::ZERO, |_| Duration::ZERO);
            }
        }
        Step::Foreign(p, n, cpu) => {
            let other = running(pod("ns", &format!("f{p}"), "none", &[("cpu", *cpu)]), &format!("n{n}"));
            state.apply_pod(PodFacts { scheduler: "other".into(), ..other });
        }
        Step::Cycle | Step::Later(_) => {}
    }
}

/// Returns the part of all guarantees that pods do not fill.
fn unfilled_guarantees(state: &SchedulingState) -> Resources {
    state.cache().accounting().quota().queue(ROOT_QUEUE).unfilled.clone()
}

/// Runs a cycle and checks C1 and C2 against the state before it.
fn checked_cycle(state: &mut SchedulingState, now: Duration) -> Plan {
    let before: std::collections::BTreeMap<_, _> = state
        .cache()
        .groups()
        .iter()
        .filter_map(|(key, group)| {
            let min = group.facts.as_ref()?.min_member;
            Some((key.clone(), (min, group.counts.placed + group.counts.succeeded)))
        })
        .collect();
    let stood: std::collections::BTreeMap<String, [Resources; 3]> = state
        .cache()
        .accounting()
        .quota()
        .queues()
        .map(|queue| (queue.name.to_owned(), [queue.used.clone(), queue.reserved.clone(), queue.unused_guarantee.clone()]))
        .collect();
    let plan = cycle(state, now);
    for bind in &plan.binds {
        let asks = &state.cache().pods()[&bind.uid].facts.request;
        let over = state.cache().accounting().ledger().node(&bind.node).unwrap().overcommitted();
        assert!(asks.iter().all(|(dimension, _)| over.get(dimension).is_zero()), "C1: {bind:?} puts its node over");
        let quota = state.cache().accounting().quota();
        assert_eq!(
            (quota.closed_by(&bind.queue), quota.fault(&bind.queue)),
            (None, None),
            "C1: {bind:?} goes to a queue that takes no pod"
        );
        let mut at = Some(Arc::clone(&bind.queue));
        while let Some(queue) = at {
            let view = state.cache().accounting().quota().queue(&queue);
            for (dimension, ceiling) in view.limits.into_iter().flat_map(|limits| limits.capability.iter()) {
                assert!(asks.get(dimension).is_zero() || view.used.get(dimension) <= ceiling, "C1: {bind:?} puts {queue} over");
            }
            // F5, as all stands now: what is held may have grown only up to a ceiling, wherever pods do not fill a floor.
            let [used, reserved, kept] = &stood[&*queue];
            let total = state.cache().accounting().ledger().total().iter().filter(|_| &*queue == ROOT_QUEUE);
            let ceilings = view.limits.into_iter().flat_map(|limits| limits.capability.iter()).chain(total);
            // A later reservation of this cycle may be within the entitlement only (A3), and then it is more than there is room for.
            let settled =
                |dimension: &str| view.unfilled.get(dimension).is_positive() && view.reserved.get(dimension) <= reserved.get(dimension);
            for (dimension, ceiling) in ceilings.filter(|(dimension, _)| settled(dimension.as_str())) {
                let held = |sums: [&Resources; 3]| sums.iter().fold(Amount::ZERO, |sum, part| sum.plus(part.get(dimension)));
                let (before, after) = (held([used, reserved, kept]), held([view.used, view.reserved, view.unused_guarantee]));
                assert!(after <= before || after <= ceiling, "C1: {bind:?} takes what is kept in {queue}");
            }
            at = view.parent.map(Arc::from);
        }
    }
    for (key, (min, had)) in before {
        let bound = u32::try_from(plan.binds.iter().filter(|bind| bind.group == key).count()).unwrap();
        assert!(bound == 0 || had + bound >= min, "C2: {key} needs {min}, had {had}, and {bound} were bound");
    }
    plan
}

proptest! {
    #![proptest_config(crate::random_tests::config(512))]

    #[test]
    fn no_history_oversells_tears_a_gang_apart_or_leaves_the_books_wrong(steps in prop::collection::vec(step(), 1..60)) {
        let mut state = empty_state();
        tree(&mut state);
        let (mut looks, mut now) = (0, Duration::ZERO);
        for step in steps {
            take(&mut state, &step);
            if let Step::Later(seconds) = step {
                now += Duration::from_secs(u64::from(seconds));
            }
            if matches!(step, Step::Cycle | Step::Later(_)) {
                let unfilled = unfilled_guarantees(&state);
                // A PodGroup after its admission timeout makes room for others, in a cycle that follows at once.
                let _plan = checked_cycle(&mut state, now);
                for _ in 0..8 {
                    let _plan = if state.has_work(now) { checked_cycle(&mut state, now) } else { break };
                }
                // Where pods filled guarantees, the PodGroups that these kept out are tried again with the next preemptions.
                if unfilled_guarantees(&state) != unfilled {
                    now += Duration::from_millis(100);
                    for _ in 0..8 {
                        let _plan = if state.has_work(now) { checked_cycle(&mut state, now) } else { break };
                    }
                }
                prop_assert!(!state.has_work(now), "it comes to rest");
                // All that could be placed was, and no PodGroup was forgotten: a try of the whole backlog places nothing more.
                looks += 1;
                state.apply_priority_class(class("wakes-all", looks));
                prop_assert!(checked_cycle(&mut state, now).binds.is_empty());
            }
            let sharing = &state.cache.sharing;
            if let Some(shares) = sharing.shares.as_ref().filter(|_| !sharing.outdated) {
                prop_assert_eq!(shares, &state.cache.accounting.quota().shares(Waiting::Of(&sharing.demands)), "shares that are kept though an input changed");
            }
            let report = state.cache().accounting().audit();
            prop_assert!(report.is_clean(), "C4: {:?}", report.differences);
            for (key, group) in state.cache().groups().iter() {
                let reserved = state.cache().reserved(group);
                let (facts, inqueue) = (group.facts.as_ref(), group.is_admitted());
                prop_assert!(reserved.is_zero() || inqueue && facts.is_some(), "A2: {} reserves {:?}", key, reserved);
                prop_assert!(reserved.is_zero() || facts.is_none_or(|facts| !gang::is_satisfied(group, facts)), "A5: {} has its places", key);
                let waits_for_first_pod = facts.is_some_and(|facts| facts.managed) && group.members.is_empty();
                prop_assert!(reserved.is_zero() || !waits_for_first_pod || state.has_work(now), "A2: {} has no member and reserves {:?}", key, reserved);
                let queue = state.cache().accounting().quota().reservation_of(&key.to_string()).map(|(queue, _)| queue.to_owned());
                prop_assert!(queue.is_none() || queue == facts.map(|facts| facts.queue.clone()), "A2: {} reserves elsewhere", key);
            }
            let placed = state.cache().pods().values().filter(|member| member.state() == State::Placed).map(|member| member.facts.priority).min();
            prop_assert_eq!(state.cache.placed_priorities.lowest().copied(), placed);
            let counted: usize = state.cache().groups().values().map(|group| group.waiting.len()).sum();
            prop_assert_eq!(counted, state.cache().waiting_pods());
        }
    }

    #[test]
    fn c3_the_order_in_which_facts_came_does_not_change_the_plan(
        nodes in prop::collection::vec(0..6_i64, 1..4),
        pods in prop::collection::vec((0..3_u8, 0..3_i64), 1..10),
        groups in prop::collection::vec((0..3_u8, 0..4_u32), 3),
        seed in any::<u64>(),
    ) {
        type Fact = Box<dyn Fn(&mut SchedulingState)>;
        let mut facts: Vec<Fact> = Vec::new();
        for (index, cpu) in nodes.into_iter().enumerate() {
            facts.push(Box::new(move |state| state.apply_node(node(&format!("n{index}"), &[("cpu", cpu)]))));
        }
        for (index, (g, cpu)) in pods.into_iter().enumerate() {
            facts.push(Box::new(move |state| state.apply_pod(pod("ns", &format!("p{index}"), &format!("g{g}"), &[("cpu", cpu)]))));
        }
        for (index, (q, min)) in groups.into_iter().enumerate() {
            facts.push(Box::new(move |state| state.apply_group(group("ns", &format!("g{index}"), min, &format!("q{q}")))));
        }
        let plan = |facts: &[Fact]| {
            let mut state = empty_state();
            tree(&mut state);
            facts.iter().for_each(|fact| fact(&mut state));
            cycle(&mut state, Duration::ZERO)
        };
        let first = plan(&facts);
        let mut random = seed;
        for index in (1..facts.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            facts.swap(index, usize::try_from(random >> 33).unwrap() % (index + 1));
        }
        prop_assert_eq!(first, plan(&facts));
    }
}
