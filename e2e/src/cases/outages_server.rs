//! Do both programs outlive the API server and etcd? Rows K3 to K5.
//!
//! What must be so: an outage that is shorter than the renew deadline (10 s by default) ends nobody. A longer one ends a leader with status 1, and only
//! for its lost lease; it is started again here as its kubelet would.

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use super::outages_load::Load;
use crate::programs::Program;
use crate::say;
use crate::wait::secs;
use crate::world::World;

/// Outages that are surely shorter than the renew deadline less a retry period: within them nobody may end.
const SHORT: std::time::Duration = secs(7);

/// K3. The API server is killed with -9 and started again, three times, while everything flaps.
pub(super) async fn api_server_restarts(w: &mut World) -> Result<()> {
    restarts(w, "kube-apiserver").await
}

/// K4. The same with etcd.
pub(super) async fn etcd_restarts(w: &mut World) -> Result<()> {
    restarts(w, "etcd").await
}

async fn restarts(w: &mut World, component: &str) -> Result<()> {
    let load = Load::start(&w.client(), 5, true).await?;
    for _ in 0..3 {
        let cluster = w.cluster();
        // An API server that starts refuses everybody until it has read the roles. While it is away nobody acts, and who lost a lease for it acts later.
        w.watched()?.excuse(&[1, 2, 6, 8]);
        let away = load
            .during(async {
                let start = Instant::now();
                cluster.restart(component).await?;
                let away = start.elapsed();
                w.watched()?.insist(&[8]);
                // Things go on, and those that went wrong are seen.
                sleep(secs(3)).await;
                Ok(away)
            })
            .await?;
        say::line(format!("        {component} was away for {:.1} s", away.as_secs_f64()));
        let mut ended = false;
        for program in w.programs() {
            ended |= !program.runs();
            lives(program, away < SHORT).await?;
        }
        if !ended {
            w.watched()?.insist(&[1, 2, 6]);
        }
    }
    load.comes_right(60).await?;
    w.watched()?.insist(&[1, 2, 6]);
    Ok(())
}

/// K5. The API server stands still (SIGSTOP) for 5 s, while everything flaps: nobody ends, and all comes right.
pub(super) async fn api_server_hangs(w: &mut World) -> Result<()> {
    let load = Load::start(&w.client(), 5, true).await?;
    hangs(w, &load, 5).await?;
    for program in w.programs() {
        lives(program, true).await?;
    }
    load.comes_right(30).await
}

/// K5-long. The same for 30 s, longer than any lease: both programs end for their lost lease, are started again, and all comes right.
pub(super) async fn api_server_hangs_long(w: &mut World) -> Result<()> {
    let load = Load::start(&w.client(), 5, true).await?;
    // Nobody is there until both have their lease again.
    w.watched()?.excuse(&[1, 2, 6]);
    hangs(w, &load, 30).await?;
    for program in w.programs() {
        ensure!(!program.runs(), "{} led for 30 s without having renewed", program.name());
        lives(program, false).await?;
    }
    load.comes_right(60).await?;
    w.watched()?.insist(&[1, 2, 6]);
    Ok(())
}

async fn hangs(w: &World, load: &Load, seconds: u64) -> Result<()> {
    let cluster = w.cluster();
    load.during(async {
        // Things go on before, so that it stands still in the middle of something.
        sleep(secs(6)).await;
        cluster.signal("kube-apiserver", "STOP").await?;
        sleep(secs(seconds)).await;
        cluster.signal("kube-apiserver", "CONT").await?;
        sleep(secs(3)).await;
        Ok(())
    })
    .await
}

/// The program runs. Unless it `must`, it may have ended as it says that it does: with status 1, because its lease was lost; then it is started again.
async fn lives(program: &mut Program, must: bool) -> Result<()> {
    if program.runs() {
        return Ok(());
    }
    let name = program.name();
    ensure!(!must, "{name} ended in an outage of less than {SHORT:?}");
    let status = program.wait_end(secs(1)).await?;
    let log = std::fs::read_to_string(program.log())?;
    ensure!(status.code() == Some(1), "{name} ended with {status}");
    ensure!(
        log.contains("the lease podgroup-system/") && log.contains("is lost"),
        "{name} ended, and its log does not say that its lease is lost"
    );
    program.restart().await
}
