//! What follows from the answer to a binding, and from the read of its pod? Pure.
//!
//! A binding carries the pod's resourceVersion. So a 409 can mean that the pod only has another version, because another program has
//! written to it. Then the binding is sent again with the version that was just read. Each version that is sent was known while this
//! process led: a later leader, which changes each pod that has no node, makes all of them old.
//!
//! The model of the handover (`model/src/handover`) decides by the same functions.

/// How many answers 409 one binding may get. Then its PodGroup backs off.
pub const CONFLICTS: u32 = 5;

/// The reason of a binding that was not sent again: its node or its queue would not take the pod now, or its PodGroup has changed.
pub const NO_LONGER_FITS: &str = "no_longer_fits";

/// The meaning of an answer to a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindAnswer {
    /// The API server has bound the pod.
    Accepted,
    /// 409: the UID, the version or the state of the pod is another.
    Conflict,
    /// The API server refuses the request and would do so again. The reason is one of a bounded set.
    Refused(&'static str),
    /// No answer, or a temporary refusal.
    Open,
}

/// The state of the pod at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The pod is on the node of the decision.
    Bound,
    /// The pod is on another node.
    Elsewhere,
    /// The pod has no node and is being deleted, which no API server binds.
    Ending,
    /// The pod has no node.
    Waits {
        /// Its resourceVersion; 0 where it is no number.
        version: u64,
    },
    /// The pod was deleted or replaced.
    Gone,
}

/// The next step of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextStep {
    /// The pod is bound.
    Bound,
    /// The pod is not bound, and no request that was sent will bind it. The reason is one of a bounded set.
    NotBound(&'static str),
    /// Read the pod.
    Read,
    /// Send the binding at once, to the same node and with this version.
    Send {
        /// The resourceVersion.
        version: u64,
    },
    /// Change the pod: no request that was sent can take effect on another version.
    Void,
    /// Try again after a back-off.
    BackOff,
}

/// The requests of one binding so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requests {
    /// The version that the last request carried; 0 where it carried none.
    pub version: u64,
    /// Whether a request with this version has no answer and may still take effect.
    pub unanswered: bool,
    /// The number of answers 409, with the last one.
    pub conflicts: u32,
}

/// Returns what follows from the answer to a binding.
///
/// A refusal ends the binding only if no earlier request of it may still take effect: that one may have passed what refuses now.
#[must_use]
pub const fn after_answer(answer: BindAnswer, requests: Requests) -> NextStep {
    match answer {
        BindAnswer::Accepted => NextStep::Bound,
        BindAnswer::Conflict => NextStep::Read,
        BindAnswer::Refused(_) if requests.unanswered => NextStep::BackOff,
        BindAnswer::Refused(reason) => NextStep::NotBound(reason),
        BindAnswer::Open => NextStep::BackOff,
    }
}

/// Returns what follows from the read after a 409; `place` is none where the read failed. `leads` is asked after the read was answered.
#[must_use]
pub fn after_conflict(place: Option<Place>, requests: Requests, leads: bool) -> NextStep {
    match place {
        None => NextStep::BackOff,
        Some(Place::Bound) => NextStep::Bound,
        Some(Place::Gone) => NextStep::NotBound("not_found"),
        Some(Place::Elsewhere | Place::Ending) => NextStep::NotBound("conflict"),
        // The version was not the reason. A request without an answer may take effect once the reason is over.
        Some(Place::Waits { version }) if !is_newer(version, requests) && requests.unanswered => NextStep::BackOff,
        Some(Place::Waits { version }) if !is_newer(version, requests) || requests.conflicts >= CONFLICTS => NextStep::NotBound("conflict"),
        Some(Place::Waits { .. }) if !leads => NextStep::NotBound("not_leading"),
        Some(Place::Waits { version }) => NextStep::Send { version },
    }
}

/// Returns what follows from the state of the pod of a binding that is not sent again, because its decision does not hold any more; `place`
/// is none where the pod was not read. `unanswered` is asked before the read begins.
#[must_use]
pub const fn after_withdrawal(place: Option<Place>, requests: Requests) -> NextStep {
    match place {
        None => NextStep::BackOff,
        Some(Place::Bound) => NextStep::Bound,
        Some(Place::Gone) => NextStep::NotBound("not_found"),
        Some(Place::Elsewhere | Place::Ending) => NextStep::NotBound("conflict"),
        Some(Place::Waits { version }) if requests.unanswered && !is_newer(version, requests) => {
            // Without versions nothing can be made void.
            if version > 0 && requests.version > 0 { NextStep::Void } else { NextStep::BackOff }
        }
        Some(Place::Waits { .. }) => NextStep::NotBound(NO_LONGER_FITS),
    }
}

/// Returns what follows where a process does not lead and sends nothing. It may lead again: a renewal can be answered late. So a binding
/// with a request that may still take effect stays.
#[must_use]
pub const fn without_lease(requests: Requests) -> NextStep {
    if requests.unanswered { NextStep::BackOff } else { NextStep::NotBound("not_leading") }
}

/// Returns whether no request that was sent so far can take effect on a pod of this version.
#[must_use]
pub const fn is_newer(version: u64, requests: Requests) -> bool {
    requests.version > 0 && version > 0 && version != requests.version
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Requests = Requests { version: 7, unanswered: false, conflicts: 1 };

    #[test]
    fn the_answer_to_a_binding_says_what_follows() {
        assert_eq!(after_answer(BindAnswer::Accepted, SENT), NextStep::Bound);
        assert_eq!(after_answer(BindAnswer::Conflict, SENT), NextStep::Read);
        assert_eq!(after_answer(BindAnswer::Refused("forbidden"), SENT), NextStep::NotBound("forbidden"));
        assert_eq!(after_answer(BindAnswer::Open, SENT), NextStep::BackOff);
    }

    #[test]
    fn a_refusal_is_no_outcome_while_an_earlier_request_has_no_answer() {
        // Found by the model: the earlier request took effect in room that another pod had got after the refusal.
        let open = Requests { unanswered: true, ..SENT };
        assert_eq!(after_answer(BindAnswer::Refused("forbidden"), open), NextStep::BackOff);
        assert_eq!(after_answer(BindAnswer::Accepted, open), NextStep::Bound);
    }

    #[test]
    fn after_a_conflict_the_pod_says_what_follows() {
        for leads in [true, false] {
            for (place, next) in [
                (None, NextStep::BackOff),
                (Some(Place::Bound), NextStep::Bound),
                (Some(Place::Gone), NextStep::NotBound("not_found")),
                (Some(Place::Elsewhere), NextStep::NotBound("conflict")),
                (Some(Place::Ending), NextStep::NotBound("conflict")),
                (Some(Place::Waits { version: 7 }), NextStep::NotBound("conflict")),
            ] {
                assert_eq!(after_conflict(place, SENT, leads), next, "{place:?}");
            }
        }
    }

    #[test]
    fn a_binding_is_sent_again_with_the_version_that_was_read_while_this_process_leads() {
        let waits = Some(Place::Waits { version: 9 });
        assert_eq!(after_conflict(waits, SENT, true), NextStep::Send { version: 9 });
        assert_eq!(after_conflict(waits, SENT, false), NextStep::NotBound("not_leading"));
        // The older request without an answer is void.
        assert_eq!(after_conflict(waits, Requests { unanswered: true, ..SENT }, true), NextStep::Send { version: 9 });
    }

    #[test]
    fn a_binding_that_is_not_sent_again_ends_when_no_request_can_take_effect() {
        let open = Requests { unanswered: true, ..SENT };
        for (place, requests, next) in [
            (None, SENT, NextStep::BackOff),
            (Some(Place::Bound), SENT, NextStep::Bound),
            (Some(Place::Bound), open, NextStep::Bound),
            (Some(Place::Gone), open, NextStep::NotBound("not_found")),
            (Some(Place::Elsewhere), open, NextStep::NotBound("conflict")),
            (Some(Place::Ending), open, NextStep::NotBound("conflict")),
            (Some(Place::Waits { version: 7 }), SENT, NextStep::NotBound(NO_LONGER_FITS)),
            (Some(Place::Waits { version: 7 }), open, NextStep::Void),
            (Some(Place::Waits { version: 0 }), open, NextStep::BackOff),
            (Some(Place::Waits { version: 7 }), Requests { version: 0, ..open }, NextStep::BackOff),
            (Some(Place::Waits { version: 8 }), open, NextStep::NotBound(NO_LONGER_FITS)),
        ] {
            assert_eq!(after_withdrawal(place, requests), next, "{place:?} {requests:?}");
        }
    }

    #[test]
    fn without_the_lease_a_binding_that_may_take_effect_stays() {
        assert_eq!(without_lease(SENT), NextStep::NotBound("not_leading"));
        assert_eq!(without_lease(Requests { unanswered: true, ..SENT }), NextStep::BackOff);
    }

    #[test]
    fn conflicts_have_an_end() {
        let waits = Some(Place::Waits { version: 9 });
        assert_eq!(after_conflict(waits, Requests { conflicts: CONFLICTS - 1, ..SENT }, true), NextStep::Send { version: 9 });
        assert_eq!(after_conflict(waits, Requests { conflicts: CONFLICTS, ..SENT }, true), NextStep::NotBound("conflict"));
    }

    #[test]
    fn a_conflict_with_the_same_version_is_no_outcome_while_a_request_has_no_answer() {
        let same = Some(Place::Waits { version: 7 });
        assert_eq!(after_conflict(same, Requests { unanswered: true, ..SENT }, true), NextStep::BackOff);
        // Without versions nothing can be told apart.
        let without = Requests { version: 0, unanswered: false, conflicts: 1 };
        assert_eq!(after_conflict(Some(Place::Waits { version: 9 }), without, true), NextStep::NotBound("conflict"));
        assert_eq!(after_conflict(Some(Place::Waits { version: 0 }), SENT, true), NextStep::NotBound("conflict"));
    }
}
