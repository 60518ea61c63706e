//! The interface of the observer for a case: start it before anything happens, ask for findings at any time, stop it at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::audit::{Audit, Call, Excused};
use super::clock::Clock;
use super::constraints::{Constraints, JudgedConstraints};
use super::core::Core;
use super::facts::Names;
use super::finding::Finding;
use super::judge::Graces;
use super::watch::{KINDS, Reached, barrier, watch};
use crate::audit_log::{AuditLog, Position};

/// How often the observer judges the history and reads the log.
const BEAT: Duration = Duration::from_millis(100);
/// How long a change is held back, in milliseconds, so that a slower watch can still insert an earlier change. An even later change causes
/// a new judgement.
const HOLD: i64 = 1000;
/// How long to wait until the watches reach the state of a list, and until the log shows a request of the observer.
const CATCH_UP: Duration = Duration::from_secs(120);

/// The settings of the observer for one cluster.
#[derive(Debug, Clone)]
pub struct ObserverConfig {
    /// The names and labels that the programs use in the API.
    pub names: Names,
    /// The audit log of the API server; without it there are no checks 7 and 8.
    ///
    /// Its policy must log every request on PodGroups by any user at level Request, for the preconditions and for the marker requests.
    /// It must also log every request of the two programs.
    pub audit_log: Option<PathBuf>,
    /// The user of the controller.
    pub controller_user: String,
    /// The user of the scheduler.
    pub scheduler_user: String,
    /// The grace of each check.
    pub graces: Graces,
    /// The program that asks kube-scheduler's filters about each binding; without it there is no check 10, nor the first half of 11.
    pub oracle: Option<PathBuf>,
}

impl ObserverConfig {
    /// Returns the settings of a release `podgroup` in namespace `podgroup-system`, for these scheduler names and without an audit log.
    pub fn of_chart(schedulers: &[&str]) -> Self {
        let account = |name: &str| format!("system:serviceaccount:podgroup-system:{name}");
        let names = Names {
            schedulers: schedulers.iter().map(|name| ((*name).to_owned(), 0)).collect(),
            generated_prefix: "podgroup-".to_owned(),
            managed_by: ("podgroup.dev/managed-by".to_owned(), "podgroup-controller".to_owned()),
            queue_annotation: "podgroup.dev/queue".to_owned(),
            group_annotations: ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"].map(str::to_owned).into(),
        };
        let (controller_user, scheduler_user) = (account("podgroup-controller"), account("podgroup-scheduler"));
        Self { names, audit_log: None, controller_user, scheduler_user, graces: Graces::default(), oracle: None }
    }
}

/// The state that the watches share. Each use is short and holds no lock across an await.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Core>>);

impl Shared {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A handle with which other tasks tell the observer that a program is absent.
#[derive(Debug, Clone)]
pub struct Absences(Shared);

impl Absences {
    /// Makes checks 1, 2 and 6 wait for the absent program, until [`Absences::end`]. One object may be wrong for at most `at_most` longer than usual.
    pub fn begin(&self, at_most: Duration) {
        let at_most = i64::try_from(at_most.as_millis()).unwrap_or(i64::MAX);
        self.0.with(|core| core.absent(at_most));
    }

    /// Makes the graces longer than [`Observer::patient`] did: a fault has come whose effect lasts for `extra`. A state that is wrong now
    /// may be wrong for so long; one that becomes wrong meanwhile, for what is left of that time; a later one, not at all longer.
    /// [`Observer::strict`] ends it earlier.
    pub fn longer(&self, extra: Duration) {
        let extra = i64::try_from(extra.as_millis()).unwrap_or(i64::MAX);
        self.0.with(|core| core.longer(extra));
    }

    /// Ends the absence. A state that is wrong at this moment gets its usual grace again.
    pub fn end(&self) {
        self.0.with(Core::present);
    }
}

/// A running observer. Dropping it ends its watches.
pub struct Observer {
    client: Client,
    shared: Shared,
    has_log: bool,
    tasks: JoinSet<()>,
}

impl Observer {
    /// Starts the watches and returns when every kind has been listed. Everything that happens later is judged.
    ///
    /// # Errors
    /// Returns the reasons when the lists are not complete after half a minute.
    pub async fn start(client: Client, config: ObserverConfig) -> Result<Self> {
        let audit = Audit::new(&config.controller_user, &config.scheduler_user);
        let log = config.audit_log.map(|path| AuditLog::at(path, Position::default()));
        let has_log = log.is_some();
        let constraints = Constraints::start(config.oracle.as_deref(), config.names.schedulers.clone()).context("start the oracle")?;
        let core = Core::new(Clock::start(), config.names, config.graces, audit, constraints, log);
        let shared = Shared(Arc::new(Mutex::new(core)));
        let mut tasks = JoinSet::new();
        for of in KINDS {
            tasks.spawn(watch(client.clone(), of, shared.clone()));
        }
        let deadline = deadline(Duration::from_secs(30));
        while !shared.with(|core| core.is_complete()) {
            ensure!(Instant::now() < deadline, "the observer could not list all kinds: {:?}", shared.with(|core| core.why_blind()));
            sleep(BEAT).await;
        }
        shared.with(Core::begin);
        let beating = shared.clone();
        tasks.spawn(async move {
            loop {
                beating.with(|core| core.beat(HOLD));
                sleep(BEAT).await;
            }
        });
        Ok(Self { client, shared, has_log, tasks })
    }

    /// Returns the findings so far, about one second behind the present. An empty result is not a proof yet: see [`Observer::at_rest`] and
    /// [`Observer::stop`].
    pub fn findings(&self) -> Vec<Finding> {
        self.shared.with(|core| core.findings())
    }

    /// Returns how often each user made each call so far.
    pub fn api_calls(&self) -> BTreeMap<Call, u64> {
        self.shared.with(|core| core.audit.calls().clone())
    }

    /// Returns how many bindings by the scheduler were judged. With 0, checks 3 and 4 have proved nothing.
    pub fn judged_bindings(&self) -> u64 {
        self.shared.with(|core| core.judged_bindings())
    }

    /// Returns how many evictions by the scheduler were judged. With 0, check 9 has proved little.
    pub fn judged_evictions(&self) -> u64 {
        self.shared.with(|core| core.judged_evictions())
    }

    /// Returns how many bindings were judged by the constraints of pods and their volumes (checks 10 and 11), about three seconds behind the present.
    pub fn judged_constraints(&self) -> JudgedConstraints {
        self.shared.with(|core| core.judged_constraints())
    }

    /// Suspends a check until [`Observer::insist`], for a case that breaks its conditions on purpose (the controller is down).
    ///
    /// Only checks 1, 2, 6, 8 and the timers of 9 can be suspended. Check 8 is for requests that an API server receives just after its start.
    pub fn excuse(&self, check: u8) {
        self.shared.with(|core| core.excuse(check));
    }

    /// Returns the periods in which refusals were excused.
    pub fn excused_refusals(&self) -> Excused {
        self.shared.with(|core| core.audit.excused().clone())
    }

    /// Resumes a suspended check. A state that is wrong at this moment gets its whole grace again.
    pub fn insist(&self, check: u8) {
        self.shared.with(|core| core.insist(check));
    }

    /// Makes the graces longer by `extra`, until [`Observer::strict`], while the connection of the programs to the API server is bad on purpose.
    ///
    /// Checks 1, 2, 6 and 9 wait longer. Checks 3 and 4 forgive for longer (at most one minute) that the scheduler has not seen changes by
    /// *other* clients. A pod that the scheduler bound itself always counts at once.
    pub fn patient(&self, extra: Duration) {
        let extra = i64::try_from(extra.as_millis()).unwrap_or(i64::MAX);
        self.shared.with(|core| core.patient(extra));
    }

    /// Restores the usual graces. A state that is wrong at this moment gets its usual grace again.
    pub fn strict(&self) {
        self.shared.with(Core::strict);
    }

    /// Returns a handle for a task that sees when a program is absent.
    pub fn absences(&self) -> Absences {
        Absences(self.shared.clone())
    }

    /// Waits until the cluster is completely seen and correct, twice in a row. Every queue's `status.allocated` must be the sum of the requests of
    /// its pods (check 5), and checks 1 and 2 must hold without a grace.
    ///
    /// # Errors
    /// Returns what is still wrong at the deadline, or what the observer could not see.
    pub async fn at_rest(&self, timeout: Duration) -> Result<(), Vec<Finding>> {
        let deadline = deadline(timeout);
        let mut right_before = false;
        loop {
            let wrong = match self.catch_up().await {
                Ok(()) => self.shared.with(|core| core.at_rest()),
                Err(error) => vec![self.shared.with(|core| core.own_finding(&format!("{error:#}")))],
            };
            if wrong.is_empty() && right_before {
                return Ok(());
            }
            if !wrong.is_empty() && Instant::now() >= deadline {
                return Err(wrong);
            }
            right_before = wrong.is_empty();
            sleep(BEAT).await;
        }
    }

    /// Sees everything up to now, ends the watches and returns all findings, and how many bindings were judged by constraints. Check 5 is
    /// not included, because only the case knows whether the cluster is at rest.
    pub async fn stop(mut self) -> (Vec<Finding>, JudgedConstraints) {
        let complete = self.catch_up().await;
        self.tasks.shutdown().await;
        self.shared.with(|core| {
            core.end();
            let mut all = core.findings();
            if let Err(error) = complete {
                all.push(core.own_finding(&format!("{error:#}")));
            } else if self.has_log {
                all.extend(core.unjudged());
            }
            (all, core.judged_constraints())
        })
    }

    /// Waits until the history contains everything that happened before this call, for all kinds and in the log.
    async fn catch_up(&self) -> Result<()> {
        let deadline = deadline(CATCH_UP);
        // A request may fail while the cluster is busy or restarts.
        let (marker, reached) = loop {
            match self.reach().await {
                Ok(reached) => break reached,
                Err(error) => ensure!(Instant::now() < deadline, "{error:#}"),
            }
            sleep(BEAT).await;
        };
        loop {
            let behind = self.shared.with(|core| {
                core.read_log();
                let kinds = reached.iter().filter(|reached| !core.has(reached)).map(|reached| format!("{:?}", reached.kind));
                let log = (self.has_log && !core.audit.has_read(&marker)).then(|| "the audit log".to_owned());
                kinds.chain(log).collect::<Vec<_>>()
            });
            if behind.is_empty() {
                self.shared.with(|core| core.judge(0));
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the observer is behind with {}", behind.join(", "));
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Requests a new marker, and then lists every kind. So what the log has before the marker is in the lists.
    async fn reach(&self) -> Result<(String, Vec<Reached>)> {
        let marker = self.shared.with(Core::new_marker);
        if self.has_log {
            // The marker is a PodGroup, because every audit policy for check 7 must log requests on PodGroups.
            let groups =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"), "podgroups");
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &groups);
            api.get_opt(&marker).await.context("request the marker for the audit log")?;
        }
        let reached = barrier(&self.client).await.context("list the objects to compare with")?;
        Ok((marker, reached))
    }
}

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}
