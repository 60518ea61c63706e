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
//! Reading order: [`event`], [`observe`], [`state`] (the owner; `intake` is its part for what comes in), [`said`], [`tell`] and `numbers` (what is told to people, and when), [`command`],
//! [`dispatch`] (the only file that writes), [`debug`], [`metrics`], and what is shown of the queues: [`frozen`], [`queue_metrics`].
//!
//! **Architecture invariant:** one task owns the state; there is no lock and no other clock than the loop's. **Architecture invariant:** nothing
//! is decided before all lists are complete, and nothing is written without the lease: both together are one event, and what follows from it stands in
//! one place (`State::begin_deciding`). When nothing happens, no timer runs.

#[cfg(test)]
mod beginning_tests;
pub mod command;
pub mod debug;
pub mod dispatch;
pub mod event;
pub mod frozen;
mod intake;
pub mod metrics;
mod numbers;
#[cfg(test)]
mod obey_tests;
pub mod observe;
pub mod overcommit;
pub mod queue_metrics;
pub mod said;
pub mod state;
pub mod tell;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod told_tests;
mod written;

use std::process::ExitCode;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::api::names::{CONTROLLER, SCHEDULER, VERSION};
use crate::cycle::policy::Policy;
use crate::runtime::clock;
use crate::runtime::exposition::Refresh;
use crate::runtime::flags::SchedulerFlags;
use crate::runtime::http::DebugRoute;
use crate::runtime::leader::Leadership;
use crate::runtime::program::Stage;
use crate::runtime::setup::{Setup, setup};
use crate::runtime::shutdown::Shutdown;
use crate::runtime::version_skew::OtherProgram;
use crate::runtime::watchdog::Watchdog;

use dispatch::Dispatcher;
use event::{Event, Question};
use metrics::Metrics;
use state::{Now, State};

/// How many events may wait for the owner; the watches wait while there are more, and the API server holds theirs.
const CHANNEL: usize = 1024;

/// So long after a cycle the next one is waited for, and decides on all that happened meanwhile; who comes after a longer time is decided on at once.
const BATCH: Duration = Duration::from_millis(5);

/// So long at most, however many events come.
const LONGEST_BATCH: Duration = Duration::from_millis(50);

/// Runs the scheduler until it is told to end. The exit status is that of the process: 0 after a signal, 2 for what was asked for wrongly, else 1.
pub async fn main(flags: SchedulerFlags) -> ExitCode {
    let (sender, events) = mpsc::channel(CHANNEL);
    let routes = [("/debug/ledger", Question::Ledger), ("/debug/queues", Question::Queues), ("/debug/audit", Question::Audit)];
    let routes = routes.map(|(path, question)| DebugRoute::ask(path, sender.clone(), move |reply| Event::Ask(question, reply)));
    let owner = sender.clone();
    let mine = |registry: &_| {
        let metrics = Metrics::new(registry)?;
        Ok((metrics.clone(), refresh(owner, metrics)))
    };
    let (setup, metrics) = match setup(
        SCHEDULER,
        OtherProgram { program: CONTROLLER, annotation: VERSION },
        &flags.common,
        flags.http_address,
        routes.into(),
        mine,
    )
    .await
    {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    let Setup { mut program, client, caller, leadership, readiness, watchdog, watch_metrics } = setup;
    observe::start(&mut program, &client, &readiness, &watch_metrics, &sender);
    let policy = Policy {
        placement: flags.placement,
        evictions: flags.evictions,
        admission_timeout: flags.admission_patience,
        release: flags.release_after,
    };
    let state = State::new(flags.common.scheduler_names, policy, metrics).with_queue_status(flags.queue_status);
    let dispatcher = Dispatcher::new(client, caller, leadership.clone(), flags.bind_concurrency);
    program.spawn(Stage::Work, "scheduler", |stop| own(state, dispatcher, leadership, events, watchdog, stop));
    program.run().await
}

/// Asks the owner of the state for a picture of now, whenever somebody looks at the metrics.
fn refresh(owner: mpsc::Sender<Event>, metrics: Metrics) -> Refresh {
    let shown = metrics.clone();
    let ask = move || -> BoxFuture<'static, ()> {
        let (owner, metrics) = (owner.clone(), metrics.clone());
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let frozen = match owner.send(Event::Freeze(reply)).await {
                Ok(()) => answer.await.ok(),
                Err(_ended) => None,
            };
            metrics.show(frozen);
        })
    };
    Refresh::new(ask, move || shown.show(None))
}

/// The loop: what happened, what follows, what is to be written.
async fn own(
    mut state: State,
    mut dispatcher: Dispatcher,
    mut leadership: Leadership,
    mut events: mpsc::Receiver<Event>,
    watchdog: Watchdog,
    stop: Shutdown,
) -> Result<(), String> {
    let start = clock::monotonic();
    let now = || Now { wall: clock::now(), since_start: clock::monotonic().saturating_duration_since(start) };
    let mut leads = false;
    let mut decided_at = start;
    loop {
        watchdog.progress();
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
            () = clock::until(due) => {}
            // Nothing happened: a turn that is an answer and nothing else.
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

/// Takes in what has happened besides, and what does until then, so that one cycle decides on all of it.
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

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_by_or_has_nothing_to_do_answers_who_asks_whether_it_turns() {
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
        // Nobody runs the elector, so this one waits for its lease.
        let (waits, _elector) = elect(Api::namespaced(client(), "ns"), caller(), config);
        for leadership in [waits, Leadership::always()] {
            let state = State::new(["ours".to_owned()], POLICY, Metrics::new(&registry().unwrap()).unwrap());
            let dispatcher = Dispatcher::new(client(), caller(), leadership.clone(), 1);
            let ((_events, receiver), (_trigger, stop)) = (mpsc::channel(1), Shutdown::new());
            let (watchdog, mut running) = (Watchdog::new(), JoinSet::new());
            watchdog.begin();
            running.spawn(own(state, dispatcher, leadership, receiver, watchdog.clone(), stop));
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
