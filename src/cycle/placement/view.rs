//! What does each node say to a class of pods, right now?
//!
//! A view holds the verdict of every node for one class, and the nodes that fit in the order of their scores. It is brought up to date from
//! the log of changed nodes, so a placement costs the one node that it touched, an undone trial costs the nodes that it had touched, and
//! nothing is filtered again because a cycle began. Only what reaches further than a node (anti-affinity) makes a view start over.
//!
//! A view pays where many pods share a class. For a few, and where there are too many classes to remember them all, the board answers, which looks at every
//! node anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::anti_affinity::PodLabels;
use super::class::{Class, ClassId, Classes};
use super::filter::{No, Query, refusal};
use super::node_table::NodeTable;
use super::nodes::NodeId;
use super::score::{Score, score};
use super::snapshot::Snapshot;
use crate::cycle::explain::{Count, Tally};

/// Up to so many pods that wait, the nodes are looked at for each of them, and no view is made.
const FEW: usize = 32;

/// So many verdicts are kept at most (about 100 bytes each), however many classes there are.
const MOST_VERDICTS: usize = 500_000;

/// A view that nobody has looked at for so many looks makes room for another.
const STALE: u64 = 10_000;

/// The views of the classes that many pods share, kept from cycle to cycle, and the board for the others.
#[derive(Debug)]
pub struct Views {
    views: BTreeMap<Key, View>,
    board: NodeTable,
    looks: u64,
    most_verdicts: usize,
}

/// Pods of one class see the same nodes, unless anti-affinity may tell them apart or nodes are labelled for other queues than their own.
type Key = (ClassId, Option<PodLabels>, BTreeSet<String>);

impl Default for Views {
    fn default() -> Self {
        Self { views: BTreeMap::new(), board: NodeTable::default(), looks: 0, most_verdicts: MOST_VERDICTS }
    }
}

/// What the nodes say to one class.
#[derive(Debug)]
pub enum Look<'a> {
    /// As it is remembered.
    View(&'a mut View),
    /// As it is found out now.
    NodeTable(Found<'a>),
}

/// A look at the board.
#[derive(Debug)]
pub struct Found<'a> {
    board: &'a mut NodeTable,
    class: &'a Class,
    forbidden: BTreeSet<(String, String)>,
    snapshot: Snapshot<'a>,
}

impl Found<'_> {
    const fn query(&self) -> Query<'_> {
        Query {
            request: &self.class.request,
            constraints: &self.class.constraints,
            forbidden: &self.forbidden,
            barred: self.snapshot.barred,
        }
    }
}

impl Look<'_> {
    /// The best node; one of `last` only where no other fits.
    pub fn best(&mut self, last: &BTreeSet<NodeId>) -> Option<NodeId> {
        match self {
            Self::View(view) => view.best(last),
            Self::NodeTable(found) => {
                let query = Query {
                    request: &found.class.request,
                    constraints: &found.class.constraints,
                    forbidden: &found.forbidden,
                    barred: found.snapshot.barred,
                };
                found.board.best(&query, last, found.snapshot)
            }
        }
    }

    /// How many nodes refuse, and why.
    pub fn tally(&mut self) -> Arc<Tally> {
        match self {
            Self::View(view) => view.tally(),
            Self::NodeTable(found) => found.board.tally(&found.query(), found.snapshot),
        }
    }
}

impl Views {
    /// What the nodes say to a class of which `users` pods wait. `labels` tells pods apart that anti-affinity could mean; none where nobody keeps anybody away.
    pub fn look<'a>(
        &'a mut self,
        id: ClassId,
        class: &'a Class,
        users: usize,
        labels: Option<PodLabels>,
        snapshot: Snapshot<'a>,
    ) -> Look<'a> {
        self.looks = self.looks.saturating_add(1);
        let forbidden = |labels: &Option<PodLabels>| {
            labels.as_ref().map(|labels| snapshot.anti_affinity.forbidden(labels, snapshot.nodes)).unwrap_or_default()
        };
        let key = (id, labels, snapshot.barred.clone());
        if !self.views.contains_key(&key) {
            let wanted = users > FEW && self.has_room(snapshot.nodes.len(), STALE);
            if !wanted && self.board.prepare(&class.request, snapshot) {
                let forbidden = forbidden(&key.1);
                return Look::NodeTable(Found { board: &mut self.board, class, forbidden, snapshot });
            }
            // What the board cannot answer must have a view, however short its life is.
            self.has_room(snapshot.nodes.len(), 0);
        }
        let labels = key.1.clone();
        let view = self.views.entry(key).or_insert_with(|| View::new(snapshot.anti_affinity.epoch(), forbidden(&labels)));
        if labels.is_some() && view.epoch != snapshot.anti_affinity.epoch() {
            *view = View::new(snapshot.anti_affinity.epoch(), forbidden(&labels));
        }
        view.looked = self.looks;
        view.refresh(class, snapshot);
        Look::View(view)
    }

    /// Whether there is room for one more view, once the oldest is gone if nobody looked at it in the last `stale` looks.
    fn has_room(&mut self, nodes: usize, stale: u64) -> bool {
        if self.views.len().saturating_add(1).saturating_mul(nodes) <= self.most_verdicts {
            return true;
        }
        let oldest = self.views.iter().min_by_key(|(_, view)| view.looked).map(|(key, view)| (key.clone(), view.looked));
        let Some((key, _)) = oldest.filter(|(_, looked)| self.looks.saturating_sub(*looked) > stale) else { return self.views.is_empty() };
        self.views.remove(&key);
        true
    }

    #[cfg(test)]
    pub(super) fn keeping(most_verdicts: usize) -> Self {
        Self { most_verdicts, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.views.len()
    }

    /// Forgets the views of classes that are gone.
    pub fn retain(&mut self, classes: &Classes) {
        self.views.retain(|(id, ..), _| classes.get(*id).is_some());
    }

    /// Forgets every view that tells pods apart: nobody keeps anybody away any more, or domains moved.
    pub fn forget_audiences(&mut self) {
        self.views.retain(|(_, labels, _), _| labels.is_none());
    }
}

/// The verdicts of all nodes for one class.
#[derive(Debug)]
pub struct View {
    epoch: u64,
    /// The number of the last look at it.
    looked: u64,
    forbidden: BTreeSet<(String, String)>,
    /// Where the log of the nodes stood; none before the first look.
    mark: Option<u64>,
    /// By node number.
    verdicts: Vec<Verdict>,
    /// The nodes that fit, best first. Invariant: exactly those whose verdict is `Fits`, with that score.
    fits: BTreeSet<(Score, NodeId)>,
    tally: Option<Arc<Tally>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// The number is free.
    Gone,
    Fits(Score),
    Refuses(No),
}

impl View {
    fn new(epoch: u64, forbidden: BTreeSet<(String, String)>) -> Self {
        Self { epoch, looked: 0, forbidden, mark: None, verdicts: Vec::new(), fits: BTreeSet::new(), tally: None }
    }

    fn refresh(&mut self, class: &Class, snapshot: Snapshot<'_>) {
        match self.mark.and_then(|mark| snapshot.nodes.since(mark)) {
            Some([]) => {}
            Some(changed) => {
                for id in changed {
                    self.judge(*id, class, snapshot);
                }
                self.tally = None;
            }
            None => {
                for id in snapshot.nodes.ids() {
                    self.judge(id, class, snapshot);
                }
                self.tally = None;
            }
        }
        self.mark = Some(snapshot.nodes.head());
    }

    fn judge(&mut self, id: NodeId, class: &Class, snapshot: Snapshot<'_>) {
        let verdict = self.verdict(id, class, snapshot);
        if self.verdicts.len() <= id.index() {
            self.verdicts.resize(id.index().saturating_add(1), Verdict::Gone);
        }
        let Some(slot) = self.verdicts.get_mut(id.index()) else { return };
        if *slot == verdict {
            return;
        }
        let old = std::mem::replace(slot, verdict.clone());
        if let Verdict::Fits(score) = old {
            self.fits.remove(&(score, id));
        }
        if let Verdict::Fits(score) = verdict {
            self.fits.insert((score, id));
        }
    }

    fn verdict(&self, id: NodeId, class: &Class, snapshot: Snapshot<'_>) -> Verdict {
        let Some(node) = snapshot.node(id) else { return Verdict::Gone };
        let query = Query { request: &class.request, constraints: &class.constraints, forbidden: &self.forbidden, barred: snapshot.barred };
        match refusal(&query, &node) {
            Some(no) => Verdict::Refuses(no),
            None => Verdict::Fits(score(snapshot.strategy, &class.request, node.books, &node.facts.name)),
        }
    }

    /// The best node; one of `last` only where no other fits.
    #[must_use]
    pub fn best(&self, last: &BTreeSet<NodeId>) -> Option<NodeId> {
        let mut in_order = self.fits.iter().map(|(_, id)| *id);
        in_order.find(|id| !last.contains(id)).or_else(|| self.fits.first().map(|(_, id)| *id))
    }

    /// How many nodes refuse, and why.
    pub fn tally(&mut self) -> Arc<Tally> {
        if let Some(tally) = &self.tally {
            return Arc::clone(tally);
        }
        let mut tally = Tally::default();
        for verdict in &self.verdicts {
            if *verdict != Verdict::Gone {
                tally.nodes = tally.nodes.saturating_add(1);
            }
            let Verdict::Refuses(no) = verdict else { continue };
            let count = tally.reasons.entry(no.reason.clone()).or_insert(Count { asked: no.asked, ..Count::default() });
            count.nodes = count.nodes.saturating_add(1);
            count.most_free = count.most_free.max(no.free);
        }
        let tally = Arc::new(tally);
        self.tally = Some(Arc::clone(&tally));
        tally
    }
}
