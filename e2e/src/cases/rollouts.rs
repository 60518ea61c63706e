//! Does a Deployment get through its rollouts? Rows L7 and L15.

use anyhow::Result;

use crate::objects::make_node;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, groups_of, set_image, wait_one_group, wait_rolled_out, wait_running};
use crate::world::World;

/// L7 (#4739). 4 replicas, group-min-member 4, maxSurge 1, maxUnavailable 0; change the image: the rollout finishes.
pub(super) async fn surge_of_a_full_gang(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("d").replicas(4).gang("4").rolling(1, 0).make(&client).await?;
    wait_running(&client, "d", 4, 20).await?;
    set_image(&client, "d", "example/2").await?;
    wait_rolled_out(&client, "d", 60).await?;
    wait_one_group(&client, "d", 15).await?;
    Ok(())
}

/// L15 (#1853). Ten rollouts of a Deployment: one PodGroup is left.
pub(super) async fn ten_rollouts(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("d").replicas(2).make(&client).await?;
    wait_running(&client, "d", 2, 20).await?;
    for number in 2..12 {
        set_image(&client, "d", &format!("example/{number}")).await?;
        wait_rolled_out(&client, "d", 30).await?;
    }
    wait_until(secs(15), "one PodGroup is left", || async {
        let left = groups_of(&client, "d").await?.len();
        Ok(Seen::when(left == 1, || left.to_string()))
    })
    .await?;
    wait_one_group(&client, "d", 1).await?;
    Ok(())
}
