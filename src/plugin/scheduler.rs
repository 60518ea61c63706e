//! How is the scheduler itself asked? At `--scheduler-url`, else through `kubectl port-forward` to the pod that holds the scheduler's Lease.
//!
//! kubectl is there where a plugin of it is, and forwards with whatever credentials it has; it is ended when the answer is there.

use std::process::Stdio;
use std::time::Duration;

use axum::http::Uri;
use kube::config::AuthInfo;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::api::names::SCHEDULER;
use crate::runtime::call::CallError;
use crate::runtime::client::DEFAULT_NAMESPACE;

use super::connect;
use super::fetch::{Fetch, told};
use super::flags::{Common, is_name};

/// The port of the scheduler's container where it names none.
const PORT: u16 = 8081;

/// How much of what kubectl complains about is repeated.
const COMPLAINT: u64 = 1_000;

/// A way to the scheduler's HTTP endpoint.
pub struct Scheduler {
    fetch: Fetch,
    /// Where that leads, for people.
    place: String,
    /// What they may look at where nobody answers there.
    hint: &'static str,
    /// Ends with this value.
    _forward: Option<Forward>,
}

/// A port-forward that is open, until this is dropped.
struct Forward {
    /// The port on this machine.
    port: u16,
    _kubectl: Child,
    /// kubectl says each connection on them, and ends where nobody would read that.
    _pipes: (BufReader<ChildStdout>, ChildStderr),
}

impl Scheduler {
    /// Finds the scheduler, and opens the way to it.
    ///
    /// # Errors
    ///
    /// Why it cannot be asked, and what to do about it, in one line.
    pub async fn find(flags: &Common, fetch: &Fetch, bearer: Option<&AuthInfo>) -> Result<Self, String> {
        const PLAIN: &str = "where the scheduler serves TLS: --scheduler-url https://…";
        const TLS: &str = "its certificate must be of --scheduler-ca-file and have the name of --scheduler-tls-server-name";
        if flags.without_scheduler {
            return Err("not asked (--without-scheduler)".to_owned());
        }
        if let Some(client) = connect::scheduler(flags)? {
            return Ok(Self { fetch: Fetch::new(client, fetch.limit()), place: "--scheduler-url".to_owned(), hint: PLAIN, _forward: None });
        }
        let lease =
            lease(fetch, flags.system_namespace.as_deref(), SCHEDULER).await.map_err(|why| format!("{why} (or say --scheduler-url)"))?;
        let (namespace, pod) = holder(&lease)?;
        let hint = "say --scheduler-url, or --system-namespace where it runs elsewhere";
        let found = fetch.get(&format!("/api/v1/namespaces/{namespace}/pods/{pod}")).await;
        let Some(object) = found.map_err(|error| format!("pod {namespace}/{pod}: {}", told(&error)))? else {
            return Err(format!("its Lease names pod {namespace}/{pod}, which does not exist; {hint}"));
        };
        let place = format!("the other end of kubectl port-forward to pod {namespace}/{pod}");
        let Port { number, tls } = port(&object);
        // Before kubectl is started in vain.
        let trusted = namespace == flags.system_namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let config = match tls {
            true => Some(connect::forwarded(flags, &namespace, bearer.filter(|_| trusted))?),
            false if connect::wants_tls(flags) => return Err(format!("pod {namespace}/{pod} serves no TLS, and the flags ask for it")),
            false => None,
        };
        let forward = forwarded(flags, &namespace, &pod, number, fetch.limit()).await.map_err(|why| format!("{place}: {why}"))?;
        let url = |scheme: &str| -> Result<Uri, String> {
            format!("{scheme}://127.0.0.1:{}", forward.port).parse().map_err(|_| "no port".to_owned())
        };
        let (client, hint) = match config {
            Some(config) => (connect::through(config, url("https")?)?, TLS),
            None => (connect::at(url("http")?)?, PLAIN),
        };
        Ok(Self { fetch: Fetch::new(client, fetch.limit()), place, hint, _forward: Some(forward) })
    }

    /// The JSON at a path of the endpoint.
    ///
    /// # Errors
    ///
    /// Why there is no answer, and what to do about it, in one line.
    pub async fn ask(&self, path: &str) -> Result<Value, String> {
        let place = &self.place;
        self.fetch.json(path).await.map_err(|error| match &error {
            CallError::Unavailable(message) => {
                format!("nobody answers at {place}: {message} ({})", self.hint)
            }
            CallError::Unauthorized(_) | CallError::Forbidden(_) => {
                format!("{place} asks for a token with the right to {path}: say --scheduler-token-file")
            }
            CallError::NotFound(_) => format!("there is no {path} at {place}: is it the scheduler's?"),
            CallError::Conflict(_)
            | CallError::AlreadyExists(_)
            | CallError::Invalid(_)
            | CallError::NamespaceTerminating(_)
            | CallError::Expired(_)
            | CallError::DisruptionBudget(_)
            | CallError::TooManyRequests { .. }
            | CallError::Timeout(_)
            | CallError::Other(_) => format!("{place}: {error}"),
        })
    }
}

/// Starts the port-forward, and waits until it is open.
async fn forwarded(flags: &Common, namespace: &str, pod: &str, port: u16, limit: Duration) -> Result<Forward, String> {
    let mut kubectl = Command::new("kubectl");
    kubectl
        .args(arguments(flags, namespace, pod, port))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = kubectl.spawn().map_err(|error| format!("kubectl cannot be started ({error}); say --scheduler-url"))?;
    let (Some(out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else { return Err("kubectl has no output".to_owned()) };
    let mut out = BufReader::new(out);
    match tokio::time::timeout(limit, opened(&mut out)).await {
        Ok(Some(port)) => Ok(Forward { port, _kubectl: child, _pipes: (out, err) }),
        Err(_) => Err("it was not open in time (see --request-timeout)".to_owned()),
        Ok(None) => {
            let mut complaint = Vec::new();
            // It has ended, so what it has said is there.
            let _ = tokio::time::timeout(limit, (&mut err).take(COMPLAINT).read_to_end(&mut complaint)).await;
            Err(String::from_utf8_lossy(&complaint).split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// What kubectl is told: whose cluster, as whom, and any free port of this machine for the one of the pod.
fn arguments(flags: &Common, namespace: &str, pod: &str, port: u16) -> Vec<String> {
    let mut arguments = vec!["port-forward".to_owned(), "--address=127.0.0.1".to_owned(), format!("--namespace={namespace}")];
    arguments.extend(flags.kubeconfig.as_ref().map(|file| format!("--kubeconfig={}", file.display())));
    arguments.extend(flags.context.as_ref().map(|context| format!("--context={context}")));
    arguments.extend(flags.act_as.as_ref().map(|user| format!("--as={user}")));
    arguments.extend(flags.act_as_groups.iter().map(|group| format!("--as-group={group}")));
    arguments.extend([format!("pod/{pod}"), format!(":{port}")]);
    arguments
}

/// The port on this machine, from the line in which kubectl names it; none where it ends without.
async fn opened(mut out: impl AsyncBufRead + Unpin) -> Option<u16> {
    let mut line = String::new();
    while out.read_line(&mut line).await.ok()? > 0 {
        let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        if port.is_some() {
            return port;
        }
        line.clear();
    }
    None
}

/// The Lease of a program: in this namespace and no other, or, where none was given, in the usual one, else the only one of its name.
///
/// # Errors
///
/// Why there is none to go by, and what to do about it, in one line.
pub async fn lease(fetch: &Fetch, given: Option<&str>, program: &str) -> Result<Value, String> {
    let namespace = given.unwrap_or(DEFAULT_NAMESPACE);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{program}");
    let lease = fetch.get(&path).await.map_err(|error| format!("Lease {namespace}/{program}: {}", told(&error)))?;
    let elsewhere = match (&lease, given) {
        (None, None) => {
            let of_that_name = format!("&fieldSelector=metadata.name%3D{program}");
            fetch.list("/apis/coordination.k8s.io/v1/leases", &of_that_name).await.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    the_one(lease, elsewhere, namespace, program)
}

/// The Lease to go by. Tenants may make Leases, and to whose pod it leads is sent what the one who asks may send: so one of several is never picked.
fn the_one(lease: Option<Value>, elsewhere: Vec<Value>, namespace: &str, program: &str) -> Result<Value, String> {
    let mut elsewhere = elsewhere.into_iter();
    match (lease.or_else(|| elsewhere.next()), elsewhere.len()) {
        (Some(lease), 0) => Ok(lease),
        (None, _) => Err(format!(
            "there is no Lease {namespace}/{program}: it does not run there, or without election (say --system-namespace where it runs elsewhere)"
        )),
        (Some(_), more) => Err(format!(
            "there is no Lease {namespace}/{program}, but {} of that name elsewhere: say with --system-namespace which is the one",
            more.saturating_add(1)
        )),
    }
}

/// The pod that a Lease names: its holder is the host's name, in a pod the pod's, and something that differs at each start.
fn holder(lease: &Value) -> Result<(String, String), String> {
    let text = |path: &str| lease.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let holder = text("/spec/holderIdentity");
    let pod = holder.split('_').next().unwrap_or_default();
    if holder.is_empty() {
        return Err(format!("nobody holds the Lease {namespace}/{SCHEDULER}: no scheduler works at this moment"));
    }
    if !is_name(pod) || !is_name(namespace) {
        return Err(format!("the Lease {namespace}/{SCHEDULER} is held by {holder:?}, which names no pod (say --scheduler-url)"));
    }
    Ok((namespace.to_owned(), pod.to_owned()))
}

/// Where a pod of the scheduler serves.
#[derive(Debug, PartialEq, Eq)]
struct Port {
    number: u16,
    tls: bool,
}

/// The container's port by its name in the chart, else the one that is the default; with TLS where the kubelet's probes of that container come so.
fn port(pod: &Value) -> Port {
    let is_named = |port: &&Value| port.get("name").and_then(Value::as_str) == Some("http-metrics");
    let number = |port: &Value| u16::try_from(port.get("containerPort")?.as_u64()?).ok();
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let mut named = containers.filter_map(|container| Some((container, container.get("ports")?.as_array()?.iter().find(is_named)?)));
    let Some((container, port)) = named.next() else { return Port { number: PORT, tls: false } };
    let probes = ["/livenessProbe/httpGet/scheme", "/readinessProbe/httpGet/scheme"].map(|path| container.pointer(path));
    Port { number: number(port).unwrap_or(PORT), tls: probes.into_iter().flatten().any(|scheme| scheme == "HTTPS") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::flags::Arguments;
    use clap::Parser;
    use serde_json::json;

    #[test]
    fn the_holder_of_a_lease_is_a_pod_or_is_told() {
        let lease = |holder: &str| json!({"metadata": {"namespace": "ns"}, "spec": {"holderIdentity": holder}});
        assert_eq!(holder(&lease("podgroup-scheduler-7c9-x_0a1b")), Ok(("ns".to_owned(), "podgroup-scheduler-7c9-x".to_owned())));
        for (odd, part) in [("", "nobody holds"), ("../x_1", "names no pod"), ("_", "names no pod")] {
            assert!(holder(&lease(odd)).unwrap_err().contains(part), "{odd}");
        }
    }

    #[test]
    fn a_lease_elsewhere_counts_where_it_is_the_only_one() {
        let lease = |namespace: &str| json!({"metadata": {"namespace": namespace}});
        assert_eq!(the_one(Some(lease("ns")), Vec::new(), "ns", SCHEDULER), Ok(lease("ns")));
        assert_eq!(the_one(None, vec![lease("other")], "ns", SCHEDULER), Ok(lease("other")));
        let none = the_one(None, Vec::new(), "ns", SCHEDULER).unwrap_err();
        assert!(none.starts_with("there is no Lease ns/podgroup-scheduler: it does not run there"), "{none}");
        let two = the_one(None, vec![lease("tenant"), lease("other")], "ns", SCHEDULER).unwrap_err();
        assert!(two.contains("2 of that name elsewhere: say with --system-namespace"), "{two}");
    }

    #[tokio::test]
    async fn the_port_is_the_one_that_kubectl_names() {
        assert_eq!(opened(&b"noise\nForwarding from 127.0.0.1:41234 -> 8081\n"[..]).await, Some(41_234));
        for odd in ["", "Forwarding from [::1]:41234 -> 8081\n", "Forwarding from 127.0.0.1:x -> 8081\n", "Forwarding from 127.0.0.1:"] {
            assert_eq!(opened(odd.as_bytes()).await, None, "{odd:?}");
        }
    }

    #[test]
    fn kubectl_forwards_as_whom_and_where_the_plugin_asks() {
        let line = "kubectl-podgroup audit --context c --as u --as-group g --kubeconfig f";
        let flags = Arguments::parse_from(line.split(' ')).common;
        let want = "port-forward --address=127.0.0.1 --namespace=ns --kubeconfig=f --context=c --as=u --as-group=g pod/p :8081";
        assert_eq!(arguments(&flags, "ns", "p", 8081).join(" "), want);
    }

    #[test]
    fn the_port_is_the_one_that_the_chart_names() {
        let pod = |probe: Value| {
            let ports = json!([{"name": "x", "containerPort": 1}, {"name": "http-metrics", "containerPort": 9}]);
            let sidecar = json!({"livenessProbe": {"httpGet": {"scheme": "HTTPS"}}});
            json!({"spec": {"containers": [sidecar, {"ports": ports, "readinessProbe": probe}]}})
        };
        assert_eq!(port(&pod(json!({}))), Port { number: 9, tls: false });
        assert_eq!(port(&pod(json!({"httpGet": {"scheme": "HTTP"}}))), Port { number: 9, tls: false });
        assert_eq!(port(&pod(json!({"httpGet": {"scheme": "HTTPS"}}))), Port { number: 9, tls: true });
        assert_eq!(port(&json!({})), Port { number: PORT, tls: false });
    }

    #[test]
    fn nothing_is_sent_over_tls_to_who_did_not_prove_who_he_is_unless_that_is_asked_for() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let token = AuthInfo { token_file: Some("f".to_owned()), ..AuthInfo::default() };
        let config = |line: &str, bearer| {
            let words = line.split_whitespace().map(|word| if word == "FILE" { file } else { word });
            let flags = Arguments::parse_from(["kubectl-podgroup", "audit"].into_iter().chain(words)).common;
            connect::forwarded(&flags, "ns", bearer)
        };
        assert!(config("", Some(&token)).unwrap_err().contains("--scheduler-insecure-skip-tls-verify"));
        assert!(config("--scheduler-ca-file FILE", None).unwrap_err().contains("--scheduler-token-file"));
        assert!(config("--scheduler-ca-file nowhere", Some(&token)).unwrap_err().contains("--scheduler-ca-file nowhere"));
        let checked = config("--scheduler-ca-file FILE", Some(&token)).unwrap();
        assert!(!checked.accept_invalid_certs && checked.root_cert_file.is_some());
        assert_eq!(checked.tls_server_name.as_deref(), Some("podgroup-scheduler.ns.svc"));
        assert_eq!(checked.auth_info.token_file.as_deref(), Some("f"));
        let other = config("--scheduler-ca-file FILE --scheduler-tls-server-name n --scheduler-token-file FILE", Some(&token)).unwrap();
        assert_eq!((other.tls_server_name.as_deref(), other.auth_info.token_file.as_deref()), (Some("n"), Some(file)));
        assert!(config("--scheduler-insecure-skip-tls-verify", Some(&token)).unwrap().accept_invalid_certs);
    }
}
