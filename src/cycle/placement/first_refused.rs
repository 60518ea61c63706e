//! Which pod of an attempt is the first without a node, and for which reasons does each node refuse it?
//!
//! For a report about one PodGroup. A placement itself needs only the counts of a [`Tally`](crate::cycle::explain::Tally).

use std::sync::Arc;

use crate::api::Uid;
use crate::cycle::explain::Reason;

use super::filter::{NodeState, Query, refusal};
use super::placer::{Attempt, Placer, Pod};

/// The first pod of an attempt that no node takes.
#[derive(Debug)]
pub struct FirstRefused {
    /// The pod.
    pub pod: Uid,
    /// The nodes of the pods before it, one for each pod.
    pub placed: Vec<Arc<str>>,
    /// Every node, with the reasons why it refuses the pod: one reason, or one for each resource that the node lacks.
    pub nodes: Vec<(Arc<str>, Vec<Reason>)>,
}

impl Placer<'_> {
    /// Places the pods in their order until no node takes one of them. Returns that pod; none where there is none, or where the queue refuses a pod.
    pub fn first_refused(&mut self, attempt: &Attempt<'_>) -> Option<FirstRefused> {
        self.respect_nominations(attempt);
        let mut placed = Vec::new();
        for pod in attempt.pods {
            let before = u32::try_from(placed.len()).unwrap_or(u32::MAX);
            match self.place_one(attempt, pod, before) {
                Ok(node) => placed.push(node),
                Err(_) => return Some(FirstRefused { pod: pod.facts.uid.clone(), placed, nodes: self.reasons_of_nodes(pod)? }),
            }
        }
        None
    }

    /// Returns why each node refuses the pod; none where one takes it.
    fn reasons_of_nodes(&mut self, pod: &Pod<'_>) -> Option<Vec<(Arc<str>, Vec<Reason>)>> {
        let id = pod.class?;
        let class = self.classes.get(id)?;
        let snapshot = self.trial.snapshot(self.strategy, &self.barred);
        let counting = self.finder.counting(id, class, snapshot.nodes);
        let verdict = self.finder.verdict(&class.terms, &counting, snapshot);
        let query =
            Query { request: &class.request, constraints: &class.constraints, verdict: &verdict, barred: &self.barred, images: None };
        let of_node = |node: NodeState<'_>| Some((Arc::clone(&node.facts.name), reasons(&query, &node)?));
        snapshot.nodes.ids().filter_map(|id| snapshot.node(id)).map(of_node).collect()
    }
}

/// Returns why the node refuses; none where it does not.
fn reasons(query: &Query<'_>, node: &NodeState<'_>) -> Option<Vec<Reason>> {
    let no = refusal(query, node)?;
    Some(if matches!(no.reason, Reason::Lacks(_)) {
        node.accounting.shortages(query.request).map(|short| Reason::Lacks(short.name)).collect()
    } else {
        vec![no.reason]
    })
}
