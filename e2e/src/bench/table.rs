//! Prints the results as the tables of `docs/performance.md`, so that a run can be compared with it.

use super::constraint::Constraint;
use super::pods::Kind;
use super::rate::{Rate, TURNS};
use super::rest::Rest;
use super::trickle::Times;
use super::writes::Writes;
use crate::say;

/// The results.
#[derive(Debug, Default)]
pub struct Tables {
    /// Pods first, then the scheduler; in the order of the turns.
    pub rates: Vec<(Kind, Rate)>,
    /// The same for pods with constraints, ours and kube-scheduler's in turn.
    pub constraints: Vec<(Constraint, Kind, Rate)>,
    /// The latencies, with the number of running pods.
    pub trickles: Vec<(u32, Kind, Constraint, Times)>,
    /// The requests for Deployments.
    pub writes: Vec<Writes>,
    /// The number of running pods in the following results.
    pub running: u32,
    /// Whether it is kube-scheduler, with the seconds to the first and to the last binding.
    pub starts: Vec<(bool, [f64; 2])>,
    /// The cost at rest.
    pub rests: Vec<Rest>,
}

const fn program_name(stock: bool) -> &'static str {
    if stock { "kube-scheduler" } else { "podgroup" }
}

impl Tables {
    /// Prints all results.
    pub fn say(&self) {
        if !self.rates.is_empty() {
            self.say_rates();
        }
        if !self.constraints.is_empty() {
            say::headline("pods first, then the scheduler: pods with constraints among pods");
            say::line(
                "| each pod has | program | pods bound per second | CPU ms each: API server and etcd | binding program |\n|---|---|---|---|---|",
            );
            for (constraint, kind, Rate { per_second, cost: [server, program] }) in &self.constraints {
                say::line(format!("| {} | {} | {per_second:.0} | {server:.2} | {program:.2} |", constraint.name(), kind.name()));
            }
        }
        if !self.trickles.is_empty() {
            say::headline("some pods a second: creation to binding");
            say::line(
                "| running pods | each pod has | program | median, ms | 99 %, ms | longest, ms | writes per pod |\n|---|---|---|---|---|---|---|",
            );
            for (running, kind, constraint, Times { writes, median, most, longest }) in &self.trickles {
                let (has, name) = (constraint.name(), kind.name());
                say::line(format!("| {running} | {has} | {name} | {median:.0} | {most:.0} | {longest:.0} | {writes:.2} |"));
            }
        }
        if !self.writes.is_empty() {
            say::headline("requests that Deployments cost");
            say::line("| program | pods | writes per pod | lists | calls |\n|---|---|---|---|---|");
            for writes in &self.writes {
                let calls: Vec<String> = writes.calls.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
                let (per_pod, lists) = (writes.per_pod(), writes.lists());
                say::line(format!("| {} | {} | {per_pod:.2} | {lists} | {} |", writes.by.name(), writes.pods, calls.join(", ")));
            }
        }
        if !self.starts.is_empty() {
            say::headline(format!("start, with {} running pods and 100 waiting pods", self.running));
            say::line("| program | to the first binding, s | to the last, s |\n|---|---|---|");
            for (stock, [first, last]) in &self.starts {
                say::line(format!("| {} | {first:.2} | {last:.2} |", program_name(*stock)));
            }
        }
        if !self.rests.is_empty() {
            say::headline(format!("at rest, with {} running pods", self.running));
            say::line("| program | CPU, s per minute | memory, MiB | calls in a minute |\n|---|---|---|---|");
            for rest in &self.rests {
                let memory: Vec<String> = rest.memory.iter().map(|(name, mebibytes)| format!("{name} {mebibytes:.0}")).collect();
                let calls: Vec<String> = rest.calls.iter().map(|(kind, number)| format!("{number:.1} {kind}")).collect();
                let (memory, calls) = (memory.join(", "), calls.join(", "));
                say::line(format!("| {} | {:.2} | {memory} | {calls} |", program_name(rest.stock), rest.processor));
            }
        }
    }

    fn say_rates(&self) {
        say::headline("pods first, then the scheduler: pods bound per second");
        say::line(
            "| program | rounds, 1/s | divided by the flood of the same round | CPU ms each: API server and etcd | binding program |\n|---|---|---|---|---|",
        );
        let of = |wanted: Kind| -> Vec<Rate> { self.rates.iter().filter(|(kind, _)| *kind == wanted).map(|(_, rate)| *rate).collect() };
        let floods = of(Kind::Flood);
        let listed = |all: Vec<String>| all.join(", ");
        for kind in TURNS {
            let rates = of(kind);
            let ratios = rates.iter().zip(&floods).map(|(rate, flood)| format!("{:.2}", rate.per_second / flood.per_second)).collect();
            let each = rates.iter().map(|rate| format!("{:.0}", rate.per_second)).collect();
            let cost = |at: usize| listed(rates.iter().filter_map(|rate| rate.cost.get(at)).map(|cost| format!("{cost:.2}")).collect());
            say::line(format!("| {} | {} | {} | {} | {} |", kind.name(), listed(each), listed(ratios), cost(0), cost(1)));
        }
    }
}
