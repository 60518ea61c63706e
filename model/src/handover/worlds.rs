//! The worlds of the handover that are searched.
//!
//! [`SMALL`] worlds are part of `cargo test`, and every mutant is searched in them. [`BIG`] worlds are part of `make model` and of `make soak`.

use super::mutant::Mutant;
use super::values::{Left, Life};
use super::world::World;

/// Nothing happens but what the processes do.
const QUIET: Left = Left {
    stops: 0,
    kills: 0,
    freezes: 0,
    renewals: 0,
    timeouts: 0,
    losses: 0,
    refusals: 0,
    busy: 0,
    unfenced: 0,
    touches: 0,
    deletes: 0,
    relists: 0,
    clears: 0,
};

/// Two waiting pods, one node and one queue with room for one of them, a leader and a standby.
const ONE_PLACE: World = World {
    name: "one place",
    pods: [Life::Waits, Life::Waits, Life::Never],
    births: 0,
    sizes: [&[1], &[2]],
    led: true,
    behind: [0, 0],
    evicts: false,
    replacements: 0,
    left: QUIET,
    travel: 0,
    lag: 9,
    mutant: Mutant::None,
};

/// A pod that runs, one of a higher priority that waits for its room, and a new pod in the place of the first.
const PREEMPTED: World =
    World { name: "preempted", pods: [Life::Bound, Life::Waits, Life::Never], evicts: true, replacements: 1, ..ONE_PLACE };

/// Searched in every `cargo test`, and by every mutant. The smallest come first.
pub(crate) const SMALL: &[World] = &[
    World { name: "late, refused, busy", left: Left { timeouts: 1, refusals: 1, busy: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "preempted", left: Left { timeouts: 1, ..QUIET }, ..PREEMPTED },
    World { name: "no leader", led: false, left: Left { losses: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "stop, behind in nodes", sizes: [&[2, 1], &[2]], behind: [1, 0], left: Left { stops: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "stop, behind in queues", sizes: [&[2], &[2, 1]], behind: [0, 1], left: Left { stops: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "kill, a fence fails", left: Left { kills: 1, unfenced: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "kill, the Lease is cleared", left: Left { kills: 1, clears: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "freeze", left: Left { freezes: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "stop, a list before", left: Left { stops: 1, relists: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "kill, room for both", sizes: [&[2], &[2]], left: Left { kills: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "kill, late", left: Left { kills: 1, timeouts: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "stop, late", left: Left { stops: 1, timeouts: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "preempted, kill", left: Left { kills: 1, ..QUIET }, ..PREEMPTED },
    World { name: "preempted, freeze", left: Left { freezes: 1, ..QUIET }, ..PREEMPTED },
    World { name: "freeze, renewed, late", left: Left { freezes: 1, renewals: 1, timeouts: 1, ..QUIET }, lag: 1, ..ONE_PLACE },
    World { name: "freeze, changed", left: Left { freezes: 1, touches: 1, ..QUIET }, lag: 2, ..ONE_PLACE },
    World { name: "stop, late, refused", left: Left { stops: 1, timeouts: 1, refusals: 1, ..QUIET }, lag: 2, ..ONE_PLACE },
    World {
        name: "kill, a new pod",
        pods: [Life::Waits, Life::Never, Life::Never],
        births: 2,
        left: Left { kills: 1, ..QUIET },
        ..ONE_PLACE
    },
    World { name: "no leader, kill", led: false, left: Left { kills: 1, ..QUIET }, lag: 1, ..ONE_PLACE },
    World { name: "kill, stop", left: Left { kills: 1, stops: 1, ..QUIET }, lag: 1, ..ONE_PLACE },
    World { name: "stop, changed, lost", left: Left { stops: 1, losses: 1, touches: 1, ..QUIET }, lag: 1, ..ONE_PLACE },
    World { name: "kill, behind in nodes", sizes: [&[2, 1], &[2]], behind: [1, 0], left: Left { kills: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "kill, behind in queues", sizes: [&[2], &[2, 1]], behind: [0, 1], left: Left { kills: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "freeze, behind in nodes", sizes: [&[2, 1], &[2]], behind: [1, 0], left: Left { freezes: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "freeze, behind in queues", sizes: [&[2], &[2, 1]], behind: [0, 1], left: Left { freezes: 1, ..QUIET }, ..ONE_PLACE },
];

/// The node and the queue have become smaller, by one or by two, and the standby has seen neither.
const BEHIND: World = World { name: "behind", sizes: [&[3, 2, 1], &[2, 1]], behind: [2, 1], ..ONE_PLACE };

/// Searched by `make model` and `make soak`.
pub(crate) const BIG: &[World] = &[
    World { name: "no leader, kill, late", led: false, left: Left { kills: 1, timeouts: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "stop, late, behind in both", left: Left { stops: 1, timeouts: 1, ..QUIET }, lag: 1, ..BEHIND },
    World { name: "kill, stop, late", left: Left { kills: 1, stops: 1, timeouts: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "stop, kill, freeze", left: Left { stops: 1, kills: 1, freezes: 1, ..QUIET }, lag: 1, ..ONE_PLACE },
    World { name: "freeze twice, changed", left: Left { freezes: 2, touches: 1, ..QUIET }, ..ONE_PLACE },
    World {
        name: "freeze, renewed, late, stop",
        left: Left { freezes: 1, renewals: 1, timeouts: 1, stops: 1, ..QUIET },
        lag: 1,
        ..ONE_PLACE
    },
    World { name: "stop, lost, changed, refused", left: Left { stops: 1, losses: 1, touches: 1, refusals: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "preempted, stop, late", left: Left { stops: 1, timeouts: 1, ..QUIET }, ..PREEMPTED },
    World { name: "preempted, kill, stop", left: Left { kills: 1, stops: 1, ..QUIET }, ..PREEMPTED },
    World { name: "three pods, stop", pods: [Life::Waits; 3], left: Left { stops: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "three pods, kill", pods: [Life::Waits; 3], left: Left { kills: 1, ..QUIET }, ..ONE_PLACE },
    World {
        name: "three pods, two places, freeze",
        pods: [Life::Waits; 3],
        sizes: [&[2], &[2]],
        left: Left { freezes: 1, ..QUIET },
        ..ONE_PLACE
    },
    World {
        name: "all once, a deleted pod",
        left: Left { stops: 1, kills: 1, timeouts: 1, deletes: 1, ..QUIET },
        replacements: 1,
        lag: 1,
        ..ONE_PLACE
    },
    World { name: "kill, lost, refused", left: Left { kills: 1, losses: 1, refusals: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "freeze, lost, refused", left: Left { freezes: 1, losses: 1, refusals: 1, ..QUIET }, lag: 1, ..ONE_PLACE },
    World { name: "stop, lost, refused, behind in both", left: Left { stops: 1, losses: 1, refusals: 1, ..QUIET }, lag: 1, ..BEHIND },
    World { name: "kill, lost, behind in both", left: Left { kills: 1, losses: 1, ..QUIET }, lag: 1, ..BEHIND },
    World { name: "first lists and relists are old", travel: 2, left: Left { kills: 1, relists: 1, ..QUIET }, ..ONE_PLACE },
    World { name: "kill, late, behind in both", left: Left { kills: 1, timeouts: 1, ..QUIET }, ..BEHIND },
    World { name: "freeze, late, behind in both", left: Left { freezes: 1, timeouts: 1, ..QUIET }, lag: 1, ..BEHIND },
    World { name: "kill, stop, behind in both", left: Left { kills: 1, stops: 1, ..QUIET }, lag: 1, ..BEHIND },
    World { name: "freeze, kill, behind in both", left: Left { freezes: 1, kills: 1, ..QUIET }, lag: 1, ..BEHIND },
];
