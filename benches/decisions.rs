//! How many placements does one scheduling cycle decide in a second? In process, every node looked at; the same work for each size, so that growth is
//! visible. Numbers are compared within one run only.

#![allow(clippy::panic, reason = "a benchmark whose own input is wrong has nothing to measure")]

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use podgroup::api::{GroupFacts, Node, NodeFacts, Pod, PodFacts, PodGroup};
use podgroup::cycle::policy::Policy;
use podgroup::cycle::world::World;
use podgroup::runtime::flags::Placement;
use serde_json::{Value, from_value, json};

/// The settings that nobody changed.
const POLICY: Policy = Policy { placement: Placement::Spread, evictions: true, patience: Duration::from_secs(30) };

/// Pods that wait, in gangs.
const PODS: u32 = 1_000;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_value(value).unwrap_or_else(|error| panic!("the benchmark's own object: {error}"))
}

fn world(nodes: u32, gang: u32) -> World {
    let mut world = World::new(["podgroup-scheduler".to_owned()]);
    for number in 0..nodes {
        let allocatable = json!({ "cpu": "32", "memory": "256Gi", "pods": "110" });
        let node: Node = read(
            json!({ "metadata": { "name": format!("node-{number:05}"), "uid": format!("node-{number}") }, "status": { "allocatable": allocatable } }),
        );
        world.apply_node(NodeFacts::of(&node));
    }
    for group in 0..PODS / gang {
        let name = format!("gang-{group:05}");
        let object: PodGroup = read(
            json!({ "metadata": { "namespace": "ns", "name": name, "uid": format!("group-{group}") }, "spec": { "minMember": gang } }),
        );
        world.apply_group(GroupFacts::of(&object));
        for member in 0..gang {
            let uid = format!("pod-{group}-{member}");
            let container = json!({ "name": "c", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } });
            let pod: Pod = read(json!({
                "metadata": { "namespace": "ns", "name": uid, "uid": uid, "annotations": { "scheduling.k8s.io/group-name": name } },
                "spec": { "schedulerName": "podgroup-scheduler", "containers": [container] },
                "status": { "phase": "Pending" },
            }));
            world.apply_pod(PodFacts::of(&pod));
        }
    }
    world
}

fn cycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cycle");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(PODS)));
    for nodes in [100, 1_000, 5_000] {
        for gang in [1, 10] {
            group.bench_function(BenchmarkId::new(format!("gangs of {gang}"), nodes), |bencher| {
                bencher.iter_batched_ref(
                    || world(nodes, gang),
                    |world| {
                        let plan = podgroup::cycle::run(world, &POLICY, Duration::ZERO);
                        assert_eq!(plan.binds.len(), PODS as usize, "every pod finds a place");
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, cycle);
criterion_main!(benches);
