//! Benchmarks of a cycle that finds no nodes for one gang of 30, on 5,000 nodes with room for each member alone: what its orders, its
//! domains and the search cost.

use criterion::{Criterion, SamplingMode};

use super::cluster::{Cluster, Requires, Size, request};
use super::cycles::once;

const GANG: u32 = 30;

/// By what the members require; on nodes that are empty, and on nodes of which no two have the same room.
pub(crate) fn gangs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("refused");
    group.sampling_mode(SamplingMode::Flat);
    // A host has room for 15 or 16 members, a rack for 20.
    for (name, requires, millis) in [("on one host", Requires::OneHost, 2_000), ("in one rack", Requires::OneRack, 20_000)] {
        for differ in [false, true] {
            let mut made = None;
            group.bench_function(format!("{name}, {}", if differ { "nodes that differ" } else { "empty nodes" }), |bencher| {
                let cluster =
                    made.get_or_insert_with(|| cluster(Size { pods: GANG, gang: GANG, requires, millis, ..Size::default() }, differ));
                bencher.iter_custom(|times| (0..times).map(|_| once(cluster, false)).sum());
            });
        }
    }
    group.finish();
}

fn cluster(size: Size, differ: bool) -> Cluster {
    let mut cluster = Cluster::new(size, &request(0, 0, 0));
    for number in 0..if differ { size.nodes } else { 0 } {
        if number.is_multiple_of(10) {
            cluster.scheduling.apply_group(cluster.group("runs", number / 10, 10));
        }
        let pod = cluster.runs(number, &request(1, 1, number));
        cluster.scheduling.apply_pod(pod);
    }
    let _none = cluster.decide();
    cluster
}
