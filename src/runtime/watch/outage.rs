//! Was the API server away, so that a watch must not go on from where it stood?
//!
//! A watch goes on from the resourceVersion that it has seen. That is right if the history is still the same. After a restore of etcd it is
//! another one: the versions begin again at the backup, and a server sends nothing up to the version that is asked for. When the new
//! history passes this version, events come, and everything before is missed, without any sign. No version shows that later. But a restore
//! needs an outage: all API servers are stopped for it. So after an outage the objects are listed again.
//!
//! Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::call::CallError;

/// How long requests must stay without an answer to be an outage. A change to another API server takes less: the next attempts come after
/// 0.1, 0.3, 0.7 and 1.5 s. A restore takes more: etcd and an API server must start.
const OUTAGE: Duration = Duration::from_secs(2);

/// What is known of the outages since the last complete list of one kind.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// When the first of the requests was sent that had no answer, if there was no success since.
    unanswered: Option<Instant>,
    /// Whether there was an outage, or a watch was silent.
    interrupted: bool,
}

impl Outage {
    /// Records that a request that was sent at `sent` failed. Only errors without an answer of an API server count.
    pub(super) fn failed(&mut self, error: &CallError, sent: Instant) {
        if matches!(error, CallError::Unavailable(_) | CallError::Timeout(_)) {
            self.unanswered.get_or_insert(sent);
        }
    }

    /// Records a success. Returns whether an outage is over with it.
    pub(super) fn answered(&mut self, now: Instant) -> bool {
        let over = self.unanswered.take().is_some_and(|since| now.saturating_duration_since(since) >= OUTAGE);
        self.interrupted |= over;
        over
    }

    /// Records that a watch was silent for too long. Its version may lie in the future of a restored etcd.
    pub(super) const fn silent(&mut self) {
        self.interrupted = true;
    }

    /// Returns whether the history may be another one than that of the last complete list.
    pub(super) const fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Forgets the outage: a list was accepted, or every kind is listed because the cluster went back.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    #[test]
    fn an_outage_is_two_seconds_without_an_answer_whatever_is_refused_meanwhile() {
        let (mut outage, start) = (Outage::default(), clock::monotonic());
        let after = |millis| start + Duration::from_millis(millis);
        let away = CallError::Unavailable(String::new());
        outage.failed(&away, start);
        assert!(!outage.answered(after(1999)) && !outage.interrupted());
        outage.failed(&CallError::Timeout(String::new()), after(2000));
        outage.failed(&away, after(3000));
        // A server that starts refuses requests before it knows its rules.
        outage.failed(&CallError::Forbidden(String::new()), after(3500));
        assert!(outage.answered(after(4000)));
        assert!(!outage.answered(after(9000)), "it is over");
        assert!(outage.interrupted(), "until a list is accepted");
        outage.forget();
        assert!(!outage.interrupted());
    }

    #[test]
    fn refusals_are_no_outage_and_silence_is_an_interruption() {
        let (mut outage, start) = (Outage::default(), clock::monotonic());
        outage.failed(&CallError::Forbidden(String::new()), start);
        assert!(!outage.answered(start + Duration::from_secs(60)) && !outage.interrupted());
        outage.silent();
        assert!(outage.interrupted());
    }
}
