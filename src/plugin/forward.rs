//! Opens a port-forward to a pod. kubectl does it, because it is installed where its plugins are, and uses whatever credentials it has.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::flags::Common;

/// How many bytes of kubectl's errors are shown.
const COMPLAINT: u64 = 1_000;

/// An open port-forward; it ends when this is dropped.
pub(super) struct Forward {
    /// The port on this machine.
    pub(super) port: u16,
    _kubectl: Child,
    /// kubectl writes a line here for each connection, and would end if nothing read it.
    _pipes: (BufReader<ChildStdout>, ChildStderr),
}

/// Starts the port-forward, and waits until it is open.
pub(super) async fn forwarded(flags: &Common, namespace: &str, pod: &str, port: u16, limit: Duration) -> Result<Forward, String> {
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
            // It has ended, so its output is complete.
            let _ = tokio::time::timeout(limit, (&mut err).take(COMPLAINT).read_to_end(&mut complaint)).await;
            Err(String::from_utf8_lossy(&complaint).split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns kubectl's arguments: the cluster, the user, and any free local port for the port of the pod.
fn arguments(flags: &Common, namespace: &str, pod: &str, port: u16) -> Vec<String> {
    let mut arguments = vec!["port-forward".to_owned(), "--address=127.0.0.1".to_owned(), format!("--namespace={namespace}")];
    arguments.extend(flags.kubeconfig.as_ref().map(|file| format!("--kubeconfig={}", file.display())));
    arguments.extend(flags.context.as_ref().map(|context| format!("--context={context}")));
    arguments.extend(flags.act_as.as_ref().map(|user| format!("--as={user}")));
    arguments.extend(flags.act_as_groups.iter().map(|group| format!("--as-group={group}")));
    arguments.extend([format!("pod/{pod}"), format!(":{port}")]);
    arguments
}

/// Returns the local port from the line in which kubectl names it; `None` where it ends without one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::flags::Arguments;
    use clap::Parser;

    #[tokio::test]
    async fn the_port_is_the_one_that_kubectl_names() {
        assert_eq!(opened(&b"noise\nForwarding from 127.0.0.1:41234 -> 8081\n"[..]).await, Some(41_234));
        for odd in ["", "Forwarding from [::1]:41234 -> 8081\n", "Forwarding from 127.0.0.1:x -> 8081\n", "Forwarding from 127.0.0.1:"] {
            assert_eq!(opened(odd.as_bytes()).await, None, "{odd:?}");
        }
    }

    #[test]
    fn kubectl_forwards_with_the_user_and_the_cluster_of_the_plugin() {
        let line = "kubectl-podgroup audit --context c --as u --as-group g --kubeconfig f";
        let flags = Arguments::parse_from(line.split(' ')).common;
        let want = "port-forward --address=127.0.0.1 --namespace=ns --kubeconfig=f --context=c --as=u --as-group=g pod/p :8081";
        assert_eq!(arguments(&flags, "ns", "p", 8081).join(" "), want);
    }
}
