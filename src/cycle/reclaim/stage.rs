//! Would the gang be placed if these were not there?
//!
//! The real books, nodes and views, with some pods set aside. Everything is put back when the stage is dropped, and the views see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::{Accounting, Trial};
use crate::api::Uid;
use crate::by_key::ByKey;
use crate::cycle::admit;
use crate::cycle::class::{ClassId, Classes};
use crate::cycle::explain::Refusal;
use crate::cycle::filter::{Asked, Audience, Keeper, Keepers, Sight, refusal};
use crate::cycle::nodes::{NodeId, Nodes};
use crate::cycle::view::{Scene, Views};
use crate::cycle::world::Member;
use crate::resources::Resources;
use crate::runtime::flags::Placement as Policy;

use super::rules::{Rule, holds};
use super::{Claim, MOST_PLACINGS};

/// Each member with its node.
pub(super) type Places = Vec<(Uid, Arc<str>)>;

/// The cluster as it would be.
pub(super) struct Stage<'w> {
    trial: Trial<'w>,
    nodes: &'w mut Nodes,
    keepers: &'w mut Keepers,
    classes: &'w Classes,
    views: &'w mut Views,
    pods: &'w ByKey<Uid, Member>,
    policy: Policy,
    last: BTreeSet<NodeId>,
    /// Who is not there, and whom it keeps away when it is.
    aside: BTreeMap<Uid, Option<Keeper>>,
    /// How many members may still be placed.
    left: u32,
    /// Who was placed in the last try before one was not.
    before: Places,
}

impl<'w> Stage<'w> {
    #[allow(clippy::too_many_arguments, reason = "the parts of the world that are borrowed, each by itself")]
    pub(super) fn new(
        books: &'w mut Accounting,
        nodes: &'w mut Nodes,
        keepers: &'w mut Keepers,
        classes: &'w Classes,
        views: &'w mut Views,
        pods: &'w ByKey<Uid, Member>,
        policy: Policy,
        last: &BTreeSet<Arc<str>>,
    ) -> Self {
        let last = last.iter().filter_map(|name| nodes.id(name)).collect();
        Self {
            trial: books.trial(),
            nodes,
            keepers,
            classes,
            views,
            pods,
            policy,
            last,
            aside: BTreeMap::new(),
            left: MOST_PLACINGS,
            before: Places::new(),
        }
    }

    pub(super) fn books(&self) -> &Accounting {
        self.trial.books()
    }

    /// Who was placed in the last try before one was not.
    pub(super) fn placed_before(&self) -> Places {
        self.before.clone()
    }

    /// Whether the node could take such a pod if it were empty of all who may go: taints, labels and whatever else does not depend on who is there.
    pub(super) fn could_take(&self, id: ClassId, node: &str) -> bool {
        let nothing = (Resources::new(), BTreeSet::new());
        let facts = self.nodes.id(node).and_then(|id| self.nodes.get(id));
        let books = self.books().ledger().node(node);
        let Some((class, facts, books)) = self.classes.get(id).zip(facts).zip(books).map(|((a, b), c)| (a, b, c)) else { return false };
        let asked = Asked { request: &nothing.0, constraints: &class.constraints, forbidden: &nothing.1 };
        refusal(&asked, &Sight { facts, books }).is_none()
    }

    /// One of our pods.
    pub(super) fn member(&self, uid: &Uid) -> Option<&'w Member> {
        self.pods.get(uid)
    }

    /// Whether the pod keeps others away.
    pub(super) fn keeps_away(&self, uid: &Uid) -> bool {
        self.keepers.contains(uid) || self.aside.get(uid).is_some_and(Option::is_some)
    }

    /// Whether the tries of this call are used up.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Takes back what a group has reserved, until the stage ends.
    pub(super) fn unreserve(&mut self, group: &str, queue: &str) {
        self.trial.reserve(group, queue, &Resources::new());
    }

    /// The pod is not there.
    pub(super) fn set_aside(&mut self, uid: &Uid) {
        let node = self.books().pod(uid).and_then(|pod| pod.node.map(Arc::<str>::from));
        if self.trial.set_aside(uid) {
            node.iter().for_each(|node| self.nodes.touch_name(node));
            let keeper = self.keepers.set_aside(uid);
            self.aside.insert(uid.clone(), keeper);
        }
    }

    /// The pod is there again.
    pub(super) fn put_back(&mut self, uid: &Uid) {
        if let Some(keeper) = self.aside.remove(uid) {
            self.restore(uid, keeper);
        }
    }

    fn restore(&mut self, uid: &Uid, keeper: Option<Keeper>) {
        self.trial.put_back(uid);
        let node = self.books().pod(uid).and_then(|pod| pod.node.map(Arc::<str>::from));
        node.iter().for_each(|node| self.nodes.touch_name(node));
        if let Some(keeper) = keeper {
            self.keepers.put_back(uid, keeper);
        }
    }

    /// Why the queue takes nothing, whoever goes (T1, T2, O2).
    pub(super) fn unhelpable(&self, queue: &str) -> Option<Refusal> {
        self.books().fits_queue(queue, &Resources::new()).err().map(Refusal::from)
    }

    /// Where all the members would be placed. They are not there any more when this returns.
    pub(super) fn place_all(&mut self, claim: &Claim<'_>) -> Result<Places, Refusal> {
        if !holds(Rule::R4) {
            return Ok(Places::new());
        }
        self.left = self.left.saturating_sub(u32::try_from(claim.members.len()).unwrap_or(u32::MAX).max(1));
        let start = self.trial.savepoint();
        let mut touched = Vec::new();
        let mut places = Places::new();
        let placed = self.place_each(claim, &mut touched, &mut places);
        self.trial.rollback_to(start);
        // The views saw the trial's charges; they must see that those are gone.
        touched.into_iter().for_each(|node| self.nodes.touch(node));
        match placed {
            Ok(()) => Ok(places),
            Err(refusal) => {
                self.before = places;
                Err(refusal)
            }
        }
    }

    fn place_each(&mut self, claim: &Claim<'_>, touched: &mut Vec<NodeId>, places: &mut Places) -> Result<(), Refusal> {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        for uid in claim.members {
            let there = count(places.len());
            let member = self.pods.get(uid);
            let class = member.and_then(|member| Some((member, member.class?)));
            let Some((member, id, class)) = class.and_then(|(member, id)| Some((member, id, Arc::clone(self.classes.get(id)?)))) else {
                return Err(Refusal::NotEnoughTasks { wanted: count(claim.members.len()), there, gated: 0 });
            };
            let labels = || Audience { namespace: Arc::clone(&member.facts.namespace), labels: member.facts.labels.clone() };
            let audience = (!self.keepers.is_empty()).then(labels);
            let scene = Scene { nodes: self.nodes, ledger: self.trial.books().ledger(), keepers: self.keepers, placement: self.policy };
            let mut look = self.views.look(id, &class, self.classes.users_of(id), audience, scene);
            let Some((node, facts)) = look.best(&self.last).and_then(|node| Some((node, Arc::clone(self.nodes.get(node)?)))) else {
                return Err(Refusal::Nodes { needed: count(claim.members.len()), placed: there, tally: look.tally() });
            };
            if !claim.preemptable || !member.facts.preemptable {
                self.trial.books().quota().within_entitlement(claim.queue, &class.request)?;
            }
            match self.trial.place(uid, &facts.name, claim.queue, &class.request) {
                Ok(()) => {}
                // Without R5 a ceiling is none.
                Err(crate::accounting::Refusal::Queue(crate::accounting::QueueRefusal::Ceiling(wall)))
                    if !holds(Rule::R5) && wall.unused_guarantee.is_zero() => {}
                Err(refusal) => return Err(admit::refusal(refusal)),
            }
            self.nodes.touch(node);
            touched.push(node);
            places.push((uid.clone(), Arc::clone(&facts.name)));
        }
        Ok(())
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        while let Some((uid, keeper)) = self.aside.pop_first() {
            self.restore(&uid, keeper);
        }
    }
}
