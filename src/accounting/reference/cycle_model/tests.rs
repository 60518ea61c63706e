//! The model on small traces with plain results.

use std::collections::{BTreeMap, BTreeSet};

use super::super::cluster::{Amounts, Queue};
use super::{Bind, CycleModel, GroupSpec, Member, MemberState, Place};

const SECOND: u64 = 1_000;

fn cpu(amount: i128) -> Amounts {
    Amounts::from([("cpu".to_owned(), amount)])
}

/// The queue `q` may use 8 CPUs, on nodes of 4.
fn model(fifo: bool) -> CycleModel {
    let mut model = CycleModel::default();
    model.queue("q", Queue { capability: cpu(8), deserved: cpu(8), ..Queue::default() }, fifo);
    ["n1", "n2", "n3"].iter().for_each(|node| model.node(node, cpu(4)));
    model
}

fn group(model: &mut CycleModel, name: &str, created: u64, min_member: usize, asks: i128) {
    let spec = GroupSpec {
        queue: "q".to_owned(),
        min_member,
        completions: None,
        managed: false,
        min_resources: None,
        class: None,
        created,
        over: false,
    };
    model.group(name, spec);
    for at in 0..min_member {
        let member = Member { group: name.to_owned(), asks: cpu(asks), priority: 0, created, state: MemberState::Waits };
        model.member(&format!("{name}-{at}"), member);
    }
}

fn cycle(model: &mut CycleModel, seconds: u64, binds: &[(&str, &str)]) -> Result<(), String> {
    let all: BTreeSet<String> = model.seen(0).into_keys().collect();
    let binds: Vec<Bind> = binds.iter().map(|(pod, node)| Bind { pod: (*pod).to_owned(), node: (*node).to_owned() }).collect();
    model.cycle(seconds * SECOND, &all, &binds, &BTreeSet::new())
}

/// Returns each reservation, and until which second the PodGroup backs off.
fn seen(model: &CycleModel, seconds: u64) -> BTreeMap<String, (i128, Option<u64>)> {
    let of = |seen: super::Seen| (seen.reserved.get("cpu").copied().unwrap_or(0), seen.backs_off_until.map(|until| until / SECOND));
    model.seen(seconds * SECOND).into_iter().map(|(name, seen)| (name, of(seen))).collect()
}

#[test]
fn a_group_that_fits_no_node_reserves_until_the_timeout_and_backs_off_twice_as_long_each_time() {
    let mut model = model(false);
    group(&mut model, "big", 0, 1, 6);
    for (second, want) in
        [(0, (6, None)), (29, (6, None)), (30, (0, Some(60))), (59, (0, Some(60))), (60, (6, None)), (90, (0, Some(150))), (150, (6, None))]
    {
        cycle(&mut model, second, &[]).unwrap();
        assert_eq!(seen(&model, second)["big"], want, "after {second} s");
    }
    assert_eq!(model.counted("root")[1], cpu(6));
    model.node("n4", cpu(6));
    assert!(cycle(&mut model, 151, &[]).unwrap_err().contains("there is room for big"));
    group(&mut model, "big", 0, 1, 6);
    cycle(&mut model, 151, &[("big-0", "n4")]).unwrap();
    assert_eq!((model.counted("q"), seen(&model, 151)["big"]), ([cpu(6), Amounts::new()], (0, None)));
    model.group_gone("big");
    assert!(model.members().is_empty());
}

#[test]
fn the_older_group_comes_first_and_in_a_fifo_queue_the_others_wait_behind_it() {
    for fifo in [false, true] {
        let mut model = model(fifo);
        // An empty node would take `b`.
        model.node("full", cpu(5));
        let place = Place { node: "full".to_owned(), queue: "other".to_owned(), bound: true, terminating: false };
        let runs = Member { group: "runs".to_owned(), asks: cpu(5), priority: 0, created: 0, state: MemberState::On(place) };
        model.member("runs-0", runs);
        group(&mut model, "a", 2, 1, 1);
        group(&mut model, "b", 1, 1, 5);
        group(&mut model, "never", 0, 1, 9);
        let binds: &[(&str, &str)] = if fifo { &[] } else { &[("a-0", "n1")] };
        let mut wrong = model.clone();
        assert!(cycle(&mut wrong, 0, if fifo { &[("a-0", "n1")] } else { &[] }).is_err());
        cycle(&mut model, 0, binds).unwrap();
        assert_eq!(seen(&model, 0)["b"], (5, None));
    }
}

#[test]
fn what_a_refused_bind_gives_back_is_reserved_and_shrinks_when_another_scheduler_binds_the_member() {
    let mut model = model(false);
    group(&mut model, "g", 0, 2, 4);
    assert!(cycle(&mut model.clone(), 0, &[("g-0", "n1"), ("g-1", "n1")]).unwrap_err().contains("no room"));
    cycle(&mut model, 0, &[("g-0", "n1"), ("g-1", "n2")]).unwrap();
    model.bind_refused("g-1", 0, 5 * SECOND);
    assert_eq!(seen(&model, 0)["g"], (4, None));
    cycle(&mut model, 1, &[]).unwrap();
    let place = Place { node: "n1".to_owned(), queue: "q".to_owned(), bound: true, terminating: false };
    let member = model.members()["g-0"].clone();
    model.member("g-0", Member { state: MemberState::On(place.clone()), ..member.clone() });
    assert_eq!(seen(&model, 1)["g"], (4, None));
    model.member("g-1", Member { state: MemberState::On(Place { node: "n3".to_owned(), ..place.clone() }), ..member });
    assert_eq!((seen(&model, 1)["g"], model.counted("q")[0].clone()), ((0, None), cpu(8)));
    let leaving = MemberState::On(Place { terminating: true, ..place });
    let member = model.members()["g-1"].clone();
    model.member("g-1", Member { state: leaving, ..member });
    assert_eq!(model.seen(SECOND)["g"].admitted, None, "an incomplete gang has no request");
    model.member_gone("g-1");
    for state in [MemberState::Succeeded, MemberState::Failed, MemberState::Gated] {
        let member = model.members()["g-0"].clone();
        model.member("g-0", Member { state: state.clone(), ..member });
        cycle(&mut model, 9, &[]).unwrap();
        // It had its nodes, so it is not admitted again for members that do not exist; while there are scheduling gates it is, without a request.
        assert_eq!((seen(&model, 9)["g"], model.seen(0)["g"].times), ((0, None), 0), "{state:?}");
        assert_eq!(model.lives["g"].admitted, state == MemberState::Gated, "{state:?}");
    }
}
