//! Are the PodGroups right when controllers are killed, and when two of them work at once? Rows K1 and K2.

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep, sleep_until};

use super::outages_load::Load;
use crate::lease::{QUICK, transitions, wait_holder};
use crate::proxy::{Delay, Dice};
use crate::replica::Replica;
use crate::wait::{Seen, holds_for, millis, secs};
use crate::world::World;
use crate::{chart, leaders, say};

/// K1. `kill -9` of the controller every second, so many times, whatever it is at: started, listing, or with writes under way. Without an election: its lease
/// would keep the next one from work for longer than each lives, and it is the protocol that is tried. Everything flaps meanwhile.
pub(super) async fn killed_every_second(w: &mut World, kills: u32) -> Result<()> {
    let load = Load::start(&w.client(), 5, true).await?;
    let controller = w.controller()?;
    controller.terminate().await?;
    controller.also("--leader-elect=false");
    controller.restart().await?;
    // On a slow machine a start takes a life, and six of those in a row more than the grace of 5 s.
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
    load.comes_right(30).await
}

/// K1-slow. `kill -9` every 1.5 to 3 s, 20 times, over a path that takes 200 to 500 ms: long enough for a retirement to begin, so that many die between the
/// mark, the look and the deletion, and the next one finds what they left.
pub(super) async fn killed_while_retiring(w: &mut World, kills: u32) -> Result<()> {
    let mut load = Load::start(&w.client(), 10, true).await?;
    load.stays_away_for(secs(4));
    w.controller_path()?.delay(Delay::Between(millis(200), millis(500)), Delay::None);
    let mut dice = Dice(w.seed);
    let controller = w.controller()?;
    controller.terminate().await?;
    controller.also("--leader-elect=false");
    controller.restart().await?;
    // A start over the slow path and the steps of a retirement take longer than the grace of 5 s where three die in a row.
    w.watched()?.excuse(&[1]);
    let controller = w.controller()?;
    let killing = async {
        for _ in 0..kills {
            sleep(millis(1500 + dice.roll() % 1500)).await;
            controller.kill().await?;
            controller.launch()?;
        }
        Ok(())
    };
    load.during(killing).await?;
    w.controller()?.wait_ready().await?;
    w.controller_path()?.delay(Delay::None, Delay::None);
    w.watched()?.insist(&[1]);
    load.comes_right(30).await
}

/// K1-elected. The same with the election (a lease of 6 s) and a second replica: whoever leads is killed as soon as it has begun to, 5 times.
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
    // Who waits for a lease lets groups wait for as long: the lease, a retry, and the start.
    w.watched()?.excuse(&[1, 2, 6]);
    let terms = transitions(&client).await?;
    let controller = w.controller()?;
    let two = &mut second;
    let killing = async {
        for _ in 0..5 {
            let holder =
                wait_holder(&client, 20, "one of the two", |holder| holder.starts_with("one_") || holder.starts_with("two_")).await?;
            let leader = if holder.starts_with("one_") { &mut *controller } else { &mut two.program };
            leader.kill().await?;
            leader.launch()?;
            // The other one, or the next life of this one.
            wait_holder(&client, 20, "somebody else", |now| now != holder).await?;
        }
        Ok(())
    };
    load.during(killing).await?;
    w.watched()?.insist(&[1, 2, 6]);
    load.comes_right(30).await?;
    let terms = transitions(&client).await? - terms;
    ensure!(terms >= 5, "the Lease changed hands {terms} times, and 5 leaders were killed");
    two_never_acted(w, 1)?;
    second.end().await
}

/// Nobody wrote beside the holder of the Lease; that it went between replicas so often, counted in `terms`, shows that the log was read.
pub(super) fn two_never_acted(w: &World, terms: usize) -> Result<()> {
    let seen = leaders::read(&w.cluster().audit_log(), &chart::user(chart::CONTROLLER))?;
    ensure!(
        seen.beside.is_empty(),
        "{} writes beside the holder of the Lease: {}",
        seen.beside.len(),
        seen.beside.first().map_or("", String::as_str)
    );
    ensure!(seen.terms.len() >= terms && !seen.writes.is_empty(), "the audit log tells of {} terms, {terms} are wanted", seen.terms.len());
    Ok(())
}

/// K2. Two controllers that both believe they lead (no election), one of them slow, while 20 Deployments flap: every promise holds, the writes stay in
/// proportion, and at rest neither writes.
pub(super) async fn two_believe_they_lead(w: &mut World) -> Result<()> {
    let load = Load::start(&w.client(), 20, false).await?;
    let controller = w.controller()?;
    controller.terminate().await?;
    controller.also("--leader-elect=false");
    controller.restart().await?;
    let mut second = Replica::start(w, "two", &["--leader-elect=false"], &[]).await?;
    second.program.wait_ready().await?;
    let before = writes(w)?;
    let start = Instant::now();
    load.during(async {
        sleep_until(start + secs(30)).await;
        Ok(())
    })
    .await?;
    load.comes_right(30).await?;
    // A retirement is finished a second or two after the last pod is gone.
    let (rest, at_rest) = (secs(5), writes(w)?);
    let quiet = holds_for(rest, "neither writes at rest", || async {
        let now = writes(w)?;
        Ok(Seen::when(now == at_rest, || format!("{} writes of PodGroups", now - at_rest)))
    });
    quiet.await?;
    let (count, groups) = (at_rest - before, u64::try_from(load.groups())?);
    // A flap is at most a mark, its end or a deletion, a creation and an amendment for each of the two, and each meets the other once.
    let bound = groups * (load.flaps() + 1) * 12;
    say::line(format!("        K2: {count} writes by both, of {groups} PodGroups that flapped {} times; {bound} may be", load.flaps()));
    ensure!(count <= bound, "{count} writes of PodGroups, at most {bound} may be");
    let seen = leaders::read(&w.cluster().audit_log(), &chart::user(chart::CONTROLLER))?;
    ensure!(seen.writes.len() == 2, "both must have written, and {:?} did", seen.writes);
    second.end().await
}

/// How often the controllers wrote PodGroups so far, answered with whatever.
pub(super) fn writes(w: &World) -> Result<u64> {
    let counts = w.requests()?.counts;
    let of = |verb: &str| counts.get(&format!("{} {verb} podgroups", chart::CONTROLLER)).copied().unwrap_or_default();
    Ok(["create", "update", "patch", "delete"].iter().map(|verb| of(verb)).sum())
}
