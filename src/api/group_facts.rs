//! The facts of a PodGroup that scheduling uses.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::resources::Resources;

use super::fault::Fault;
use super::membership::GroupKey;
use super::names::{AWAITED_OWNERS, COMPLETED, COMPLETIONS, DEFAULT_QUEUE, SCHEDULED};
use super::pod_facts::{is_protected, preemptable};
use super::podgroup::{PodGroup, PodGroupStatus};
use super::quantities;
use super::sub_groups::{self, SubGroupPolicyFacts};
use super::uid::Uid;
use super::unknown_fields;
use super::unsupported::asks_for_hard_topology;

/// A PodGroup as the scheduler knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFacts {
    /// Its namespace and name.
    pub key: GroupKey,
    /// Its UID, which a PodGroup that is created again does not have.
    pub uid: Uid,
    /// The resourceVersion of the object.
    pub resource_version: String,
    /// The number of members that must be placed together. The API permits 0: a gang without members. With minResources it is at least 1, so
    /// that the first member waits until all of that is there.
    pub min_member: u32,
    /// The number of members that are to succeed in all, those that did among them: of a Job. `None` means `min_member`.
    pub completions: Option<u32>,
    /// Whether owners of its pods are not created yet, so that its minMember will be larger.
    pub awaits_owners: bool,
    /// The resources that must be free before its admission. `None` means the sum of its members' requests.
    pub min_resources: Option<Resources>,
    /// The number of members of each task that must be placed.
    pub min_task_member: BTreeMap<String, u32>,
    /// The queue that its new pods are charged to.
    pub queue: String,
    /// The name of its priority class, which may not exist; `None` where it names none.
    pub priority_class: Option<String>,
    /// Whether its members may be preempted.
    pub preemptable: bool,
    /// Whether Volcano protects its members from preemption. Until this is supported, no member is a victim.
    pub protected: bool,
    /// Whether podgroup-controller manages it, as its label says. Then its pods come by themselves, and nobody waits for its admission.
    pub managed: bool,
    /// When it was created, in whole seconds; 1970 where the object does not say it.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its spec or an annotation requires a network topology, which is not supported yet.
    pub network_topology: bool,
    /// How its members are parted into subgroups; empty where no policy asks for more than each pod by itself.
    pub sub_groups: Vec<SubGroupPolicyFacts>,
    /// Its present status, so that an equal status is not written again. Only the phase Completed is trusted.
    pub status: PodGroupStatus,
    /// The invalid values. With one of them nothing is placed.
    pub faults: Vec<Fault>,
    /// The unknown fields of its spec, as one fault. They block nothing.
    pub unknown: Option<Fault>,
}

impl GroupFacts {
    /// Returns whether its phase is Completed. It then reserves no resources. The phase stays until there is a new member: a Job
    /// replaces a failed pod after a back-off.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.status.phase.as_deref() == Some(COMPLETED)
    }

    /// Returns whether its status says that it had all its nodes once.
    #[must_use]
    pub fn was_scheduled(&self) -> bool {
        self.status.conditions.iter().flatten().any(|condition| condition.kind.as_deref() == Some(SCHEDULED))
    }

    /// Returns how many members had succeeded when its status was written.
    #[must_use]
    pub fn had_succeeded(&self) -> u32 {
        self.status.succeeded.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    /// Returns whether the other is equal except for its status and for fields that are not read.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let (status, resource_version, unknown) = (other.status.clone(), other.resource_version.clone(), other.unknown.clone());
        *other == Self { status, resource_version, unknown, ..self.clone() }
    }

    /// Reads the facts from the object.
    #[must_use]
    pub fn of(group: &PodGroup) -> Self {
        let meta = &group.metadata;
        let spec = &group.spec;
        let mut faults = Vec::new();
        let hard = |topology: &super::podgroup::NetworkTopology| topology.mode.as_deref() != Some("soft");
        Self {
            key: GroupKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            min_member: spec
                .min_member
                .and_then(|number| u32::try_from(number).ok())
                .unwrap_or(0)
                .max(u32::from(spec.min_resources.is_some())),
            completions: completions(meta, &mut faults),
            awaits_owners: meta.annotations.as_ref().is_some_and(|all| all.contains_key(AWAITED_OWNERS)),
            min_resources: spec.min_resources.as_ref().map(|raw| quantities::minimum(raw, "spec.minResources", &mut faults)),
            min_task_member: spec
                .min_task_member
                .iter()
                .flatten()
                .filter_map(|(task, number)| u32::try_from(*number).ok().map(|number| (task.clone(), number)))
                .collect(),
            queue: spec.queue.clone().filter(|queue| !queue.is_empty()).unwrap_or_else(|| DEFAULT_QUEUE.to_owned()),
            priority_class: spec.priority_class_name.clone().filter(|class| !class.is_empty()),
            preemptable: preemptable(meta),
            protected: is_protected(meta),
            managed: group.is_managed(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            network_topology: asks_for_hard_topology(meta)
                || spec.network_topology.as_ref().is_some_and(hard)
                || spec.sub_group_policy.iter().flatten().any(|policy| policy.network_topology.as_ref().is_some_and(hard)),
            sub_groups: sub_groups::read(spec.sub_group_policy.as_deref().unwrap_or_default(), &mut faults),
            status: group.status.clone().unwrap_or_default(),
            faults,
            unknown: unknown_fields::fault(&spec.unknown),
        }
    }
}

/// Reads the annotation; a value that is no number is a fault.
fn completions(meta: &ObjectMeta, faults: &mut Vec<Fault>) -> Option<u32> {
    let value = meta.annotations.as_ref()?.get(COMPLETIONS)?;
    let number = value.parse().ok();
    if number.is_none() {
        faults.push(Fault::new(COMPLETIONS, value, "not a number of pods"));
    }
    number
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_label_says_whether_the_controller_manages_a_podgroup_and_not_the_name() {
        let managed = |labels: serde_json::Value| {
            GroupFacts::of(
                &serde_json::from_value(json!({ "metadata": { "name": "jobset-train-0", "labels": labels }, "spec": {} })).unwrap(),
            )
            .managed
        };
        assert!(managed(json!({ "podgroup.dev/managed-by": "podgroup-controller" })));
        assert!(!managed(json!({ "podgroup.dev/managed-by": "training-operator" })) && !managed(json!({})));
    }

    #[test]
    fn a_status_and_an_unknown_field_ask_for_nothing() {
        let facts = |body: serde_json::Value| GroupFacts::of(&serde_json::from_value(body).unwrap());
        let group = facts(json!({ "metadata": { "name": "g", "resourceVersion": "1" }, "spec": { "minMember": 2 } }));
        let noted = facts(json!({
            "metadata": { "name": "g", "resourceVersion": "2" }, "spec": { "minMember": 2, "note": "x" }, "status": { "phase": "Inqueue" },
        }));
        assert!(group.asks_the_same(&noted) && noted.asks_the_same(&group) && group != noted);
        let larger = facts(json!({ "metadata": { "name": "g", "resourceVersion": "1" }, "spec": { "minMember": 3 } }));
        assert!(!group.asks_the_same(&larger));
    }
}
