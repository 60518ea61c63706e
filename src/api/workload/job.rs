//! Jobs: made by hand, by a CronJob, or by another controller.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate, count};

/// A Job. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: JobSpec,
    /// What came of it, as far as it says what is still wanted.
    #[serde(default)]
    pub status: JobStatus,
}

resource!(Job, "batch", "v1", "Job", "jobs", NamespaceResourceScope);

/// What is wanted of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// How many pods may run at a time; 1 where it is unset.
    pub parallelism: Option<i32>,
    /// How many must succeed; unset is a work queue, which is done when its pods say so.
    pub completions: Option<i32>,
    /// Whether it is to have no pods for now.
    pub suspend: bool,
    /// Who makes its pods; unset is the Job controller of this cluster.
    pub managed_by: Option<String>,
    /// Which pods are its own.
    pub selector: Selector,
    /// What they look like.
    pub template: PodTemplate,
}

/// How far a Job has come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// Pods that run or wait.
    pub active: Option<i32>,
    /// Pods (of an Indexed Job: indexes) that succeeded.
    pub succeeded: Option<i32>,
    /// Indexes that failed for good, as `1,3-5`.
    pub failed_indexes: Option<String>,
    /// How it ended, if it did.
    pub conditions: Vec<JobCondition>,
}

/// One condition of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobCondition {
    /// What it says.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether that holds.
    pub status: String,
}

/// The conditions after which the Job controller makes no more pods: how it ended, and that it is about to.
const OVER: [&str; 4] = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];

/// The value of `spec.managedBy` that stands for the Job controller of this cluster.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

impl Job {
    fn is_over(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.status == "True" && OVER.contains(&condition.kind.as_str()))
    }

    /// How many pods the Job controller keeps at a time from here on, were it not suspended.
    fn wanted(&self) -> u32 {
        let parallelism = count(self.spec.parallelism, 1);
        let succeeded = count(self.status.succeeded, 0);
        match self.spec.completions {
            Some(completions) => {
                let failed = self.status.failed_indexes.as_deref().map_or(0, indexes);
                parallelism.min(count(Some(completions), 0).saturating_sub(succeeded).saturating_sub(failed))
            }
            // A work queue gets no new pods once one has succeeded (Job documentation, "Parallel Jobs with a work queue").
            None if succeeded > 0 => parallelism.min(count(self.status.active, 0)),
            None => parallelism,
        }
    }
}

impl PodOwner for Job {
    fn template(&self) -> &PodTemplate {
        &self.spec.template
    }

    fn selector(&self) -> &Selector {
        &self.spec.selector
    }

    fn wants(&self) -> (bool, Gang) {
        // Another controller (spec.managedBy) makes its pods: here, or in another cluster; how many at a time it alone knows.
        if self.spec.managed_by.as_deref().is_some_and(|manager| manager != JOB_CONTROLLER) {
            return (false, Gang::Unknown);
        }
        let now = if self.spec.suspend || self.is_over() { 0 } else { self.wanted() };
        let parallelism = count(self.spec.parallelism, 1);
        let in_all = self.spec.completions.map_or(parallelism, |completions| parallelism.min(count(Some(completions), 0)));
        (now > 0, Gang::UpTo { now, in_all })
    }

    fn is_made_by(controller: &OwnerReference) -> bool {
        controller.kind == "CronJob"
    }
}

/// How many numbers are in `1,3-5`; what cannot be read counts as none. Bounded by the text, not by the numbers in it.
fn indexes(text: &str) -> u32 {
    text.split(',').fold(0_u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last => sum.saturating_add((last - first).saturating_add(1)),
            _ => sum,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_indexes_are_counted_without_walking_them() {
        let table = [
            ("", 0),
            ("3", 1),
            ("1,3-5", 4),
            ("0-4294967295", u32::MAX),
            ("5-3", 0),
            ("x,2", 1),
            ("1-2-3", 0),
            ("0-4294967295,7", u32::MAX),
        ];
        for (text, number) in table {
            assert_eq!(indexes(text), number, "{text:?}");
        }
    }
}
