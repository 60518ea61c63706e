//! Finds the API server and makes the client for it.
//!
//! Three places are tried in this order: `--kubeconfig`; the pod's own ServiceAccount; the default kubeconfig. A
//! configuration that cannot be read is a [`ConfigError`] at the start of the program. No connection is made here, so an
//! API server that is unavailable is no error here; the watches retry.
//!
//! The client repeats nothing by itself (kube's own default repeats *every* verb 15 times and obeys any
//! `Retry-After`). It has no limit on how long an answer may take, because watches need none; every other request goes
//! through [`super::call`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{HeaderValue, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;

use super::call::{bounded, chain};
use super::proxy;

/// The namespace of the lease when neither a flag nor the configuration names one.
pub const DEFAULT_NAMESPACE: &str = "podgroup-system";

/// How long opening one connection may take. It is short, because the connection is retried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the kernel may take to accept a byte of ours before the connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no client. The program cannot start (exit status 2).
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file that `--kubeconfig` names cannot be used.
    #[error("--kubeconfig {path}: {reason}")]
    Flag {
        /// The path as typed.
        path: PathBuf,
        /// What is wrong with the file.
        reason: String,
    },
    /// There is no `--kubeconfig`, and none of the other places has a configuration.
    #[error(
        "no configuration for the API server: no --kubeconfig, no ServiceAccount of a pod ({in_cluster}), no default kubeconfig ({kubeconfig})"
    )]
    Nowhere {
        /// Why the pod's own ServiceAccount cannot be used.
        in_cluster: String,
        /// Why the default kubeconfig cannot be used.
        kubeconfig: String,
    },
    /// A configuration was found, but it contains something unusable (a malformed certificate, the URL of a proxy).
    #[error("the configuration of the API server cannot be used: {0}")]
    Unusable(String),
}

/// A client, and the other parts of the configuration.
#[derive(Clone)]
pub struct Connection {
    /// The client. It repeats nothing, and limits nothing but the time to connect.
    pub client: Client,
    /// The namespace of the pod or of the kubeconfig's context; `default` when the context names none.
    pub namespace: String,
    /// The address of the API server, for a log line.
    pub server: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({}, {})", self.server, self.namespace)
    }
}

/// Finds the configuration and makes the client; sends nothing. `program` and the version become the user agent:
/// audit logs and the API server's flow control distinguish the two programs by it.
///
/// # Errors
/// [`ConfigError`]. Its text is one line for the user.
pub async fn connect(kubeconfig: Option<&Path>, program: &'static str) -> Result<Connection, ConfigError> {
    let config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => from_surroundings().await?,
    };
    build(config, program)
}

/// Returns the error as one line: errors of the YAML reader have several.
fn one_line(error: &dyn std::error::Error) -> String {
    bounded(&chain(error))
}

async fn from_file(path: &Path) -> Result<Config, ConfigError> {
    let fault = |error: &dyn std::error::Error| ConfigError::Flag { path: path.to_owned(), reason: one_line(error) };
    let file = Kubeconfig::read_from(path).map_err(|e| fault(&e))?;
    proxy::configuration(file, &KubeConfigOptions::default()).await.map_err(|e| fault(&e))
}

async fn from_surroundings() -> Result<Config, ConfigError> {
    let in_cluster = match Config::incluster() {
        Ok(config) => return proxy::with_environment(config).map_err(|error| ConfigError::Unusable(one_line(&error))),
        Err(error) => one_line(&error),
    };
    let nowhere = |error: &dyn std::error::Error| ConfigError::Nowhere { in_cluster: in_cluster.clone(), kubeconfig: one_line(error) };
    let file = Kubeconfig::read().map_err(|error| nowhere(&error))?;
    proxy::configuration(file, &KubeConfigOptions::default()).await.map_err(|error| nowhere(&error))
}

fn build(mut config: Config, program: &'static str) -> Result<Connection, ConfigError> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    config.write_timeout = Some(WRITE_TIMEOUT);
    let agent = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
    let agent = HeaderValue::try_from(agent).map_err(|e| ConfigError::Unusable(one_line(&e)))?;
    config.headers.push((header::USER_AGENT, agent));
    let namespace = config.default_namespace.clone();
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|e| ConfigError::Unusable(one_line(&e)))?;
    Ok(Connection { client, namespace, server })
}

/// Returns the namespace for the lease: the flag's, or the configuration's, or
/// [`DEFAULT_NAMESPACE`]. A kubeconfig without a namespace says `default`, where no chart puts a lease.
pub fn lease_namespace(flag: Option<&str>, connection: &Connection) -> String {
    match (flag, connection.namespace.as_str()) {
        (Some(named), _) => named.to_owned(),
        (None, "" | "default") => DEFAULT_NAMESPACE.to_owned(),
        (None, configured) => configured.to_owned(),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
