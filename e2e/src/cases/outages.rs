//! Row K1: the PodGroups are right when controllers are killed.

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep, sleep_until};

use super::outages_load::Load;
use crate::lease::{QUICK, transitions, wait_holder};
use crate::proxy::{Delay, SeededRandom};
use crate::replica::Replica;
use crate::wait::{millis, secs};
use crate::world::World;
use crate::{chart, leaders};

/// K1. `kill -9` of the controller every second, `kills` times, in any phase: starting, listing, or writing. Without an election, because its lease
/// would keep the next process waiting for longer than each one lives, and the protocol is what this case tests. Meanwhile the workloads are scaled
/// up and down.
pub(super) async fn killed_every_second(w: &mut World, kills: u32) -> Result<()> {
    let load = Load::start(&w.client(), 5, true).await?;
    let controller = w.controller()?;
    controller.terminate().await?;
    controller.also("--leader-elect=false");
    controller.restart().await?;
    // On a slow machine a start takes the whole life of a process, and six of them in a row exceed the grace of 5 s.
    w.watched()?.excuse(&[1]);
    let controller = w.controller()?;
    let killing = async {
        let mut due = Instant::now();
        for _ in 0..kills {
            due += secs(1);
            sleep_until(due).await;
            controller.kill().await?;
            controller.launch()?;
        }
        Ok(())
    };
    load.during(killing).await?;
    w.controller()?.wait_ready().await?;
    w.watched()?.insist(&[1]);
    load.wait_correct(30).await
}

/// K1-slow. `kill -9` every 1.5 to 3 s, 20 times, over a path with a delay of 200 to 500 ms. This is long enough for a deletion of a
/// PodGroup to begin, so many processes die between mark, check and delete, and the next process finds an unfinished deletion.
pub(super) async fn killed_while_retiring(w: &mut World, kills: u32) -> Result<()> {
    let mut load = Load::start(&w.client(), 10, true).await?;
    load.set_pause(secs(4));
    w.controller_path()?.delay(Delay::Between(millis(200), millis(500)), Delay::None);
    let mut random = SeededRandom(w.seed);
    let controller = w.controller()?;
    controller.terminate().await?;
    controller.also("--leader-elect=false");
    controller.restart().await?;
    // A start over the slow path and the steps of a deletion exceed the grace of 5 s if three processes in a row die.
    w.watched()?.excuse(&[1]);
    let controller = w.controller()?;
    let killing = async {
        for _ in 0..kills {
            sleep(millis(1500 + random.draw_number() % 1500)).await;
            controller.kill().await?;
            controller.launch()?;
        }
        Ok(())
    };
    load.during(killing).await?;
    w.controller()?.wait_ready().await?;
    w.controller_path()?.delay(Delay::None, Delay::None);
    w.watched()?.insist(&[1]);
    load.wait_correct(30).await
}

/// K1-elected. The same with the election (a lease of 10 s) and a second replica: the leader is killed as soon as it is active, 5 times.
pub(super) async fn leaders_killed(w: &mut World) -> Result<()> {
    let client = w.client();
    let load = Load::start(&client, 5, true).await?;
    let controller = w.controller()?;
    controller.terminate().await?;
    QUICK.iter().for_each(|flag| controller.also(flag));
    controller.environment("HOSTNAME", "one");
    controller.restart().await?;
    let mut second = Replica::start(w, "two", &QUICK, &[]).await?;
    second.program.wait_ready().await?;
    // A replica that waits for the lease cannot act: the lease duration, a retry, and the start.
    w.watched()?.excuse(&[1, 2, 6]);
    let terms = transitions(&client, chart::CONTROLLER).await?;
    let controller = w.controller()?;
    let two = &mut second;
    let killing = async {
        for _ in 0..5 {
            let holder =
                wait_holder(&client, 30, "one of the two replicas", |holder| holder.starts_with("one_") || holder.starts_with("two_"))
                    .await?;
            let leader = if holder.starts_with("one_") { &mut *controller } else { &mut two.program };
            leader.kill().await?;
            leader.launch()?;
            // The other replica, or the restarted one.
            wait_holder(&client, 30, "a new holder", |now| now != holder).await?;
        }
        Ok(())
    };
    load.during(killing).await?;
    w.watched()?.insist(&[1, 2, 6]);
    load.wait_correct(30).await?;
    let terms = transitions(&client, chart::CONTROLLER).await? - terms;
    ensure!(terms >= 5, "the Lease changed hands {terms} times, and 5 leaders were killed");
    only_the_holder_wrote(w, 1)?;
    second.end().await
}

/// Checks that only the holder of the Lease wrote. At least `terms` changes of the holder show that the log was read.
pub(super) fn only_the_holder_wrote(w: &World, terms: usize) -> Result<()> {
    let seen = leaders::read(&w.cluster().audit_log(), &chart::user(chart::CONTROLLER))?;
    ensure!(
        seen.beside.is_empty(),
        "{} writes by other processes than the holder of the Lease: {}",
        seen.beside.len(),
        seen.beside.first().map_or("", String::as_str)
    );
    ensure!(
        seen.terms.len() >= terms && !seen.writes.is_empty(),
        "the audit log shows {} terms, at least {terms} are expected",
        seen.terms.len()
    );
    Ok(())
}

/// Returns how many writes of PodGroups the controllers made so far, with any response but a refusal.
pub(super) fn writes(w: &World) -> Result<u64> {
    let counts = w.requests()?.counts;
    let of = |verb: &str| counts.get(&format!("{} {verb} podgroups", chart::CONTROLLER)).copied().unwrap_or_default();
    Ok(["create", "update", "patch", "delete"].iter().map(|verb| of(verb)).sum())
}
