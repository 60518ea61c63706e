//! Row K27: the scheduler is killed at each of its requests for a gang of 40, one after the other.
//!
//! The fault proxy lets a number of writes through and cuts all that follows; then the process is killed. So the API server is in exactly
//! the state that a SIGKILL at that request leaves. The requests are drawn by the seed of the run and printed. Every write is tried in
//! memory (`scenarios/tests/every_write.rs`).

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::DynamicObject;

use super::old_views::cordon;
use super::seen::{accounting_matches_api, bound};
use crate::objects::{condition, field, make_node};
use crate::proxy::SeededRandom;
use crate::say;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, delete, groups_of, pods_of, wait_one_group, wait_running};
use crate::world::World;

/// The members of the gang. They fill the nodes.
const MEMBERS: usize = 40;

/// The nodes, with 10 cpu each.
const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// The cpu of a node.
const OF_A_NODE: usize = 10;

/// Which requests the scheduler is killed at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Requests {
    /// So many, drawn by the seed, and so many with a cordoned node.
    Drawn(usize, usize),
    /// Every one, and every fourth with a cordoned node.
    Every,
}

/// K27. Without an election a start follows at once. It fences the waiting pods and binds the gang; it is killed at one of these requests,
/// and the next start makes the gang whole. Where a node is cordoned between the two, and the rest of the gang does not fit, the bound part
/// is evicted after `--release-after`, and the gang waits as a whole. Either is so within a minute, and the PodGroup says it.
/// (`--release-after` is 30 s here, as `docs/operations.md` advises for that promise. By default a gang that does not fit any more keeps
/// its bound part for 5 min.)
pub(super) async fn each(w: &mut World, requests: Requests) -> Result<()> {
    let client = w.client();
    for node in NODES {
        make_node(&client, node, &[("cpu", "10"), ("memory", "64Gi")]).await?;
    }
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--leader-elect=false");
    scheduler.also("--release-after=30s");
    let all = writes_of_a_gang(w).await?;
    let (plain, cordoned) = draw(requests, all, w.seed);
    say::line(format!("        K27: a gang of {MEMBERS} takes {all} writes; killed at {plain:?}, with a cordoned node at {cordoned:?}"));
    for writes in plain {
        crash(w, writes, false).await?;
    }
    for writes in cordoned {
        crash(w, writes, true).await?;
    }
    w.scheduler()?.restart().await
}

/// Returns the numbers of writes after which the scheduler is killed, without and with a cordon.
pub(super) fn draw(requests: Requests, all: u32, seed: u64) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut random = SeededRandom(seed);
    let mut some = |count: usize| {
        let mut drawn = BTreeSet::new();
        while drawn.len() < count.min(usize::try_from(all).unwrap_or(0)) {
            drawn.insert(u32::try_from(random.draw_number() % u64::from(all.max(1))).unwrap_or(0));
        }
        drawn
    };
    match requests {
        Requests::Drawn(plain, cordoned) => (some(plain), some(cordoned)),
        Requests::Every => ((0..all).collect(), (0..all).step_by(4).collect()),
    }
}

/// Binds a gang without a fault, and returns how many writes the scheduler made for it.
async fn writes_of_a_gang(w: &mut World) -> Result<u32> {
    let client = w.client();
    waiting_gang(&client, "whole").await?;
    w.scheduler_faults()?.cut_after(u32::MAX);
    w.scheduler()?.restart().await?;
    is_whole(&client, "whole").await?;
    let all = w.scheduler_faults()?.cut_no_more();
    ensure!(usize::try_from(all)? >= MEMBERS, "only {all} writes were counted");
    w.scheduler()?.kill().await?;
    gone(&client, "whole").await?;
    Ok(all)
}

/// Creates a gang while no scheduler runs.
async fn waiting_gang(client: &Client, name: &str) -> Result<()> {
    Workload::new(name).replicas(u32::try_from(MEMBERS)?).gang(&MEMBERS.to_string()).make(client).await?;
    wait_until(secs(10), &format!("the pods of {name} exist"), || async {
        let count = pods_of(client, name).await?.len();
        Ok(Seen::when(count == MEMBERS, || count.to_string()))
    })
    .await?;
    wait_one_group(client, name, 10).await.map(drop)
}

/// Kills the scheduler after this many writes, cordons a node if wanted, starts it again, and checks what becomes of the gang.
async fn crash(w: &mut World, writes: u32, cordoned: bool) -> Result<()> {
    let client = w.client();
    let name = format!("gang-{writes}{}", if cordoned { "-cordoned" } else { "" });
    waiting_gang(&client, &name).await?;
    w.scheduler_faults()?.cut_after(writes);
    w.scheduler()?.launch()?;
    // A start can do with one or two statuses fewer than the first one.
    wait_until(secs(10), &format!("write {writes} of the scheduler is cut, or the gang runs"), || async {
        let runs = groups_of(&client, &name).await?.iter().any(|group| field(group, "/status/phase") == "Running");
        Ok(Seen::when(runs || w.scheduler_faults()?.is_cut(), || "neither".to_owned()))
    })
    .await?;
    // A part of the gang may be bound for longer than the observer forgives; this case has its own minute.
    w.watched()?.excuse(&[6]);
    w.scheduler()?.kill().await?;
    w.scheduler_faults()?.cut_no_more();
    if cordoned {
        cordon(&client, "n4", true).await?;
    }
    let before = bound(&client, &name).await?;
    w.scheduler()?.restart().await?;
    // A binding that was sent may have taken effect after the kill, and no further pod comes to the cordoned node.
    let on_n4 = pods_of(&client, &name).await?.iter().filter(|pod| node_of(pod) == Some("n4")).count();
    let fits = !cordoned || (NODES.len() - 1) * OF_A_NODE + on_n4 >= MEMBERS;
    if fits {
        is_whole(&client, &name).await?;
    } else {
        waits_as_a_whole(&client, &name, before).await?;
    }
    w.watched()?.insist(&[6]);
    accounting_matches_api(w).await?;
    if cordoned {
        cordon(&client, "n4", false).await?;
        is_whole(&client, &name).await?;
    }
    w.scheduler()?.kill().await?;
    gone(&client, &name).await
}

fn node_of(pod: &k8s_openapi::api::core::v1::Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Within a minute the whole gang runs, and its PodGroup says so.
async fn is_whole(client: &Client, name: &str) -> Result<()> {
    wait_running(client, name, MEMBERS, 60).await?;
    says(client, name, "it runs", |group| {
        field(group, "/status/phase") == "Running" && condition(group, "Unschedulable").is_none_or(|(status, ..)| status != "True")
    })
    .await
}

/// Within a minute no pod of the gang has a node, and its PodGroup says why.
async fn waits_as_a_whole(client: &Client, name: &str, before: usize) -> Result<()> {
    wait_until(secs(60), &format!("no pod of {name} has a node, of which {before} had one"), || async {
        let (count, there) = (bound(client, name).await?, pods_of(client, name).await?.len());
        Ok(Seen::when(count == 0 && there == MEMBERS, || format!("{count} of {there} have one")))
    })
    .await?;
    says(client, name, "a node is cordoned, and the others are too small", |group| {
        condition(group, "Unschedulable").is_some_and(|(status, _, text)| status == "True" && text.contains("unschedulable"))
    })
    .await
}

async fn says(client: &Client, name: &str, what: &str, is: impl Fn(&DynamicObject) -> bool) -> Result<()> {
    wait_until(secs(10), &format!("the PodGroup of {name} says: {what}"), || async {
        let groups = groups_of(client, name).await?;
        let said = |group: &DynamicObject| format!("{} {:?}", field(group, "/status/phase"), condition(group, "Unschedulable"));
        Ok(Seen::when(groups.iter().any(&is), || format!("{:?}", groups.iter().map(said).collect::<Vec<_>>())))
    })
    .await
}

/// Deletes the gang while no scheduler runs, and returns when its pods are gone.
async fn gone(client: &Client, name: &str) -> Result<()> {
    delete(client, name).await?;
    wait_until(secs(10), &format!("no pod of {name} is left"), || async {
        let count = pods_of(client, name).await?.len();
        Ok(Seen::when(count == 0, || count.to_string()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_requests_and_the_soak_takes_every_one() {
        let (plain, cordoned) = draw(Requests::Drawn(5, 3), 85, 7);
        assert_eq!((plain.len(), cordoned.len()), (5, 3));
        assert_eq!(draw(Requests::Drawn(5, 3), 85, 7), (plain.clone(), cordoned));
        assert_ne!(draw(Requests::Drawn(5, 3), 85, 8).0, plain);
        let (plain, cordoned) = draw(Requests::Every, 85, 7);
        assert!(plain.into_iter().eq(0..85) && cordoned.len() == 22);
    }
}
