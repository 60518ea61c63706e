//! U9: is the log of a healthy cluster quiet? Nothing is to be mended there, so no line may say that something is. A slip is told.

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::jobs_that_end::jobs_come_and_end;
use crate::wait::secs;
use crate::world::World;

/// Neither program logs a warning in a fresh cluster in which nothing happens for `time` seconds, and then Jobs come and end for a third of
/// that. The first bookmarks of the watches come within the first 75 s. A scheduler that serves the name of kube-scheduler warns.
pub(super) async fn nothing_cries_wolf(w: &mut World, time: u64) -> Result<()> {
    sleep(secs(time)).await;
    jobs_come_and_end(w, time / 3).await?;
    for log in [w.controller()?.log().to_owned(), w.scheduler()?.log().to_owned()] {
        let text = std::fs::read_to_string(&log)?;
        let warnings: Vec<&str> = text.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        ensure!(warnings.is_empty(), "{} of a healthy cluster has warnings: {warnings:#?}", log.display());
    }
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--scheduler-name=default-scheduler");
    scheduler.restart().await?;
    let text = std::fs::read_to_string(scheduler.log())?;
    ensure!(text.contains("WARN") && text.contains("this program serves default-scheduler"), "no warning about kube-scheduler's name");
    Ok(())
}
