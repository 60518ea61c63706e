//! What becomes of a nomination: does it wait, is it broken, or does the gang get its places now?

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{Placement, QueueRefusal, Refusal as BooksRefusal};
use crate::api::{GroupKey, Uid};
use crate::cycle::filter::{self, Asked, Audience, Sight};
use crate::cycle::gang;
use crate::cycle::plan::Bind;
use crate::resources::Resources;

use super::super::{Group, World};

/// What is to become of a nomination.
pub(super) enum Outlook {
    Waits,
    Ready,
    Broken(&'static str),
}

impl World {
    pub(super) fn outlook(&self, key: &GroupKey) -> Outlook {
        let Some(nomination) = self.nominations.gangs.get(key) else { return Outlook::Waits };
        let Some((group, facts)) = self.groups.get(key).and_then(|group| Some((group, group.facts.as_deref()?))) else {
            return Outlook::Broken("group_gone");
        };
        let quota = self.books.quota();
        let takes_none = |queue: &str| quota.path(queue).is_err() || quota.closed_by(queue).is_some() || self.node_groups(queue).is_some();
        if nomination.places.iter().any(|place| takes_none(&place.queue)) {
            return Outlook::Broken("queue");
        }
        if !nomination.places.iter().all(|place| self.takes(place)) {
            return Outlook::Broken("node");
        }
        let has = group.counts.placed.saturating_add(group.counts.succeeded);
        let kept = |task: Option<&str>| {
            let of_task = |uid: &Uid| task.is_none_or(|task| self.pods.get(uid).is_some_and(|member| member.facts.task() == task));
            u32::try_from(nomination.places.iter().filter(|place| of_task(&place.uid)).count()).unwrap_or(u32::MAX)
        };
        let tasks = gang::missing_tasks(group, facts);
        if facts.min_member.saturating_sub(has) > kept(None) || tasks.iter().any(|(task, missing)| *missing > kept(Some(task))) {
            return Outlook::Broken("gang_changed");
        }
        if nomination.victims.is_empty() { Outlook::Ready } else { Outlook::Waits }
    }

    /// Whether the node is there and takes the pod, but for what is used on it.
    fn takes(&self, place: &Placement) -> bool {
        let Some(facts) = self.nodes.id(&place.node).and_then(|id| self.nodes.get(id)) else { return false };
        let (Some(books), Some(member)) = (self.books.ledger().node(&place.node), self.pods.get(&place.uid)) else { return false };
        let audience = Audience { namespace: Arc::clone(&member.facts.namespace), labels: member.facts.labels.clone() };
        let forbidden = if self.keepers.is_empty() || !self.victims_gone(&member.facts.group) {
            BTreeSet::new()
        } else {
            self.keepers.forbidden(&audience, &self.nodes)
        };
        let asked = Asked { request: &Resources::new(), constraints: &member.facts.constraints, forbidden: &forbidden };
        filter::refusal(&asked, &Sight { facts, books }).is_none()
    }

    /// A victim may itself be what keeps the gang away.
    fn victims_gone(&self, key: &GroupKey) -> bool {
        self.nominations.gangs.get(key).is_none_or(|nomination| nomination.victims.is_empty())
    }

    /// Places the gang where it was nominated, in books that hold nothing of what is kept for others; all of it, or the books are as before.
    pub(super) fn settle(&mut self, key: &GroupKey) -> Result<Vec<Placement>, BooksRefusal> {
        let all: Vec<Placement> = self.nominations.gangs.values().flat_map(|nomination| nomination.places.iter().cloned()).collect();
        let own = self.nominations.gangs.get(key).map(|nomination| nomination.places.clone()).unwrap_or_default();
        let stays = |uid: &Uid| {
            let lasting = |group: &Group| group.facts.as_ref().is_some_and(|facts| !facts.preemptable);
            self.groups.get(key).is_some_and(lasting) || self.pods.get(uid).is_some_and(|member| !member.facts.preemptable)
        };
        for place in &all {
            self.books.withdraw(&place.uid);
        }
        let mut trial = self.books.trial();
        let placed = own.iter().try_for_each(|place| {
            if stays(&place.uid) {
                trial.books().quota().within_entitlement(&place.queue, &place.resources).map_err(BooksRefusal::Queue)?;
            }
            trial.place(&place.uid, &place.node, &place.queue, &place.resources)
        });
        let placed = placed.map(|()| trial.commit());
        // Those that were placed are charged, and stay as they are.
        for place in &all {
            self.books.nominate(&place.uid, &place.node, &place.queue, &place.resources);
        }
        placed
    }

    /// What was kept is taken: the gang is assumed there.
    pub(super) fn fulfil(&mut self, key: &GroupKey, placed: &[Placement]) -> Vec<Bind> {
        self.nominations.remove(key);
        let known = self.groups.get(key).and_then(|group| Some((group, group.facts.as_ref()?)));
        let minimum =
            known.filter(|(group, facts)| facts.min_member > 1 && gang::is_satisfied(group, facts)).map(|(_, facts)| facts.min_member);
        let binds = self.assume_all(key, placed, minimum);
        self.satisfied(key);
        self.judge_group(key, None);
        binds
    }

    /// Whether a pod is leaving that could make the difference.
    pub(super) fn others_leave(&self, key: &GroupKey, refusal: &BooksRefusal) -> bool {
        let mut leaving = self.leaving.keys().chain(self.nominations.victims.keys()).filter_map(|uid| self.books.pod(uid));
        match refusal {
            BooksRefusal::Node(_) => {
                let places = self.nominations.gangs.get(key).map(|nomination| nomination.places.as_slice()).unwrap_or_default();
                let nodes: BTreeSet<&str> = places.iter().map(|place| &*place.node).collect();
                leaving.any(|pod| pod.node.is_some_and(|node| nodes.contains(node)))
            }
            BooksRefusal::Queue(QueueRefusal::Ceiling(ceiling)) => {
                let below = self.books.quota().tree().subtree(&ceiling.queue);
                leaving.any(|pod| pod.queue.is_some_and(|queue| below.contains(queue)))
            }
            BooksRefusal::Queue(_) | BooksRefusal::AlreadyCharged => false,
        }
    }
}
