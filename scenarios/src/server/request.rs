//! What does a request ask for?

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::kinds::Kind;

/// A request as the API server reads it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The verb of RBAC: get, list, watch, create, update, patch, delete.
    pub verb: &'static str,
    /// The kind.
    pub kind: &'static Kind,
    /// The namespace; empty for all namespaces, and for kinds without one.
    pub namespace: String,
    /// The name; empty for a list, a watch and a creation.
    pub name: String,
    /// The subresource; empty where there is none.
    pub subresource: String,
    /// The parameters of the query.
    pub query: BTreeMap<String, String>,
    /// The body; null where there is none.
    pub body: Value,
    /// Whether the patch is a strategic one.
    pub strategic: bool,
}

impl Request {
    /// Reads a request; `None` for a path that the server does not know.
    #[must_use]
    pub fn read(parts: &http::request::Parts, body: &Bytes) -> Option<Self> {
        let mut path = parts.uri.path().trim_matches('/').split('/').collect::<Vec<_>>();
        let prefix = match *path.first()? {
            "api" => 2,
            "apis" => 3,
            _ => return None,
        };
        if path.len() <= prefix {
            return None;
        }
        path.drain(..prefix);
        let mut namespace = String::new();
        if path[0] == "namespaces" && path.len() >= 3 {
            namespace = path[1].to_owned();
            path.drain(..2);
        }
        let kind = Kind::by_plural(path[0])?;
        let part = |at: usize| path.get(at).map_or_else(String::new, |part| (*part).to_owned());
        let (name, subresource) = (part(1), part(2));
        let query = parse_query(parts.uri.query().unwrap_or_default());
        let watches = query.get("watch").is_some_and(|watch| watch == "true");
        let verb = match parts.method.as_str() {
            "GET" if watches => "watch",
            "GET" if name.is_empty() => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => return None,
        };
        let content = parts.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let strategic = content.starts_with("application/strategic-merge-patch");
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).ok()? };
        Some(Self { verb, kind, namespace, name, subresource, query, body, strategic })
    }

    /// Returns the words by which scenarios name this request: `bind`, `evict`, `create podgroups`, `patch pods/status`.
    #[must_use]
    pub fn action(&self) -> String {
        match &*self.subresource {
            "binding" => "bind".to_owned(),
            "eviction" => "evict".to_owned(),
            "" => format!("{} {}", self.verb, self.kind.plural),
            subresource => format!("{} {}/{subresource}", self.verb, self.kind.plural),
        }
    }

    /// Returns the words by which it is counted: a list of one object is the question of a watch for the version of its kind, once a minute,
    /// and no list that a scenario is about.
    #[must_use]
    pub fn counted_as(&self) -> String {
        if self.verb == "list" && self.query.get("limit").is_some_and(|limit| limit == "1") {
            format!("ask {}", self.kind.plural)
        } else {
            self.action()
        }
    }

    /// Returns the name of the object that the request is about; empty for a list and a watch.
    #[must_use]
    pub fn subject(&self) -> &str {
        let created = || self.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if self.name.is_empty() { created() } else { &self.name }
    }

    /// Whether the request counts where writes are counted: leases do not.
    #[must_use]
    pub fn counts_as_write(&self) -> bool {
        self.writes() && self.kind.plural != "leases"
    }

    /// Whether the request changes an object, if it is carried out.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch") && !self.query.contains_key("dryRun")
    }
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key.to_owned(), decoded(value))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

/// Decodes `%3D` and `+`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = others;
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
