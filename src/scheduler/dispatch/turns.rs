//! Whose binding is sent next?
//!
//! A namespace in which a binding was sent and not answered (a webhook of its own that is down, say) has a lane. What is to be bound there waits in it, and so does what is sent
//! again, for as long as it rests: **who waits holds no slot**. All lanes together have half of the slots, one has few of them, and lanes and all others take turns, so that
//! nobody's trouble holds up anybody else. When the last one there is answered, the lane ends.
//!
//! ```text
//!              the namespace answers
//!  decided ─┬─────────────────────────▶ fresh ──╮ in turn           answered
//!           │ it has a lane                     ├────────▶ sent ─┬─────────▶ (over)
//!           ╰─────────────────────────▶ lane ───╯                │ not answered
//!                                        ▲                       │
//!                                        ╰────── after a rest ───╯
//! ```
//!
//! Pure: the time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;

use crate::cycle::plan::Bind;

/// Which part of all slots lanes may have together, and one of them.
const LANES: usize = 2;
const LANE: usize = 8;

/// A binding, and what became of it so far.
#[derive(Clone, Debug)]
pub(super) struct Try {
    pub(super) bind: Bind,
    /// How often it had no answer that ends it.
    pub(super) failures: u32,
    /// Since when it is so, and why, of a bounded set.
    pub(super) since: Option<(Instant, &'static str)>,
    /// When it was last sent with an unknown outcome.
    pub(super) open: Option<Instant>,
    /// How often it was sent in vain while the API server answered everything else.
    pub(super) alone: u32,
    /// Whether it was told that its outcome is open.
    pub(super) told: bool,
    /// Whether it was sent from a lane.
    in_lane: bool,
}

/// All that is to be bound.
#[derive(Debug)]
pub(super) struct Turns {
    most: usize,
    fresh: VecDeque<Try>,
    lanes: BTreeMap<Arc<str>, Lane>,
    /// How many of each are under way.
    sent: usize,
    sent_from_lanes: usize,
    /// Whether a lane has the next turn, and which had the last one.
    lane_is_next: bool,
    last: Option<Arc<str>>,
    /// How many have waited in lanes so far.
    came: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// By when they may be sent, and in the order in which they came.
    waits: BTreeMap<(Instant, u64), Try>,
    sent: usize,
    /// How many have not been answered so far.
    unanswered: usize,
}

impl Turns {
    /// At most so many are under way at the same time.
    pub(super) fn new(most: usize) -> Self {
        Self { most, fresh: VecDeque::new(), lanes: BTreeMap::new(), sent: 0, sent_from_lanes: 0, lane_is_next: false, last: None, came: 0 }
    }

    /// It was decided.
    pub(super) fn push(&mut self, bind: Bind, now: Instant) {
        self.wait(Try { bind, failures: 0, since: None, open: None, alone: 0, told: false, in_lane: false }, now);
    }

    fn wait(&mut self, tried: Try, at: Instant) {
        let Some(lane) = self.lanes.get_mut(&tried.bind.namespace) else { return self.fresh.push_back(tried) };
        lane.waits.insert((at, self.came), tried);
        self.came = self.came.saturating_add(1);
    }

    /// The next that is sent now; it is under way until [`ended`](Self::ended) or [`rests`](Self::rests).
    pub(super) fn take(&mut self, now: Instant) -> Option<Try> {
        if self.sent.saturating_add(self.sent_from_lanes) >= self.most {
            return None;
        }
        let first = if self.lane_is_next { self.take_from_lane(now) } else { None };
        // Of those that were decided some may have gone into a lane by that.
        let taken = first.or_else(|| self.take_fresh(now)).or_else(|| self.take_from_lane(now))?;
        self.lane_is_next = !taken.in_lane;
        Some(taken)
    }

    fn take_fresh(&mut self, now: Instant) -> Option<Try> {
        while let Some(tried) = self.fresh.pop_front() {
            if self.lanes.contains_key(&tried.bind.namespace) {
                // Its namespace got a lane since.
                self.wait(tried, now);
            } else {
                self.sent = self.sent.saturating_add(1);
                return Some(Try { in_lane: false, ..tried });
            }
        }
        None
    }

    fn take_from_lane(&mut self, now: Instant) -> Option<Try> {
        if self.sent_from_lanes >= part(self.most, LANES) {
            return None;
        }
        let most = part(self.most, LANE);
        let ready =
            |(_, lane): &(&Arc<str>, &Lane)| lane.sent < most && lane.waits.first_key_value().is_some_and(|((at, _), _)| *at <= now);
        let after = match &self.last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let name = self.lanes.range(after).chain(&self.lanes).find(ready).map(|(name, _)| Arc::clone(name))?;
        let lane = self.lanes.get_mut(&name)?;
        let (_, tried) = lane.waits.pop_first()?;
        lane.sent = lane.sent.saturating_add(1);
        self.sent_from_lanes = self.sent_from_lanes.saturating_add(1);
        self.last = Some(name);
        Some(Try { in_lane: true, ..tried })
    }

    /// When somebody may be sent who rests now; none where there is no slot for him before another ends.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.sent.saturating_add(self.sent_from_lanes) >= self.most || self.sent_from_lanes >= part(self.most, LANES) {
            return None;
        }
        let lanes = self.lanes.values().filter(|lane| lane.sent < part(self.most, LANE));
        lanes.filter_map(|lane| lane.waits.first_key_value().map(|((at, _), _)| *at)).min()
    }

    /// It was answered, as it was when it was taken.
    pub(super) fn ended(&mut self, taken: &Try) {
        self.free(taken);
        let namespace = &taken.bind.namespace;
        let Some(lane) = self.lanes.get_mut(namespace) else { return };
        if taken.failures > 0 {
            lane.unanswered = lane.unanswered.saturating_sub(1);
        }
        if lane.unanswered == 0
            && let Some(lane) = self.lanes.remove(namespace)
        {
            self.fresh.extend(lane.waits.into_values());
        }
    }

    /// It had no answer, and may be sent again from then on.
    pub(super) fn rests(&mut self, taken: &Try, tried: Try, until: Instant) {
        self.free(taken);
        let lane = self.lanes.entry(Arc::clone(&taken.bind.namespace)).or_default();
        if taken.failures == 0 {
            lane.unanswered = lane.unanswered.saturating_add(1);
        }
        self.wait(tried, until);
    }

    fn free(&mut self, taken: &Try) {
        if !taken.in_lane {
            self.sent = self.sent.saturating_sub(1);
            return;
        }
        self.sent_from_lanes = self.sent_from_lanes.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&taken.bind.namespace) {
            lane.sent = lane.sent.saturating_sub(1);
        }
    }
}

/// A part of the slots, at least one.
fn part(most: usize, of: usize) -> usize {
    most.checked_div(of).unwrap_or(most).max(1)
}

#[cfg(test)]
#[path = "turns_tests.rs"]
pub(super) mod tests;
