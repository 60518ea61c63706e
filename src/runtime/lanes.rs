//! Which job may have one of a few slots, so that the slow requests of one namespace do not stop those of the others?
//!
//! Each job belongs to one lane or to several, which are namespaces. A lane is slow while a job of it takes longer than expected, and
//! afterwards until a job of it ends in time, but for [`SLOW_FOR`] at most: one of its webhooks may hang.
//!
//! * One lane never has all slots ([`Slots::lane`]): the rest is there for others before it is known to be slow.
//! * A slow lane has few ([`Slots::slow_lane`]), and all slow lanes together have a part ([`Slots::slow`]).
//!
//! Pure: the time is an argument. It knows only jobs that have a slot; the caller knows the waiting ones.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How long a lane counts as slow after a slow job, when no other job of it ends.
const SLOW_FOR: Duration = Duration::from_secs(30);

/// How many slots there are. Every number is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// All slots.
    pub all: usize,
    /// Those that one lane may have.
    pub lane: usize,
    /// Those that one slow lane may have.
    pub slow_lane: usize,
    /// Those that all slow lanes together may have.
    pub slow: usize,
}

impl Slots {
    /// No limits.
    pub const UNLIMITED: Self = Self { all: usize::MAX, lane: usize::MAX, slow_lane: usize::MAX, slow: usize::MAX };

    /// Returns `all` slots: three quarters of them for one lane, an eighth for a slow one, and half for all slow ones.
    #[must_use]
    pub const fn of(all: usize) -> Self {
        const fn part(all: usize, of: usize) -> usize {
            if all < of { 1 } else { all / of }
        }
        let all = if all == 0 { 1 } else { all };
        Self { all, lane: all.saturating_sub(all / 4), slow_lane: part(all, 8), slow: part(all, 2) }
    }
}

/// A job that has a slot.
#[derive(Debug)]
struct Running<T> {
    lanes: Vec<Arc<str>>,
    /// When it takes longer than expected.
    late: T,
}

/// The slots in use. `T` is a point in time: an [`Instant`], or the time since the start of the program.
#[derive(Debug)]
pub struct Lanes<J, T = Instant> {
    slots: Slots,
    running: BTreeMap<J, Running<T>>,
    /// The number of running jobs of each lane that has any.
    counts: BTreeMap<Arc<str>, usize>,
    /// The lanes that had a slow last job, each with the time until which it counts as slow.
    slow: BTreeMap<Arc<str>, T>,
}

impl<J: Ord, T: Copy + Ord + Add<Duration, Output = T>> Lanes<J, T> {
    /// Returns free slots.
    #[must_use]
    pub const fn new(slots: Slots) -> Self {
        Self { slots, running: BTreeMap::new(), counts: BTreeMap::new(), slow: BTreeMap::new() }
    }

    /// Whether every slot is in use.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.running.len() >= self.slots.all
    }

    /// Whether a job of these lanes may have a slot.
    #[must_use]
    pub fn has_room(&self, lanes: &[Arc<str>], now: T) -> bool {
        let in_use = |lane: &Arc<str>| self.counts.get(lane).copied().unwrap_or_default();
        let is_slow = |lane: &&Arc<str>| self.is_slow(lane, now);
        let is_below = |lane: &Arc<str>| in_use(lane) < if is_slow(&lane) { self.slots.slow_lane } else { self.slots.lane };
        // Only a lane with a limit of its own is worth the search for slow jobs.
        !self.is_full() && lanes.iter().all(is_below) && (!lanes.iter().any(|lane| is_slow(&lane)) || self.slow_jobs(now) < self.slots.slow)
    }

    /// Gives a job a slot. From `late` on it takes longer than expected.
    pub fn start(&mut self, job: J, lanes: Vec<Arc<str>>, late: T) {
        for lane in &lanes {
            let count = self.counts.entry(Arc::clone(lane)).or_default();
            *count = count.saturating_add(1);
        }
        self.running.insert(job, Running { lanes, late });
    }

    /// Frees the slot of a job. Does nothing for a job that has none.
    pub fn end(&mut self, job: &J, now: T) {
        let Some(ended) = self.running.remove(job) else { return };
        self.slow.retain(|_, until| *until > now);
        for lane in ended.lanes {
            let left = self.counts.get(&lane).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                self.counts.remove(&lane);
            } else {
                self.counts.insert(Arc::clone(&lane), left);
            }
            if ended.late <= now {
                self.slow.insert(lane, now + SLOW_FOR);
            } else {
                self.slow.remove(&lane);
            }
        }
    }

    fn is_slow(&self, lane: &Arc<str>, now: T) -> bool {
        self.slow.get(lane).is_some_and(|until| *until > now)
            || self.counts.contains_key(lane) && self.running.values().any(|job| job.late <= now && job.lanes.contains(lane))
    }

    /// Returns the number of running jobs with a slow lane.
    fn slow_jobs(&self, now: T) -> usize {
        self.running.values().filter(|job| job.lanes.iter().any(|lane| self.is_slow(lane, now))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    const LATE: Duration = Duration::from_secs(2);

    /// Starts as many jobs of a lane as have room, at most 100. Returns how many there are.
    fn fill(lanes: &mut Lanes<(String, usize)>, lane: &str, now: Instant) -> usize {
        let name: Arc<str> = Arc::from(lane);
        (0..100)
            .take_while(|number| {
                let room = lanes.has_room(&[Arc::clone(&name)], now);
                if room {
                    lanes.start((lane.to_owned(), *number), vec![Arc::clone(&name)], now + LATE);
                }
                room
            })
            .count()
    }

    #[test]
    fn one_lane_never_has_all_slots_and_a_slow_one_has_few() {
        let (mut lanes, begin) = (Lanes::new(Slots::of(16)), clock::monotonic());
        assert_eq!(fill(&mut lanes, "a", begin), 12);
        assert_eq!(fill(&mut lanes, "b", begin), 4, "the rest is there for others");
        (0..4).for_each(|number| lanes.end(&("b".to_owned(), number), begin));
        let later = begin + LATE;
        (0..11).for_each(|number| lanes.end(&("a".to_owned(), number), later));
        assert_eq!(fill(&mut lanes, "a", later), 1, "it is slow: two of sixteen, and one is under way");
        assert_eq!(fill(&mut lanes, "b", later), 12);
    }

    #[test]
    fn all_slow_lanes_together_have_half_of_the_slots() {
        let (mut lanes, begin) = (Lanes::new(Slots::of(16)), clock::monotonic());
        let names: Vec<String> = (0..8).map(|number| format!("slow-{number}")).collect();
        for name in &names {
            lanes.start((name.clone(), 0), vec![Arc::from(name.as_str())], begin + LATE);
        }
        let later = begin + LATE;
        assert_eq!(names.iter().map(|name| fill(&mut lanes, name, later)).sum::<usize>(), 0);
        assert_eq!(fill(&mut lanes, "other", later), 8);
    }

    #[test]
    fn a_lane_is_slow_until_a_job_of_it_ends_in_time_or_for_a_while() {
        let (mut lanes, begin) = (Lanes::new(Slots::of(16)), clock::monotonic());
        let lane: Arc<str> = Arc::from("a");
        lanes.start(("x".to_owned(), 0), vec![Arc::clone(&lane)], begin + LATE);
        let later = begin + LATE;
        lanes.end(&("x".to_owned(), 0), later);
        assert!(lanes.is_slow(&lane, later) && !lanes.is_slow(&lane, later + SLOW_FOR));
        lanes.start(("x".to_owned(), 1), vec![Arc::clone(&lane)], later + LATE);
        lanes.end(&("x".to_owned(), 1), later);
        assert!(!lanes.is_slow(&lane, later));
        assert!(lanes.counts.is_empty() && lanes.running.is_empty() && lanes.slow.is_empty(), "it remembers nothing");
    }

    #[test]
    fn a_job_of_two_lanes_needs_room_in_both() {
        let (mut lanes, begin) = (Lanes::new(Slots::of(4)), clock::monotonic());
        assert_eq!(fill(&mut lanes, "a", begin), 3);
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        assert!(!lanes.has_room(&[Arc::clone(&a), Arc::clone(&b)], begin));
        assert!(lanes.has_room(&[b], begin));
    }

    #[test]
    fn every_number_of_slots_lets_every_lane_go_on() {
        for all in 0..70 {
            let slots = Slots::of(all);
            let numbers = [slots.all, slots.lane, slots.slow_lane, slots.slow];
            assert!(numbers.iter().all(|number| (1..=all.max(1)).contains(number)), "{slots:?}");
            assert!(all < 4 || slots.lane < all, "{slots:?}");
        }
    }
}
