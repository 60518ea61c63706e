//! Checks all objects once when the load is over, like the observer does for each object during a case.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::objects::{NAMESPACE, field, podgroups};

/// The number of faults that are reported. A fault of one kind usually exists for every object.
const REPORTED: usize = 5;

/// Returns what is wrong with the PodGroups of the namespace. Every ReplicaSet with replicas must have exactly one, with the right name, owner and
/// size, that does not terminate. No other ReplicaSet may have one, and there may be no further PodGroups.
pub async fn wrong_groups(client: &Client) -> Result<Vec<String>> {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), NAMESPACE);
    let sets = sets.list(&ListParams::default()).await?.items;
    let groups = podgroups(client).list(&ListParams::default()).await?.items;
    Ok(judge(&sets, &groups))
}

fn judge(sets: &[ReplicaSet], groups: &[DynamicObject]) -> Vec<String> {
    let mut of_owner: BTreeMap<String, Vec<&DynamicObject>> = BTreeMap::new();
    for group in groups {
        let owner = group.owner_references().iter().find(|owner| owner.controller == Some(true));
        of_owner.entry(owner.map(|owner| owner.uid.clone()).unwrap_or_default()).or_default().push(group);
    }
    let mut wrong = Vec::new();
    for set in sets {
        let uid = set.uid().unwrap_or_default();
        let found = of_owner.remove(&uid).unwrap_or_default();
        let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        match (wanted, found.as_slice()) {
            (0, []) => {}
            (0, _) => wrong.push(format!("{} has 0 replicas and {} PodGroups", set.name_any(), found.len())),
            (_, [group]) => wrong.extend(wrong_group(&uid, group).map(|why| format!("the PodGroup of {}: {why}", set.name_any()))),
            (_, _) => wrong.push(format!("{} has {wanted} replicas and {} PodGroups", set.name_any(), found.len())),
        }
    }
    wrong.extend(of_owner.values().flatten().map(|group| format!("the owner of {} is no existing ReplicaSet", group.name_any())));
    wrong.truncate(REPORTED);
    wrong
}

fn wrong_group(owner: &str, group: &DynamicObject) -> Option<String> {
    let (members, queue, cpu) = (field(group, "/spec/minMember"), field(group, "/spec/queue"), field(group, "/spec/minResources/cpu"));
    if group.name_any() != format!("podgroup-{owner}") {
        return Some(format!("its name is {}", group.name_any()));
    }
    if group.metadata.deletion_timestamp.is_some() || group.annotations().contains_key("podgroup.dev/retiring") {
        return Some("it terminates".to_owned());
    }
    (members != 1 || queue != "default" || cpu.is_null()).then(|| format!("minMember {members}, queue {queue}, minResources.cpu {cpu}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(uid: &str, replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}, "spec": {"replicas": replicas, "selector": {}}})).unwrap()
    }

    fn group(owner: &str, members: i32) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": format!("podgroup-{owner}"), "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]},
            "spec": {"minMember": members, "queue": "default", "minResources": {"cpu": "100m"}},
        }))
        .unwrap()
    }

    #[test]
    fn a_group_that_is_missing_doubled_wrong_or_left_over_is_found() {
        assert_eq!(judge(&[set("a", 1), set("b", 0)], &[group("a", 1)]), Vec::<String>::new());
        assert_eq!(judge(&[set("a", 1)], &[]).len(), 1, "missing");
        assert_eq!(judge(&[set("a", 1)], &[group("a", 1), group("a", 1)]).len(), 1, "doubled");
        assert_eq!(judge(&[set("a", 1)], &[group("a", 2)]).len(), 1, "wrong");
        assert_eq!(judge(&[set("a", 0)], &[group("a", 1)]).len(), 1, "not wanted");
        assert_eq!(judge(&[], &[group("a", 1)]).len(), 1, "left over");
    }
}
