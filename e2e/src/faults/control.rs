//! The shared state of one proxy: decides the fault of the next request, and waits for the end of all faults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::Bytes;
use hyper::http::response::Parts;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::cut_after::CutAfter;
use super::fault::{Fault, Refusal, StreamFault};
use super::ledger::Ledger;
use super::mix::{LONGEST_OBEYED, Mix};
use super::order_of_kinds::{DUE_OF_REQUESTS, DUE_OF_WATCHES, OrderOfKinds};
use super::request::{ApiRequest, Verb};
use crate::wait::secs;

/// The longest time for which an old view is stored. No API server lags for longer.
const VIEW_LIFETIME: Duration = secs(15);

/// A fault that a case orders for certain requests. Rules come before any mix.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Only requests with this verb; `None` means any verb.
    pub verb: Option<Verb>,
    /// Only requests on this resource (`podgroups`, `pods/binding`).
    pub resource: &'static str,
    /// Only requests on the object of this name; `None` means any object.
    pub name: Option<&'static str>,
    /// The fault.
    pub fault: Fault,
    /// How many requests get the fault.
    pub times: u32,
}

/// The present mix. Open watches follow its changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActiveMix {
    pub(super) mix: Option<Mix>,
    /// A change of this number ends all faults of open watches.
    pub(super) generation: u64,
}

/// Is told when a client has to obey a long `Retry-After`, and how long.
#[derive(Clone)]
pub struct Told(Arc<dyn Fn(Duration) + Send + Sync>);

impl Told {
    /// Wraps what is to be called.
    pub fn new(call: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

#[derive(Debug, Default)]
struct Draws {
    /// Each rule, and whether it has applied to a request.
    rules: Vec<(Rule, bool)>,
    /// The cards of a mix that was started: for requests, and for open watches.
    packs: Option<(OrderOfKinds, OrderOfKinds)>,
    told: Option<Told>,
    /// The number of requests by verb and resource, and of stream faults by resource.
    numbers: BTreeMap<String, u64>,
    /// How many injected failures in a row each call has had.
    in_a_row: BTreeMap<String, u32>,
    huge_used: bool,
    /// The time until which a client that obeys `Retry-After` waits.
    retry_after_until: Option<Instant>,
    views: BTreeMap<String, (Instant, Parts, Bytes)>,
    cut: CutAfter,
}

/// The state that all connections of a proxy share.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) active_mix: watch::Sender<ActiveMix>,
    pub(super) ledger: Ledger,
    draws: Mutex<Draws>,
    /// How many requests are delayed at this moment.
    held: watch::Sender<usize>,
    /// How often held requests were let go.
    gone: watch::Sender<u32>,
    /// Requests that are sent to the API server after their response.
    late: Mutex<JoinSet<()>>,
}

/// The fault of a rule for an open watch that was decided and is not injected yet. A watch that ends before gives it back: the next watch
/// has it. Otherwise a watch that was just being opened when a case cuts the connections would use the rule up.
pub(super) struct Unused {
    control: Arc<Control>,
    rule: Option<usize>,
}

impl Unused {
    pub(super) fn new(control: &Arc<Control>, rule: usize) -> Self {
        Self { control: Arc::clone(control), rule: Some(rule) }
    }

    /// Notes that the fault was injected, or ended with all others.
    pub(super) fn used(mut self) {
        self.rule = None;
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(number) = self.rule
            && let Some((rule, _)) = self.control.draws().rules.get_mut(number)
        {
            rule.times = rule.times.saturating_add(1);
        }
    }
}

/// Counts a delayed request until it is dropped.
pub(super) struct Held<'a>(&'a Control);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held = held.saturating_sub(1));
    }
}

impl Control {
    pub(super) fn new(log: &Path) -> Result<Self> {
        Ok(Self {
            active_mix: watch::Sender::new(ActiveMix::default()),
            ledger: Ledger::new(log)?,
            draws: Mutex::default(),
            held: watch::Sender::new(0),
            gone: watch::Sender::new(0),
            late: Mutex::default(),
        })
    }

    pub(super) fn add_rule(&self, rule: Rule) {
        self.draws().rules.push((rule, false));
    }

    pub(super) fn begin(&self, mix: Mix, told: Told) {
        let mut draws = self.draws();
        draws.packs.get_or_insert_with(|| {
            (OrderOfKinds::new(mix.seed, DUE_OF_REQUESTS), OrderOfKinds::new(mix.seed.rotate_left(32), DUE_OF_WATCHES))
        });
        draws.told = Some(told);
        drop(draws);
        self.active_mix.send_modify(|active_mix| active_mix.mix = Some(mix));
    }

    /// Asks or changes the cut.
    pub(super) fn cut_after<T>(&self, act: impl FnOnce(&mut CutAfter) -> T) -> T {
        act(&mut self.draws().cut)
    }

    /// Describes the rules that no request met. A mix is judged over all proxies of a case: see [`Self::mixed`].
    pub(super) fn never_injected(&self) -> Vec<String> {
        let (counts, draws) = (self.ledger.counts(), self.draws());
        // A fault of an open watch is injected some time after the request.
        let missing = draws.rules.iter().filter(|(rule, applied)| !applied || !counts.contains_key(rule.fault.kind()));
        missing.map(|(rule, _)| format!("{rule:?}")).collect()
    }

    /// Says whether a mix was started here.
    pub(super) fn mixed(&self) -> bool {
        self.draws().packs.is_some()
    }

    /// Returns the kinds that the mix has dealt so often that they must have been injected.
    pub(super) fn due(&self) -> BTreeSet<&'static str> {
        self.draws().packs.iter().flat_map(|(requests, streams)| requests.due().chain(streams.due())).collect()
    }

    /// Ends the mix and waits until none of its faults is left: delayed requests have arrived, and every `Retry-After` has ended.
    pub(super) async fn end_faults(&self) -> Result<()> {
        self.active_mix.send_modify(|active_mix| {
            active_mix.mix = None;
            active_mix.generation += 1;
        });
        self.draws().views.clear();
        self.release();
        let mut held = self.held.subscribe();
        timeout(secs(60), held.wait_for(|held| *held == 0)).await.context("a delayed request did not end within 60 s")??;
        let away = self.draws().retry_after_until.take();
        if let Some(until) = away {
            sleep_until(until).await;
        }
        Ok(())
    }

    /// Returns the generation of the mix. It changes when a mix ends.
    pub(super) fn generation(&self) -> u64 {
        self.active_mix.borrow().generation
    }

    /// Returns the fault of this request, and for that of an open watch the number of its rule if it has one. Such a fault is counted when
    /// it happens; the caller counts every other fault.
    pub(super) fn decide(&self, api_request: &ApiRequest) -> Option<(Fault, Option<usize>)> {
        let mix = self.active_mix.borrow().mix;
        let mut draws = self.draws();
        let cut = draws.cut.cuts(api_request).then_some(Fault::CutBefore);
        let of_watch = |(number, fault)| (fault, matches!(fault, Fault::Stream(..)).then_some(number));
        let first = cut.map(|fault| (fault, None)).or_else(|| draws.rule(api_request).map(of_watch));
        let decided = first.or_else(|| Some((draws.mix(mix?, api_request)?, None)));
        let fault = decided.map(|(fault, _)| fault);
        if let Some(Fault::Refuse(Refusal::TooMany { after, .. })) = fault {
            let until = Instant::now() + secs(after.into()).min(LONGEST_OBEYED);
            draws.retry_after_until = draws.retry_after_until.max(Some(until));
        }
        let told = draws.told.clone().filter(|_| fault.is_some_and(|fault| fault.kind() == "429-huge"));
        drop(draws);
        if let Some(Told(call)) = told {
            call(LONGEST_OBEYED);
        }
        decided
    }

    /// Returns the next fault of an open watch, and the time until then.
    pub(super) fn next_of_stream(&self, api_request: &ApiRequest) -> Option<(Duration, StreamFault)> {
        let mix = self.active_mix.borrow().mix?;
        let mut draws = self.draws();
        let number = draws.number(&format!("stream {}", api_request.resource));
        let (after, faults) = mix.stream(api_request, number);
        let (_, streams) = draws.packs.as_mut()?;
        Some((after, streams.deal(&faults, StreamFault::kind)?))
    }

    /// Stores a state; the next list of these objects is answered with it.
    pub(super) fn keep_view(&self, api_request: &ApiRequest, (parts, body): (Parts, Bytes)) {
        self.draws().views.insert(api_request.collection.clone(), (Instant::now(), parts, body));
    }

    /// Returns the stored state for this request, if there is one. Only the first page of a list collection objects are watched has one.
    pub(super) fn view(&self, api_request: &ApiRequest) -> Option<(Parts, Bytes)> {
        if api_request.verb != Verb::List || api_request.continues || !api_request.version.is_empty() {
            return None;
        }
        let (kept, parts, body) = self.draws().views.remove(&api_request.collection)?;
        (kept.elapsed() < VIEW_LIFETIME).then_some((parts, body))
    }

    /// Lets the requests go that are held at this moment. Returns how many were held or delayed.
    pub(super) fn release(&self) -> usize {
        let held = *self.held.borrow();
        self.gone.send_modify(|gone| *gone += 1);
        held
    }

    /// Waits until the held requests are let go.
    pub(super) async fn let_go(&self) {
        let _ = self.gone.subscribe().changed().await;
    }

    pub(super) fn count_delayed(&self) -> Held<'_> {
        self.held.send_modify(|held| *held += 1);
        Held(self)
    }

    /// Runs work after the response, also when the connection is closed.
    pub(super) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        while late.try_join_next().is_some() {}
        late.spawn(work);
    }

    fn draws(&self) -> MutexGuard<'_, Draws> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Draws {
    /// Returns the fault of the first rule that applies, and the number of the rule.
    fn rule(&mut self, api_request: &ApiRequest) -> Option<(usize, Fault)> {
        let applies = |(_, (rule, _)): &(usize, &mut (Rule, bool))| {
            rule.times > 0
                && rule.resource == api_request.resource
                && rule.verb.is_none_or(|verb| verb == api_request.verb)
                && rule.name.is_none_or(|name| name == api_request.name)
        };
        let (number, (rule, applied)) = self.rules.iter_mut().enumerate().find(applies)?;
        rule.times = rule.times.saturating_sub(1);
        *applied = true;
        Some((number, rule.fault))
    }

    fn mix(&mut self, mix: Mix, api_request: &ApiRequest) -> Option<Fault> {
        let number = self.number(&format!("{} {}", api_request.verb.name(), api_request.resource));
        let lease = api_request.resource == "leases";
        // A failed renewal of a Lease is a read and a write. Between two successful renewals at most one call fails, either of them.
        let verb = if lease { "any" } else { api_request.verb.name() };
        let call = format!("{verb} {} {}/{}", api_request.collection, api_request.namespace, api_request.name);
        let before = self.in_a_row.get(&call).copied().unwrap_or(0);
        let faults = mix.request(api_request, number, before, !self.huge_used);
        let fault = self.packs.as_mut().and_then(|(requests, _)| requests.deal(&faults, Fault::kind));
        self.huge_used |= fault.is_some_and(|fault| fault.kind() == "429-huge");
        match fault {
            None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) if lease && api_request.verb != Verb::Update => {}
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
#[path = "control_tests.rs"]
mod tests;
