//! One hold: places that are charged for members of a PodGroup before they are bound, why, and until when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::cache::LostMember;
use crate::cycle::explain::Refusal;

use super::claims::Claims;

/// Room that is held for members of a PodGroup. It ends as a whole.
#[derive(Debug)]
pub(in crate::cycle) struct Hold {
    /// Its number, under which evictions and writes of claims go out. No number is used twice.
    pub(in crate::cycle) number: u64,
    pub(in crate::cycle) group: GroupKey,
    /// The places, which are charged on their nodes.
    pub(in crate::cycle) places: Vec<Placement>,
    /// When its time is over (monotonic); none before its time begins with the next cycle. [`Duration::MAX`]: it has no end.
    pub(in crate::cycle) until: Option<Duration>,
    pub(in crate::cycle) because: Because,
}

/// Why room is held, and what it waits for.
#[derive(Debug)]
pub(in crate::cycle) enum Because {
    /// Victims are to end.
    Victims(Victims),
    /// The gang lost a member, which another is to replace.
    LostMember(LostMember),
    /// Claims of the members have no volumes yet.
    Claims(Claims),
}

/// The pods that are to end before a gang is bound.
#[derive(Debug)]
pub(in crate::cycle) struct Victims {
    /// Those that still hold something.
    pub(in crate::cycle) left: BTreeSet<Uid>,
    /// Why the PodGroup waits, which names them.
    pub(in crate::cycle) refusal: Arc<Refusal>,
}

/// The kind of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cycle) enum Kind {
    /// For a gang whose victims are to end: a nomination.
    Victims,
    /// For a member that replaces a lost one: a kept place.
    LostMember,
    /// For members whose claims get volumes.
    Claims,
}

impl Hold {
    pub(super) const fn kind(&self) -> Kind {
        match self.because {
            Because::Victims(_) => Kind::Victims,
            Because::LostMember(_) => Kind::LostMember,
            Because::Claims(_) => Kind::Claims,
        }
    }

    /// The pods that must end first, as far as they are left.
    pub(in crate::cycle) const fn victims(&self) -> Option<&BTreeSet<Uid>> {
        if let Because::Victims(victims) = &self.because { Some(&victims.left) } else { None }
    }

    /// The member that was lost.
    pub(in crate::cycle) const fn lost(&self) -> Option<&LostMember> {
        if let Because::LostMember(lost) = &self.because { Some(lost) } else { None }
    }

    pub(super) const fn claims(&self) -> Option<&Claims> {
        if let Because::Claims(claims) = &self.because { Some(claims) } else { None }
    }

    /// Whether its time is over.
    pub(in crate::cycle) fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}
