//! One request of a tenant: how it is written, sent, and what the API server may answer.

use anyhow::{Context, Result};
use hyper::Request;
use kube::Client;
use serde_json::{Value, json};

use super::OWN;
use crate::objects::{SCHEDULER_NAME, container};

/// One request of the tenant.
pub(super) struct Attempt {
    /// Its name in the table of docs/tenancy.md; names are unique.
    pub(super) what: &'static str,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) expected: Expected,
}

/// The expected outcome.
#[derive(Debug)]
pub(super) enum Expected {
    /// The API server refuses it with these words.
    Refused(&'static str),
    /// The API server accepts it, or has no such object. The case checks afterwards that it harms no other tenant.
    Harmless,
}

/// The response of the API server.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It accepted the request.
    Taken,
    /// It refused with 403, or with 422 and these words.
    Refused(String),
}

impl Outcome {
    /// Returns whether it refused with these words.
    pub(super) fn is_refused(&self, words: &str) -> bool {
        matches!(self, Self::Refused(message) if message.contains(words))
    }

    pub(super) fn is_as(&self, expected: &Expected) -> bool {
        match expected {
            Expected::Refused(words) => self.is_refused(words),
            Expected::Harmless => matches!(self, Self::Taken),
        }
    }
}

/// Sends the request as the user of this client. Any other response than the [`Outcome`]s is an error: then the attempt itself is wrong.
pub(super) async fn send(tenant: &Client, attempt: &Attempt) -> Result<Outcome> {
    let kind = if attempt.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if matches!(attempt.method, "DELETE" | "GET") { Vec::new() } else { serde_json::to_vec(&attempt.body)? };
    let request = Request::builder().method(attempt.method).uri(&attempt.path).header("Content-Type", kind).body(body)?;
    match tenant.request_text(request).await {
        Ok(_) => Ok(Outcome::Taken),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => Ok(Outcome::Refused(status.message.clone())),
        Err(error) => Err(error).with_context(|| format!("{} ({} {})", attempt.what, attempt.method, attempt.path)),
    }
}

pub(super) const GROUPS: &str = "/apis/scheduling.volcano.sh/v1beta1";
pub(super) const RBAC: &str = "is forbidden: User \"mallory\" cannot";
pub(super) const QUEUE: &str = "queue b may not be used: mallory lacks the verb use on it";

pub(super) const DEFAULT: &str = "queue default may not be used: mallory lacks the verb use on it";

/// Returns the attempt that is repeated until the policies are in force.
pub(super) fn in_another_queue(parameters: &str) -> Attempt {
    let attempt = group("a PodGroup in another's queue", "probe", json!({"queue": "b"}), Expected::Refused(QUEUE));
    Attempt { path: format!("{}?{parameters}", attempt.path), ..attempt }
}

/// Returns a request that the tenant has the right to: a Deployment in a queue.
pub(super) fn deployment(name: &'static str, queue: &str) -> Attempt {
    let mut body = owner_of_pods("Deployment", name, queue, json!({}), json!({}));
    if let Some(spec) = body.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".to_owned(), json!(1));
    }
    create("a Deployment", format!("/apis/apps/v1/namespaces/{OWN}/deployments"), body, Expected::Harmless)
}

/// Returns an owner in a queue, with annotations and further fields for its pods.
pub(super) fn owner_of_pods(kind: &str, name: &str, queue: &str, notes: Value, more: Value) -> Value {
    let mut spec = json!({"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container(&[("cpu", "1")])]});
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    let template = json!({"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": spec});
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "annotations": {"scheduling.volcano.sh/queue-name": queue}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    })
}

/// Returns a request that the tenant has the right to: the deletion of one of its owners.
pub(super) fn end_of(plural: &str, name: &str) -> Attempt {
    delete("an owner's end", format!("/apis/apps/v1/namespaces/{OWN}/{plural}/{name}"))
}

/// Returns a request that the tenant has the right to: a PodGroup of its own.
pub(super) fn own_group() -> Attempt {
    group("a PodGroup of its own", "mine", json!({"queue": "a", "minMember": 2}), Expected::Harmless)
}

pub(super) fn create(what: &'static str, path: String, body: Value, expected: Expected) -> Attempt {
    Attempt { what, method: "POST", path, body, expected }
}

pub(super) fn patch(what: &'static str, path: impl Into<String>, body: Value, expected: Expected) -> Attempt {
    Attempt { what, method: "PATCH", path: path.into(), body, expected }
}

/// A read that is refused.
pub(super) fn get(what: &'static str, path: String) -> Attempt {
    Attempt { what, method: "GET", path, body: Value::Null, expected: Expected::Refused(RBAC) }
}

pub(super) fn delete(what: &'static str, path: impl Into<String>) -> Attempt {
    Attempt { what, method: "DELETE", path: path.into(), body: Value::Null, expected: Expected::Refused(RBAC) }
}

pub(super) fn group_of(what: &'static str, metadata: Value, spec: Value, status: Value, expected: Expected) -> Attempt {
    let body =
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec, "status": status});
    create(what, format!("{GROUPS}/namespaces/{OWN}/podgroups"), body, expected)
}

pub(super) fn group(what: &'static str, name: &str, spec: Value, expected: Expected) -> Attempt {
    group_of(what, json!({"name": name}), spec, json!({}), expected)
}

pub(super) fn pod(what: &'static str, metadata: Value, more: Value, expected: Expected) -> Attempt {
    let mut spec = json!({"schedulerName": SCHEDULER_NAME, "containers": [container(&[("cpu", "1")])]});
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    create(what, format!("/api/v1/namespaces/{OWN}/pods"), body, expected)
}
