//! Measures the time without a leader after a leader ends, with two replicas of the controller and the default flags, for three ways to end.
//!
//! Two moments are measured as any client sees them: the other replica holds the Lease, and a PodGroup exists for a Deployment that was
//! created when the leader ended.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use tokio::time::{Instant, sleep};

use crate::lease::{holder, wait_holder};
use crate::objects::make_node;
use crate::programs::Program;
use crate::proxy::{Proxy, SeededRandom};
use crate::replica::Replica;
use crate::say;
use crate::scratch::{self, Scratch};
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{Workload, deployments, groups_of, wait_one_group, wait_running};
use crate::world::{Setup, World};

/// The longest time in seconds: a lease duration, a retry, and reserve for a busy machine.
const LONGEST: u64 = 40;

/// The way in which a leader ends.
#[derive(Clone, Copy, Debug)]
enum Way {
    Clean,
    Killed,
    Cut,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean end (SIGTERM)",
            Self::Killed => "kill -9",
            Self::Cut => "network cut",
        }
    }
}

/// The two times, from the end of the former leader.
struct Took {
    lease: Duration,
    group: Duration,
}

/// Measures each way `repeat` times and prints the table in Markdown.
pub async fn measure(repeat: u32) -> Result<()> {
    let setup = Setup::default();
    let mut world = World::bare(Scratch::new("takeover")?, "takeover", &setup, scratch::random()).await?;
    world.install(&setup).await?;
    let mut table = Vec::new();
    let outcome = rounds(&mut world, repeat, &mut table).await;
    let against = world.verdict(true).await;
    // Ending a world waits for its processes.
    tokio::task::spawn_blocking(move || drop(world)).await?;
    outcome?;
    ensure!(against.is_empty(), "the run itself failed: {}", against.join("; "));
    table.iter().for_each(|line: &String| say::line(line));
    Ok(())
}

async fn rounds(world: &mut World, repeat: u32, table: &mut Vec<String>) -> Result<()> {
    let client = world.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    // Between two leaders no controller creates PodGroups: this is what is measured.
    world.watched()?.excuse(&[1, 2, 6]);
    let mut second = Replica::start(world, "two", &[], &[]).await?;
    second.program.wait_ready().await?;
    table.push("| the leader's end | runs | Lease: min | median | max | PodGroup: min | median | max |".to_owned());
    table.push("|---|---|---|---|---|---|---|---|".to_owned());
    let mut random = SeededRandom(world.seed);
    for way in [Way::Clean, Way::Killed, Way::Cut] {
        let mut all = Vec::new();
        for round in 1..=repeat {
            // Before each round: a leader that has led for a while, and a second replica that has seen it.
            wait_holder(&client, LONGEST, "any replica", |holder| !holder.is_empty()).await?;
            // A random moment between two renewals.
            sleep(secs(5) + millis(random.draw_number() % 2000)).await;
            let name = format!("takeover-{way:?}-{round}").to_lowercase();
            let took = one(world, &mut second, way, &name).await.with_context(|| format!("{}, run {round}", way.name()))?;
            say::line(format!("{}: Lease {:.2} s, PodGroup {:.2} s", way.name(), took.lease.as_secs_f64(), took.group.as_secs_f64()));
            all.push(took);
        }
        table.push(row(way, &all));
    }
    world.watched()?.insist(&[1, 2, 6]);
    second.end().await
}

/// Measures one takeover; afterwards both replicas run again.
async fn one(world: &mut World, second: &mut Replica, way: Way, name: &str) -> Result<Took> {
    let client = world.client();
    let led = holder(&client).await?;
    let second_leads = led.starts_with("two_");
    let gone = match (way, second_leads) {
        (Way::Cut, true) => cut(&second.path),
        (Way::Cut, false) => cut(world.controller_path()?),
        (Way::Clean, true) => clean(&mut second.program).await?,
        (Way::Clean, false) => clean(world.controller()?).await?,
        (Way::Killed, true) => killed(&mut second.program).await?,
        (Way::Killed, false) => killed(world.controller()?).await?,
    };
    let lease = async {
        wait_holder(&client, LONGEST, "the other replica", |now| !now.is_empty() && now != led).await?;
        Ok::<_, anyhow::Error>(gone.elapsed())
    };
    let group = async {
        Workload::new(name).asks(&[("cpu", "100m")]).make(&client).await?;
        wait_until(secs(LONGEST), "the Deployment that was created meanwhile has a PodGroup", || async {
            Ok(Seen::when(!groups_of(&client, name).await?.is_empty(), || "none".to_owned()))
        })
        .await?;
        Ok(gone.elapsed())
    };
    let (lease, group) = tokio::try_join!(lease, group)?;
    let again = if second_leads { &mut second.program } else { world.controller()? };
    if matches!(way, Way::Cut) {
        let status = again.wait_end(secs(LONGEST)).await?;
        ensure!(status.code() == Some(1), "the replica without a connection ended with {status}");
        if second_leads { second.path.refuse(false) } else { world.controller_path()?.refuse(false) }
    }
    let again = if second_leads { &mut second.program } else { world.controller()? };
    again.restart().await?;
    wait_running(&client, name, 1, 30).await?;
    wait_one_group(&client, name, 5).await?;
    deployments(&client).delete(name, &DeleteParams::background()).await?;
    Ok(Took { lease, group })
}

/// Returns the moment at which the process is gone, because it may work until then.
async fn clean(program: &mut Program) -> Result<Instant> {
    program.terminate().await?;
    Ok(Instant::now())
}

async fn killed(program: &mut Program) -> Result<Instant> {
    program.kill().await?;
    Ok(Instant::now())
}

fn cut(path: &Proxy) -> Instant {
    path.refuse(true);
    path.cut();
    Instant::now()
}

fn row(way: Way, all: &[Took]) -> String {
    let [lease, group] = [|took: &Took| took.lease, |took: &Took| took.group].map(|which| {
        let mut times: Vec<Duration> = all.iter().map(which).collect();
        times.sort_unstable();
        let at = |index: usize| times.get(index).map_or_else(|| "-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
        format!("{} | {} | {}", at(0), at(times.len() / 2), at(times.len().saturating_sub(1)))
    });
    format!("| {} | {} | {lease} | {group} |", way.name(), all.len())
}
