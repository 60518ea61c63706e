//! Prints the results as the tables of `docs/performance.md`, so that a run can be compared with it.

use std::collections::BTreeMap;

use super::burst::{Burst, Quiet};
use super::race::{Race, Rate, label};
use super::wave::Wave;
use crate::say;

/// Prints the table of the race.
pub fn race(race: &Race) {
    say::headline("PodGroup creations per second");
    let tried = race.tried.iter().map(|(at_once, rate)| format!("{:.0} with {at_once}", rate.per_second));
    let tried: Vec<String> = tried.collect();
    say::line(format!("flood of {} PodGroups by requests under way: {}; taken: {}\n", race.objects, tried.join(", "), race.best));
    say::line("| round | flood, 1/s | controller | its rate, 1/s | ratio | flood, CPU ms each | controller, CPU ms each |");
    say::line("|---|---|---|---|---|---|---|");
    for (number, round) in race.rounds.iter().enumerate() {
        for (workers, rate) in &round.controllers {
            let (flood, ratio) = (round.flood.per_second, rate.per_second / round.flood.per_second);
            let (name, own, other) = (label(*workers), costs(&round.flood), costs(rate));
            say::line(format!("| {} | {flood:.0} | {name} | {:.0} | {ratio:.2} | {own} | {other} |", number + 1, rate.per_second));
        }
    }
    let mut variants: Vec<Option<u16>> = race.rounds.iter().flat_map(|round| &round.controllers).map(|(workers, _)| *workers).collect();
    variants.sort_unstable();
    variants.dedup();
    for workers in variants {
        let ratios = race.ratios(workers);
        if let (Some(least), Some(median), Some(most)) = (ratios.first(), ratios.get(ratios.len() / 2), ratios.last()) {
            say::line(format!("controller ({}) by flood: median {median:.2}, least {least:.2}, most {most:.2}", label(workers)));
        }
    }
}

fn costs(rate: &Rate) -> String {
    let parts: Vec<String> = rate.cost.iter().map(|(name, millis)| format!("{name} {millis:.2}")).collect();
    parts.join(", ")
}

/// Prints the tables of the burst.
pub fn burst(burst: &Burst) {
    say::headline(format!("{} Deployments at once, to 0, and back", burst.deployments));
    let names: Vec<&str> = burst.waves.iter().map(|wave| wave.name).collect();
    say::line(format!("| | {} |", names.join(" | ")));
    say::line(format!("|---|{}", "---|".repeat(names.len())));
    let row = |what: &str, figure: &dyn Fn(&Wave) -> String| {
        let figures: Vec<String> = burst.waves.iter().map(figure).collect();
        say::line(format!("| {what} | {} |", figures.join(" | ")));
    };
    let many = burst.deployments as f64;
    row("last change of a ReplicaSet to last write on a PodGroup, s", &|wave| format!("{:.2}", wave.behind));
    row("first request of the wave to last write on a PodGroup, s", &|wave| format!("{:.1}", wave.took));
    row("change of a ReplicaSet to its PodGroup, ms: median / 99 % / longest", &|wave| {
        wave.each.map_or("–".to_owned(), |[median, most, longest]| format!("{median:.0} / {most:.0} / {longest:.0}"))
    });
    row("controller's calls", &|wave| calls(&wave.calls.all));
    row("of these, conflicts with a status write", &|wave| wave.calls.conflicts.to_string());
    row("calls per Deployment, and per pod", &|wave| format!("{:.2}", wave.calls.all.values().sum::<u64>() as f64 / many));
    row("controller's CPU, s (ms per Deployment)", &|wave| format!("{:.2} ({:.2})", wave.processor, wave.processor * 1000.0 / many));
    row("controller's memory, MiB: peak / after", &|wave| format!("{:.1} / {:.1}", wave.memory.peak, wave.memory.now));
    say::line(format!("\ncontroller's memory at the start: {:.1} MiB", burst.empty.now));
    say::headline("nothing to do");
    say::line("| | seconds | controller's calls | other than lease and watch | controller's CPU, s | memory, MiB: before / peak / after |");
    say::line("|---|---|---|---|---|---|");
    quiet(&format!("at rest with {} Deployments", burst.deployments), &burst.idle);
    quiet(&format!("{} pods of another scheduler made, changed, deleted", burst.crowd_pods), &burst.crowd);
}

fn quiet(what: &str, quiet: &Quiet) {
    let (before, after) = quiet.memory;
    let memory = format!("{:.1} / {:.1} / {:.1}", before.now, after.peak, after.now);
    let (all, processor, wrong) = (calls(&quiet.calls), quiet.processor, quiet.wrong.len());
    say::line(format!("| {what} | {:.0} | {all} | {wrong} | {processor:.2} | {memory} |", quiet.seconds));
}

fn calls(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
