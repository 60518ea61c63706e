//! How does a case use the observer? Start it before anything happens, ask for findings at any time, stop it at the end.

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
use super::core::Core;
use super::facts::Names;
use super::finding::Finding;
use super::judge::Graces;
use super::tail::Tail;
use super::watch::{KINDS, barrier, watch};

/// How often the history is judged and the log is read.
const BEAT: Duration = Duration::from_millis(100);
/// How long a change is held back, so that a slower watch can still put something before it. What comes later still is judged anew.
const HOLD: i64 = 1000;
/// How long to wait for the watches to reach a state that a list has shown, and for the log to show a request of our own.
const CATCH_UP: Duration = Duration::from_secs(30);

/// What the observer is told about the cluster.
#[derive(Debug, Clone)]
pub struct ObserverConfig {
    /// The names and labels of the API that the programs agree on.
    pub names: Names,
    /// The API server's audit log; without it checks 7 and 8 are not made. Its policy must log every request on PodGroups, whoever makes it, at level
    /// Request (for the preconditions, and so that the observer can see how far the log has come), and every request of the two programs.
    pub audit_log: Option<PathBuf>,
    /// The user that the controller is.
    pub controller_user: String,
    /// The user that the scheduler is.
    pub scheduler_user: String,
    /// The graces of the checks.
    pub graces: Graces,
}

impl ObserverConfig {
    /// The names of a release `podgroup` in namespace `podgroup-system`, for one scheduler name, and no audit log.
    pub fn of_chart(scheduler: &str) -> Self {
        let account = |name: &str| format!("system:serviceaccount:podgroup-system:{name}");
        let names = Names {
            schedulers: [scheduler.to_owned()].into(),
            generated_prefix: "podgroup-".to_owned(),
            managed_by: ("podgroup.dev/managed-by".to_owned(), "podgroup-controller".to_owned()),
            queue_annotation: "podgroup.dev/queue".to_owned(),
            group_annotations: ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"].map(str::to_owned).into(),
        };
        let (controller_user, scheduler_user) = (account("podgroup-controller"), account("podgroup-scheduler"));
        Self { names, audit_log: None, controller_user, scheduler_user, graces: Graces::default() }
    }
}

/// The state that the watches share; every use is short and holds no await.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Core>>);

impl Shared {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells an observer that who would have to act is away; for who is not where the observer is.
#[derive(Debug, Clone)]
pub struct Absences(Shared);

impl Absences {
    /// From now on checks 1, 2 and 6 wait for who is away, until [`Absences::end`], but for no object so much longer than they always do.
    pub fn begin(&self, at_most: Duration) {
        let at_most = i64::try_from(at_most.as_millis()).unwrap_or(i64::MAX);
        self.0.with(|core| core.absent(at_most));
    }

    /// Ends that; what is wrong at this moment has its usual grace again.
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
    /// Starts the watches and returns when every kind has been listed: what happens from then on is judged.
    ///
    /// # Errors
    /// When the lists are not there after half a minute, with the reason.
    pub async fn start(client: Client, config: ObserverConfig) -> Result<Self> {
        let audit = Audit::new(&config.controller_user, &config.scheduler_user);
        let tail = config.audit_log.map(Tail::new);
        let has_log = tail.is_some();
        let shared = Shared(Arc::new(Mutex::new(Core::new(Clock::start(), config.names, config.graces, audit, tail))));
        let mut tasks = JoinSet::new();
        for of in KINDS {
            tasks.spawn(watch(client.clone(), of, shared.clone()));
        }
        let deadline = deadline(Duration::from_secs(30));
        while !shared.with(|core| core.is_complete()) {
            ensure!(Instant::now() < deadline, "the observer could not list everything: {:?}", shared.with(|core| core.why_blind()));
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

    /// What was found so far, about a second behind the present. Empty is not yet proof: see [`Observer::at_rest`] and [`Observer::stop`].
    pub fn findings(&self) -> Vec<Finding> {
        self.shared.with(|core| core.findings())
    }

    /// How often each user made each call so far.
    pub fn api_calls(&self) -> BTreeMap<Call, u64> {
        self.shared.with(|core| core.audit.calls().clone())
    }

    /// How many bindings by S were judged so far: where it is 0, the silence of checks 3 and 4 says nothing.
    pub fn judged_bindings(&self) -> u64 {
        self.shared.with(|core| core.judged_bindings())
    }

    /// From now on a check asserts nothing, until [`Observer::insist`]: for a case that breaks it on purpose (the controller is down). Only 1, 2 and 6
    /// can be excused, and 8 for requests that are received meanwhile (by an API server that has only just been started).
    pub fn excuse(&self, check: u8) {
        self.shared.with(|core| core.excuse(check));
    }

    /// When refusals were excused.
    pub fn excused_refusals(&self) -> Excused {
        self.shared.with(|core| core.audit.excused().clone())
    }

    /// Ends an excuse; what is wrong at this moment has its whole grace again.
    pub fn insist(&self, check: u8) {
        self.shared.with(|core| core.insist(check));
    }

    /// From now on checks 1, 2 and 6 wait so much longer, until [`Observer::strict`]: the programs' way to the API server is bad on purpose. Checks 3 and 4 forgive the
    /// scheduler for so much longer (a minute at most) that it has not seen what *others* changed; what it bound itself counts at once as ever.
    pub fn patient(&self, extra: Duration) {
        let extra = i64::try_from(extra.as_millis()).unwrap_or(i64::MAX);
        self.shared.with(|core| core.patient(extra));
    }

    /// Ends that; what is wrong at this moment has its usual grace again, and no more.
    pub fn strict(&self) {
        self.shared.with(Core::strict);
    }

    /// For who sees that a program is away.
    pub fn absences(&self) -> Absences {
        Absences(self.shared.clone())
    }

    /// Waits until the cluster, seen completely, is right: every queue's `status.allocated` is the sum of its pods' requests (5), and 1 and 2 hold without
    /// any grace. It must be so twice running.
    ///
    /// # Errors
    /// What is still wrong at the deadline, or what the observer could not see.
    pub async fn at_rest(&self, timeout: Duration) -> Result<(), Vec<Finding>> {
        let deadline = deadline(timeout);
        let mut right_before = false;
        loop {
            let wrong = match self.catch_up().await {
                Ok(()) => self.shared.with(|core| core.at_rest()),
                Err(error) => vec![self.shared.with(|core| core.own_fault(&format!("{error:#}")))],
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

    /// Sees everything up to now, ends the watches, and gives all findings. Check 5 is not among them: whether the cluster is at rest only the case knows.
    pub async fn stop(mut self) -> Vec<Finding> {
        let complete = self.catch_up().await;
        self.tasks.shutdown().await;
        self.shared.with(|core| {
            core.beat(0);
            let mut all = core.findings();
            if let Err(error) = complete {
                all.push(core.own_fault(&format!("{error:#}")));
            }
            all
        })
    }

    /// Waits until the history holds everything that has happened before this call, in all kinds and in the log.
    async fn catch_up(&self) -> Result<()> {
        let deadline = deadline(CATCH_UP);
        let reached = barrier(&self.client).await.context("a list to compare with")?;
        let marker = self.shared.with(Core::new_marker);
        if self.has_log {
            // Of PodGroups, because these are what every audit policy that serves check 7 has to log.
            let groups =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"), "podgroups");
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &groups);
            api.get_opt(&marker).await.context("a request to be seen in the audit log")?;
        }
        loop {
            let behind = self.shared.with(|core| {
                core.beat(0);
                let kinds = reached.iter().filter(|reached| !core.has(reached)).map(|reached| format!("{:?}", reached.kind));
                let log = (self.has_log && !core.audit.has_read(&marker)).then(|| "the audit log".to_owned());
                kinds.chain(log).collect::<Vec<_>>()
            });
            if behind.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the observer has not caught up with {}", behind.join(", "));
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}
