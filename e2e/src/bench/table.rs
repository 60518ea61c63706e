//! How are the figures said? As the tables of `docs/performance.md`, so that a run can be laid beside it.

use super::pods::Kind;
use super::rate::{Rate, WHO};
use super::rest::Rest;
use super::trickle::Times;
use super::writes::Writes;
use crate::say;

/// What was measured.
#[derive(Debug, Default)]
pub struct Tables {
    /// Pods first, then the scheduler; in the order in which they took turns.
    pub rates: Vec<(Kind, Rate)>,
    /// By how many pods ran already.
    pub trickles: Vec<(u32, Kind, Times)>,
    /// Requests of Deployments.
    pub writes: Vec<Writes>,
    /// How many pods run in what follows.
    pub running: u32,
    /// Whether it is kube-scheduler, with the seconds to the first binding and to the last.
    pub starts: Vec<(bool, [f64; 2])>,
    /// Nothing to do.
    pub rests: Vec<Rest>,
}

const fn whose(stock: bool) -> &'static str {
    if stock { "kube-scheduler" } else { "podgroup" }
}

impl Tables {
    /// Says all that there is.
    pub fn say(&self) {
        if !self.rates.is_empty() {
            self.say_rates();
        }
        if !self.trickles.is_empty() {
            say::headline("some pods a second: creation to binding");
            say::line("| pods that run | who | median, ms | 99 %, ms | longest, ms |\n|---|---|---|---|---|");
            for (running, kind, times) in &self.trickles {
                say::line(format!("| {running} | {} | {:.0} | {:.0} | {:.0} |", kind.name(), times.median, times.most, times.longest));
            }
        }
        if !self.writes.is_empty() {
            say::headline("requests that Deployments cost");
            say::line("| who | pods | writes per pod | lists | calls |\n|---|---|---|---|---|");
            for writes in &self.writes {
                let calls: Vec<String> = writes.calls.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
                let (per_pod, lists) = (writes.per_pod(), writes.lists());
                say::line(format!("| {} | {} | {per_pod:.2} | {lists} | {} |", whose(writes.stock), writes.pods, calls.join(", ")));
            }
        }
        if !self.starts.is_empty() {
            say::headline(format!("start, with {} pods that run and 100 that wait", self.running));
            say::line("| who | to the first binding, s | to the last, s |\n|---|---|---|");
            for (stock, [first, last]) in &self.starts {
                say::line(format!("| {} | {first:.2} | {last:.2} |", whose(*stock)));
            }
        }
        if !self.rests.is_empty() {
            say::headline(format!("at rest, with {} pods that run", self.running));
            say::line("| who | CPU, s in a minute | memory, MiB | calls in a minute |\n|---|---|---|---|");
            for rest in &self.rests {
                let memory: Vec<String> = rest.memory.iter().map(|(name, mebibytes)| format!("{name} {mebibytes:.0}")).collect();
                let calls: Vec<String> = rest.calls.iter().map(|(kind, number)| format!("{number:.1} {kind}")).collect();
                let (memory, calls) = (memory.join(", "), calls.join(", "));
                say::line(format!("| {} | {:.2} | {memory} | {calls} |", whose(rest.stock), rest.processor));
            }
        }
    }

    fn say_rates(&self) {
        say::headline("pods first, then the scheduler: pods bound per second");
        say::line(
            "| who | rounds, 1/s | by the flood of the same round | CPU ms each: API server and etcd | who binds |\n|---|---|---|---|---|",
        );
        let of = |kind: Kind| -> Vec<Rate> { self.rates.iter().filter(|(who, _)| *who == kind).map(|(_, rate)| *rate).collect() };
        let floods = of(Kind::Flood);
        let listed = |all: Vec<String>| all.join(", ");
        for who in WHO {
            let rates = of(who);
            let ratios = rates.iter().zip(&floods).map(|(rate, flood)| format!("{:.2}", rate.per_second / flood.per_second)).collect();
            let each = rates.iter().map(|rate| format!("{:.0}", rate.per_second)).collect();
            let cost = |at: usize| listed(rates.iter().filter_map(|rate| rate.cost.get(at)).map(|cost| format!("{cost:.2}")).collect());
            say::line(format!("| {} | {} | {} | {} | {} |", who.name(), listed(each), listed(ratios), cost(0), cost(1)));
        }
    }
}
