//! Do kube-scheduler and our predicates say the same of each node, for random questions about volumes?

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::judge::{Oracle, ours};

/// Asks 3,000 questions. Both sides must take the same nodes, and `agree` on the plugin and its reasons for each node that both refuse.
///
/// Each of `plugins` must be our answer for `least` nodes; "takes" stands for a node that both take.
pub(super) fn compare_each_node(
    questions: impl Strategy<Value = Value>,
    plugins: &[&str],
    least: u32,
    agree: impl Fn(&[String], &[String]) -> bool,
) {
    let (oracle, seen) = (RefCell::new(Oracle::start()), RefCell::new(BTreeMap::<String, u32>::new()));
    let done = TestRunner::new(crate::random_tests::config(3_000)).run(&questions, |question| {
        let (theirs, ours) = (oracle.borrow_mut().ask(&question), ours(&question));
        for ((theirs, ours), pod) in theirs.iter().zip(&ours).zip(question["pending"].as_array().unwrap()) {
            for node in question["nodes"].as_array().unwrap() {
                let name = node["metadata"]["name"].as_str().unwrap();
                let by = match (ours.answer.get(name), theirs.answer.get(name)) {
                    (None, None) => "takes",
                    (Some(ours), Some(theirs)) if agree(ours, theirs) => &*ours[0],
                    (ours, theirs) => {
                        prop_assert!(false, "{name}: ours {ours:?}, theirs {theirs:?} for {pod} in {question}");
                        continue;
                    }
                };
                *seen.borrow_mut().entry(by.to_owned()).or_default() += 1;
            }
        }
        Ok(())
    });
    done.unwrap();
    let seen = seen.into_inner();
    println!("{seen:?}");
    for by in plugins {
        assert!(seen.get(*by).is_some_and(|count| *count >= least), "{by}: {seen:?}");
    }
}
