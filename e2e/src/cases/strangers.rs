//! Do the pods of other schedulers cost anything? Row L14.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};

use crate::called::{self, tally};
use crate::objects::make_node;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, groups_made, patch, resize};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;
use kube::api::ListParams;
use serde_json::json;

/// How many ReplicaSets; the row says 1,000.
fn many() -> u32 {
    std::env::var("STRANGERS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// How many of the case's own requests are under way at once.
const AT_ONCE: usize = 16;

/// L14 (#3671). 200 ReplicaSets of another scheduler (`STRANGERS=1000`: as many as the row says) are made, scaled and restarted, and deleted: no API call
/// of the controller for any of them, while one Deployment of ours is served as ever.
pub(super) async fn cost_nothing(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi"), ("pods", "2500")]).await?;
    Workload::new("ours").make(&client).await?;
    wait_running(&client, "ours", 1, 20).await?;
    let ours = wait_one_group(&client, "ours", 5).await?;

    let quiet = called::now(w)?;
    let names: Vec<String> = (0..many()).map(|number| format!("other-{number:04}")).collect();
    let each = |act: &str| {
        let (act, client) = (act.to_owned(), client.clone());
        let todo = names.clone();
        async move {
            stream::iter(todo)
                .map(|name| {
                    let (act, client) = (act.clone(), client.clone());
                    async move {
                        match act.as_str() {
                            "make" => drop(
                                Owner::deployment(&name)
                                    .asks(&[("cpu", "10m")])
                                    .scheduler("somebody-elses")
                                    .gang("2")
                                    .make(&client)
                                    .await?,
                            ),
                            "grow" => resize(&client, Kind::Deployment, &name, 2).await?,
                            "restart" => {
                                let stamp = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
                                drop(patch(&client, Kind::Deployment, &name, json!({"spec": {"template": stamp}})).await?);
                            }
                            _ => resize(&client, Kind::Deployment, &name, 0).await?,
                        }
                        anyhow::Ok(())
                    }
                })
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<()>>()
                .await
        }
    };
    for (act, per_set) in [("make", 1), ("grow", 2), ("restart", 3), ("shrink", 0)] {
        each(act).await?;
        // Not the end of anybody's rollout (nobody places these pods): only that kube-controller-manager has done its part.
        let wanted = usize::try_from(many())? * per_set;
        wait_until(secs(120), &format!("the pods that {act} makes are there"), || async {
            let theirs = ListParams::default().fields("spec.schedulerName=somebody-elses");
            let pods = Kind::Pod.api(&client).list_metadata(&theirs).await?.items.len();
            Ok(Seen::when(if act == "shrink" { pods == 0 } else { pods >= wanted }, || format!("{pods} of {wanted}")))
        })
        .await?;
    }
    let calls = called::since(w, quiet)?;
    ensure!(calls.is_empty(), "the controller made calls: {:?}, the first {}", tally(&calls), calls.first().map_or("", |call| &call.line));
    let made = groups_made(&client).await?;
    ensure!(made.len() == 1, "there are {made:?}");

    // And it is not asleep.
    resize(&client, Kind::Deployment, "ours", 3).await?;
    wait_running(&client, "ours", 3, 20).await?;
    ensure!(wait_one_group(&client, "ours", 5).await?.metadata.uid == ours.metadata.uid, "it is another one");
    Ok(())
}
