//! Which annotation was meant by one that nothing reads, and which scheduler by one that is not served?

use crate::nearest::nearest;

use super::Fault;
use super::names::{
    COOLDOWN, GANG, GROUP_NAME, GROUP_NAME_OLD, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, MIN_MEMBER, MIN_RESOURCES, PREEMPTABLE,
    QUEUE_DESIRED_STATE, QUEUE_NAME, TASK,
};

/// The annotations of owners, pod templates and pods that ask for something.
const READ: [&str; 11] = [
    MIN_MEMBER,
    MIN_RESOURCES,
    GROUP_NAME_OLD,
    QUEUE_NAME,
    GROUP_NAME,
    GANG,
    PREEMPTABLE,
    TASK,
    COOLDOWN,
    JDB_MIN_AVAILABLE,
    JDB_MAX_UNAVAILABLE,
];

/// The reason of an Event about the name of a scheduler.
pub const UNKNOWN_SCHEDULER: &str = "UnknownScheduler";

/// What begins so is meant for a gang scheduler, however far it is from every name.
const FAMILY: &str = "scheduling.volcano.sh/group-";

/// Returns the annotations that may be meant by this key: the nearest one, or all of its domain. `None` if the key is read, or is nobody's
/// slip: other keys of these domains are other programs'.
#[must_use]
pub fn meant_by(key: &str) -> Option<String> {
    let (domain, name) = key.split_once('/')?;
    let of_domain = || READ.iter().filter_map(|read| read.split_once('/')).filter(|(of, _)| *of == domain).map(|(_, read)| read);
    if of_domain().next().is_none() || READ.contains(&key) {
        return None;
    }
    let shortened = || of_domain().find(|read| name.contains('-') && read.ends_with(name));
    // What all of a family begin with says nothing about which of them is meant.
    if let Some(rest) = key.strip_prefix(FAMILY) {
        let family = READ.iter().filter_map(|read| read.strip_prefix(FAMILY));
        return nearest(rest, family).map(|read| format!("{FAMILY}{read}")).or_else(|| Some(of_domain().collect::<Vec<_>>().join(", ")));
    }
    nearest(name, of_domain()).or_else(shortened).map(|read| format!("{domain}/{read}"))
}

/// Whether this annotation of a queue is most likely a slip of the one that is read there.
#[must_use]
pub fn means_desired_state(key: &str) -> bool {
    key != QUEUE_DESIRED_STATE && nearest(key, [QUEUE_DESIRED_STATE]).is_some()
}

/// Whether an annotation of an owner, a template or a pod asks for something of its PodGroup, or may be meant to.
#[must_use]
pub fn asks_of_group(key: &str) -> bool {
    [MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME].contains(&key) || meant_by(key).is_some()
}

/// Returns the fault of a scheduler's name in the field `place` that is nearly the name of one that is served; none where it is served, or is
/// not near.
#[must_use]
pub fn misspelt_scheduler<'a>(place: &str, name: &str, served: impl IntoIterator<Item = &'a str> + Clone) -> Option<Fault> {
    if served.clone().into_iter().any(|served| served == name) {
        return None;
    }
    let meant = nearest(name, served)?;
    let why = format!("no scheduler of this name is served here, so there is no PodGroup; meant may be {meant}");
    Some(Fault::new(place, name, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_has_the_nearest_annotation_and_other_keys_have_none() {
        for (key, want) in [
            ("scheduling.volcano.sh/group-min-members", Some("scheduling.volcano.sh/group-min-member")),
            ("scheduling.volcano.sh/group-minmember", Some("scheduling.volcano.sh/group-min-member")),
            ("scheduling.volcano.sh/min-member", Some("scheduling.volcano.sh/group-min-member")),
            ("scheduling.volcano.sh/group-min-resource", Some("scheduling.volcano.sh/group-min-resources")),
            ("scheduling.volcano.sh/queue", Some("scheduling.volcano.sh/queue-name")),
            ("scheduling.volcano.sh/group-replicas", Some("group-min-member, group-min-resources, group-name, queue-name")),
            ("scheduling.volcano.sh/group-size", Some("group-min-member, group-min-resources, group-name, queue-name")),
            ("scheduling.k8s.io/groupname", Some("scheduling.k8s.io/group-name")),
            ("podgroup.dev/gnag", Some("podgroup.dev/gang")),
            ("volcano.sh/preemptible", Some("volcano.sh/preemptable")),
            ("volcano.sh/task-specs", Some("volcano.sh/task-spec")),
            ("volcano.sh/cooldowntime", Some("volcano.sh/cooldown-time")),
            ("volcano.sh/preemptable", None),
            ("volcano.sh/job-name", None),
            ("volcano.sh/job-version", None),
            ("volcano.sh/template-uid", None),
            ("volcano.sh/task-index", None),
            ("volcano.sh/task-priority", None),
            ("volcano.sh/sla-waiting-time", None),
            ("volcano.sh/revocable-zone", None),
            ("volcano.sh/numa-topology-policy", None),
            ("scheduling.volcano.sh/group-min-member", None),
            ("scheduling.volcano.sh/preemptable", None),
            ("podgroup.dev/queue-path", None),
            ("volcano.sh/queue-name", None),
            ("group-min-members", None),
        ] {
            assert_eq!(meant_by(key).as_deref(), want, "{key}");
        }
    }
}
