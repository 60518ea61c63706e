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
use crate::lifecycle::{Answer, Complaint, Members, Memory, Owner, Situation, Step, Version, complaints, decide};
use crate::runtime::backoff::Backoff;
use crate::runtime::leader::Leadership;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::workqueue::{Work, WorkQueue};

use super::act::Actor;
use super::metrics::ControllerMetrics;
use super::observed::{Frozen, Observed, PodRef, Seen, Touched};

/// Steps for one key in a row before it waits its turn: create, read, amend and the three of retire are six; more is a fight with somebody.
const STEPS_IN_A_ROW: u8 = 8;

/// How long a look that saw a member waits for the cache to show it before it is doubted.
const CACHE_LAG: Duration = Duration::from_secs(5);

/// Pods that are stamped in one turn.
const STAMPS: usize = 16;

/// Complaints about one owner; there are fewer kinds, and no object makes more Events than this at a time.
const COMPLAINTS: usize = 8;

/// What one task of the pool brings back.
enum Done {
    Step { turn: Box<Turn>, step: Step, known: Option<Version>, answer: Answer },
    Told { turn: Box<Turn>, complaints: BTreeSet<Complaint>, written: bool },
    Stamped { turn: Box<Turn>, stamped: Vec<Uid>, failed: bool },
}

/// A key's turn: while it lives, nobody else works on the key.
struct Turn {
    work: Work<GroupKey>,
    steps: u8,
    /// Something failed that will be tried again after this key's back-off.
    failing: bool,
}

impl Turn {
    fn end(self) {
        if self.failing {
            let _again = self.work.failed();
        } else {
            self.work.succeeded();
        }
    }
}

/// What is kept of one group between turns.
#[derive(Default)]
struct Kept {
    memory: Memory,
    refused: Option<String>,
    told: BTreeSet<Complaint>,
    stamped: BTreeSet<Uid>,
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
    pub async fn run(mut self, mut events: mpsc::Receiver<Seen>, leadership: Leadership, stop: Shutdown) {
        let mut leading = false;
        let mut election = leadership.clone();
        loop {
            let room = self.started && leading && self.pool.len() < self.settings.workers;
            tokio::select! {
                biased;
                () = stop.triggered() => break,
                Some(done) = self.pool.join_next(), if !self.pool.is_empty() => {
                    // A task that panicked has dropped its turn with it; the key is looked at again by the next event.
                    if let Ok(done) = done {
                        self.learn(done, &leadership);
                    }
                }
                seen = events.recv() => match seen {
                    Some(seen) => self.observe(seen),
                    None => break,
                },
                acquired = election.acquired(), if !leading => leading = acquired,
                work = self.queue.next(), if room => self.proceed(Box::new(Turn { work, steps: 0, failing: false }), &leadership),
            }
            self.metrics.queue_depth(self.queue.len());
        }
        // A write that is under way may land or not; both are answers that the next one to lead learns from.
        self.pool.shutdown().await;
    }

    fn observe(&mut self, seen: Seen) {
        for touched in self.observed.take(seen) {
            let key = touched.key().clone();
            if key.owner().is_none() {
                continue;
            }
            if let Some(kept) = self.kept.get_mut(&key) {
                match &touched {
                    Touched::Owner(_) | Touched::Group(_, None) => {}
                    Touched::Member(_) => kept.memory.saw_pods(),
                    Touched::Group(_, Some(uid)) => kept.memory.saw_deleted(uid),
                    Touched::MissedGroup(_) => kept.memory.missed_by_list(),
                }
            }
            if self.started {
                self.queue.add(key);
            }
        }
        if !self.started && self.observed.is_complete() {
            self.started = true;
            let keys = self.observed.keys();
            tracing::info!(groups = keys.len(), "every list is complete");
            for key in keys {
                self.queue.add(key);
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
        let key = turn.work.key().clone();
        let frozen = self.observed.freeze(&key);
        let kept = self.kept.entry(key.clone()).or_default();
        let situation =
            Situation { owner: owner(&frozen), members: frozen.members, cached: frozen.cached.as_ref(), memory: &kept.memory };
        let step = decide(&situation);
        if step == Step::Rest {
            self.rest(turn, &frozen);
            return;
        }
        turn.steps = turn.steps.saturating_add(1);
        let known = kept.memory.freshest(frozen.cached.as_ref()).map(|existing| existing.version().clone());
        let actor = Arc::clone(&self.actor);
        self.pool.spawn(async move {
            let answer = actor.carry_out(&key, &step, frozen.selector.as_deref()).await;
            Done::Step { turn, step, known, answer }
        });
    }

    /// The group is as it should be, or cannot be now: what is left is to tell people, to stamp pods, and to forget.
    fn rest(&mut self, turn: Box<Turn>, frozen: &Frozen) {
        let key = turn.work.key().clone();
        let kept = self.kept.entry(key.clone()).or_default();
        let existing = kept.memory.freshest(frozen.cached.as_ref());
        let found: BTreeSet<Complaint> =
            frozen.owner.iter().flat_map(|wish| complaints(wish, existing, kept.refused.as_deref())).take(COMPLAINTS).collect();
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
        kept.stamped.retain(|uid| frozen.unstamped.iter().any(|pod| pod.uid == *uid));
        let to_stamp: Vec<PodRef> = if self.settings.annotate_pods && !turn.failing {
            frozen.unstamped.iter().filter(|pod| !kept.stamped.contains(&pod.uid)).take(STAMPS).cloned().collect()
        } else {
            Vec::new()
        };
        if !to_stamp.is_empty() {
            self.pool.spawn(async move {
                let mut stamped = Vec::new();
                for pod in &to_stamp {
                    if actor.stamp(pod, &key).await {
                        stamped.push(pod.uid.clone());
                    }
                }
                let failed = stamped.len() < to_stamp.len();
                Done::Stamped { turn, stamped, failed }
            });
            return;
        }
        if kept.memory.waits_for_pods() {
            // The cache has this long to show the member that the look saw; then the look is doubted.
            kept.memory.saw_pods();
            turn.work.again_after(CACHE_LAG);
            return;
        }
        if frozen.owner.is_err() && existing_is_none && frozen.cached.is_none() && frozen.members == Members::None {
            self.kept.remove(&key);
        }
        turn.end();
    }

    fn learn(&mut self, done: Done, leadership: &Leadership) {
        match done {
            Done::Step { mut turn, step, known, answer } => {
                let key = turn.work.key().clone();
                report(&key, &step, &answer);
                self.metrics.step(&step, &answer);
                let kept = self.kept.entry(key.clone()).or_default();
                kept.memory.learn(known.as_ref(), &answer);
                match answer {
                    Answer::Is(_) | Answer::Gone(_) => {
                        if step != Step::Read {
                            kept.refused = None;
                        }
                        self.proceed(turn, leadership);
                    }
                    Answer::Absent | Answer::Looked { .. } | Answer::Old => self.proceed(turn, leadership),
                    Answer::Unknown => {
                        turn.failing = true;
                        turn.end();
                    }
                    Answer::Refused(why) => {
                        kept.refused = Some(why);
                        turn.failing = true;
                        let frozen = self.observed.freeze(&key);
                        self.rest(turn, &frozen);
                    }
                }
            }
            Done::Told { mut turn, complaints, written } => {
                if written {
                    self.kept.entry(turn.work.key().clone()).or_default().told = complaints;
                }
                turn.failing |= !written;
                if turn.failing {
                    turn.end();
                } else {
                    self.proceed(turn, leadership);
                }
            }
            Done::Stamped { mut turn, stamped, failed } => {
                self.kept.entry(turn.work.key().clone()).or_default().stamped.extend(stamped);
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

/// One line for each change of a group; nothing for what only asks.
fn report(key: &GroupKey, step: &Step, answer: &Answer) {
    match (step, answer) {
        (Step::Read | Step::Look(_) | Step::Rest, _) => tracing::debug!(group = %key, step = step.name(), ?answer, "asked"),
        (_, Answer::Is(existing)) => {
            let version = existing.version();
            tracing::info!(group = %key, step = step.name(), uid = %version.uid, resource_version = version.resource_version, "written");
        }
        (_, Answer::Gone(uid)) => tracing::info!(group = %key, step = step.name(), %uid, "gone"),
        (_, Answer::Refused(why)) => tracing::warn!(group = %key, step = step.name(), why, "refused"),
        (_, Answer::Unknown) => tracing::warn!(group = %key, step = step.name(), "the outcome is not known; it is read again"),
        (_, Answer::Old | Answer::Absent | Answer::Looked { .. }) => tracing::debug!(group = %key, step = step.name(), ?answer, "what was known is old"),
    }
}

fn owner(frozen: &Frozen) -> Owner<'_> {
    match &frozen.owner {
        Ok(wish) => Owner::Wishes(wish),
        Err(true) => Owner::Unserved,
        Err(false) => Owner::Gone,
    }
}
