//! Runs `podgroup-controller`: watches, decides and writes PodGroups. The pure decision is in [`crate::lifecycle`].
//!
//! ```text
//!   watches ──▶ observe ──▶ Observed ──snapshot──▶ Situation ──decide──▶ Step ──act──▶ API server
//!                  ▲           (the reconciler: one task owns all state)     │
//!                  └─────────────────────── learn ◀──── Answer ◀─────────────┘
//! ```
//!
//! Reading order:
//!
//! 1. [`observe`]: the watches, and how an object becomes facts.
//! 2. [`observed`]: the cache of the cluster, and the snapshot of one PodGroup.
//! 3. [`reconciler`]: the loop. `group_state` is what the loop remembers of one PodGroup, `recreations` its back-off.
//! 4. [`act`]: the only file that writes to the API server.
//! 5. [`dialect`]: the translation between an intent and a PodGroup of Volcano's API.
//!
//! [`crate::lifecycle`] says which PodGroup should exist and what the next step is. Nothing in this folder decides.
//!
//! **Architecture invariant:** only [`act`] writes. **Architecture invariant:** this program never writes a status.

pub mod act;
pub mod dialect;
mod group_state;
#[cfg(test)]
mod merge_patch_tests;
pub mod metrics;
pub mod observe;
pub mod observed;
pub mod reconciler;
mod recreations;

use std::process::ExitCode;

use prometheus::Registry;
use tokio::sync::mpsc;

use crate::api::names::{CONTROLLER, SCHEDULER, VERSION};
use crate::runtime::client::Connection;
use crate::runtime::flags::ControllerFlags;
use crate::runtime::http::Refresh;
use crate::runtime::leader::ReleaseRule;
use crate::runtime::program::{Program, Stage};
use crate::runtime::setup::{self, Identity, Inside, Setup, setup};
use crate::runtime::shutdown::Shutdown;
use crate::runtime::version_skew::OtherProgram;

use act::Actor;
use metrics::ControllerMetrics;
use observe::Watches;
use reconciler::{Reconciler, Settings};

/// The capacity of the channel from the watches to the reconciler. When it is full, the watches stop reading and the API server buffers the events.
const EVENTS: usize = 1024;

/// What the controller is called, and what its election needs to know.
const IDENTITY: Identity =
    Identity { name: CONTROLLER, other: OtherProgram { program: SCHEDULER, annotation: VERSION }, release: ReleaseRule::Always };

/// Runs the controller until a signal arrives. Returns the exit status of the process.
pub async fn run(flags: ControllerFlags) -> ExitCode {
    match setup(IDENTITY, &flags.common, flags.http_address, Vec::new(), own_metrics).await {
        Ok((setup, metrics)) => start(flags, setup, metrics).run().await,
        Err(status) => status,
    }
}

/// Prepares a controller that runs inside of another process, on this connection, until `stop`.
///
/// # Errors
/// When a metric cannot be registered.
pub fn inside(flags: ControllerFlags, connection: Connection, stop: Shutdown) -> Result<Inside, prometheus::Error> {
    let (setup, metrics, exposition) = setup::inside(IDENTITY, &flags.common, connection, stop, own_metrics)?;
    let readiness = setup.readiness.clone();
    Ok(Inside { program: start(flags, setup, metrics), exposition, readiness, debug: Vec::new() })
}

fn own_metrics(registry: &Registry) -> Result<(ControllerMetrics, Refresh), prometheus::Error> {
    Ok((ControllerMetrics::new(registry)?, Refresh::nothing()))
}

/// Starts the watches and the reconciler.
fn start(flags: ControllerFlags, setup: Setup, metrics: ControllerMetrics) -> Program {
    let mut program = setup.program;
    let (events, receiver) = mpsc::channel(EVENTS);
    let mut schedulers = flags.common.scheduler_names;
    schedulers.sort();
    schedulers.dedup();
    let watches =
        Watches { client: setup.client.clone(), events, readiness: setup.readiness, metrics: setup.watch_metrics, relist: setup.relist };
    watches.start(&mut program, &schedulers);
    let settings = Settings { workers: usize::from(flags.workers), annotate_pods: flags.annotate_pods };
    let reconciler = Reconciler::new(&schedulers, Actor::new(setup.client, setup.caller, &schedulers), settings, metrics);
    program.spawn(Stage::Work, "reconciler", |stop| async move {
        reconciler.run(receiver, setup.leadership, setup.watchdog, stop).await;
        Ok::<(), String>(())
    });
    program
}
