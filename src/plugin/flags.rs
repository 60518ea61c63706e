//! Parses the command line of the plugin. Flags have the same names as in kubectl.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use k8s_openapi::jiff::SignedDuration;

/// `kubectl podgroup`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-podgroup",
    bin_name = "kubectl podgroup",
    version,
    about = "Why PodGroups wait, and how full the queues and nodes are"
)]
pub struct Arguments {
    /// The flags that every verb has.
    #[command(flatten)]
    pub common: Common,

    /// What is wanted.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags that every verb has.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Kubeconfig file. Without it: $KUBECONFIG, else ~/.kube/config, else the pod's own ServiceAccount
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub context: Option<String>,

    /// Namespace. Without it: that of the context
    #[arg(short, long, global = true, value_name = "NAMESPACE", value_parser = parse_name)]
    pub namespace: Option<String>,

    /// How long one request may take, as 10s or 1m; 0 is without a limit
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = parse_timeout)]
    pub request_timeout: Duration,

    /// User to act as
    #[arg(long = "as", global = true, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub act_as: Option<String>,

    /// Group to act as; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "act_as", value_parser = NonEmptyStringValueParser::new())]
    pub act_as_groups: Vec<String>,

    /// The scheduler's HTTP endpoint, as http://127.0.0.1:8081. Without it: a port-forward to the pod that holds the scheduler's Lease
    #[arg(long, global = true, value_name = "URL", value_parser = parse_url)]
    pub scheduler_url: Option<Uri>,

    /// File with the authority of the scheduler's certificate, in PEM, where it serves TLS
    #[arg(long, global = true, value_name = "FILE")]
    pub scheduler_ca_file: Option<PathBuf>,

    /// The name that the scheduler's certificate must have. Without it: the host of --scheduler-url, else that of the Service that leads to
    /// the scheduler's pod, as podgroup-scheduler.NAMESPACE.svc
    #[arg(long, global = true, value_name = "NAME", value_parser = parse_name)]
    pub scheduler_tls_server_name: Option<String>,

    /// Any certificate of the scheduler is good enough, and the token is sent to any server
    #[arg(long, global = true, conflicts_with_all = ["scheduler_ca_file", "scheduler_tls_server_name"])]
    pub scheduler_insecure_skip_tls_verify: bool,

    /// File with a token for the scheduler. Without it: none is sent to --scheduler-url, and the kubeconfig's to a port-forward with TLS
    /// into the usual namespace or --system-namespace, but not with --as
    #[arg(long, global = true, value_name = "FILE")]
    pub scheduler_token_file: Option<PathBuf>,

    /// Namespace of the scheduler's Lease and pods. Without it: podgroup-system, else that of the only Lease of its name
    #[arg(long, global = true, value_name = "NAMESPACE", value_parser = parse_name)]
    pub system_namespace: Option<String>,

    /// The API's objects only: the scheduler itself is not asked
    #[arg(long, global = true, conflicts_with = "scheduler_url")]
    pub without_scheduler: bool,

    /// Form of the answer
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What is wanted.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Why does a PodGroup wait, and what would have to change
    Why {
        /// A PodGroup, or kind/name of a Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or pod whose PodGroup is meant
        #[arg(value_name = "NAME", value_parser = parse_target)]
        target: Target,
    },
    /// The queues as a tree: used, reserved, deserved and capability
    Tree {
        /// With the PodGroups in them
        #[arg(long)]
        groups: bool,
    },
    /// What is charged on each node; overcommitted ones are marked
    Nodes,
    /// Opens or closes a queue
    Queue {
        /// Open or close
        #[command(subcommand)]
        change: QueueChange,
    },
    /// Whether the scheduler's accounting agrees with a recount; exit status 1 if not
    Audit,
    /// The versions of this plugin, the controller and the scheduler, and what to do where they differ
    Version,
    /// Prints a completion script
    Completion {
        /// For this shell
        #[arg(value_parser = PossibleValuesParser::new(["bash", "zsh", "fish"]).map(shell))]
        shell: Shell,
    },
}

/// What is to become of a queue.
#[derive(Debug, Subcommand)]
pub enum QueueChange {
    /// The queue takes PodGroups again, and so do the queues below it that are not closed themselves
    Open(Named),
    /// No PodGroup is admitted in the queue and the queues below it; placed pods keep running
    Close(Named),
}

/// Which queue.
#[derive(Args, Debug)]
pub struct Named {
    /// The queue
    #[arg(value_name = "QUEUE", value_parser = parse_name)]
    pub name: String,

    /// Say what would come of it, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// The same with more columns.
    Wide,
    /// For programs.
    Json,
}

/// The object that `why` reports on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind of the object; none if only a name was given.
    pub kind: Option<Kind>,
    /// The name.
    pub name: String,
}

/// The kinds of objects that have PodGroups. Each variant says which PodGroups it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The PodGroup itself.
    PodGroup,
    /// The PodGroups of its ReplicaSets.
    Deployment,
    /// The PodGroup of its pods.
    StatefulSet,
    /// The PodGroup of its pods.
    Job,
    /// The PodGroups of its Jobs.
    CronJob,
    /// The PodGroup of its pods.
    DaemonSet,
    /// The PodGroup of its pods.
    ReplicaSet,
    /// The PodGroup that the pod belongs to.
    Pod,
}

impl Kind {
    /// All kinds, in the order in which a name without a kind is searched.
    pub const ALL: [Self; 8] =
        [Self::PodGroup, Self::Deployment, Self::StatefulSet, Self::Job, Self::CronJob, Self::DaemonSet, Self::ReplicaSet, Self::Pod];

    /// Returns the name of the kind in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodGroup => "PodGroup",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::DaemonSet => "DaemonSet",
            Self::ReplicaSet => "ReplicaSet",
            Self::Pod => "Pod",
        }
    }

    /// Whether its names are made by controllers rather than by people.
    #[must_use]
    pub const fn is_generated(self) -> bool {
        matches!(self, Self::ReplicaSet | Self::Pod)
    }

    /// The path of its list in a namespace, or in all of them.
    #[must_use]
    pub fn path(self, namespace: Option<&str>) -> String {
        let (group, plural) = match self {
            Self::PodGroup => ("apis/scheduling.volcano.sh/v1beta1", "podgroups"),
            Self::Deployment => ("apis/apps/v1", "deployments"),
            Self::StatefulSet => ("apis/apps/v1", "statefulsets"),
            Self::Job => ("apis/batch/v1", "jobs"),
            Self::CronJob => ("apis/batch/v1", "cronjobs"),
            Self::DaemonSet => ("apis/apps/v1", "daemonsets"),
            Self::ReplicaSet => ("apis/apps/v1", "replicasets"),
            Self::Pod => ("api/v1", "pods"),
        };
        match namespace {
            Some(namespace) => format!("/{group}/namespaces/{namespace}/{plural}"),
            None => format!("/{group}/{plural}"),
        }
    }

    /// The kind with this name, plural or short name, as kubectl takes them: alone, or with its API group as kubectl prints it (`deployment.apps`).
    fn of(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let Some((kind, group)) = text.split_once('.') else { return Self::named(&text) };
        Self::named(kind).filter(|kind| kind.group() == Some(group))
    }

    /// Returns its API group; `None` for the core group, which kubectl does not print.
    const fn group(self) -> Option<&'static str> {
        match self {
            Self::PodGroup => Some("scheduling.volcano.sh"),
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::ReplicaSet => Some("apps"),
            Self::Job | Self::CronJob => Some("batch"),
            Self::Pod => None,
        }
    }

    fn named(text: &str) -> Option<Self> {
        Some(match text {
            "podgroup" | "podgroups" | "pg" => Self::PodGroup,
            "deployment" | "deployments" | "deploy" => Self::Deployment,
            "statefulset" | "statefulsets" | "sts" => Self::StatefulSet,
            "job" | "jobs" => Self::Job,
            "cronjob" | "cronjobs" | "cj" => Self::CronJob,
            "daemonset" | "daemonsets" | "ds" => Self::DaemonSet,
            "replicaset" | "replicasets" | "rs" => Self::ReplicaSet,
            "pod" | "pods" | "po" => Self::Pod,
            _ => return None,
        })
    }
}

fn shell(name: String) -> Shell {
    match name.as_str() {
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => Shell::Bash,
    }
}

/// Returns whether the text can be the name of an object. User input becomes a part of an API path only in this form.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = text.starts_with(['-', '.']) || text.ends_with(['-', '.']);
    !text.is_empty() && text.len() <= 253 && !ends && text.chars().all(inner)
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err("expected a name: lower case letters, digits, '-' and '.'".to_owned()) }
}

fn parse_target(text: &str) -> Result<Target, String> {
    let Some((kind, name)) = text.split_once('/') else { return parse_name(text).map(|name| Target { kind: None, name }) };
    let kind = Kind::of(kind).ok_or_else(|| not_a_kind(kind, name))?;
    parse_name(name).map(|name| Target { kind: Some(kind), name })
}

/// Returns the error for a kind that `why` does not read. A JobSet has the PodGroups of its Jobs, or one PodGroup for each attempt; a
/// LeaderWorkerSet has one for each group, of the operator or of our controller.
fn not_a_kind(kind: &str, name: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if is_name(name) && ["jobset", "jobsets", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io"].contains(&&*lower) {
        return format!(
            "name a Job of JobSet {name} (job/NAME), or the PodGroup of the whole JobSet (podgroup/jobset-{name}-0 for its first attempt)"
        );
    }
    if is_name(name) && (lower == "lws" || lower.starts_with("leaderworkerset")) {
        return format!("name the leader of a group of LeaderWorkerSet {name}: pod/{name}-0 is the first");
    }
    format!("{kind:?} is none of podgroup, deployment, statefulset, job, cronjob, daemonset, replicaset, pod")
}

fn parse_url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| "expected a URL such as http://127.0.0.1:8081".to_owned())?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some() => Ok(uri),
        _ => Err("expected http://HOST:PORT or https://HOST:PORT".to_owned()),
    }
}

/// A duration as kubectl takes it; one without a unit is in seconds, and 0 is as long as a day.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let wrong = || "expected a duration such as 500ms, 10s or 1m30s, or 0".to_owned();
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(if seconds == 0 { DAY } else { Duration::from_secs(seconds.into()).min(DAY) });
    }
    let signed: SignedDuration = text.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from(signed).map_err(|_| wrong())?;
    Ok(if duration.is_zero() { DAY } else { duration.min(DAY) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_asked_about_is_a_name_or_kind_and_name() {
        let target = |kind, name: &str| Ok(Target { kind, name: name.to_owned() });
        assert_eq!(parse_target("train"), target(None, "train"));
        assert_eq!(parse_target("deploy/train"), target(Some(Kind::Deployment), "train"));
        assert_eq!(parse_target("STS/a.b"), target(Some(Kind::StatefulSet), "a.b"));
        assert_eq!(parse_target("cj/nightly"), target(Some(Kind::CronJob), "nightly"));
        for (text, kind) in [
            ("deployment.apps/x", Kind::Deployment),
            ("statefulset.apps/x", Kind::StatefulSet),
            ("job.batch/x", Kind::Job),
            ("CronJob.batch/x", Kind::CronJob),
            ("podgroup.scheduling.volcano.sh/x", Kind::PodGroup),
        ] {
            assert_eq!(parse_target(text), target(Some(kind), "x"), "as kubectl prints it");
        }
        for lws in ["lws/x", "leaderworkersets/x", "leaderworkerset.leaderworkerset.x-k8s.io/x"] {
            assert!(parse_target(lws).unwrap_err().contains("pod/x-0"), "{lws}");
        }
        for jobset in ["jobset/x", "jobset.jobset.x-k8s.io/x"] {
            let error = parse_target(jobset).unwrap_err();
            assert!(error.contains("podgroup/jobset-x-0") && error.contains("job/NAME"), "{error}");
        }
        for wrong in [
            "deployment.batch/x",
            "pod.apps/x",
            "jobset/$(x)",
            "deployment./x",
            ".apps/x",
            "",
            "a/b/c",
            "service/x",
            "pod/",
            "..",
            "pg/../x",
            "A",
            "a b",
            "a?b",
            "pod/a\u{1b}",
        ] {
            assert!(parse_target(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_timeout_is_read_as_kubectl_reads_it() {
        let table = [("10s", 10_000), ("500ms", 500), ("7", 7_000), ("0", 86_400_000), ("0s", 86_400_000), ("1m30s", 90_000)];
        for (text, millis) in table {
            assert_eq!(parse_timeout(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        assert!(parse_timeout("-1s").is_err() && parse_timeout("soon").is_err());
    }

    #[test]
    fn flags_may_stand_before_or_behind_the_verb() {
        for line in ["why train -n team -o json", "-n team -o json why train"] {
            let arguments = Arguments::try_parse_from(std::iter::once("kubectl-podgroup").chain(line.split(' '))).unwrap();
            assert_eq!((arguments.common.namespace.as_deref(), arguments.common.output), (Some("team"), Output::Json));
        }
        for wrong in [
            "why",
            "why a b",
            "tree --wide",
            "queue shut x",
            "completion tcsh",
            "nodes --scheduler-url here",
            "audit -o yaml",
            "tree --as=",
            "tree --as u --as-group=",
            "tree --context=",
            "tree -n=",
        ] {
            assert!(Arguments::try_parse_from(std::iter::once("kubectl-podgroup").chain(wrong.split(' '))).is_err(), "{wrong}");
        }
    }
}
