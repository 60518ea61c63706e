//! How are objects read, so that one that is odd or forbidden costs only itself?
//!
//! Lists come in pages, and each entry is decoded by itself. What could not be read becomes a [`Gap`] that says what to do, and the rest goes on.

use std::time::Duration;

use axum::http::Request;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::runtime::call::{CallError, call};

use super::gap::Gap;

/// How many objects one page has; as kubectl has it.
const PAGE: u32 = 500;

/// The most pages of one list: a million objects, more than a cluster can have.
const PAGES: u32 = 2_000;

/// Reads, each with a limit.
#[derive(Clone)]
pub struct Fetch {
    client: Client,
    limit: Duration,
}

impl Fetch {
    /// Reads with this client.
    #[must_use]
    pub const fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// How long one request may take.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// The JSON at a path, which begins with a slash.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn json(&self, path: &str) -> Result<Value, CallError> {
        let request = Request::get(path).body(Vec::new()).map_err(|error| CallError::Invalid(error.to_string()))?;
        let text = call(self.limit, self.client.request_text(request)).await?;
        serde_json::from_str(&text).map_err(|error| CallError::Other(format!("{path} answered no JSON: {error}")))
    }

    /// One object; none where there is none.
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

    /// All objects of a list. `query` is empty or begins with `&`.
    ///
    /// # Errors
    ///
    /// As [`Fetch::json`], of any page.
    pub async fn list(&self, path: &str, query: &str) -> Result<Vec<Value>, CallError> {
        let mut items = Vec::new();
        let mut next = String::new();
        for _ in 0..PAGES {
            let mut page = self.json(&format!("{path}?limit={PAGE}{query}{next}")).await?;
            if let Some(Value::Array(some)) = page.get_mut("items").map(Value::take) {
                items.extend(some);
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(token) if !token.is_empty() => next = format!("&continue={}", escaped(token)),
                _ => return Ok(items),
            }
        }
        Err(CallError::Other(format!("{path} has no end")))
    }

    /// All objects of a list that can be read; none, and a gap called `what`, where there is no list.
    pub async fn all<T: DeserializeOwned>(&self, what: &str, path: &str, query: &str, gaps: &mut Vec<Gap>) -> Option<Vec<T>> {
        match self.list(path, query).await {
            Ok(items) => Some(decoded(what, items, gaps)),
            Err(error) => {
                gaps.push(Gap::new(what, told(&error)));
                None
            }
        }
    }
}

/// The objects that can be decoded, and a gap for those that cannot.
pub fn decoded<T: DeserializeOwned>(what: &str, items: Vec<Value>, gaps: &mut Vec<Gap>) -> Vec<T> {
    let count = items.len();
    let read: Vec<T> = items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect();
    let lost = count.saturating_sub(read.len());
    if lost > 0 {
        gaps.push(Gap::new(format!("{lost} of {count} {what}"), "they cannot be read: fields have other types than the API says"));
    }
    read
}

/// What to do about an error, for people.
#[must_use]
pub fn told(error: &CallError) -> String {
    match error {
        CallError::Forbidden(message) => format!("{message} (ask for that right, or ask somebody who has it)"),
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
        | CallError::Other(_) => error.to_string(),
    }
}

/// A value of a query: whatever is not plainly harmless as `%XX`.
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

    #[test]
    fn what_is_put_into_a_query_stays_one_value() {
        assert_eq!(escaped("a=b&c d/ü"), "a%3Db%26c%20d%2F%C3%BC");
    }
}
