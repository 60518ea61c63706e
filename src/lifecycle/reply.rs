//! What does a reply of the API server mean for the step that was sent?
//!
//! Pure: the hands of the controller say what came back over the wire, and nothing else of theirs depends on the step. A test that plays the
//! API server reads its replies here too.

use super::decide::Step;
use super::existing::Existing;
use super::memory::Answer;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The group as it now is: read, created, patched; or of a DELETE, which waits for finalizers.
    Object(Existing),
    /// The group was deleted, and is gone.
    Deleted,
    /// A list of the members is complete: whether there was any.
    Members(bool),
    /// 404.
    NotFound,
    /// 409: a precondition refused it, or there is one already.
    Conflict,
    /// The server will not have it, and would not the next time: the text is for people.
    Refused(String),
    /// Nothing that could be read came back, or not in time: it may have been done, or be done later.
    Unknown,
}

/// What the reply to this step teaches.
#[must_use]
pub fn answer(step: &Step, reply: Reply) -> Answer {
    match (step, reply) {
        (Step::Look(at), Reply::Members(members)) => Answer::Looked { at: at.clone(), members },
        (Step::Look(_), _) => Answer::Unknown,
        (_, Reply::Object(existing)) => Answer::Is(existing),
        (Step::Read, Reply::NotFound) => Answer::Absent,
        // What cannot be read is not known, whatever the reason.
        (Step::Read, _) => Answer::Unknown,
        // A 404 is done: no other object has this UID.
        (Step::Delete(version), Reply::Deleted | Reply::NotFound) => Answer::Gone(version.uid.clone()),
        // Of a patch: the object went. Of a creation: the namespace or the kind is not there; the read that follows says Absent, and the next
        // attempt waits its turn.
        (_, Reply::NotFound | Reply::Conflict) => Answer::Old,
        (_, Reply::Refused(why)) => Answer::Refused(why),
        (_, Reply::Unknown | Reply::Deleted | Reply::Members(_)) => Answer::Unknown,
    }
}
