//! Which pods name nearly a scheduler that is served, and nobody takes them?
//!
//! podgroup-controller tells it of owners of pods. It does not see a pod without an owner that names another scheduler; this program sees every
//! pod. Each leader tells it once, as an Event whose name is the same for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::misspelt::misspelt_scheduler;
use crate::api::{PodFacts, Uid};

use super::command::Command;
use super::state::Now;

/// How long a scheduler of another release has to take a pod, or to say why it does not.
const GRACE: Duration = Duration::from_secs(5);

/// The time between two Events.
const BETWEEN: Duration = Duration::from_millis(100);

/// The most pods that are remembered. Of more nothing is told: their author reads it of the others.
const MOST: usize = 1_000;

/// A pod that names nearly a scheduler that is served.
#[derive(Debug)]
struct Slip {
    namespace: Arc<str>,
    name: Arc<str>,
    message: String,
    /// When it is told; none before the first [`Slips::due`].
    due: Option<Duration>,
}

/// The pods that name nearly a scheduler that is served.
#[derive(Debug, Default)]
pub(super) struct Slips {
    waiting: BTreeMap<Uid, Slip>,
    told: BTreeSet<Uid>,
    /// When the next one may be told.
    not_before: Duration,
}

impl Slips {
    /// Takes in a pod as it is now. `served` are the names of our schedulers.
    pub(super) fn seen<'a>(&mut self, pod: &PodFacts, served: impl Iterator<Item = &'a str> + Clone) {
        // A scheduling gate is told by the API server.
        let is_told = pod.scheduled_condition.as_ref().is_some_and(|told| told.reason.as_deref() != Some("SchedulingGated"));
        let waits = pod.node.is_none() && !pod.deleting && !pod.phase.ended() && !is_told;
        let fault = (pod.asks_alone && waits).then(|| misspelt_scheduler("spec.schedulerName", &pod.scheduler, served)).flatten();
        let Some(fault) = fault else { return self.gone(&pod.uid) };
        if self.waiting.len().saturating_add(self.told.len()) >= MOST || self.told.contains(&pod.uid) {
            return;
        }
        let (namespace, name) = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let slip = || Slip { namespace, name, message: fault.to_string(), due: None };
        self.waiting.entry(pod.uid.clone()).or_insert_with(slip);
    }

    /// The pod is gone.
    pub(super) fn gone(&mut self, uid: &Uid) {
        self.waiting.remove(uid);
        self.told.remove(uid);
    }

    /// Returns the Event that is due; none where none is.
    pub(super) fn due(&mut self, now: Now) -> Option<Command> {
        let at = now.since_start;
        for slip in self.waiting.values_mut() {
            slip.due.get_or_insert(at.saturating_add(GRACE));
        }
        let is_due = |slip: &Slip| slip.due.is_some_and(|due| due <= at);
        let uid = self.waiting.iter().find(|(_, slip)| is_due(slip)).map(|(uid, _)| uid.clone()).filter(|_| self.not_before <= at)?;
        let Slip { namespace, name, message, .. } = self.waiting.remove(&uid)?;
        self.told.insert(uid.clone());
        self.not_before = at.saturating_add(BETWEEN);
        Some(Command::MisnamedPod { namespace, name, uid, message, now: now.wall })
    }

    /// When [`due`](Self::due) has to be asked again without an event; none where nothing is left to tell.
    pub(super) fn next(&self) -> Option<Duration> {
        let first = self.waiting.values().filter_map(|slip| slip.due).min();
        first.map(|due| due.max(self.not_before))
    }
}

#[cfg(test)]
#[path = "slips_tests.rs"]
mod tests;
