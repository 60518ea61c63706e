//! Which connection of the HTTP server ends when there are too many?
//!
//! ```text
//!             accepted               bytes came                headers are complete
//!   (none) ─────────────▶ Silent ─────────────────▶ Begun ──────────────────────────▶ Asked
//!                           ▲                                                            │
//!                           ╰────────────────── the answer is sent ──────────────────────╯
//! ```
//!
//! For a new connection one of the address with the most connections ends: its oldest silent one, else the oldest that has begun. So a
//! flood ends itself, and the single connection of a probe stays, also before its request is there. An address with fewer connections than
//! that of the new one loses none.
//!
//! A connection with a request under way stays for [`PROTECTED`], which is longer than any answer takes; afterwards its client reads too
//! slowly, and it can end like the others. When no connection may end, the new one is closed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How long a request and the sending of its answer are protected. An answer takes at most 5 s (`mod.rs`).
const PROTECTED: Duration = Duration::from_secs(10);

/// What a connection does. The order is that in which connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Stage {
    /// The client has sent nothing since the connection or the last answer.
    #[default]
    Silent,
    /// The client has sent a part of a request or of a handshake.
    Begun,
    /// A request is under way since this time: it is answered, or its answer is being sent.
    Asked(Instant),
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    /// Whether the answer is complete, so that only its sending is under way.
    answered: bool,
    /// Whether the client does not take bytes at the moment.
    full: bool,
}

/// What a connection does, shared by its task and the list of connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Mutex<State>>);

impl Activity {
    /// The client sent bytes.
    pub(super) fn received(&self) {
        let mut state = self.lock();
        state.stage = state.stage.max(Stage::Begun);
    }

    /// A write ended, or has to wait for the client.
    pub(super) fn sent(&self, ended: bool) {
        let mut state = self.lock();
        state.full = !ended;
        state.settle();
    }

    /// The headers of a request are complete.
    pub(super) fn request(&self, now: Instant) -> UnderWay {
        let mut state = self.lock();
        state.stage = Stage::Asked(now);
        state.answered = false;
        UnderWay(self.clone())
    }

    fn answered(&self) {
        let mut state = self.lock();
        state.answered = true;
        state.settle();
    }

    fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// Takes the lock even when it is poisoned: no code of a caller runs under it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn settle(&mut self) {
        if self.answered && !self.full {
            *self = Self::default();
        }
    }
}

/// A request under way. It ends when it is dropped.
pub(super) struct UnderWay(Activity);

impl UnderWay {
    /// Keeps the request under way until its body is read to the end.
    pub(super) fn until_sent(self, body: Body) -> Body {
        Body::new(Answer { body, _under_way: self })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.answered();
    }
}

struct Answer {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An open connection.
struct Connection {
    from: IpAddr,
    activity: Activity,
    task: AbortHandle,
}

/// The open connections, the oldest first.
pub(super) struct Connections {
    most: usize,
    open: VecDeque<Connection>,
}

impl Connections {
    /// Returns an empty list for `most` connections.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, open: VecDeque::new() }
    }

    /// Adds the newest connection.
    pub(super) fn add(&mut self, from: IpAddr, activity: Activity, task: AbortHandle) {
        self.open.push_back(Connection { from, activity, task });
    }

    /// Makes room for one more connection from this address; ends one if there are too many. Returns false if none may end.
    pub(super) fn make_room(&mut self, from: IpAddr, now: Instant) -> bool {
        if self.open.len() < self.most {
            return true;
        }
        self.open.retain(|connection| !connection.task.is_finished());
        if self.open.len() < self.most {
            return true;
        }
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for connection in &self.open {
            let count = counts.entry(connection.from).or_default();
            *count = count.saturating_add(1);
        }
        let count = |address: IpAddr| counts.get(&address).copied().unwrap_or_default();
        let may_end = |stage: Stage| !matches!(stage, Stage::Asked(since) if now.saturating_duration_since(since) < PROTECTED);
        let all = self.open.iter().enumerate().map(|(at, connection)| (Reverse(count(connection.from)), connection.activity.stage(), at));
        let ends = all.filter(|(has, stage, _)| has.0 >= count(from) && may_end(*stage)).min();
        let Some(connection) = ends.and_then(|(_, _, at)| self.open.remove(at)) else { return false };
        connection.task.abort();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;
    use tokio::task::JoinSet;

    /// Adds a connection of the client with this number, if there is room.
    fn come_from(client: u8, connections: &mut Connections, tasks: &mut JoinSet<()>, now: Instant) -> (bool, Activity) {
        let (activity, from) = (Activity::default(), IpAddr::from([10, 0, 0, client]));
        let room = connections.make_room(from, now);
        if room {
            connections.add(from, activity.clone(), tasks.spawn(std::future::pending()));
        }
        (room, activity)
    }

    fn come(connections: &mut Connections, tasks: &mut JoinSet<()>, now: Instant) -> (bool, Activity) {
        come_from(1, connections, tasks, now)
    }

    fn is_open(connections: &Connections, activity: &Activity) -> bool {
        connections.open.iter().any(|open| Arc::ptr_eq(&open.activity.0, &activity.0))
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_ends_first_and_a_request_under_way_stays() {
        let (mut connections, mut tasks, now) = (Connections::new(3), JoinSet::new(), clock::monotonic());
        let [(_, asked), (_, begun), (_, silent)] = std::array::from_fn(|_| come(&mut connections, &mut tasks, now));
        asked.received();
        begun.received();
        let request = asked.request(now);
        let (_, second) = come(&mut connections, &mut tasks, now);
        assert!(!is_open(&connections, &silent) && is_open(&connections, &begun) && is_open(&connections, &asked));
        second.received();
        let (_, third) = come(&mut connections, &mut tasks, now);
        assert!(!is_open(&connections, &begun) && is_open(&connections, &second) && is_open(&connections, &asked));
        // The answer is sent: now the connection is the oldest silent one.
        drop(request);
        third.received();
        come(&mut connections, &mut tasks, now);
        assert!(!is_open(&connections, &asked));
    }

    #[tokio::test]
    async fn a_flood_ends_its_own_connections_and_not_the_one_of_another_client() {
        let (mut connections, mut tasks, now) = (Connections::new(4), JoinSet::new(), clock::monotonic());
        let (_, probe) = come_from(2, &mut connections, &mut tasks, now);
        for _ in 0..100 {
            let (room, flood) = come_from(1, &mut connections, &mut tasks, now);
            assert!(room && is_open(&connections, &probe));
            flood.received();
        }
        // Also where all others have requests under way: then the flood's next connection is closed.
        let flood: Vec<_> = connections.open.iter().filter(|open| open.from == IpAddr::from([10, 0, 0, 1])).collect();
        let _requests: Vec<_> = flood.iter().map(|open| open.activity.request(now)).collect();
        assert!(!come_from(1, &mut connections, &mut tasks, now).0 && is_open(&connections, &probe));
    }

    #[tokio::test]
    async fn where_all_have_requests_under_way_the_new_connection_is_closed_until_a_client_is_too_slow() {
        let (mut connections, mut tasks, now) = (Connections::new(2), JoinSet::new(), clock::monotonic());
        let all: [_; 2] = std::array::from_fn(|_| come(&mut connections, &mut tasks, now).1);
        let requests = [all[0].request(now), all[1].request(now + Duration::from_secs(1))];
        assert!(!come(&mut connections, &mut tasks, now + PROTECTED - Duration::from_millis(1)).0);
        assert!(come(&mut connections, &mut tasks, now + PROTECTED).0);
        assert!(!is_open(&connections, &all[0]) && is_open(&connections, &all[1]));
        drop(requests);
    }

    #[test]
    fn a_request_is_under_way_until_the_client_has_taken_its_answer() {
        let (activity, now) = (Activity::default(), clock::monotonic());
        activity.received();
        let request = activity.request(now);
        activity.sent(false);
        drop(request);
        assert_eq!(activity.stage(), Stage::Asked(now));
        activity.sent(true);
        assert_eq!(activity.stage(), Stage::Silent);
    }
}
