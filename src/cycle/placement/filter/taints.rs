//! The predicate for taints: the pod must tolerate every taint of the node that keeps pods away.

use crate::api::NodeFacts;
use crate::api::node::Taint;
use crate::api::pod::Toleration;
use crate::api::pod_facts::Constraints;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct Taints;

impl Predicate for Taints {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        untolerated(query.constraints, node.facts).map(|taint| Reason::Taint(taint.clone()).into())
    }

    fn concerns_node(&self, node: &NodeFacts) -> bool {
        !node.taints.is_empty()
    }
}

/// Returns the first taint that the pod does not tolerate; none where it tolerates all.
pub(super) fn untolerated<'a>(constraints: &Constraints, node: &'a NodeFacts) -> Option<&'a Taint> {
    node.taints.iter().find(|taint| !tolerated(&constraints.tolerations, taint))
}

/// Returns how many of the taints that keep pods away where they have a choice (`PreferNoSchedule`) the pod does not tolerate.
pub(in crate::cycle::placement) fn avoided(constraints: &Constraints, node: &NodeFacts) -> u32 {
    let untolerated = node.soft_taints.iter().filter(|taint| !tolerated(&constraints.tolerations, taint)).count();
    u32::try_from(untolerated).unwrap_or(u32::MAX)
}

/// Whether one of the tolerations matches the taint.
pub(super) fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        // Without a key only Exists matches anything.
        "" | "Equal" => !key.is_empty() && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        // Lt and Gt compare numbers, behind a feature gate: not tolerated, so the pod waits instead of going where it must not.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration { key: some(key), operator: some(operator), value: some(value), effect: some(effect) }
    }

    #[test]
    fn a_taint_is_tolerated_as_kubernetes_says() {
        let taint = Taint { key: "k".into(), value: Some("v".into()), effect: "NoSchedule".into() };
        let table = [
            (toleration("k", "Equal", "v", "NoSchedule"), true),
            (toleration("k", "", "v", ""), true),
            (toleration("k", "Exists", "", ""), true),
            (toleration("", "Exists", "", ""), true),
            (toleration("", "Exists", "", "NoExecute"), false),
            (toleration("k", "Equal", "w", ""), false),
            (toleration("k", "", "", ""), false),
            (toleration("", "Equal", "v", ""), false),
            (toleration("other", "Exists", "", ""), false),
            (toleration("k", "Exists", "", "NoExecute"), false),
            (toleration("k", "Gt", "1", ""), false),
        ];
        for (toleration, want) in table {
            assert_eq!(tolerates(&toleration, &taint), want, "{toleration:?}");
        }
    }
}
