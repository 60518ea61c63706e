//! What can happen to a request between a program and the API server? A proxy that speaks HTTP, and does to each request what a rule or a seeded mix says.
//!
//! It ends TLS with a certificate of its own, reads verb, resource and object, and forwards with the program's own token, so that the API server and its
//! audit log see the program. In reading order: `request` (what is asked), `fault` (what can go wrong), `answer` (refusals as they are on the wire), `mix` (what a
//! seed does), `control` (what happens to the next request, and when all is calm again), `ledger` (what was injected), `carry` (one request), `stream`
//! (one watch), `proxy` (the door).
//!
//! # Only what can really happen
//!
//! A red run under a fault that no API server, load balancer or HA pair can show would prove nothing. So:
//!
//! * A request is done once or not at all, as the program sent it. Late is at most some seconds (a request that was answered with 504 is still worked on
//!   by the API server), and nothing is repeated or invented.
//! * 409 with reason Conflict is given to what some other writer can have overtaken: updates, patches and deletes (and creations, as a quota's admission
//!   does). AlreadyExists, NotFound, Forbidden and Invalid say something about the state and are never made up; neither is a Conflict of a binding ("already assigned").
//! * 410 is given to watches and to further pages of a list only. 429 comes as a Status or as the plain text of the API server's flow control, 502 as the HTML
//!   of a load balancer.
//! * Within one watch the order of events is kept, and none is lost: a watch that holds events back makes bookmarks only of the version that it has
//!   really reached, because a bookmark promises that everything before it was sent. A deletion is never made up.
//! * A list that **no watch follows** (a look at the members) is a quorum read, and no API server answers it with anything old; it can only be slow, or
//!   fail. The whole protocol of retirement rests on that, so it is never answered old here either.
//! * A list that **fills a cache** can be old: by `old-view` the watch ends with 410, the list that follows shows a state of up to some seconds before, which
//!   really was, and the watch that is opened from there tells again, in order, what happened since. That is what a client of an HA pair sees that
//!   changes over to a stale API server (with `resourceVersion=0`; with a quorum list only where that is served from a watch cache that does not know that it
//!   lags). What the programs promise must hold all the same.
//! * No call is failed without an end: after four failures in a row the same call goes through, and of a Lease one call at most fails between two renewals. A longer outage is another case, with another
//!   right outcome (the Lease is lost, and the program ends).

mod answer;
mod carry;
mod control;
mod fault;
mod ledger;
mod mix;
mod proxy;
mod request;
mod stream;

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;

pub use control::Rule;
pub use fault::{Fault, KINDS, Refusal, StreamFault};
pub use ledger::{Counts, add, never, show};
pub use mix::{Mix, PATIENCE, Rate};
pub use proxy::HttpProxy;
pub use request::{Asked, Verb};

/// Whether a case is run under faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// The way to the API server is what the case itself makes of it.
    #[default]
    None,
    /// What the case aims at single requests of the scheduler: see `World::aim`.
    Aimed,
    /// A seeded mix of all kinds on the way of both programs, from the moment that they are ready until `World::calm`.
    Mix,
}

/// What the proxy sends.
type Body = UnsyncBoxBody<Bytes, Broken>;

/// Why a connection is cut: on purpose, or because the one behind it broke.
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
