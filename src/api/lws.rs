//! Says which PodGroup one group of a LeaderWorkerSet has. A LeaderWorkerSet creates several groups, each of a leader and its workers; no
//! program reads it.
//!
//! Its pods have labels with its name, the number of their group and the revision of the template, and an annotation with the size of a
//! group. The PodGroup is named after these labels, so pods of an earlier revision never count for a later one. The leader owns it, as in
//! the LeaderWorkerSets that create PodGroups themselves (0.7).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::dns::{is_label, is_number};
use super::membership::GroupKey;
use super::names::{LWS_GROUP, LWS_NAME, LWS_PREFIX, LWS_REVISION, LWS_SIZE, LWS_WORKER};

/// The longest revision. LeaderWorkerSet writes at most ten characters.
const LONGEST_REVISION: usize = 20;

/// What the metadata of a pod, or of a pod template, says about the LeaderWorkerSet that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LwsLabels<'a> {
    /// The name of the LeaderWorkerSet: a DNS-1123 label.
    pub name: &'a str,
    /// The number of the group, as it is written. `None` in the template of the leaders: each leader gets its own.
    pub group: Option<&'a str>,
    /// The revision of the template: lower case letters and digits.
    pub revision: &'a str,
    /// The number of pods of a group with its leader: at least 1.
    pub size: u32,
    /// Whether this is a leader, or the template of the leaders.
    pub is_leader: bool,
}

impl<'a> LwsLabels<'a> {
    /// Reads the metadata. `None` if a part is missing or cannot be used: then the object counts as one that no LeaderWorkerSet created.
    #[must_use]
    pub fn of(meta: &'a ObjectMeta) -> Option<Self> {
        let label = |key: &str| meta.labels.as_ref()?.get(key).map(String::as_str);
        let size = meta.annotations.as_ref()?.get(LWS_SIZE).filter(|size| is_number(size))?.parse::<u32>().ok()?;
        let (name, group, revision, is_leader) = (label(LWS_NAME)?, label(LWS_GROUP), label(LWS_REVISION)?, label(LWS_WORKER) == Some("0"));
        let is_usable = is_label(name) && group.map_or(is_leader, is_number) && is_revision(revision) && size > 0;
        is_usable.then_some(Self { name, group, revision, size, is_leader })
    }

    /// Returns the PodGroup of the pods of this group. `None` for the template of the leaders.
    #[must_use]
    pub fn key(&self, namespace: &str) -> Option<GroupKey> {
        Some(GroupKey::new(namespace, &format!("{LWS_PREFIX}{}-{}-{}", self.name, self.group?, self.revision)))
    }
}

/// Returns the label selector, as text for a list request, of the pods of a PodGroup with a name that [`LwsLabels::key`] returns; `None`
/// for any other name.
#[must_use]
pub fn selector_of_lws(group: &str) -> Option<String> {
    let (rest, revision) = group.strip_prefix(LWS_PREFIX)?.rsplit_once('-')?;
    let (name, group) = rest.rsplit_once('-')?;
    let is_usable = is_label(name) && is_number(group) && is_revision(revision);
    is_usable.then(|| format!("{LWS_NAME}={name},{LWS_GROUP}={group},{LWS_REVISION}={revision}"))
}

fn is_revision(text: &str) -> bool {
    (1..=LONGEST_REVISION).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta([name, group, worker, revision, size]: [&str; 5]) -> ObjectMeta {
        let some = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().filter(|(_, value)| *value != "absent");
            Some(pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let labels = some(&[(LWS_NAME, name), (LWS_GROUP, group), (LWS_WORKER, worker), (LWS_REVISION, revision)]);
        ObjectMeta { labels, annotations: some(&[(LWS_SIZE, size)]), ..ObjectMeta::default() }
    }

    #[test]
    fn each_group_of_a_leaderworkerset_has_a_podgroup_for_each_revision() {
        for (name, group, revision) in [("serve", "0", "5b9cf9b4d4"), ("a-1", "12", "7"), ("9", "123456789", "x")] {
            for worker in ["0", "3"] {
                let meta = meta([name, group, worker, revision, "4"]);
                let labels = LwsLabels::of(&meta).unwrap();
                let key = labels.key("ns").unwrap();
                assert_eq!((labels.size, labels.is_leader), (4, worker == "0"));
                assert_eq!(key, GroupKey::new("ns", &format!("lws-{name}-{group}-{revision}")));
                let selector =
                    [(LWS_NAME, name), (LWS_GROUP, group), (LWS_REVISION, revision)].map(|(key, value)| format!("{key}={value}"));
                assert_eq!(selector_of_lws(&key.name), Some(selector.join(",")), "the name can be read back");
            }
        }
    }

    #[test]
    fn only_the_template_of_the_leaders_needs_no_number_of_a_group() {
        let leaders = meta(["serve", "absent", "0", "r1", "4"]);
        let labels = LwsLabels::of(&leaders).unwrap();
        assert_eq!((labels.is_leader, labels.key("ns")), (true, None));
        assert_eq!(LwsLabels::of(&meta(["serve", "absent", "1", "r1", "4"])), None);
    }

    #[test]
    fn metadata_that_cannot_be_used_counts_as_no_leaderworkerset() {
        for (at, values) in [
            (0, &["absent", "", "Serve", "a.b", "-a", "a-"][..]),
            (1, &["", "x", "-1", "1234567890"][..]),
            (3, &["absent", "", "A", "a-b", "123456789012345678901"][..]),
            (4, &["absent", "", "0", "-4", "4294967296"][..]),
        ] {
            for value in values {
                let mut all = ["serve", "0", "1", "r1", "4"];
                all[at] = value;
                assert_eq!(LwsLabels::of(&meta(all)), None, "{all:?}");
            }
        }
        assert_eq!(LwsLabels::of(&ObjectMeta::default()), None);
    }

    #[test]
    fn only_the_form_of_the_name_makes_a_podgroup_that_of_a_leaderworkerset() {
        for name in [
            "lws-",
            "lws-serve",
            "lws-serve-0",
            "lws--0-r1",
            "lws-serve-x-r1",
            "lws-serve-0-",
            "serve-0-r1",
            "lws-Serve-0-r1",
            "jobset-serve-0-1",
        ] {
            assert_eq!(selector_of_lws(name), None, "{name}");
        }
    }
}
