//! The decisions of the state, and its nominations, without a cluster, a task or a clock.

use super::*;
use k8s_openapi::jiff::Timestamp;

use crate::api::{GroupKey, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::testing::{group, limits, node, pod, queue, running};
use crate::scheduler::command::NominatedNode;
use crate::scheduler::event::Change;
use crate::scheduler::kinds::{Groups, Nodes, Pods, Queues};
use crate::scheduler::testing::{at, binds, group_status, leading, nothing_else, ready, reset, state, up_to_date, written};

#[test]
fn the_scheduler_decides_only_with_complete_lists_and_the_lease() {
    let mut state = state();
    state.apply(Event::of::<Nodes>(reset(vec![node("n", &[("cpu", 4)])])), at(0));
    state.apply(Event::of::<Groups>(reset(vec![group("ns", "g", 1, "default")])), at(0));
    state.apply(Event::of::<Queues>(reset(Vec::new())), at(0));
    state.apply(Event::of::<Pods>(Change::Apply(pod("ns", "p", "g", &[("cpu", 1)]))), at(0));
    nothing_else(0).for_each(|event| state.apply(event, at(0)));
    assert!(state.tick(at(1000)).is_empty());
    assert_eq!(state.next(Duration::ZERO), None);
    state.apply(Event::of::<Pods>(reset(vec![pod("ns", "p", "g", &[("cpu", 1)])])), at(1000));
    assert!(state.tick(at(2000)).is_empty());
    state.lead(Handover::Clean, 0, at(3000));
    assert_eq!(binds(&state.tick(at(3000))), 1);
}

#[test]
fn the_missing_queues_root_and_default_are_created() {
    let mut state = ready(Vec::new(), Vec::new(), Vec::new());
    state.apply(Event::of::<Queues>(reset(Vec::new())), at(1000));
    let made: Vec<_> = state.tick(at(2000)).into_iter().filter(|command| matches!(command, Command::MakeQueue { .. })).collect();
    assert_eq!(made.len(), 2);
}

#[test]
fn an_object_missing_in_a_new_list_is_deleted_unless_it_could_not_be_decoded() {
    let pods = ["a", "b", "c"].map(|name| running(pod("ns", name, "g", &[("cpu", 1)]), "n"));
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods.to_vec(), vec![group("ns", "g", 1, "default")]);
    state.apply(
        Event::of::<Pods>(Change::Reset {
            all: vec![pods[0].clone()],
            unreadable: vec![pods[1].uid.clone()],
            generation: 0,
            back: false,
            as_of: Duration::ZERO,
        }),
        at(0),
    );
    state.apply(Event::of::<Pods>(Change::Unreadable(pods[1].uid.clone())), at(0));
    assert_eq!((state.scheduling.cache().accounting().pods().count(), state.metrics.unreadable.get()), (2, 2));
    assert!(state.scheduling.cache().accounting().audit().is_clean());
}

/// Returns a state with a node of 4 cpus that `v` fills, and a nomination for `g` on it, as a cycle would make it.
fn nominated() -> State {
    let pods = vec![running(pod("ns", "v", "v", &[("cpu", 4)]), "n"), pod("ns", "a", "g", &[("cpu", 3)])];
    let groups = vec![group("ns", "g", 1, "default"), group("ns", "v", 1, "default")];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
    let _cycle = state.tick(at(0));
    nominate(&mut state);
    state
}

fn nominate(state: &mut State) {
    let resources = state.scheduling.cache().pods()[&Uid::from("ns/a")].facts.request.clone();
    let place = crate::accounting::Placement { uid: "ns/a".into(), node: "n".into(), queue: "default".into(), resources };
    let (key, until) = (GroupKey::new("ns", "g"), Duration::from_secs(90));
    let cause = crate::cycle::plan::EvictionCause::Preemption;
    assert!(state.scheduling.nominate(&key, &[place], &["ns/v".into()], cause, until).is_some());
}

fn progress() -> crate::scheduler::event::EvictionProgress {
    crate::scheduler::event::EvictionProgress {
        group: GroupKey::new("ns", "g"),
        nomination: 1,
        evicted: 2,
        gone: 1,
        refused_pod: None,
        unanswered: false,
    }
}

#[test]
fn the_debug_endpoint_shows_the_waiting_groups_of_a_queue_in_their_order() {
    let groups = ["a", "b", "z"].map(|name| group("ns", name, 1, "default"));
    let pods = ["b", "a", "z"].map(|name| PodFacts { priority: i32::from(name == "z"), ..pod("ns", name, name, &[("cpu", 9)]) });
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods.to_vec(), groups.to_vec());
    let _cycle = state.tick(at(0));
    let page = crate::scheduler::debug::answer(&state, crate::scheduler::event::Question::Queues, Duration::ZERO);
    let queue = page["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "default").unwrap();
    let shown: Vec<_> = queue["waiting"].as_array().unwrap().iter().map(|each| (each["position"].clone(), each["group"].clone())).collect();
    let wanted = [(1, "ns/z"), (2, "ns/a"), (3, "ns/b")].map(|(position, name)| (position.into(), name.into()));
    assert_eq!(shown, wanted);
}

#[test]
fn the_debug_endpoint_leaves_the_reservation_of_a_podgroup_out_of_what_it_lacks() {
    let runs = running(pod("ns", "r", "runs", &[("cpu", 2)]), "n");
    let waits = ["a", "b"].map(|name| pod("ns", name, "waits", &[("cpu", 3)]));
    let more = pod("ns", "more", "z", &[("cpu", 3)]);
    let groups = vec![group("ns", "runs", 1, "q"), group("ns", "waits", 2, "q"), group("ns", "z", 1, "q")];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], [vec![runs, more], waits.to_vec()].concat(), groups);
    state.apply(Event::of::<Queues>(Change::Apply(queue("q", None, &[]))), at(0));
    let _cycle = state.tick(at(100));
    // It is admitted, and finds room on the node only when its queue has none.
    state.apply(Event::of::<Nodes>(Change::Apply(node("n", &[("cpu", 9)]))), at(200));
    state.apply(Event::of::<Queues>(Change::Apply(queue("q", None, &[("cpu", 4)]))), at(200));
    let _cycle = state.tick(at(300));
    let page = crate::scheduler::debug::answer(&state, crate::scheduler::event::Question::Queues, Duration::ZERO);
    let shown = page["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "q").unwrap();
    let amounts = |at: usize| {
        let quota = &shown["waiting"][at]["shortages"][0]["quota"];
        ["requested", "used", "reserved", "short"].map(|name| quota[name].as_str().unwrap())
    };
    assert_eq!(
        (shown["reserved"]["cpu"].as_str().unwrap(), amounts(0), amounts(1)),
        ("9", ["6", "5", "3", "7"], ["3", "8", "6", "7"]),
        "{shown}"
    );
    assert!(state.recount().is_clean());
}

#[test]
fn a_nomination_overcommits_no_node_and_is_shown_separately() {
    let mut state = nominated();
    let _cycle = state.tick(at(100));
    assert_eq!(state.metrics.overcommitted.number(), 0);
    let ledger = crate::scheduler::debug::answer(&state, crate::scheduler::event::Question::Ledger, Duration::ZERO);
    let shown = &ledger["nodes"][0];
    assert_eq!((&shown["used"]["cpu"], &shown["nominated"]["cpu"]), (&"4".into(), &"3".into()));
    assert_eq!((shown["overcommitted"].as_object().unwrap().len(), &shown["pods"]), (0, &1.into()));
    // The queue and its ancestors show the same in the status, in the metric and at the debug endpoint.
    let queues = crate::scheduler::debug::answer(&state, crate::scheduler::event::Question::Queues, Duration::ZERO);
    for name in ["default", "root"] {
        let shown = queues["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap();
        assert_eq!((&shown["used"]["cpu"], &shown["nominated"]["cpu"]), (&"4".into(), &"3".into()), "{name}");
        let allocated = crate::cycle::queue_status::report(&state.scheduling, name).allocated;
        assert_eq!(allocated.get("cpu"), crate::resources::Amount::from_units(4), "{name}");
        let snapshot = QueueSnapshot::of(&state);
        let amount = |of| snapshot.amounts[&(of, name.to_owned(), "cpu".to_owned())];
        assert_eq!(amount(queue_snapshot::Of::Allocated), crate::resources::Amount::from_units(4), "{name}");
    }
    let writes = [state.tick(at(300)), state.tick(at(2500))].concat();
    assert_eq!(group_status(&writes).unwrap().phase.as_deref(), Some("Inqueue"));
    let message = |command: &Command| match command {
        Command::Group { events, .. } => events.first().map(|(_, message)| message.clone()),
        Command::Pod { condition, .. } => condition.message.clone(),
        Command::Bind(_)
        | Command::Volume(_)
        | Command::Evict { .. }
        | Command::StopEvictions { .. }
        | Command::Fence { .. }
        | Command::Queue { .. }
        | Command::QueueEvent { .. }
        | Command::MisnamedPod { .. }
        | Command::PodEvent { .. }
        | Command::MakeQueue { .. } => None,
    };
    let messages: Vec<_> = writes.iter().filter_map(message).collect();
    assert_eq!(
        messages,
        ["WaitingForPreemption: preempting 1 pod of queue \"default\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)";
            2],
        "on the group, and on the pod that waits"
    );
    // A bound pod that is too large does overcommit the node.
    state.apply(Event::of::<Pods>(Change::Apply(running(pod("ns", "w", "v", &[("cpu", 1)]), "n"))), at(400));
    let _cycle = state.tick(at(400));
    assert_eq!(state.metrics.overcommitted.number(), 1);
}

#[test]
fn a_refused_eviction_ends_the_nomination_and_an_accepted_one_waits_for_the_pods() {
    let mut state = nominated();
    let _cycle = state.tick(at(100));
    assert_eq!(state.next(Duration::from_millis(100)).map(|at| at > Duration::from_millis(100)), Some(true));
    state.learn(Report::Evicted(progress()), at(200));
    let key = GroupKey::new("ns", "g");
    assert!(state.scheduling.nominated(&key).is_some());
    state.learn(Report::NotEvicted(progress(), "disruption_budget"), at(300));
    assert!(state.scheduling.nominated(&key).is_none());
    let commands = state.tick(at(300));
    assert!(commands.contains(&Command::StopEvictions { nomination: 1 }));
    assert_eq!((state.metrics.evictions("evicted"), state.metrics.evictions("gone")), (4, 2));
    assert_eq!(state.metrics.evictions("disruption_budget"), 1);
    assert!(state.tick(at(301)).iter().all(|command| !matches!(command, Command::StopEvictions { .. })), "it is writes once");
}

#[test]
fn a_refused_eviction_spares_the_pod_and_in_a_namespace_that_is_being_deleted_all_pods() {
    let pods = [("ns", "a"), ("ns", "b"), ("other", "c")].map(|(namespace, name)| running(pod(namespace, name, "g", &[("cpu", 1)]), "n"));
    for (reason, spared) in [("disruption_budget", [true, false, false]), (NAMESPACE_TERMINATING, [true, true, false])] {
        let mut state = ready(vec![node("n", &[("cpu", 4)])], pods.to_vec(), Vec::new());
        let refused = crate::scheduler::event::EvictionProgress { refused_pod: Some("ns/a".into()), ..progress() };
        state.learn(Report::NotEvicted(refused, reason), at(0));
        let backs_off = |uid: &str| state.scheduling.eviction_backs_off(&uid.into());
        assert_eq!(["ns/a", "ns/b", "other/c"].map(backs_off), spared, "{reason}");
    }
}

#[test]
fn the_timeout_for_victims_wakes_the_loop() {
    let mut state = nominated();
    let _cycle = state.tick(at(100));
    for millis in [300, 2500, 12_500] {
        for command in state.tick(at(millis)) {
            if let Some(subject) = subject(&command) {
                state.learn(Report::Written(subject, written("2")), at(millis));
            }
        }
    }
    assert_eq!(state.next(Duration::from_millis(12_500)), Some(Duration::from_secs(90)));
    // The view is recent.
    up_to_date(&mut state, at(60_000));
    assert!(state.has_work(at(90_000)) && !state.has_work(at(89_999)));
}

#[test]
fn the_condition_of_a_waiting_pod_changes_when_pods_are_evicted_for_it() {
    let pods = vec![running(pod("ns", "v", "v", &[("cpu", 4)]), "n"), pod("ns", "a", "g", &[("cpu", 3)])];
    let groups = vec![group("ns", "g", 1, "default"), group("ns", "v", 1, "default")];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
    let writes = |state: &mut State, millis: u64| -> Vec<String> {
        let mut messages = Vec::new();
        for command in state.tick(at(millis)) {
            if let Some(subject) = subject(&command) {
                state.learn(Report::Written(subject, written("2")), at(millis));
            }
            if let Command::Pod { condition, .. } = command {
                messages.extend(condition.message);
            }
        }
        messages
    };
    let _cycle = writes(&mut state, 0);
    assert_eq!(
        writes(&mut state, 2500),
        ["InsufficientResources: 0/1 nodes are available: 1 Insufficient cpu; cpu: requested 3, most free 0"]
    );
    nominate(&mut state);
    let _cycle = writes(&mut state, 3000);
    assert_eq!(
        writes(&mut state, 13_000),
        [
            "WaitingForPreemption: preempting 1 pod of queue \"default\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)"
        ]
    );
}

#[test]
fn a_binding_carries_the_newest_version_of_its_pod() {
    let facts = |version| crate::api::PodFacts { resource_version: version, ..pod("ns", "p", "g", &[("cpu", 1)]) };
    let mut state = ready(vec![node("n", &[])], vec![facts(3)], vec![group("ns", "g", 1, "default")]);
    assert_eq!(binds(&state.tick(at(0))), 0);
    // An event with another version and nothing else wakes no PodGroup.
    state.apply(Event::of::<Pods>(Change::Apply(facts(8))), at(100));
    assert!(!state.has_work(at(100)));
    // The answer to an own write has the newest version before the watch; an answer that comes late takes nothing back.
    for version in ["9", "7"] {
        state.learn(Report::Written(Subject::Pod("ns/p".into()), written(version)), at(100));
    }
    assert!(!state.has_work(at(100)));
    state.apply(Event::of::<Nodes>(Change::Apply(node("n", &[("cpu", 1)]))), at(200));
    let bound: Vec<_> =
        state.tick(at(200)).into_iter().filter_map(|command| if let Command::Bind(bind) = command { Some(bind) } else { None }).collect();
    let bodies: Vec<_> = bound.iter().map(crate::scheduler::command::binding).collect();
    assert_eq!(bodies.iter().map(|body| &body["metadata"]["resourceVersion"]).collect::<Vec<_>>(), ["9"]);
    let without = crate::cycle::plan::Bind { resource_version: 0, ..bound[0].clone() };
    assert!(crate::scheduler::command::binding(&without)["metadata"].get("resourceVersion").is_none());
}

/// Returns the condition of a pod that waits for this reason.
fn condition(refusal: &crate::cycle::explain::Refusal) -> crate::api::pod::PodCondition {
    let (kind, status) = ("PodScheduled".to_owned(), "False".to_owned());
    crate::api::pod::PodCondition { kind, status, reason: Some(refusal.pod_reason().into()), message: Some(refusal.message()) }
}

/// Returns what becomes of the nominated node with each write to the pod until then. Each write succeeds.
fn named(state: &mut State, millis: std::ops::RangeInclusive<u64>) -> Vec<(u64, NominatedNode)> {
    let mut all = Vec::new();
    for now in millis.step_by(50) {
        for command in state.tick(at(now)) {
            if let Some(subject) = subject(&command) {
                state.learn(Report::Written(subject, written("2")), at(now));
            }
            if let Command::Pod { nominated, .. } = command {
                all.push((now, nominated));
            }
        }
    }
    all
}

#[test]
fn a_nomination_is_named_on_its_pods_at_once_with_the_condition_and_removed_with_the_next_one() {
    let pods = vec![running(pod("ns", "v", "v", &[("cpu", 4)]), "n"), pod("ns", "a", "g", &[("cpu", 3)])];
    let groups = vec![group("ns", "g", 1, "default"), group("ns", "v", 1, "default")];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
    assert_eq!(named(&mut state, 0..=2500), [(2000, NominatedNode::Stays)]);
    nominate(&mut state);
    assert_eq!(
        named(&mut state, 2500..=20_000),
        [(2650, NominatedNode::Is("n".into()))],
        "ten seconds since the last write are not waited for"
    );
    // The watch shows the write. It says nothing new.
    let shown = crate::api::PodFacts { nominated_node: Some("n".into()), ..pod("ns", "a", "g", &[("cpu", 3)]) };
    let scheduled_condition = state.scheduling.nominated(&GroupKey::new("ns", "g")).map(|refusal| condition(refusal));
    state.apply(Event::of::<Pods>(Change::Apply(crate::api::PodFacts { scheduled_condition, ..shown })), at(20_000));
    assert_eq!(named(&mut state, 20_000..=30_000), []);
    state.learn(Report::NotEvicted(progress(), "disruption_budget"), at(30_000));
    let ended = named(&mut state, 30_000..=45_000);
    assert_eq!(ended.first().map(|(_, nominated)| nominated), Some(&NominatedNode::Removed));
    assert!(ended.iter().skip(1).all(|(_, nominated)| *nominated == NominatedNode::Stays), "{ended:?}");
}

#[test]
fn a_nomination_that_ends_with_a_binding_at_once_costs_no_write() {
    let mut state = nominated();
    state.apply(Event::of::<Pods>(Change::Delete("ns/v".into())), at(100));
    assert_eq!(binds(&state.tick(at(100))), 1);
    assert_eq!(named(&mut state, 150..=15_000), []);
}

#[test]
fn a_name_of_an_earlier_leader_that_does_not_hold_is_removed_with_the_condition() {
    let waits = crate::api::PodFacts { nominated_node: Some("gone".into()), ..pod("ns", "a", "g", &[("cpu", 5)]) };
    let mut state = ready(vec![node("n", &[("cpu", 4)])], vec![waits.clone()], vec![group("ns", "g", 1, "default")]);
    assert_eq!(named(&mut state, 0..=15_000), [(2000, NominatedNode::Removed)]);
    // The watch shows that, and later another program names a node.
    let scheduled_condition = state.scheduling.cache().pods()[&Uid::from("ns/a")].refusal.as_deref().map(condition);
    let shown = crate::api::PodFacts { nominated_node: None, scheduled_condition: scheduled_condition.clone(), ..waits.clone() };
    state.apply(Event::of::<Pods>(Change::Apply(shown)), at(14_000));
    assert_eq!(named(&mut state, 14_000..=15_000), []);
    state.apply(Event::of::<Pods>(Change::Apply(crate::api::PodFacts { scheduled_condition, ..waits })), at(15_000));
    assert_eq!(named(&mut state, 15_000..=29_000), [(16_000, NominatedNode::Removed)]);
}

#[test]
fn the_patch_of_a_pod_touches_its_nominated_node_only_where_that_changes() {
    let condition = crate::api::pod::PodCondition { kind: "PodScheduled".into(), ..Default::default() };
    let patch = |nominated| crate::scheduler::command::pod_patch(&"u".into(), &condition, &nominated, None);
    assert_eq!(patch(NominatedNode::Stays)["status"].get("nominatedNodeName"), None);
    // The condition keeps the time of its last transition.
    assert_eq!(patch(NominatedNode::Stays)["status"]["conditions"][0].get("lastTransitionTime"), None);
    assert_eq!(patch(NominatedNode::Is("n".into()))["status"]["nominatedNodeName"], "n");
    assert_eq!(patch(NominatedNode::Removed)["status"].get("nominatedNodeName"), Some(&serde_json::Value::Null));
}

#[test]
fn a_binding_is_sent_again_by_a_leader_with_a_recent_view_while_its_decision_holds() {
    let (nodes, pods) = (vec![node("n", &[("cpu", 4)])], vec![pod("ns", "a", "g", &[("cpu", 1)])]);
    let mut state = ready(nodes, pods, vec![group("ns", "g", 1, "default")]);
    let commands = state.tick(at(0));
    let Some(Command::Bind(bind)) = commands.first().cloned() else { panic!("{commands:?}") };
    let holds = |state: &mut State, millis| {
        let (reply, mut answer) = tokio::sync::oneshot::channel();
        state.learn(Report::SendAgain(Box::new(bind.clone()), reply), at(millis));
        answer.try_recv().unwrap()
    };
    assert!(holds(&mut state, 100));
    state.apply(Event::of::<Nodes>(Change::Apply(NodeFacts { unschedulable: true, ..node("n", &[("cpu", 4)]) })), at(200));
    assert!(!holds(&mut state, 200));
    state.apply(Event::of::<Nodes>(Change::Apply(node("n", &[("cpu", 4)]))), at(300));
    assert!(holds(&mut state, 300));
    assert!(!holds(&mut state, 90_000), "the view is old");
    assert!(!holds(&mut crate::scheduler::testing::state(), 100), "it does not lead");
}

#[test]
fn the_wait_of_a_bound_pod_counts_for_its_queue_until_the_queue_is_deleted() {
    let created = Timestamp::UNIX_EPOCH;
    let pods = ["a", "b", "c"].map(|name| PodFacts { created, ..pod("ns", name, name, &[("cpu", 1)]) });
    let groups = ["a", "b", "c"].map(|name| group("ns", name, 1, "team"));
    let mut state =
        leading(state(), vec![node("n", &[("cpu", 4)])], pods.to_vec(), groups.to_vec(), vec![queue("team", Some("root"), &[])]);
    let _binds = state.tick(at(0));
    let now = Now { wall: created + Duration::from_secs(7), ..at(100) };
    state.learn(Report::Bound("ns/a".into()), now);
    // A clock that is behind that of the API server.
    state.learn(Report::Bound("ns/b".into()), Now { wall: created - Duration::from_secs(7), ..at(200) });
    // The watch shows the binding before the answer comes.
    let shown = PodFacts { charged_queue: Some("team".into()), ..running(pods[2].clone(), "n") };
    state.apply(Event::of::<Pods>(Change::Apply(shown)), at(250));
    state.learn(Report::Bound("ns/c".into()), now);
    assert_eq!(state.metrics.waiting_times.recorded("team"), (3, 14.0));
    state.apply(Event::of::<Queues>(Change::Delete(Arc::from("team"))), at(300));
    assert_eq!(state.metrics.waiting_times.recorded("team"), (0, 0.0));
}

#[test]
fn a_preemption_is_timed_until_the_members_have_nodes_and_one_that_is_given_up_is_not() {
    let team = |name: &str| QueueFacts { deserved: limits(&[("cpu", 2)]), ..queue(name, Some("root"), &[]) };
    let in_a = |name: &str| PodFacts { charged_queue: Some("a".into()), ..running(pod("ns", name, "v", &[("cpu", 2)]), "n") };
    let pods = vec![in_a("v1"), in_a("v2"), pod("ns", "p", "g", &[("cpu", 2)])];
    let groups = vec![group("ns", "v", 1, "a"), group("ns", "g", 1, "b")];
    let preempting = || {
        let mut state = leading(state(), vec![node("n", &[("cpu", 4)])], pods.clone(), groups.clone(), vec![team("a"), team("b")]);
        let victims = state.tick(at(1000)).into_iter().find_map(|command| {
            let Command::Evict { eviction, .. } = command else { return None };
            eviction.victims.first().map(|victim| victim.uid.clone())
        });
        (state, victims.unwrap())
    };
    let (mut state, victim) = preempting();
    let _cycle = state.tick(at(2000));
    assert_eq!(state.metrics.preemptions(), (0, 0.0));
    state.apply(Event::of::<Pods>(Change::Delete(victim)), at(8000));
    assert_eq!(binds(&state.tick(at(8500))), 1);
    assert_eq!(state.metrics.preemptions(), (1, 7.5));
    let (mut state, victim) = preempting();
    state.apply(Event::of::<Groups>(Change::Delete(GroupKey::new("ns", "g"))), at(2000));
    let _cycle = state.tick(at(2000));
    state.apply(Event::of::<Groups>(Change::Apply(group("ns", "g", 1, "b"))), at(3000));
    state.apply(Event::of::<Pods>(Change::Delete(victim)), at(8000));
    assert_eq!(binds(&state.tick(at(8500))), 1);
    assert_eq!(state.metrics.preemptions(), (0, 0.0));
}
