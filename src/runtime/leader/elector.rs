//! Sends the requests that acquire, renew and release the lease, and detects its loss.
//!
//! The thin shell around [`super::decide`]; its front door is `mod.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;

use super::decide::{Handover, Observed, Presence, Record, Step, decide, handover, observe};
use super::{LeaderConfig, LeadershipLost, Release, ReleaseRule, State, Term};
use crate::runtime::call::{CallError, Caller};
use crate::runtime::clock;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::watch::{Relist, WENT_BACK};

/// Tries to acquire the lease, then renews it.
pub struct Elector {
    pub(super) api: Api<Lease>,
    pub(super) caller: Caller,
    pub(super) config: LeaderConfig,
    pub(super) state: watch::Sender<State>,
    /// The lease as the server last returned it, to be replaced; `None` when it must be read first.
    pub(super) known: Option<Lease>,
    pub(super) seen: Option<Observed>,
    /// We lead until then; `None` when we do not lead.
    pub(super) until: Option<Instant>,
    /// Whether a write of the lease was sent and has no known outcome: we may hold it without knowing it.
    pub(super) unanswered: bool,
    /// The last logged reason for not leading, until it is over.
    trouble: Option<String>,
    /// Annotations that are written with every write of the lease.
    marks: BTreeMap<String, String>,
    /// How the lease came to us; `None` when we never led.
    handover: Option<Handover>,
    pub(super) rule: ReleaseRule,
    /// What the leader says of its end.
    pub(super) release: Arc<OnceLock<Release>>,
    /// The newest version of the lease in any answer; 0 before the first.
    newest: u64,
    /// When the last request about the lease was sent that was answered.
    asked: Option<Instant>,
    /// Since when each read has shown that the lease does not exist.
    absent: Option<Instant>,
    /// Where it is reported that the cluster went back, and which version it had not passed when.
    relist: Relist,
}

impl Elector {
    pub(super) fn new(
        api: Api<Lease>,
        caller: Caller,
        config: LeaderConfig,
        state: watch::Sender<State>,
        release: Arc<OnceLock<Release>>,
    ) -> Self {
        Self {
            api,
            caller,
            config,
            state,
            known: None,
            seen: None,
            until: None,
            unanswered: false,
            trouble: None,
            marks: BTreeMap::new(),
            handover: None,
            rule: ReleaseRule::Always,
            release,
            newest: 0,
            asked: None,
            absent: None,
            relist: Relist::new(),
        }
    }

    /// Sets what is done with the lease at the end.
    #[must_use]
    pub fn releasing(mut self, rule: ReleaseRule) -> Self {
        self.rule = rule;
        self
    }

    /// Adds an annotation that the lease has while we hold it.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.marks.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Reports to `relist` that the cluster went back (the answer to a write of the lease has an older version than an answer before), and
    /// continues its timeline.
    #[must_use]
    pub fn reporting_to(mut self, relist: Relist) -> Self {
        self.relist = relist;
        self
    }

    /// Runs until `stop`, and then releases the lease, if the [`ReleaseRule`] allows it. The work must have ended before.
    ///
    /// # Errors
    /// [`LeadershipLost`]: the work must end now.
    pub async fn run(mut self, stop: Shutdown) -> Result<(), LeadershipLost> {
        loop {
            let began = clock::through_suspension();
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
        self.release().await;
        Ok(())
    }

    /// Returns the pause until the next round, counted from the beginning of this one: an attempt without an answer for longer than a retry
    /// period has waited enough. Near the deadline the rounds come closer together.
    fn pause(&self, began: Instant) -> Duration {
        let now = clock::through_suspension();
        let retry = (began + self.config.retry_period).saturating_duration_since(now);
        self.until.map_or(retry, |until| retry.min(self.share(until.saturating_duration_since(now))))
    }

    /// Returns how much of the time until the deadline one attempt, or one pause, may take. It is half of it, so that there is always
    /// another attempt, but at least an eighth of a retry period, so that the attempts come to an end. It is never more than what is left.
    fn share(&self, left: Duration) -> Duration {
        left.min((left / 2).max(self.config.retry_period / 8))
    }

    /// Makes one attempt, and updates the leadership from its result.
    async fn round(&mut self) -> Result<(), LeadershipLost> {
        // While we lead, no attempt takes more than its share of the time that is left.
        let tried = match self.until {
            None => self.attempt().await,
            Some(until) => {
                match tokio::time::timeout(self.share(until.saturating_duration_since(clock::through_suspension())), self.attempt()).await {
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
            Ok(Step::Wait { holder }) => self.note(format!("another process holds the lease: {holder}; waiting")),
            Ok(Step::WaitForHolder { .. }) => self.note(format!(
                "the lease does not exist; if a process held it, that process creates it again; waiting for {:?}",
                self.config.lease_duration
            )),
            Ok(_) => {}
            Err(error) => self.note(format!("cannot acquire the lease: {error}")),
        }
        match self.until {
            Some(until) if clock::through_suspension() >= until => Err(self.lost("it could not be renewed in time".to_owned())),
            Some(_) | None => Ok(()),
        }
    }

    /// Makes one attempt. After a conflict (what we replaced was not the newest) it reads and decides once more, at once: when another process has
    /// taken the lease, we must not work against it for another retry period. Once only, so that a server with constant conflicts is not flooded.
    async fn attempt(&mut self) -> Result<Step, CallError> {
        let from_memory = self.known.is_some();
        match self.try_once().await {
            Err(CallError::Conflict(_) | CallError::NotFound(_)) if from_memory => self.try_once().await,
            other => other,
        }
    }

    async fn try_once(&mut self) -> Result<Step, CallError> {
        let presence = self.presence().await?;
        let began = clock::through_suspension();
        let lease = self.config.lease_duration;
        let step = decide(self.seen.as_ref(), presence, &self.config.identity, lease, began);
        let comes = handover(self.seen.as_ref(), &step);
        if matches!(step, Step::Wait { .. } | Step::WaitForHolder { .. }) {
            // It changes only on the server: read it again next time.
            (self.known, self.unanswered) = (None, false);
            return Ok(step);
        }
        // Also the end of this process may cut it off.
        self.unanswered = true;
        let written = match &step {
            Step::Wait { .. } | Step::WaitForHolder { .. } => return Ok(step),
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
        self.unanswered = matches!(&written, Err(error) if error.outcome_unknown());
        match written {
            Ok(lease) => {
                self.notice_going_back(&lease);
                self.asked = Some(began);
                self.continue_timeline(&lease);
                self.remember(lease);
                self.lead_from(began, comes);
                Ok(step)
            }
            Err(error) => {
                // After any error our copy may be old: also a write that timed out may have been done.
                self.known = None;
                Err(error)
            }
        }
    }

    /// Returns whether the lease exists, and reads it unless the last answer about it is still valid.
    pub(super) async fn presence(&mut self) -> Result<Presence, CallError> {
        if self.known.is_some() {
            return Ok(Presence::Present);
        }
        let (sent, get) = (clock::through_suspension(), self.api.get(&self.config.name));
        match self.caller.once("get", "leases", get).await {
            Ok(lease) => {
                self.continue_timeline(&lease);
                self.asked = Some(sent);
                self.remember(lease);
                Ok(Presence::Present)
            }
            Err(CallError::NotFound(_)) => Ok(Presence::Absent { since: *self.absent.get_or_insert_with(clock::through_suspension) }),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn put(&self, lease: Lease) -> Result<Lease, CallError> {
        let post = PostParams::default();
        let replace = self.api.replace(&self.config.name, &post, &lease);
        self.caller.once("update", "leases", replace).await
    }

    /// Notices from the answer to a write that the cluster went back. A write passes through etcd, so its answer has the newest version
    /// there is; a read may come from an API server that is behind.
    fn notice_going_back(&mut self, written: &Lease) {
        let version = version(written);
        if (1..self.newest).contains(&version) {
            tracing::warn!(lease = self.lease(), version, seen = self.newest, "{WENT_BACK}");
            self.newest = version;
            self.relist.went_back(version);
        }
    }

    /// Notes that the cluster had not passed the version of this lease when the request before was sent: it did not exist yet.
    fn continue_timeline(&self, lease: &Lease) {
        let version = version(lease);
        if let Some(asked) = self.asked.filter(|_| version > self.newest) {
            self.relist.timeline().record(asked, version);
        }
    }

    fn remember(&mut self, lease: Lease) {
        self.newest = self.newest.max(version(&lease));
        let spec = lease.spec.clone().unwrap_or_default();
        let record = Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds,
            acquired: spec.acquire_time.map(|time| time.0.to_string()),
            renewed: spec.renew_time.map(|time| time.0.to_string()),
            transitions: spec.lease_transitions.unwrap_or(0),
            drained: self.is_drained(&lease, spec.lease_transitions.unwrap_or(0)),
        };
        self.absent = None;
        self.seen = Some(observe(self.seen.take(), record, clock::through_suspension()));
        self.known = Some(lease);
    }

    /// Whether the lease has the mark of its last holder. The mark names the number of transitions: a holder that does not know the mark copies it,
    /// but has another number.
    fn is_drained(&self, lease: &Lease, transitions: i32) -> bool {
        let ReleaseRule::Marked(key) = self.rule else { return false };
        let mark = lease.metadata.annotations.as_ref().and_then(|all| all.get(key));
        mark.is_some_and(|mark| *mark == transitions.to_string())
    }

    /// Starts a term. Its times count from `began`, when the successful request had not been sent yet. The first term says how the lease came.
    fn lead_from(&mut self, began: Instant, comes: Handover) {
        let version = self.known.as_ref().map_or(0, version);
        let term = Term { until: began + self.config.renew_deadline, writes_end: began + self.config.writes_end(), version };
        if self.until.is_none() || self.trouble.is_some() {
            tracing::info!(lease = self.lease(), identity = self.config.identity, "leading");
        }
        self.trouble = None;
        self.until = Some(term.until);
        let handover = *self.handover.get_or_insert(comes);
        self.state.send_replace(State::Leading(handover, Some(term)));
    }

    /// Returns the lease with us as its holder, from now.
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
        if let (ReleaseRule::Marked(key), Some(annotations)) = (self.rule, &mut lease.metadata.annotations) {
            annotations.remove(key);
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

    fn lost(&self, why: String) -> LeadershipLost {
        let last = self.trouble.as_ref().map(|last| format!(" ({last})"));
        LeadershipLost { lease: self.lease(), why: format!("{why}{}", last.unwrap_or_default()) }
    }

    pub(super) fn lease(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    /// Logs the reason for not leading, when it is another than before.
    fn note(&mut self, what: String) {
        if self.trouble.as_ref() != Some(&what) {
            tracing::info!(lease = self.lease(), "{what}");
            self.trouble = Some(what);
        }
    }
}

/// Returns the version of a lease; 0 if it has none that is a number.
fn version(lease: &Lease) -> u64 {
    lease.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
