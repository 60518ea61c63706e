//! Which requests keep the lease ours, and when is it lost?
//!
//! The thin shell round [`super::leader_decide`]; its front door is [`super::leader`].

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::{CallError, Caller};
use super::clock;
use super::leader::{LeaderConfig, LeadershipLost, State, Term};
use super::leader_decide::{Look, Observed, Record, Step, decide, observe};
use super::shutdown::Shutdown;

/// Keeps trying for the lease, then keeps it.
pub struct Elector {
    api: Api<Lease>,
    caller: Caller,
    config: LeaderConfig,
    state: watch::Sender<State>,
    /// The lease as the server last gave it to us, to be replaced; `None` when it has to be read first.
    known: Option<Lease>,
    seen: Option<Observed>,
    /// We lead until then. `None` when we do not.
    until: Option<Instant>,
    /// What was logged last and is not over.
    trouble: Option<String>,
    /// Annotations that the lease gets with everything that is written of it anyway.
    marks: BTreeMap<String, String>,
}

impl Elector {
    pub(super) fn new(api: Api<Lease>, caller: Caller, config: LeaderConfig, state: watch::Sender<State>) -> Self {
        Self { api, caller, config, state, known: None, seen: None, until: None, trouble: None, marks: BTreeMap::new() }
    }

    /// While we hold it this annotation says this of us.
    #[must_use]
    pub fn marked(mut self, key: &str, value: &str) -> Self {
        self.marks.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Runs until `stop`, and gives the lease back then: end the work first.
    ///
    /// # Errors
    /// [`LeadershipLost`]: the work must end now.
    pub async fn run(mut self, stop: Shutdown) -> Result<(), LeadershipLost> {
        loop {
            let began = clock::monotonic();
            let outcome = stop.unless(self.round()).await;
            if outcome.is_none() {
                break;
            }
            if let Some(Err(lost)) = outcome {
                self.state.send_replace(State::Lost);
                return Err(lost);
            }
            if stop.unless(tokio::time::sleep(self.pause(began))).await.is_none() {
                break;
            }
        }
        self.give_back().await;
        Ok(())
    }

    /// Until the next round, counted from the beginning of this one: a try that got no answer for longer than a retry period has waited enough. Near the
    /// deadline the rounds come closer together.
    fn pause(&self, began: Instant) -> Duration {
        let now = clock::monotonic();
        let retry = (began + self.config.retry_period).saturating_duration_since(now);
        self.until.map_or(retry, |until| retry.min(self.share(until.saturating_duration_since(now))))
    }

    /// How much of the time that is left until the deadline one try, or one pause, may take: half of it, so that there is always another try, but no less
    /// than an eighth of a retry period, so that they come to an end. Never more than is left.
    fn share(&self, left: Duration) -> Duration {
        left.min((left / 2).max(self.config.retry_period / 8))
    }

    /// One try, and what it means for us.
    async fn round(&mut self) -> Result<(), LeadershipLost> {
        // While we lead no try takes more than its share of the time that is left.
        let tried = match self.until {
            None => self.attempt().await,
            Some(until) => {
                match tokio::time::timeout(self.share(until.saturating_duration_since(clock::monotonic())), self.attempt()).await {
                    Ok(tried) => tried,
                    Err(_elapsed) => {
                        self.known = None;
                        Err(CallError::Timeout("no answer".to_owned()))
                    }
                }
            }
        };
        match tried {
            Ok(Step::Wait { holder }) if self.until.is_some() => {
                return Err(self.lost(format!("{holder} holds it")));
            }
            Ok(Step::Wait { holder }) => self.note(format!("{holder} leads; waiting")),
            Ok(_) => {}
            Err(error) => self.note(format!("cannot reach for the lease: {error}")),
        }
        match self.until {
            Some(until) if clock::monotonic() >= until => Err(self.lost("it could not be renewed in time".to_owned())),
            Some(_) | None => Ok(()),
        }
    }

    /// What we replaced was not the newest: it is read, and decided again, at once. Who took the lease from us is not worked against for another
    /// retry period. Once only, so that a server that always says so is not asked without a pause.
    async fn attempt(&mut self) -> Result<Step, CallError> {
        let from_memory = self.known.is_some();
        match self.try_once().await {
            Err(CallError::Conflict(_) | CallError::NotFound(_)) if from_memory => self.try_once().await,
            other => other,
        }
    }

    async fn try_once(&mut self) -> Result<Step, CallError> {
        let look = self.look().await?;
        let began = clock::monotonic();
        let lease = self.config.lease_duration;
        let step = decide(self.seen.as_ref(), look, &self.config.identity, lease, began);
        let written = match &step {
            Step::Wait { .. } => {
                // It changes only on the server: look again next time.
                self.known = None;
                return Ok(step);
            }
            Step::Create => {
                let fresh = self.lease_with(None, 0);
                let post = PostParams::default();
                let create = self.api.create(&post, &fresh);
                self.caller.once("create", "leases", create).await
            }
            Step::Take { transitions } => {
                let taken = self.lease_with(self.known.as_ref(), *transitions);
                self.put(taken).await
            }
            Step::Renew => {
                let same = self.seen.as_ref().map_or(0, |seen| seen.record.transitions);
                let renewed = self.lease_with(self.known.as_ref(), same);
                self.put(renewed).await
            }
        };
        match written {
            Ok(lease) => {
                self.remember(lease);
                self.lead_from(began);
                Ok(step)
            }
            Err(error) => {
                // Whatever it was, what we know may be old: also a write that timed out may have been done.
                self.known = None;
                Err(error)
            }
        }
    }

    /// Reads the lease unless the last answer about it still stands.
    async fn look(&mut self) -> Result<Look, CallError> {
        if self.known.is_some() {
            return Ok(Look::Present);
        }
        let get = self.api.get(&self.config.name);
        match self.caller.once("get", "leases", get).await {
            Ok(lease) => {
                self.remember(lease);
                Ok(Look::Present)
            }
            Err(CallError::NotFound(_)) => Ok(Look::Absent),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, lease: Lease) -> Result<Lease, CallError> {
        let post = PostParams::default();
        let replace = self.api.replace(&self.config.name, &post, &lease);
        self.caller.once("update", "leases", replace).await
    }

    fn remember(&mut self, lease: Lease) {
        let spec = lease.spec.clone().unwrap_or_default();
        let record = Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds,
            acquired: spec.acquire_time.map(|time| time.0.to_string()),
            renewed: spec.renew_time.map(|time| time.0.to_string()),
            transitions: spec.lease_transitions.unwrap_or(0),
        };
        self.seen = Some(observe(self.seen.take(), record, clock::monotonic()));
        self.known = Some(lease);
    }

    /// We lead: what follows is counted from `began`, when the request that shows it had not been sent yet.
    fn lead_from(&mut self, began: Instant) {
        let term = Term { until: began + self.config.renew_deadline, writes_end: began + self.config.writes_end() };
        if self.until.is_none() || self.trouble.is_some() {
            tracing::info!(lease = self.lease(), identity = self.config.identity, "leading");
        }
        self.trouble = None;
        self.until = Some(term.until);
        self.state.send_replace(State::Leading(Some(term)));
    }

    /// The lease with us as its holder, from now.
    fn lease_with(&self, old: Option<&Lease>, transitions: i32) -> Lease {
        let mut lease = old.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.config.name.clone()),
                namespace: Some(self.config.namespace.clone()),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        });
        let now = MicroTime(clock::now());
        if !self.marks.is_empty() {
            lease.metadata.annotations.get_or_insert_default().extend(self.marks.clone());
        }
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.config.identity.clone());
        spec.renew_time = Some(now);
        spec.lease_transitions = Some(transitions);
        spec.lease_duration_seconds = Some(i32::try_from(self.config.lease_duration.as_secs()).unwrap_or(i32::MAX));
        lease
    }

    /// Empties the holder, so that the next one need not wait. Only while we surely hold it, and only once.
    async fn give_back(mut self) {
        self.state.send_replace(State::Lost);
        let leading = self.until.is_some_and(|until| clock::monotonic() < until);
        if !leading {
            return;
        }
        // A renewal that was cut off may have been done: what we know can be one version behind, hence twice.
        let mut given = self.give_back_once().await;
        if matches!(given, Err(CallError::Conflict(_))) {
            self.known = None;
            given = self.give_back_once().await;
        }
        match given {
            Ok(()) => tracing::info!(lease = self.lease(), "lease given back"),
            Err(error) => tracing::warn!(lease = self.lease(), %error, "lease not given back"),
        }
    }

    async fn give_back_once(&mut self) -> Result<(), CallError> {
        self.look().await?;
        let Some(mut lease) = self.known.take() else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let now = MicroTime(clock::now());
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        self.put(lease).await.map(drop)
    }

    fn lost(&self, why: String) -> LeadershipLost {
        let last = self.trouble.as_ref().map(|last| format!(" ({last})"));
        LeadershipLost { lease: self.lease(), why: format!("{why}{}", last.unwrap_or_default()) }
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    /// Logs what keeps us from leading, when it is another thing than before.
    fn note(&mut self, what: String) {
        if self.trouble.as_ref() != Some(&what) {
            tracing::info!(lease = self.lease(), "{what}");
            self.trouble = Some(what);
        }
    }
}
