//! Finds the parked PodGroups that may succeed after a change.
//!
//! The one function from changes to PodGroups. It errs on one side only: it may wake a PodGroup that is refused again, and it leaves none
//! parked that the change makes room for. So of what other pods mean to a class, only the terms count by which a node refuses whatever pods
//! come; other members may satisfy its affinity and its spread.
//!
//! Preferences refuse no node, so a change of the pods that a member prefers, or that prefer it, wakes no PodGroup. Such a change, and room
//! that becomes less, only change in which order nodes are tried. By chance that may help a gang whose search for nodes is not complete
//! (docs/scheduling.md says which gangs these are). It is tried again after the next change in the table.
//!
//! | change | PodGroups that are tried |
//! |---|---|
//! | a node has more room, or takes other pods | those with a member that the node takes now, as many as there is room for |
//! | a pod came to a node | those with a member that counts it for its affinity or spread |
//! | a pod left its node | the same, and those with a member that it kept away |
//! | a label of a node changed | those with a member whose terms have its key, or whose spread counts the nodes that the member selects |
//! | a taint of a node, or the labels of a namespace changed | those with a member that other pods may keep from a node |
//! | a queue has more left | those that it, or a queue above it, refused, where that queue has room now for the resource that was refused |
//! | a node offers more | the same for `root`, as all queues have more together |
//! | any of these | of the PodGroups with members that differ: those with a member that a changed node takes, and all where a queue has more left or a node offers more |
//! | everything | all |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::{NodeView, QueueRefusal};
use crate::api::GroupKey;
use crate::cycle::cache::Cache;
use crate::cycle::placement::capacity::pods_now;
use crate::cycle::placement::class::{Class, ClassId};
use crate::cycle::placement::filter::{NodeState, Query, refusal};
use crate::cycle::placement::topology::counting::counting;
use crate::cycle::placement::topology::domains::Domains;
use crate::cycle::placement::topology::selection::SelectorId;
use crate::cycle::placement::topology::verdict::{Counting, Facts, Verdict};
use crate::resources::Resources;

use super::changes::{Changes, Sequence};
use super::parked::{Blocker, Line, LineKey, Parked};

/// The most comparisons of a class with a node in one cycle. Above it, PodGroups are tried without a comparison. It is reached only if
/// thousands of nodes change at once or thousands of classes wait.
const MOST_COMPARISONS: usize = 200_000;

/// Returns the parked PodGroups that the changes may help, and removes the changes that are answered by trying these.
///
/// Changes of nodes stay as long as they help any PodGroup: of a line only as many are tried at a time as there is room for, and the next
/// ones once these were placed.
pub(super) fn woken(changes: &mut Changes, parked: &Parked, cache: &Cache) -> BTreeSet<GroupKey> {
    let mut woken = BTreeSet::new();
    let tree = cache.accounting().quota().tree();
    let levels: BTreeSet<Arc<str>> = std::mem::take(&mut changes.queues).iter().flat_map(|queue| tree.way(queue)).collect();
    let mut minimums = Minimums::new();
    for level in &levels {
        let refused = parked.quota.get(level).into_iter().flatten();
        woken.extend(refused.filter(|key| quota_may_fit(parked, key, cache, &mut minimums)).cloned());
    }
    if !changes.has_places() {
        return woken;
    }
    let mut comparison = Comparison { changes, cache, left: MOST_COMPARISONS, newest: BTreeMap::new(), domains: Domains::default() };
    let mut helped = BTreeSet::new();
    for (at, line) in &parked.lines {
        comparison.wake_line(at, line, &mut helped);
    }
    for (key, refused) in &parked.members {
        let Some(Blocker::Members(classes)) = parked.blocker(key) else { continue };
        if classes.iter().any(|class| comparison.newest(*class) > Some(*refused)) {
            helped.insert(key.clone());
        }
    }
    if helped.is_empty() {
        changes.nodes_answered();
    }
    woken.extend(helped);
    woken
}

/// By queue and age: what other PodGroups have reserved and comes before its members beyond a minimum (A7).
type Minimums = BTreeMap<(Arc<str>, Timestamp), Resources>;

/// Whether the queue that refused the PodGroup has room now for what it refused. An upper bound: one dimension is compared.
fn quota_may_fit(parked: &Parked, key: &GroupKey, cache: &Cache, minimums: &mut Minimums) -> bool {
    let Some(Blocker::Quota(lacking)) = parked.blocker(key) else { return true };
    // Its own reservation is not in its way.
    let reserves = |key: &GroupKey| cache.groups().get(key).is_some_and(|group| group.admission.reservation.is_some());
    let Some((dimension, asked)) = lacking.asked.clone().filter(|_| !reserves(key)) else { return true };
    let (quota, asked) = (cache.accounting().quota(), Resources::new().with(dimension.as_str(), asked));
    if lacking.for_minimums {
        // Of the members that wait the oldest leaves room for the least.
        let oldest = cache.groups().get(key).and_then(|group| cache.oldest_waiting(group)).unwrap_or_default();
        let before = || cache.reserved_before(&lacking.queue, oldest);
        quota.leaves(&asked, minimums.entry((Arc::clone(&lacking.queue), oldest)).or_insert_with(before)).is_ok()
    } else {
        // If another queue on the way refuses it now, it is tried, and parked under that one: room there wakes nothing that is parked here.
        match quota.fits(&lacking.queue, &asked) {
            Err(QueueRefusal::Ceiling(ceiling)) if ceiling.queue == lacking.level => {
                // Reservations of PodGroups that come later give way (A4).
                ceiling.fits_without_reservations() && {
                    let group = cache.groups().get(key).and_then(|group| Some((group, group.facts.as_ref()?)));
                    let last = cache.last_giving_way(&lacking.queue);
                    group.is_some_and(|(group, facts)| last.is_some_and(|last| *last > cache.rank(group, facts)))
                }
            }
            _ => true,
        }
    }
}

/// Whether a spread constraint of the class counts only the nodes that its pods select, by labels of any key.
fn counts_selected_nodes(class: &Class) -> bool {
    let selects = !class.constraints.node_selector.is_empty() || class.constraints.node_affinity.is_some();
    selects && class.terms.spread.iter().any(|spread| spread.constraint.honors_node_affinity)
}

/// Compares classes with the nodes that changed, each class once.
struct Comparison<'a> {
    changes: &'a Changes,
    cache: &'a Cache,
    /// How many comparisons are left.
    left: usize,
    /// By class: the newest change that may help it; none where no change does.
    newest: BTreeMap<ClassId, Option<Sequence>>,
    domains: Domains,
}

impl<'a> Comparison<'a> {
    /// Adds the first PodGroups of a line, as many as could be placed now.
    fn wake_line(&mut self, at: &LineKey, line: &Line, helped: &mut BTreeSet<GroupKey>) {
        if self.newest(at.class) <= Some(line.refused) {
            return;
        }
        let (members, all) = (usize::try_from(at.members).unwrap_or(usize::MAX), line.ranks.len());
        // The first member is placed beside the pods that are there now.
        if !self.takes_first(at.class) {
            return;
        }
        let room = self.room(at.class, all.saturating_mul(members)).checked_div(members).unwrap_or(all);
        helped.extend(line.ranks.iter().take(room).map(|rank| rank.key.clone()));
    }

    /// Returns the number of the newest change that may help pods of the class.
    fn newest(&mut self, class: ClassId) -> Option<Sequence> {
        if let Some(newest) = self.newest.get(&class) {
            return *newest;
        }
        let of_nodes = self.changes.nodes.iter();
        let newest = match self.cache.classes().get(class) {
            Some(known) if self.spend(self.changes.nodes.len()) => {
                let verdict = self.lasting_verdict(known);
                of_nodes
                    .filter(|(name, _)| self.named(name).is_some_and(|node| self.pods_on(known, &verdict, &node) > 0))
                    .map(|(_, at)| *at)
                    .max()
            }
            _ => of_nodes.map(|(_, at)| *at).max(),
        };
        let newest = newest.max(self.newest_of_pods(class));
        self.newest.insert(class, newest);
        newest
    }

    /// Returns the number of the newest change of other pods or of the topology domains that may help pods of the class.
    fn newest_of_pods(&self, class: ClassId) -> Option<Sequence> {
        let Changes { came, left, labels, domains, .. } = self.changes;
        let of_labels = || labels.values().copied().max();
        let Some(class) = self.cache.classes().get(class) else {
            return came.values().chain(left.values()).copied().max().max(of_labels()).max(*domains);
        };
        if class.terms.is_empty() {
            return None;
        }
        let either = |selector: SelectorId| came.get(&selector).max(left.get(&selector)).copied();
        let counted = class.terms.counted().filter_map(either);
        let kept_away = class.terms.keeping_away().filter_map(|selector| left.get(&selector).copied());
        let of_keys = if counts_selected_nodes(class) {
            of_labels()
        } else {
            class.terms.topology_keys().filter_map(|key| labels.get(key).copied()).max()
        };
        counted.chain(kept_away).max().max(of_keys).max(*domains)
    }

    /// Returns how many pods of the class the nodes take now, other members of the same PodGroups left out of account; at most `wanted`.
    fn room(&mut self, class: ClassId, wanted: usize) -> usize {
        let Some(class) = self.cache.classes().get(class) else { return wanted };
        if !self.spend(self.cache.nodes().len()) {
            return wanted;
        }
        let verdict = self.lasting_verdict(class);
        let mut room = 0_usize;
        for node in self.cache.nodes().ids().filter_map(|id| self.cache.node(id)) {
            room = room.saturating_add(self.pods_on(class, &verdict, &node));
            if room >= wanted {
                return wanted;
            }
        }
        room
    }

    /// Returns whether a node takes one pod of the class now.
    fn takes_first(&mut self, class: ClassId) -> bool {
        let Some(class) = self.cache.classes().get(class).filter(|class| class.terms.counted().next().is_some()) else { return true };
        if self.is_unsure() || !self.spend(self.cache.nodes().len()) {
            return true;
        }
        let (nodes, on_nodes) = (self.cache.nodes(), self.cache.on_nodes());
        let verdict = Verdict::of(&class.terms, &counting(class, nodes), Facts { nodes, placed: on_nodes, domains: &mut self.domains });
        nodes.ids().filter_map(|id| self.cache.node(id)).any(|node| self.pods_on(class, &verdict, &node) > 0)
    }

    /// Works out which nodes refuse pods of the class whatever pods come; none where there are no comparisons left.
    fn lasting_verdict(&mut self, class: &Class) -> Verdict {
        let terms = class.terms.lasting();
        if terms.is_empty() || self.is_unsure() || !self.spend(self.cache.nodes().len()) {
            return Verdict::default();
        }
        let (nodes, on_nodes) = (self.cache.nodes(), self.cache.on_nodes());
        Verdict::of(&terms, &Counting::new(), Facts { nodes, placed: on_nodes, domains: &mut self.domains })
    }

    /// Whether what other pods mean to a class depends on the priority of its pods: those of a high priority ignore some nominated pods.
    fn is_unsure(&self) -> bool {
        !self.cache.nominated_by_others().is_empty()
    }

    /// Takes so many comparisons from what is left. Whether there were enough.
    const fn spend(&mut self, comparisons: usize) -> bool {
        let enough = self.left >= comparisons;
        self.left = self.left.saturating_sub(comparisons);
        enough
    }

    /// Returns how many more pods of the class fit on the node.
    fn pods_on(&self, class: &Class, verdict: &Verdict, node: &NodeState<'_>) -> usize {
        let query = Query { request: &class.request, constraints: &class.constraints, verdict, barred: &BTreeSet::new(), images: None };
        // A pod of a higher priority takes what other schedulers have nominated for theirs.
        let used = self.cache.nominated_by_others().on(&node.facts.name).map(|nominated| {
            let mut used = node.accounting.used.clone();
            used.sub(nominated);
            used
        });
        let node = NodeState { accounting: NodeView { used: used.as_ref().unwrap_or(node.accounting.used), ..node.accounting }, ..*node };
        if refusal(&query, &node).is_some() {
            return 0;
        }
        pods_now(&class.request, node.accounting).max(1)
    }

    fn named(&self, name: &str) -> Option<NodeState<'a>> {
        self.cache.node(self.cache.nodes().id(name)?)
    }
}
