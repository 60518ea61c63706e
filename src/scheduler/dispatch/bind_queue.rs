//! The order in which bindings are sent; fences of pods ([`super::fence`]) have the same order in a queue of their own.
//!
//! A namespace gets a lane when one of its bindings had no answer (for example, its webhook is down). New bindings and retries of the
//! namespace wait in its lane, and **a waiting binding holds no slot**.
//!
//! * All lanes together have half of the slots, and one lane has an eighth.
//! * Lanes and other namespaces alternate, so one namespace does not delay another.
//! * A lane ends when its last unanswered binding is answered.
//!
//! ```text
//!              the namespace has no lane
//!  decided ─┬─────────────────────────▶ fresh ──╮ alternate         answered
//!           │ it has a lane                     ├────────▶ sent ─┬─────────▶ (over)
//!           ╰─────────────────────────▶ lane ───╯                │ not answered
//!                                        ▲                       │
//!                                        ╰──── after a delay ────╯
//! ```
//!
//! Pure: the time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;

use crate::cycle::plan::Bind;

/// The parts of all slots that all lanes together, and one lane, may have.
const LANES: usize = 2;
const LANE: usize = 8;

/// A binding and its attempts so far.
#[derive(Clone, Debug)]
pub(super) struct BindAttempt {
    pub(super) bind: Bind,
    pub(super) tries: Tries,
    /// The time and the reason of the first request without a final answer.
    pub(super) since: Option<(Instant, &'static str)>,
    /// The time of the last request with an unknown outcome.
    pub(super) open: Option<Instant>,
    /// The number of requests without success while the API server answered the reads.
    pub(super) alone: u32,
    /// The number of answers 409.
    pub(super) conflicts: u32,
    /// Whether the unknown outcome was reported.
    pub(super) reported: bool,
}

/// A request for a pod, and its attempts so far.
pub(super) trait Attempt {
    /// Returns the namespace of the pod.
    fn namespace(&self) -> &Arc<str>;
    /// Returns what was sent so far.
    fn tries(&self) -> &Tries;
    /// Returns what was sent so far, to record more.
    fn tries_mut(&mut self) -> &mut Tries;
    /// Returns whether a request that was sent may still take effect.
    fn may_take_effect(&self) -> bool {
        self.tries().failures > 0
    }
}

/// What was sent so far of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    /// The number of requests without a final answer.
    pub(super) failures: u32,
    /// Whether the last one was sent from a lane.
    pub(super) from_lane: bool,
}

impl Tries {
    /// Records a request without a final answer.
    pub(super) fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }
}

impl Attempt for BindAttempt {
    fn namespace(&self) -> &Arc<str> {
        &self.bind.namespace
    }

    fn tries(&self) -> &Tries {
        &self.tries
    }

    fn tries_mut(&mut self) -> &mut Tries {
        &mut self.tries
    }

    fn may_take_effect(&self) -> bool {
        self.open.is_some()
    }
}

/// The bindings to be sent.
pub(super) type BindQueue = LaneQueue<BindAttempt>;

/// The requests to be sent.
#[derive(Debug)]
pub(super) struct LaneQueue<A> {
    most: usize,
    fresh: VecDeque<A>,
    lanes: BTreeMap<Arc<str>, Lane<A>>,
    /// The numbers of bindings under way, outside and from lanes.
    sent: usize,
    sent_from_lanes: usize,
    /// Whether a lane has the next turn, and which lane had the last one.
    lane_is_next: bool,
    last: Option<Arc<str>>,
    /// The number of bindings that have waited in lanes so far.
    came: u64,
}

#[derive(Debug)]
struct Lane<A> {
    /// The waiting bindings, by the time when they may be sent, then by arrival.
    waits: BTreeMap<(Instant, u64), A>,
    sent: usize,
    /// The number of unanswered bindings.
    unanswered: usize,
}

impl<A> Default for Lane<A> {
    fn default() -> Self {
        Self { waits: BTreeMap::new(), sent: 0, unanswered: 0 }
    }
}

impl BindQueue {
    /// Adds a new binding.
    pub(super) fn push(&mut self, bind: Bind, now: Instant) {
        self.add(BindAttempt { bind, tries: Tries::default(), since: None, open: None, alone: 0, conflicts: 0, reported: false }, now);
    }
}

impl<A: Attempt> LaneQueue<A> {
    /// Creates an empty queue with `most` slots.
    pub(super) fn new(most: usize) -> Self {
        Self { most, fresh: VecDeque::new(), lanes: BTreeMap::new(), sent: 0, sent_from_lanes: 0, lane_is_next: false, last: None, came: 0 }
    }

    /// Adds a new request.
    pub(super) fn add(&mut self, attempt: A, now: Instant) {
        self.wait(attempt, now);
    }

    /// Drops the requests that cannot take effect: they were never sent, or each was refused.
    pub(super) fn drop_without_effect(&mut self) {
        self.fresh.retain(Attempt::may_take_effect);
        self.lanes.values_mut().for_each(|lane| lane.waits.retain(|_, attempt| attempt.may_take_effect()));
    }

    /// Returns the number of requests that are under way, or wait and may still take effect.
    pub(super) fn unknown_outcomes(&self) -> usize {
        let waiting = self.lanes.values().flat_map(|lane| lane.waits.values()).chain(&self.fresh);
        waiting.filter(|attempt| attempt.may_take_effect()).count().saturating_add(self.sent).saturating_add(self.sent_from_lanes)
    }

    fn wait(&mut self, attempt: A, at: Instant) {
        let Some(lane) = self.lanes.get_mut(attempt.namespace()) else { return self.fresh.push_back(attempt) };
        lane.waits.insert((at, self.came), attempt);
        self.came = self.came.saturating_add(1);
    }

    /// Takes the next binding to send. It is under way until [`ended`](Self::ended) or [`rests`](Self::rests).
    pub(super) fn take(&mut self, now: Instant) -> Option<A> {
        if self.sent.saturating_add(self.sent_from_lanes) >= self.most {
            return None;
        }
        let first = if self.lane_is_next { self.take_from_lane(now) } else { None };
        // `take_fresh` may have moved bindings into a lane.
        let taken = first.or_else(|| self.take_fresh(now)).or_else(|| self.take_from_lane(now))?;
        self.lane_is_next = !taken.tries().from_lane;
        Some(taken)
    }

    fn take_fresh(&mut self, now: Instant) -> Option<A> {
        while let Some(mut attempt) = self.fresh.pop_front() {
            if self.lanes.contains_key(attempt.namespace()) {
                // The namespace has got a lane since.
                self.wait(attempt, now);
            } else {
                self.sent = self.sent.saturating_add(1);
                attempt.tries_mut().from_lane = false;
                return Some(attempt);
            }
        }
        None
    }

    fn take_from_lane(&mut self, now: Instant) -> Option<A> {
        if self.sent_from_lanes >= part(self.most, LANES) {
            return None;
        }
        let most = part(self.most, LANE);
        let ready =
            |(_, lane): &(&Arc<str>, &Lane<A>)| lane.sent < most && lane.waits.first_key_value().is_some_and(|((at, _), _)| *at <= now);
        let after = match &self.last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let name = self.lanes.range(after).chain(&self.lanes).find(ready).map(|(name, _)| Arc::clone(name))?;
        let lane = self.lanes.get_mut(&name)?;
        let (_, mut attempt) = lane.waits.pop_first()?;
        lane.sent = lane.sent.saturating_add(1);
        self.sent_from_lanes = self.sent_from_lanes.saturating_add(1);
        self.last = Some(name);
        attempt.tries_mut().from_lane = true;
        Some(attempt)
    }

    /// Returns when a binding in back-off may be sent; `None` if no slot is free for it.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.sent.saturating_add(self.sent_from_lanes) >= self.most || self.sent_from_lanes >= part(self.most, LANES) {
            return None;
        }
        let lanes = self.lanes.values().filter(|lane| lane.sent < part(self.most, LANE));
        lanes.filter_map(|lane| lane.waits.first_key_value().map(|((at, _), _)| *at)).min()
    }

    /// Ends a binding that was answered. `taken` is the attempt from [`take`](Self::take).
    pub(super) fn ended(&mut self, taken: &A) {
        self.free(taken);
        let namespace = taken.namespace();
        let Some(lane) = self.lanes.get_mut(namespace) else { return };
        if taken.tries().failures > 0 {
            lane.unanswered = lane.unanswered.saturating_sub(1);
        }
        if lane.unanswered == 0
            && let Some(lane) = self.lanes.remove(namespace)
        {
            self.fresh.extend(lane.waits.into_values());
        }
    }

    /// Puts a binding without an answer back, to be sent from `until` on.
    pub(super) fn rests(&mut self, taken: &A, attempt: A, until: Instant) {
        self.free(taken);
        let lane = self.lanes.entry(Arc::clone(taken.namespace())).or_default();
        if taken.tries().failures == 0 {
            lane.unanswered = lane.unanswered.saturating_add(1);
        }
        self.wait(attempt, until);
    }

    fn free(&mut self, taken: &A) {
        if !taken.tries().from_lane {
            self.sent = self.sent.saturating_sub(1);
            return;
        }
        self.sent_from_lanes = self.sent_from_lanes.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(taken.namespace()) {
            lane.sent = lane.sent.saturating_sub(1);
        }
    }
}

/// Returns a part of the slots, at least one.
fn part(most: usize, of: usize) -> usize {
    most.checked_div(of).unwrap_or(most).max(1)
}

#[cfg(test)]
#[path = "bind_queue_tests.rs"]
pub(super) mod tests;
