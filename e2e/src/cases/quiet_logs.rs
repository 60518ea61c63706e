//! U9: is the log of a healthy cluster quiet? Nothing is to be mended there, so no line may say that something is.

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::jobs_that_end::jobs_come_and_end;
use crate::wait::secs;
use crate::world::World;

/// Neither program logs a warning in a fresh cluster in which nothing happens for `time` seconds, and then Jobs come and end for a third of
/// that. The first bookmarks of the watches come within the first 75 s.
pub(super) async fn nothing_cries_wolf(w: &mut World, time: u64) -> Result<()> {
    sleep(secs(time)).await;
    jobs_come_and_end(w, time / 3).await?;
    for log in [w.controller()?.log().to_owned(), w.scheduler()?.log().to_owned()] {
        let text = std::fs::read_to_string(&log)?;
        let warnings: Vec<&str> = text.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        ensure!(warnings.is_empty(), "{} of a healthy cluster has warnings: {warnings:#?}", log.display());
    }
    Ok(())
}
