//! Where deleted queues were (T3).

use super::cluster::{Cluster, Former, amount};
use super::tree::{exists, parent, reserved, used};

/// Deletes a queue: it keeps its place while anything is taken in it or below it.
pub(super) fn delete(cluster: &mut Cluster, queue: &str) {
    let place = parent(cluster, queue).map(str::to_owned);
    let in_use = is_in_use(cluster, queue);
    if cluster.queues.remove(queue).is_some() && queue != "default" && queue != "root" && in_use {
        let parent = place.unwrap_or_default();
        cluster.former.insert(queue.to_owned(), Former { parent, told_by: None });
    }
}

/// Takes in the path of queues that a binding wrote onto a pod, from its queue up to `root`.
pub(super) fn tell(cluster: &mut Cluster, uid: &str, created: u64, path: &[String]) {
    for edge in path.windows(2) {
        let [queue, parent] = edge else { return };
        let teller = Some((created, uid.to_owned()));
        let known = cluster.former.get(queue);
        let better = known.is_none_or(|known| known.told_by.is_some() && known.told_by < teller);
        if exists(cluster, queue) {
            return;
        }
        if better {
            cluster.former.insert(queue.clone(), Former { parent: parent.clone(), told_by: teller });
        } else if known.is_some_and(|known| known.parent != *parent) {
            return;
        }
    }
}

/// Forgets the places of queues that exist, or in which and below which nothing is taken.
pub(super) fn forget(cluster: &mut Cluster) {
    let before = cluster.clone();
    cluster.former.retain(|queue, _| !exists(&before, queue) && is_in_use(&before, queue));
}

fn is_in_use(cluster: &Cluster, queue: &str) -> bool {
    cluster.dimensions().iter().any(|dimension| used(cluster, queue, dimension) + reserved(cluster, queue, dimension) != 0)
}

/// T3, in the order of the text: pods read in any order give the same place, and the last one that is released takes the place with it.
#[test]
fn the_pod_that_was_created_last_says_where_a_deleted_queue_was() {
    for pods in [["a", "b"], ["b", "a"]] {
        let mut text = String::from("queue p\nqueue r\n");
        for pod in pods {
            let (created, path) = if pod == "a" { (1, "root/p/q") } else { (2, "root/r/q") };
            text += &format!("pod {pod} in q cpu:1 created={created} path={path}\n");
        }
        let cluster = super::scenario::cluster(&text);
        assert_eq!(["p", "r"].map(|queue| used(&cluster, queue, "cpu")), [0, 2_000_000_000], "{pods:?}");
        let cluster = super::scenario::cluster(&(text + "gone a\ngone b\npod c in q cpu:1\n"));
        assert_eq!((used(&cluster, "r", "cpu"), cluster.former.len()), (0, 0));
        assert_eq!(amount(&cluster.total, "cpu"), 0);
    }
}
