//! Row L4-again: another client deletes a PodGroup again and again, as the garbage collector may after a restore of etcd.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::DeleteParams;
use tokio::time::{Instant, sleep};

use crate::called::{self, tally};
use crate::objects::{make_node, podgroups};
use crate::say;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::events::{wait_warning, warnings};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;

/// How long the other client deletes.
const DELETES_FOR: u64 = 20;

/// The creations in that time: two at once, and those after 5 s and 10 s more.
const MOST_CREATIONS: u64 = 4;

/// The wait that is under way when the deletions end is 20 s; the rest is for a busy machine.
const LAST_WAIT: u64 = 25;

/// L4-again. For 20 s another client deletes the PodGroup of a Deployment as soon as it exists. The controller creates it a few times only and reports it in
/// one Event. Then the PodGroup is back within the wait, and no pod was affected.
pub(super) async fn less_and_less_often(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("d").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "d", 2, 10).await?;
    let name = wait_one_group(&client, "d", 10).await?.name_any();
    // The pods have no PodGroup for longer than the observer allows.
    w.watched()?.excuse(&[1]);
    let moment = called::now(w).await?;
    let (end, mut deletions) = (Instant::now() + secs(DELETES_FOR), 0_usize);
    while Instant::now() < end {
        match podgroups(&client).delete(&name, &DeleteParams::default()).await {
            Ok(_) => deletions += 1,
            Err(kube::Error::Api(status)) if status.code == 404 => sleep(millis(20)).await,
            Err(error) => return Err(error.into()),
        }
    }
    let calls = tally(&called::since(w, moment)?);
    let creations = calls.get("create podgroups").copied().unwrap_or(0);
    say::line(format!("        {creations} creations, {deletions} deletions in {DELETES_FOR} s"));
    ensure!((3..=MOST_CREATIONS).contains(&creations), "{creations} creations for {deletions} deletions: {calls:?}");
    wait_warning(&client, "Deployment", "d", "PodGroupDeletedRepeatedly", &name).await?;
    let events = warnings(&client, "Deployment", "d").await?;
    ensure!(events.len() == 1, "one episode is one Event: {events:?}");

    wait_until(secs(LAST_WAIT), "the PodGroup is back", || async {
        let found = podgroups(&client).get_opt(&name).await?;
        Ok(Seen::when(found.is_some(), || "it does not exist".to_owned()))
    })
    .await?;
    wait_one_group(&client, "d", 10).await?;
    wait_running(&client, "d", 2, 1).await
}
