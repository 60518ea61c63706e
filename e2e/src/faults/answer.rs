//! The refusals of an API server, and of a load balancer in front of it, with body and headers as they are on the wire.

use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Value, json};

use super::fault::Refusal;
use super::request::ApiRequest;
use super::{Body, Broken};

/// Returns the response of a refusal.
pub(super) fn refusal(refusal: Refusal, api_request: &ApiRequest) -> Result<Response<Body>, Broken> {
    let mut after = None;
    let mut status = match refusal {
        Refusal::Gateway => return whole_response(502, "text/html", None, "<html><body><h1>502 Bad Gateway</h1></body></html>".to_owned()),
        Refusal::TooMany { after, plain: true } => {
            return whole_response(
                429,
                "text/plain; charset=utf-8",
                Some(after),
                "Too many requests, please try again later.\n".to_owned(),
            );
        }
        Refusal::Conflict => {
            let message = format!(
                "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
                api_request.resource, api_request.name
            );
            status(409, "Conflict", &message)
        }
        Refusal::Expired => expired(api_request),
        Refusal::TooMany { after: seconds, plain: false } => {
            after = Some(seconds);
            status(429, "TooManyRequests", "the server has received too many requests and has asked us to try again later")
        }
        Refusal::Internal => status(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
        Refusal::Unavailable => status(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
        Refusal::Timeout => status(504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
    };
    if let (Some(after), Some(object)) = (after, status.as_object_mut()) {
        object.insert("details".to_owned(), json!({ "retryAfterSeconds": after }));
    }
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    whole_response(code, "application/json", after, status.to_string())
}

/// Returns the ERROR event that ends a watch.
pub(super) fn error_event(gone: bool, api_request: &ApiRequest) -> Bytes {
    let object = if gone { expired(api_request) } else { status(500, "InternalError", "Internal error occurred: etcdserver: no leader") };
    line(&json!({ "type": "ERROR", "object": object }))
}

/// Returns a bookmark: everything up to this version has been sent.
pub(super) fn bookmark(types: &(String, String), version: &str) -> Bytes {
    let object = json!({ "apiVersion": types.0, "kind": types.1, "metadata": { "resourceVersion": version, "creationTimestamp": null } });
    line(&json!({ "type": "BOOKMARK", "object": object }))
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}

fn expired(api_request: &ApiRequest) -> Value {
    let message = match api_request.continues {
        true => "The provided continue parameter is too old to display a consistent list result.".to_owned(),
        false => format!("too old resource version: {}", api_request.version),
    };
    status(410, "Expired", &message)
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code })
}

fn whole_response(code: u16, content: &str, after: Option<u32>, text: String) -> Result<Response<Body>, Broken> {
    let mut answer = Response::builder().status(code).header(CONTENT_TYPE, content);
    if let Some(after) = after {
        answer = answer.header(RETRY_AFTER, after);
    }
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    answer.body(body).map_err(Broken::other)
}
