//! With which Status does the API server refuse a request?

use serde_json::{Value, json};

/// The answer to a request that is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The code of HTTP.
    pub code: u16,
    /// The reason in the Status.
    pub reason: &'static str,
    /// The message in the Status.
    pub message: String,
    /// The reason of its cause; empty where there is none.
    pub cause: &'static str,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, cause: "" }
    }

    /// The object does not exist.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} not found"))
    }

    /// An object of this name exists.
    #[must_use]
    pub fn already_exists(what: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{what} already exists"))
    }

    /// The object is not the one that the request is about, or another version of it.
    #[must_use]
    pub fn conflict(message: String) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// The request is wrong in itself.
    #[must_use]
    pub fn invalid(message: String) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// A watch from a version that the server has forgotten.
    #[must_use]
    pub fn expired() -> Self {
        Self::new(410, "Expired", "too old resource version".to_owned())
    }

    /// A PodDisruptionBudget allows no further eviction.
    #[must_use]
    pub fn budget(name: &str) -> Self {
        let message = format!("Cannot evict pod as it would violate the pod's disruption budget: {name}");
        Self { cause: "DisruptionBudget", ..Self::new(429, "TooManyRequests", message) }
    }

    /// What a scenario orders, by the code alone, in the words of the real API server.
    #[must_use]
    pub fn ordered(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the request is wrong"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "the request is forbidden by a policy"),
            404 => ("NotFound", "the object was not found"),
            409 => ("Conflict", "the object has been modified; please apply your changes to the latest version and try again"),
            410 => ("Expired", "too old resource version"),
            422 => ("Invalid", "the object is invalid"),
            429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
            500 => ("InternalError", "Internal error occurred: failed calling webhook \"ordered.example.com\""),
            504 => ("Timeout", "the server was unable to return a response in the time allotted"),
            _ => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        };
        Self::new(code, reason, message.to_owned())
    }

    /// Returns the Status.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.cause.is_empty() {
            status["details"] = json!({ "causes": [{ "reason": self.cause, "message": self.message }] });
        }
        status
    }
}
