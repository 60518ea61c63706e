//! Reads objects of the API server, so that an unreadable or forbidden object costs only itself.
//!
//! Lists come in pages, and each entry is decoded by itself. What could not be read becomes a [`Gap`] that says what to do, and the rest is used.

use std::time::Duration;

use axum::http::{Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::runtime::call::{CallError, call};

use super::gap::Gap;

/// The number of objects per page, as kubectl has it.
const PAGE: u32 = 500;

/// The most pages of one list: a million objects, more than a cluster can have.
const PAGES: u32 = 2_000;

/// Whole objects.
const WHOLE: &str = "application/json";

/// Only the metadata of each object, where the server supports it.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Sends reads, each with a time limit.
#[derive(Clone)]
pub struct Fetch {
    client: Client,
    limit: Duration,
}

impl Fetch {
    /// Makes reads with this client.
    #[must_use]
    pub const fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit }
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the time limit of one request.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the JSON at a path, which begins with a slash.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn json(&self, path: &str) -> Result<Value, CallError> {
        self.json_as(path, WHOLE).await
    }

    async fn json_as(&self, path: &str, form: &'static str) -> Result<Value, CallError> {
        let request = Request::get(path).header(header::ACCEPT, form).body(Vec::new());
        let request = request.map_err(|error| CallError::Invalid(error.to_string()))?;
        let text = call(self.limit, self.client.request_text(request)).await?;
        serde_json::from_str(&text).map_err(|error| CallError::Other(format!("{path} answered no JSON: {error}")))
    }

    /// Returns one object; `None` where it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Fetch::json`].
    pub async fn get(&self, path: &str) -> Result<Option<Value>, CallError> {
        match self.json(path).await {
            Ok(object) => Ok(Some(object)),
            Err(CallError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all objects of a list. `query` is empty or begins with `&`.
    ///
    /// # Errors
    ///
    /// As [`Fetch::json`], of any page.
    pub async fn list(&self, path: &str, query: &str) -> Result<Vec<Value>, CallError> {
        let mut items = Vec::new();
        self.pages(path, query, WHOLE, |page| items.extend(page)).await?;
        Ok(items)
    }

    /// Returns the metadata of all objects of a list, and nothing else of them.
    ///
    /// # Errors
    ///
    /// As [`Fetch::list`].
    pub async fn names(&self, path: &str, query: &str) -> Result<Vec<ObjectMeta>, CallError> {
        let mut names = Vec::new();
        let meta = |object: Value| ObjectMeta::deserialize(object.get("metadata")?).ok();
        self.pages(path, query, METADATA, |page| names.extend(page.into_iter().filter_map(meta))).await?;
        Ok(names)
    }

    /// Passes each page of a list on as it comes.
    async fn pages(&self, path: &str, query: &str, form: &'static str, mut take: impl FnMut(Vec<Value>)) -> Result<(), CallError> {
        let mut next = String::new();
        for _ in 0..PAGES {
            let mut page = self.json_as(&format!("{path}?limit={PAGE}{query}{next}"), form).await?;
            if let Some(Value::Array(some)) = page.get_mut("items").map(Value::take) {
                take(some);
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(token) if !token.is_empty() => next = format!("&continue={}", escaped(token)),
                _ => return Ok(()),
            }
        }
        Err(CallError::Other(format!("{path} has no end")))
    }

    /// Converts all readable objects of a list. Returns nothing, and adds a gap called `what`, where the list cannot be read. Only one page
    /// is in memory as it came: the pods of a large cluster are gigabytes.
    pub async fn all<T: DeserializeOwned, F>(
        &self,
        what: &str,
        path: &str,
        query: &str,
        gaps: &mut Vec<Gap>,
        of: impl Fn(&T) -> F,
    ) -> Option<Vec<F>> {
        let (mut facts, mut count) = (Vec::new(), 0_usize);
        let read = |page: Vec<Value>| {
            count = count.saturating_add(page.len());
            facts.extend(page.into_iter().filter_map(|object| Some(of(&serde_json::from_value(object).ok()?))));
        };
        match self.pages(path, query, WHOLE, read).await {
            Ok(()) => {
                lost(what, count, facts.len(), gaps);
                Some(facts)
            }
            Err(error) => {
                gaps.push(Gap::new(what, told(&error)));
                None
            }
        }
    }
}

/// Returns the objects that can be decoded, and adds a gap for the others.
pub fn decoded<T: DeserializeOwned>(what: &str, items: Vec<Value>, gaps: &mut Vec<Gap>) -> Vec<T> {
    let count = items.len();
    let read: Vec<T> = items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect();
    lost(what, count, read.len(), gaps);
    read
}

fn lost(what: &str, count: usize, read: usize, gaps: &mut Vec<Gap>) {
    let lost = count.saturating_sub(read);
    if lost > 0 {
        gaps.push(Gap::new(format!("{lost} of {count} {what}"), "they cannot be read: fields have other types than the API says"));
    }
}

/// Returns an error with what to do about it, for people.
#[must_use]
pub fn told(error: &CallError) -> String {
    match error {
        CallError::Forbidden(message) => format!("{message} (ask an administrator for that permission)"),
        CallError::Unauthorized(message) => {
            format!("the API server does not accept these credentials: {message} (log in again, or see --kubeconfig, --context)")
        }
        CallError::NotFound(message) => format!("{message} (are the CustomResourceDefinitions of scheduling.volcano.sh installed?)"),
        CallError::Timeout(message) => format!("no answer in time: {message} (see --request-timeout)"),
        CallError::Unavailable(message) => format!("the API server cannot be reached: {message} (see --kubeconfig, --context)"),
        CallError::Conflict(_)
        | CallError::AlreadyExists(_)
        | CallError::Invalid(_)
        | CallError::NamespaceTerminating(_)
        | CallError::Expired(_)
        | CallError::DisruptionBudget(_)
        | CallError::TooManyRequests { .. }
        | CallError::Webhook(_)
        | CallError::Other(_) => error.to_string(),
    }
}

/// Returns a value for a query: all but unreserved characters as `%XX`.
#[must_use]
pub fn escaped(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{PodGroup, Queue};
    use serde_json::json;

    #[test]
    fn one_odd_object_costs_only_itself() {
        let mut gaps = Vec::new();
        let items = vec![json!({"metadata": {"name": "a"}}), json!({"spec": {"parent": 7}}), json!("nonsense"), json!({"spec": null})];
        let read: Vec<Queue> = decoded("queues", items, &mut gaps);
        assert_eq!(read.len(), 1);
        assert_eq!(gaps[0].what, "3 of 4 queues");
        assert!(decoded::<PodGroup>("podgroups", vec![json!({})], &mut gaps).len() == 1 && gaps.len() == 1);
    }

    #[tokio::test]
    async fn all_pages_are_read_and_one_odd_object_costs_only_itself() {
        let answer = |request: axum::extract::Request| async move {
            let whole = request.headers().get(header::ACCEPT).is_some_and(|form| form == WHOLE);
            let object = |name: &str| json!({"metadata": {"name": format!("{name}{}", if whole { "" } else { "-short" })}});
            let second = request.uri().query().is_some_and(|query| query.ends_with("&fieldSelector=x&continue=a%2Fb"));
            axum::Json(match second {
                true => json!({"items": [object("c")], "metadata": {}}),
                false => json!({"items": [object("a"), {"spec": {"parent": 7}}], "metadata": {"continue": "a/b"}}),
            })
        };
        let fetch = Fetch::new(Client::new(axum::Router::new().fallback(answer), "ns"), Duration::from_secs(10));
        let mut gaps = Vec::new();
        let read = fetch.all("queues", "/queues", "&fieldSelector=x", &mut gaps, |queue: &Queue| queue.metadata.name.clone()).await;
        assert_eq!(read, Some(vec![Some("a".to_owned()), Some("c".to_owned())]));
        assert_eq!(gaps.iter().map(|gap| gap.what.as_str()).collect::<Vec<_>>(), ["1 of 3 queues"]);
        let names = fetch.names("/queues", "&fieldSelector=x").await.unwrap();
        assert_eq!(names.iter().filter_map(|meta| meta.name.as_deref()).collect::<Vec<_>>(), ["a-short", "c-short"]);
    }

    #[test]
    fn what_is_put_into_a_query_stays_one_value() {
        assert_eq!(escaped("a=b&c d/ü"), "a%3Db%26c%20d%2F%C3%BC");
    }
}
