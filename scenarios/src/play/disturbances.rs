//! What disturbs the programs: their ends and starts, other answers than usual, silent watches, a broken connection?

use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::World;
use crate::server::orders::{Answer, Order};
use crate::text::{Words, duration};

/// `start scheduler --admission-timeout=90s`, `stop scheduler` (SIGTERM), `kill scheduler` (SIGKILL), `restart scheduler` (SIGTERM, then start).
pub(super) async fn program(world: &mut World, words: &Words) -> Result<()> {
    let name = words.at(1)?;
    let flags: Vec<&str> = words.plain.iter().skip(2).map(String::as_str).collect();
    match words.at(0)? {
        "start" => {
            world.programs.start(&world.server, name, &flags)?;
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        "stop" => {
            world.disturbed = true;
            world.programs.stop(name).await?;
        }
        "kill" => {
            world.disturbed = true;
            world.programs.kill(name)?;
            world.server.mend(name);
        }
        _ => {
            world.disturbed = true;
            world.programs.stop(name).await?;
            world.programs.start(&world.server, name, &flags)?;
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
    }
    Ok(())
}

/// `silence queues [by scheduler-2] [repeating]`, `speak queues`.
pub(super) fn silence(world: &World, words: &Words) -> Result<()> {
    words.only(2, &["repeating"], &["by"])?;
    let (kind, by) = (World::kind(words.at(1)?)?, words.option("by"));
    let silent = words.at(0)? == "silence";
    world
        .server
        .write(|store| if silent { store.silence(kind.plural, by, words.has("repeating", 2)) } else { store.speak(kind.plural, by) });
    Ok(())
}

/// `cut scheduler [after=7]`: nothing of the program arrives any more, at once or after so many writes; `mend scheduler`: it arrives again.
pub(super) fn cut(world: &mut World, words: &Words) -> Result<()> {
    words.only(2, &[], &["after"])?;
    world.disturbed = true;
    let name = words.at(1)?;
    if words.at(0)? == "mend" {
        world.server.mend(name);
    } else {
        world.server.cut(name, words.option("after").map_or(Ok(0), str::parse)?);
    }
    Ok(())
}

/// `ended scheduler`: the program ends by itself within 60 s, as one that has lost its lease does.
pub(super) async fn ended(world: &mut World, words: &Words) -> Result<()> {
    let name = words.at(1)?;
    for _ in 0..60 {
        if !world.programs.runs(name) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.programs.forget_ended(name)?;
    world.server.mend(name);
    Ok(())
}

/// `answer 409 to bind of g-0 times=2`, `answer late 5s to evict`, `answer lost to create podgroups`; `answer as usual` ends all orders.
pub(super) fn answer(world: &mut World, words: &Words) -> Result<()> {
    world.disturbed = true;
    let mut plain = words.plain.iter().skip(1).map(String::as_str);
    let first = plain.next().unwrap_or_default();
    let mut time = || plain.next().ok_or_else(|| anyhow!("`{first}` needs a time")).and_then(duration);
    let answer = match first {
        "as" => {
            world.server.inside().orders.clear();
            return Ok(());
        }
        "late" => Answer::Late(time()?),
        "slow" => Answer::Slow(time()?),
        "hangs" => Answer::Hangs(time()?),
        "old" => Answer::Old(world.marked_version),
        "usual" => Answer::Usual,
        "lost" => Answer::Lost,
        "never" => Answer::Never,
        "unreachable" => Answer::Unreachable,
        code => Answer::Code(
            code.parse()
                .map_err(|_| anyhow!("`{code}` is no answer: a code as 409, late 5s, slow 5s, hangs 30s, lost, never, unreachable, old"))?,
        ),
    };
    if plain.next() != Some("to") {
        bail!("to which request? As in `answer 409 to bind`");
    }
    let action = plain.collect::<Vec<_>>().join(" ");
    let times = match words.option("times") {
        Some("always") => usize::MAX,
        Some(times) => times.parse()?,
        None => 1,
    };
    let option = |name: &str| words.option(name).unwrap_or_default().to_owned();
    let order = Order { action, subject: option("of"), namespace: option("namespace"), sender: option("by"), times, answer };
    world.server.inside().orders.add(order);
    Ok(())
}
