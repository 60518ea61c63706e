//! The scheduler: watches → events → the owner of the state → cycle → dispatch.
//!
//! ```text
//!            observe                  snapshot             decide               act
//!  nodes ──┐ facts    ┌─────────┐ a few ms of  ┌───────┐ cycle::run ┌──────────┐ binds, statuses,
//!  pods ───┼────────► │ channel ├────────────► │ State ├──────────► │ dispatch ├──────────────────► API server
//!  groups ─┤          └─────────┘ events       └───▲───┘ commands   └────┬─────┘ conditions
//!  queues ─┘            bounded                   └──────── reports ─────┘
//!                                                         learn
//! ```
//!
//! Reading order: [`event`], [`observe`], [`kinds`] (what is watched, and what follows from it), [`state`] (the owner; `view` says whether its
//! events are recent enough), [`statuses`] (statuses, conditions and Events, and their rates), [`command`], [`dispatch`] (the only module that
//! writes), [`debug`], [`metrics`].
//!
//! **Architecture invariant:** one task owns the state. There is no lock, and no clock other than that of the loop.
//!
//! **Architecture invariant:** the scheduler decides only after its [`takeover`] is complete and on a recent `view`, and writes only with
//! the lease. `State::start_deciding` does what follows when both hold. While nothing happens, no timer runs.

pub mod command;
pub mod debug;
pub mod dialect;
pub mod dispatch;
#[cfg(test)]
mod drain_tests;
pub mod event;
pub mod kinds;
pub mod metrics;
pub mod observe;
pub mod overcommit;
mod slips;
#[cfg(test)]
mod startup_tests;
pub mod state;
pub mod statuses;
pub mod takeover;
#[cfg(test)]
mod takeover_state_tests;
#[cfg(test)]
mod testing;
mod view;
mod volume_patch;

use std::process::ExitCode;
use std::time::Duration;

use futures::future::BoxFuture;
use prometheus::Registry;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::api::names::{CONTROLLER, DRAINED, KUBE_SCHEDULER, SCHEDULER, VERSION};
use crate::cycle::placement::Strategy;
use crate::cycle::policy::Policy;
use crate::runtime::client::Connection;
use crate::runtime::clock;
use crate::runtime::flags::{AdmitBy, Placement, SchedulerFlags};
use crate::runtime::http::DebugRoute;
use crate::runtime::http::Refresh;
use crate::runtime::leader::{Leadership, ReleaseRule};
use crate::runtime::program::{Program, Stage};
use crate::runtime::setup::{self, Identity, Inside, Setup, setup};
use crate::runtime::shutdown::Shutdown;
use crate::runtime::version_skew::OtherProgram;
use crate::runtime::watch::Relist;
use crate::runtime::watchdog::Watchdog;

use dispatch::Dispatcher;
use event::{Event, Question};
use metrics::Metrics;
use state::{Now, State};
use takeover::{Release, may_release};

/// The limit of events in the channel. The watches wait while it is full, and the API server buffers their events.
const CHANNEL: usize = 1024;

/// The least time between two cycles. Events within this time are batched; an event after a longer pause starts a cycle at once.
const BATCH: Duration = Duration::from_millis(5);

/// The longest time for one batch of events.
const LONGEST_BATCH: Duration = Duration::from_millis(50);

/// How long the end of a leader waits for the outcomes of its bindings and evictions. The chart gives a pod of the scheduler more time than that.
const DRAIN: Duration = Duration::from_secs(20);

/// What the scheduler is called, and what its election needs to know.
const IDENTITY: Identity =
    Identity { name: SCHEDULER, other: OtherProgram { program: CONTROLLER, annotation: VERSION }, release: ReleaseRule::Marked(DRAINED) };

/// Runs the scheduler until a signal. Returns the exit status: 0 after a signal, 2 for invalid flags, otherwise 1.
pub async fn main(flags: SchedulerFlags) -> ExitCode {
    let (sender, events) = mpsc::channel(CHANNEL);
    let routes = debug_routes(&sender);
    let (setup, metrics) = match setup(IDENTITY, &flags.common, flags.http_address, routes, own_metrics(&sender)).await {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    if flags.common.scheduler_names.iter().any(|served| served == KUBE_SCHEDULER) {
        tracing::warn!("this program serves {KUBE_SCHEDULER}: where kube-scheduler serves that name too, both place the same pods");
    }
    start(flags, setup, metrics, (sender, events)).run().await
}

/// Prepares a scheduler that runs inside of another process, on this connection, until `stop`.
///
/// # Errors
/// When a metric cannot be registered.
pub fn inside(flags: SchedulerFlags, connection: Connection, stop: Shutdown) -> Result<Inside, prometheus::Error> {
    let (sender, events) = mpsc::channel(CHANNEL);
    let debug = debug_routes(&sender);
    let (setup, metrics, exposition) = setup::inside(IDENTITY, &flags.common, connection, stop, own_metrics(&sender))?;
    let readiness = setup.readiness.clone();
    Ok(Inside { program: start(flags, setup, metrics, (sender, events)), exposition, readiness, debug })
}

/// Returns the paths by which the owner of the state is asked.
fn debug_routes(owner: &mpsc::Sender<Event>) -> Vec<DebugRoute> {
    let questions = [
        ("/debug/ledger", Question::Ledger),
        ("/debug/queues", Question::Queues),
        ("/debug/audit", Question::Audit),
        ("/debug/view", Question::View),
    ];
    let route = |(path, question)| DebugRoute::ask(path, owner.clone(), move |reply| Event::Ask(question, reply));
    questions.map(route).into()
}

/// Returns the function that registers the metrics of the scheduler.
fn own_metrics(owner: &mpsc::Sender<Event>) -> impl FnOnce(&Registry) -> Result<(Metrics, Refresh), prometheus::Error> + use<> {
    let owner = owner.clone();
    move |registry| {
        let metrics = Metrics::new(registry)?;
        Ok((metrics.clone(), refresh(owner, metrics)))
    }
}

/// Starts the watches and the loop.
fn start(flags: SchedulerFlags, setup: Setup, metrics: Metrics, (sender, events): (mpsc::Sender<Event>, mpsc::Receiver<Event>)) -> Program {
    let Setup { mut program, client, caller, leadership, readiness, watchdog, watch_metrics, relist } = setup;
    // While the machine is suspended the view of the cluster grows old.
    let begin = clock::through_suspension();
    observe::start(&mut program, &client, &readiness, &watch_metrics, &relist, &sender, begin);
    let policy = Policy {
        placement: strategy(flags.placement),
        evictions: flags.evictions,
        admit_within_nodes: flags.admit_by == AdmitBy::Nodes,
        admission_timeout: flags.admission_timeout,
        release: flags.release_after,
        volume_timeout: flags.volume_timeout,
    };
    let state = State::new(flags.common.scheduler_names, policy, metrics).with_queue_status(flags.queue_status);
    let dispatcher =
        Dispatcher::new(client, caller, leadership.clone(), flags.bind_concurrency).with_scheduled_events(flags.scheduled_events);
    program.allow_work(DRAIN);
    program.spawn(Stage::Work, "scheduler", |stop| own(state, dispatcher, leadership, (events, begin), relist, watchdog, stop));
    program
}

/// Returns the order of nodes that a value of `--placement` stands for.
const fn strategy(placement: Placement) -> Strategy {
    match placement {
        Placement::Auto => Strategy::Auto,
        Placement::Spread => Strategy::Spread,
        Placement::Pack => Strategy::Pack,
    }
}

/// Requests a queue snapshot from the owner of the state at each scrape.
fn refresh(owner: mpsc::Sender<Event>, metrics: Metrics) -> Refresh {
    let shown = metrics.clone();
    let ask = move || -> BoxFuture<'static, ()> {
        let (owner, metrics) = (owner.clone(), metrics.clone());
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let snapshot = match owner.send(Event::QueueSnapshot(reply)).await {
                Ok(()) => answer.await.ok(),
                Err(_ended) => None,
            };
            metrics.show(snapshot);
        })
    };
    Refresh::new(ask, move || shown.show(None))
}

/// The loop of the scheduler: takes in events and reports, runs the cycle and sends the commands. The times in events count from the
/// instant beside them.
async fn own(
    mut state: State,
    mut dispatcher: Dispatcher,
    mut leadership: Leadership,
    (mut events, begin): (mpsc::Receiver<Event>, Instant),
    relist: Relist,
    watchdog: Watchdog,
    stop: Shutdown,
) -> Result<(), String> {
    let now = || Now { wall: clock::now(), since_start: clock::through_suspension().saturating_duration_since(begin) };
    let mut leads = false;
    let mut decided_at = clock::monotonic();
    loop {
        watchdog.progress();
        let due = state.next(now().since_start).map(|at| due(at, now().since_start, clock::monotonic()));
        tokio::select! {
            biased;
            () = stop.triggered() => {
                if leadership.has_lease() {
                    drain(&mut state, &mut dispatcher, &leadership, &watchdog, &now).await;
                } else {
                    // The election still runs for a moment, and may win the lease.
                    leadership.release(may_release(false, 0));
                }
                return Ok(());
            }
            acquired = leadership.acquired(), if !leads => {
                let Some(handover) = acquired else { return Err("the election ended".to_owned()) };
                leads = true;
                // Without election, this process leads since its start, and so all its lists began after that.
                let generation = if leadership.has_lease() { relist.request(leadership.floor()) } else { 0 };
                state.lead(handover, generation, now());
            }
            report = dispatcher.next() => state.learn(report, now()),
            event = events.recv() => match event {
                Some(event) => state.apply(event, now()),
                None => return Err("the watches ended".to_owned()),
            },
            () = clock::until(due) => {}
            // The watchdog's probe needs no cycle.
            () = watchdog.probed() => continue,
        }
        gather(&mut state, &mut dispatcher, &mut events, decided_at + BATCH, &now).await;
        let decided = now();
        let works = state.has_work(decided);
        let commands = state.tick(decided);
        if works {
            state.metrics.cycle(now().since_start.saturating_sub(decided.since_start));
        }
        dispatcher.send(commands);
        decided_at = clock::monotonic();
    }
}

/// Returns when a timer is due that was set for `at`, on the clock that stands still while the machine is suspended. `since_start` runs
/// through a suspension.
fn due(at: Duration, since_start: Duration, now: Instant) -> Instant {
    now + at.saturating_sub(since_start)
}

/// Waits until every binding and eviction that was sent has a known outcome, while the lease is renewed, and says to the election what is
/// done with it. Decides nothing more. If that takes longer than [`DRAIN`], or the lease is lost meanwhile, it is kept.
async fn drain(state: &mut State, dispatcher: &mut Dispatcher, leadership: &Leadership, watchdog: &Watchdog, now: &impl Fn() -> Now) {
    dispatcher.stop();
    let complete = state.takeover.is_complete();
    let end = clock::monotonic() + DRAIN;
    loop {
        let (release, leads) = (may_release(complete, dispatcher.unknown_outcomes()), leadership.is_leading());
        if leads && release != Release::Keep {
            return leadership.release(release);
        }
        if !leads || clock::monotonic() >= end {
            tracing::warn!(unknown = dispatcher.unknown_outcomes(), "ending without knowing what is under way");
            return;
        }
        watchdog.progress();
        tokio::select! {
            report = dispatcher.next() => state.learn(report, now()),
            () = clock::until(Some(end)) => {}
            () = watchdog.probed() => {}
        }
    }
}

/// Takes in further events and reports until `quiet`, so that one cycle decides on all of them.
async fn gather(
    state: &mut State,
    dispatcher: &mut Dispatcher,
    events: &mut mpsc::Receiver<Event>,
    quiet: Instant,
    now: &impl Fn() -> Now,
) {
    let longest = clock::monotonic() + LONGEST_BATCH;
    loop {
        tokio::select! {
            biased;
            report = dispatcher.next() => state.learn(report, now()),
            Some(event) = events.recv() => state.apply(event, now()),
            () = clock::until(Some(quiet)) => return,
        }
        if clock::monotonic() >= longest {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::POLICY;
    use crate::runtime::call::Caller;
    use crate::runtime::leader::{LeaderConfig, elect};
    use crate::runtime::metrics::{RequestMetrics, registry};
    use crate::runtime::watchdog::STALLED_AFTER;
    use kube::{Api, Client};
    use tokio::task::JoinSet;

    #[test]
    fn what_answers_without_the_flags_orders_nodes_as_a_scheduler_without_flags() {
        assert_eq!(strategy(Placement::default()), Strategy::default());
    }

    #[test]
    fn a_timer_is_due_in_the_time_that_is_left_also_after_a_suspension() {
        let (now, secs) = (clock::monotonic(), Duration::from_secs);
        assert_eq!(due(secs(10), secs(7), now), now + secs(3));
        assert_eq!(due(secs(10), secs(3600), now), now, "it was due while the machine was suspended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_or_idle_loop_answers_the_watchdog() {
        let config = LeaderConfig {
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
            identity: "me".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        };
        let client = || Client::new(axum::Router::new(), "ns");
        let caller = || Caller::new(Duration::from_secs(1), RequestMetrics::new(&registry().unwrap()).unwrap());
        // No task runs the elector, so this replica waits for the lease.
        let (waits, _elector) = elect(Api::namespaced(client(), "ns"), caller(), config);
        for leadership in [waits, Leadership::always()] {
            let state = State::new(["ours".to_owned()], POLICY, Metrics::new(&registry().unwrap()).unwrap());
            let dispatcher = Dispatcher::new(client(), caller(), leadership.clone(), 1);
            let ((_events, receiver), (_trigger, stop)) = (mpsc::channel(1), Shutdown::new());
            let (watchdog, mut running) = (Watchdog::new(), JoinSet::new());
            watchdog.begin();
            running.spawn(own(
                state,
                dispatcher,
                leadership,
                (receiver, clock::through_suspension()),
                Relist::new(),
                watchdog.clone(),
                stop,
            ));
            for _ in 0..3 {
                assert_eq!(watchdog.probe(), None);
                tokio::time::sleep(STALLED_AFTER).await;
            }
            running.shutdown().await;
            assert_eq!(watchdog.probe(), None);
            tokio::time::sleep(STALLED_AFTER).await;
            assert_eq!(watchdog.probe(), Some(STALLED_AFTER), "no loop answers");
        }
    }
}
