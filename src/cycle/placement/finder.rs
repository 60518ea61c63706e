//! Finds the best node for a pod, or the reasons why no node takes it.
//!
//! The [node table](super::node_table) reads every node. Between two pods of one class only a few nodes change. So for a class with several waiting
//! pods the best nodes are stored: a *shortlist*. It is updated from the log of changed nodes. When it is used up, the table makes a new one.
//!
//! A node that is not on the shortlist, and has not changed since, is no better than its `bound`. So the first node of the list is the
//! best one. The shortlist changes no result: without it the answers are the same.
//!
//! A pod with preferences is [weighed](super::weigh) on every node that fits. For replicas that are only spread by default, which is nearly
//! every pod of a service, the best [`WINDOW`] nodes are looked at: of these, the one with the fewest pods of the same controller on it,
//! and then in its zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;
use crate::api::images::PodImages;
use crate::cycle::explain::{Count, Reason, Tally};

use super::class::{Class, ClassId};
use super::filter::{Query, refusal};
use super::images::{ImagePoints, KnownPoints};
use super::node_set::NodeSet;
use super::node_table::NodeTable;
use super::nodes::{NodeId, Nodes};
use super::preferred_nodes::PreferredNodes;
use super::score::{Score, figures, score};
use super::snapshot::Snapshot;
use super::topology::class_terms::ClassTerms;
use super::topology::counting::CountingNodes;
use super::topology::domains::{Domains, KeyDomains};
use super::topology::on_nodes::OnNodes;
use super::topology::verdict::{Counting, Facts, Verdict};
use super::weigh::{self, Candidate, Weighed, ZONE, in_zones};

/// The most nodes on a new shortlist. A class with fewer waiting pods has a shorter one.
const LONGEST: usize = 64;

/// The number of best nodes among which a replica that is spread by default chooses.
const WINDOW: usize = 32;

/// The most shortlists, about 4 KB each. When there would be more, all are dropped.
pub(super) const MOST_LISTS: usize = 4_096;

/// The most changed nodes by which a shortlist is updated. With more, a new list from the table is faster.
const MOST_CHANGES: usize = 512;

/// Finds nodes for pods.
#[derive(Debug, Default)]
pub struct NodeFinder {
    table: NodeTable,
    lists: BTreeMap<Key, Shortlist>,
    domains: Domains,
    counting: CountingNodes,
    preferred: PreferredNodes,
    images: KnownPoints,
}

/// Pods of one class get the same answers, unless nodes are labelled for other queues than their own, or nodes have different points for
/// their images.
type Key = (ClassId, BTreeSet<String>, Option<Arc<PodImages>>);

/// The best nodes for a class.
#[derive(Debug, Default)]
struct Shortlist {
    /// The position in the log of changed nodes up to which the list is current; none before the first answer.
    mark: Option<u64>,
    /// The version of the wanted kinds of devices then.
    devices: u64,
    /// The points for images by which it was made.
    images: Option<Arc<ImagePoints>>,
    /// The best nodes, the best first.
    best: Vec<(Score, NodeId)>,
    /// No node that is not on the list has a better score; none where every node that fits is on the list.
    bound: Option<Score>,
    /// Why no node fits; none if that has not been computed.
    tally: Option<Arc<Tally>>,
}

/// A request for a node for one pod.
#[derive(Clone, Debug)]
pub struct Asks<'a> {
    /// The number of its class.
    pub id: ClassId,
    /// Its class.
    pub class: &'a Class,
    /// How many pods of the class wait.
    pub users: usize,
    /// The controller of the pod, if its pods are spread over nodes and zones by default.
    pub replica_of: Option<&'a Uid>,
    /// The images that the pod needs; none where it names none.
    pub images: Option<&'a Arc<PodImages>>,
    /// The set of nodes to which the pod is restricted; none where any will do.
    pub within: Option<&'a NodeSet>,
}

impl NodeFinder {
    /// Returns the best node for the pod; one of `last` only where no other fits.
    ///
    /// # Errors
    ///
    /// No node takes it: how many nodes refuse, and why.
    pub fn best(&mut self, asks: Asks<'_>, last: &BTreeSet<NodeId>, snapshot: Snapshot<'_>) -> Result<NodeId, Arc<Tally>> {
        let Asks { id, class, users, replica_of, images, within } = asks;
        let points = images.and_then(|images| self.images.of(images, snapshot.nodes));
        let siblings = replica_of.and_then(|controller| snapshot.placed.replicas_of(controller));
        if !class.terms.is_empty() || class.terms.preferences.is_some() {
            // A placement may open or close whole domains, so no list of the best nodes lasts.
            let counting = self.counting.of(id, class, snapshot.nodes);
            let verdict = self.verdict(&class.terms, &counting, snapshot).within(within);
            if class.terms.preferences.is_none() && siblings.is_none() {
                return Shortlist::by(points).answer(&mut self.table, (class, &verdict), 1, last, snapshot);
            }
            let query = Query { images: points.as_deref(), ..Query::of(class, &verdict, snapshot) };
            let preferred = self.preferred.of(id, class, snapshot.nodes);
            return self.weigh(Weighed { class, counting: &counting, preferred: &preferred, siblings }, &query, last, snapshot);
        }
        let replicas = siblings.map(|on_nodes| {
            let zones = self.domains.of(&Arc::from(ZONE), snapshot.nodes);
            Replicas { on_nodes, in_zones: in_zones(on_nodes, &zones), zones }
        });
        let verdict = Verdict::default().within(within);
        let most = if replicas.is_some() { LONGEST } else { users.min(LONGEST) };
        // What is found in a set of nodes is of no use for pods that may go elsewhere.
        if users < 2 || within.is_some() {
            let most = if replicas.is_some() { WINDOW } else { 1 };
            return Shortlist::by(points).answer_for(replicas.as_ref(), &mut self.table, (class, &verdict), most, last, snapshot);
        }
        if self.lists.len() >= MOST_LISTS {
            self.lists.clear();
        }
        let key = (id, snapshot.barred.clone(), images.filter(|_| points.is_some()).cloned());
        let list = self.lists.entry(key).or_default();
        list.use_points(points);
        list.answer_for(replicas.as_ref(), &mut self.table, (class, &verdict), most, last, snapshot)
    }

    /// Returns the best node for a pod with preferences.
    fn weigh(
        &mut self,
        pod: Weighed<'_>,
        query: &Query<'_>,
        last: &BTreeSet<NodeId>,
        snapshot: Snapshot<'_>,
    ) -> Result<NodeId, Arc<Tally>> {
        let mut candidates = fitting(&mut self.table, query, last, snapshot);
        if candidates.is_empty() && !last.is_empty() {
            candidates = fitting(&mut self.table, query, &BTreeSet::new(), snapshot);
        }
        let facts = Facts { nodes: snapshot.nodes, placed: snapshot.placed, domains: &mut self.domains };
        weigh::best(&candidates, pod, facts).ok_or_else(|| Arc::new(tally(&mut self.table, query, snapshot)))
    }

    /// Returns how many nodes of the set, if there is one, take one pod of the class.
    pub fn takers(&mut self, id: ClassId, class: &Class, within: Option<&NodeSet>, snapshot: Snapshot<'_>) -> usize {
        let counting = self.counting.of(id, class, snapshot.nodes);
        let verdict = self.verdict(&class.terms, &counting, snapshot).within(within);
        let query = Query::of(class, &verdict, snapshot);
        if self.table.prepare(&class.request, snapshot) {
            return self.table.takers(&query, snapshot);
        }
        let takes = |id: &NodeId| snapshot.node(*id).is_some_and(|node| refusal(&query, &node).is_none());
        snapshot.nodes.ids().filter(takes).count()
    }

    /// Works out which nodes refuse pods with these terms for the sake of other pods.
    pub(super) fn verdict(&mut self, terms: &ClassTerms, counting: &Counting, snapshot: Snapshot<'_>) -> Verdict {
        Verdict::of(terms, counting, Facts { nodes: snapshot.nodes, placed: snapshot.placed, domains: &mut self.domains })
    }

    /// Returns the domains of a topology key.
    pub(super) fn domains(&mut self, key: &Arc<str>, nodes: &Nodes) -> Arc<KeyDomains> {
        self.domains.of(key, nodes)
    }

    /// Returns the nodes that count for each spread constraint of the class.
    pub(super) fn counting(&mut self, id: ClassId, class: &Class, nodes: &Nodes) -> Arc<Counting> {
        self.counting.of(id, class, nodes)
    }

    #[cfg(test)]
    pub(super) fn lists(&self) -> usize {
        self.lists.len()
    }
}

/// The pods of a controller that are spread by default.
struct Replicas<'a> {
    on_nodes: &'a OnNodes,
    zones: Arc<KeyDomains>,
    in_zones: Vec<i64>,
}

impl Replicas<'_> {
    /// Returns the best of these nodes, the best first, for one pod more; none where there is none.
    fn best<'n>(&self, nodes: impl Iterator<Item = &'n (Score, NodeId)>) -> Option<NodeId> {
        let pods = |(score, node): &&(Score, NodeId)| {
            let in_zone = self.zones.get(*node).and_then(|zone| self.in_zones.get(zone)).copied().unwrap_or(0);
            (score.wasted(), self.on_nodes.get(*node).staying(), in_zone)
        };
        // Of equal ones the first.
        nodes.min_by_key(pods).map(|(_, node)| *node)
    }
}

impl Shortlist {
    /// Returns an empty list for pods for whose images the nodes have these points.
    fn by(images: Option<Arc<ImagePoints>>) -> Self {
        Self { images, ..Self::default() }
    }

    /// Drops the list if the nodes have other points for images now.
    fn use_points(&mut self, images: Option<Arc<ImagePoints>>) {
        if self.images == images {
            self.images = images;
        } else {
            *self = Self::by(images);
        }
    }

    /// Does the same as [`answer`](Self::answer), for one of these replicas if there are any. `most` is at least [`WINDOW`] then.
    fn answer_for(
        &mut self,
        replicas: Option<&Replicas<'_>>,
        table: &mut NodeTable,
        asked: (&Class, &Verdict),
        most: usize,
        last: &BTreeSet<NodeId>,
        snapshot: Snapshot<'_>,
    ) -> Result<NodeId, Arc<Tally>> {
        let Some(replicas) = replicas else { return self.answer(table, asked, most, last, snapshot) };
        if self.best.len() < WINDOW && self.bound.is_some() {
            self.mark = None;
        }
        let first = self.answer(table, asked, most, last, snapshot)?;
        if self.best.len() < WINDOW && self.bound.is_some() {
            // Changed nodes have left the list too short.
            self.mark = None;
            self.answer(table, asked, most, last, snapshot)?;
        }
        let window = || self.best.iter().take(WINDOW);
        Ok(replicas.best(window().filter(|(_, node)| !last.contains(node))).unwrap_or(first))
    }

    fn answer(
        &mut self,
        table: &mut NodeTable,
        (class, verdict): (&Class, &Verdict),
        most: usize,
        last: &BTreeSet<NodeId>,
        snapshot: Snapshot<'_>,
    ) -> Result<NodeId, Arc<Tally>> {
        let images = self.images.clone();
        let query = Query { images: images.as_deref(), ..Query::of(class, verdict, snapshot) };
        let is_known = self.refresh(&query, snapshot);
        if !is_known {
            self.best = scan(table, &query, &BTreeSet::new(), most, snapshot);
            self.bound = self.best.last().filter(|_| self.best.len() >= most).map(|(score, _)| score.clone());
            (self.mark, self.tally) = (Some(snapshot.nodes.head()), None);
        }
        let Some((_, first)) = self.best.first() else {
            return Err(Arc::clone(self.tally.get_or_insert_with(|| Arc::new(tally(table, &query, snapshot)))));
        };
        if !last.contains(first) {
            return Ok(*first);
        }
        let other = scan(table, &query, last, 1, snapshot);
        Ok(other.first().map_or(*first, |(_, id)| *id))
    }

    /// Updates the list by the nodes that changed since the last answer. Returns whether the list has the answer.
    fn refresh(&mut self, query: &Query<'_>, snapshot: Snapshot<'_>) -> bool {
        let devices = snapshot.placed.devices_version();
        if std::mem::replace(&mut self.devices, devices) != devices {
            return false;
        }
        let changed = self.mark.and_then(|mark| snapshot.nodes.since(mark)).filter(|changed| changed.len() <= MOST_CHANGES);
        let Some(changed) = changed else { return false };
        self.tally = self.tally.take().filter(|_| changed.is_empty());
        for id in changed {
            // Most often the node that was just taken, which is the first.
            if let Some(at) = self.best.iter().position(|(_, listed)| listed == id) {
                self.best.remove(at);
            }
            let Some(node) = snapshot.node(*id).filter(|node| refusal(query, node).is_none()) else { continue };
            let score = score(query, &node, snapshot);
            if self.bound.as_ref().is_none_or(|bound| score <= *bound) {
                let at = self.best.partition_point(|(listed, _)| *listed < score);
                self.best.insert(at, (score, *id));
            }
        }
        if self.best.len() > LONGEST.saturating_mul(2) {
            self.best.truncate(LONGEST);
            self.bound = self.best.last().map(|(score, _)| score.clone());
        }
        self.mark = Some(snapshot.nodes.head());
        !self.best.is_empty() || self.bound.is_none()
    }
}

/// Returns at most `most` best nodes that are not in `not`, the best first.
fn scan(table: &mut NodeTable, query: &Query<'_>, not: &BTreeSet<NodeId>, most: usize, snapshot: Snapshot<'_>) -> Vec<(Score, NodeId)> {
    if table.prepare(query.request, snapshot) { table.scan(query, not, most, snapshot) } else { each_node(query, not, most, snapshot) }
}

/// Returns every node that takes the pod and is not in `not`, in the order of equal nodes.
fn fitting(table: &mut NodeTable, query: &Query<'_>, not: &BTreeSet<NodeId>, snapshot: Snapshot<'_>) -> Vec<Candidate> {
    if table.prepare(query.request, snapshot) { table.fitting(query, not, snapshot) } else { fitting_of_each(query, not, snapshot) }
}

/// Does the same as [`fitting`] with every predicate of every node.
pub(super) fn fitting_of_each(query: &Query<'_>, not: &BTreeSet<NodeId>, snapshot: Snapshot<'_>) -> Vec<Candidate> {
    let mut all = each_node(query, not, usize::MAX, snapshot);
    all.sort_by(|(one, _), (other, _)| one.order().cmp(&other.order()));
    let candidate = |(_, id): (Score, NodeId)| Some(Candidate { figures: figures(query, &snapshot.node(id)?, snapshot), id });
    all.into_iter().filter_map(candidate).collect()
}

/// Returns how many nodes refuse, and why.
fn tally(table: &mut NodeTable, query: &Query<'_>, snapshot: Snapshot<'_>) -> Tally {
    if table.prepare(query.request, snapshot) { table.tally(query, snapshot) } else { tally_of_each(query, snapshot) }
}

/// Does the same as [`scan`] with every predicate and the score of every node. It is slow, and used for requests that the table cannot answer.
pub(super) fn each_node(query: &Query<'_>, not: &BTreeSet<NodeId>, most: usize, snapshot: Snapshot<'_>) -> Vec<(Score, NodeId)> {
    let fits = |id: NodeId| {
        let node = snapshot.node(id).filter(|node| !not.contains(&id) && refusal(query, node).is_none())?;
        Some((score(query, &node, snapshot), id))
    };
    let mut best: Vec<_> = snapshot.nodes.ids().filter_map(fits).collect();
    best.sort();
    best.truncate(most);
    best
}

/// Does the same as [`tally`] with every predicate of every node.
pub(super) fn tally_of_each(query: &Query<'_>, snapshot: Snapshot<'_>) -> Tally {
    let mut tally = Tally::default();
    for node in snapshot.nodes.ids().filter_map(|id| snapshot.node(id)) {
        tally.nodes = tally.nodes.saturating_add(1);
        let Some(no) = refusal(query, &node) else { continue };
        let mut count = |reason: Reason, asked, free| {
            let count = tally.reasons.entry(reason).or_insert(Count { asked, ..Count::default() });
            count.nodes = count.nodes.saturating_add(1);
            count.most_free = count.most_free.max(free);
        };
        if matches!(no.reason, Reason::Lacks(_)) {
            // A node is counted under every resource that it lacks, as in kube-scheduler.
            let shortages = node.accounting.shortages(query.request);
            shortages.for_each(|short| count(Reason::Lacks(short.name), short.asked, short.idle));
        } else {
            count(no.reason, no.asked, no.free);
        }
    }
    tally
}

#[cfg(test)]
#[path = "finder_tests.rs"]
mod tests;
