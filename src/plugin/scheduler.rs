//! How is the scheduler itself asked? At `--scheduler-url`, else through `kubectl port-forward` to the pod that holds the scheduler's Lease.
//!
//! kubectl is there where a plugin of it is, and forwards with whatever credentials it has; it is ended when the answer is there.

use std::process::Stdio;
use std::time::Duration;

use axum::http::Uri;
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
    pub async fn find(flags: &Common, fetch: &Fetch) -> Result<Self, String> {
        if flags.without_scheduler {
            return Err("not asked (--without-scheduler)".to_owned());
        }
        if let Some(client) = connect::scheduler(flags)? {
            return Ok(Self { fetch: Fetch::new(client, fetch.limit()), place: "--scheduler-url".to_owned(), _forward: None });
        }
        let (namespace, pod) = leader(fetch, flags.system_namespace.as_deref()).await?;
        let hint = "say --scheduler-url, or --system-namespace where it runs elsewhere";
        let found = fetch.get(&format!("/api/v1/namespaces/{namespace}/pods/{pod}")).await;
        let Some(object) = found.map_err(|error| format!("pod {namespace}/{pod}: {}", told(&error)))? else {
            return Err(format!("its Lease names pod {namespace}/{pod}, which does not exist; {hint}"));
        };
        let place = format!("the other end of kubectl port-forward to pod {namespace}/{pod}");
        let forward = forwarded(flags, &namespace, &pod, port(&object), fetch.limit()).await.map_err(|why| format!("{place}: {why}"))?;
        let url: Uri = format!("http://127.0.0.1:{}", forward.port).parse().map_err(|_| "no port".to_owned())?;
        Ok(Self { fetch: Fetch::new(connect::at(url)?, fetch.limit()), place, _forward: Some(forward) })
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
                format!("nobody answers at {place}: {message} (where the scheduler serves TLS: --scheduler-url https://…)")
            }
            CallError::Unauthorized(_) | CallError::Forbidden(_) => {
                format!("{place} asks for a token with the right to {path}: say --scheduler-url and --scheduler-token-file")
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

/// Namespace and name of the pod that holds the scheduler's Lease: in this namespace and no other, or, where none was given, in the usual one, else in the
/// only one that has such a Lease.
async fn leader(fetch: &Fetch, given: Option<&str>) -> Result<(String, String), String> {
    let namespace = given.unwrap_or(DEFAULT_NAMESPACE);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{SCHEDULER}");
    let lease =
        fetch.get(&path).await.map_err(|error| format!("Lease {namespace}/{SCHEDULER}: {} (or say --scheduler-url)", told(&error)))?;
    let elsewhere = match (&lease, given) {
        (None, None) => {
            let of_that_name = format!("&fieldSelector=metadata.name%3D{SCHEDULER}");
            fetch.list("/apis/coordination.k8s.io/v1/leases", &of_that_name).await.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    holder(&the_one(lease, elsewhere, namespace)?)
}

/// The Lease to go by. Tenants may make Leases, and to whose pod it leads is sent what the one who asks may send: so one of several is never picked.
fn the_one(lease: Option<Value>, elsewhere: Vec<Value>, namespace: &str) -> Result<Value, String> {
    let mut elsewhere = elsewhere.into_iter();
    match (lease.or_else(|| elsewhere.next()), elsewhere.len()) {
        (Some(lease), 0) => Ok(lease),
        (None, _) => Err(format!(
            "there is no Lease {namespace}/{SCHEDULER}: no scheduler runs there, or without election (say --scheduler-url, or --system-namespace)"
        )),
        (Some(_), more) => Err(format!(
            "there is no Lease {namespace}/{SCHEDULER}, but {} of that name elsewhere: say with --system-namespace which is the scheduler's",
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

/// The container's port for HTTP, by its name in the chart, else the one that is the default.
fn port(pod: &Value) -> u16 {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let mut ports = containers.into_iter().flatten().filter_map(|container| container.get("ports")?.as_array()).flatten();
    let named = ports.find(|port| port.get("name").and_then(Value::as_str) == Some("http-metrics"));
    named.and_then(|port| port.get("containerPort")?.as_u64()).and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT)
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
        assert_eq!(the_one(Some(lease("ns")), Vec::new(), "ns"), Ok(lease("ns")));
        assert_eq!(the_one(None, vec![lease("other")], "ns"), Ok(lease("other")));
        assert!(
            the_one(None, Vec::new(), "ns").unwrap_err().starts_with("there is no Lease ns/podgroup-scheduler: no scheduler runs there")
        );
        let two = the_one(None, vec![lease("tenant"), lease("other")], "ns").unwrap_err();
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
        assert_eq!(
            port(
                &json!({"spec": {"containers": [{"ports": [{"name": "x", "containerPort": 1}, {"name": "http-metrics", "containerPort": 9}]}]}})
            ),
            9
        );
        assert_eq!(port(&json!({})), PORT);
    }
}
