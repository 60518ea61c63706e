//! What does every program do before it begins its own work?
//!
//! Logging, the metrics, the HTTP endpoint, the way to the API server and the election, in this order. What was typed wrong ends the program with one
//! line (exit status 2). What can come right by itself (a kubeconfig that is not there yet, an API server that is away) is said and tried again.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use kube::Client;
use kube::api::Api;
use prometheus::Registry;

use super::access::Access;
use super::backoff::Backoff;
use super::beside::{self, Beside};
use super::call::Caller;
use super::client::{self, Connection};
use super::exposition::{Exposition, Refresh};
use super::flags::CommonFlags;
use super::http::{DebugRoute, Secure, Server};
use super::leader::{self, LeaderConfig, Leadership};
use super::logging;
use super::metrics::{self, RequestMetrics, WatchMetrics};
use super::program::{Program, Stage};
use super::pulse::Pulse;
use super::readiness::Readiness;
use super::standing::Standing;
use super::tls::Certificate;

/// The exit status of a program that could not start: what was asked for cannot be done.
pub const CANNOT_START: u8 = 2;

/// Between two tries to find a configuration.
const CONNECT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));

/// A program that is ready to begin its work.
pub struct Setup {
    /// Its tasks.
    pub program: Program,
    /// To the API server.
    pub client: Client,
    /// Sends, limits and counts requests; sends nothing while this process does not lead.
    pub caller: Caller,
    /// Whether it leads.
    pub leadership: Leadership,
    /// Which lists are complete.
    pub readiness: Readiness,
    /// Of the loop that is to be started with this; it is asked from now on.
    pub pulse: Pulse,
    /// Counters of the watches.
    pub watch_metrics: WatchMetrics,
}

/// Prepares the program called `name`, which works beside another, or says in one line why that cannot be. `own` registers the program's own metrics, and says how those are brought up
/// to date that nobody keeps; the registry is closed after it.
///
/// # Errors
///
/// The exit status; the line is logged.
pub async fn setup<M>(
    name: &'static str,
    beside: Beside,
    common: &CommonFlags,
    http_address: SocketAddr,
    debug: Vec<DebugRoute>,
    own: impl FnOnce(&Registry) -> Result<(M, Refresh), prometheus::Error>,
) -> Result<(Setup, M), ExitCode> {
    logging::init(common.log_format);
    let cannot_start = |why: Box<dyn std::error::Error>| {
        tracing::error!("{why}");
        ExitCode::from(CANNOT_START)
    };
    // Before anything is waited for: what was typed wrong does not come right by itself.
    common.check_election().map_err(|why| cannot_start(why.into()))?;
    let (readiness, pulse) = (Readiness::new(), Pulse::new());
    let Registered { exposition, requests, watches, standing, own } =
        register(name, &readiness, own).map_err(|error| cannot_start(error.into()))?;
    let mut program = Program::new().map_err(|error| cannot_start(error.into()))?;
    let access = Access::new();
    let secure = secure(common, &access).map_err(cannot_start)?;
    let server = Server::bind(http_address, exposition, readiness.clone(), pulse.clone(), debug, secure)
        .await
        .map_err(|error| cannot_start(error.into()))?;
    let http = server.address();
    program.spawn(Stage::Serve, "http", |stop| server.run(stop));
    let (mut program, connection) = program.first(connect(name, common, &readiness)).await?;
    tracing::info!(
        program = name,
        version = beside::VERSION,
        server = connection.server,
        %http,
        schedulers = ?common.scheduler_names,
        "starting"
    );
    let caller = Caller::new(common.request_timeout, requests);
    access.connect(connection.client.clone(), &caller);
    let leadership = elect(name, beside, common, &connection, &caller, &mut program);
    standing.elected(leadership.clone());
    let caller = caller.while_leading(leadership.clone());
    pulse.begin();
    Ok((Setup { program, client: connection.client, caller, leadership, readiness, pulse, watch_metrics: watches }, own))
}

fn secure(common: &CommonFlags, access: &Access) -> Result<Option<Secure>, Box<dyn std::error::Error>> {
    let files = common.tls_files()?;
    if !common.secure_serving {
        return Ok(None);
    }
    Ok(Some(Secure { certificate: Certificate::new(files)?, access: access.clone() }))
}

/// Every number that the program shows.
struct Registered<M> {
    exposition: Exposition,
    requests: RequestMetrics,
    watches: WatchMetrics,
    standing: Standing,
    own: M,
}

fn register<M>(
    name: &'static str,
    readiness: &Readiness,
    own: impl FnOnce(&Registry) -> Result<(M, Refresh), prometheus::Error>,
) -> Result<Registered<M>, prometheus::Error> {
    let registry = metrics::registry()?;
    let (requests, watches) = (RequestMetrics::new(&registry)?, WatchMetrics::new(&registry)?);
    let standing = Standing::new(&registry, name, readiness.clone())?;
    let (own, refresh) = own(&registry)?;
    Ok(Registered { exposition: Exposition::new(registry, refresh), requests, watches, standing, own })
}

/// Finds the way to the API server. Where there is none yet (no kubeconfig, one that cannot be read) it says so, once for each change, and tries again:
/// a file that is mounted a moment later is found, and nothing restarts again and again. `/readyz` says the same meanwhile.
async fn connect(name: &'static str, common: &CommonFlags, readiness: &Readiness) -> Connection {
    let configuration = readiness.expect("configuration");
    let mut failures = 0_u32;
    let mut said = String::new();
    loop {
        match client::connect(common.kubeconfig.as_deref(), name).await {
            Ok(connection) => {
                configuration.trouble(None);
                configuration.complete();
                return connection;
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                let why = error.to_string();
                if why != said {
                    tracing::error!("{why}; it is tried again until it can be used");
                    configuration.trouble(Some(why.clone()));
                    said = why;
                }
                tokio::time::sleep(CONNECT.delay(failures)).await;
            }
        }
    }
}

/// Joins the election, if there is one.
fn elect(
    name: &'static str,
    beside: Beside,
    common: &CommonFlags,
    connection: &Connection,
    caller: &Caller,
    program: &mut Program,
) -> Leadership {
    if !common.leader_elect {
        return Leadership::always();
    }
    let namespace = client::lease_namespace(common.leader_elect_namespace.as_deref(), connection);
    let config = LeaderConfig {
        namespace: namespace.clone(),
        name: name.to_owned(),
        identity: leader::identity(),
        lease_duration: common.leader_elect_lease_duration,
        renew_deadline: common.leader_elect_renew_deadline,
        retry_period: common.leader_elect_retry_period,
    };
    let leases = Api::namespaced(connection.client.clone(), &namespace);
    let (leadership, elector) = leader::elect(leases.clone(), caller.clone(), config);
    let elector = elector.marked(beside.mark, beside::VERSION);
    program.spawn(Stage::Lease, "leader election", |stop| elector.run(stop));
    let (caller, led) = (caller.clone(), leadership.clone());
    program.spawn(Stage::Work, "version of the other program", |stop| async move {
        beside::watch(beside, leases, caller, led, stop).await;
        Ok::<(), String>(())
    });
    leadership
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::flags::ControllerFlags;
    use clap::Parser;

    #[tokio::test]
    async fn what_was_typed_wrong_ends_a_program_that_has_no_way_to_the_api_server_yet() {
        let line = ["podgroup-controller", "--kubeconfig=/nowhere", "--http-address=127.0.0.1:0", "--leader-elect-renew-deadline=20s"];
        let flags = ControllerFlags::parse_from(line);
        let other = Beside { program: "podgroup-scheduler", mark: "x/version" };
        let begun = setup("podgroup-controller", other, &flags.common, flags.http_address, Vec::new(), |_| Ok(((), Refresh::nothing())));
        // A kubeconfig that is not there is waited for, for ever.
        let ended = tokio::time::timeout(Duration::from_secs(20), begun).await.expect("it waits for a kubeconfig");
        assert_eq!(ended.err().map(|code| format!("{code:?}")), Some(format!("{:?}", ExitCode::from(CANNOT_START))));
    }
}
