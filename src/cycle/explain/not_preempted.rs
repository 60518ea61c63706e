//! Why is no pod preempted for a PodGroup?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::api::names::PREEMPTS_NEVER;
use crate::resources::{Amount, ResourceName, quantity};

use super::Refusal;

/// The reason why no pod is preempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPreempted {
    /// The PodGroup never preempts (R1c).
    Never {
        /// Its priority class, if the class says so; none where a member does.
        class: Option<String>,
    },
    /// It would not be placed without all candidates.
    Unplaceable(Box<Refusal>),
    /// There are no candidates.
    NoCandidates(Box<Excluded>),
    /// No pod is preempted for this reason now, but pods that are being bound may be preempted afterwards.
    Soon(Box<NotPreempted>),
    /// There are candidates, but no allowed set of them is enough.
    NotEnough {
        /// The rules that excluded further candidates.
        limits: BTreeSet<Limit>,
        /// Why it is not placed without the first candidates in order.
        refusal: Box<Refusal>,
        /// Whether every set was tried; if not, one may exist that is enough (R5b).
        every: bool,
    },
    /// It fits as soon as the terminating pods are gone, so none is preempted in addition.
    Terminating {
        /// The first of them by name on one of the nodes that it would use: `namespace/name`.
        pod: String,
        /// The node of that pod.
        node: Arc<str>,
    },
}

/// Why other pods were no candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excluded {
    /// A queue that is over its share in what the PodGroup lacks, and is not reclaimable (R2). Other rules may protect its pods as well.
    pub not_reclaimable: Option<Arc<str>>,
    /// The nearest of its own queues that would exceed its share (R1).
    pub share: Option<OverShare>,
    /// The number of pods with too high a priority, in queues over their shares.
    pub higher: u32,
    /// The number of pods that are not preemptable.
    pub not_preemptable: u32,
    /// The number of pods that are being bound.
    pub binding: u32,
    /// The number of pods under a budget that allows no eviction.
    pub budget: u32,
    /// The number of pods in eviction back-off.
    pub refused: u32,
}

/// A queue that would exceed its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverShare {
    /// The queue.
    pub queue: Arc<str>,
    /// The first resource, by name, in which it would.
    pub dimension: ResourceName,
    /// The request.
    pub asked: Amount,
    /// The present use.
    pub used: Amount,
    /// Its share.
    pub share: Amount,
}

/// A rule that excludes a candidate after the earlier victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Its queue would no longer be over its share (R2).
    Share,
    /// Its queue would fall below its floor (R2b).
    Floor,
    /// Its gang needs it (R4).
    Gang,
    /// Its budget allows no more evictions (R6).
    Budget,
}

impl NotPreempted {
    /// Whether this adds information to the refusal of the PodGroup.
    pub(in crate::cycle) fn says_something(&self) -> bool {
        match self {
            Self::Unplaceable(_) => false,
            Self::NoCandidates(excluded) => **excluded != Excluded::default(),
            Self::Soon(now) => now.says_something(),
            Self::Never { .. } | Self::NotEnough { .. } | Self::Terminating { .. } => true,
        }
    }

    /// Whether the queue of the PodGroup is owed its share, and something protects the pods that use it. A PodGroup that its quota refuses
    /// does not say this otherwise.
    pub(in crate::cycle) fn protects_what_is_owed(&self, queue: &str) -> bool {
        match self {
            Self::NoCandidates(excluded) => {
                let owed = excluded.share.as_ref().is_none_or(|over| *over.queue != *queue);
                owed && Excluded { share: None, ..(**excluded).clone() } != Excluded::default()
            }
            Self::Soon(now) => now.protects_what_is_owed(queue),
            Self::NotEnough { limits, .. } => !limits.is_empty(),
            Self::Never { .. } | Self::Unplaceable(_) | Self::Terminating { .. } => false,
        }
    }

    /// Returns the number of members that were placed without the candidates before one was not.
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
            Self::Never { .. } | Self::NoCandidates(_) | Self::Terminating { .. } => None,
        }
    }

    /// Whether the outcome may change as soon as some binds have ended.
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

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.higher, "of too high a priority"),
            (self.not_preemptable, "not preemptable"),
            (self.binding, "being bound"),
            (self.budget, "protected by a PodDisruptionBudget"),
            (self.refused, "whose eviction was refused"),
        ];
        let mut said = false;
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{}{count} {what}", if said { ", " } else { "" })?;
            said = true;
        }
        if let Some(queue) = &self.not_reclaimable {
            write!(f, "{}queue \"{queue}\" is over its share and not reclaimable", if said { ", " } else { "" })?;
            said = true;
        }
        match &self.share {
            Some(over) => {
                let [asked, used, share] =
                    [over.asked, over.used, over.share].map(|amount| quantity::shown(amount, over.dimension.style()));
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

impl fmt::Display for NotPreempted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never { class: Some(class) } => {
                write!(f, "no pod is preempted: priority class \"{class}\" has preemptionPolicy: {PREEMPTS_NEVER}")
            }
            Self::Never { class: None } => write!(f, "no pod is preempted: a member has preemptionPolicy: {PREEMPTS_NEVER}"),
            Self::Unplaceable(refusal) => write!(f, "preemption would not help: {refusal}"),
            Self::NoCandidates(excluded) => write!(f, "no pod can be preempted: {excluded}"),
            Self::Soon(now) => now.fmt(f),
            Self::Terminating { pod, node } => {
                write!(
                    f,
                    "no further pod is preempted: there is room when the terminating pods are gone, the first is {pod} on node \"{node}\""
                )
            }
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
