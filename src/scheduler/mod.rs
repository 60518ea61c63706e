//! The scheduler: watches → events → the one owner of the state → cycle → dispatch.
//!
//! ```text
//!            observe                   freeze              decide               act
//!  nodes ──┐ facts    ┌─────────┐ a few ms of  ┌───────┐ cycle::run ┌──────────┐ binds, statuses,
//!  pods ───┼────────► │ channel ├────────────► │ State ├──────────► │ dispatch ├──────────────────► API server
//!  groups ─┤          └─────────┘ events       └───▲───┘ commands   └────┬─────┘ conditions
//!  queues ─┘            bounded                   └──────── reports ─────┘
//!                                                         learn
//! ```
//!
//! Reading order: [`event`], [`observe`], [`state`] (the owner), [`said`] and [`tell`] (what is told to people, and when), [`command`],
//! [`dispatch`] (the only file that writes), [`debug`], [`metrics`].
//!
//! **Architecture invariant:** one task owns the state; there is no lock and no other clock than the loop's. **Architecture invariant:** nothing
//! is decided before all lists are complete, and nothing is written without the lease. When nothing happens, no timer runs.

pub mod command;
pub mod debug;
pub mod dispatch;
pub mod event;
pub mod metrics;
pub mod observe;
pub mod overcommit;
pub mod said;
pub mod state;
pub mod tell;

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::api::names::SCHEDULER;
use crate::runtime::call::Caller;
use crate::runtime::client::{Connection, connect, lease_namespace};
use crate::runtime::flags::SchedulerFlags;
use crate::runtime::http::{DebugRoute, Server};
use crate::runtime::leader::{LeaderConfig, Leadership, elect, identity};
use crate::runtime::metrics::{RequestMetrics, WatchMetrics, registry};
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::Readiness;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::{clock, logging};

use dispatch::Dispatcher;
use event::{Event, Question};
use metrics::Metrics;
use state::{Now, State};

/// How many events may wait for the owner; the watches wait while there are more, and the API server holds theirs.
const CHANNEL: usize = 1024;

/// So long after the first event others are waited for: pods of one gang come within it, and nobody notices it.
const BATCH: Duration = Duration::from_millis(5);

/// So long at most, however many events come.
const LONGEST_BATCH: Duration = Duration::from_millis(50);

/// Runs the scheduler until it is told to end. The exit status is that of the process: 0 after a signal, 2 for what was asked for wrongly, else 1.
pub async fn main(flags: SchedulerFlags) -> ExitCode {
    logging::init(flags.common.log_format);
    match run(flags).await {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(2)
        }
    }
}

async fn run(flags: SchedulerFlags) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let config = LeaderConfig {
        namespace: String::new(),
        name: SCHEDULER.to_owned(),
        identity: identity(),
        lease_duration: flags.common.leader_elect_lease_duration,
        renew_deadline: flags.common.leader_elect_renew_deadline,
        retry_period: flags.common.leader_elect_retry_period,
    };
    config.check()?;
    let connection = connect(flags.common.kubeconfig.as_deref(), SCHEDULER).await?;
    let registry = registry()?;
    let caller = Caller::new(flags.common.request_timeout, RequestMetrics::new(&registry)?);
    let (watch_metrics, metrics) = (WatchMetrics::new(&registry)?, Metrics::new(&registry)?);
    let readiness = Readiness::new();
    let (sender, events) = mpsc::channel(CHANNEL);
    let mut program = Program::new()?;

    let leadership = start_election(&mut program, &flags, &connection, &caller, config);
    observe::start(&mut program, &connection.client, &readiness, &watch_metrics, &sender);
    let routes = [("/debug/ledger", Question::Ledger), ("/debug/queues", Question::Queues), ("/debug/audit", Question::Audit)];
    let routes = routes.map(|(path, question)| DebugRoute::ask(path, sender.clone(), move |reply| Event::Ask(question, reply)));
    let server = Server::bind(flags.http_address, registry, readiness, routes.into()).await?;
    tracing::info!(server = %connection.server, http = %server.address(), schedulers = ?flags.common.scheduler_names, "started");
    program.spawn(Stage::Serve, "http", |stop| server.run(stop));

    let state = State::new(flags.common.scheduler_names.clone(), flags.placement, metrics);
    let dispatcher = Dispatcher::new(connection.client.clone(), caller, leadership.clone(), flags.bind_concurrency);
    program.spawn(Stage::Work, "scheduler", |stop| own(state, dispatcher, leadership, events, stop));
    Ok(program.run().await)
}

fn start_election(program: &mut Program, flags: &SchedulerFlags, connection: &Connection, caller: &Caller, config: LeaderConfig) -> Leadership {
    if !flags.common.leader_elect {
        return Leadership::always();
    }
    let namespace = lease_namespace(flags.common.leader_elect_namespace.as_deref(), connection);
    let leases = Api::<Lease>::namespaced(connection.client.clone(), &namespace);
    let (leadership, elector) = elect(leases, caller.clone(), LeaderConfig { namespace, ..config });
    program.spawn(Stage::Lease, "lease", |stop| elector.run(stop));
    leadership
}

/// The loop: what happened, what follows, what is to be written.
async fn own(mut state: State, mut dispatcher: Dispatcher, mut leadership: Leadership, mut events: mpsc::Receiver<Event>, stop: Shutdown) -> Result<(), String> {
    let start = clock::monotonic();
    let now = || Now { wall: clock::now(), since_start: clock::monotonic().saturating_duration_since(start) };
    let mut leads = false;
    loop {
        let due = state.next().map(|at| start + at);
        tokio::select! {
            biased;
            () = stop.triggered() => return Ok(()),
            acquired = leadership.acquired(), if !leads => {
                if !acquired {
                    return Err("the election ended".to_owned());
                }
                leads = true;
                state.lead(now());
            }
            report = dispatcher.next() => state.learn(report, now()),
            event = events.recv() => match event {
                Some(event) => state.apply(event, now()),
                None => return Err("the watches ended".to_owned()),
            },
            () = at(due) => {}
        }
        gather(&mut state, &mut dispatcher, &mut events, &now).await;
        let decided = now();
        let works = state.has_work(decided);
        let commands = state.tick(decided);
        if works {
            state.metrics.cycle(now().since_start.saturating_sub(decided.since_start));
        }
        dispatcher.send(commands);
    }
}

/// Takes in what else happens within a few milliseconds, so that one cycle decides on all of it.
async fn gather(state: &mut State, dispatcher: &mut Dispatcher, events: &mut mpsc::Receiver<Event>, now: &impl Fn() -> Now) {
    let began = clock::monotonic();
    let (quiet, longest) = (began + BATCH, began + LONGEST_BATCH);
    loop {
        tokio::select! {
            biased;
            report = dispatcher.next() => state.learn(report, now()),
            Some(event) = events.recv() => state.apply(event, now()),
            () = tokio::time::sleep_until(quiet) => return,
        }
        let at = clock::monotonic();
        if at >= longest || (at >= quiet && events.is_empty()) {
            return;
        }
    }
}

/// Waits until then; for ever where there is no then.
async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
