//! C3: the order in which facts come does not change the plan.

use proptest::prelude::*;

use crate::cycle::testing::steps::empty_state;
use crate::cycle::testing::{POLICY, group, node, pod, queue};

use crate::cycle::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(512) })]

    #[test]
    fn c3_the_order_in_which_facts_came_does_not_change_the_plan(
        nodes in prop::collection::vec(0..6_i64, 1..4),
        pods in prop::collection::vec((0..3_u8, 0..3_i64), 1..10),
        groups in prop::collection::vec((0..2_u8, 0..4_u32), 3),
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
        facts.push(Box::new(|state| state.apply_queue(queue("top", None, &[("cpu", 6)]))));
        facts.push(Box::new(|state| state.apply_queue(queue("q0", Some("top"), &[]))));
        facts.push(Box::new(|state| state.apply_queue(queue("q1", Some("top"), &[("cpu", 3)]))));
        let plan = |facts: &[Fact]| {
            let mut state = empty_state();
            facts.iter().for_each(|fact| fact(&mut state));
            run(&mut state, &POLICY, Duration::ZERO)
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
