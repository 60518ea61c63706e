//! Translates a reply of the API server into the answer to the step that was sent.
//!
//! Pure. `controller::act` returns a [`Reply`], and only this file combines it with the step. The model uses the same function.

use std::time::Duration;

use super::decide::Step;
use super::existing::Existing;
use super::memory::Answer;

/// The reply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The PodGroup after the request. For a DELETE: the PodGroup that waits for its finalizers.
    Object(Existing),
    /// The PodGroup was deleted.
    Deleted,
    /// The list of the members is complete. True if there was any member.
    Members(bool),
    /// 404.
    NotFound,
    /// 409: a precondition failed, or the object already exists.
    Conflict,
    /// The API server refused the request and would refuse it again. The text is for people.
    Refused(String),
    /// 429: nothing happened. The API server asks for a retry after this time at the earliest.
    Later(Duration),
    /// There was no readable reply in time. The request may have been applied, or may be applied later.
    Unknown,
}

/// Returns the answer to a step for its reply.
#[must_use]
pub fn answer(step: &Step, reply: Reply) -> Answer {
    match (step, reply) {
        (Step::ListMembers(at), Reply::Members(members)) => Answer::MembersListed { at: at.clone(), members },
        (_, Reply::Later(wait)) => Answer::Later(wait),
        (Step::ListMembers(_), _) => Answer::Unknown,
        (_, Reply::Object(existing)) => Answer::Exists(existing),
        (Step::Read, Reply::NotFound) => Answer::Absent,
        // After a failed read nothing is known, whatever the cause.
        (Step::Read, _) => Answer::Unknown,
        // A 404 means that the object is deleted: no other object has this UID.
        (Step::Delete(version), Reply::Deleted | Reply::NotFound) => Answer::Gone(version.uid.clone()),
        // The namespace or the CRD does not exist. As `Stale` it would cause a read. The answer "absent" would cause the next creation
        // without a pause.
        (Step::Create(_), Reply::NotFound) => Answer::Unknown,
        // A 404 for a patch: the object was deleted.
        (_, Reply::NotFound | Reply::Conflict) => Answer::Stale,
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
    fn the_meaning_of_a_404_depends_on_the_step() {
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
        assert_eq!(answer(&Step::Mark(on.clone()), Reply::NotFound), Answer::Stale);
        assert_eq!(answer(&Step::Delete(on.clone()), Reply::NotFound), Answer::Gone(on.uid.clone()));
        assert_eq!(
            answer(&Step::Create(intent), Reply::NotFound),
            Answer::Unknown,
            "otherwise create and read would follow each other without a pause"
        );
        for step in [Step::Read, Step::ListMembers(on.clone()), Step::Delete(on)] {
            assert_eq!(answer(&step, Reply::Later(Duration::from_secs(7))), Answer::Later(Duration::from_secs(7)));
        }
    }
}
