//! What happens to the next request, and when is all calm again? The one state behind a proxy's connections.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::Bytes;
use hyper::http::response::Parts;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::fault::{Fault, Refusal, StreamFault};
use super::ledger::Ledger;
use super::mix::{Mix, OBEYED};
use super::request::{Asked, Verb};
use crate::wait::secs;

/// A kept view that nobody has asked for is forgotten: an older one would be older than any server is behind.
const VIEW_KEPT: Duration = secs(15);

/// What a case wants to happen to certain requests; before any mix.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Only this verb; none is any.
    pub verb: Option<Verb>,
    /// Only this resource (`podgroups`, `pods/binding`).
    pub resource: &'static str,
    /// Only the object of this name; none is any.
    pub name: Option<&'static str>,
    /// What happens.
    pub fault: Fault,
    /// To how many requests.
    pub times: u32,
}

/// What lies in the air. Open watches look at it all the time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    pub(super) mix: Option<Mix>,
    /// With a new number everything that is held back is let go.
    pub(super) era: u64,
}

#[derive(Debug, Default)]
struct Drawn {
    rules: Vec<Rule>,
    /// How many requests of a verb and resource there were, and stream faults of a watch.
    numbers: BTreeMap<String, u64>,
    /// How often a call failed in a row by our doing.
    in_a_row: BTreeMap<String, u32>,
    huge_spent: bool,
    /// Until when a client that obeys what it was told stays away.
    away_until: Option<Instant>,
    views: BTreeMap<String, (Instant, Parts, Bytes)>,
}

/// What all connections of a proxy share.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) weather: watch::Sender<Weather>,
    pub(super) ledger: Ledger,
    drawn: Mutex<Drawn>,
    /// How many requests are held up at this moment.
    held: watch::Sender<usize>,
    /// Requests that are done after their answer.
    late: Mutex<JoinSet<()>>,
}

/// A request that is held up; dropping it says that it no longer is.
pub(super) struct Held<'a>(&'a Control);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held = held.saturating_sub(1));
    }
}

impl Control {
    pub(super) fn new(log: &Path) -> Result<Self> {
        Ok(Self {
            weather: watch::Sender::new(Weather::default()),
            ledger: Ledger::new(log)?,
            drawn: Mutex::default(),
            held: watch::Sender::new(0),
            late: Mutex::default(),
        })
    }

    pub(super) fn add_rule(&self, rule: Rule) {
        self.drawn().rules.push(rule);
    }

    pub(super) fn begin(&self, mix: Mix) {
        self.weather.send_modify(|weather| weather.mix = Some(mix));
    }

    /// Ends the mix and waits until nothing of it is left: what was held up has landed, and who was told to stay away need not any more.
    pub(super) async fn calm(&self) -> Result<()> {
        self.weather.send_modify(|weather| {
            weather.mix = None;
            weather.era += 1;
        });
        self.drawn().views.clear();
        let mut held = self.held.subscribe();
        timeout(secs(60), held.wait_for(|held| *held == 0)).await.context("a request is held up for ever")??;
        let away = self.drawn().away_until.take();
        if let Some(until) = away {
            sleep_until(until).await;
        }
        Ok(())
    }

    /// What happens to this request. A fault of an open watch is counted when it happens, everything else by the one who carries it out.
    pub(super) fn decide(&self, asked: &Asked) -> Option<Fault> {
        let mix = self.weather.borrow().mix;
        let mut drawn = self.drawn();
        let fault = match drawn.rule(asked) {
            Some(fault) => Some(fault),
            None => drawn.mix(mix?, asked),
        };
        if let Some(Fault::Refuse(Refusal::TooMany { after, .. })) = fault {
            let until = Instant::now() + secs(after.into()).min(OBEYED);
            drawn.away_until = drawn.away_until.max(Some(until));
        }
        fault
    }

    /// What happens next to an open watch, and after how long.
    pub(super) fn next_of_stream(&self, asked: &Asked) -> Option<(Duration, StreamFault)> {
        let mix = self.weather.borrow().mix?;
        let number = self.drawn().number(&format!("stream {}", asked.resource));
        mix.stream(asked, number)
    }

    /// Keeps a state that the next list of these objects is answered with.
    pub(super) fn keep_view(&self, asked: &Asked, (parts, body): (Parts, Bytes)) {
        self.drawn().views.insert(asked.whose.clone(), (Instant::now(), parts, body));
    }

    /// The state that this request is answered with, if one is kept. Only the first page of a list whose objects are watched has one.
    pub(super) fn view(&self, asked: &Asked) -> Option<(Parts, Bytes)> {
        if asked.verb != Verb::List || asked.continues || !asked.version.is_empty() {
            return None;
        }
        let (kept, parts, body) = self.drawn().views.remove(&asked.whose)?;
        (kept.elapsed() < VIEW_KEPT).then_some((parts, body))
    }

    pub(super) fn hold_up(&self) -> Held<'_> {
        self.held.send_modify(|held| *held += 1);
        Held(self)
    }

    /// Does this after the answer, whatever becomes of the connection.
    pub(super) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        while late.try_join_next().is_some() {}
        late.spawn(work);
    }

    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drawn {
    fn rule(&mut self, asked: &Asked) -> Option<Fault> {
        let applies = |rule: &&mut Rule| {
            rule.times > 0
                && rule.resource == asked.resource
                && rule.verb.is_none_or(|verb| verb == asked.verb)
                && rule.name.is_none_or(|name| name == asked.name)
        };
        let rule = self.rules.iter_mut().find(applies)?;
        rule.times = rule.times.saturating_sub(1);
        Some(rule.fault)
    }

    fn mix(&mut self, mix: Mix, asked: &Asked) -> Option<Fault> {
        let number = self.number(&format!("{} {}", asked.verb.name(), asked.resource));
        let lease = asked.resource == "leases";
        // A renewal that failed is a read and a write: between two renewals that went through at most one call fails, whichever.
        let verb = if lease { "any" } else { asked.verb.name() };
        let call = format!("{verb} {} {}/{}", asked.whose, asked.namespace, asked.name);
        let before = self.in_a_row.get(&call).copied().unwrap_or(0);
        let fault = mix.request(asked, number, before, !self.huge_spent);
        self.huge_spent |= fault.is_some_and(|fault| fault.kind() == "429-huge");
        match fault {
            None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) if lease && asked.verb != Verb::Update => {}
            None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) => drop(self.in_a_row.remove(&call)),
            Some(_) => drop(self.in_a_row.insert(call, before.saturating_add(1))),
        }
        fault
    }

    fn number(&mut self, of: &str) -> u64 {
        let number = self.numbers.entry(of.to_owned()).or_default();
        *number += 1;
        *number
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::mix::Rate;
    use super::*;
    use crate::wait::millis;

    fn control() -> Arc<Control> {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("faults-{}-{number}.log", std::process::id()));
        let control = Control::new(&log).unwrap();
        std::fs::remove_file(log).unwrap();
        Arc::new(control)
    }

    fn asked(method: &str, uri: &str) -> Asked {
        Asked::read(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn all_is_calm_when_what_was_held_up_has_landed_and_nobody_was_told_to_stay_away() {
        let control = control();
        let start = Instant::now();
        control.calm().await.unwrap();
        assert!(start.elapsed() < millis(1));
        let held = Arc::clone(&control);
        control.later(async move {
            let _held = held.hold_up();
            tokio::time::sleep(secs(5)).await;
        });
        tokio::task::yield_now().await;
        control.calm().await.unwrap();
        assert!(start.elapsed() >= secs(5));
        let fault = Fault::Refuse(Refusal::TooMany { after: 3600, plain: false });
        control.add_rule(Rule { verb: None, resource: "pods", name: None, fault, times: 1 });
        assert_eq!(control.decide(&asked("GET", "/api/v1/pods")), Some(fault));
        assert_eq!(control.decide(&asked("GET", "/api/v1/pods")), None);
        let start = Instant::now();
        control.calm().await.unwrap();
        assert_eq!(start.elapsed().as_secs(), OBEYED.as_secs());
    }

    #[tokio::test]
    async fn between_two_renewals_of_a_lease_at_most_one_call_fails() {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l";
        let mut most = 0;
        for seed in 0..50 {
            let (control, mut failed) = (control(), 0);
            control.begin(Mix { seed, rate: Rate { requests: 100, ..Rate::HIGH } });
            for method in ["GET", "PUT"].into_iter().cycle().take(100) {
                let fault = control.decide(&asked(method, lease));
                match fault {
                    None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) if method == "PUT" => failed = 0,
                    None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) => {}
                    Some(_) => failed += 1,
                }
                most = most.max(failed);
            }
        }
        assert_eq!(most, 1);
    }
}
