//! How old is what a watch has delivered, and what must be done about it?
//!
//! A watch that speaks may still be old. An API server that is cut off from etcd goes on with what it knows, and repeats a bookmark with
//! the same version every minute. So the age does not count from when the watch was heard of, but from the last time at which the cluster
//! had not passed its version ([`Timeline`]).
//!
//! * A bookmark says how far the API server has followed etcd. Where nothing changes in a kind, it follows only when it is asked, or when
//!   etcd notifies it of progress, which not every etcd does. So the kind is asked for its version shortly before each bookmark
//!   ([`Freshness::asks_at`]): a list with a limit of 1 passes etcd, and the bookmark after it is new. The API server sends the last
//!   bookmark of a watch just before it ends it, and the first one of the next watch a minute later. So the version is asked for before the
//!   last one as well.
//! * A watch that stays old is dead, and its objects are listed again. That fails at an API server that is cut off.
//!
//! Pure: time is an argument, from the clock that runs while the machine is suspended.

use std::time::Duration;

use tokio::time::Instant;

use super::timeline::Timeline;

/// When the version is asked for, after a watch was opened or sent a bookmark. The next bookmark comes after 60 s, and must not come before
/// the answer.
const ASKED_AFTER: Duration = Duration::from_secs(55);

/// The version is asked for this long before the API server ends the watch. It sends the last bookmark 2 s before the end.
const ASKED_BEFORE_END: Duration = Duration::from_secs(7);

/// A healthy API server is heard of once in this time. A watch that died without that was silent.
const SPEAKS: Duration = Duration::from_secs(62);

/// The least progress that the receiver is told of. It bounds the number of messages.
const STEP: Duration = Duration::from_secs(1);

/// What is known of the age of one watch.
#[derive(Debug)]
pub(super) struct Freshness {
    timeline: Timeline,
    /// The version that the watch has reached; `None` where it is no number.
    version: Option<u64>,
    /// Everything that happened before is known.
    as_of: Instant,
    /// What the receiver was told of `as_of`.
    told: Instant,
    /// When the last list was complete. The watch after it has time for its first bookmark.
    listed: Instant,
    /// When the API server was heard of last: with a complete list, an event or a bookmark.
    heard: Instant,
    /// When the version is asked for; `None` if it was since the last bookmark.
    asks_at: Option<Instant>,
    /// When the API server ends the watch.
    ends: Instant,
}

impl Freshness {
    pub(super) fn new(timeline: Timeline, now: Instant) -> Self {
        Self { timeline, version: None, as_of: now, told: now, listed: now, heard: now, asks_at: None, ends: now }
    }

    /// Records a complete list of this version that was requested at `sent`. Returns up to when everything is known.
    pub(super) fn listed(&mut self, version: &str, sent: Instant, now: Instant) -> Instant {
        (self.version, self.as_of, self.told) = (version.parse().ok(), sent, sent);
        (self.listed, self.heard, self.asks_at) = (now, now, None);
        sent
    }

    /// Records that the watch was opened, and that the API server ends it after `idle`. One that is closed and opened again and again, each
    /// time before its first bookmark, asks as well.
    pub(super) fn opened(&mut self, idle: Duration, now: Instant) {
        self.ends = now + idle;
        self.asks_at.get_or_insert(now + ASKED_AFTER);
    }

    /// Records an event. Returns up to when everything is known, if the receiver must be told.
    pub(super) fn event(&mut self, version: &str, now: Instant) -> Option<Instant> {
        (self.version, self.heard) = (version.parse().ok(), now);
        self.progress(now)
    }

    /// Records a bookmark. Returns what [`Self::event`] does.
    pub(super) fn bookmark(&mut self, version: &str, now: Instant) -> Option<Instant> {
        let told = self.event(version, now);
        let before_end = self.ends.checked_sub(ASKED_BEFORE_END).filter(|at| *at > now);
        self.asks_at = Some(before_end.map_or(now + ASKED_AFTER, |at| at.min(now + ASKED_AFTER)));
        told
    }

    /// Takes in what the timeline says since. Returns what [`Self::event`] does.
    pub(super) fn progress(&mut self, now: Instant) -> Option<Instant> {
        let as_of = self.version.map_or(Some(now), |version| self.timeline.as_of(version));
        self.as_of = as_of.map_or(self.as_of, |as_of| self.as_of.max(as_of));
        (self.as_of.saturating_duration_since(self.told) >= STEP).then(|| {
            self.told = self.as_of;
            self.as_of
        })
    }

    /// Returns when the kind is to be asked for its version; `None` if it was since the last bookmark.
    pub(super) const fn asks_at(&self) -> Option<Instant> {
        self.asks_at
    }

    /// Records that the kind is asked for its version, so that the next bookmark proves something.
    pub(super) const fn asked(&mut self) {
        self.asks_at = None;
    }

    /// Records that the kind had not passed this version at `sent`: the answer to that question. Returns what [`Self::event`] does.
    pub(super) fn answered(&mut self, version: &str, sent: Instant, now: Instant) -> Option<Instant> {
        match version.parse() {
            // One below that of the watch is of another time: the cluster went back.
            Ok(version) if self.version.is_none_or(|reached| version >= reached) => self.timeline.record(sent, version),
            Ok(_) | Err(_) => {}
        }
        self.progress(now)
    }

    /// Returns when the watch is dead, if nothing more comes.
    pub(super) fn dies_at(&self, silent: Duration) -> Instant {
        // Also a watch that need not be old must speak: its version may lie in the future of a restored etcd.
        self.as_of.min(self.heard).max(self.listed) + silent
    }

    /// Returns why the watch is dead, if it is. `silent` is how old it may become.
    pub(super) fn death(&self, silent: Duration, now: Instant) -> Option<Death> {
        (now >= self.dies_at(silent)).then(|| if now >= self.heard + SPEAKS { Death::Silent } else { Death::Stale })
    }
}

/// Why a watch is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// It said nothing.
    Silent,
    /// It spoke, but its version was old.
    Stale,
}

impl Death {
    /// Returns the words for it, and the reason in the metrics.
    pub(super) fn words(self, silent: Duration) -> (String, &'static str) {
        match self {
            Self::Silent => (format!("no event and no bookmark for {SPEAKS:?} and more: the watch is dead"), "silent"),
            Self::Stale => (
                format!(
                    "its newest bookmark or event shows a state that is {silent:?} old: the watch is dead; the API server may be cut off from etcd"
                ),
                "stale",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    const SILENT: Duration = Duration::from_secs(75);
    const IDLE: Duration = Duration::from_secs(200);

    struct Run {
        start: Instant,
        timeline: Timeline,
        freshness: Freshness,
        /// The version up to which the API server has the state of etcd.
        progress: u64,
    }

    impl Run {
        /// Returns a watch that was listed at 0 s with version 100, and opened.
        fn new() -> Self {
            let (timeline, start) = (Timeline::default(), clock::monotonic());
            let mut freshness = Freshness::new(timeline.clone(), start);
            freshness.listed("100", start, start);
            freshness.opened(IDLE, start);
            Self { start, timeline, freshness, progress: 100 }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// Returns up to which second everything is known after this bookmark, if that is news.
        fn bookmark(&mut self, version: &str, second: u64) -> Option<u64> {
            let now = self.at(second);
            self.freshness.bookmark(version, now).map(|as_of| (as_of - self.start).as_secs())
        }

        /// The Lease is written every 2 s; the cluster has version 100 + 10 × the seconds.
        fn elected(&self, until: u64) {
            (1..=until / 2).for_each(|number| self.timeline.record(self.at(2 * number), 100 + 20 * number));
        }
    }

    #[test]
    fn a_bookmark_proves_that_its_watch_is_as_new_as_the_lease() {
        let mut run = Run::new();
        run.elected(60);
        // etcd has notified of progress 5 s before.
        assert_eq!(run.bookmark("650", 60), Some(54));
        assert_eq!(run.bookmark("655", 60), None, "the receiver knows it");
        assert_eq!(run.freshness.asks_at(), Some(run.at(115)));
        assert_eq!(run.freshness.dies_at(SILENT), run.at(54 + 75));
    }

    #[test]
    fn bookmarks_that_repeat_a_version_prove_nothing_and_their_watch_is_dead() {
        let mut run = Run::new();
        run.elected(74);
        assert_eq!([1, 30, 60, 74].map(|second| run.bookmark("100", second)), [None; 4]);
        assert_eq!(run.freshness.death(SILENT, run.at(74)), None);
        assert_eq!(run.freshness.death(SILENT, run.at(75)), Some(Death::Stale));
        let silent = Run::new();
        assert_eq!(silent.freshness.death(SILENT, silent.at(75)), Some(Death::Silent));
    }

    /// An event of a watch that is minutes behind.
    #[test]
    fn events_that_come_late_prove_no_more_than_their_version() {
        let mut run = Run::new();
        run.elected(100);
        let now = run.at(101);
        assert_eq!(run.freshness.event("305", now), Some(run.at(20)));
        assert_eq!(run.freshness.death(SILENT, run.at(95)), Some(Death::Stale));
    }

    #[test]
    fn the_version_is_asked_for_before_each_bookmark() {
        let mut run = Run::new();
        for minute in 0..3 {
            let (asked, now) = (run.at(60 * minute + 55), run.at(60 * minute + 56));
            assert_eq!(run.freshness.asks_at(), Some(asked));
            run.freshness.asked();
            assert_eq!((run.freshness.asks_at(), run.freshness.death(SILENT, asked)), (None, None), "once");
            let version = (200 + minute).to_string();
            assert_eq!(run.freshness.answered(&version, asked, now), None, "the watch has not reached it");
            assert_eq!(run.bookmark(&version, 60 * minute + 60), Some(60 * minute + 55));
        }
    }

    /// Found in a picture: the watches of kinds without changes were dead 48 s after each planned end, where etcd does not notify of progress.
    #[test]
    fn a_watch_that_ends_as_planned_is_as_new_as_any_other() {
        let mut run = Run::new();
        let mut cluster = 100;
        for second in 1..=1000 {
            let now = run.at(second);
            assert_eq!(run.freshness.death(SILENT, now), None, "after {second} s");
            // Something else is written all the time.
            cluster += 1;
            if run.freshness.asks_at().is_some_and(|at| at <= now) {
                run.freshness.asked();
                run.freshness.answered(&cluster.to_string(), now, now);
                run.progress = cluster;
            }
            // The API server sends a bookmark each minute, one 2 s before the end, and then the watch is opened again.
            if [60, 120, 180, 198].contains(&(second % 200)) {
                run.bookmark(&run.progress.to_string(), second);
            }
            if second % 200 == 0 {
                run.freshness.opened(IDLE, now);
            }
        }
    }

    /// A load balancer ends connections after 35 s. Events still come, and are proved.
    #[test]
    fn a_watch_that_is_opened_again_before_each_bookmark_asks_as_well() {
        let mut run = Run::new();
        run.freshness.opened(IDLE, run.at(35));
        let (asked, answered, event) = (run.at(55), run.at(56), run.at(60));
        assert_eq!(run.freshness.asks_at(), Some(asked));
        run.freshness.asked();
        assert_eq!(run.freshness.answered("300", asked, answered), None);
        assert_eq!(run.freshness.event("301", event), Some(asked));
        run.freshness.opened(IDLE, run.at(70));
        assert_eq!(run.freshness.asks_at(), Some(run.at(70 + 55)));
    }

    #[test]
    fn in_a_cluster_without_writes_the_answer_alone_is_the_proof() {
        let mut run = Run::new();
        let (sent, now) = (run.at(55), run.at(56));
        assert_eq!(run.freshness.answered("100", sent, now), Some(sent));
        // Still it must speak, and an answer below what was seen proves nothing: etcd was restored.
        assert_eq!(run.freshness.death(SILENT, run.at(75)), Some(Death::Silent));
        assert_eq!(Run::new().freshness.answered("99", sent, now), None);
    }

    #[test]
    fn a_list_that_took_long_leaves_time_for_the_first_bookmark() {
        let mut run = Run::new();
        let (sent, now) = (run.at(10), run.at(40));
        assert_eq!(run.freshness.listed("200", sent, now), sent);
        assert_eq!(run.freshness.death(SILENT, run.at(114)), None);
        assert_eq!(run.freshness.death(SILENT, run.at(115)), Some(Death::Silent));
    }

    #[test]
    fn a_version_that_is_no_number_counts_from_when_it_came() {
        let mut run = Run::new();
        assert_eq!(run.bookmark("a", 60), Some(60));
    }
}
