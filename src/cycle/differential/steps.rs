//! What happens in a history?

use proptest::prelude::*;

use super::scene::{QueueSaid, Triple, min_resources, offers, queue};

/// One thing that happens. Pods are chosen by number among those of which it can be.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Pods {
        group: usize,
        count: usize,
        gated: bool,
        created: u8,
        priority: i32,
    },
    /// Its gate is lifted.
    Lift(usize),
    Gone(usize),
    /// It is told to go, and is there still.
    Leaves(usize),
    /// Its binding is there.
    Seen(usize),
    AllSeen,
    /// Its binding is refused.
    Refused(usize),
    /// Somebody else binds it.
    Elsewhere(usize, usize),
    /// Something is written onto it that means nothing here.
    Touched(usize),
    Ends(usize, bool),
    Queue(usize, QueueSaid),
    /// Its annotation alone.
    Desired(usize, Option<&'static str>),
    Strategy(usize, bool),
    Group(usize, u32, Option<Vec<(usize, i64)>>),
    MinMember(usize, u32),
    Moves(usize, usize),
    Over(usize),
    GroupGone(usize),
    Node(usize, Triple),
    /// So many seconds.
    Later(u64),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let at = || 0..8_usize;
    let desired = prop_oneof![2 => Just(None::<&'static str>), 2 => Just(Some("Closed")), 1 => Just(Some("closed"))];
    let seconds = prop::sample::select(&[1_u64, 5, 15, 29, 30, 31, 60, 1_000][..]);
    prop_oneof![
        10 => (at(), 1..4_usize, prop::bool::weighted(0.15), 0..3_u8, 0..3_i32)
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
        2 => (at(), queue()).prop_map(|(at, said)| Step::Queue(at, said)),
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
