//! The way up is right for every shape that people can write, and a broken queue affects only its subtree.

use super::*;

fn tree(shapes: &[(&str, &str)]) -> QueueTree {
    let mut tree = QueueTree::new();
    for (name, parent) in shapes {
        tree.upsert(&shape(name, parent));
    }
    tree
}

fn shape(name: &str, parent: &str) -> QueueShape {
    QueueShape { name: name.into(), parent: (!parent.is_empty()).then(|| parent.into()) }
}

fn fault(queue: &str, why: Why) -> Result<Vec<String>, QueueFault> {
    Err(QueueFault { queue: queue.into(), why })
}

fn path(tree: &QueueTree, name: &str) -> Result<Vec<String>, QueueFault> {
    tree.path(name).map(|path| path.iter().map(ToString::to_string).collect())
}

fn walk(tree: &QueueTree, name: &str) -> Vec<String> {
    tree.walk(name).0.iter().map(ToString::to_string).collect()
}

fn ok(queues: &[&str]) -> Result<Vec<String>, QueueFault> {
    Ok(queues.iter().map(ToString::to_string).collect())
}

#[test]
fn b5_each_fault_is_reported_with_its_queue_and_blocks_only_the_subtree() {
    let tree =
        tree(&[("a", ""), ("b", "a"), ("c", "gone"), ("c1", "c"), ("d", "e"), ("e", "d"), ("f", "e"), ("self", "self"), ("top", "root")]);
    let missing = || Why::MissingParent { parent: "gone".into() };
    let table = [
        ("b", ok(&["b", "a", "root"])),
        ("top", ok(&["top", "root"])),
        ("default", ok(&["default", "root"])),
        ("a", fault("a", Why::NotLeaf)),
        ("root", fault("root", Why::NotLeaf)),
        ("absent", fault("absent", Why::NotFound)),
        ("gone", fault("gone", Why::NotFound)),
        ("c", fault("c", missing())),
        ("c1", fault("c", missing())),
        ("d", fault("d", Why::Cycle)),
        ("f", fault("e", Why::Cycle)),
        ("self", fault("self", Why::Cycle)),
    ];
    for (name, want) in table {
        assert_eq!(path(&tree, name), want, "{name}");
    }
    assert_eq!(tree.fault("a"), None, "a parent is no faulty queue");
}

#[test]
fn a_charge_to_a_broken_queue_counts_in_its_known_ancestors_and_at_root() {
    let tree = tree(&[("c", "gone"), ("d", "e"), ("e", "d"), ("f", "e")]);
    assert_eq!(walk(&tree, "c"), ["c", "gone", "root"]);
    assert_eq!(walk(&tree, "d"), ["d", "e", "root"]);
    assert_eq!(walk(&tree, "f"), ["f", "e", "d", "root"]);
    assert_eq!(walk(&tree, "absent"), ["absent", "root"]);
    assert_eq!(walk(&tree, "root"), ["root"]);
}

#[test]
fn a_chain_as_deep_as_the_limit_works_and_one_deeper_does_not() {
    let mut tree = QueueTree::new();
    for level in 1..=MAX_DEPTH + 1 {
        let parent = if level == 1 { String::new() } else { format!("q{}", level - 1) };
        tree.upsert(&shape(&format!("q{level}"), &parent));
    }
    let deepest = format!("q{}", MAX_DEPTH + 1);
    assert_eq!(tree.path(&deepest), Err(QueueFault { queue: deepest.as_str().into(), why: Why::TooDeep }));
    assert_eq!(tree.walk(&deepest).0.len(), MAX_DEPTH + 1);
    tree.remove(&deepest, false);
    assert_eq!(tree.path(&format!("q{MAX_DEPTH}")).unwrap().iter().count(), MAX_DEPTH + 1);
}

#[test]
fn q4_a_queue_recovers_when_its_parent_is_back_and_root_and_default_cannot_be_deleted() {
    let mut tree = tree(&[("p", ""), ("c", "p")]);
    tree.remove("p", false);
    assert!(path(&tree, "c").is_err());
    tree.upsert(&shape("p", "root"));
    assert_eq!(path(&tree, "c"), ok(&["c", "p", "root"]));
    tree.upsert(&shape("default", "p"));
    assert_eq!(path(&tree, "default"), ok(&["default", "p", "root"]));
    tree.remove("default", false);
    assert_eq!(path(&tree, "default"), ok(&["default", "root"]));
    tree.remove("root", false);
    tree.upsert(&shape("root", "c"));
    assert_eq!(path(&tree, "c"), ok(&["c", "p", "root"]));
    assert_eq!(tree.names().map(|name| &**name).collect::<Vec<_>>(), ["root", "c", "default", "p"]);
}

#[test]
fn an_empty_parent_is_root_and_a_parent_is_a_leaf_again_when_its_children_are_gone() {
    let mut tree = QueueTree::new();
    tree.upsert(&QueueShape { name: "a".into(), parent: Some("".into()) });
    tree.upsert(&shape("b", "a"));
    assert_eq!(path(&tree, "a"), fault("a", Why::NotLeaf));
    tree.upsert(&shape("b", ""));
    assert_eq!(path(&tree, "a"), ok(&["a", "root"]));
    assert!(tree.misfiled().is_empty());
}

#[test]
fn the_audit_reports_a_child_in_the_wrong_list() {
    let mut tree = tree(&[("b", "a")]);
    tree.children.remove("a");
    assert_eq!(tree.misfiled(), ["a".into()]);
}

#[test]
fn t3_a_queue_counts_by_a_place_if_it_or_a_queue_above_it_is_deleted_and_in_use() {
    let mut tree = QueueTree::new();
    let names = ["root", "default", "team", "leaf", "old", "below", "lost", "x", "y", "unknown"];
    for (name, parent) in [("team", ""), ("leaf", "team"), ("old", "team"), ("below", "old"), ("lost", "nowhere"), ("x", "y"), ("y", "x")] {
        tree.upsert(&QueueShape { name: name.into(), parent: (!parent.is_empty()).then(|| parent.into()) });
    }
    let by_place = |tree: &QueueTree| names.into_iter().filter(|name| tree.counts_by_place(name)).collect::<Vec<_>>();
    assert!(by_place(&tree).is_empty());
    tree.remove("old", true);
    assert_eq!(by_place(&tree), ["old", "below"], "other faults are none of a deleted queue");
    tree.forget_place("old");
    assert!(by_place(&tree).is_empty());
}
