//! Says which PodGroup a JobSet has as a whole. A JobSet creates a Job for each replica of each role; no program reads the JobSet itself.
//!
//! Its Jobs and pods have labels with its name and its *attempt* (the number of restarts before). The PodGroup is named after both, so each
//! attempt has a PodGroup of its own: pods of an earlier attempt, also those that succeeded, never count for a later one.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::dns::{is_label, is_number};
use super::membership::GroupKey;
use super::names::{JOBSET_ATTEMPT, JOBSET_INDEX, JOBSET_JOBS, JOBSET_NAME, JOBSET_PREFIX};

/// What the labels of a Job or pod say about the JobSet that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSetLabels<'a> {
    /// The name of the JobSet: a DNS-1123 label.
    pub name: &'a str,
    /// The number of restarts before: a decimal number, as it is written.
    pub attempt: &'a str,
    /// The number of Jobs of the JobSet: at least 1.
    pub jobs: u32,
    /// The position of the Job in the JobSet; 0 if the label cannot be used.
    pub index: u32,
}

impl<'a> JobSetLabels<'a> {
    /// Reads the labels. `None` if one of them is missing or cannot be used: then the object counts as one that no JobSet created.
    #[must_use]
    pub fn of(meta: &'a ObjectMeta) -> Option<Self> {
        let labels: &BTreeMap<String, String> = meta.labels.as_ref()?;
        let (name, attempt) = (labels.get(JOBSET_NAME)?, labels.get(JOBSET_ATTEMPT)?);
        let jobs = labels.get(JOBSET_JOBS).filter(|jobs| is_number(jobs) && !jobs.starts_with('0'))?.parse::<u32>().ok()?;
        let index = labels.get(JOBSET_INDEX).and_then(|index| index.parse::<u32>().ok()).unwrap_or(0);
        (is_label(name) && is_number(attempt)).then_some(Self { name, attempt, jobs, index })
    }

    /// Returns the PodGroup of all Jobs of the JobSet in this attempt.
    #[must_use]
    pub fn group(&self, namespace: &str) -> GroupKey {
        GroupKey::new(namespace, &format!("{JOBSET_PREFIX}{}-{}", self.name, self.attempt))
    }
}

/// Returns the name of the JobSet and its attempt in the name of a PodGroup that [`JobSetLabels::group`] returns; `None` for any other name.
#[must_use]
pub fn jobset_of_group(name: &str) -> Option<(&str, &str)> {
    let (name, attempt) = name.strip_prefix(JOBSET_PREFIX)?.rsplit_once('-')?;
    (is_label(name) && is_number(attempt)).then_some((name, attempt))
}

/// Returns the label selector of the pods of a JobSet in one attempt, as text for a list request.
#[must_use]
pub fn selector_of_jobset(name: &str, attempt: &str) -> String {
    format!("{JOBSET_NAME}={name},{JOBSET_ATTEMPT}={attempt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(name: &str, attempt: &str, jobs: &str, index: &str) -> ObjectMeta {
        let pairs = [(JOBSET_NAME, name), (JOBSET_ATTEMPT, attempt), (JOBSET_JOBS, jobs), (JOBSET_INDEX, index)];
        let labels = pairs.iter().filter(|(_, value)| *value != "absent").map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ObjectMeta { labels: Some(labels.collect()), ..ObjectMeta::default() }
    }

    #[test]
    fn a_jobset_has_one_podgroup_for_each_attempt() {
        let group = |name: &str, attempt: &str| JobSetLabels::of(&labels(name, attempt, "2", "0")).map(|set| set.group("ns"));
        assert_eq!(group("train", "0"), Some(GroupKey::new("ns", "jobset-train-0")));
        assert_eq!(group("train", "1"), Some(GroupKey::new("ns", "jobset-train-1")));
        assert_ne!(group("train-1", "0"), group("train", "1"));
        for (name, attempt) in [("train", "0"), ("a-1", "12"), ("9", "123456789")] {
            let group = group(name, attempt).unwrap();
            assert_eq!(jobset_of_group(&group.name), Some((name, attempt)), "the name can be read back");
        }
    }

    #[test]
    fn labels_that_cannot_be_used_count_as_no_jobset() {
        for (name, attempt, jobs) in [
            ("absent", "0", "2"),
            ("", "0", "2"),
            ("Train", "0", "2"),
            ("a.b", "0", "2"),
            ("-a", "0", "2"),
            ("a-", "0", "2"),
            ("train", "absent", "2"),
            ("train", "", "2"),
            ("train", "-1", "2"),
            ("train", "x", "2"),
            ("train", "1234567890", "2"),
            ("train", "0", "absent"),
            ("train", "0", "0"),
            ("train", "0", "-2"),
            ("train", "0", "4294967296"),
            ("train", "0", "1000000000"),
            ("train", "0", "02"),
        ] {
            assert_eq!(JobSetLabels::of(&labels(name, attempt, jobs, "0")), None, "{name:?} {attempt:?} {jobs:?}");
        }
        assert_eq!(JobSetLabels::of(&ObjectMeta::default()), None);
        let index = |text: &str| JobSetLabels::of(&labels("train", "0", "2", text)).map(|set| set.index);
        assert_eq!([index("7"), index("absent"), index("x")], [Some(7), Some(0), Some(0)]);
    }

    #[test]
    fn only_the_form_of_the_name_makes_a_podgroup_that_of_a_jobset() {
        for name in ["jobset-", "jobset-train", "jobset--0", "jobset-train-x", "jobset-train-", "train-0", "jobset-Train-0"] {
            assert_eq!(jobset_of_group(name), None, "{name}");
        }
    }
}
