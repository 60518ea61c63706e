//! Does the story go as the text says where it is plain to see?

use std::collections::{BTreeMap, BTreeSet};

use super::super::cluster::{Amounts, Queue};
use super::{Bind, Member, Place, Said, Stands, Story};

const SECOND: u64 = 1_000;

fn cpu(amount: i128) -> Amounts {
    Amounts::from([("cpu".to_owned(), amount)])
}

/// `q` may use 8 cpu, on nodes of 4.
fn story(fifo: bool) -> Story {
    let mut story = Story::default();
    story.queue("q", Queue { capability: cpu(8), deserved: cpu(8), ..Queue::default() }, fifo);
    ["n1", "n2", "n3"].iter().for_each(|node| story.node(node, cpu(4)));
    story
}

fn group(story: &mut Story, name: &str, created: u64, min_member: usize, asks: i128) {
    let said = Said { queue: "q".to_owned(), min_member, min_resources: None, class: None, created, over: false };
    story.group(name, said);
    for at in 0..min_member {
        let member = Member { group: name.to_owned(), asks: cpu(asks), priority: 0, created, stands: Stands::Waits };
        story.member(&format!("{name}-{at}"), member);
    }
}

fn cycle(story: &mut Story, seconds: u64, binds: &[(&str, &str)]) -> Result<(), String> {
    let all: BTreeSet<String> = story.seen(0).into_keys().collect();
    let binds: Vec<Bind> = binds.iter().map(|(pod, node)| Bind { pod: (*pod).to_owned(), node: (*node).to_owned() }).collect();
    story.cycle(seconds * SECOND, &all, &binds, &BTreeSet::new())
}

/// What each has reserved, and until which second it rests.
fn seen(story: &Story, seconds: u64) -> BTreeMap<String, (i128, Option<u64>)> {
    let of = |seen: super::Seen| (seen.reserved.get("cpu").copied().unwrap_or(0), seen.rests_until.map(|until| until / SECOND));
    story.seen(seconds * SECOND).into_iter().map(|(name, seen)| (name, of(seen))).collect()
}

#[test]
fn one_that_fits_no_node_reserves_for_its_patience_and_rests_then_twice_as_long_each_time() {
    let mut story = story(false);
    group(&mut story, "big", 0, 1, 6);
    for (second, want) in
        [(0, (6, None)), (29, (6, None)), (30, (0, Some(60))), (59, (0, Some(60))), (60, (6, None)), (90, (0, Some(150))), (150, (6, None))]
    {
        cycle(&mut story, second, &[]).unwrap();
        assert_eq!(seen(&story, second)["big"], want, "after {second} s");
    }
    assert_eq!(story.counted("root")[1], cpu(6));
    story.node("n4", cpu(6));
    assert!(cycle(&mut story, 151, &[]).unwrap_err().contains("there is room for big"));
    group(&mut story, "big", 0, 1, 6);
    cycle(&mut story, 151, &[("big-0", "n4")]).unwrap();
    assert_eq!((story.counted("q"), seen(&story, 151)["big"]), ([cpu(6), Amounts::new()], (0, None)));
    story.group_gone("big");
    assert!(story.members().is_empty());
}

#[test]
fn the_older_comes_first_and_in_a_fifo_queue_the_others_wait_behind_it() {
    for fifo in [false, true] {
        let mut story = story(fifo);
        group(&mut story, "a", 2, 1, 1);
        group(&mut story, "b", 1, 1, 5);
        group(&mut story, "never", 0, 1, 9);
        let binds: &[(&str, &str)] = if fifo { &[] } else { &[("a-0", "n1")] };
        let mut wrong = story.clone();
        assert!(cycle(&mut wrong, 0, if fifo { &[("a-0", "n1")] } else { &[] }).is_err());
        cycle(&mut story, 0, binds).unwrap();
        assert_eq!(seen(&story, 0)["b"], (5, None));
    }
}

#[test]
fn what_a_refused_bind_gives_back_is_reserved_and_shrinks_when_somebody_else_binds_the_member() {
    let mut story = story(false);
    group(&mut story, "g", 0, 2, 4);
    assert!(cycle(&mut story.clone(), 0, &[("g-0", "n1"), ("g-1", "n1")]).unwrap_err().contains("no room"));
    cycle(&mut story, 0, &[("g-0", "n1"), ("g-1", "n2")]).unwrap();
    story.bind_refused("g-1", 0, 5 * SECOND);
    assert_eq!(seen(&story, 0)["g"], (4, None));
    cycle(&mut story, 1, &[]).unwrap();
    let place = Place { node: "n1".to_owned(), queue: "q".to_owned(), bound: true, terminating: false };
    let member = story.members()["g-0"].clone();
    story.member("g-0", Member { stands: Stands::On(place.clone()), ..member.clone() });
    assert_eq!(seen(&story, 1)["g"], (4, None));
    story.member("g-1", Member { stands: Stands::On(Place { node: "n3".to_owned(), ..place.clone() }), ..member });
    assert_eq!((seen(&story, 1)["g"], story.counted("q")[0].clone()), ((0, None), cpu(8)));
    let leaving = Stands::On(Place { terminating: true, ..place });
    let member = story.members()["g-1"].clone();
    story.member("g-1", Member { stands: leaving, ..member });
    assert_eq!(story.seen(SECOND)["g"].admitted, None, "of one that is not whole nothing is asked for");
    story.member_gone("g-1");
    for stands in [Stands::Succeeded, Stands::Failed, Stands::Gated] {
        let member = story.members()["g-0"].clone();
        story.member("g-0", Member { stands: stands.clone(), ..member });
        cycle(&mut story, 9, &[]).unwrap();
        // Of two, one succeeded; a gate takes back what is asked for.
        assert_eq!((seen(&story, 9)["g"], story.seen(0)["g"].times), ((0, None), 0), "{stands:?}");
        assert_eq!(story.lives["g"].admitted, stands != Stands::Gated);
    }
}
