//! The fault proxy: an HTTP proxy between a program and the API server. A rule or a seeded mix decides the fault of each request.
//!
//! It terminates TLS with its own certificate, reads verb, resource and object, and forwards with the program's token. So the API server and its
//! audit log see the program. In reading order: `request` (an API request), `fault` (the kinds), `answer` (refusals on the wire), `mix`
//! (seeded faults), `pack` (the order of their kinds), `control` (the fault of the next request, the end of all faults), `ledger` (the
//! record), `carry` (one request), `stream` (one watch), `proxy` (the listener).
//!
//! # Only faults that can really happen
//!
//! A failed run proves nothing if no API server, load balancer or HA pair can show the injected fault. So:
//!
//! * A request is handled once or not at all, as the program sent it. It is late by at most some seconds, as when the API server still
//!   works on a request that was answered with 504. Nothing is repeated or invented.
//! * 409 with reason Conflict is only for requests that another writer can overtake: updates, patches, deletes, and creations (as the admission of a
//!   quota does). AlreadyExists, NotFound, Forbidden and Invalid describe the state and are never injected. A Conflict of a binding is not
//!   injected either, because it means "already assigned".
//! * 410 is only for watches and for further pages of a list. 429 is a Status or the plain text of the API server's flow control; 502 is
//!   the HTML of a load balancer.
//! * Within one watch the order of events is kept and no event is lost. A bookmark promises that everything before it was sent, so a watch that
//!   holds events back sends bookmarks only of the version that it has really sent. A deletion is never invented.
//! * A list that **no watch follows** (a list of members) is a quorum read. No API server answers it with old data; it can only be slow or fail.
//!   The deletion protocol of PodGroups depends on that, so the proxy never answers such a list with old data.
//! * A list that **fills a cache** can be old. With `old-view` the watch ends with 410, the next list shows a real state from some seconds
//!   before, and the watch from there sends again, in order, what happened since. A client of an HA pair sees this when it changes to a
//!   stale API server (with `resourceVersion=0`; with a quorum list only if a watch cache serves it without knowing that it lags). All
//!   promises of the programs must hold in this case, too.
//! * No call fails for ever. After four failures in a row the same call succeeds. Between two renewals of a Lease at most one call fails.
//!   A longer outage is another case, with another correct outcome (the Lease is lost, and the program ends).

mod answer;
mod carry;
mod control;
mod cut_after;
mod fault;
mod ledger;
mod mix;
mod order_of_kinds;
mod proxy;
mod request;
mod stream;

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;

pub use control::{Rule, Told};
pub use fault::{Fault, KINDS, Refusal, StreamFault};
pub use ledger::{Counts, add, never, show};
pub use mix::{Mix, PATIENCE, Rate};
pub use proxy::HttpProxy;
pub use request::{ApiRequest, Verb};

/// The faults with which a case runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// No faults, except those of the case itself.
    #[default]
    None,
    /// Faults for single requests of the scheduler, which the case orders: see `World::aim`.
    Aimed,
    /// A seeded mix of all kinds for both programs, from the moment when they are ready until `World::calm`.
    Mix,
}

/// The body that the proxy sends.
type Body = UnsyncBoxBody<Bytes, Broken>;

/// The reason why a connection is cut: an injected fault, or a broken connection to the server.
#[derive(Debug)]
struct Broken(String);

impl Broken {
    fn on_purpose() -> Self {
        Self("cut by the fault proxy".to_owned())
    }

    fn other(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}
