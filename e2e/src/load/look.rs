//! How is a load watched without being one? Counts instead of lists, twice a second: what the figures are made of comes from the audit log, and these looks only
//! say when it is over.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::wait::{millis, secs};

/// Between two looks.
const PACE: Duration = millis(500);

/// A wave that takes longer has failed: far above what a machine needs on which ten other things run.
const PATIENCE: Duration = secs(900);

/// How many objects there are; the server counts and sends only the first.
pub async fn count<K>(api: &Api<K>) -> Result<usize>
where
    K: Clone + DeserializeOwned + Debug,
{
    let page = api.list(&ListParams::default().limit(1)).await?;
    let rest = page.metadata.remaining_item_count.unwrap_or_default();
    Ok(page.items.len() + usize::try_from(rest)?)
}

/// Waits until there are exactly `wanted`.
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

/// Waits until no pod is in another phase than Running.
pub async fn until_all_run(pods: &Api<k8s_openapi::api::core::v1::Pod>, wanted: usize) -> Result<()> {
    until_count(pods, wanted, "pods are there").await?;
    until("all pods run", || async {
        let others = pods.list_metadata(&ListParams::default().fields("status.phase!=Running").limit(1)).await?;
        Ok(if others.items.is_empty() { Ok(()) } else { Err("some do not".to_owned()) })
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
        if start.elapsed() > PATIENCE {
            bail!("not within {PATIENCE:?}: {what}; last seen: {seen}");
        }
        sleep(PACE).await;
    }
}
