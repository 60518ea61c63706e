//! Connects to the API server and to the scheduler as kubectl would, by the kubeconfig and the flags of kubectl.

use std::path::Path;
use std::time::Duration;

use axum::http::Uri;
use axum::http::header::{HeaderValue, USER_AGENT};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::runtime::call;
use crate::runtime::proxy::{self, Unusable};

use super::flags::{Common, is_name};

/// The time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the API server.
pub struct Connection {
    /// The client. It repeats nothing.
    pub client: Client,
    /// The namespace for commands that name none.
    pub namespace: String,
    /// The credentials that may be shown to the scheduler.
    pub bearer: Bearer,
}

/// The bearer token in the kubeconfig, for a server other than the API server.
#[derive(Debug)]
pub enum Bearer {
    /// The kubeconfig has no token.
    Nothing,
    /// A bearer token, or the source of one.
    Token(Box<AuthInfo>),
    /// No token, because the user acts as this other user (`--as`), and only the API server supports that. The user's own token would have
    /// other permissions.
    ActingAs(String),
}

/// Finds the configuration and makes the client; sends nothing.
///
/// # Errors
///
/// What is wrong with the configuration, in one line.
pub async fn connect(flags: &Common) -> Result<Connection, String> {
    let options = KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
    let mut config = match &flags.kubeconfig {
        Some(path) => from_file(path, &options).await?,
        None => from_surroundings(&options, flags.context.is_some()).await?,
    };
    act_as(flags, &mut config.auth_info)?;
    let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let bearer = bearer(&config.auth_info);
    Ok(Connection { client: client(config)?, namespace, bearer })
}

/// Puts the user of `--as` in the place of the one in the kubeconfig, as kubectl does; two users would be sent to the API server otherwise.
fn act_as(flags: &Common, user: &mut AuthInfo) -> Result<(), String> {
    let sendable =
        |value: &str, flag: &str| HeaderValue::try_from(value).map(|_| ()).map_err(|_| format!("{flag}: no header can carry this value"));
    let Some(name) = &flags.act_as else { return Ok(()) };
    sendable(name, "--as")?;
    user.impersonate = Some(name.clone());
    for group in &flags.act_as_groups {
        sendable(group, "--as-group")?;
    }
    if !flags.act_as_groups.is_empty() {
        user.impersonate_groups = Some(flags.act_as_groups.clone());
    }
    Ok(())
}

/// Returns the bearer token of a user. A client certificate proves nothing to a server that wants a token, and a password is for the API server only.
fn bearer(user: &AuthInfo) -> Bearer {
    if let Some(other) = &user.impersonate {
        return Bearer::ActingAs(other.clone());
    }
    let AuthInfo { token, token_file, auth_provider, exec, .. } = user.clone();
    let some = token.is_some() || token_file.is_some() || auth_provider.is_some() || exec.is_some();
    if some { Bearer::Token(Box::new(AuthInfo { token, token_file, auth_provider, exec, ..AuthInfo::default() })) } else { Bearer::Nothing }
}

async fn from_file(path: &Path, options: &KubeConfigOptions) -> Result<Config, String> {
    let wrong = |error: &Unusable| format!("--kubeconfig {}: {}", path.display(), explain(error));
    let file = Kubeconfig::read_from(path).map_err(|error| wrong(&error.into()))?;
    proxy::configuration(file, options).await.map_err(|error| wrong(&error))
}

/// Returns what is wrong with a kubeconfig, and what to do where that is not obvious.
fn explain(error: &Unusable) -> String {
    if matches!(error, Unusable::Kubeconfig(KubeconfigError::CurrentContextNotSet)) {
        return "it has no current-context: use --context (kubectl config get-contexts lists them)".to_owned();
    }
    if let Unusable::Kubeconfig(KubeconfigError::LoadContext(context)) = error {
        return format!("there is no context {context:?} in it (kubectl config get-contexts lists them)");
    }
    chain(error)
}

async fn from_surroundings(options: &KubeConfigOptions, named: bool) -> Result<Config, String> {
    let found = match Kubeconfig::read() {
        Ok(file) => proxy::configuration(file, options).await,
        Err(error) => Err(error.into()),
    };
    let error = match found {
        Ok(config) => return Ok(config),
        Err(error @ Unusable::Kubeconfig(_)) => explain(&error),
        // There is a kubeconfig.
        Err(error) => return Err(explain(&error)),
    };
    let in_cluster = if named { None } else { Config::incluster().ok() };
    let config =
        in_cluster.ok_or_else(|| format!("no configuration for the API server: {error}; use --kubeconfig FILE, or set KUBECONFIG"))?;
    proxy::with_environment(config).map_err(|error| chain(&error))
}

fn client(mut config: Config) -> Result<Client, String> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.headers.push((USER_AGENT, HeaderValue::from_static(concat!("kubectl-podgroup/", env!("CARGO_PKG_VERSION")))));
    Client::try_from(config).map_err(|error| format!("the configuration cannot be used: {}", chain(&error)))
}

/// Makes a client of the server at this URL.
///
/// # Errors
///
/// The client cannot be made.
pub fn at(url: Uri) -> Result<Client, String> {
    client(Config::new(url))
}

/// Makes a client of `--scheduler-url`, if it was given.
///
/// # Errors
///
/// What is wrong with its files, in one line.
pub fn scheduler(flags: &Common) -> Result<Option<Client>, String> {
    let Some(url) = &flags.scheduler_url else { return Ok(None) };
    client(trusting(flags, url.clone())?).map(Some)
}

/// Whether a flag was given that has a meaning only with TLS.
#[must_use]
pub const fn wants_tls(flags: &Common) -> bool {
    flags.scheduler_ca_file.is_some() || flags.scheduler_tls_server_name.is_some() || flags.scheduler_insecure_skip_tls_verify
}

/// Returns the configuration for a scheduler that serves TLS and is reached through a port-forward. Its certificate must be for `server`,
/// unless a flag names another.
///
/// # Errors
///
/// The missing flag, or what is wrong with its file, in one line.
pub fn forwarded(flags: &Common, server: &str, bearer: &Bearer) -> Result<Config, String> {
    if flags.scheduler_ca_file.is_none() && !flags.scheduler_insecure_skip_tls_verify {
        return Err(
            "the scheduler serves TLS: say --scheduler-ca-file with the authority of its certificate, or, where it signs its own, \
                    --scheduler-insecure-skip-tls-verify"
                .to_owned(),
        );
    }
    let mut config = trusting(flags, Uri::from_static("https://127.0.0.1"))?;
    if flags.scheduler_token_file.is_none() {
        config.auth_info = match bearer {
            Bearer::Token(user) => AuthInfo::clone(user),
            Bearer::Nothing => {
                return Err(
                    "the scheduler serves TLS and asks for a token, and the kubeconfig has none: say --scheduler-token-file (kubectl create token makes one), or \
                     --system-namespace where it was only found, in another namespace than the usual one"
                        .to_owned(),
                );
            }
            Bearer::ActingAs(other) => {
                return Err(format!(
                    "the scheduler serves TLS and asks for a token, and no user can act there as {other} (--as): your own token is not sent, for it shows what you may see. \
                     Say --scheduler-token-file with a token of {other}{}",
                    made_by(other)
                ));
            }
        };
    }
    // No certificate is issued for the local end of the port-forward.
    config.tls_server_name.get_or_insert_with(|| server.to_owned());
    Ok(config)
}

/// Returns the command that makes a token of this user, if it is a ServiceAccount.
fn made_by(user: &str) -> String {
    match user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => format!(" (kubectl create token {name} -n {namespace})"),
        _ => String::new(),
    }
}

/// Makes a client of the local end of the port-forward.
///
/// # Errors
///
/// The client cannot be made.
pub fn through(mut config: Config, url: Uri) -> Result<Client, String> {
    config.cluster_url = url;
    client(config)
}

/// Returns the configuration from the flags for the scheduler's certificate and token.
fn trusting(flags: &Common, url: Uri) -> Result<Config, String> {
    let mut config = Config::new(url);
    if let Some(file) = &flags.scheduler_ca_file {
        std::fs::metadata(file).map_err(|error| format!("--scheduler-ca-file {}: {error}", file.display()))?;
        config.root_cert_file = Some(file.clone());
    }
    if let Some(file) = &flags.scheduler_token_file {
        std::fs::metadata(file).map_err(|error| format!("--scheduler-token-file {}: {error}", file.display()))?;
        config.auth_info.token_file = Some(file.display().to_string());
    }
    config.tls_server_name.clone_from(&flags.scheduler_tls_server_name);
    config.accept_invalid_certs = flags.scheduler_insecure_skip_tls_verify;
    Ok(config)
}

/// Joins an error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    call::chain(error).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::flags::Arguments;
    use clap::Parser;

    /// Returns the user that the kubeconfig of `root` and these flags give.
    fn user(kubeconfig: Option<&str>, line: &str) -> Result<AuthInfo, String> {
        let flags = Arguments::parse_from(["kubectl-podgroup", "audit"].into_iter().chain(line.split_whitespace())).common;
        let impersonate_groups = kubeconfig.map(|_| vec!["g".to_owned()]);
        let mut user = AuthInfo {
            token_file: Some("f".to_owned()),
            impersonate: kubeconfig.map(str::to_owned),
            impersonate_groups,
            ..AuthInfo::default()
        };
        act_as(&flags, &mut user).map(|()| user)
    }

    #[tokio::test]
    async fn a_missing_context_comes_with_what_to_do() {
        let file = |text: &str| Kubeconfig::from_yaml(text).unwrap();
        let said = async |text, context: Option<&str>| {
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
            explain(&proxy::configuration(file(text), &options).await.unwrap_err())
        };
        assert!(said("{apiVersion: v1, kind: Config}", None).await.contains("no current-context: use --context"));
        assert!(said("current-context: prod", None).await.starts_with("there is no context \"prod\" in it"));
        assert!(said("current-context: prod", Some("dev")).await.starts_with("there is no context \"dev\" in it"));
    }

    #[test]
    fn a_user_that_acts_as_another_never_sends_the_own_token() {
        assert!(matches!(bearer(&user(None, "").unwrap()), Bearer::Token(own) if own.token_file.is_some()));
        assert!(matches!(bearer(&AuthInfo::default()), Bearer::Nothing));
        for (kubeconfig, line, want) in [(None, "--as u", "u"), (Some("k"), "", "k"), (Some("k"), "--as u", "u")] {
            assert!(matches!(bearer(&user(kubeconfig, line).unwrap()), Bearer::ActingAs(other) if other == want), "{line}");
        }
    }

    #[test]
    fn the_user_of_the_flags_replaces_the_user_of_the_kubeconfig() {
        let said = |kubeconfig, line| {
            let user = user(kubeconfig, line).unwrap();
            (user.impersonate.unwrap_or_default(), user.impersonate_groups.unwrap_or_default().join(" "))
        };
        let both = |user: &str, groups: &str| (user.to_owned(), groups.to_owned());
        assert_eq!(said(Some("k"), "--as u --as-group a --as-group b"), both("u", "a b"));
        assert_eq!(said(Some("k"), "--as u"), both("u", "g"), "as for kubectl");
        assert_eq!(said(None, "--as u"), both("u", ""));
        assert!(user(None, "--as \u{7f}").unwrap_err().starts_with("--as:"));
    }
}
