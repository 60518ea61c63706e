//! What does every program do before it begins its own work?
//!
//! Logging, the way to the API server, the metrics, the HTTP endpoint and the election, in this order, so that the first thing that is wrong ends the
//! program with one line (exit status 2) and an API server that is away ends nothing.

use std::net::SocketAddr;
use std::process::ExitCode;

use kube::Client;
use kube::api::Api;
use prometheus::Registry;

use super::call::Caller;
use super::client;
use super::flags::CommonFlags;
use super::http::{DebugRoute, Server};
use super::leader::{self, LeaderConfig, Leadership};
use super::logging;
use super::metrics::{self, RequestMetrics, WatchMetrics};
use super::program::{Program, Stage};
use super::readiness::Readiness;

/// The exit status of a program that could not start: what was asked for cannot be done.
pub const CANNOT_START: u8 = 2;

/// A program that is ready to begin its work.
pub struct Setup {
    /// Its tasks.
    pub program: Program,
    /// To the API server.
    pub client: Client,
    /// Sends, limits and counts requests.
    pub caller: Caller,
    /// Whether it leads.
    pub leadership: Leadership,
    /// Which lists are complete.
    pub readiness: Readiness,
    /// Counters of the watches.
    pub watch_metrics: WatchMetrics,
}

/// Prepares the program called `name`, or says in one line why that cannot be. `own` registers the program's own metrics; the registry is
/// closed after it.
///
/// # Errors
///
/// The exit status; the line is logged.
pub async fn setup<M>(
    name: &'static str,
    common: &CommonFlags,
    http_address: SocketAddr,
    debug: Vec<DebugRoute>,
    own: impl FnOnce(&Registry) -> Result<M, prometheus::Error>,
) -> Result<(Setup, M), ExitCode> {
    logging::init(common.log_format);
    match prepare(name, common, http_address, debug, own).await {
        Ok(ready) => Ok(ready),
        Err(why) => {
            tracing::error!("{why}");
            Err(ExitCode::from(CANNOT_START))
        }
    }
}

async fn prepare<M>(
    name: &'static str,
    common: &CommonFlags,
    http_address: SocketAddr,
    debug: Vec<DebugRoute>,
    own: impl FnOnce(&Registry) -> Result<M, prometheus::Error>,
) -> Result<(Setup, M), Box<dyn std::error::Error>> {
    let connection = client::connect(common.kubeconfig.as_deref(), name).await?;
    let registry = metrics::registry()?;
    let caller = Caller::new(common.request_timeout, RequestMetrics::new(&registry)?);
    let watch_metrics = WatchMetrics::new(&registry)?;
    let own = own(&registry)?;
    let readiness = Readiness::new();
    let mut program = Program::new()?;
    let server = Server::bind(http_address, registry, readiness.clone(), debug).await?;
    tracing::info!(
        program = name,
        version = env!("CARGO_PKG_VERSION"),
        server = connection.server,
        http = %server.address(),
        schedulers = ?common.scheduler_names,
        "starting"
    );
    program.spawn(Stage::Serve, "http", |stop| server.run(stop));
    let leadership = if common.leader_elect {
        let namespace = client::lease_namespace(common.leader_elect_namespace.as_deref(), &connection);
        let config = LeaderConfig {
            namespace: namespace.clone(),
            name: name.to_owned(),
            identity: leader::identity(),
            lease_duration: common.leader_elect_lease_duration,
            renew_deadline: common.leader_elect_renew_deadline,
            retry_period: common.leader_elect_retry_period,
        };
        config.check()?;
        let leases = Api::namespaced(connection.client.clone(), &namespace);
        let (leadership, elector) = leader::elect(leases, caller.clone(), config);
        program.spawn(Stage::Lease, "leader election", |stop| elector.run(stop));
        leadership
    } else {
        Leadership::always()
    };
    Ok((Setup { program, client: connection.client, caller, leadership, readiness, watch_metrics }, own))
}
