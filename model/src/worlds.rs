//! Which worlds are searched?

use crate::mutant::Mutant;
use crate::values::Left;
use crate::world::{QUIET, World};

/// One controller, one owner that wants a pod and has its group, and nothing that happens.
pub(crate) const ALONE: World = World {
    name: "alone",
    controllers: 1,
    wants: [Some(1), None],
    targets: &[(0, 0), (1, 0)],
    pods: 2,
    stamps: &[true],
    left: [QUIET; 2],
    crashes: 0,
    relists: 0,
    travel: 0,
    mutant: Mutant::None,
};

const fn first(left: Left) -> [Left; 2] {
    [left, QUIET]
}

/// probe
pub(crate) const PROBE: &[World] = &[
    World { name: "scaled twice", left: first(Left { scales: 2, ..QUIET }), ..ALONE },
    World { name: "late", left: first(Left { scales: 2, timeouts: 1, ..QUIET }), ..ALONE },
    World { name: "lost", left: first(Left { scales: 2, losses: 1, ..QUIET }), ..ALONE },
    World { name: "three scales", left: first(Left { scales: 3, ..QUIET }), ..ALONE },
    World { name: "crash", crashes: 1, left: first(Left { scales: 2, ..QUIET }), ..ALONE },
    World { name: "relist", relists: 1, left: first(Left { scales: 2, ..QUIET }), ..ALONE },
    World { name: "crash travel", crashes: 1, travel: 2, left: first(Left { scales: 2, ..QUIET }), ..ALONE },
    World { name: "two", controllers: 2, left: first(Left { scales: 2, ..QUIET }), ..ALONE },
];
