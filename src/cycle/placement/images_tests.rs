//! Points for images follow kube-scheduler's rule, and are worked out again only where they may be others.

use super::*;
use crate::cycle::testing::node;

fn nodes(count: usize) -> Nodes {
    let mut nodes = Nodes::default();
    (0..count).for_each(|at| _ = nodes.upsert(node(&format!("n{at}"), &[])));
    nodes
}

fn image(name: &str, mib: u64) -> NodeImage {
    NodeImage { name: Arc::from(name), size: mib * MIB }
}

fn needs(containers: u32, names: &[&str]) -> Arc<PodImages> {
    Arc::new(PodImages { containers, names: names.iter().map(|name| Arc::from(*name)).collect() })
}

/// The points of each node, in hundredths of all points as kube-scheduler has them; none where all have the same.
fn points(nodes: &Nodes, pod: &Arc<PodImages>) -> Option<Vec<u32>> {
    let points = KnownPoints::default().of(pod, nodes)?;
    Some(nodes.ids().map(|id| (WHOLE - points.lacking(id)) / 10_000).collect())
}

#[test]
fn the_points_follow_from_size_spread_and_containers() {
    let mut nodes = nodes(4);
    let big = image("big:1", 2_000);
    let small = image("small:1", 46);
    nodes.set_images("n0", &[big.clone(), small.clone()]);
    nodes.set_images("n1", std::slice::from_ref(&big));
    nodes.set_images("n2", &[small]);
    // 2,000 MiB on half of the nodes: 1,000, which is all.
    assert_eq!(points(&nodes, &needs(1, &["big:1"])), Some(vec![100, 100, 0, 0]));
    // Of two containers with it 2,000 MiB are all; of two with one of it, half of (1,000 - 23) / (2,000 - 23).
    assert_eq!(points(&nodes, &needs(2, &["big:1", "big:1"])), Some(vec![100, 100, 0, 0]));
    assert_eq!(points(&nodes, &needs(2, &["big:1"])), Some(vec![49, 49, 0, 0]));
    assert_eq!(points(&nodes, &needs(2, &["big:1", "small:1"])), Some(vec![50, 49, 0, 0]));
    assert_eq!(points(&nodes, &needs(1, &["small:1"])), None, "23 MiB are too little");
    assert_eq!(points(&nodes, &needs(1, &["none:1"])), None);
    nodes.set_images("n2", std::slice::from_ref(&big));
    nodes.set_images("n3", &[big]);
    assert_eq!(points(&nodes, &needs(1, &["big:1"])), None, "all nodes have it");
}

#[test]
fn points_are_worked_out_again_only_for_other_images_or_nodes() {
    let mut nodes = nodes(4);
    nodes.set_images("n0", &[image("a:1", 900)]);
    let (mut known, pod) = (KnownPoints::default(), needs(1, &["a:1", "c:1"]));
    let first = known.of(&pod, &nodes).unwrap();
    let is_first = |known: &mut KnownPoints, nodes: &Nodes| Arc::ptr_eq(&known.of(&pod, nodes).unwrap(), &first);
    nodes.set_images("n1", &[image("b:1", 900)]);
    assert!(is_first(&mut known, &nodes), "another image");
    nodes.set_images("n2", &[image("a:1", 900)]);
    assert!(!is_first(&mut known, &nodes));
    nodes.set_images("n2", &[]);
    assert_eq!(known.of(&pod, &nodes).unwrap(), first);
    nodes.set_images("n0", &[]);
    assert_eq!(known.of(&pod, &nodes), None);
    nodes.set_images("n3", &[image("a:1", 900)]);
    assert_ne!(known.of(&pod, &nodes).unwrap(), first, "it went, and came back on another node");
    let before = known.of(&pod, &nodes).unwrap();
    nodes.upsert(node("n4", &[]));
    assert_ne!(known.of(&pod, &nodes).unwrap(), before, "of more nodes a smaller part has it");
}

#[test]
fn what_no_node_has_any_more_is_forgotten_and_what_is_remembered_is_bounded() {
    let mut nodes = nodes(3);
    let mut known = KnownPoints::default();
    for round in 0..MOST_SETS + 5 {
        let name = format!("i:{round}");
        nodes.set_images("n0", &[image(&name, 900), image(&name, 900), image("always:1", 1)]);
        assert!(known.of(&needs(1, &[&name]), &nodes).is_some());
        assert_eq!(nodes.images().len(), 2);
    }
    assert_eq!(known.0.len(), 5, "when there were too many, all were forgotten");
    assert!(nodes.images().images.len() <= 3, "numbers are used again");
    nodes.remove("n0");
    assert_eq!(nodes.images().len(), 0);
}
