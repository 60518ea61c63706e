//! Which annotation was meant by one that nothing reads?

use crate::nearest::nearest;

use super::names::{GANG, GROUP_NAME, GROUP_NAME_OLD, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};

/// The annotations of owners, pod templates and pods that ask for something.
const READ: [&str; 6] = [MIN_MEMBER, MIN_RESOURCES, GROUP_NAME_OLD, QUEUE_NAME, GROUP_NAME, GANG];

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
    let one = nearest(name, of_domain()).or_else(shortened).map(|read| format!("{domain}/{read}"));
    one.or_else(|| key.starts_with(FAMILY).then(|| of_domain().collect::<Vec<_>>().join(", ")))
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
            ("scheduling.k8s.io/groupname", Some("scheduling.k8s.io/group-name")),
            ("podgroup.dev/gnag", Some("podgroup.dev/gang")),
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
