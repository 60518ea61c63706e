//! Benchmarks of events that change little or nothing, in a cluster of 5,000 nodes with 50,000 running pods.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, SamplingMode, Throughput};
use podgroup::api::pod_facts::PodPhase;
use podgroup::api::{GroupKey, PodFacts, Uid};
use podgroup::cycle::plan::Plan;

use super::cluster::{Cluster, NODE_KEYS, Requires, Size, node, request};

const RUNNING: u32 = 50_000;
const WAITING: u32 = 10_000;

fn timed(act: impl FnOnce() -> Plan) -> Duration {
    let start = Instant::now();
    let plan = act();
    let took = start.elapsed();
    assert_eq!(plan.binds.len(), 0, "nothing is placed");
    took
}

/// An event that changes nothing, and a cycle without work.
pub(crate) fn nothing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nothing");
    let runs = request(100, 256, 0);
    let mut cluster = Cluster::new(Size { running: RUNNING, ..Size::default() }, &runs);
    group.bench_function("a pod as it was", |bencher| {
        let same = cluster.runs(4_711, &runs);
        bencher.iter_batched(|| same.clone(), |pod| cluster.scheduling.apply_pod(pod), BatchSize::SmallInput);
    });
    group.bench_function("a node as it was", |bencher| {
        let same = node(4_711, &Size::default());
        bencher.iter_batched(|| same.clone(), |node| cluster.scheduling.apply_node(node), BatchSize::SmallInput);
    });
    assert!(!cluster.scheduling.has_work(Duration::ZERO), "nothing has happened");
    group.bench_function("a cycle", |bencher| bencher.iter(|| black_box(cluster.decide())));
    group.finish();
}

/// One event and its cycle in a full cluster with 10,000 waiting pods that cannot be placed: gangs with the same template, pods that each
/// have their own class, and gangs whose pods have labels of their own while one running pod has anti-affinity.
pub(crate) fn full(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("full");
    group.sampling_mode(SamplingMode::Flat);
    let of = |gang, own_classes, keepers| Size {
        running: RUNNING,
        pods: WAITING,
        gang,
        own_classes,
        keepers,
        own_labels: keepers > 0,
        ..Size::default()
    };
    let all =
        [("gangs of 8", of(8, false, 0)), ("own classes", of(1, true, 0)), ("gangs of 8 with own labels, one keeper", of(8, false, 1))];
    for (name, size) in all {
        let mut made = None;
        let runs = request(3_200, 1_024, 0);
        let mut full = || {
            let mut cluster = Cluster::new(size, &runs);
            let arrivals = cluster.arrivals();
            cluster.come(arrivals);
            assert_eq!(cluster.decide().binds.len(), 0, "no node has room");
            cluster
        };
        group.bench_function(format!("{name}: a pod that finds no place either"), |bencher| {
            let cluster = made.get_or_insert_with(&mut full);
            bencher.iter_custom(|times| (0..times).map(|_| comes(cluster)).sum());
        });
        group.bench_function(format!("{name}: a pod ended, too small for anybody"), |bencher| {
            let cluster = made.get_or_insert_with(&mut full);
            let small = PodFacts { request: request(0, 1, 0), ..cluster.runs(RUNNING, &runs) };
            bencher.iter_custom(|times| (0..times).map(|_| ends(cluster, &small)).sum());
        });
    }
    group.finish();
}

/// One event and its cycle, two seconds after the last, in a full cluster with 10,000 waiting pods: without a capability of their queue, and with one
/// that takes half of them, so that it is decided anew which of them ask for nodes.
pub(crate) fn asks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("asks");
    group.sampling_mode(SamplingMode::Flat);
    for (gang, capability) in [(1, None), (1, Some(2_500)), (8, None), (8, Some(2_500))] {
        let size = Size { running: RUNNING, pods: WAITING, gang, ..Size::default() };
        let mut made = None;
        let limits = if capability.is_some() { "half of them" } else { "no capability" };
        group.bench_function(format!("gangs of {gang}, {limits}"), |bencher| {
            let cluster = made.get_or_insert_with(|| {
                let mut cluster = Cluster::new(size, &request(3_200, 1_024, 0));
                cluster.limit(capability.map(|waiting| waiting + i64::from(RUNNING) * 16 / 5));
                let arrivals = cluster.arrivals();
                cluster.come(arrivals);
                assert_eq!(cluster.decide().binds.len(), 0, "no node has room");
                cluster
            });
            bencher.iter_custom(|times| (0..times).map(|_| asks(cluster)).sum());
        });
    }
    group.finish();

    fn asks(cluster: &mut Cluster) -> Duration {
        cluster.now += Duration::from_secs(2);
        comes(cluster)
    }
}

/// A node comes where 1,000 pods wait for more than a node has. Each has 100 terms.
pub(crate) fn terms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("terms");
    group.sampling_mode(SamplingMode::Flat);
    for (name, requires, keys) in [
        ("100 topology keys that no node has", Requires::ManyKeys, 0),
        ("20 topology keys that every node has", Requires::ManyTerms, NODE_KEYS),
    ] {
        let mut made = None;
        let size = Size { pods: 1_000, gang: 1, millis: 64_000, own_classes: true, requires, keys, ..Size::default() };
        group.bench_function(name, |bencher| {
            let cluster = made.get_or_insert_with(|| {
                let mut cluster = Cluster::new(size, &request(0, 0, 0));
                let arrivals = cluster.arrivals();
                cluster.come(arrivals);
                assert_eq!(cluster.decide().binds.len(), 0, "no node is so large");
                cluster
            });
            bencher.iter_custom(|times| (0..times).map(|_| node_comes(cluster)).sum());
        });
    }
    group.finish();
}

fn node_comes(cluster: &mut Cluster) -> Duration {
    let node = node(cluster.size.nodes, &cluster.size);
    let name = node.name.clone();
    let took = timed(|| {
        cluster.scheduling.apply_node(node);
        cluster.decide()
    });
    cluster.scheduling.delete_node(&name);
    let _none = cluster.decide();
    let _told = cluster.scheduling.take_dirty();
    took
}

fn comes(cluster: &mut Cluster) -> Duration {
    let (group, number) = (cluster.group("new", 0, 1), WAITING + 8);
    let pod = cluster.waits(&group.key, number, request(500, 1024, 0));
    let (key, uid) = (group.key.clone(), pod.uid.clone());
    let took = timed(|| {
        cluster.come((vec![group], vec![pod]));
        cluster.decide()
    });
    cluster.go(&[key], &[uid]);
    took
}

fn ends(cluster: &mut Cluster, small: &PodFacts) -> Duration {
    cluster.scheduling.apply_pod(small.clone());
    let _none = cluster.decide();
    let ended = PodFacts { phase: PodPhase::Succeeded, ..small.clone() };
    let took = timed(|| {
        cluster.scheduling.apply_pod(ended);
        cluster.decide()
    });
    cluster.scheduling.delete_pod(&small.uid);
    let _none = cluster.decide();
    let _told = cluster.scheduling.take_dirty();
    took
}

/// All events of a pod from its creation to its end, with all cycles between: 10,000 pods in gangs of 8.
pub(crate) fn life(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("life");
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(u64::from(WAITING)));
    let mut cluster = Cluster::new(Size { running: RUNNING, ..Size::default() }, &request(100, 256, 0));
    group.bench_function("of a pod", |bencher| bencher.iter_custom(|times| (0..times).map(|_| lives(&mut cluster)).sum()));
    group.finish();
}

fn lives(cluster: &mut Cluster) -> Duration {
    let (groups, pods) = cluster.arrivals();
    let keys: Vec<GroupKey> = groups.iter().map(|group| group.key.clone()).collect();
    let uids: Vec<Uid> = pods.iter().map(|pod| pod.uid.clone()).collect();
    let start = Instant::now();
    cluster.come((groups, pods));
    let plan = cluster.decide();
    for bind in plan.binds {
        cluster.scheduling.confirm(&bind.uid);
        let Some(facts) = cluster.scheduling.cache().pods().get(&bind.uid).map(|member| (*member.facts).clone()) else { continue };
        let bound = PodFacts { node: Some(bind.node), charged_queue: Some(bind.queue.to_string()), ..facts };
        cluster.scheduling.apply_pod(bound.clone());
        cluster.scheduling.apply_pod(PodFacts { phase: PodPhase::Running, ..bound.clone() });
        cluster.scheduling.apply_pod(PodFacts { phase: PodPhase::Succeeded, ..bound });
    }
    let _none = cluster.decide();
    cluster.go(&keys, &uids);
    start.elapsed()
}
