//! Does minMember follow the size of its owner, and cost nothing where it need not?

use anyhow::{Result, ensure};
use kube::ResourceExt;

use crate::called::{self, tally, writes};
use crate::objects::{field, make_node, podgroups};
use crate::proxy::Dice;
use crate::recorded::Recording;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, live_replica_sets, scale, wait_one_group, wait_running};
use crate::world::World;

/// A gang of 4 is scaled up and down as an autoscaler does, 50 times between 2 and 10: minMember is the least of what is asked and what is wanted, is
/// written only where that changes, and nothing else is asked of the API server. Then up and down at leisure: each change is followed.
pub(super) async fn churn(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let recording = Recording::start(&client).await?;
    Workload::new("d").asks(&[("cpu", "100m")]).replicas(10).gang("4").make(&client).await?;
    wait_running(&client, "d", 10, 20).await?;
    let group = wait_one_group(&client, "d", 5).await?.name_any();
    let members = || async {
        let object = podgroups(&client).get(&group).await?;
        anyhow::Ok(field(&object, "/spec/minMember").as_i64().unwrap_or(0))
    };

    // Where at least 4 are wanted all the time nothing changes, and nothing is written.
    let moment = called::now(w)?;
    let mut dice = Dice(w.seed);
    for _ in 0..25 {
        scale(&client, "d", 4 + u32::try_from(dice.roll() % 7)?).await?;
    }
    scale(&client, "d", 7).await?;
    wait_running(&client, "d", 7, 20).await?;
    holds_for(secs(1), "minMember is 4", || async { Ok(Seen::when(members().await? == 4, || "it is not".to_owned())) }).await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.is_empty(), "25 changes that change nothing cost {:?}", tally(&calls));

    let moment = called::now(w)?;
    let (mut before, mut changes) = (4, 0);
    for _ in 0..50 {
        let wanted = 2 + u32::try_from(dice.roll() % 9)?;
        changes += usize::from(wanted.min(4) != before);
        before = wanted.min(4);
        scale(&client, "d", wanted).await?;
    }
    scale(&client, "d", 3).await?;
    changes += usize::from(before != 3);
    wait_running(&client, "d", 3, 20).await?;
    wait_until(secs(5), "minMember is 3", || async {
        let now = members().await?;
        Ok(Seen::when(now == 3, || now.to_string()))
    })
    .await?;
    let calls = called::since(w, moment)?;
    // At most one patch for each, and one Event about it.
    let events = calls.iter().filter(|call| call.resource == "events").count();
    ensure!(events <= changes && writes(&calls) <= changes + events, "{changes} changes cost {:?}", tally(&calls));

    for (replicas, expected) in [(2, 2), (1, 1), (5, 4), (3, 3), (10, 4)] {
        scale(&client, "d", replicas).await?;
        wait_until(secs(5), &format!("at {replicas} minMember is {expected}"), || async {
            let now = members().await?;
            Ok(Seen::when(now == expected, || now.to_string()))
        })
        .await?;
    }
    wait_running(&client, "d", 10, 20).await?;
    let sets = live_replica_sets(&client, "d").await?;
    ensure!(
        sets.len() == 1 && group == format!("podgroup-{}", sets.first().and_then(ResourceExt::uid).unwrap_or_default()),
        "it is another one"
    );
    recording.judge().await?;
    Ok(())
}
