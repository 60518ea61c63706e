//! Rows K6 and K7: no controller acts without the Lease, when the Lease is taken away and when clocks jump.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use super::outages::only_the_holder_wrote;
use super::outages_load::Load;
use crate::fakeclock::{FakeClock, clock_offset};
use crate::lease::{LONGER_THAN_QUICK, QUICK, holder, renewed, take_lease, transitions, wait_holder};
use crate::proxy::Delay;
use crate::replica::Replica;
use crate::wait::{Seen, holds_for, millis, secs, unchanged, wait_until};
use crate::world::World;
use crate::{chart, leaders, say};

/// K6. Another identity writes itself into the Lease while the leader has slow writes in progress. The leader ends with status 1 for that
/// reason and acts no more. When the other identity's time is over, the second replica leads and completes the work.
pub(super) async fn lease_taken_away(w: &mut World) -> Result<()> {
    let client = w.client();
    let load = Load::start(&client, 10, true).await?;
    let mut second = Replica::start(w, "two", &[], &[]).await?;
    second.program.wait_ready().await?;
    w.controller_path()?.delay(Delay::Between(millis(50), millis(200)), Delay::None);
    w.watched()?.excuse(&[1, 2, 6]);
    let former = load
        .during(async {
            // Give it time to have writes in progress.
            sleep(secs(2)).await;
            let former = take_lease(&client, "thief", 15).await?;
            let start = Instant::now();
            let controller = w.controller()?;
            let status = controller.wait_end(secs(10)).await?;
            say::line(format!("        K6: the former leader ended {:.1} s after it lost the Lease", start.elapsed().as_secs_f64()));
            ensure!(status.code() == Some(1), "the former leader ended with {status}");
            let log = std::fs::read_to_string(controller.log())?;
            ensure!(log.contains("is lost: thief holds it"), "its log does not name the new holders lease");
            // A request in progress arrives within the delay of the path, 0.2 s, and is in the log soon after. The time of the other
            // identity is not over by then.
            let before = no_more_writes(w).await?;
            let now_leads = wait_holder(&client, 60, "the second replica", |holder| holder.starts_with("two_")).await?;
            let after = leaders::read(&w.cluster().audit_log(), &chart::user(chart::CONTROLLER))?.writes;
            for (writer, count) in &before {
                ensure!(
                    after.get(writer) == Some(count),
                    "{writer} wrote {count} times before it lost the Lease and {:?} times in all",
                    after.get(writer)
                );
            }
            ensure!(former != now_leads, "the former leader leads again");
            w.controller()?.restart().await?;
            Ok(former)
        })
        .await?;
    w.watched()?.insist(&[1, 2, 6]);
    load.wait_correct(60).await?;
    ensure!(holder(&client).await?.starts_with("two_"), "{former} lost the Lease, and the second replica does not lead");
    only_the_holder_wrote(w, 2)?;
    second.end().await
}

/// Waits until no process of the controller writes for a second, and returns how often each has written.
async fn no_more_writes(w: &World) -> Result<BTreeMap<String, u64>> {
    let read = || anyhow::Ok(leaders::read(&w.cluster().audit_log(), &chart::user(chart::CONTROLLER))?.writes);
    unchanged(secs(10), secs(1), "no process of the controller writes", read).await
}

/// K7. The leader's wall clock jumps by ±10 s and ±1 h, and back, while workloads are scaled: it keeps and renews the Lease, and the other
/// replica waits.
pub(super) async fn clock_jumps(w: &mut World) -> Result<()> {
    let client = w.client();
    let clock = FakeClock::new(w.cluster().scratch().folder(), "clock-one")?;
    let load = Load::start(&client, 5, true).await?;
    start_with_clock(w, &clock).await?;
    wait_holder(&client, 30, "the replica with the changed clock", |holder| holder.starts_with("one_")).await?;
    let mut second = Replica::start(w, "two", &QUICK, &[]).await?;
    second.program.wait_ready().await?;
    let terms = transitions(&client, chart::CONTROLLER).await?;
    for seconds in [10, -10, 3600, -3600, 0] {
        clock.set(seconds)?;
        wait_until(secs(10), &format!("the Lease is renewed with a clock that is {seconds:+} s wrong"), || async {
            let off = clock_offset(renewed(&client).await?);
            Ok(Seen::when((off - seconds).abs() <= 4, || format!("renewed with a clock that is {off:+} s wrong")))
        })
        .await?;
        // Longer than the lease duration: a leader that used the wall clock would have lost the Lease in this time.
        load.during(holds_for(LONGER_THAN_QUICK, &format!("the leader leads with a clock that is {seconds:+} s wrong"), || async {
            // A busy API server may answer late, which this case does not test.
            let holder = holder(&client).await?;
            Ok(Seen::when(holder.starts_with("one_"), || format!("{holder} leads")))
        }))
        .await?;
    }
    ensure!(transitions(&client, chart::CONTROLLER).await? == terms, "the Lease changed its holder");
    load.wait_correct(30).await?;
    only_the_holder_wrote(w, 1)?;
    second.end().await
}

/// K7-two. Two replicas have clocks one hour apart, and the clocks jump while the replicas take turns: there is no moment at which both act.
pub(super) async fn clocks_apart(w: &mut World) -> Result<()> {
    let client = w.client();
    let folder = w.cluster().scratch().folder().to_owned();
    let (one, two) = (FakeClock::new(&folder, "clock-one")?, FakeClock::new(&folder, "clock-two")?);
    one.set(3600)?;
    let load = Load::start(&client, 5, true).await?;
    start_with_clock(w, &one).await?;
    let mut second = Replica::start(w, "two", &QUICK, &two.environment()).await?;
    second.program.wait_ready().await?;
    w.watched()?.excuse(&[1, 2, 6]);
    let controller = w.controller()?;
    let other = &mut second.program;
    load.during(async {
        for jump in [3600, -10, 10, -3600] {
            let leads = wait_holder(&client, 30, "one of the two replicas", |holder| !holder.is_empty()).await?;
            let (leader, clock) = if leads.starts_with("one_") { (&mut *controller, &two) } else { (&mut *other, &one) };
            // The clock of the waiting replica jumps: it must not take the lease for expired.
            clock.set(jump)?;
            holds_for(LONGER_THAN_QUICK, "the lease keeps its holder", || async {
                let now = holder(&client).await?;
                Ok(Seen::when(now == leads, || format!("{now} holds it instead of {leads}")))
            })
            .await?;
            leader.kill().await?;
            wait_holder(&client, 30, "the other replica", |now| now != leads && !now.is_empty()).await?;
            leader.restart().await?;
        }
        Ok(())
    })
    .await?;
    w.watched()?.insist(&[1, 2, 6]);
    load.wait_correct(60).await?;
    only_the_holder_wrote(w, 2)?;
    second.end().await
}

/// Starts the controller of the case with a short lease and with that clock.
async fn start_with_clock(w: &mut World, clock: &FakeClock) -> Result<()> {
    let controller = w.controller()?;
    controller.terminate().await?;
    QUICK.iter().for_each(|flag| controller.also(flag));
    controller.environment("HOSTNAME", "one");
    clock.environment().iter().for_each(|(name, value)| controller.environment(name, value));
    controller.restart().await
}
