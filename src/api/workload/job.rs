//! The Job of Kubernetes. It is created by a person, a CronJob or another controller.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::jobset::JobSetLabels;
use crate::api::membership::{asks_for_jobset, controller_of};
use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, ObjectRef, OwnerSet, PodOwner, PodTemplate, count};

/// A Job. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: JobSpec,
    /// The observed state.
    #[serde(default)]
    pub status: JobStatus,
}

resource!(Job, "batch", "v1", "Job", "jobs", NamespaceResourceScope);

/// The spec of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// The number of pods that may run at the same time; 1 if unset.
    pub parallelism: Option<i32>,
    /// The number of pods that must succeed. Unset means a work queue: the Job ends when one of its pods has succeeded and all have ended.
    pub completions: Option<i32>,
    /// Whether the Job is suspended and has no pods.
    pub suspend: bool,
    /// The controller that creates its pods. Unset means the Job controller of this cluster.
    pub managed_by: Option<String>,
    /// The label selector of its pods.
    pub selector: Selector,
    /// The pod template.
    pub template: PodTemplate,
}

/// The status of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// The number of pending and running pods.
    pub active: Option<i32>,
    /// The number of pods that succeeded; of an Indexed Job, the number of indexes.
    pub succeeded: Option<i32>,
    /// The indexes that failed finally, as `1,3-5`.
    pub failed_indexes: Option<String>,
    /// The conditions of the Job.
    pub conditions: Vec<JobCondition>,
}

/// One condition of a Job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// The conditions after which the Job controller creates no more pods: the Job has ended or is about to end.
const FINISHED: [&str; 4] = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];

/// The value of `spec.managedBy` that means the Job controller of this cluster.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

impl Job {
    fn is_finished(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.status == "True" && FINISHED.contains(&condition.kind.as_str()))
    }

    /// Returns the number of pods that are to succeed in all, those that succeeded among them. It does not change while pods succeed.
    fn completions(&self) -> u32 {
        match self.spec.completions {
            Some(completions) => count(Some(completions), 0).saturating_sub(self.status.failed_indexes.as_deref().map_or(0, indexes)),
            None => count(self.status.succeeded, 0).saturating_add(self.wanted()),
        }
    }

    /// Returns the number of pods that the Job controller runs at the same time from now on, if the Job is not suspended.
    fn wanted(&self) -> u32 {
        let parallelism = count(self.spec.parallelism, 1);
        let succeeded = count(self.status.succeeded, 0);
        match self.spec.completions {
            Some(completions) => {
                let failed = self.status.failed_indexes.as_deref().map_or(0, indexes);
                parallelism.min(count(Some(completions), 0).saturating_sub(succeeded).saturating_sub(failed))
            }
            // A work queue gets no new pods after one pod has succeeded (Job documentation, "Parallel Jobs with a work queue").
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
        // Another controller (spec.managedBy) creates the pods, in this or another cluster. Only that controller knows how many at the same time.
        if self.spec.managed_by.as_deref().is_some_and(|manager| manager != JOB_CONTROLLER) {
            return (false, Gang::Unknown);
        }
        let now = if self.spec.suspend || self.is_finished() { 0 } else { self.wanted() };
        let parallelism = count(self.spec.parallelism, 1);
        let in_all = self.spec.completions.map_or(parallelism, |completions| parallelism.min(count(Some(completions), 0)));
        (now > 0, Gang::UpTo { now, in_all, completions: Some(self.completions()) })
    }

    fn is_made_by(controller: &OwnerReference) -> bool {
        controller.kind == "CronJob"
    }

    fn set(&self) -> Option<OwnerSet> {
        let meta = &self.metadata;
        let is_jobset = |owner: &&OwnerReference| owner.kind == "JobSet" && owner.api_version.starts_with("jobset.x-k8s.io/");
        let jobset = controller_of(meta).filter(is_jobset)?;
        // The labels of the pods count, because the pods' PodGroup depends on them.
        let labels = JobSetLabels::of(&self.spec.template.metadata).filter(|labels| labels.name == jobset.name)?;
        Some(OwnerSet {
            object: ObjectRef::referred(jobset, meta),
            owners: labels.jobs,
            group: labels.group(meta.namespace.as_deref().unwrap_or_default()),
            joins: asks_for_jobset(&self.spec.template.metadata).is_some(),
            index: labels.index,
            pods: if self.is_finished() { 0 } else { self.wanted() },
            succeeded: Some(count(self.status.succeeded, 0)),
            born: meta.creation_timestamp.as_ref().map(|time| time.0),
        })
    }
}

/// Returns how many numbers are in a text such as `1,3-5`. A part that cannot be read counts as none. The cost depends on the length of the
/// text, not on its numbers.
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
    fn failed_indexes_are_counted() {
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
