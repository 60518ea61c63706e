//! Properties of the rules themselves, for any cluster.
//!
//! Amounts are single nanos here, so that rounding is part of every case.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::cluster::{Amounts, Bounds, Cluster, Pod, Queue, Reservation, amount};
use super::limits::{fits, floor, held};
use super::scenario_text::{read_fact, write_facts};
use super::shares::{demand, right, share};
use super::tree::{children, names, spec, taken};

const DIMENSIONS: [&str; 2] = ["cpu", "memory"];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn amounts(most: i128) -> impl Strategy<Value = Amounts> {
    prop::collection::btree_map(prop::sample::select(&DIMENSIONS[..]).prop_map(str::to_owned), 0..=most, 0..=2)
}

fn bounds(most: i128) -> impl Strategy<Value = Bounds> {
    prop_oneof![2 => Just(Bounds::new()), 1 => amounts(most)]
}

/// Draws a queue below an earlier one or `root`; sometimes below a missing one.
fn queue(at: usize) -> impl Strategy<Value = Queue> {
    let parents: Vec<Option<String>> = [None]
        .into_iter()
        .chain(NAMES[..at].iter().map(|name| Some((*name).to_owned())))
        .chain((at > 4).then(|| Some("gone".to_owned())))
        .collect();
    let bounds = (bounds(20), bounds(12), bounds(6));
    (prop::sample::select(parents), bounds, 0..4_i128, 0..2_i64, prop::bool::weighted(0.9), prop::bool::weighted(0.1)).prop_map(
        |(parent, (capability, deserved, guarantee), weight, priority, reclaimable, closed_by_hand)| Queue {
            parent,
            capability,
            deserved,
            guarantee,
            weight,
            priority,
            reclaimable,
            closed_by_hand,
        },
    )
}

fn queues() -> impl Strategy<Value = BTreeMap<String, Queue>> {
    (0..=NAMES.len()).prop_flat_map(|count| {
        let each: Vec<_> = (0..count).map(queue).collect();
        each.prop_map(|queues| NAMES.iter().map(|name| (*name).to_owned()).zip(queues).collect())
    })
}

fn some_queue() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "c", "d", "e", "f", "default", "nowhere"][..]).prop_map(str::to_owned)
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let pods = prop::collection::vec((some_queue(), amounts(5)), 0..5);
    let reservations = prop::collection::vec((some_queue(), amounts(5)), 0..3);
    let waiting = prop::collection::vec((some_queue(), amounts(15)), 0..4);
    (amounts(20), queues(), pods, reservations, waiting).prop_map(|(total, queues, pods, reservations, waiting)| {
        let pod = |(at, (queue, amounts))| (format!("p{at}"), Pod { queue, amounts, ..Pod::default() });
        let held = |(at, (queue, amounts))| (format!("r{at}"), Reservation { queue, amounts });
        let mut cluster = Cluster {
            total,
            queues,
            pods: pods.into_iter().enumerate().map(pod).collect(),
            reservations: reservations.into_iter().enumerate().map(held).collect(),
            ..Cluster::default()
        };
        for (at, (queue, asks)) in waiting.into_iter().enumerate() {
            let asks = super::scenario_text::write_amounts(&asks);
            read_fact(&mut cluster, &format!("group g{at} in {queue} asks={asks}")).unwrap();
        }
        cluster
    })
}

/// Returns every queue of the cluster in every dimension.
fn everywhere(cluster: &Cluster) -> Vec<(String, &'static str)> {
    names(cluster).into_iter().flat_map(|name| DIMENSIONS.map(|dimension| (name.to_owned(), dimension))).collect()
}

fn sum(cluster: &Cluster, queue: &str, of: impl Fn(&Cluster, &str) -> i128) -> i128 {
    children(cluster, queue).iter().map(|child| of(cluster, child)).sum()
}

type Measure = fn(&Cluster, &str, &str) -> i128;
const SHARE_AND_RIGHT: [Measure; 2] = [share, right];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(64) })]

    /// F2, S2: the floor of one queue never pays for the share of another, and floors never exceed the cluster.
    #[test]
    fn children_never_share_more_than_their_parent_has(cluster in cluster()) {
        for (queue, dimension) in everywhere(&cluster) {
            prop_assert!(sum(&cluster, &queue, |cluster, child| floor(cluster, child, dimension)) <= floor(&cluster, &queue, dimension));
            for share in SHARE_AND_RIGHT {
                prop_assert!(sum(&cluster, &queue, |cluster, child| share(cluster, child, dimension)) <= share(&cluster, &queue, dimension));
            }
        }
    }

    /// S2.
    #[test]
    fn a_share_is_between_the_floor_and_the_capability_unless_the_floor_is_above_it(cluster in cluster()) {
        for (queue, dimension) in everywhere(&cluster) {
            for share in SHARE_AND_RIGHT {
                let (share, floor) = (share(&cluster, &queue, dimension), floor(&cluster, &queue, dimension));
                let capability = spec(&cluster, &queue).capability.get(dimension).copied().unwrap_or(i128::MAX);
                prop_assert!(floor <= share && share <= capability.max(floor), "{queue} {dimension}");
            }
        }
    }

    /// S2: an amount is left only when no queue wants it, to the last nano.
    #[test]
    fn nothing_is_left_while_a_child_is_below_what_it_wants(cluster in cluster()) {
        for (queue, dimension) in everywhere(&cluster) {
            let parted = sum(&cluster, &queue, |cluster, child| share(cluster, child, dimension));
            if parted < share(&cluster, &queue, dimension) {
                for child in children(&cluster, &queue) {
                    let spec = spec(&cluster, child);
                    let capability = spec.capability.get(dimension).copied().unwrap_or(i128::MAX);
                    let target = spec.deserved.get(dimension).map_or_else(|| demand(&cluster, child, dimension), |deserved| capability.min(*deserved));
                    prop_assert!(share(&cluster, child, dimension) >= target, "{child} {dimension}");
                }
            }
        }
    }

    /// S2, except for rounding: amounts are a million times as large here, and a few nanos of difference are allowed.
    #[test]
    fn more_weight_is_never_a_smaller_share_of_the_same(cluster in cluster(), queue in some_queue(), more in 1..5_i128) {
        let large = enlarged(&cluster, 1_000_000);
        let mut heavier = large.clone();
        if let Some(spec) = heavier.queues.get_mut(&queue) {
            spec.weight = spec.weight.max(1) + more;
            for dimension in DIMENSIONS {
                prop_assert!(share(&heavier, &queue, dimension) >= share(&large, &queue, dimension) - 50, "{queue} {dimension}");
            }
        }
    }

    /// F3.
    #[test]
    fn what_is_held_is_never_less_than_what_is_taken_or_the_floor(cluster in cluster()) {
        for (queue, dimension) in everywhere(&cluster) {
            let held = held(&cluster, &queue, dimension);
            prop_assert!(held >= taken(&cluster, &queue, dimension));
            prop_assert!(queue == "root" || held >= floor(&cluster, &queue, dimension));
        }
    }

    /// F4: otherwise a refused gang could be admitted piece by piece.
    #[test]
    fn where_an_amount_fits_less_fits(cluster in cluster(), queue in some_queue(), asked in amounts(20), by in 1..20_i128) {
        let lesser: Amounts = asked.iter().map(|(name, amount)| (name.clone(), amount * by / 20)).collect();
        if fits(&cluster, &queue, &asked).is_ok() {
            prop_assert_eq!(fits(&cluster, &queue, &lesser), Ok(()));
        }
    }

    /// F3: whichever queue comes first, a leaf that is not broken or closed can use its floor, up to the capabilities on its way.
    #[test]
    fn what_fits_leaves_every_other_leaf_its_floor(cluster in cluster(), capability in 4..12_i128, kept in 1..6_i128, asked in amounts(12)) {
        // A random cluster, and in addition a queue with a floor and one without below one ceiling: otherwise such a pair is rare.
        let mut cluster = cluster;
        for queue in [&format!("p capability=cpu:{capability}n"), &format!("kept parent=p guarantee=cpu:{kept}n"), "asks parent=p"] {
            read_fact(&mut cluster, &format!("queue {queue}")).unwrap();
        }
        let queue = "asks".to_owned();
        if fits(&cluster, &queue, &asked).is_err() {
            return Ok(());
        }
        let after = cluster.with_charge(&queue, &asked);
        for (other, dimension) in everywhere(&cluster).into_iter().filter(|(other, _)| *other != queue) {
            let kept = |cluster: &Cluster| (floor(cluster, &other, dimension) - taken(cluster, &other, dimension)).max(0);
            let open = Amounts::from([(dimension.to_owned(), kept(&cluster))]);
            if fits(&cluster, &other, &open).is_ok() {
                prop_assert_eq!(fits(&after, &other, &open), Ok(()), "{} {}", &other, dimension);
            }
        }
    }

    /// F3: the unused guarantees never exceed what all nodes offer, after a charge to an empty cluster and after each next one.
    #[test]
    fn charges_that_fit_never_use_the_guarantees_of_other_queues(queues in queues(), total in amounts(20), charges in prop::collection::vec((some_queue(), amounts(5)), 0..8)) {
        let mut cluster = Cluster { total, queues, ..Cluster::default() };
        for (queue, asked) in charges {
            // The nodes are the limit where no guarantee is unused.
            let on_nodes = asked.iter().all(|(name, asked)| taken(&cluster, "root", name) + asked <= amount(&cluster.total, name));
            if on_nodes && fits(&cluster, &queue, &asked).is_ok() {
                cluster = cluster.with_charge(&queue, &asked);
            }
            for dimension in DIMENSIONS {
                prop_assert!(held(&cluster, "root", dimension) <= amount(&cluster.total, dimension));
            }
        }
    }

    /// A shrunk failure can be stored this way.
    #[test]
    fn a_cluster_is_read_as_it_is_written(cluster in cluster()) {
        prop_assert_eq!(super::scenario::cluster(&write_facts(&cluster)), cluster);
    }
}

/// Returns the cluster with all amounts times `by`.
fn enlarged(cluster: &Cluster, by: i128) -> Cluster {
    let mut large = cluster.clone();
    let mut all: Vec<&mut Amounts> = vec![&mut large.total];
    all.extend(large.queues.values_mut().flat_map(|queue| [&mut queue.capability, &mut queue.deserved, &mut queue.guarantee]));
    all.extend(large.pods.values_mut().map(|pod| &mut pod.amounts));
    all.extend(large.groups.values_mut().flat_map(|group| &mut group.asks));
    all.extend(large.reservations.values_mut().map(|held| &mut held.amounts));
    all.into_iter().flat_map(BTreeMap::values_mut).for_each(|amount| *amount *= by);
    large
}
