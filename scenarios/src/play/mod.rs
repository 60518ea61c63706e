//! Plays a scenario: line by line, on a paused clock, with both programs.
//!
//! ```text
//!  line ─▶ verbs ─┬─ actions: change the cluster, the programs, the time ─▶ a pause of 1 s, in which everything follows
//!                 ╰─ checks: true within 10 s, or the scenario fails
//!        ─▶ observer: nothing wrong with what the API shows
//! ```
//!
//! The clock is tokio's paused one. It jumps to the next timer when nothing is left to do, so an hour of a scenario takes moments, and no
//! result depends on how fast the machine is.

mod actions;
mod checks;
mod disturbances;
mod report;
mod view;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use podgroup::runtime::clock;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cluster;
use crate::observer::Observer;
use crate::programs::{NAMESPACE, Programs};
use crate::server::kinds::Kind;
use crate::server::{Received, Server};
use crate::text::{self, Line, Words, duration};

/// How long after a line with an action the next one begins.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a check waits until it is true.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a check looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The cluster of a scenario.
pub struct World {
    server: Server,
    programs: Programs,
    observer: Observer,
    /// The programs of others in the cluster.
    _others: JoinSet<()>,
    /// How many requests had come at the last `mark`.
    marked: usize,
    /// The version of the objects at the last `mark`.
    marked_version: u64,
    /// Whether the scenario ordered something after which a gang may be bound in part: a fault, or the end of a program.
    disturbed: bool,
}

/// Plays the text of a scenario. The error says what a reader of the file needs.
pub fn play(text: &str) -> Result<()> {
    played(text).map(drop)
}

/// Plays the text of a scenario, and returns how many writes of a program arrived, without those of its lease.
pub fn writes(text: &str, program: &str) -> Result<usize> {
    let world = played(text)?;
    let is_one = |request: &&Received| request.writes && *request.sender == *program;
    Ok(world.server.inside().received.iter().filter(is_one).count())
}

fn played(text: &str) -> Result<World> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let played = runtime.block_on(async {
        let lines = text::read(text)?;
        if lines.is_empty() {
            bail!("the scenario is empty");
        }
        let mut world = World::start().await?;
        world.play(&lines).await?;
        Ok(world)
    });
    runtime.shutdown_background();
    played
}

impl World {
    /// Starts a cluster as the chart leaves it, and both programs unless the scenario starts them itself.
    async fn start() -> Result<Self> {
        let server = Server::new(clock::now());
        server.write(|store| {
            let mut add = |plural, object| Kind::by_plural(plural).map(|kind| store.add(kind, object));
            for name in ["default", "kube-system", NAMESPACE] {
                add("namespaces", json!({ "metadata": { "name": name } }));
            }
            // Without a holder: a lease that is missing may have one.
            for name in ["podgroup-controller", "podgroup-scheduler"] {
                add("leases", json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": {} }));
            }
        });
        let mut others = JoinSet::new();
        others.spawn(cluster::run(server.clone()));
        let programs = Programs::default();
        Ok(Self { server, programs, observer: Observer::default(), _others: others, marked: 0, marked_version: 0, disturbed: false })
    }

    async fn play(&mut self, lines: &[Line]) -> Result<()> {
        let starts = |line: &Line| line.verbs.iter().any(|words| words.plain.first().is_some_and(|verb| verb == "start"));
        if !lines.iter().any(starts) {
            self.programs.start(&self.server, "controller", &[])?;
            self.programs.start(&self.server, "scheduler", &[])?;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        for line in lines {
            let mut acted = false;
            let (times, verbs) = repeated(line)?;
            for round in 0..times {
                for words in verbs {
                    match self.verb(words, line).await {
                        Ok(action) => acted |= action,
                        Err(error) => bail!("{}", report::failure(self, line, &error.to_string())),
                    }
                }
                if round + 1 < times {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            if acted {
                tokio::time::sleep(PAUSE).await;
            }
            if let Some(wrong) = self.wrong() {
                bail!("{}", report::failure(self, line, &wrong));
            }
        }
        let end = Line {
            number: lines.last().map_or(0, |line| line.number),
            text: "(the end)".to_owned(),
            verbs: Vec::new(),
            block: json!(null),
        };
        if let Some(wrong) = self.audit().await {
            bail!("{}", report::failure(self, &end, &wrong));
        }
        Ok(())
    }

    /// Carries out a verb. Returns whether it was an action.
    async fn verb(&mut self, words: &Words, line: &Line) -> Result<bool> {
        if words.at(0)? == "try" {
            let words = Words { plain: words.plain[1..].to_vec(), ..words.clone() };
            // What the action is about may be gone.
            let _gone = actions::act(self, &words, &line.block).await;
            return Ok(true);
        }
        if actions::act(self, words, &line.block).await? {
            return Ok(true);
        }
        let (words, holds, patience) = match words.at(0)? {
            "for" => (rest(words)?, Some(duration(words.at(1)?)?), PATIENCE),
            "within" => (rest(words)?, None, duration(words.at(1)?)?),
            _ => (words.clone(), None, PATIENCE),
        };
        match holds {
            Some(time) => self.holds(&words, time).await?,
            None => self.becomes(&words, patience).await?,
        }
        Ok(false)
    }

    /// Waits until the check is true.
    async fn becomes(&self, words: &Words, patience: Duration) -> Result<()> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            match checks::check(self, words).await? {
                None => return Ok(()),
                Some(seen) if tokio::time::Instant::now() >= deadline => bail!("{seen}; it did not become true within {patience:?}"),
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Checks that it is true now, and for this time.
    async fn holds(&self, words: &Words, time: Duration) -> Result<()> {
        let (began, deadline) = (tokio::time::Instant::now(), tokio::time::Instant::now() + time);
        loop {
            if let Some(seen) = checks::check(self, words).await? {
                bail!("{seen}, after {:?} of the {time:?} for which it should be true", began.elapsed());
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns what the observer has found, and which programs have ended by themselves.
    fn wrong(&mut self) -> Option<String> {
        if let Some(name) = self.programs.ended().next() {
            return Some(format!("the {name} has ended by itself"));
        }
        let inside = self.server.inside();
        let mut wrong = self.observer.take_in(inside.store.log());
        drop(inside);
        if !self.disturbed {
            wrong.extend(self.observer.partial_gangs());
        }
        (!wrong.is_empty()).then(|| wrong.join("\n"))
    }

    /// Asks the scheduler for a recount at the end, and whether every ordered answer was needed.
    async fn audit(&self) -> Option<String> {
        if let Some(order) = self.server.inside().orders.left() {
            return Some(format!("an answer was ordered for `{}`, and no such request came", order.action));
        }
        if !self.programs.runs("scheduler") {
            return None;
        }
        match self.programs.ask("scheduler", "/debug/audit").await {
            Ok(audit) if audit["differences"].as_array().is_some_and(Vec::is_empty) => None,
            Ok(audit) => Some(format!("the accounting differs from a recount: {audit}")),
            Err(error) => Some(error.to_string()),
        }
    }

    fn kind(name: &str) -> Result<&'static Kind> {
        Kind::named(name).ok_or_else(|| anyhow!("`{name}` is no kind: pod, node, queue, group, deployment, job …"))
    }
}

/// Returns how often the verbs of a line are done: `repeat 25; scale d 0; scale d 1`.
fn repeated(line: &Line) -> Result<(usize, &[Words])> {
    match line.verbs.split_first() {
        Some((first, rest)) if first.at(0)? == "repeat" => Ok((first.number(1)?, rest)),
        _ => Ok((1, &line.verbs)),
    }
}

/// Returns the words of the check behind `for 30s` and `within 30s`.
fn rest(words: &Words) -> Result<Words> {
    words.at(2)?;
    Ok(Words { plain: words.plain[2..].to_vec(), ..words.clone() })
}
