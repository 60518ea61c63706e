//! Where do the members of one group go?
//!
//! A gang is placed in one trial: all members that are needed, or nobody, and then the books are as before. A group that is satisfied
//! places one further member in a turn, so that a large Deployment does not take its queue's neighbours' turns.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Placement;
use crate::api::Uid;
use crate::resources::Resources;
use crate::rules::{Rule, holds};
use crate::runtime::flags::Placement as Policy;

use super::admit;
use super::class::ClassId;
use super::explain::Refusal;
use super::filter::Audience;
use super::nodes::NodeId;
use super::view::Scene;
use super::world::World;

/// What a turn tries.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    /// The queue that is charged.
    pub(super) queue: &'a str,
    /// The members, in order.
    pub(super) members: &'a [Uid],
    /// How many of them must find a place: all or none.
    pub(super) needed: u32,
    /// How many of the first of them must be among those, because their task needs them.
    pub(super) first: u32,
    /// Whether others may take these places again.
    pub(super) preemptable: bool,
    /// Nodes to take only where no other fits.
    pub(super) last: &'a BTreeSet<Arc<str>>,
    /// The name under which the group has something reserved in the queue, which is not in its own way (A4). It is gone once the group is placed.
    pub(super) holds: Option<&'a str>,
}

/// Places the needed number of members, or nobody.
///
/// # Errors
///
/// Why the first member that found no place did not.
pub(super) fn place(world: &mut World, policy: Policy, attempt: &Attempt<'_>) -> Result<Vec<Placement>, Refusal> {
    let last: BTreeSet<NodeId> = attempt.last.iter().filter_map(|name| world.nodes.id(name)).collect();
    let World { books, nodes, keepers, classes, views, pods, .. } = world;
    let mut trial = books.trial();
    if let Some(name) = attempt.holds.filter(|_| holds(Rule::A4Own)) {
        trial.reserve(name, attempt.queue, &Resources::new());
    }
    let mut touched = Vec::new();
    let mut refused: BTreeSet<ClassId> = BTreeSet::new();
    let mut why = None;
    let mut placed = 0_u32;
    for (index, uid) in attempt.members.iter().enumerate() {
        if placed >= attempt.needed {
            break;
        }
        let missed = 'member: {
            let Some(member) = pods.get(uid) else { break 'member None };
            let Some((id, class)) = member.class.and_then(|id| Some((id, Arc::clone(classes.get(id)?)))) else { break 'member None };
            let labels = || Audience { namespace: Arc::clone(&member.facts.namespace), labels: member.facts.labels.clone() };
            let audience = (!keepers.is_empty()).then(labels);
            // What one pod of a class could not have, the next cannot either, unless anti-affinity tells them apart.
            if audience.is_none() && refused.contains(&id) {
                break 'member None;
            }
            let scene = Scene { nodes, ledger: trial.books().ledger(), keepers, placement: policy };
            let mut look = views.look(id, &class, classes.users_of(id), audience, scene);
            let Some((node, facts)) = look.best(&last).and_then(|node| Some((node, Arc::clone(nodes.get(node)?)))) else {
                break 'member Some((id, Refusal::Nodes { needed: attempt.needed, placed, tally: look.tally() }));
            };
            let stays = !attempt.preemptable || !member.facts.preemptable;
            if stays && let Err(refusal) = trial.books().quota().within_entitlement(attempt.queue, &class.request) {
                // Its like may be preemptable, so this says nothing about the class.
                why.get_or_insert(refusal.into());
                break 'member None;
            }
            match trial.place(uid, &facts.name, attempt.queue, &class.request) {
                Ok(()) => {
                    nodes.touch(node);
                    touched.push(node);
                    placed = placed.saturating_add(1);
                    None
                }
                Err(refusal) => Some((id, admit::refusal(refusal))),
            }
        };
        if let Some((id, refusal)) = missed {
            refused.insert(id);
            why.get_or_insert(refusal);
        }
        // Those that a task needs come first, and none of them can be made up for by another.
        let counted = usize::try_from(placed).unwrap_or(usize::MAX);
        if u32::try_from(index).is_ok_and(|index| index < attempt.first) && counted <= index {
            break;
        }
    }
    if placed >= attempt.needed && placed > 0 {
        return Ok(trial.commit());
    }
    drop(trial);
    // The views saw the trial's charges; they must see that those are gone.
    for node in touched {
        nodes.touch(node);
    }
    let unplaced = || Refusal::NotEnoughTasks { wanted: attempt.needed, there: placed, gated: 0 };
    Err(why.unwrap_or_else(unplaced))
}
