//! What does a reply of the API server mean for the step that was sent?
//!
//! Pure: the hands of the controller say what came back over the wire, and nothing else of theirs depends on the step. A test that plays the
//! API server reads its replies here too.

use std::time::Duration;

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
    /// 429: nothing was done, and the server wants it later, after this time at least.
    Later(Duration),
    /// Nothing that could be read came back, or not in time: it may have been done, or be done later.
    Unknown,
}

/// What the reply to this step teaches.
#[must_use]
pub fn answer(step: &Step, reply: Reply) -> Answer {
    match (step, reply) {
        (Step::Look(at), Reply::Members(members)) => Answer::Looked { at: at.clone(), members },
        (_, Reply::Later(wait)) => Answer::Later(wait),
        (Step::Look(_), _) => Answer::Unknown,
        (_, Reply::Object(existing)) => Answer::Is(existing),
        (Step::Read, Reply::NotFound) => Answer::Absent,
        // What cannot be read is not known, whatever the reason.
        (Step::Read, _) => Answer::Unknown,
        // A 404 is done: no other object has this UID.
        (Step::Delete(version), Reply::Deleted | Reply::NotFound) => Answer::Gone(version.uid.clone()),
        // The namespace or the kind is not there. A read would say "absent", and the next creation would follow at once, for as long as that is so.
        (Step::Create(_), Reply::NotFound) => Answer::Unknown,
        // Of a patch: the object went.
        (_, Reply::NotFound | Reply::Conflict) => Answer::Old,
        (_, Reply::Refused(why)) => Answer::Refused(why),
        (_, Reply::Unknown | Reply::Deleted | Reply::Members(_)) => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Uid;
    use crate::lifecycle::{Intent, Version};

    #[test]
    fn a_404_means_something_else_to_each_step() {
        let on = Version { uid: Uid::from("u"), resource_version: "1".to_owned() };
        let owner = crate::api::workload::ObjectRef {
            kind: String::new(),
            api_version: String::new(),
            namespace: String::new(),
            name: String::new(),
            uid: Uid::from("o"),
        };
        let intent = Intent { group: crate::api::GroupKey::new("ns", "g"), owner, fields: super::super::Applied::default() };
        assert_eq!(answer(&Step::Read, Reply::NotFound), Answer::Absent);
        assert_eq!(answer(&Step::Mark(on.clone()), Reply::NotFound), Answer::Old);
        assert_eq!(answer(&Step::Delete(on.clone()), Reply::NotFound), Answer::Gone(on.uid.clone()));
        assert_eq!(
            answer(&Step::Create(intent), Reply::NotFound),
            Answer::Unknown,
            "or create and read would follow each other without a pause"
        );
        for step in [Step::Read, Step::Look(on.clone()), Step::Delete(on)] {
            assert_eq!(answer(&step, Reply::Later(Duration::from_secs(7))), Answer::Later(Duration::from_secs(7)));
        }
    }
}
