//! Waits for the end of a load with few requests: counts instead of lists, twice a second. All measurements come from the audit log.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::wait::{millis, secs};

/// The time between two checks.
const PACE: Duration = millis(500);

/// The time limit of a wave: far more than a busy machine needs.
const TIMEOUT: Duration = secs(900);

/// Returns the number of objects. The server counts them and sends only the first.
pub async fn count<K>(api: &Api<K>) -> Result<usize>
where
    K: Clone + DeserializeOwned + Debug,
{
    let page = api.list(&ListParams::default().limit(1)).await?;
    let rest = page.metadata.remaining_item_count.unwrap_or_default();
    Ok(page.items.len() + usize::try_from(rest)?)
}

/// Waits until there are exactly `wanted` objects.
pub async fn until_count<K>(api: &Api<K>, wanted: usize, what: &str) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    until(what, || async {
        let there = count(api).await?;
        Ok((there == wanted).then_some(()).ok_or_else(|| format!("{there} of {wanted}")))
    })
    .await
}

/// Waits until every pod is in the phase Running.
pub async fn until_all_run(pods: &Api<k8s_openapi::api::core::v1::Pod>, wanted: usize) -> Result<()> {
    until_count(pods, wanted, "pods exist").await?;
    until("all pods run", || async {
        let others = pods.list_metadata(&ListParams::default().fields("status.phase!=Running").limit(1)).await?;
        Ok(if others.items.is_empty() { Ok(()) } else { Err("some pods do not run".to_owned()) })
    })
    .await
}

async fn until<F>(what: &str, mut look: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<Result<(), String>>>,
{
    let start = Instant::now();
    loop {
        let Err(seen) = look().await? else { return Ok(()) };
        if start.elapsed() > TIMEOUT {
            bail!("not within {TIMEOUT:?}: {what}; last seen: {seen}");
        }
        sleep(PACE).await;
    }
}
