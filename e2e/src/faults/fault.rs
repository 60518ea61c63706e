//! What can go wrong with one request? Each kind once, by name, so that what was injected can be counted.

use std::time::Duration;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It reaches the API server this much later.
    DelayRequest(Duration),
    /// Its answer reaches the program this much later.
    DelayResponse(Duration),
    /// It is answered here and never reaches the API server.
    Refuse(Refusal),
    /// The connection is cut, and the request never reaches the API server.
    CutBefore,
    /// It is done, and the connection is cut in the middle of the answer.
    CutMiddle,
    /// It is done, and the connection is cut instead of the answer.
    LoseReply,
    /// It is answered with 504 at once, and done this much later.
    Late(Duration),
    /// Of a watch: it is opened as it should be, and this happens after a time.
    Stream(Duration, StreamFault),
}

/// With what a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 409 with reason Conflict: somebody else wrote first.
    Conflict,
    /// 410 with reason Expired: resourceVersion or continue token are too old.
    Expired,
    /// 429 with this `Retry-After`; as a Status, or in the plain text that the API server's flow control answers with.
    TooMany {
        /// Seconds.
        after: u32,
        /// Without a Status.
        plain: bool,
    },
    /// 500 with reason InternalError.
    Internal,
    /// 502 as a load balancer answers when it reaches no server: HTML, no Status.
    Gateway,
    /// 503 with reason ServiceUnavailable.
    Unavailable,
    /// 504 with reason Timeout; the request is not done.
    Timeout,
}

/// What happens to a watch that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// It ends cleanly, between two events.
    Close,
    /// The connection is cut, in the middle of an event if there is one.
    Cut,
    /// It ends with an ERROR event of 410.
    Expire,
    /// It ends with an ERROR event of 500, as for trouble between the API server and etcd.
    Error,
    /// Events are held back for so long, in order; bookmarks that promise nothing new are made meanwhile.
    Hold(Duration),
    /// The state of this moment is kept; after so long the watch ends with 410, and the list that follows is answered with the kept state.
    OldView(Duration),
}

/// Every kind, in the order of the tables that say how often each was injected.
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

/// A `Retry-After` beyond this is an absurd one.
const HUGE_AFTER: u32 = 60;

impl Fault {
    /// Its name in [`KINDS`].
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DelayRequest(_) => "delay-request",
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
    /// Its name in [`KINDS`].
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Close => "watch-close",
            Self::Cut => "watch-cut",
            Self::Expire => "watch-410",
            Self::Error => "watch-500",
            Self::Hold(_) => "watch-hold",
            Self::OldView(_) => "old-view",
        }
    }
}
