//! The kinds of faults of one request. Each kind has a name, so that injected faults can be counted.

use std::time::Duration;

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request reaches the API server this much later.
    DelayRequest(Duration),
    /// The request reaches the API server after this time, or when the case lets it go, also when the program has ended meanwhile: it lies
    /// in a proxy or on the wire.
    HoldRequest(Duration),
    /// The response reaches the program this much later.
    DelayResponse(Duration),
    /// The proxy answers with a refusal; the request never reaches the API server.
    Refuse(Refusal),
    /// The connection is cut; the request never reaches the API server.
    CutBefore,
    /// The API server handles the request, and the connection is cut in the middle of the response.
    CutMiddle,
    /// The API server handles the request, and the connection is cut before the response.
    LoseReply,
    /// The proxy answers with 504 at once, and sends the request this much later.
    Late(Duration),
    /// The watch is opened normally, and this fault happens after the given time.
    Stream(Duration, StreamFault),
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 409 with reason Conflict: another client wrote first.
    Conflict,
    /// 410 with reason Expired: the resourceVersion or the continue token is too old.
    Expired,
    /// 429 with this `Retry-After`, either as a Status or as the plain text of the API server's flow control.
    TooMany {
        /// Seconds.
        after: u32,
        /// Whether the body is plain text instead of a Status.
        plain: bool,
    },
    /// 500 with reason InternalError.
    Internal,
    /// 502 as a load balancer answers when it reaches no server: HTML, not a Status.
    Gateway,
    /// 503 with reason ServiceUnavailable.
    Unavailable,
    /// 504 with reason Timeout; the request is not handled.
    Timeout,
}

/// A fault of an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The watch ends normally, between two events.
    Close,
    /// The connection is cut, in the middle of an event if there is one.
    Cut,
    /// The watch ends with an ERROR event of 410.
    Expire,
    /// The watch ends with an ERROR event of 500, as for a failure between the API server and etcd.
    Error,
    /// Events are held back for this time, in order. Meanwhile bookmarks repeat the version that was sent.
    Hold(Duration),
    /// The watch stays open and says nothing for this time, no bookmark either, as when something between the API server and the program
    /// lost it. What it held back comes after. Only a case orders it: it lasts longer than the mix waits.
    Silent(Duration),
    /// The state of this moment is stored. After this time the watch ends with 410, and the next list is answered with the stored state.
    OldView(Duration),
}

/// All kinds that a mix injects, in the order of the tables of counts.
pub const KINDS: [&str; 20] = [
    "delay-request",
    "delay-response",
    "409",
    "410",
    "429",
    "429-huge",
    "500",
    "502",
    "503",
    "504",
    "504-late",
    "cut-before",
    "cut-middle",
    "lost-reply",
    "watch-close",
    "watch-cut",
    "watch-410",
    "watch-500",
    "watch-hold",
    "old-view",
];

/// A `Retry-After` above this, in seconds, is counted as `429-huge`.
const HUGE_AFTER: u32 = 60;

impl Fault {
    /// Returns its name in [`KINDS`].
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DelayRequest(_) | Self::HoldRequest(_) => "delay-request",
            Self::DelayResponse(_) => "delay-response",
            Self::Refuse(refusal) => refusal.kind(),
            Self::CutBefore => "cut-before",
            Self::CutMiddle => "cut-middle",
            Self::LoseReply => "lost-reply",
            Self::Late(_) => "504-late",
            Self::Stream(_, what) => what.kind(),
        }
    }
}

impl Refusal {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Conflict => "409",
            Self::Expired => "410",
            Self::TooMany { after, .. } if *after > HUGE_AFTER => "429-huge",
            Self::TooMany { .. } => "429",
            Self::Internal => "500",
            Self::Gateway => "502",
            Self::Unavailable => "503",
            Self::Timeout => "504",
        }
    }
}

impl StreamFault {
    /// Returns its name in [`KINDS`].
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Close => "watch-close",
            Self::Cut => "watch-cut",
            Self::Expire => "watch-410",
            Self::Error => "watch-500",
            Self::Hold(_) => "watch-hold",
            Self::Silent(_) => "watch-silent",
            Self::OldView(_) => "old-view",
        }
    }
}
