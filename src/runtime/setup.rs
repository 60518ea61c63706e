//! Prepares a program before it begins its own work.
//!
//! In this order: logging, the metrics, the HTTP endpoint, the connection to the API server, and the election. A wrong flag ends the program with one
//! line (exit status 2). A problem that can end by itself (a missing kubeconfig, an unavailable API server) is logged and retried.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use kube::Client;
use kube::api::Api;
use prometheus::Registry;

use super::call::Caller;
use super::client::{self, Connection};
use super::flags::CommonFlags;
use super::http::{Access, Certificate, DebugRoute, Exposition, Refresh, Secure, Server};
use super::leader::LeaderMetrics;
use super::leader::{self, LeaderConfig, Leadership, ReleaseRule};
use super::logging;
use super::metrics::{self, RequestMetrics, WatchMetrics};
use super::program::{Program, Stage};
use super::readiness::Readiness;
use super::shutdown::Shutdown;
use super::version_skew::{self, OtherProgram};
use super::watch::Relist;
use super::watchdog::Watchdog;
use crate::backoff::Backoff;

/// The exit status of a program that cannot start with its flags.
pub const CANNOT_START: u8 = 2;

/// The wait between two attempts to find a configuration.
const CONNECT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));

/// A program that is ready to begin its work, and its parts.
pub struct Setup {
    /// The tasks of the program.
    pub program: Program,
    /// The client of the API server.
    pub client: Client,
    /// Sends, limits and counts requests; sends nothing while this process is not the leader.
    pub caller: Caller,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// Which lists are complete.
    pub readiness: Readiness,
    /// The watchdog of the program's loop; it is probed from now on.
    pub watchdog: Watchdog,
    /// Counters of the watches.
    pub watch_metrics: WatchMetrics,
    /// Requests of new lists, for all watches.
    pub relist: Relist,
}

/// The name of a program, and what its election needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its name, which is also the name of its Lease.
    pub name: &'static str,
    /// The other program of the pair.
    pub other: OtherProgram,
    /// What it does with its lease when it ends.
    pub release: ReleaseRule,
}

/// Prepares this program. `own` registers the program's own metrics, and returns the refresh
/// for those that are computed when they are read; the registry is closed after it.
///
/// # Errors
///
/// The exit status; the reason is logged as one line.
pub async fn setup<M>(
    identity: Identity,
    common: &CommonFlags,
    http_address: SocketAddr,
    debug: Vec<DebugRoute>,
    own: impl FnOnce(&Registry) -> Result<(M, Refresh), prometheus::Error>,
) -> Result<(Setup, M), ExitCode> {
    let name = identity.name;
    logging::init(common.log_format);
    let cannot_start = |why: Box<dyn std::error::Error>| {
        tracing::error!("{why}");
        ExitCode::from(CANNOT_START)
    };
    // Checked before anything is waited for: a wrong flag does not become right by itself.
    common.check_election().map_err(|why| cannot_start(why.into()))?;
    let (readiness, watchdog) = (Readiness::new(), Watchdog::new());
    let Registered { exposition, requests, watches, leader_metrics, own } =
        register(name, &readiness, own).map_err(|error| cannot_start(error.into()))?;
    let mut program = Program::new().map_err(|error| cannot_start(error.into()))?;
    let access = Access::new();
    let secure = secure(common, &access).map_err(cannot_start)?;
    let server = Server::bind(http_address, exposition, readiness.clone(), watchdog.clone(), debug, secure)
        .await
        .map_err(|error| cannot_start(error.into()))?;
    let http = server.address();
    program.spawn(Stage::Serve, "http", |stop| server.run(stop));
    let (program, connection) = program.first(connect(name, common, &readiness)).await?;
    tracing::info!(
        program = name,
        version = version_skew::VERSION,
        server = connection.server,
        %http,
        schedulers = ?common.scheduler_names,
        "starting"
    );
    let caller = Caller::new(common.request_timeout, requests);
    access.connect(connection.client.clone(), &caller);
    let parts = Parts { readiness, watchdog, watches, leader_metrics };
    Ok((parts.lead(identity, common, connection, caller, program), own))
}

/// A program that runs inside of another process, with the parts that its HTTP endpoint would serve.
pub struct Inside {
    /// The program; it ends at the request that it was made with. Dropping it ends it at once, as SIGKILL does.
    pub program: Program,
    /// Its page of metrics.
    pub exposition: Exposition,
    /// Which of its lists are complete.
    pub readiness: Readiness,
    /// The paths of its debug endpoint.
    pub debug: Vec<DebugRoute>,
}

/// Prepares a program that runs inside of another process, on this connection: the text scenarios run both programs so. It has no log, endpoint or
/// signals of its own, and ends at `stop`.
///
/// # Errors
/// When a metric cannot be registered.
pub fn inside<M>(
    identity: Identity,
    common: &CommonFlags,
    connection: Connection,
    stop: Shutdown,
    own: impl FnOnce(&Registry) -> Result<(M, Refresh), prometheus::Error>,
) -> Result<(Setup, M, Exposition), prometheus::Error> {
    let readiness = Readiness::new();
    let Registered { exposition, requests, watches, leader_metrics, own } = register(identity.name, &readiness, own)?;
    let caller = Caller::new(common.request_timeout, requests);
    let parts = Parts { readiness, watchdog: Watchdog::new(), watches, leader_metrics };
    Ok((parts.lead(identity, common, connection, caller, Program::inside(stop)), own, exposition))
}

/// The parts of a program that need no connection.
struct Parts {
    readiness: Readiness,
    watchdog: Watchdog,
    watches: WatchMetrics,
    leader_metrics: LeaderMetrics,
}

impl Parts {
    /// Joins the election, and lets the program send only while it leads.
    fn lead(self, identity: Identity, common: &CommonFlags, connection: Connection, caller: Caller, mut program: Program) -> Setup {
        let Self { readiness, watchdog, watches, leader_metrics } = self;
        let relist = Relist::new();
        let leadership = elect(identity, common, &connection, &caller, &relist, &mut program);
        leader_metrics.elected(leadership.clone());
        let caller = caller.while_leading(leadership.clone());
        watchdog.begin();
        Setup { program, client: connection.client, caller, leadership, readiness, watchdog, watch_metrics: watches, relist }
    }
}

fn secure(common: &CommonFlags, access: &Access) -> Result<Option<Secure>, Box<dyn std::error::Error>> {
    let files = common.tls_files()?;
    if !common.secure_serving {
        return Ok(None);
    }
    Ok(Some(Secure { certificate: Certificate::new(files)?, access: access.clone() }))
}

/// All metrics of the program.
struct Registered<M> {
    exposition: Exposition,
    requests: RequestMetrics,
    watches: WatchMetrics,
    leader_metrics: LeaderMetrics,
    own: M,
}

fn register<M>(
    name: &'static str,
    readiness: &Readiness,
    own: impl FnOnce(&Registry) -> Result<(M, Refresh), prometheus::Error>,
) -> Result<Registered<M>, prometheus::Error> {
    let registry = metrics::registry()?;
    let (requests, watches) = (RequestMetrics::new(&registry)?, WatchMetrics::new(&registry)?);
    let leader_metrics = LeaderMetrics::new(&registry, name, readiness.clone())?;
    let (own, refresh) = own(&registry)?;
    Ok(Registered { exposition: Exposition::new(registry, refresh), requests, watches, leader_metrics, own })
}

/// Connects to the API server. When there is no usable configuration yet, it logs that once for each change and retries: a file that is mounted a
/// moment later is found without a restart. `/readyz` shows the same problem meanwhile.
async fn connect(name: &'static str, common: &CommonFlags, readiness: &Readiness) -> Connection {
    let configuration = readiness.expect("configuration");
    let mut failures = 0_u32;
    let mut logged = String::new();
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
                if why != logged {
                    tracing::error!("{why}; retrying until it can be used");
                    configuration.trouble(Some(why.clone()));
                    logged = why;
                }
                tokio::time::sleep(CONNECT.delay(failures)).await;
            }
        }
    }
}

/// Joins the election, or leads at once without one.
fn elect(
    Identity { name, other, release }: Identity,
    common: &CommonFlags,
    connection: &Connection,
    caller: &Caller,
    relist: &Relist,
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
    let elector = elector.annotated(other.annotation, version_skew::VERSION).releasing(release).reporting_to(relist.clone());
    program.spawn(Stage::Lease, "leader election", |stop| elector.run(stop));
    let (caller, led) = (caller.clone(), leadership.clone());
    program.spawn(Stage::Work, "version of the other program", |stop| async move {
        version_skew::warn_once(other, leases, caller, led, stop).await;
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
    async fn a_wrong_flag_ends_a_program_that_has_no_configuration_of_the_api_server_yet() {
        let line = ["podgroup-controller", "--kubeconfig=/nowhere", "--http-address=127.0.0.1:0", "--leader-elect-renew-deadline=20s"];
        let flags = ControllerFlags::parse_from(line);
        let other = OtherProgram { program: "podgroup-scheduler", annotation: "x/version" };
        let identity = Identity { name: "podgroup-controller", other, release: ReleaseRule::Always };
        let begun = setup(identity, &flags.common, flags.http_address, Vec::new(), |_| Ok(((), Refresh::nothing())));
        // It waits for a missing kubeconfig, for ever.
        let ended = tokio::time::timeout(Duration::from_secs(20), begun).await.expect("it waits for a kubeconfig");
        assert_eq!(ended.err().map(|code| format!("{code:?}")), Some(format!("{:?}", ExitCode::from(CANNOT_START))));
    }
}
