//! The pods of all schedulers, by UID.

use crate::api::{Pod, PodFacts, Uid};
use crate::cycle::state::SchedulingState;
use crate::scheduler::state::State;

use super::{Kind, WatchedKind};

/// The pods of all schedulers, by UID.
#[derive(Debug)]
pub enum Pods {}

impl WatchedKind for Pods {
    type Object = Pod;
    type Facts = PodFacts;
    type Key = Uid;

    const KIND: Kind = Kind::new("pods");

    fn facts(object: Pod) -> PodFacts {
        PodFacts::of(&object)
    }

    fn key(facts: &PodFacts) -> Uid {
        facts.uid.clone()
    }

    fn known(scheduling: &SchedulingState) -> Vec<Uid> {
        scheduling.cache().pod_uids().cloned().collect()
    }

    fn apply(state: &mut State, facts: PodFacts) {
        state.status_writer.pod_seen(&facts.uid);
        if facts.node.is_some() {
            state.takeover.shown(&facts.uid);
        }
        state.slips.seen(&facts, state.scheduling.cache().schedulers());
        state.scheduling.apply_pod(facts);
    }

    fn delete(state: &mut State, key: &Uid) {
        state.status_writer.pod_gone(key);
        state.takeover.shown(key);
        state.slips.gone(key);
        state.scheduling.delete_pod(key);
    }

    fn went_back(state: &mut State, all: &[PodFacts]) {
        // The API server had confirmed these binds, and does not know them any more.
        all.iter().filter(|pod| pod.node.is_none()).for_each(|pod| state.scheduling.lose_bind(&pod.uid));
        state.takeover.went_back();
    }
}
