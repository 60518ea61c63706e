//! Is this process the one that works?
//!
//! A Lease object, as every Kubernetes component uses it, so that `kubectl get lease` shows who works. Who holds it is
//! replaced (PUT) with the resourceVersion that was read, so two can never both take it. The rules of time are in
//! [`super::leader_decide`], the requests in [`super::leader_elector`].
//!
//! A lease fences nothing: a request that was sent in time can land late. Whoever writes protects the object itself (UID
//! and resourceVersion). The lease keeps two programs from working against each other; it does not have to be right for
//! the cluster to be. Still nothing is sent without it: a [`Caller`] that was bound to it ([`Caller::while_leading`]) sends
//! only while we lead, and waits for no answer longer than until shortly before the lease can be another's.
//!
//! client-go's rules, with three differences: who sees that another holds its lease ends at once and not at the renew
//! deadline; candidates wait a plain retry period and not up to 2.2 of them at random (the resourceVersion sorts out who
//! comes together); a lease is never waited for longer than an hour.
//!
//! A process that lost its lease ends ([`LeadershipLost`]) and is started again by its kubelet: what it knew and had
//! under way is of no use any more.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::Caller;
use super::clock;
use super::leader_decide::LONGEST;
pub use super::leader_elector::Elector;

/// The renew deadline has room for more than one try: the factor of client-go, whose rule this is.
const ROOM: f64 = 1.2;

/// Which lease, for whom, and how patiently.
#[derive(Clone, Debug)]
pub struct LeaderConfig {
    /// Where the Lease is.
    pub namespace: String,
    /// Its name: the program's.
    pub name: String,
    /// Who we are; another for every start of a process, see [`identity`].
    pub identity: String,
    /// How long a lease that is not renewed keeps others away. Whole seconds.
    pub lease_duration: Duration,
    /// How long we work on without having renewed. Shorter than the lease.
    pub renew_deadline: Duration,
    /// How often it is renewed or tried for. Shorter than the deadline.
    pub retry_period: Duration,
}

/// Whether the three times of an election fit together, as the flags name them.
///
/// # Errors
/// One line for the user that says which do not.
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
            "--leader-elect-lease-duration ({lease:?}) must be at most {LONGEST:?}: nobody waits longer for another's lease"
        ));
    }
    Ok(())
}

impl LeaderConfig {
    /// When a write has to be over, counted like the renew deadline: between that and the end of the lease, so that neither an ordinary slow write is
    /// cut off nor one goes on that the next holder could meet.
    pub(super) fn writes_end(&self) -> Duration {
        self.renew_deadline + self.lease_duration.saturating_sub(self.renew_deadline) / 2
    }
}

/// The lease could not be renewed in time, or is another's: this process must not go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the lease {lease} is lost: {why}")]
pub struct LeadershipLost {
    /// `namespace/name`.
    pub lease: String,
    /// Why, for the log.
    pub why: String,
}

/// A name for this start of this process: the host's name (in a pod the pod's) and something that differs every time.
pub fn identity() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname")).unwrap_or_default();
    let host = if host.trim().is_empty() { "unknown" } else { host.trim() };
    // The standard library seeds its hash maps at random; that is all the randomness that is wanted here.
    let unique = RandomState::new().build_hasher().finish();
    format!("{host}_{unique:016x}")
}

/// Whether we lead, and until when at least. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<State>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// `None`: without an end, for a program that was told not to elect.
    Leading(Option<Term>),
    Lost,
}

impl Leadership {
    /// For `--leader-elect=false`: leads at once and for ever.
    pub fn always() -> Self {
        Self(watch::Sender::new(State::Leading(None)).subscribe())
    }

    /// Waits until we lead. True; false when the elector ended without it.
    pub async fn acquired(&mut self) -> bool {
        let leads = |state: &State| matches!(state, State::Leading(_));
        self.0.wait_for(leads).await.is_ok()
    }

    /// Whether we lead at this moment. Ask before every write: it is right also when the whole process stood still for
    /// longer than the lease.
    pub fn is_leading(&self) -> bool {
        match *self.0.borrow() {
            State::Leading(term) => term.is_none_or(|term| clock::monotonic() < term.until),
            State::Waiting | State::Lost => false,
        }
    }

    /// How long a request that is sent now may take at most, where its caller allows it `limit`. `None` while we do not lead: then it is not to be sent.
    pub(super) fn allows(&self, limit: Duration) -> Option<Duration> {
        let now = clock::monotonic();
        match *self.0.borrow() {
            State::Leading(None) => Some(limit),
            State::Leading(Some(term)) if now < term.until => Some(limit.min(term.writes_end.saturating_duration_since(now))),
            State::Leading(Some(_)) | State::Waiting | State::Lost => None,
        }
    }
}

/// One term of a leader; every renewal begins another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// We work until then.
    pub(super) until: Instant,
    /// What we sent before is over then, whatever came of it.
    pub(super) writes_end: Instant,
}

/// Makes the pair: what the workers ask, and what has to be run. Sends nothing yet.
pub fn elect(api: Api<Lease>, caller: Caller, config: LeaderConfig) -> (Leadership, Elector) {
    let state = watch::Sender::new(State::Waiting);
    // Two attempts fit into the deadline even when the first gets no answer.
    let caller = caller.within(config.renew_deadline / 2);
    let leadership = Leadership(state.subscribe());
    let elector = Elector::new(api, caller, config, state);
    (leadership, elector)
}

#[cfg(test)]
#[path = "leader_tests.rs"]
mod tests;
