//! Stops, kills and freezes the replicas of a program, one at a time, by a seed: what happens to pods in an upgrade, on a node that dies,
//! on a machine that hangs. The other replica goes on.
//!
//! Most of it hits the leader. A freeze is longer than a lease every second time, so that the other replica leads when the frozen one wakes up.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::Client;
use tokio::time::{Instant, sleep};

use crate::chart;
use crate::lease::leases;
use crate::programs::Program;
use crate::proxy::SeededRandom;
use crate::say;
use crate::wait::{millis, secs};
use crate::world::{LEASE_OF_TWO_SECONDS, World};

/// How long a replica may take to end: a scheduler waits for the answers to its bindings, which the faults hold back.
const DRAINED: Duration = secs(30);

/// How long a program may be without a leader: a lease, and its start on a slow machine.
const LED: Duration = secs(60);

/// How many kinds of blows there are.
const KINDS: usize = 3;

/// What happens to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// SIGTERM, and a new start.
    Stop,
    /// SIGKILL, and a new start.
    Kill,
    /// SIGSTOP, and SIGCONT after this time.
    Freeze(Duration),
}

impl Blow {
    /// Returns its name in the counts.
    const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stopped",
            Self::Kill => "killed",
            Self::Freeze(_) => "frozen",
        }
    }
}

/// How often each blow hit a leader: `stopped`, `killed`, `frozen`.
pub type Blows = BTreeMap<&'static str, u32>;

/// One blow of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    /// The pause before it, in which a new leader binds something.
    pause: Duration,
    blow: Blow,
    /// The program that it hits.
    name: &'static str,
    /// Whether it hits the leader; otherwise the standby.
    leader: bool,
}

/// The order of blows, drawn from a seed. Of each three in a row one is of each kind. The first three hit the leader of the scheduler.
#[derive(Clone, Debug)]
struct Order {
    random: SeededRandom,
    left: Vec<Blow>,
    drawn: u32,
}

impl Order {
    fn new(seed: u64) -> Self {
        Self { random: SeededRandom(seed), left: Vec::new(), drawn: 0 }
    }

    fn next(&mut self) -> Turn {
        if self.left.is_empty() {
            let lease = secs(LEASE_OF_TWO_SECONDS);
            let long = self.random.draw_number().is_multiple_of(2);
            let frozen =
                if long { lease + millis(1000 + self.random.draw_number() % 4000) } else { millis(500 + self.random.draw_number() % 3000) };
            self.left = vec![Blow::Stop, Blow::Kill, Blow::Freeze(frozen)];
            self.left.rotate_left(usize::try_from(self.random.draw_number() % 3).unwrap_or(0));
            if self.random.draw_number().is_multiple_of(2) {
                self.left.reverse();
            }
        }
        self.drawn = self.drawn.saturating_add(1);
        let pause = millis(3000 + self.random.draw_number() % 4000);
        let mut mostly = || !self.random.draw_number().is_multiple_of(4);
        let first = self.drawn <= 3;
        let (of_scheduler, leader) = (mostly() || first, mostly() || first);
        let name = if of_scheduler { chart::SCHEDULER } else { chart::CONTROLLER };
        Turn { pause, blow: self.left.pop().unwrap_or(Blow::Stop), name, leader }
    }
}

/// Deals blows to the replicas of both programs until `end`, and until each kind has hit a leader of the scheduler. Afterwards all of them
/// run. Returns the counts of those that hit a leader of the scheduler.
pub async fn until(world: &mut World, seed: u64, end: Instant) -> Result<Blows> {
    let (client, mut order, mut blows) = (world.client(), Order::new(seed), Blows::new());
    loop {
        let Turn { pause, blow, name, leader } = order.next();
        sleep(pause).await;
        if Instant::now() >= end && blows.len() == KINDS {
            break;
        }
        let leads = leading(world, &client, name).await?;
        let mut replicas = world.replicas(name);
        let target = if leader { leads } else { 1 - leads };
        let program = replicas.get_mut(target).context("a replica")?;
        if !program.runs() {
            // A standby that lost its lease before, and waits for its next start.
            continue;
        }
        say::line(format!("        {blow:?}: {name} {}, which {}", target + 1, if leader { "leads" } else { "does not lead" }));
        deal(program, blow).await.with_context(|| format!("{blow:?} of {name} {}", target + 1))?;
        if leader && name == chart::SCHEDULER {
            *blows.entry(blow.name()).or_default() += 1;
        }
    }
    for program in world.programs() {
        program.wait_ready_within(secs(60)).await?;
    }
    Ok(blows)
}

async fn deal(program: &mut Program, blow: Blow) -> Result<()> {
    match blow {
        Blow::Stop => program.terminate_within(DRAINED).await?,
        Blow::Kill => program.kill().await?,
        Blow::Freeze(time) => {
            program.signal("STOP").await?;
            sleep(time).await;
            return program.signal("CONT").await;
        }
    }
    // As a kubelet, which needs some time.
    sleep(secs(1)).await;
    program.launch()?;
    if blow == Blow::Kill {
        // No process leads until the lease has run out.
        sleep(secs(LEASE_OF_TWO_SECONDS)).await;
    }
    Ok(())
}

/// Waits until one replica of the program holds its Lease and runs, and returns which.
async fn leading(world: &mut World, client: &Client, name: &'static str) -> Result<usize> {
    let (mut replicas, start) = (world.replicas(name), Instant::now());
    loop {
        let holder = holder(client, name).await;
        // The name of the second replica begins with that of the first.
        let leads = usize::from(holder.starts_with(&format!("{name}-2_")));
        if !holder.is_empty() && replicas.get_mut(leads).is_some_and(|program| program.runs()) {
            return Ok(leads);
        }
        ensure!(start.elapsed() < LED, "no running replica of {name} has held its Lease for {LED:?}; now {holder:?} does");
        sleep(millis(200)).await;
    }
}

/// Returns the holder of the program's Lease; empty when it is not known.
async fn holder(client: &Client, name: &str) -> String {
    let lease = leases(client).get_opt(name).await.ok().flatten();
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_blows_and_every_kind_of_them() {
        let draw = |seed| {
            let mut order = Order::new(seed);
            (0..60).map(|_| order.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for seed in 0..20 {
            let turns = draw(seed);
            for three in turns.chunks(3) {
                let names: std::collections::BTreeSet<_> = three.iter().map(|turn| turn.blow.name()).collect();
                assert_eq!(names.len(), 3, "{three:?}");
            }
            assert!(turns.iter().take(3).all(|turn| turn.leader && turn.name == chart::SCHEDULER));
            assert!(turns.iter().any(|turn| !turn.leader) && turns.iter().any(|turn| turn.name == chart::CONTROLLER));
            let frozen = turns.iter().filter_map(|turn| if let Blow::Freeze(time) = turn.blow { Some(time) } else { None });
            let (short, long): (Vec<_>, Vec<_>) = frozen.partition(|time| *time < secs(LEASE_OF_TWO_SECONDS));
            assert!(!short.is_empty() && !long.is_empty(), "{short:?} {long:?}");
        }
    }
}
