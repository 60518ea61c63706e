//! What is wrong with the cluster as it stands (checks 1, 2, 5 and 6)? Each function judges one object in the present state.
//!
//! Whether a wrong state has lasted too long is not asked here: see `timers`.

use super::amounts::show;
use super::bindings::subtree;
use super::facts::{GroupFact, Key};
use super::world::{Track, World};

/// Check 1, for one pod: why it belongs to no PodGroup, or to one of somebody else's.
pub fn without_group(world: &World, uid: &str) -> Option<String> {
    let pod = world.pod(uid).filter(|pod| pod.ours && !pod.ended && !pod.terminating)?;
    if world.ending.contains(&pod.key.0) {
        // The namespace takes everything with it, in no order.
        return None;
    }
    let name = &pod.group.1;
    let Some(group) = world.group(&pod.group) else { return Some(format!("its PodGroup {name} does not exist")) };
    let owner = pod.group_owner.as_ref().filter(|owner| !group.owners.contains(*owner))?;
    Some(format!("its PodGroup {name} is not owned by {owner}, the pod's controller or the pod itself, but by {:?}", group.owners))
}

/// Check 2, for one PodGroup of the controller's: why it has no live owner. An owner of a kind that is not watched counts as alive.
pub fn without_owner(world: &World, key: &Key) -> Option<String> {
    let group = world.group(key).filter(|group| group.managed)?;
    match &group.owner {
        None => Some("it has no owner".to_owned()),
        Some((owner, true)) if !world.alive.contains(owner) => Some(format!("its owner {owner} does not exist")),
        Some(_) => None,
    }
}

/// Check 2, for one PodGroup: another one of the same owner, when either is the controller's.
pub fn twin(world: &World, key: &Key) -> Option<String> {
    let here = |group: &&GroupFact| !group.terminating;
    let group = world.group(key).filter(here)?;
    let (owner, _) = group.owner.as_ref()?;
    let others = world.owned.get(owner).into_iter().flatten().filter(|other| *other != key);
    let twin =
        others.filter_map(|other| Some((other, world.group(other).filter(here)?))).find(|(_, other)| other.managed || group.managed)?;
    Some(format!("{} has the same owner {owner}", twin.0.1))
}

/// How many members of a group count for a gang: those bound (what ended well included), and of these the ones that still hold room and stay.
pub fn bound(world: &World, key: &Key) -> (i64, i64) {
    let members = world.members.get(key).into_iter().flatten().filter_map(|uid| world.pod(uid));
    members
        .filter(|pod| pod.node.is_some() && !pod.failed)
        .fold((0, 0), |(all, staying), pod| (all.saturating_add(1), staying.saturating_add(i64::from(!pod.ended && !pod.terminating))))
}

/// Check 5: every queue whose `status.allocated` is not what its pods, those of its descendants included, ask for; name and reason.
///
/// A dimension that nobody asks for may be absent or 0. `pods` is compared only where the status has it: not every writer states it.
pub fn wrong_allocated(world: &World) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for (name, queue) in world.queues.iter().filter_map(|(name, track)| Some((name, Track::now(track)?))) {
        let truth = subtree(world, name);
        let said = &queue.allocated;
        let mut dimensions: Vec<&str> = truth.iter().chain(said.iter()).map(|(dimension, _)| dimension).collect();
        dimensions.sort_unstable();
        dimensions.dedup();
        for dimension in dimensions {
            let unstated = dimension == "pods" && said.limit(dimension).is_none();
            if !unstated && said.get(dimension) != truth.get(dimension) {
                let detail = format!(
                    "status.allocated says {} {dimension}, its pods ask for {}",
                    show(said.get(dimension)),
                    show(truth.get(dimension))
                );
                wrong.push((name.clone(), detail));
            }
        }
    }
    wrong
}
