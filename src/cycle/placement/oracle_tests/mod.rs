//! kube-scheduler's own plugins and our predicates say the same of each node, for random clusters and pods.
//!
//! The oracle is a program that asks the filters of kube-scheduler 1.36.3 (`e2e/tools/oracle`, built by `make tools`). Both get the same
//! objects as JSON. Compared is, for each node, whether it takes the pod, and if not, the first plugin that refuses and its words; and
//! where no node takes the pod, the whole message with its counts of nodes by reason. `scores` compares what nodes are preferred by.

mod clusters;
mod compare;
mod differences;
mod ephemeral;
mod judge;
mod kinds;
mod nominated;
mod pods;
mod scores;
mod sequence;
mod terms;
mod unbound_claims;
mod volumes;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use clusters::question;
use judge::{Oracle, agree, ours};
use kinds::{KINDS, Kind, present, refused_by};

/// What the questions of a run were about.
#[derive(Debug, Default)]
struct Seen {
    /// The pods that were asked about.
    pods: u32,
    /// The pods that no node takes: the messages are compared.
    messages: u32,
    /// The pods with names of nodes that contradict each other.
    conflicts: u32,
    /// The nodes that take a pod.
    takes: u32,
    /// By the kind that refused a node, and another kind that was there: how many nodes.
    pairs: BTreeMap<(Kind, Kind), u32>,
}

#[test]
fn property_kube_scheduler_and_our_predicates_say_the_same_of_each_node() {
    let (oracle, seen) = (RefCell::new(Oracle::start()), RefCell::new(Seen::default()));
    let mut runner = TestRunner::new(crate::random_tests::config(5_500));
    let done = runner.run(&question(), |question| {
        let (theirs, ours) = (oracle.borrow_mut().ask(&question), ours(&question));
        let mut seen = seen.borrow_mut();
        for ((theirs, ours), pod) in theirs.iter().zip(&ours).zip(question["pending"].as_array().unwrap()) {
            seen.pods += 1;
            let kinds = present(&question, pod);
            prop_assert_eq!(&ours.message, &theirs.message, "the message for {} in {}", pod, question);
            seen.messages += u32::from(ours.message.is_some());
            seen.conflicts += u32::from(ours.message.as_ref().is_some_and(|message| message.ends_with("conflict.")));
            let (ours, theirs) = (&ours.answer, &theirs.answer);
            for node in question["nodes"].as_array().unwrap() {
                let name = node["metadata"]["name"].as_str().unwrap();
                match (ours.get(name), theirs.get(name)) {
                    (None, None) => seen.takes += 1,
                    (Some(ours), Some(theirs)) if agree(ours, theirs) => {
                        let by = refused_by(ours);
                        // Every pod needs room for itself, whatever it requests.
                        prop_assert!(by == Kind::Resources || kinds.contains(&by), "{by:?} refused, and is not among {kinds:?} in {pod}");
                        kinds.iter().for_each(|other| *seen.pairs.entry((by, *other)).or_default() += 1);
                    }
                    (ours, theirs) => prop_assert!(false, "{name}: ours {ours:?}, theirs {theirs:?} for {pod} in {question}"),
                }
            }
        }
        Ok(())
    });
    done.unwrap();
    let seen = seen.into_inner();
    println!("{seen:?}");
    assert!(seen.pods >= 10_000 && seen.takes >= 1_000 && seen.messages >= 1_000 && seen.conflicts > 0, "{seen:?}");
    for pair in KINDS.iter().flat_map(|by| KINDS.iter().map(move |other| (*by, *other))) {
        assert!(seen.pairs.contains_key(&pair), "no node was refused for {:?} where {:?} was there, too", pair.0, pair.1);
    }
}
