//! The worlds that are searched. Each is bounded by the actions that may happen in it, and is searched completely.
//!
//! [`SMALL`] worlds are part of `cargo test`, and every mutant is searched in them. [`BIG`] worlds are part of `make model`.

use crate::mutant::Mutant;
use crate::values::Left;
use crate::world::{QUIET, World};

/// One controller, one owner that wants a pod and has its PodGroup, and no further actions.
const ALONE: World = World {
    name: "alone",
    controllers: 1,
    wants: [Some(1), None],
    targets: &[(0, 0), (1, 0)],
    pods: 2,
    stamps: &[true],
    webhook: false,
    left: [QUIET; 2],
    crashes: 0,
    relists: 0,
    travel: 0,
    lag: 4,
    early_wait_end: true,
    finalizers: false,
    unwatched: false,
    set: false,
    mutant: Mutant::None,
};

/// Two controllers that both believe that they lead. Their watches are fewer events behind.
const TWO: World = World { controllers: 2, lag: 2, early_wait_end: false, ..ALONE };

const SCALED: Left = Left { scales: 2, ..QUIET };

const fn first(left: Left) -> [Left; 2] {
    [left, QUIET]
}

/// A set is deleted, and its PodGroup by a person.
const SET: Left = Left { ends: 1, deletes: 1, ..QUIET };

/// The actions of a rollout: each owner is scaled once.
const ROLLOUT: [Left; 2] = [Left { scales: 1, ..QUIET }; 2];

/// The actions of an adoption: the first owner is deleted with orphaned pods, and a new owner adopts them.
const ADOPTION: [Left; 2] = [Left { orphans: 1, ..QUIET }, Left { recreates: 1, ..QUIET }];

/// A gang of two.
const GANG: World = World { wants: [Some(2), None], targets: &[(0, 0), (2, 0)], ..ALONE };

/// The actions for each of two owners.
const MUCH: Left = Left { scales: 1, deletes: 1, ..QUIET };

/// Two owners that are independent of each other.
pub(crate) const JOINT: World = World { name: "joint", wants: [Some(1), Some(1)], left: [MUCH; 2], lag: 2, ..ALONE };
/// One of the owners of [`JOINT`] alone.
pub(crate) const SINGLE: World = World { name: "single", left: first(MUCH), wants: [Some(1), None], ..JOINT };

/// Searched in every `cargo test`, and by every mutant.
pub(crate) const SMALL: &[World] = &[
    World { name: "scaled to 0 and back", left: first(SCALED), ..ALONE },
    World { name: "made at first", wants: [Some(0), None], left: first(Left { timeouts: 1, losses: 1, ..SCALED }), lag: 2, ..ALONE },
    World {
        name: "made, deleted, a list again",
        wants: [Some(0), None],
        relists: 1,
        left: first(Left { deletes: 1, scales: 1, ..QUIET }),
        ..ALONE
    },
    World { name: "a request lands late", left: first(Left { timeouts: 1, ..SCALED }), ..ALONE },
    World { name: "a reply is lost", left: first(Left { losses: 1, ..SCALED }), ..ALONE },
    World { name: "a status is written", left: first(Left { statuses: 1, timeouts: 1, ..SCALED }), lag: 2, ..ALONE },
    World { name: "a person deletes it", left: first(Left { deletes: 1, losses: 1, ..SCALED }), ..ALONE },
    World { name: "a restart", crashes: 1, left: first(SCALED), ..ALONE },
    World { name: "a restart onto older caches", crashes: 1, travel: 2, left: first(SCALED), ..ALONE },
    World { name: "a list again", relists: 2, left: first(Left { deletes: 1, scales: 1, ..QUIET }), ..ALONE },
    World { name: "a list again, older", relists: 1, travel: 2, left: first(Left { deletes: 1, scales: 1, ..QUIET }), ..ALONE },
    World { name: "a list again, scaled", relists: 1, left: first(Left { scales: 3, ..QUIET }), ..ALONE },
    World { name: "the owner is deleted", left: first(Left { ends: 1, timeouts: 1, ..QUIET }), lag: 1, ..ALONE },
    World { name: "the owner is orphan-deleted", left: first(Left { orphans: 1, ..QUIET }), lag: 1, ..ALONE },
    World { name: "the owner is taken off", left: first(Left { strips: 1, ..SCALED }), ..ALONE },
    World {
        name: "two pods, with and without a stamp",
        wants: [Some(2), None],
        targets: &[(0, 0), (2, 0)],
        pods: 3,
        stamps: &[true, false],
        left: first(SCALED),
        lag: 2,
        ..ALONE
    },
    World {
        name: "size and queue",
        targets: &[(1, 0), (2, 0), (1, 1), (2, 1)],
        left: first(Left { timeouts: 1, scales: 2, ..QUIET }),
        lag: 2,
        ..ALONE
    },
    World { name: "a webhook names another PodGroup", webhook: true, left: first(SCALED), lag: 2, ..ALONE },
    World { name: "a user relabels a pod", left: first(Left { relabels: 1, ..SCALED }), lag: 2, ..ALONE },
    World { name: "two controllers", left: first(Left { scales: 1, ..QUIET }), lag: 1, ..TWO },
    World { name: "a finalizer", finalizers: true, left: first(Left { deletes: 1, ..SCALED }), lag: 2, ..ALONE },
    World { name: "another scheduler", left: first(Left { leaves: 2, ..QUIET }), lag: 2, ..ALONE },
    World {
        name: "a foreign PodGroup",
        wants: [Some(0), None],
        left: first(Left { foreigns: 1, deletes: 1, scales: 2, ..QUIET }),
        lag: 1,
        ..ALONE
    },
    World { name: "an owner that only pods show", unwatched: true, left: first(SCALED), lag: 2, ..ALONE },
    World { name: "a JobSet and its Jobs", set: true, wants: [Some(0), None], left: first(SET), lag: 1, ..ALONE },
    World { name: "refused, and later", left: first(Left { refusals: 1, ..SCALED }), ..ALONE },
    World { name: "a person edits it", left: first(Left { garbles: 1, timeouts: 1, scales: 1, ..QUIET }), lag: 2, ..GANG },
    World { name: "a rollout", wants: [Some(1), Some(0)], left: ROLLOUT, lag: 1, ..ALONE },
];

/// Searched by `make model`.
pub(crate) const BIG: &[World] = &[
    World { name: "two pods, late and lost", pods: 3, left: first(Left { timeouts: 1, losses: 1, ..SCALED }), ..GANG },
    World { name: "three late", left: first(Left { timeouts: 3, ..SCALED }), ..ALONE },
    World { name: "four scales, late and lost", left: first(Left { scales: 4, timeouts: 1, losses: 1, ..QUIET }), lag: 3, ..ALONE },
    World { name: "restart, late, older caches", crashes: 1, travel: 2, left: first(Left { timeouts: 1, ..SCALED }), lag: 3, ..ALONE },
    World {
        name: "list, late, older",
        relists: 1,
        travel: 2,
        left: first(Left { timeouts: 1, deletes: 1, scales: 1, ..QUIET }),
        lag: 3,
        ..ALONE
    },
    World { name: "person, status, late", left: first(Left { deletes: 1, statuses: 1, timeouts: 1, ..SCALED }), lag: 2, ..ALONE },
    World { name: "deleted, restart, late", crashes: 1, travel: 1, left: first(Left { ends: 1, timeouts: 1, ..QUIET }), lag: 1, ..ALONE },
    World { name: "orphaned, late and lost", left: first(Left { orphans: 1, timeouts: 1, losses: 1, ..QUIET }), lag: 1, ..ALONE },
    World {
        name: "size and queue, late twice",
        targets: &[(0, 0), (1, 0), (2, 0), (2, 1)],
        left: first(Left { timeouts: 2, ..SCALED }),
        lag: 3,
        ..ALONE
    },
    World { name: "two controllers, a person", left: first(Left { scales: 1, deletes: 1, ..QUIET }), ..TWO },
    World { name: "two controllers, late", left: first(Left { scales: 1, timeouts: 1, ..QUIET }), ..TWO },
    World { name: "two controllers, a restart", crashes: 1, travel: 1, left: first(Left { scales: 1, ..QUIET }), ..TWO },
    World { name: "two controllers, scaled twice", left: first(SCALED), ..TWO },
    World { name: "two controllers, scaled twice, late", left: first(Left { timeouts: 1, ..SCALED }), lag: 1, ..TWO },
    World { name: "two controllers, deleted", left: first(Left { ends: 1, ..QUIET }), lag: 1, ..TWO },
    World {
        name: "a rollout, back again",
        wants: [Some(1), Some(0)],
        left: [SCALED, Left { scales: 1, timeouts: 1, ..QUIET }],
        lag: 2,
        ..ALONE
    },
    World {
        name: "a JobSet, late, a restart",
        set: true,
        wants: [Some(0), None],
        crashes: 1,
        left: first(Left { timeouts: 1, ..SET }),
        lag: 1,
        ..ALONE
    },
    World { name: "relabelled, late, a restart", crashes: 1, left: first(Left { relabels: 1, timeouts: 1, ..SCALED }), lag: 2, ..ALONE },
    World { name: "adoption", pods: 1, left: ADOPTION, lag: 1, ..ALONE },
    World { name: "adoption, two pods", left: ADOPTION, lag: 1, ..ALONE },
];
