//! Who keeps the PodGroups? The shell of `podgroup-controller`.
//!
//! ```text
//!   watches ──▶ observe ──▶ Observed ──freeze──▶ Situation ──decide──▶ Step ──act──▶ API server
//!                  ▲           (keeper: one task owns all of it)          │
//!                  └────────────────────── learn ◀──── Answer ◀───────────┘
//! ```
//!
//! In reading order: [`observe`] (watches become facts), [`observed`] (the picture, and one group frozen out of it), [`keeper`] (the loop; `turn` is
//! what it keeps of one group), [`act`] (the only file that writes), [`dialect`] (an intent as a PodGroup of Volcano's API, and back). What should
//! exist and what the next step is stands in [`crate::lifecycle`]; nothing here chooses.
//!
//! **Architecture invariant:** only [`act`] writes. **Architecture invariant:** no status is written by this program, ever.

pub mod act;
pub mod dialect;
pub mod keeper;
pub mod metrics;
pub mod observe;
pub mod observed;
mod turn;

use std::process::ExitCode;

use tokio::sync::mpsc;

use crate::api::names::{CONTROLLER, SCHEDULER, VERSION};
use crate::runtime::exposition::Refresh;
use crate::runtime::flags::ControllerFlags;
use crate::runtime::program::Stage;
use crate::runtime::setup::setup;
use crate::runtime::version_skew::OtherProgram;

use act::Actor;
use keeper::{Keeper, Settings};
use metrics::ControllerMetrics;
use observe::Watches;

/// Events that wait between the watches and the keeper; a full channel makes the API server hold them.
const EVENTS: usize = 1024;

/// Runs the controller until a signal; returns its exit status.
pub async fn run(flags: ControllerFlags) -> ExitCode {
    let own = |registry: &_| Ok((ControllerMetrics::new(registry)?, Refresh::nothing()));
    let (setup, metrics) = match setup(
        CONTROLLER,
        OtherProgram { program: SCHEDULER, annotation: VERSION },
        &flags.common,
        flags.http_address,
        Vec::new(),
        own,
    )
    .await
    {
        Ok(ready) => ready,
        Err(status) => return status,
    };
    let mut program = setup.program;
    let (events, receiver) = mpsc::channel(EVENTS);
    let mut schedulers = flags.common.scheduler_names;
    schedulers.sort();
    schedulers.dedup();
    let watches = Watches { client: setup.client.clone(), events, readiness: setup.readiness, metrics: setup.watch_metrics };
    watches.start(&mut program, &schedulers);
    let settings = Settings { workers: usize::from(flags.workers), annotate_pods: flags.annotate_pods };
    let keeper = Keeper::new(&schedulers, Actor::new(setup.client, setup.caller, &schedulers), settings, metrics);
    program.spawn(Stage::Work, "keeper", |stop| async move {
        keeper.run(receiver, setup.leadership, setup.watchdog, stop).await;
        Ok::<(), String>(())
    });
    program.run().await
}
