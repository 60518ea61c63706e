//! The loop of the controller: observe, freeze, decide, act, learn.
//!
//! One task owns the picture, the memories and the queue of keys; there is no lock and nothing else decides. Events only say which groups to look at
//! again. A key is worked on by one step at a time: the step is carried out by a task of its own, its answer comes back here, is learned, and the
//! same decision is asked again, until it rests.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{GroupKey, Uid};
use crate::lifecycle::{Answer, Complaint, Members, Sight, Situation, Step, Version, complaints, decide};
use crate::runtime::backoff::Backoff;
use crate::runtime::clock;
use crate::runtime::leader::Leadership;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::watch::WatchEvent;
use crate::runtime::watchdog::Watchdog;
use crate::runtime::workqueue::WorkQueue;

use super::act::Actor;
use super::metrics::ControllerMetrics;
use super::observed::{Frozen, Observed, PodRef, Seen, Touched};
use super::turn::{Doubts, Kept, Turn, report};

/// Steps for one key in a row before it waits its turn: create, read, amend and the three of retire are six; more is a fight with somebody.
const STEPS_IN_A_ROW: u8 = 8;

/// Complaints about one owner; there are fewer kinds, and no object makes more Events than this at a time.
const COMPLAINTS: usize = 8;

/// What one task of the pool brings back.
enum Done {
    Step { turn: Box<Turn>, step: Box<Step>, known: Option<Version>, answer: Box<Answer> },
    Told { turn: Box<Turn>, complaints: BTreeSet<Complaint>, written: bool },
    Stamped { turn: Box<Turn>, tried: Vec<PodRef>, stamped: Vec<Uid> },
}

/// What the controller is told to do.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many steps are carried out at the same time.
    pub workers: usize,
    /// Whether pods that nobody stamped are.
    pub annotate_pods: bool,
}

/// The one owner of the controller's state.
pub struct Keeper {
    observed: Observed,
    kept: HashMap<GroupKey, Kept>,
    queue: WorkQueue<GroupKey>,
    pool: JoinSet<Done>,
    actor: Arc<Actor>,
    settings: Settings,
    metrics: ControllerMetrics,
    started: bool,
}

impl Keeper {
    /// A keeper that has seen nothing yet.
    #[must_use]
    pub fn new(schedulers: &[String], actor: Actor, settings: Settings, metrics: ControllerMetrics) -> Self {
        Self {
            observed: Observed::new(schedulers),
            kept: HashMap::new(),
            queue: WorkQueue::new(Backoff::new(Duration::from_millis(50), Duration::from_secs(30))),
            pool: JoinSet::new(),
            actor: Arc::new(actor),
            settings,
            metrics,
            started: false,
        }
    }

    /// Runs until it is told to stop. Acts only while it leads, and only once every list is complete.
    pub async fn run(mut self, mut events: mpsc::Receiver<Seen>, leadership: Leadership, watchdog: Watchdog, stop: Shutdown) {
        let mut leading = false;
        let mut election = leadership.clone();
        loop {
            watchdog.progress();
            self.begin(leading);
            let room = self.started && self.pool.len() < self.settings.workers;
            tokio::select! {
                biased;
                () = stop.triggered() => break,
                Some(done) = self.pool.join_next(), if !self.pool.is_empty() => {
                    match done {
                        Ok(done) => self.learn(done, &leadership),
                        Err(error) => tracing::error!(%error, "the work on a group panicked; it is tried again later"),
                    }
                }
                seen = events.recv() => match seen {
                    Some(seen) => self.observe(seen),
                    None => break,
                },
                acquired = election.acquired(), if !leading => {
                    // The election is over without us: nothing will ever be done here.
                    if !acquired {
                        break;
                    }
                    leading = true;
                }
                () = watchdog.probed() => {}
                work = self.queue.next(), if room => self.proceed(Box::new(Turn::new(work)), &leadership),
            }
            self.metrics.queue_depth(self.queue.len());
        }
        // A write that is under way may land or not; both are answers that the next one to lead learns from.
        self.pool.shutdown().await;
    }

    fn observe(&mut self, seen: Seen) {
        let relisted = matches!(&seen, Seen::Group(WatchEvent::Reset { .. }));
        for touched in self.observed.take(seen) {
            let key = touched.key().clone();
            if key.owner().is_none() {
                continue;
            }
            if let Some(kept) = self.kept.get_mut(&key) {
                if matches!(&touched, Touched::Member(_)) {
                    kept.doubts = Doubts::default();
                }
                kept.memory.saw(touched.sight());
            }
            if self.started {
                self.wake(key);
            }
        }
        if relisted {
            self.doubt_what_no_list_shows();
        }
    }

    /// Begins once every list is complete and this process leads. Before that no key is queued: one that waits in vain would hold all that ever came.
    fn begin(&mut self, leading: bool) {
        if self.started || !leading || !self.observed.is_complete() {
            return;
        }
        self.started = true;
        let keys = self.observed.keys();
        tracing::info!(groups = keys.len(), "every list is complete, and this process leads");
        for key in keys {
            self.wake(key);
        }
    }

    /// There may be something to do about this group.
    fn wake(&mut self, key: GroupKey) {
        if self.observed.group(&key).is_none() {
            self.kept.entry(key.clone()).or_default().missing_since.get_or_insert_with(clock::monotonic);
        }
        self.queue.add(key);
    }

    /// Groups that only answers have shown may have come and gone between two lists, and no event would ever tell.
    fn doubt_what_no_list_shows(&mut self) {
        let observed = &self.observed;
        for (key, kept, there) in self.kept.iter_mut().map(|(key, kept)| (key, kept, observed.group(key).is_some())) {
            kept.memory.saw(Sight::Listed { there });
            if !there {
                self.queue.add(key.clone());
            }
        }
    }

    /// Decides the next step of this turn, and hands it to the pool or ends the turn.
    fn proceed(&mut self, mut turn: Box<Turn>, leadership: &Leadership) {
        if turn.steps >= STEPS_IN_A_ROW || !leadership.is_leading() {
            turn.failing = true;
            turn.end();
            return;
        }
        let key = turn.key.clone();
        let frozen = self.observed.freeze(&key);
        let kept = self.kept.entry(key.clone()).or_default();
        let situation =
            Situation { owner: frozen.owner.known(), members: frozen.members, cached: frozen.cached.as_ref(), memory: &kept.memory };
        let step = decide(&situation);
        if let Some(left) = kept.linger(&step, frozen.may_be_ours, clock::monotonic()) {
            turn.end_until(left);
            return;
        }
        if let Some(left) = kept.wait_for_refused(&step, clock::monotonic()) {
            turn.end_until(left);
            return;
        }
        if step == Step::Rest {
            kept.refused = None;
            kept.missing_since = None;
            self.rest(turn, &frozen);
            return;
        }
        turn.steps = turn.steps.saturating_add(1);
        let known = kept.memory.freshest(frozen.cached.as_ref()).map(|existing| existing.version().clone());
        let actor = Arc::clone(&self.actor);
        self.pool.spawn(async move {
            let answer = Box::new(actor.carry_out(&key, &step, frozen.selector.as_deref()).await);
            Done::Step { turn, step: Box::new(step), known, answer }
        });
    }

    /// The group is as it should be, or cannot be now: what is left is to tell people, to stamp pods, and to forget.
    fn rest(&mut self, turn: Box<Turn>, frozen: &Frozen) {
        let key = turn.key.clone();
        let kept = self.kept.entry(key.clone()).or_default();
        let existing = kept.memory.freshest(frozen.cached.as_ref());
        let found: BTreeSet<Complaint> = frozen
            .owner
            .wish()
            .into_iter()
            .flat_map(|wish| complaints(wish, existing, kept.refusal_to_tell(clock::monotonic())))
            .take(COMPLAINTS)
            .collect();
        let news: Vec<Complaint> = found.difference(&kept.told).cloned().collect();
        let actor = Arc::clone(&self.actor);
        if !news.is_empty() {
            self.pool.spawn(async move {
                let mut written = true;
                for complaint in &news {
                    written &= actor.tell(complaint).await;
                }
                Done::Told { turn, complaints: found, written }
            });
            return;
        }
        let existing_is_none = existing.is_none();
        kept.told = found;
        let to_stamp = if self.settings.annotate_pods && !turn.failing { kept.next_to_stamp(&frozen.unstamped) } else { Vec::new() };
        if !to_stamp.is_empty() {
            self.pool.spawn(async move {
                let mut stamped = Vec::new();
                for pod in &to_stamp {
                    if actor.stamp(pod, &key).await {
                        stamped.push(pod.uid.clone());
                    }
                }
                Done::Stamped { turn, tried: to_stamp, stamped }
            });
            return;
        }
        if let Some(wait) = kept.wait_for_pods(clock::monotonic()) {
            turn.end_until(wait);
            return;
        }
        if frozen.owner.wish().is_none() && existing_is_none && frozen.cached.is_none() && frozen.members == Members::None {
            self.kept.remove(&key);
        }
        turn.end();
    }

    fn learn(&mut self, done: Done, leadership: &Leadership) {
        match done {
            Done::Step { mut turn, step, known, answer } => {
                let key = turn.key.clone();
                report(&key, &step, &answer);
                self.metrics.step(&step, &answer);
                let kept = self.kept.entry(key.clone()).or_default();
                kept.report_refused_delete(&key, &step, &answer);
                if let (Step::Create(_), Answer::Is(_)) = (&*step, &*answer)
                    && let Some(since) = kept.missing_since.take()
                {
                    self.metrics.created(clock::monotonic().saturating_duration_since(since));
                }
                kept.memory.learn(known.as_ref(), &answer);
                match *answer {
                    Answer::Is(_) | Answer::Gone(_) => {
                        if *step != Step::Read {
                            kept.refused = None;
                        }
                        self.proceed(turn, leadership);
                    }
                    Answer::Absent | Answer::Looked { .. } | Answer::Old => self.proceed(turn, leadership),
                    Answer::Unknown => {
                        turn.failing = true;
                        turn.end();
                    }
                    Answer::Later(wait) => turn.end_until(wait),
                    Answer::Refused(why) => {
                        kept.refuse(&step, why, clock::monotonic());
                        turn.failing = true;
                        let frozen = self.observed.freeze(&key);
                        self.rest(turn, &frozen);
                    }
                }
            }
            Done::Told { mut turn, complaints, written } => {
                if written {
                    self.kept.entry(turn.key.clone()).or_default().told = complaints;
                }
                turn.failing |= !written;
                if turn.failing {
                    turn.end();
                } else {
                    self.proceed(turn, leadership);
                }
            }
            Done::Stamped { mut turn, tried, stamped } => {
                let failed = stamped.len() < tried.len();
                self.kept.entry(turn.key.clone()).or_default().have_stamped(&tried, stamped);
                if failed {
                    turn.failing = true;
                    turn.end();
                } else {
                    self.proceed(turn, leadership);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
