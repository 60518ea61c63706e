//! Which topology domains have room for pods that require each other beside them?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cycle::explain::Reason;
use crate::cycle::placement::capacity::{Room, pods_now};
use crate::cycle::placement::class::ClassId;
use crate::cycle::placement::filter::{Query, refusal};
use crate::cycle::placement::node_set::NodeSet;
use crate::cycle::placement::nodes::NodeId;
use crate::cycle::placement::placer::Placer;
use crate::cycle::placement::topology::domains::KeyDomains;

/// The most topology domains in which a gang is tried.
const MOST: usize = 16;

/// Returns the domains of the class's affinity with room for `wanted` pods of it, those with the least room first. Empty where a pod of the
/// class may not be the first one in a domain.
pub(super) fn with_room(placer: &mut Placer<'_>, id: ClassId, wanted: usize) -> Vec<NodeSet> {
    let Some(class) = placer.classes.get(id) else { return Vec::new() };
    let Some(affinity) = class.terms.affinity.as_ref().filter(|affinity| affinity.matches_itself) else { return Vec::new() };
    let (finder, snapshot) = (&mut *placer.finder, placer.trial.snapshot(placer.strategy, &placer.barred));
    let counting = finder.counting(id, class, snapshot.nodes);
    let verdict = finder.verdict(&class.terms, &counting, snapshot);
    let query = Query::of(class, &verdict, snapshot);
    let mut domains = |key: &Arc<str>| finder.domains(key, snapshot.nodes);
    let together: Vec<Arc<KeyDomains>> = affinity.topology_keys.iter().map(&mut domains).collect();
    let apart: Vec<Arc<KeyDomains>> = class.terms.apart().map(domains).collect();
    // Pods that must be together are in one domain of each of their keys.
    let of = |id: NodeId| together.iter().map(|domains| domains.get(id)).collect::<Option<Vec<usize>>>();
    let mut rooms: BTreeMap<Vec<usize>, Room> = BTreeMap::new();
    for id in snapshot.nodes.ids() {
        let Some(node) = snapshot.node(id).filter(|node| refusal(&query, node).is_none()) else { continue };
        let pods = pods_now(&class.request, node.accounting);
        let pods = if class.terms.host_ports.is_empty() { pods } else { pods.min(1) };
        if let Some(domain) = of(id) {
            rooms.entry(domain).or_insert_with(|| Room::new(apart.len())).add(pods, apart.iter().map(|domains| domains.get(id)));
        }
    }
    let mut enough: Vec<(usize, Vec<usize>)> = rooms.into_iter().map(|(domain, room)| (room.pods(), domain)).collect();
    enough.retain(|(room, _)| *room >= wanted);
    enough.sort_unstable();
    let topology_key = affinity.topology_keys.iter().map(|key| &**key).collect::<Vec<_>>().join(", ");
    let outside = Reason::PodAffinity { topology_key };
    let nodes = |domain| snapshot.nodes.ids().filter(move |id| of(*id).as_ref() == Some(domain));
    enough.iter().take(MOST).map(|(_, domain)| NodeSet::new(outside.clone(), nodes(domain))).collect()
}
