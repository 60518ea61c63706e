//! Leader election: whether this process is the leader.
//!
//! The election uses a Lease object, as every Kubernetes component does, so `kubectl get lease` shows the leader. The holder is
//! replaced (PUT) with the resourceVersion that was read, so two processes can never both take it. The rules of time are in
//! [`decide`], the requests in [`elector`].
//!
//! A lease is no fence: a request that was sent in time can arrive late. So each write protects its object itself (UID
//! and resourceVersion). The lease keeps two processes from working against each other; correctness does not depend on it.
//! What needs more (the scheduler) asks how the lease came, [`Handover`], and says how it is given up, [`Release`].
//! Still nothing is sent without it: a [`Caller`] that is bound to it ([`Caller::while_leading`]) sends
//! only while we lead, and stops waiting for an answer shortly before another process can take the lease.
//!
//! The rules are client-go's, with three differences:
//! * a leader that sees another holder of its lease ends at once, and not at the renew deadline;
//! * candidates wait one retry period, and not up to 2.2 of them at random; the resourceVersion decides between candidates that come together;
//! * no lease is waited for longer than an hour.
//!
//! A process that loses its lease ends ([`LeadershipLost`]), and its kubelet starts it again: its state and its requests in
//! progress are of no use any more.

pub mod decide;
mod elector;
mod metrics;
mod release;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::runtime::call::Caller;
use crate::runtime::clock;

pub use decide::Handover;
use decide::LONGEST;
pub use elector::Elector;
pub use metrics::LeaderMetrics;

/// How many retry periods must fit into the renew deadline: client-go's factor.
const ROOM: f64 = 1.2;

/// The lease, this process's identity, and the durations of the election.
#[derive(Clone, Debug)]
pub struct LeaderConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease, which is the program's.
    pub name: String,
    /// The holder's name, a new one for every start of a process; see [`identity`].
    pub identity: String,
    /// How long a lease that is not renewed belongs to its holder. Whole seconds.
    pub lease_duration: Duration,
    /// How long a leader works on without a renewal. Shorter than the lease duration.
    pub renew_deadline: Duration,
    /// The time between two attempts to renew or to acquire. Shorter than the deadline.
    pub retry_period: Duration,
}

/// Checks that the three durations of an election fit together, by the names of the flags.
///
/// # Errors
/// One line for the user that names the flags.
pub fn fit_together(lease: Duration, deadline: Duration, retry: Duration) -> Result<(), String> {
    if deadline >= lease {
        return Err(format!("--leader-elect-renew-deadline ({deadline:?}) must be shorter than --leader-elect-lease-duration ({lease:?})"));
    }
    if retry.mul_f64(ROOM) >= deadline {
        return Err(format!(
            "--leader-elect-retry-period ({retry:?}) times {ROOM} must be shorter than --leader-elect-renew-deadline ({deadline:?})"
        ));
    }
    if lease > LONGEST {
        return Err(format!(
            "--leader-elect-lease-duration ({lease:?}) must be at most {LONGEST:?}: no candidate waits longer for a lease"
        ));
    }
    Ok(())
}

impl LeaderConfig {
    /// Returns when a write must have ended, counted like the renew deadline. It is between the deadline and the end of the lease: an ordinary slow
    /// write is not cut off, and none goes on when the next holder can start.
    fn writes_end(&self) -> Duration {
        self.renew_deadline + self.lease_duration.saturating_sub(self.renew_deadline) / 2
    }
}

/// The lease was not renewed in time, or another process holds it: this process must end.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the lease {lease} is lost: {why}")]
pub struct LeadershipLost {
    /// `namespace/name`.
    pub lease: String,
    /// The reason, for the log.
    pub why: String,
}

/// Returns a name for this start of this process: the host's name (in a pod the pod's name) and a random part.
pub fn identity() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname")).unwrap_or_default();
    let host = if host.trim().is_empty() { "unknown" } else { host.trim() };
    // The standard library seeds its hash maps at random; no other randomness is needed here.
    let unique = RandomState::new().build_hasher().finish();
    format!("{host}_{unique:016x}")
}

/// What the leaders of a program do with the lease when they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReleaseRule {
    /// They give it up. Requests that are under way protect their objects themselves.
    #[default]
    Always,
    /// They do what they say in [`Leadership::release`], and keep it otherwise. This annotation of the Lease is the mark of [`Release::Drained`].
    Marked(&'static str),
}

/// What a leader that ends does with its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// It gives the lease up and says that nothing is under way: the next leader takes over cleanly.
    Drained,
    /// It gives the lease up without the mark: the next leader takes over at once, and uncleanly.
    Unmarked,
    /// It lets the lease run out: the next leader takes over uncleanly.
    Keep,
}

/// Tells whether this process leads, and at least until when. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<State>,
    /// What is done with the lease at the end; empty as long as it is not decided.
    release: Arc<OnceLock<Release>>,
    identity: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// How the lease came, and its term; `None`: without an end, for a program without election.
    Leading(Handover, Option<Term>),
    Lost,
}

impl Leadership {
    /// Makes a leadership for `--leader-elect=false`: it leads at once and for ever. What an earlier process has under way is not known.
    pub fn always() -> Self {
        let state = watch::Sender::new(State::Leading(Handover::Unclean, None)).subscribe();
        Self { state, release: Arc::default(), identity: identity().into() }
    }

    /// Waits until this process leads, and returns how the lease came; `None` when the elector ended first.
    pub async fn acquired(&mut self) -> Option<Handover> {
        let leads = |state: &State| matches!(state, State::Leading(..));
        match *self.state.wait_for(leads).await.ok()? {
            State::Leading(handover, _) => Some(handover),
            State::Waiting | State::Lost => None,
        }
    }

    /// Whether this process leads by a lease, which another process can have after it.
    pub fn has_lease(&self) -> bool {
        matches!(*self.state.borrow(), State::Leading(_, Some(_)))
    }

    /// Returns the name of this start of this process, which its Lease shows. No other start has it.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Decides what is done with the lease at the end. This process sends nothing more. The first call counts.
    pub fn release(&self, release: Release) {
        self.release.get_or_init(|| release);
    }

    /// Whether this process leads at this moment. Ask before every write: the answer is right also when the whole process was stopped for
    /// longer than the lease.
    pub fn is_leading(&self) -> bool {
        match *self.state.borrow() {
            State::Leading(_, term) => term.is_none_or(|term| clock::through_suspension() < term.until),
            State::Waiting | State::Lost => false,
        }
    }

    /// Returns a resourceVersion that the cluster has reached: that of the lease after its last write by this process. `None` while it does
    /// not lead, and without election. A list that begins now and is older comes from an API server that is behind, or from another etcd
    /// than the lease.
    pub fn floor(&self) -> Option<u64> {
        match *self.state.borrow() {
            State::Leading(_, Some(term)) => Some(term.version),
            State::Leading(_, None) | State::Waiting | State::Lost => None,
        }
    }

    /// Returns the time limit of a request that is sent now, at most `limit`. `None` while this process does not lead: then the request is not sent.
    pub(super) fn allows(&self, limit: Duration) -> Option<Duration> {
        let now = clock::through_suspension();
        match *self.state.borrow() {
            State::Leading(_, None) => Some(limit),
            State::Leading(_, Some(term)) if now < term.until => Some(limit.min(term.writes_end.saturating_duration_since(now))),
            State::Leading(_, Some(_)) | State::Waiting | State::Lost => None,
        }
    }
}

/// One term of a leader; every renewal starts a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    /// The leader works until then.
    until: Instant,
    /// Every request of the leader has ended by then, with or without an answer.
    writes_end: Instant,
    /// The resourceVersion of the lease after its last write; 0 if it is no number.
    version: u64,
}

/// Makes a leadership, which the workers ask, and its elector, which must be run. Sends nothing yet.
pub fn elect(api: Api<Lease>, caller: Caller, config: LeaderConfig) -> (Leadership, Elector) {
    let state = watch::Sender::new(State::Waiting);
    // Two attempts fit into the deadline, even when the first gets no answer.
    let caller = caller.within(config.renew_deadline / 2);
    let release = Arc::<OnceLock<Release>>::default();
    let leadership = Leadership { state: state.subscribe(), release: Arc::clone(&release), identity: config.identity.as_str().into() };
    let elector = Elector::new(api, caller, config, state, release);
    (leadership, elector)
}

#[cfg(test)]
mod tests;
