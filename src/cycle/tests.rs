//! What a cycle decides, as small stories; and its promises C1–C4 over random histories.

use proptest::prelude::*;

use super::testing::{group, node, pod, queue, running};
use super::world::{Phase, World};
use super::*;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::pod_facts::{PodPhase, Unsupported};
use crate::api::{GroupFacts, PodFacts};
use crate::resources::Amount;

fn world() -> World {
    World::new([DEFAULT_SCHEDULER.to_owned()])
}

fn cycle(world: &mut World) -> Plan {
    run(world, Placement::Spread, Duration::ZERO)
}

fn bound(plan: &Plan) -> Vec<(&str, &str)> {
    plan.binds.iter().map(|bind| (&*bind.name, &*bind.node)).collect()
}

fn gang(world: &mut World, name: &str, min: u32, queue: &str, count: u32, asks: &[(&str, i64)]) {
    world.apply_group(group("ns", name, min, queue));
    for index in 0..count {
        world.apply_pod(pod("ns", &format!("{name}-{index}"), name, asks));
    }
}

fn message(world: &World, name: &str) -> String {
    world.groups()[&GroupKey::new("ns", name)].refusal.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn phase(world: &World, name: &str) -> Phase {
    let group = &world.groups()[&GroupKey::new("ns", name)];
    status::phase(group, group.facts.as_ref().unwrap())
}

#[test]
fn a_gang_of_four_waits_for_its_fourth_node_and_is_then_placed_whole() {
    let mut world = world();
    for name in ["n1", "n2", "n3"] {
        world.apply_node(node(name, &[("cpu", 1)]));
    }
    gang(&mut world, "g", 4, "default", 4, &[("cpu", 1)]);
    assert!(cycle(&mut world).binds.is_empty());
    assert_eq!(message(&world, "g"), "3 of 4 members find a place; for the next one: 3/3 nodes: lacks cpu (asked 1, most free 0)");
    assert_eq!(phase(&world, "g"), Phase::Inqueue);
    assert!(world.books().ledger().nodes().all(|node| node.used.is_zero()));
    world.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut world)), [("g-0", "n1"), ("g-1", "n2"), ("g-2", "n3"), ("g-3", "n4")]);
    assert_eq!(phase(&world, "g"), Phase::Running);
    assert!(cycle(&mut world).looked_at.len() <= 1 && !world.has_work(Duration::ZERO));
}

#[test]
fn members_that_run_count_and_failed_ones_do_not() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 8)]));
    world.apply_group(group("ns", "g", 3, "default"));
    world.apply_pod(running(pod("ns", "a", "g", &[("cpu", 1)]), "n"));
    let mut failed = running(pod("ns", "b", "g", &[("cpu", 1)]), "n");
    failed.phase = PodPhase::Failed;
    world.apply_pod(failed);
    world.apply_pod(pod("ns", "c", "g", &[("cpu", 1)]));
    assert!(cycle(&mut world).binds.is_empty());
    assert_eq!(message(&world, "g"), "the gang needs 3 members, 2 exist");
    assert_eq!(phase(&world, "g"), Phase::Unknown);
    world.apply_pod(pod("ns", "d", "g", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut world)).len(), 2);
}

#[test]
fn beyond_the_minimum_members_are_placed_one_by_one_as_far_as_there_is_room() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 3)]));
    gang(&mut world, "g", 2, "default", 5, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut world)).len(), 3);
    assert_eq!(phase(&world, "g"), Phase::Running);
    assert_eq!(world.waiting_pods(), 2);
}

#[test]
fn a_minimum_of_zero_is_each_pod_by_itself_and_never_running_without_one() {
    let mut world = world();
    gang(&mut world, "g", 0, "default", 2, &[("cpu", 1)]);
    assert!(cycle(&mut world).binds.is_empty());
    assert_ne!(phase(&world, "g"), Phase::Running);
    world.apply_node(node("n", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut world)), [("g-0", "n")]);
}

#[test]
fn a1_an_overcommitted_node_takes_only_what_does_not_ask_for_the_dimension() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 8), ("nvidia.com/gpu", 2)]));
    for index in 0..2 {
        world.apply_pod(running(pod("ns", &format!("r-{index}"), "old", &[("nvidia.com/gpu", 1)]), "n"));
    }
    world.apply_node(node("n", &[("cpu", 8), ("nvidia.com/gpu", 1)]));
    gang(&mut world, "gpu", 1, "default", 1, &[("nvidia.com/gpu", 1)]);
    gang(&mut world, "daemon", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut world)), [("daemon-0", "n")]);
    world.apply_node(node("n", &[("cpu", 8), ("nvidia.com/gpu", 3)]));
    assert_eq!(bound(&cycle(&mut world)), [("gpu-0", "n")]);
}

#[test]
fn q1_the_second_job_waits_for_the_parents_capability_and_says_so() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 32)]));
    world.apply_queue(queue("parent", None, &[("cpu", 2)]));
    world.apply_queue(queue("a", Some("parent"), &[]));
    world.apply_queue(queue("b", Some("parent"), &[]));
    gang(&mut world, "j1", 2, "a", 2, &[("cpu", 1)]);
    gang(&mut world, "j2", 2, "b", 2, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut world)).len(), 2);
    assert_eq!(phase(&world, "j2"), Phase::Pending);
    assert_eq!(message(&world, "j2"), "queue parent is full: cpu asked 2, used 2 of capability 2");
    for index in 0..2 {
        world.delete_pod(&Uid::from(format!("ns/j1-{index}").as_str()));
    }
    assert_eq!(bound(&cycle(&mut world)), [("j2-0", "n"), ("j2-1", "n")]);
}

#[test]
fn what_is_wrong_blocks_only_itself_and_heals() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 32)]));
    gang(&mut world, "lost", 1, "nowhere", 1, &[("cpu", 1)]);
    gang(&mut world, "top", 1, "root", 1, &[("cpu", 1)]);
    gang(&mut world, "fine", 1, "default", 1, &[("cpu", 1)]);
    world.apply_pod(pod("ns", "orphan", "missing", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut world)), [("fine-0", "n")]);
    assert_eq!(message(&world, "lost"), "queue nowhere does not exist");
    assert_eq!(message(&world, "top"), "queue root has queues below it, and pods go to queues that have none");
    assert_eq!(world.pods()[&Uid::from("ns/orphan")].refusal.as_ref().unwrap().to_string(), "its PodGroup missing does not exist");
    world.apply_queue(queue("nowhere", None, &[]));
    world.apply_group(group("ns", "missing", 1, "default"));
    assert_eq!(bound(&cycle(&mut world)).len(), 2);
}

#[test]
fn what_cannot_be_honoured_is_refused_and_what_is_gated_left_alone() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 32)]));
    world.apply_group(group("ns", "g", 1, "default"));
    let mut port = pod("ns", "a", "g", &[("cpu", 1)]);
    port.unsupported = vec![Unsupported::HostPort];
    let mut gated = pod("ns", "b", "g", &[("cpu", 1)]);
    gated.gated = true;
    world.apply_pod(port);
    world.apply_pod(gated.clone());
    assert!(cycle(&mut world).binds.is_empty());
    assert!(message(&world, "g").contains("hostPort"));
    gated.gated = false;
    world.apply_pod(gated);
    assert_eq!(bound(&cycle(&mut world)), [("b", "n")]);
}

#[test]
fn each_task_has_its_own_minimum() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 3)]));
    let facts = GroupFacts { min_task_member: [("master".to_owned(), 1), ("worker".to_owned(), 2)].into(), ..group("ns", "g", 3, "default") };
    world.apply_group(facts);
    let member = |name: &str, task: &str| PodFacts { task: Some(task.into()), ..pod("ns", name, "g", &[("cpu", 1)]) };
    for name in ["a", "b", "c"] {
        world.apply_pod(member(name, "worker"));
    }
    assert!(cycle(&mut world).binds.is_empty());
    assert_eq!(message(&world, "g"), "the gang needs 1 members of task master, 0 exist");
    world.apply_pod(member("z", "master"));
    assert_eq!(bound(&cycle(&mut world)).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b", "z"]);
}

#[test]
fn a_refused_bind_waits_and_comes_back_with_the_failed_node_last() {
    let mut world = world();
    world.apply_node(node("n1", &[("cpu", 4)]));
    world.apply_node(node("n2", &[("cpu", 1)]));
    gang(&mut world, "g", 1, "default", 1, &[("cpu", 1)]);
    let plan = cycle(&mut world);
    assert_eq!(bound(&plan), [("g-0", "n1")]);
    let uid = plan.binds[0].uid.clone();
    world.refuse_bind(&uid, "forbidden", Duration::from_secs(1), |_| Duration::from_secs(2));
    assert!(run(&mut world, Placement::Spread, Duration::from_secs(2)).binds.is_empty());
    assert_eq!(message(&world, "g"), "a bind failed (forbidden, 1 in a row); it is tried again");
    assert_eq!(world.next_retry(), Some(Duration::from_secs(3)));
    assert_eq!(bound(&run(&mut world, Placement::Spread, Duration::from_secs(3))), [("g-0", "n2")]);
    assert!(world.books().audit().is_clean());
}

#[test]
fn a_pod_that_was_seen_on_a_node_is_not_forgotten_by_a_late_refusal() {
    let mut world = world();
    world.apply_node(node("n1", &[("cpu", 4)]));
    gang(&mut world, "g", 1, "default", 1, &[("cpu", 1)]);
    let plan = cycle(&mut world);
    world.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n1"));
    world.refuse_bind(&plan.binds[0].uid, "timeout", Duration::ZERO, |_| Duration::ZERO);
    assert_eq!(world.books().ledger().node("n1").unwrap().used.get("cpu"), Amount::from_units(1));
}

#[test]
fn bound_members_stay_charged_to_their_queue_when_the_group_goes() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 4)]));
    world.apply_queue(queue("q", None, &[]));
    gang(&mut world, "g", 1, "q", 1, &[("cpu", 1)]);
    let _plan = cycle(&mut world);
    world.apply_pod(PodFacts { charged_queue: Some("q".into()), ..running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n") });
    world.delete_group(&GroupKey::new("ns", "g"));
    assert_eq!(world.books().quota().queue("q").used.get("cpu"), Amount::from_units(1));
    world.apply_group(group("ns", "g", 1, "default"));
    assert_eq!(world.books().quota().queue("q").used.get("cpu"), Amount::from_units(1));
}

#[test]
fn the_higher_priority_and_then_the_emptier_queue_comes_first() {
    let mut world = world();
    world.apply_node(node("n", &[("cpu", 2)]));
    world.apply_queue(queue("a", None, &[("cpu", 10)]));
    world.apply_queue(queue("b", None, &[("cpu", 10)]));
    world.apply_pod(PodFacts { charged_queue: Some("a".into()), ..running(pod("ns", "old", "x", &[("cpu", 1)]), "n") });
    gang(&mut world, "in-a", 1, "a", 1, &[("cpu", 1)]);
    gang(&mut world, "in-b", 1, "b", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut world)), [("in-b-0", "n")]);
    world.delete_pod(&Uid::from("ns/old"));
    world.apply_pod(PodFacts { priority: 9, ..pod("ns", "late", "in-a", &[("cpu", 1)]) });
    assert_eq!(bound(&cycle(&mut world)), [("late", "n")]);
}

/// One event of a random history.
#[derive(Clone, Debug)]
enum Step {
    Node(u8, i64),
    NodeGone(u8),
    Queue(u8, i64),
    Pod(u8, u8, i64),
    Group(u8, u8, u32),
    GroupGone(u8),
    PodGone(u8),
    Ends(u8, bool),
    Seen(u8),
    Refused(u8),
    Foreign(u8, u8, i64),
    Cycle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8, 0..6_i64).prop_map(|(n, cpu)| Step::Node(n, cpu)),
        (0..4_u8).prop_map(Step::NodeGone),
        (0..3_u8, 0..8_i64).prop_map(|(q, cpu)| Step::Queue(q, cpu)),
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
    ]
}

/// Two levels: `q0` and `q1` below `top`, and `q2` below the root; `q3` is never there.
fn tree(world: &mut World) {
    world.apply_queue(queue("top", None, &[("cpu", 6)]));
    world.apply_queue(queue("q0", Some("top"), &[]));
    world.apply_queue(queue("q1", Some("top"), &[("cpu", 3)]));
    world.apply_queue(queue("q2", None, &[]));
}

fn name(pod: u8) -> Uid {
    Uid::from(format!("ns/p{pod}").as_str())
}

fn take(world: &mut World, step: &Step) {
    match step {
        Step::Node(n, cpu) => world.apply_node(node(&format!("n{n}"), &[("cpu", *cpu)])),
        Step::NodeGone(n) => world.delete_node(&format!("n{n}")),
        Step::Queue(q, cpu) => {
            let parent = (*q < 2).then_some("top");
            world.apply_queue(queue(&format!("q{q}"), parent, &[("cpu", *cpu)]));
        }
        Step::Pod(p, g, cpu) => {
            if !world.pods().contains_key(&name(*p)) {
                world.apply_pod(pod("ns", &format!("p{p}"), &format!("g{g}"), &[("cpu", *cpu)]));
            }
        }
        Step::Group(g, q, min) => world.apply_group(group("ns", &format!("g{g}"), *min, &format!("q{q}"))),
        Step::GroupGone(g) => world.delete_group(&GroupKey::new("ns", &format!("g{g}"))),
        Step::PodGone(p) => world.delete_pod(&name(*p)),
        Step::Ends(p, well) => {
            if let Some(member) = world.pods().get(&name(*p)).filter(|member| member.facts.node.is_some()).cloned() {
                let phase = if *well { PodPhase::Succeeded } else { PodPhase::Failed };
                world.apply_pod(PodFacts { phase, ..(*member.facts).clone() });
            }
        }
        Step::Seen(p) => {
            if let Some((facts, at)) = world.pods().get(&name(*p)).and_then(|member| Some((member.facts.clone(), member.assumed.clone()?))) {
                world.confirm(&name(*p));
                let seen = running((*facts).clone(), &at.node);
                world.apply_pod(PodFacts { charged_queue: Some(at.queue.to_string()), ..seen });
            }
        }
        Step::Refused(p) => {
            let assumed = world.pods().get(&name(*p)).is_some_and(|member| member.assumed.as_ref().is_some_and(|assumed| !assumed.confirmed));
            if assumed {
                world.refuse_bind(&name(*p), "test", Duration::ZERO, |_| Duration::ZERO);
            }
        }
        Step::Foreign(p, n, cpu) => {
            let other = running(pod("ns", &format!("f{p}"), "none", &[("cpu", *cpu)]), &format!("n{n}"));
            world.apply_pod(PodFacts { scheduler: "other".into(), ..other });
        }
        Step::Cycle => {}
    }
}

/// Runs a cycle and checks C1 and C2 against what stood before it.
fn checked_cycle(world: &mut World) -> Plan {
    let before: std::collections::BTreeMap<_, _> = world
        .groups()
        .iter()
        .filter_map(|(key, group)| {
            let min = group.facts.as_ref()?.min_member;
            Some((key.clone(), (min, group.counts.placed + group.counts.succeeded)))
        })
        .collect();
    let plan = cycle(world);
    for bind in &plan.binds {
        let asks = &world.pods()[&bind.uid].facts.request;
        let over = world.books().ledger().node(&bind.node).unwrap().overcommitted();
        assert!(asks.iter().all(|(dimension, _)| over.get(dimension).is_zero()), "C1: {bind:?} puts its node over");
        let mut at = Some(Arc::clone(&bind.queue));
        while let Some(queue) = at {
            let view = world.books().quota().queue(&queue);
            for (dimension, ceiling) in view.limits.into_iter().flat_map(|limits| limits.capability.iter()) {
                assert!(asks.get(dimension).is_zero() || view.used.get(dimension) <= ceiling, "C1: {bind:?} puts {queue} over");
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
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_history_oversells_tears_a_gang_apart_or_leaves_the_books_wrong(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = world();
        tree(&mut world);
        let mut looks = 0;
        for step in steps {
            take(&mut world, &step);
            if matches!(step, Step::Cycle) {
                let _plan = checked_cycle(&mut world);
                // What could be placed was, and nobody was forgotten: a look at the whole backlog places nothing more.
                looks += 1;
                world.apply_priority_class("wakes-everybody", looks);
                prop_assert!(checked_cycle(&mut world).binds.is_empty());
            }
            let report = world.books().audit();
            prop_assert!(report.is_clean(), "C4: {:?}", report.differences);
            let counted: usize = world.groups().values().map(|group| group.waiting.len()).sum();
            prop_assert_eq!(counted, world.waiting_pods());
        }
    }

    #[test]
    fn c3_the_order_in_which_facts_came_does_not_change_the_plan(
        nodes in prop::collection::vec(0..6_i64, 1..4),
        pods in prop::collection::vec((0..3_u8, 0..3_i64), 1..10),
        groups in prop::collection::vec((0..3_u8, 0..4_u32), 3),
        seed in any::<u64>(),
    ) {
        type Fact = Box<dyn Fn(&mut World)>;
        let mut facts: Vec<Fact> = Vec::new();
        for (index, cpu) in nodes.into_iter().enumerate() {
            facts.push(Box::new(move |world| world.apply_node(node(&format!("n{index}"), &[("cpu", cpu)]))));
        }
        for (index, (g, cpu)) in pods.into_iter().enumerate() {
            facts.push(Box::new(move |world| world.apply_pod(pod("ns", &format!("p{index}"), &format!("g{g}"), &[("cpu", cpu)]))));
        }
        for (index, (q, min)) in groups.into_iter().enumerate() {
            facts.push(Box::new(move |world| world.apply_group(group("ns", &format!("g{index}"), min, &format!("q{q}")))));
        }
        let plan = |facts: &[Fact]| {
            let mut world = world();
            tree(&mut world);
            facts.iter().for_each(|fact| fact(&mut world));
            cycle(&mut world)
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
