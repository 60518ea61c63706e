//! Asks the scheduler itself: at `--scheduler-url`, or through `kubectl port-forward` to the pod that holds the scheduler's Lease. The
//! port-forward ends when the answer has come.

use axum::http::Uri;
use k8s_openapi::api::coordination::v1::Lease;
use serde::Deserialize;
use serde_json::Value;

use crate::api::names::SCHEDULER;
use crate::runtime::call::CallError;
use crate::runtime::client::DEFAULT_NAMESPACE;
use crate::runtime::{clock, version_skew};

use super::connect::{self, Bearer};
use super::fetch::{Fetch, told};
use super::flags::{Common, is_name};
use super::forward::{Forward, forwarded};
use super::served::{Port, port, server};

/// A connection to the scheduler's HTTP endpoint.
pub struct Scheduler {
    fetch: Fetch,
    /// The address, for people.
    place: String,
    /// What the user can check when the endpoint does not answer.
    hint: String,
    /// The port-forward; it ends with this value.
    _forward: Option<Forward>,
}

impl Scheduler {
    /// Finds the scheduler, and connects to it.
    ///
    /// # Errors
    ///
    /// Why it cannot be asked, and what to do about it, in one line.
    pub async fn find(flags: &Common, fetch: &Fetch, bearer: &Bearer) -> Result<Self, String> {
        const PLAIN: &str = "where the scheduler serves TLS: --scheduler-url https://…";
        if flags.without_scheduler {
            return Err("not asked (--without-scheduler)".to_owned());
        }
        if let Some(client) = connect::scheduler(flags)? {
            return Ok(Self {
                fetch: Fetch::new(client, fetch.limit()),
                place: "--scheduler-url".to_owned(),
                hint: PLAIN.to_owned(),
                _forward: None,
            });
        }
        let lease =
            lease(fetch, flags.system_namespace.as_deref(), SCHEDULER).await.map_err(|why| format!("{why} (or say --scheduler-url)"))?;
        let (namespace, pod) = holder(&lease)?;
        let hint = "say --scheduler-url, or --system-namespace where it runs elsewhere";
        let found = fetch.get(&format!("/api/v1/namespaces/{namespace}/pods/{pod}")).await;
        let Some(object) = found.map_err(|error| format!("pod {namespace}/{pod}: {}", told(&error)))? else {
            let silent = Lease::deserialize(&lease).ok().and_then(|lease| version_skew::not_renewed_for(&lease, clock::now()));
            let silent = silent.map(|since| format!(", and it has not been renewed for {}s", since.as_secs())).unwrap_or_default();
            return Err(format!("its Lease names pod {namespace}/{pod}, which does not exist{silent}; {hint}"));
        };
        let place = format!("the other end of kubectl port-forward to pod {namespace}/{pod}");
        let Port { number, tls } = port(&object);
        // Checked before kubectl is started in vain.
        let trusted = namespace == flags.system_namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let bearer = if trusted || matches!(bearer, Bearer::ActingAs(_)) { bearer } else { &Bearer::Nothing };
        let config = match tls {
            true => Some(connect::forwarded(flags, &server(flags, fetch, &namespace, &object, number).await, bearer)?),
            false if connect::wants_tls(flags) => return Err(format!("pod {namespace}/{pod} serves no TLS, and the flags ask for it")),
            false => None,
        };
        let forward = forwarded(flags, &namespace, &pod, number, fetch.limit()).await.map_err(|why| format!("{place}: {why}"))?;
        let url = |scheme: &str| -> Result<Uri, String> {
            format!("{scheme}://127.0.0.1:{}", forward.port).parse().map_err(|_| "no port".to_owned())
        };
        let (client, hint) = match config {
            Some(config) => {
                let named = config.tls_server_name.as_deref().unwrap_or_default();
                let hint =
                    format!("its certificate must be of --scheduler-ca-file and for {named}, or for what --scheduler-tls-server-name says");
                (connect::through(config, url("https")?)?, hint)
            }
            None => (connect::at(url("http")?)?, PLAIN.to_owned()),
        };
        Ok(Self { fetch: Fetch::new(client, fetch.limit()), place, hint, _forward: Some(forward) })
    }

    /// Returns the JSON at a path of the endpoint.
    ///
    /// # Errors
    ///
    /// Why there is no answer, and what to do about it, in one line.
    pub async fn ask(&self, path: &str) -> Result<Value, String> {
        let place = &self.place;
        self.fetch.json(path).await.map_err(|error| match &error {
            CallError::Unavailable(message) => {
                format!("nothing answers at {place}: {message} ({})", self.hint)
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
            | CallError::Webhook(_)
            | CallError::Timeout(_)
            | CallError::Other(_) => format!("{place}: {error}"),
        })
    }
}

/// Returns the Lease of a program: in the given namespace only, or without one in the usual namespace, or the only one of its name.
///
/// # Errors
///
/// Why there is no usable Lease, and what to do about it, in one line.
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

/// Chooses the Lease. Tenants can create Leases, and the user's credentials are sent to the pod that it names; so one of several is never chosen.
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

/// Returns the pod that a Lease names: the holder is the host's name (in a pod the pod's name) and a part that differs at each start.
fn holder(lease: &Value) -> Result<(String, String), String> {
    let text = |path: &str| lease.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let holder = text("/spec/holderIdentity");
    let pod = holder.split('_').next().unwrap_or_default();
    if holder.is_empty() {
        return Err(format!("no process holds the Lease {namespace}/{SCHEDULER}: no scheduler works at this moment"));
    }
    if !is_name(pod) || !is_name(namespace) {
        return Err(format!("the Lease {namespace}/{SCHEDULER} is held by {holder:?}, which names no pod (say --scheduler-url)"));
    }
    Ok((namespace.to_owned(), pod.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::flags::Arguments;
    use clap::Parser;
    use kube::config::AuthInfo;
    use serde_json::json;

    #[test]
    fn the_holder_of_a_lease_is_a_pod_or_an_error() {
        let lease = |holder: &str| json!({"metadata": {"namespace": "ns"}, "spec": {"holderIdentity": holder}});
        assert_eq!(holder(&lease("podgroup-scheduler-7c9-x_0a1b")), Ok(("ns".to_owned(), "podgroup-scheduler-7c9-x".to_owned())));
        for (odd, part) in [("", "no process holds"), ("../x_1", "names no pod"), ("_", "names no pod")] {
            assert!(holder(&lease(odd)).unwrap_err().contains(part), "{odd}");
        }
    }

    #[test]
    fn a_lease_in_another_namespace_counts_where_it_is_the_only_one() {
        let lease = |namespace: &str| json!({"metadata": {"namespace": namespace}});
        assert_eq!(the_one(Some(lease("ns")), Vec::new(), "ns", SCHEDULER), Ok(lease("ns")));
        assert_eq!(the_one(None, vec![lease("other")], "ns", SCHEDULER), Ok(lease("other")));
        let none = the_one(None, Vec::new(), "ns", SCHEDULER).unwrap_err();
        assert!(none.starts_with("there is no Lease ns/podgroup-scheduler: it does not run there"), "{none}");
        let two = the_one(None, vec![lease("tenant"), lease("other")], "ns", SCHEDULER).unwrap_err();
        assert!(two.contains("2 of that name elsewhere: say with --system-namespace"), "{two}");
    }

    #[test]
    fn nothing_is_sent_to_a_server_without_a_trusted_certificate_unless_the_flag_allows_it() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let token = Bearer::Token(Box::new(AuthInfo { token_file: Some("f".to_owned()), ..AuthInfo::default() }));
        let config = |line: &str, bearer: &Bearer| {
            let words = line.split_whitespace().map(|word| if word == "FILE" { file } else { word });
            let flags = Arguments::parse_from(["kubectl-podgroup", "audit"].into_iter().chain(words)).common;
            connect::forwarded(&flags, "s.ns.svc", bearer)
        };
        assert!(config("", &token).unwrap_err().contains("--scheduler-insecure-skip-tls-verify"));
        assert!(config("--scheduler-ca-file FILE", &Bearer::Nothing).unwrap_err().contains("--scheduler-token-file"));
        assert!(config("--scheduler-ca-file nowhere", &token).unwrap_err().contains("--scheduler-ca-file nowhere"));
        let checked = config("--scheduler-ca-file FILE", &token).unwrap();
        assert!(!checked.accept_invalid_certs && checked.root_cert_file.is_some());
        assert_eq!(checked.tls_server_name.as_deref(), Some("s.ns.svc"));
        assert_eq!(checked.auth_info.token_file.as_deref(), Some("f"));
        let other = config("--scheduler-ca-file FILE --scheduler-tls-server-name n --scheduler-token-file FILE", &token).unwrap();
        assert_eq!((other.tls_server_name.as_deref(), other.auth_info.token_file.as_deref()), (Some("n"), Some(file)));
        assert!(config("--scheduler-insecure-skip-tls-verify", &token).unwrap().accept_invalid_certs);
        // When the user acts as another, only the given token is sent.
        let other = Bearer::ActingAs("system:serviceaccount:team:ci".to_owned());
        let refused = config("--scheduler-insecure-skip-tls-verify", &other).unwrap_err();
        assert!(
            refused.contains("act there as system:serviceaccount:team:ci") && refused.contains("kubectl create token ci -n team"),
            "{refused}"
        );
        let said = config("--scheduler-insecure-skip-tls-verify --scheduler-token-file FILE", &other).unwrap();
        assert_eq!(said.auth_info.token_file.as_deref(), Some(file));
        let odd = config("--scheduler-ca-file FILE", &Bearer::ActingAs("system:serviceaccount:team:$(x)".to_owned())).unwrap_err();
        assert!(!odd.contains("create token"), "{odd}");
    }
}
