//! Row K25: what a handover costs beside many waiting pods.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::time::Instant;

use super::handover::{LEADER_CHANGED, submit, two_schedulers, wait_leader};
use super::preempted::ranked;
use crate::objects::{make_member, make_node, make_podgroup};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{http, say};

/// K25. What a handover costs beside so many waiting pods: the seconds until a new pod is bound, after a clean end and after a kill, and
/// the writes. Up to 1,000 waiting pods that is 2 s and 20 s.
pub(super) async fn costs(w: &mut World, waiting: usize) -> Result<()> {
    let client = w.client();
    let (clean_limit, unclean_limit) = if waiting <= 1000 { (2, 20) } else { (60, 120) };
    let mut standby = two_schedulers(w).await?;
    make_node(&client, "n2", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    // Their gang is never complete.
    make_podgroup(&client, "waits", json!({"minMember": waiting + 1})).await?;
    stream::iter(0..waiting)
        .map(|number| {
            let client = client.clone();
            async move { make_member(&client, &format!("waits-{number}"), "waits", &[("cpu", "1m")]).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let port = standby.port();
    wait_until(secs(120), "the standby knows the waiting pods", || async {
        let queues = http::json(port, "/debug/queues").await?.to_string();
        Ok(Seen::when(http::get(port, "/readyz").await?.0 == 200, || queues))
    })
    .await?;
    let began = Instant::now();
    w.scheduler()?.terminate_within(secs(10)).await?;
    let ended = began.elapsed();
    submit(&client, "clean", "high").await?;
    wait_running(&client, "clean", 1, clean_limit).await?;
    let clean = began.elapsed();
    w.scheduler()?.restart().await?;
    let began = Instant::now();
    standby.kill().await?;
    wait_leader(&client, "one", 30).await?;
    let leads = began.elapsed();
    make_podgroup(&client, "unclean", json!({"minMember": 1, "queue": "default"})).await?;
    ranked(&client, "unclean-0", "unclean", "high", "1").await?;
    wait_running(&client, "unclean", 1, unclean_limit).await?;
    let unclean = began.elapsed();
    let fenced = pods_of(&client, "waits").await?.into_iter().filter_map(|pod| pod.status?.conditions);
    let fenced = fenced.filter(|conditions| conditions.iter().any(|condition| condition.type_ == LEADER_CHANGED)).count();
    say::line(format!(
        "        K25: {waiting} waiting pods: SIGTERM, ended after {:.1} s, a new pod ran after {:.1} s; kill -9, the lease was taken after {:.1} s, a new pod ran {:.1} s later; {fenced} pods were changed",
        ended.as_secs_f64(),
        clean.as_secs_f64(),
        leads.as_secs_f64(),
        (unclean - leads).as_secs_f64()
    ));
    ensure!(fenced == waiting, "{fenced} of {waiting} pods were changed");
    standby.restart().await?;
    standby.terminate().await
}
