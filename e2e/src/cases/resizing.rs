//! Row L7-churn: minMember follows the size of its owner, without unnecessary writes.

use anyhow::{Result, ensure};
use kube::ResourceExt;

use crate::called::{self, tally, writes};
use crate::objects::{field, make_node, podgroups};
use crate::proxy::Dice;
use crate::recorded::Recording;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, live_replica_sets, scale, wait_one_group, wait_running};
use crate::world::World;

/// A gang of 4 is scaled 50 times between 2 and 10, as by an autoscaler: minMember is the smaller of the requested number and the replicas, is
/// written only when it changes, and there is no other API call. Then it is scaled slowly, and each change is followed.
pub(super) async fn churn(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let recording = Recording::start(&client).await?;
    Workload::new("d").asks(&[("cpu", "100m")]).replicas(10).gang("4").make(&client).await?;
    wait_running(&client, "d", 10, 10).await?;
    let group = wait_one_group(&client, "d", 10).await?.name_any();
    let members = || async {
        let object = podgroups(&client).get(&group).await?;
        anyhow::Ok(field(&object, "/spec/minMember").as_i64().unwrap_or(0))
    };

    // With at least 4 replicas all the time nothing changes, so nothing is written.
    let moment = called::now(w).await?;
    let mut dice = Dice(w.seed);
    for _ in 0..25 {
        scale(&client, "d", 4 + u32::try_from(dice.roll() % 7)?).await?;
    }
    scale(&client, "d", 7).await?;
    wait_running(&client, "d", 7, 10).await?;
    holds_for(secs(1), "minMember is 4", || async { Ok(Seen::when(members().await? == 4, || "minMember is another value".to_owned())) })
        .await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.is_empty(), "25 changes that change nothing cost {:?}", tally(&calls));

    let moment = called::now(w).await?;
    let (mut before, mut changes) = (4, 0);
    for _ in 0..50 {
        let wanted = 2 + u32::try_from(dice.roll() % 9)?;
        changes += usize::from(wanted.min(4) != before);
        before = wanted.min(4);
        scale(&client, "d", wanted).await?;
    }
    scale(&client, "d", 3).await?;
    changes += usize::from(before != 3);
    wait_running(&client, "d", 3, 10).await?;
    wait_until(secs(10), "minMember is 3", || async {
        let now = members().await?;
        Ok(Seen::when(now == 3, || now.to_string()))
    })
    .await?;
    let calls = called::since(w, moment)?;
    // At most one patch and one Event for each change.
    let events = calls.iter().filter(|call| call.resource == "events").count();
    ensure!(events <= changes && writes(&calls) <= changes + events, "{changes} changes cost {:?}", tally(&calls));

    for (replicas, expected) in [(2, 2), (1, 1), (5, 4), (3, 3), (10, 4)] {
        scale(&client, "d", replicas).await?;
        wait_until(secs(10), &format!("at {replicas} minMember is {expected}"), || async {
            let now = members().await?;
            Ok(Seen::when(now == expected, || now.to_string()))
        })
        .await?;
    }
    wait_running(&client, "d", 10, 10).await?;
    let sets = live_replica_sets(&client, "d").await?;
    ensure!(
        sets.len() == 1 && group == format!("podgroup-{}", sets.first().and_then(ResourceExt::uid).unwrap_or_default()),
        "the PodGroup was recreated"
    );
    recording.judge().await?;
    Ok(())
}
