//! Owners that exist only for a short time: nothing is left over, and no work is repeated without an end.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ListParams, PropagationPolicy};

use crate::called::{self, tally};
use crate::objects::make_node;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, delete_as, groups_made};
use crate::world::World;
use tokio::time::sleep;

/// 50 Deployments, StatefulSets and Jobs are created and deleted at once, so that they vanish between any two calls. Nothing is left over,
/// and each costs a bounded number of calls.
pub(in crate::cases) async fn owners_that_vanish(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let moment = called::now(w).await?;
    stream::iter(0..50)
        .map(|number| {
            let (client, name) = (client.clone(), format!("vanishes-{number}"));
            async move {
                let (kind, owner) = match number % 4 {
                    0 => (Kind::StatefulSet, Owner::stateful_set(&name, Order::Parallel)),
                    1 => (Kind::Job, Owner::job(&name, 1)),
                    _ => (Kind::Deployment, Owner::deployment(&name)),
                };
                owner.asks(&[("cpu", "10m")]).make(&client).await?;
                // They live for different times: some milliseconds to some tenths of a second after the first sign that a controller works on them.
                if number % 3 == 0 {
                    wait_until(secs(10), &format!("{name} has a pod"), || async {
                        let there = crate::workloads::pods_of(&client, &name).await?.len();
                        Ok(Seen::when(there > 0, || "none".to_owned()))
                    })
                    .await?;
                }
                delete_as(&client, kind, &name, PropagationPolicy::Background).await
            }
        })
        .buffer_unordered(8)
        .try_collect::<Vec<()>>()
        .await?;
    w.end_faults().await?;
    // While an owner is there, its PodGroup is created again after the garbage collector has deleted it.
    for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::Job] {
        wait_until(secs(10), &format!("no {kind:?} is left"), || async {
            let left = kind.api(&client).list(&ListParams::default()).await?.items.len();
            Ok(Seen::when(left == 0, || format!("{left}")))
        })
        .await?;
    }
    // A creation that was sent before the controller saw the deletion of its owner may still arrive, and the garbage collector deletes what it made.
    wait_until(secs(15), "no PodGroup is left, and no call was made for a second", || async {
        let calls = called::since(w, moment)?.len();
        sleep(secs(1)).await;
        let (left, more) = (groups_made(&client).await?, called::since(w, moment)?.len() - calls);
        Ok(Seen::when(left.is_empty() && more == 0, || format!("{left:?}, and {more} calls in the last second")))
    })
    .await?;
    let before = called::since(w, moment)?;
    ensure!(!w.faults().is_empty() || before.len() <= 50 * 6, "50 owners cost {:?}", tally(&before));
    let rest = called::now(w).await?;
    holds_for(secs(2), "no PodGroup comes back", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(made.is_empty(), || format!("{made:?}")))
    })
    .await?;
    let calls = called::since(w, rest)?;
    // A request that a fault delayed may still be retried.
    ensure!(!w.faults().is_empty() || calls.is_empty(), "calls go on after the end: {:?}", tally(&calls));
    Ok(())
}
