//! Row K8: two releases in one cluster do not touch each other's PodGroups.

use anyhow::{Result, ensure};
use kube::ResourceExt;

use super::outages::writes;
use crate::objects::make_node;
use crate::replica::Replica;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, groups_of, wait_one_group, wait_running};
use crate::world::World;

/// K8. A second controller serves another scheduler. Each controller creates its own PodGroups and makes no write to the others: no mark, no DELETE.
pub(super) async fn each_its_own(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("first").replicas(3).gang("3").make(&client).await?;
    wait_running(&client, "first", 3, 10).await?;
    let first = wait_one_group(&client, "first", 10).await?;

    let mut second = Replica::start(w, "second", &["--scheduler-name=second", "--leader-elect=false"], &[]).await?;
    second.program.wait_ready().await?;
    Workload::new("second").scheduler("second").make(&client).await?;
    let other = wait_one_group(&client, "second", 10).await?;

    // Longer than the delay, the check and the deletion of a PodGroup together.
    // The cluster shows an object before the API server has logged its creation.
    wait_until(secs(10), "both creations are logged", || async {
        let count = writes(w)?;
        Ok(Seen::when(count >= 2, || count.to_string()))
    })
    .await?;
    let before = writes(w)?;
    holds_for(secs(6), "both groups stay as they are", || async {
        for (name, group) in [("first", &first), ("second", &other)] {
            let now = groups_of(&client, name).await?;
            let same =
                matches!(now.as_slice(), [one] if one.uid() == group.uid() && !one.annotations().contains_key("podgroup.dev/retiring"));
            if !same {
                return Ok(Seen::NotYet(format!(
                    "{name}: {:?}",
                    now.iter().map(|one| (one.uid(), one.annotations().clone())).collect::<Vec<_>>()
                )));
            }
        }
        Ok(Seen::Yes(()))
    })
    .await?;
    let written = writes(w)? - before;
    ensure!(written == 0, "{written} writes of PodGroups although nothing changed");
    second.end().await
}
