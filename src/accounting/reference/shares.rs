//! The share and the entitlement of a queue, and whether it is over its share (S1–S2).

use super::admission::wanted;
use super::cluster::{Amounts, Cluster, amount, asked_in};
use super::limits::{all, floor, in_order};
use super::tree::{children, is_below_root, own, parent, spec, taken, used, walk};

/// An unlimited demand; two of them still add up.
const UNLIMITED: i128 = i128::MAX / 1_000_000;

/// The demands of the leaves: the real ones (S2), or unlimited ones (S3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Demands {
    Real,
    Unlimited,
}

/// S1.
pub(super) fn demand(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    demand_if(cluster, queue, dimension, Demands::Real)
}

fn demand_if(cluster: &Cluster, queue: &str, dimension: &str, demands: Demands) -> i128 {
    let children = children(cluster, queue);
    let waiting = cluster.groups.iter().filter(|(_, group)| group.queue == queue);
    let demand = if !children.is_empty() {
        let below: i128 = children.iter().map(|child| demand_if(cluster, child, dimension, demands)).sum();
        own(cluster, queue, dimension) + below
    } else if demands == Demands::Unlimited {
        UNLIMITED
    } else {
        taken(cluster, queue, dimension) + waiting.map(|(name, _)| amount(&wanted(cluster, name), dimension)).sum::<i128>()
    };
    spec(cluster, queue).capability.get(dimension).map_or(demand, |capability| demand.min(*capability))
}

/// S2: returns the share; 0 for a queue that is not below `root`.
pub(super) fn share(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    share_if(cluster, queue, dimension, Demands::Real)
}

/// S3: returns the entitlement: the share if every queue wanted everything.
pub(super) fn right(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    share_if(cluster, queue, dimension, Demands::Unlimited)
}

fn share_if(cluster: &Cluster, queue: &str, dimension: &str, demands: Demands) -> i128 {
    if queue == "root" {
        return all(cluster, dimension);
    }
    let Some(parent) = parent(cluster, queue).filter(|_| is_below_root(cluster, queue)) else {
        return 0;
    };
    let siblings = in_order(cluster, parent);
    let mut parts: Vec<Part> = siblings
        .iter()
        .map(|name| {
            let spec = spec(cluster, name);
            let floor = floor(cluster, name, dimension);
            let deserved = spec.deserved.get(dimension).map(|deserved| {
                let capability = spec.capability.get(dimension).copied();
                capability.map_or(*deserved, |capability| capability.min(*deserved))
            });
            let target = deserved.unwrap_or_else(|| demand_if(cluster, name, dimension, demands)).max(floor);
            Part { gets: floor, target, weight: spec.weight.max(1), deserves: deserved.is_some() }
        })
        .collect();
    let mut left = share_if(cluster, parent, dimension, demands) - parts.iter().map(|part| part.gets).sum::<i128>();
    for deserving in [true, false] {
        let mut raised: Vec<&mut Part> = parts.iter_mut().filter(|part| part.deserves == deserving).collect();
        left = pour(&mut raised, left);
    }
    siblings.iter().zip(&parts).find(|(name, _)| **name == queue).map_or(0, |(_, part)| part.gets)
}

/// The part of its parent's share that one child gets.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) gets: i128,
    pub(super) target: i128,
    pub(super) weight: i128,
    pub(super) deserves: bool,
}

/// Water-filling by weight: raises the parts, which come in the order of priority and name, towards their targets. Returns
/// the amount that no part takes. Every round but the last brings a part to its target, so there are no more rounds than parts.
pub(super) fn pour(parts: &mut [&mut Part], mut left: i128) -> i128 {
    loop {
        let mut below: Vec<&mut &mut Part> = parts.iter_mut().filter(|part| part.gets < part.target).collect();
        let weights: i128 = below.iter().map(|part| part.weight).sum();
        if below.is_empty() || left == 0 {
            return left;
        }
        let divided = left;
        let mut one_is_full = false;
        for part in &mut below {
            let gets = (divided * part.weight / weights).min(part.target - part.gets);
            part.gets += gets;
            left -= gets;
            one_is_full |= part.gets == part.target;
        }
        if !one_is_full {
            // Rounding leaves less than one unit for each part.
            for part in below.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                part.gets += 1;
                left -= 1;
            }
            return left;
        }
    }
}

/// S3: whether a PodGroup that is not preemptable may be placed there.
pub(super) fn is_within_entitlement(cluster: &Cluster, queue: &str, asked: &Amounts) -> bool {
    walk(cluster, queue)
        .iter()
        .all(|above| asked_in(asked).all(|(dimension, asked)| used(cluster, above, dimension) + asked <= right(cluster, above, dimension)))
}

/// S2.
pub(super) fn is_over_share(cluster: &Cluster, queue: &str, dimension: &str) -> bool {
    used(cluster, queue, dimension) > share(cluster, queue, dimension)
}

/// S2, the rounds one by one.
#[test]
fn an_amount_is_divided_by_weight_until_it_is_used_up_or_all_parts_are_full() {
    fn poured(left: i128, parts: &[(i128, i128, i128)]) -> (i128, Vec<i128>) {
        let part = |(gets, target, weight): &(i128, i128, i128)| Part { gets: *gets, target: *target, weight: *weight, deserves: false };
        let mut parts: Vec<Part> = parts.iter().map(part).collect();
        let left = pour(&mut parts.iter_mut().collect::<Vec<_>>(), left);
        (left, parts.into_iter().map(|part| part.gets).collect())
    }
    // (what it has, its target, its weight), in the order of priority and name.
    assert_eq!(poured(12, &[(0, 99, 3), (0, 99, 1)]), (0, vec![9, 3]));
    assert_eq!(poured(12, &[(0, 5, 3), (0, 99, 1)]), (0, vec![5, 7]), "what the first does not take is divided again");
    assert_eq!(poured(12, &[(0, 5, 3), (0, 4, 1)]), (3, vec![5, 4]), "and what no part takes is left");
    assert_eq!(poured(6, &[(4, 99, 1), (0, 99, 1)]), (0, vec![7, 3]), "what each has already is not divided");
    assert_eq!(poured(6, &[(8, 8, 9), (0, 99, 1)]), (0, vec![8, 6]), "a full part has no weight");
    assert_eq!(poured(8, &[(0, 99, 1), (0, 99, 1), (0, 99, 1)]), (0, vec![3, 3, 2]), "rounding leaves two units");
    assert_eq!(poured(19, &[(0, 99, 1), (0, 99, 10), (0, 99, 9)]), (0, vec![1, 10, 8]), "one unit each, to the first of them");
    assert_eq!(
        poured(7, &[(0, 1, 1), (0, 99, 1), (0, 99, 1)]),
        (0, vec![1, 3, 3]),
        "what rounding leaves in a round that fills a part is divided again"
    );
}
