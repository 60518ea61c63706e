//! Who goes, or why does nobody?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::api::Uid;
use crate::api::names::PREEMPTS_NEVER;
use crate::cycle::explain::Refusal;
use crate::resources::{Amount, ResourceName, quantity};

/// Who must go, and where the members are placed then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taking {
    /// The pods to evict, the cheapest first, a gang together; none if what is terminating is enough.
    pub victims: Vec<Uid>,
    /// Each member that was asked for, with its node.
    pub places: Vec<(Uid, Arc<str>)>,
}

/// Why nobody is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It asks for nobody's place (R13).
    Never {
        /// The class of its group, if it is that which says so; else a member does.
        class: Option<String>,
    },
    /// It would not be placed if all went who may.
    Unplaceable(Box<Refusal>),
    /// Nobody may go.
    Nobody(Box<Kept>),
    /// The same, and some who might go are being bound: it may be otherwise as soon as they are.
    Soon(Box<NotTaken>),
    /// There are some who may go, but not enough of them together.
    NotEnough {
        /// What keeps the others.
        limits: BTreeSet<Limit>,
        /// Why it is not placed when those are gone who come first.
        refusal: Box<Refusal>,
        /// Whether every choice was tried; if not there may be one that would do (R12).
        every: bool,
    },
}

/// Why others were no candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The nearest queue of its own that would use more than its share (R1).
    pub share: Option<OverShare>,
    /// How many pods, in queues that owe, have too high a priority.
    pub higher: u32,
    /// How many of them are not preemptable.
    pub stay: u32,
    /// How many are just being bound.
    pub binding: u32,
    /// How many are under a budget that lets nobody go.
    pub budget: u32,
    /// How many are there whose eviction was refused a moment ago.
    pub refused: u32,
}

/// A queue that would use more than its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverShare {
    /// The queue.
    pub queue: Arc<str>,
    /// The first dimension, by name, in which it would.
    pub dimension: ResourceName,
    /// What is asked for.
    pub asked: Amount,
    /// What it uses.
    pub used: Amount,
    /// Its share.
    pub share: Amount,
}

/// What keeps one from going after others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Its queue would no longer be over its share (R2).
    Share,
    /// Its queue would fall below its floor (R3).
    Floor,
    /// Its gang needs it (R6).
    Gang,
    /// Its budget lets no more go (R9).
    Budget,
}

impl NotTaken {
    /// Whether this is news to somebody who knows what is in his way.
    pub(in crate::cycle) fn says_something(&self) -> bool {
        match self {
            Self::Unplaceable(_) => false,
            Self::Nobody(kept) => **kept != Kept::default(),
            Self::Soon(now) => now.says_something(),
            Self::Never { .. } | Self::NotEnough { .. } => true,
        }
    }

    /// How many members were placed, with those gone who might go, before one was not.
    pub(in crate::cycle) fn placed_before(&self) -> Option<usize> {
        match self {
            Self::Unplaceable(refusal) | Self::NotEnough { refusal, .. } => {
                if let Refusal::Nodes { placed, .. } = **refusal {
                    usize::try_from(placed).ok()
                } else {
                    None
                }
            }
            Self::Soon(now) => now.placed_before(),
            Self::Never { .. } | Self::Nobody(_) => None,
        }
    }

    /// Whether it may be otherwise as soon as some binds have ended.
    pub(in crate::cycle) const fn is_soon(&self) -> bool {
        matches!(self, Self::Soon(_))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Share => "no other queue would exceed its share",
            Self::Floor => "a queue would fall below its guarantee",
            Self::Gang => "a gang would fall below its minimum",
            Self::Budget => "a PodDisruptionBudget allows no more disruptions",
        })
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.higher, "of too high a priority"),
            (self.stay, "not preemptable"),
            (self.binding, "being bound"),
            (self.budget, "protected by a PodDisruptionBudget"),
            (self.refused, "whose eviction was refused"),
        ];
        let mut said = false;
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{}{count} {what}", if said { ", " } else { "" })?;
            said = true;
        }
        match &self.share {
            Some(over) => {
                let [asked, used, share] =
                    [over.asked, over.used, over.share].map(|amount| quantity::format(amount, over.dimension.style()));
                let comma = if said { ", " } else { "" };
                write!(
                    f,
                    "{comma}queue \"{}\" would exceed its share ({} requested {asked}, used {used}, share {share})",
                    over.queue, over.dimension
                )
            }
            None if said => Ok(()),
            None => f.write_str("no queue is over its share"),
        }
    }
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never { class: Some(class) } => {
                write!(f, "no pod is preempted: priority class \"{class}\" has preemptionPolicy: {PREEMPTS_NEVER}")
            }
            Self::Never { class: None } => write!(f, "no pod is preempted: a member has preemptionPolicy: {PREEMPTS_NEVER}"),
            Self::Unplaceable(refusal) => write!(f, "preemption would not help: {refusal}"),
            Self::Nobody(kept) => write!(f, "no pod can be preempted: {kept}"),
            Self::Soon(now) => now.fmt(f),
            Self::NotEnough { limits, refusal, every } => {
                f.write_str(if *every { "too few pods can be preempted" } else { "no set of pods to preempt was found" })?;
                for (at, limit) in limits.iter().enumerate() {
                    write!(f, "{}{limit}", if at == 0 { " (" } else { ", " })?;
                }
                write!(f, "{}: {refusal}", if limits.is_empty() { "" } else { ")" })
            }
        }
    }
}
