//! What was typed, and what does it mean?
//!
//! Every value is checked here, so that a wrong one ends the program with a line that names it (exit status 2) and the
//! rest of the program never meets it. A flag that is not known is an error that names the nearest one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, ValueEnum};
use k8s_openapi::jiff::SignedDuration;

use super::leader;
use super::tls::Files;

/// The flags that both programs take.
#[derive(Args, Clone, Debug)]
pub struct CommonFlags {
    /// Kubeconfig file. Without it: the pod's own ServiceAccount, else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE", value_parser = parse_path)]
    pub kubeconfig: Option<PathBuf>,

    /// Pods of this scheduler are served (repeatable)
    #[arg(long = "scheduler-name", value_name = "NAME", default_value = "podgroup-scheduler", value_parser = parse_scheduler_name)]
    pub scheduler_names: Vec<String>,

    /// Work only while this process holds the lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,

    /// Namespace of the lease. Without it: the namespace of the pod or of the kubeconfig's context, else podgroup-system
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_dns_label)]
    pub leader_elect_namespace: Option<String>,

    /// How long a lease that is not renewed keeps others away
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_seconds)]
    pub leader_elect_lease_duration: Duration,

    /// How long a leader goes on without having renewed; must be shorter than the lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_seconds)]
    pub leader_elect_renew_deadline: Duration,

    /// How often the lease is renewed or tried for; must be shorter than the renew deadline
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub leader_elect_retry_period: Duration,

    /// How long one request to the API server may take (100ms to 5m); watches are not limited by it
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_request_timeout)]
    pub request_timeout: Duration,

    /// Serve over TLS, and /metrics and /debug only to whom the API server lets see them (TokenReview, SubjectAccessReview); health stays open
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub secure_serving: bool,

    /// Certificate that is shown with --secure-serving (PEM); read again when it changes. Without it: one that this process signs itself
    #[arg(long, value_name = "FILE", value_parser = parse_path, requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file (PEM)
    #[arg(long, value_name = "FILE", value_parser = parse_path, requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Format of the log on stderr; what is logged is set by $RUST_LOG
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

impl CommonFlags {
    /// Whether the three times of the election fit together, where there is one.
    ///
    /// # Errors
    /// One line for the user that says which do not.
    pub fn check_election(&self) -> Result<(), String> {
        if !self.leader_elect {
            return Ok(());
        }
        leader::fit_together(self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period)
    }

    /// The two files of the certificate, if there are any.
    ///
    /// # Errors
    /// When they would not be used, which nobody wants who names them.
    pub fn tls_files(&self) -> Result<Option<Files>, String> {
        match (self.tls_cert_file.clone(), self.tls_private_key_file.clone()) {
            (Some(certificate), Some(key)) if self.secure_serving => Ok(Some(Files { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), _) | (_, Some(_)) => Err("--tls-cert-file and --tls-private-key-file are used with --secure-serving only".to_owned()),
        }
    }
}

/// The flags of `podgroup-controller`.
#[derive(Clone, Debug, Parser)]
#[command(name = "podgroup-controller", version, about = "Keeps the PodGroups that the pods of a cluster need")]
pub struct ControllerFlags {
    /// What both programs take.
    #[command(flatten)]
    pub common: CommonFlags,

    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080", value_parser = parse_address)]
    pub http_address: SocketAddr,

    /// How many PodGroups are worked on at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,

    /// Write the group-name annotation onto pods that the admission policy did not stamp (bare pods, older pods,
    /// clusters without the policy). Only other schedulers need it: ours finds the group of a pod without it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub annotate_pods: bool,
}

/// The flags of `podgroup-scheduler`.
#[derive(Clone, Debug, Parser)]
#[command(name = "podgroup-scheduler", version, about = "Places the pods of PodGroups, whole gangs or nothing")]
pub struct SchedulerFlags {
    /// What both programs take.
    #[command(flatten)]
    pub common: CommonFlags,

    /// Where /healthz, /readyz, /metrics and /debug are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081", value_parser = parse_address)]
    pub http_address: SocketAddr,

    /// Whether a pod goes to the emptiest node that fits or to the fullest
    #[arg(long, value_enum, default_value_t = Placement::Spread)]
    pub placement: Placement,

    /// Who says by a queue's status whether it takes new groups: this scheduler, from the annotation queue-desired-state (own), or Volcano's queue
    /// controller, whose status.state is obeyed and whose fields are left alone (obey)
    #[arg(long, value_enum, default_value_t = QueueStatusBy::Own)]
    pub queue_status: QueueStatusBy,

    /// Whether pods may be evicted so that a queue gets back what it is owed, or a higher priority its place
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub evictions: bool,

    /// How long a group that is admitted and finds no places keeps others out of its queue; then it waits without, and twice as long
    /// each time before it is admitted again. 0s: for ever
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_patience)]
    pub admission_patience: Duration,

    /// How long a gang of which only a part could be bound waits for places for the rest; then that part is evicted, and the gang
    /// waits as a whole. 0s: for ever
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_patience)]
    pub release_after: Duration,

    /// How many bindings are under way at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub bind_concurrency: u16,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for a person.
    #[default]
    Text,
    /// One JSON object on a line.
    Json,
}

/// Which of the nodes that fit is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// The emptiest, so that a failing node takes little with it.
    #[default]
    Spread,
    /// The fullest, so that whole nodes stay free for large gangs.
    Pack,
}

/// Who writes `status.state` and the counts of groups of a queue; `status.allocated` is this scheduler's either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum QueueStatusBy {
    /// This scheduler.
    #[default]
    Own,
    /// Volcano's queue controller: what it says is obeyed.
    Obey,
}

fn parse_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the name of a file is expected".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// `IP:PORT`, or `:PORT` for every IPv4 address of the machine.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let parsed = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| "expected IP:PORT, [IPV6]:PORT or :PORT".to_owned())
}

/// The API server accepts any non-empty text as a scheduler's name; blanks and commas are always a slip of the hand.
fn parse_scheduler_name(text: &str) -> Result<String, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    if text.is_empty() || text.len() > 253 || text.contains(odd) {
        return Err("expected one name without blanks or commas; repeat the flag for more".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_dns_label(text: &str) -> Result<String, String> {
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = text.starts_with('-') || text.ends_with('-');
    if text.is_empty() || text.len() > 63 || ends || !text.chars().all(ok) {
        return Err("expected a namespace: lower case letters, digits and '-'".to_owned());
    }
    Ok(text.to_owned())
}

/// A duration as Kubernetes writes it: `500ms`, `10s`, `1m30s`. Above 0, at most a day.
fn parse_duration(text: &str) -> Result<Duration, String> {
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|signed| Duration::try_from(signed).ok())
        .filter(|duration| !duration.is_zero() && *duration <= Duration::from_secs(86_400))
        .ok_or_else(|| "expected a duration such as 500ms, 10s or 1m30s".to_owned())
}

/// 0 means for ever.
fn parse_patience(text: &str) -> Result<Duration, String> {
    let zero = text.parse::<SignedDuration>().is_ok_and(|patience| patience.is_zero());
    if zero { Ok(Duration::ZERO) } else { parse_duration(text) }
}

/// The Lease object counts whole seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    parse_duration(text).and_then(
        |duration| {
            if duration.subsec_nanos() == 0 { Ok(duration) } else { Err("expected whole seconds".to_owned()) }
        },
    )
}

fn parse_request_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text).and_then(|duration| {
        if (Duration::from_millis(100)..=Duration::from_secs(300)).contains(&duration) {
            Ok(duration)
        } else {
            Err("expected 100ms to 5m".to_owned())
        }
    })
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
