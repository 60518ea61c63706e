//! Judges single objects in the present state of the cluster (checks 1, 2 and 5).
//!
//! Whether a wrong state has lasted too long is decided in `timers`.

use super::amounts::show;
use super::bindings::subtree;
use super::facts::{GroupFact, Key};
use super::state::{ClusterState, Track};

/// Check 1 for one pod: describes why the pod has no PodGroup, or a PodGroup of another owner.
pub fn without_group(state: &ClusterState, uid: &str) -> Option<String> {
    let pod = state.pod(uid).filter(|pod| pod.served.is_some() && !pod.ended && !pod.terminating)?;
    if state.ending.contains(&pod.key.0) {
        // A terminating namespace deletes its objects in any order.
        return None;
    }
    let name = &pod.group.1;
    let Some(group) = state.group(&pod.group) else { return Some(format!("its PodGroup {name} does not exist")) };
    let owner = pod.group_owner.as_ref().filter(|owner| !group.owners.contains(*owner))?;
    Some(format!("its PodGroup {name} must be owned by {owner} (the pod's controller or the pod), but its owners are {:?}", group.owners))
}

/// Check 2 for one PodGroup of the controller: describes why it has no live owner. An owner of a kind that is not watched counts as alive.
pub fn without_owner(state: &ClusterState, key: &Key) -> Option<String> {
    let group = state.group(key).filter(|group| group.managed)?;
    match &group.owner {
        None => Some("it has no owner".to_owned()),
        Some((owner, true)) if !state.alive.contains(owner) => Some(format!("its owner {owner} does not exist")),
        Some(_) => None,
    }
}

/// Check 2 for one PodGroup: names another PodGroup with the same owner, if the controller created one of the two. An attempt of a JobSet
/// may begin before the pods of the last one are gone, so its attempts are allowed.
pub fn twin(state: &ClusterState, key: &Key) -> Option<String> {
    let here = |group: &&GroupFact| !group.terminating;
    let group = state.group(key).filter(here)?;
    let (owner, _) = group.owner.as_ref()?;
    let others = state.owned.get(owner).into_iter().flatten();
    let others = others.filter(|other| *other != key && attempt_of(key).is_none_or(|jobset| attempt_of(other) != Some(jobset)));
    let twin =
        others.filter_map(|other| Some((other, state.group(other).filter(here)?))).find(|(_, other)| other.managed || group.managed)?;
    Some(format!("{} has the same owner {owner}", twin.0.1))
}

/// Returns the JobSet of which this is the PodGroup of one attempt; none for any other PodGroup.
fn attempt_of(key: &Key) -> Option<&str> {
    let (jobset, attempt) = key.1.strip_prefix("jobset-")?.rsplit_once('-')?;
    attempt.bytes().all(|byte| byte.is_ascii_digit()).then_some(jobset)
}

/// Check 5: returns every queue with a `status.allocated` that differs from the requests of its pods and of the pods in its descendants,
/// with the reason.
///
/// A dimension that no pod requests may be missing or 0. `pods` is compared only when the status contains it, because not every writer sets it.
pub fn wrong_allocated(state: &ClusterState) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for (name, queue) in state.queues.iter().filter_map(|(name, track)| Some((name, Track::now(track)?))) {
        let truth = subtree(state, name);
        let said = &queue.allocated;
        let mut dimensions: Vec<&str> = truth.iter().chain(said.iter()).map(|(dimension, _)| dimension).collect();
        dimensions.sort_unstable();
        dimensions.dedup();
        for dimension in dimensions {
            let unstated = dimension == "pods" && said.limit(dimension).is_none();
            if !unstated && said.get(dimension) != truth.get(dimension) {
                let detail = format!(
                    "status.allocated has {dimension} {}, its pods request {}",
                    show(said.get(dimension)),
                    show(truth.get(dimension))
                );
                wrong.push((name.clone(), detail));
            }
        }
    }
    wrong
}
