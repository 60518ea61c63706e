//! Benchmarks of a cycle that places pods. They start from one size (5,000 nodes, 10,000 pods in gangs of 8, no running pods, one queue)
//! and change one dimension at a time. The time is from the last event to the plan, with every placement charged. No shortlist of nodes is
//! left from an earlier cycle.

use std::fmt::Display;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

use super::cluster::{Claims, Cluster, Requires, Size, request};

/// Each with the number of nodes, and whether nodes have images.
const SIZES: [(&str, u32, bool); 4] =
    [("1000", 1_000, true), ("5000", 5_000, true), ("5000, no images", 5_000, false), ("10000", 10_000, true)];

fn measure<I: Display>(criterion: &mut Criterion, axis: &str, sizes: impl IntoIterator<Item = (I, Size)>) {
    let mut group = criterion.benchmark_group(axis);
    group.sampling_mode(SamplingMode::Flat);
    for (at, size) in sizes {
        let size = Size { pods: size.pods.div_ceil(size.gang) * size.gang, ..size };
        let mut cluster = None;
        group.throughput(Throughput::Elements(u64::from(size.pods)));
        group.bench_function(BenchmarkId::from_parameter(at), |bencher| {
            let cluster = cluster.get_or_insert_with(|| Cluster::new(size, &request(100, 256, 0)));
            bencher.iter_custom(|times| (0..times).map(|_| once(cluster, true)).sum());
        });
    }
    group.finish();
}

/// Measures one cycle in which all new pods find nodes, or none does.
pub(crate) fn once(cluster: &mut Cluster, found: bool) -> Duration {
    let (groups, pods) = cluster.arrivals();
    let keys: Vec<_> = groups.iter().map(|group| group.key.clone()).collect();
    let uids: Vec<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
    cluster.come((groups, pods));
    let start = Instant::now();
    let plan = cluster.decide();
    let took = start.elapsed();
    let unbound = cluster.size.unbound();
    // Gangs with claims that are tied to their volumes are bound later.
    let (all, done) = if unbound > 0 { (unbound, plan.volumes.len()) } else { (uids.len(), plan.binds.len()) };
    assert_eq!(done, if found { all } else { 0 }, "every pod finds a node, or none does");
    drop(plan);
    cluster.go(&keys, &uids);
    took
}

/// More nodes, and nodes and pods without images.
pub(crate) fn nodes(criterion: &mut Criterion) {
    let of = |(name, nodes, images)| (name, Size { nodes, images, ..Size::default() });
    measure(criterion, "nodes", SIZES.map(of));
}

/// Fewer pods at once.
pub(crate) fn pods(criterion: &mut Criterion) {
    let of = |pods| (pods, Size { pods, ..Size::default() });
    measure(criterion, "pods", [1_000].map(of));
}

/// Single pods, and larger gangs.
pub(crate) fn gangs(criterion: &mut Criterion) {
    let of = |gang| (gang, Size { gang, ..Size::default() });
    measure(criterion, "gangs", [1, 256].map(of));
}

/// Running pods.
pub(crate) fn running(criterion: &mut Criterion) {
    let of = |running| (running, Size { running, ..Size::default() });
    measure(criterion, "running", [50_000].map(of));
}

/// More queues, in the order of their shares.
pub(crate) fn queues(criterion: &mut Criterion) {
    let of = |queues| (queues, Size { queues, ..Size::default() });
    measure(criterion, "queues", [100, 2_000].map(of));
}

/// Every pod in its own class, so that no result for one pod helps another. By nodes, and without images.
pub(crate) fn own_classes(criterion: &mut Criterion) {
    let of = |(name, nodes, images)| (name, Size { nodes, images, pods: 1_000, gang: 1, own_classes: true, ..Size::default() });
    measure(criterion, "own classes", SIZES.map(of));
}

/// What new pods require of nodes and of each other, with nothing running and with 50,000 running pods.
pub(crate) fn requires(criterion: &mut Criterion) {
    let all = [
        ("nodes", Requires::Nodes),
        ("usual", Requires::Usual),
        ("spread", Requires::Spread),
        ("apart", Requires::Apart),
        ("together", Requires::Together),
    ];
    let of =
        |(name, requires)| [0, 50_000].map(|running| (format!("{name}, {running} run"), Size { running, requires, ..Size::default() }));
    measure(criterion, "requires", all.into_iter().flat_map(of));
}

/// What new pods prefer, with nothing running and with 50,000 running pods.
pub(crate) fn prefers(criterion: &mut Criterion) {
    let all =
        [("nodes", Requires::PreferNodes), ("apart", Requires::PreferApart), ("anyway", Requires::Anyway), ("images", Requires::Images)];
    let of =
        |(name, requires)| [0, 50_000].map(|running| (format!("{name}, {running} run"), Size { running, requires, ..Size::default() }));
    measure(criterion, "prefers", all.into_iter().flat_map(of));
}

/// No claims, and claims of every third new pod. What is bound later is placed in the same cycle.
pub(crate) fn claims(criterion: &mut Criterion) {
    let all = [("none", Claims::None), ("bound", Claims::Bound), ("local volumes", Claims::Unbound)];
    measure(criterion, "claims", all.map(|(name, claims)| (name, Size { claims, ..Size::default() })));
}

/// Running pods that keep others away, while each new pod has labels of its own: none of the new pods, or a fifth of them.
pub(crate) fn keepers(criterion: &mut Criterion) {
    let plain = |keepers: u32| (keepers.to_string(), Size { keepers, own_labels: true, running: 10_000, ..Size::default() });
    let usual = Size { keepers: 100, own_labels: true, running: 50_000, requires: Requires::Usual, ..Size::default() };
    let more = [
        ("100, a fifth kept away".to_owned(), Size { kept_away: true, ..plain(100).1 }),
        ("100, usual, 50000 run".to_owned(), usual),
        ("100, usual, 50000 run, a fifth kept away".to_owned(), Size { kept_away: true, ..usual }),
    ];
    measure(criterion, "keepers", [0, 1, 100, 10_000].map(plain).into_iter().chain(more));
}
