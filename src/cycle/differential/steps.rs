//! The steps of a history. They are fewer than those of `cycle/testing/histories`, and each says all that the model has to know: pods are
//! chosen from those of the model, members are alike, and no pod can be preempted.

use proptest::prelude::*;

use super::scene::{QueueFields, Triple, created, min_resources, offers, queue};

/// One step. A pod is chosen by its number among the pods that the step can apply to.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Pods {
        group: usize,
        count: usize,
        gated: bool,
        created: u8,
        priority: i32,
    },
    /// The scheduling gate of a pod is removed.
    Lift(usize),
    Gone(usize),
    /// A pod starts to terminate.
    Leaves(usize),
    /// The bind of a pod succeeds.
    Seen(usize),
    AllSeen,
    /// The bind of a pod fails.
    Refused(usize),
    /// Another scheduler binds a pod.
    Elsewhere(usize, usize),
    /// A field of a pod changes that has no meaning for the scheduler.
    Touched(usize),
    /// A pod ends: it succeeds, or it fails.
    Ends(usize, bool),
    Queue(usize, QueueFields),
    /// The annotation of a queue changes.
    Desired(usize, Option<&'static str>),
    Strategy(usize, bool),
    Group(usize, u32, Option<Vec<(usize, i64)>>),
    MinMember(usize, u32),
    Moves(usize, usize),
    Over(usize),
    GroupGone(usize),
    Node(usize, Triple),
    /// Time passes, in seconds.
    Later(u64),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let at = || 0..8_usize;
    let desired = prop_oneof![2 => Just(None::<&'static str>), 2 => Just(Some("Closed")), 1 => Just(Some("closed"))];
    let seconds = prop::sample::select(&[1_u64, 5, 15, 29, 30, 31, 60, 1_000][..]);
    prop_oneof![
        10 => (at(), 1..4_usize, prop::bool::weighted(0.15), created(), 0..3_i32)
            .prop_map(|(group, count, gated, created, priority)| Step::Pods { group, count, gated, created, priority }),
        2 => at().prop_map(Step::Lift),
        4 => at().prop_map(Step::Gone),
        3 => at().prop_map(Step::Leaves),
        3 => at().prop_map(Step::Seen),
        4 => Just(Step::AllSeen),
        4 => at().prop_map(Step::Refused),
        3 => (at(), 0..3_usize).prop_map(|(pod, node)| Step::Elsewhere(pod, node)),
        2 => at().prop_map(Step::Touched),
        2 => (at(), any::<bool>()).prop_map(|(pod, well)| Step::Ends(pod, well)),
        2 => (at(), queue()).prop_map(|(at, fields)| Step::Queue(at, fields)),
        2 => (at(), desired).prop_map(|(at, desired)| Step::Desired(at, desired)),
        1 => (at(), any::<bool>()).prop_map(|(at, fifo)| Step::Strategy(at, fifo)),
        3 => (at(), 0..4_u32, min_resources()).prop_map(|(at, min, keys)| Step::Group(at, min, keys)),
        2 => (at(), 0..5_u32).prop_map(|(at, min)| Step::MinMember(at, min)),
        2 => (at(), 0..40_usize).prop_map(|(at, queue)| Step::Moves(at, queue)),
        1 => at().prop_map(Step::Over),
        1 => at().prop_map(Step::GroupGone),
        2 => (0..3_usize, offers()).prop_map(|(at, offers)| Step::Node(at, offers)),
        8 => seconds.prop_map(Step::Later),
    ]
}
