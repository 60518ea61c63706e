//! The command lines of the two programs.
//!
//! Every value is checked here, so a wrong one ends the program with a line that names it (exit status 2). The rest of
//! the program never sees a wrong value. An unknown flag is an error that names the nearest known one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, ValueEnum};
use k8s_openapi::jiff::SignedDuration;

use crate::api::dns::is_label;

use super::http::CertificateFiles;
use super::leader;

/// The flags that both programs take.
#[derive(Args, Clone, Debug)]
pub struct CommonFlags {
    /// Kubeconfig file. Without it: the pod's own ServiceAccount, else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE", value_parser = parse_path)]
    pub kubeconfig: Option<PathBuf>,

    /// The pods whose schedulerName is this are served (repeatable)
    #[arg(long = "scheduler-name", value_name = "NAME", default_value = "podgroup-scheduler", value_parser = parse_scheduler_name)]
    pub scheduler_names: Vec<String>,

    /// Work only while this process holds the lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,

    /// Namespace of the lease. Without it: the namespace of the pod or of the kubeconfig's context, else podgroup-system
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_dns_label)]
    pub leader_elect_namespace: Option<String>,

    /// How long other processes wait for a lease that is not renewed before they take it
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_seconds)]
    pub leader_elect_lease_duration: Duration,

    /// How long a leader works on without a renewal of its lease; must be shorter than the lease duration
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_seconds)]
    pub leader_elect_renew_deadline: Duration,

    /// Time between two attempts to renew or to acquire the lease; must be shorter than the renew deadline
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub leader_elect_retry_period: Duration,

    /// Time limit of one request to the API server (100ms to 5m); it does not apply to watches
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_request_timeout)]
    pub request_timeout: Duration,

    /// Serve over TLS. /metrics and /debug then require a token that the API server authorizes (TokenReview, SubjectAccessReview); health stays open.
    /// Without it, /debug is served on the loopback address only, which kubectl port-forward uses
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub secure_serving: bool,

    /// Certificate for --secure-serving (PEM), read again when it changes. Without it: a self-signed certificate
    #[arg(long, value_name = "FILE", value_parser = parse_path, requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file (PEM)
    #[arg(long, value_name = "FILE", value_parser = parse_path, requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Format of the log on stderr; $RUST_LOG sets the filter
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

impl CommonFlags {
    /// Checks that the three durations of the election fit together. Without election nothing is checked.
    ///
    /// # Errors
    /// One line for the user that names the flags.
    pub fn check_election(&self) -> Result<(), String> {
        if !self.leader_elect {
            return Ok(());
        }
        leader::fit_together(self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period)
    }

    /// Returns the files of the certificate and its key, if there are any.
    ///
    /// # Errors
    /// When files are named but not used, because `--secure-serving` is off.
    pub fn tls_files(&self) -> Result<Option<CertificateFiles>, String> {
        match (self.tls_cert_file.clone(), self.tls_private_key_file.clone()) {
            (Some(certificate), Some(key)) if self.secure_serving => Ok(Some(CertificateFiles { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), _) | (_, Some(_)) => Err("--tls-cert-file and --tls-private-key-file are used with --secure-serving only".to_owned()),
        }
    }
}

/// The flags of `podgroup-controller`.
#[derive(Clone, Debug, Parser)]
#[command(name = "podgroup-controller", version, about = "Creates and updates the PodGroups for the pods of a cluster")]
pub struct ControllerFlags {
    /// The flags of both programs.
    #[command(flatten)]
    pub common: CommonFlags,

    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080", value_parser = parse_address)]
    pub http_address: SocketAddr,

    /// How many PodGroups are reconciled at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,

    /// Write the group-name annotation onto pods that the admission policy did not annotate (bare pods, older pods,
    /// clusters without the policy), and mend the label podgroup.dev/group of pods on which a webhook named another PodGroup.
    /// Only other schedulers and label selectors need it: podgroup-scheduler finds the PodGroup of a pod without it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub annotate_pods: bool,
}

/// The flags of `podgroup-scheduler`.
#[derive(Clone, Debug, Parser)]
#[command(name = "podgroup-scheduler", version, about = "Schedules the pods of PodGroups, whole gangs or nothing")]
pub struct SchedulerFlags {
    /// The flags of both programs.
    #[command(flatten)]
    pub common: CommonFlags,

    /// Where /healthz, /readyz, /metrics and /debug are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081", value_parser = parse_address)]
    pub http_address: SocketAddr,

    /// Which of the nodes that fit a pod goes to: the emptiest (spread), the fullest (pack), or (auto) the one with the fewest free devices for a
    /// pod that requests a device, and the emptiest for any other
    #[arg(long, value_enum, default_value_t = Placement::Auto)]
    pub placement: Placement,

    /// Which program decides whether a queue is open: this scheduler, from the annotation queue-desired-state (own), or Volcano's queue
    /// controller, whose status.state is obeyed and whose fields are not written (obey)
    #[arg(long, value_enum, default_value_t = QueueStatusBy::Own)]
    pub queue_status: QueueStatusBy,

    /// Whether pods may be evicted: to reclaim what a queue deserves, to preempt pods of lower priority, or to end a gang that stays partly
    /// bound (--release-after)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub evictions: bool,

    /// What a PodGroup must fit in to be admitted: the quota of its queue (quota), or also what the nodes offer beside what is used and
    /// reserved (nodes). With nodes, operators that create pods only for an admitted PodGroup give an autoscaler nothing to see
    #[arg(long, value_enum, default_value_t = AdmitBy::Quota)]
    pub admit_by: AdmitBy,

    /// How long an admitted PodGroup that finds no nodes holds its reservation in its queue. Then its admission is revoked, and it
    /// waits twice as long each time before it is admitted again. 0s: for ever
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration_or_zero, alias = "admission-patience")]
    pub admission_timeout: Duration,

    /// How long a partially bound gang waits for nodes for its other pods. Then its bound pods are evicted, and the
    /// whole gang waits. 0s: for ever
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration_or_zero)]
    pub release_after: Duration,

    /// How long pods that have nodes wait there until all their claims are bound. Then the nodes of the whole gang are given back, and it is tried
    /// again after a back-off. As bindTimeoutSeconds of kube-scheduler
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub volume_timeout: Duration,

    /// Whether each pod that is bound gets an Event Scheduled, as from kube-scheduler. It costs one more write for each pod
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub scheduled_events: bool,

    /// How many binding requests are in progress at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub bind_concurrency: u16,
}

/// What a PodGroup must fit in to be admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AdmitBy {
    /// The quota of its queue and of all queues above it.
    #[default]
    Quota,
    /// The quota, and what all nodes offer beside what is used and reserved.
    Nodes,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The node that is chosen among the nodes that fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// By devices for a pod that requests a device, so that whole nodes stay free for gangs; the emptiest node for any other pod.
    #[default]
    Auto,
    /// The emptiest node, so that the failure of a node affects few pods.
    Spread,
    /// The fullest node, so that whole nodes stay free for large gangs.
    Pack,
}

/// The writer of `status.state` and of the counts of PodGroups of a queue; this scheduler writes `status.allocated` in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum QueueStatusBy {
    /// This scheduler.
    #[default]
    Own,
    /// Volcano's queue controller; this scheduler obeys its state.
    Obey,
}

fn parse_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the name of a file is expected".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// Reads `IP:PORT`, or `:PORT` for every IPv4 address of the machine.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let parsed = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| "expected IP:PORT, [IPV6]:PORT or :PORT".to_owned())
}

/// Reads a scheduler's name. The API server accepts any non-empty text; blanks and commas are always a typing error.
fn parse_scheduler_name(text: &str) -> Result<String, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    if text.is_empty() || text.len() > 253 || text.contains(odd) {
        return Err("expected one name without blanks or commas; repeat the flag for more".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_dns_label(text: &str) -> Result<String, String> {
    if is_label(text) { Ok(text.to_owned()) } else { Err("expected a namespace: lower case letters, digits and '-'".to_owned()) }
}

/// Reads a duration as Kubernetes writes it: `500ms`, `10s`, `1m30s`. Above 0, at most a day.
fn parse_duration(text: &str) -> Result<Duration, String> {
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|signed| Duration::try_from(signed).ok())
        .filter(|duration| !duration.is_zero() && *duration <= Duration::from_secs(86_400))
        .ok_or_else(|| "expected a duration such as 500ms, 10s or 1m30s".to_owned())
}

/// Reads a duration, or zero, which means for ever.
fn parse_duration_or_zero(text: &str) -> Result<Duration, String> {
    let zero = text.parse::<SignedDuration>().is_ok_and(|duration| duration.is_zero());
    if zero { Ok(Duration::ZERO) } else { parse_duration(text) }
}

/// Reads a duration in whole seconds, as the Lease object has it.
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
