//! The world of a case: its own cluster with the chart, both programs behind proxies, and the observer.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::Client;

use crate::cluster::{Cluster, ClusterOptions};
use crate::faults::{Counts, Faults, HttpProxy, Mix, PATIENCE, Rate, Rule, Told, add};
use crate::objects::SCHEDULER_NAME;
use crate::observer::JudgedConstraints;
use crate::programs::{LEASE, Program, Restarts, shipped};
use crate::proxy::{Proxy, SeededRandom};
use crate::rights::{self, Rights};
use crate::scratch::Scratch;
pub use crate::setup::Setup;
use crate::wait::{Patience, secs};
use crate::watched::Watched;
use crate::{chart, kubeconfig, requests, say};

/// The world. Dropping it ends everything in it.
pub struct World {
    // Fields are dropped in this order: users of the cluster before the cluster.
    watched: Option<Watched>,
    /// Only under the mix of faults.
    restarts: Option<Restarts>,
    controller: Option<Side>,
    scheduler: Option<Side>,
    /// The second replicas.
    seconds: Vec<Side>,
    cluster: Cluster,
    patience: Patience,
    /// Whether [`Self::begin_fault_mix`] starts a mix.
    mixed: bool,
    /// How many bindings the observer has judged by constraints, once it has ended.
    judged: JudgedConstraints,
    /// The seed of the proxies' random delays, and of the numbers that a case draws.
    pub seed: u64,
}

/// How long a lease of two replicas lasts. A leader that is killed is missed for so long.
pub const LEASE_OF_TWO_SECONDS: u64 = 10;

/// The flags of two replicas.
const LEASE_OF_TWO: [&str; 3] = ["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=1s"];

/// A replica to be started.
struct Replica {
    account: &'static str,
    number: u32,
    /// Whether there is another replica of this program.
    of_two: bool,
    flags: Vec<String>,
}

struct Side {
    program: Program,
    faults: Option<HttpProxy>,
    path: Option<Proxy>,
}

impl World {
    /// Starts only the cluster, in `scratch`; [`Self::install`] does the rest. With two steps, the state after a failed second step can be read.
    pub async fn bare(scratch: Scratch, name: &str, setup: &Setup, seed: u64) -> Result<Self> {
        let options = ClusterOptions {
            name: name.to_owned(),
            kube_scheduler: setup.kube_scheduler || setup.stock_places,
            also_places: if setup.stock_places { vec![SCHEDULER_NAME.to_owned()] } else { Vec::new() },
            disable_qps_limits: setup.disable_qps_limits,
            jobs_run_on: setup.jobs_run_on,
            ..ClusterOptions::default()
        };
        if let Some(folder) = shipped().filter(|_| setup.shipped) {
            // What is linked first is what is started in this run under that name.
            for name in [chart::CONTROLLER, chart::SCHEDULER] {
                scratch.link(&folder.join(name).canonicalize().with_context(|| format!("the release program {name}"))?)?;
            }
        }
        let cluster = Cluster::start_in(scratch, options).await?;
        Ok(Self {
            watched: None,
            restarts: None,
            controller: None,
            scheduler: None,
            seconds: Vec::new(),
            cluster,
            patience: Patience::default(),
            mixed: setup.faults == Faults::Mix,
            judged: JudgedConstraints::default(),
            seed,
        })
    }

    /// Installs the chart, starts observer and programs, and returns when they are ready. Does nothing if the settings have no programs.
    pub async fn install(&mut self, setup: &Setup) -> Result<()> {
        if !setup.programs {
            return Ok(());
        }
        let values = setup.values();
        chart::install(&self.cluster, &values.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        self.watched = Some(match setup.no_oracle {
            true => Watched::without_oracle(&self.cluster, &setup.schedulers()).await?,
            false => Watched::start(&self.cluster, &setup.schedulers()).await?,
        });
        let mut random = SeededRandom(self.seed);
        let mut seed = || (!setup.no_proxies).then(|| random.draw_number());
        let of = |account, number| Replica { account, number, of_two: setup.replicas, flags: setup.flags(account) };
        let mut controller = self.side(of(chart::CONTROLLER, 1), seed(), setup.faults).await?;
        let mut scheduler = match setup.stock_places {
            true => None,
            false => Some(self.side(of(chart::SCHEDULER, 1), seed(), setup.faults).await?),
        };
        let mut seconds = Vec::new();
        if setup.replicas {
            seconds.push(self.side(of(chart::CONTROLLER, 2), seed(), setup.faults).await?);
            seconds.push(self.side(of(chart::SCHEDULER, 2), seed(), setup.faults).await?);
        }
        let ready = async {
            for side in [Some(&mut controller), scheduler.as_mut()].into_iter().flatten().chain(&mut seconds) {
                side.program.wait_ready().await?;
            }
            Ok(())
        };
        tokio::try_join!(ready, chart::settle(&self.cluster, setup.admission_policy))?;
        self.scheduler = scheduler;
        self.controller = Some(controller);
        self.seconds = seconds;
        if setup.faults == Faults::Mix {
            let (absences, patience) = (self.watched.as_ref().map(Watched::absences), self.patience());
            self.restarts = Some(match setup.replicas {
                true => Restarts::of_two(self.programs(), patience),
                false => Restarts::start(self.programs(), absences, patience),
            });
        }
        self.begin_fault_mix();
        Ok(())
    }

    /// Starts a replica. With a seed it runs behind its own proxy, and with faults behind a fault proxy before that proxy.
    async fn side(&self, replica: Replica, seed: Option<u64>, faults: Faults) -> Result<Side> {
        let Replica { account, number, of_two, mut flags } = replica;
        let label = if number == 1 { account.to_owned() } else { format!("{account}-{number}") };
        let (server, authority) = kubeconfig::door(self.cluster.kubeconfig())?;
        let path = match seed {
            Some(seed) => Some(Proxy::start(server, seed).await?),
            None => None,
        };
        let port = path.as_ref().map_or(server, Proxy::port);
        let mixed = faults == Faults::Mix;
        let faults = match faults {
            Faults::None => None,
            Faults::Aimed | Faults::Mix => {
                Some(HttpProxy::start(self.cluster.kubeconfig(), port, &self.cluster.scratch().path("logs"), &label).await?)
            }
        };
        let kubeconfig = match &faults {
            Some(faults) => chart::kubeconfig_as(&self.cluster, account, &label, faults.port(), faults.authority()).await?,
            None => chart::kubeconfig_as(&self.cluster, account, &label, port, &authority).await?,
        };
        if of_two {
            flags.extend(LEASE_OF_TWO.map(str::to_owned));
        } else if mixed {
            // On a busy machine the mix alone can stop the renewals for ten seconds; a lost lease is another case. Forty seconds are possible only
            // when etcd also elects another leader: hence the kubelet.
            flags.extend([format!("--leader-elect-lease-duration={}s", LEASE.as_secs()), "--leader-elect-renew-deadline=40s".to_owned()]);
        }
        // The programs use it as their name, as in a pod: their identity in the Lease begins with it.
        let name = of_two.then(|| ("HOSTNAME".to_owned(), label.clone()));
        let program = Program::start_as(self.cluster.scratch(), account, &label, &kubeconfig, &flags, name.as_slice())?;
        Ok(Side { program, faults, path })
    }

    /// Returns the control plane.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns a client as cluster admin, for the actions of users and other controllers.
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Returns the controller's process.
    pub fn controller(&mut self) -> Result<&mut Program> {
        Ok(&mut self.controller.as_mut().context("this world has no controller")?.program)
    }

    /// Returns the scheduler's process.
    pub fn scheduler(&mut self) -> Result<&mut Program> {
        Ok(&mut self.scheduler.as_mut().context("this world has no scheduler")?.program)
    }

    /// Returns the proxy between the controller and the API server.
    pub fn controller_path(&self) -> Result<&Proxy> {
        self.controller.as_ref().and_then(|side| side.path.as_ref()).context("nothing lies between the controller and the API server")
    }

    /// Returns the proxy between the scheduler and the API server.
    pub fn scheduler_path(&self) -> Result<&Proxy> {
        self.scheduler.as_ref().and_then(|side| side.path.as_ref()).context("nothing lies between the scheduler and the API server")
    }

    /// Returns the programs of this world.
    pub fn programs(&mut self) -> impl Iterator<Item = &mut Program> {
        [&mut self.controller, &mut self.scheduler].into_iter().flatten().chain(&mut self.seconds).map(|side| &mut side.program)
    }

    /// Returns the replicas of one program, the first one first.
    pub fn replicas(&mut self, name: &str) -> Vec<&mut Program> {
        self.programs().filter(|program| program.name() == name).collect()
    }

    /// Returns the observer, for a case that breaks something on purpose.
    pub fn watched(&self) -> Result<&Watched> {
        self.watched.as_ref().context("this world has no observer")
    }

    /// Starts the mix of faults (again), if the settings have one: waits and the observer's graces are longer from now on. It is on when the programs
    /// are ready.
    pub fn begin_fault_mix(&self) {
        if !self.mixed {
            return;
        }
        // The scheduler has fewer faults in most cases: they test the controller, and without the scheduler no pod would run.
        let sides = [&self.controller, &self.scheduler].into_iter().flatten().chain(&self.seconds);
        for (side, number) in sides.zip(1..) {
            let rate = if side.program.name() == chart::CONTROLLER || !self.seconds.is_empty() { Rate::HIGH } else { Rate::LOW };
            if let Some(faults) = &side.faults {
                let (patience, longer) = (self.patience.clone(), self.watched.as_ref().map(Watched::absences));
                let told = Told::new(move |more| {
                    patience.obeys(more);
                    longer.iter().for_each(|longer| longer.longer(PATIENCE + more));
                });
                faults.begin(Mix { seed: SeededRandom(self.seed ^ number).draw_number(), rate }, told);
                self.patience.set(PATIENCE);
                self.watched.iter().for_each(|watched| watched.patient(PATIENCE));
            }
        }
    }

    /// Ends the mix of faults and waits until no delayed request is left and every program leads again; from now on the deadlines of the
    /// table hold. It must be called before "within N s of the end" of a case. Without faults it does nothing.
    pub async fn end_faults(&self) -> Result<()> {
        try_join_all(self.fault_proxies().map(HttpProxy::end_faults)).await?;
        if let Some(restarts) = &self.restarts {
            restarts.all_back().await?;
        }
        self.patience.set(Duration::ZERO);
        self.watched.iter().for_each(Watched::strict);
        Ok(())
    }

    /// Adds a rule for the requests of the scheduler. Only with faults in the settings.
    pub fn inject(&self, rule: Rule) -> Result<()> {
        self.scheduler_faults()?.rule(rule);
        Ok(())
    }

    /// Lets the requests of the scheduler go that are held at this moment ([`crate::faults::Fault::HoldRequest`]). Returns how many were
    /// held or delayed.
    pub fn let_go(&self) -> Result<usize> {
        Ok(self.scheduler_faults()?.release())
    }

    /// Returns how often this kind of fault (see [`crate::faults::KINDS`]) has hit a request of the scheduler.
    pub fn hits(&self, kind: &str) -> Result<u64> {
        Ok(self.scheduler_faults()?.counts().get(kind).copied().unwrap_or_default())
    }

    /// Returns the fault proxy before the scheduler. Only with faults in the settings.
    pub fn scheduler_faults(&self) -> Result<&HttpProxy> {
        self.scheduler.as_ref().and_then(|side| side.faults.as_ref()).context("no fault proxy lies before the scheduler")
    }

    /// Returns the counts of the injected faults so far, of both programs.
    pub fn faults(&self) -> Counts {
        let mut all = Counts::new();
        self.fault_proxies().for_each(|faults| add(&mut all, &faults.counts()));
        all
    }

    /// Describes which programs lost their lease and were started again, and how often.
    pub fn started_again(&mut self) -> Vec<String> {
        let often = self.programs().map(|program| (program.name(), program.started_again())).filter(|(_, often)| *often > 0);
        often.map(|(name, often)| format!("{name} lost its lease and was started again: {often}")).collect()
    }

    /// Returns the patience with which the steps of a case are waited for.
    pub fn patience(&self) -> Patience {
        self.patience.clone()
    }

    fn fault_proxies(&self) -> impl Iterator<Item = &HttpProxy> {
        let sides = [&self.controller, &self.scheduler].into_iter().flatten().chain(&self.seconds);
        sides.filter_map(|side| side.faults.as_ref())
    }

    /// Describes the faults that were ordered and never injected, also the kinds that a mix has dealt. The mixes of all programs are judged
    /// as one: the program that a case does not test has few requests and the low rate, so that a short case may rightly inject nothing
    /// there.
    pub fn never_injected(&self) -> Vec<String> {
        let mut never: Vec<String> = self.fault_proxies().flat_map(HttpProxy::never_injected).collect();
        let mut mixed = self.fault_proxies().filter(|proxy| proxy.mixed()).peekable();
        if mixed.peek().is_some() && mixed.all(|proxy| proxy.counts().is_empty()) {
            never.push("the mix".to_owned());
        }
        let (due, counts): (BTreeSet<_>, _) = (self.fault_proxies().flat_map(HttpProxy::due).collect(), self.faults());
        never.extend(due.into_iter().filter(|kind| !counts.contains_key(kind)).map(|kind| format!("{kind}, which the mix dealt")));
        never
    }

    /// Returns the observer's findings so far.
    pub fn findings(&self) -> Vec<String> {
        self.watched.as_ref().map(Watched::findings).unwrap_or_default()
    }

    /// Returns all requests of both programs so far.
    pub fn requests(&self) -> Result<requests::Requests> {
        requests::read(&self.cluster.audit_log(), &[chart::user(chart::CONTROLLER), chart::user(chart::SCHEDULER)])
    }

    /// Returns the rights that the programs have and those that they have used so far; none of a cluster that does not answer.
    pub async fn rights(&self) -> Rights {
        let mut granted = BTreeSet::new();
        for program in [chart::CONTROLLER, chart::SCHEDULER] {
            let asked = tokio::time::timeout(secs(5), rights::granted_to(&self.client(), program)).await;
            granted.extend(asked.ok().and_then(Result::ok).unwrap_or_default());
        }
        let used = rights::used(&self.cluster.audit_log(), &granted).unwrap_or_default();
        Rights { granted, used }
    }

    /// Returns everything that is wrong with the run, whatever the result of the case: the observer's findings, a program that ended by itself, a
    /// request that the chart's RBAC refused. With `rest` also what is wrong with a cluster at rest. Ends the observer.
    pub async fn verdict(&mut self, rest: bool) -> Vec<String> {
        let excused = self.watched.as_ref().map(Watched::excused_refusals).unwrap_or_default();
        let mut against = match self.watched.take() {
            Some(watched) => {
                let (findings, judged) = watched.finish(rest && self.scheduler.is_some()).await;
                self.judged = judged;
                findings.iter().map(|each| format!("the observer: {each}")).collect()
            }
            None => Vec::new(),
        };
        against.extend(self.programs().filter_map(Program::unexpected_end));
        if self.controller.is_some() {
            match self.requests() {
                Ok(requests) => {
                    let refused = requests.refused.into_iter().filter(|(at, _)| !excused.holds(*at));
                    against.extend(refused.map(|(_, text)| text).take(10));
                }
                Err(error) => against.push(say::brief(&error)),
            }
        }
        against
    }

    /// Returns how many bindings the observer has judged by constraints; none before [`Self::verdict`].
    pub const fn judged_constraints(&self) -> JudgedConstraints {
        self.judged
    }

    /// Returns whether the mix of faults is part of the case.
    pub const fn is_mixed(&self) -> bool {
        self.mixed
    }

    /// Ends the observer and lets the cluster go on, and the programs too if there are no proxies. Returns the folder.
    pub fn keep(self) -> Result<std::path::PathBuf> {
        self.cluster.keep()
    }
}
