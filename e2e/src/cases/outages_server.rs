//! Rows K3 to K5: both programs survive outages of the API server and of etcd.
//!
//! An outage shorter than the renew deadline (10 s by default; 24 s here, so that a busy machine does not decide) ends no program. A longer
//! one ends a leader with status 1, only because its lease is lost. The case then starts it again, as its kubelet would.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::outages_load::Load;
use crate::objects::NAMESPACE;
use crate::programs::Program;
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;
use crate::{chart, rights, say};

/// How long kube-controller-manager may stand still after outages that follow one another, in seconds: its reflectors wait up to 30 s before
/// the next list, and as long again by their jitter (client-go). Seen: it acted on a list of 62 s before, and nothing else was late.
const REFLECTORS: u64 = 90;

/// An outage that is certainly shorter than the renew deadline of [`with_long_leases`] less one retry period: no program may end within it.
const SHORT: Duration = secs(20);

/// K3. The API server is killed with -9 and started again, three times, while workloads are scaled.
pub(super) async fn api_server_restarts(w: &mut World) -> Result<()> {
    restarts(w, "kube-apiserver").await
}

/// K4. The same with etcd.
pub(super) async fn etcd_restarts(w: &mut World) -> Result<()> {
    restarts(w, "etcd").await
}

async fn restarts(w: &mut World, component: &str) -> Result<()> {
    with_long_leases(w).await?;
    let client = w.client();
    let load = Load::start(&client, 5, true).await?;
    for _ in 0..3 {
        let cluster = w.cluster();
        // A starting API server refuses every user until it has read the roles. During the outage no program can act, and a program without its lease
        // acts later.
        w.watched()?.excuse(&[1, 2, 6, 8]);
        let away = load
            .during(async {
                let start = Instant::now();
                cluster.restart(component).await?;
                answers(&client).await?;
                let away = start.elapsed();
                for program in [chart::CONTROLLER, chart::SCHEDULER] {
                    rights::known(&client, program).await?;
                }
                w.watched()?.insist(&[8]);
                // Give the programs time to continue and to see what went wrong.
                sleep(secs(3)).await;
                Ok(away)
            })
            .await?;
        say::line(format!("        {component} was down for {:.1} s", away.as_secs_f64()));
        let mut ended = false;
        for program in w.programs() {
            ended |= !program.runs();
            lives(program, away < SHORT).await?;
        }
        if !ended {
            w.watched()?.insist(&[1, 2, 6]);
        }
    }
    // An end of kube-controller-manager after the last restart.
    w.cluster().start_missing().await?;
    load.wait_correct(REFLECTORS).await?;
    w.watched()?.insist(&[1, 2, 6]);
    Ok(())
}

/// K5. The API server hangs (SIGSTOP) for 5 s while workloads are scaled: no program ends, and the final state is correct.
pub(super) async fn api_server_hangs(w: &mut World) -> Result<()> {
    with_long_leases(w).await?;
    let load = Load::start(&w.client(), 5, true).await?;
    let away = hangs(w, &load, 5).await?;
    say::line(format!("        no answer for {:.1} s", away.as_secs_f64()));
    if away >= SHORT {
        // A program without its lease acts later.
        w.watched()?.excuse(&[1, 2, 6]);
    }
    for program in w.programs() {
        lives(program, away < SHORT).await?;
    }
    w.cluster().start_missing().await?;
    load.wait_correct(if away < SHORT { 30 } else { 60 }).await?;
    w.watched()?.insist(&[1, 2, 6]);
    Ok(())
}

/// K5-long. The same for 30 s, longer than any lease: both programs end because the lease is lost, are started again, and the final state is correct.
pub(super) async fn api_server_hangs_long(w: &mut World) -> Result<()> {
    let load = Load::start(&w.client(), 5, true).await?;
    // No program acts until both have their leases again.
    w.watched()?.excuse(&[1, 2, 6]);
    hangs(w, &load, 30).await?;
    for program in w.programs() {
        ensure!(!program.runs(), "{} still runs after 30 s without a renewal", program.name());
        lives(program, false).await?;
    }
    w.cluster().start_missing().await?;
    load.wait_correct(60).await?;
    w.watched()?.insist(&[1, 2, 6]);
    Ok(())
}

/// Stops the API server for so many seconds, and returns how long it gave no answer: on a slow machine it needs a while to catch up.
async fn hangs(w: &World, load: &Load, seconds: u64) -> Result<Duration> {
    let cluster = w.cluster();
    let client = w.client();
    load.during(async {
        // The load runs for a while before, so that the API server hangs in the middle of some work.
        sleep(secs(6)).await;
        let start = Instant::now();
        cluster.signal("kube-apiserver", "STOP").await?;
        sleep(secs(seconds)).await;
        cluster.signal("kube-apiserver", "CONT").await?;
        answers(&client).await?;
        let away = start.elapsed();
        sleep(secs(3)).await;
        Ok(away)
    })
    .await
}

/// Waits until the API server answers as a renewal of a lease needs it: three writes in a row, each within a second. On a busy machine it
/// answers a read long before, and no lease can be renewed meanwhile.
async fn answers(client: &kube::Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(60), "the API server answers three writes in a row, each within a second", || async {
        for turn in 0..3 {
            let text = format!("{turn} at {:?}", Instant::now());
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "answers"}, "data": {"turn": text}});
            let (params, map) = (PatchParams::apply("e2e").force(), Patch::Apply(map));
            match timeout(secs(1), maps.patch("answers", &params, &map)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Ok(Seen::NotYet(format!("{error:?}"))),
                Err(_) => return Ok(Seen::NotYet("no answer within a second".to_owned())),
            }
            sleep(Duration::from_millis(300)).await;
        }
        Ok(Seen::Yes(()))
    })
    .await
}

/// Starts both programs with leases that an outage of a few seconds ends on no machine.
async fn with_long_leases(w: &mut World) -> Result<()> {
    for program in w.programs() {
        program.restart_with(&["--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=24s"]).await?;
    }
    Ok(())
}

/// Checks that the program runs. Unless it `must` run, it may have ended with status 1 because its lease was lost; then it is started again.
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
