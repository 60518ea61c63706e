//! Row Q4 for a leaf: a queue that is deleted while its pods run keeps its place in the tree until they are gone.

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use kube::{Client, ResourceExt};

use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, bound, group_says, pod_says, queue_uses};
use crate::http;
use crate::objects::{make_node, make_queue, queues};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, delete, pods_of, scale, wait_one_group, wait_running};
use crate::world::World;

/// Q4. `a` and `b` share 4 cpu; `a` uses 3 of them and is deleted. `b` gets one cpu, before and after a restart of the scheduler, and the rest when the pods of `a` are gone.
pub(super) async fn keeps_its_place(w: &mut World) -> Result<()> {
    let client = w.client();
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    // A deleted queue has no share, so its pods could be reclaimed.
    scheduler.also("--evictions=false");
    scheduler.restart().await?;
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "org", None, &[("cpu", "4")]).await?;
    for name in ["a", "b"] {
        make_queue(&client, name, Some("org"), &[]).await?;
    }
    Workload::new("runs").replicas(3).queue("a").make(&client).await?;
    wait_running(&client, "runs", 3, 10).await?;
    for pod in pods_of(&client, "runs").await? {
        let path = pod.annotations().get("podgroup.dev/queue-path").map(String::as_str);
        ensure!(path == Some("root/org/a"), "the binding wrote the path {path:?}");
    }
    queues(&client).delete("a", &DeleteParams::default()).await?;
    let port = w.scheduler()?.port();
    wait_until(secs(10), "the scheduler knows that the queue is deleted", || async {
        let all = http::json(port, "/debug/queues").await?;
        let a = all
            .get("queues")
            .and_then(|all| all.as_array())
            .into_iter()
            .flatten()
            .find(|queue| queue.get("name").is_some_and(|name| name == "a"));
        let exists = a.and_then(|queue| queue.get("exists")).cloned();
        Ok(Seen::when(exists == Some(false.into()), || format!("{a:?}")))
    })
    .await?;
    Workload::new("late").queue("a").make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, "queue \"a\" does not exist").await?;
    Workload::new("sibling").replicas(2).queue("b").make(&client).await?;
    one_of_the_siblings_runs(&client).await?;

    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.restart().await?;
    scale(&client, "sibling", 3).await?;
    pod_says(&client, "sibling", "queue \"org\" is over its quota").await?;
    one_of_the_siblings_runs(&client).await?;
    stays_unbound(w, "late", 0).await?;
    delete(&client, "runs").await?;
    wait_running(&client, "sibling", 3, 10).await?;
    queue_uses(&client, "org", "cpu", "3").await?;
    accounting_matches_api(w).await
}

async fn one_of_the_siblings_runs(client: &Client) -> Result<()> {
    let one = || async {
        let count = bound(client, "sibling").await?;
        Ok(Seen::when(count == 1, || count.to_string()))
    };
    wait_until(secs(15), "one pod of the sibling queue is bound", one).await?;
    holds_for(secs(3), "4 of 4 cpu are used below org", one).await?;
    queue_uses(client, "org", "cpu", "4").await
}
