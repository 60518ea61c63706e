//! Runs one history: a list of numbers, each of which is one event.
//!
//! After every event S1 and S2 must hold. After the last number the faults stop: every request is applied, and every event is delivered. Within a
//! bounded number of rounds nothing may be left to do, and the cluster must be right (L1).

use std::collections::BTreeMap;

use super::controller::{Mutant, Pending, SimController, is_right};
use super::server::{OwnerState, Reply, Server};

/// The most rounds without faults until nothing is left to do. It is far more than any history needs.
const ROUNDS: u32 = 64;

/// A request that is under way.
struct Flight {
    pending: Pending,
    controller: usize,
    sent: u64,
    /// Whether the sender still waits for the answer.
    awaited: bool,
    reply: Option<Reply>,
}

/// The whole simulation.
pub(in crate::lifecycle) struct Simulation {
    server: Server,
    controllers: Vec<SimController>,
    flights: Vec<Flight>,
    /// The events so far, for people; `None` if no trace was asked for.
    pub(in crate::lifecycle) trace: Option<Vec<String>>,
    /// The number of requests that were sent, by the name of the step.
    pub(in crate::lifecycle) sent: BTreeMap<&'static str, u32>,
}

/// Runs one history to its end. Returns an error when a promise is broken: which one and, with `trace`, every event.
pub(in crate::lifecycle) fn play(history: &[u16], mutant: Mutant, trace: bool) -> Result<Simulation, String> {
    let mut steps = history.iter();
    // Half of the histories have two active controllers, because a Lease does not fence. The other half has one controller, so that no second one
    // repairs its faults.
    let controllers = if steps.next().is_some_and(|number| number.is_multiple_of(2)) { 1 } else { 2 };
    let mut simulation = Simulation::new(controllers, mutant, trace);
    let ended = steps.find_map(|number| {
        simulation.step(usize::from(*number));
        simulation.server.broken.clone()
    });
    match ended.map_or_else(|| simulation.settle(), Err) {
        Ok(()) => Ok(simulation),
        Err(broken) => Err(format!("{broken}\n{}", simulation.trace.unwrap_or_default().join("\n"))),
    }
}

impl Simulation {
    fn new(controllers: usize, mutant: Mutant, trace: bool) -> Self {
        let server = Server::new();
        let controllers = (0..controllers).map(|_| SimController::new(&server, mutant)).collect();
        Self { server, controllers, flights: Vec::new(), trace: trace.then(Vec::new), sent: BTreeMap::new() }
    }

    fn record(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>4} {}", self.server.now, what(self));
            self.trace.iter_mut().for_each(|trace| trace.push(line.clone()));
        }
    }

    /// Performs one event. An event that is not possible now does nothing.
    fn step(&mut self, number: usize) {
        self.server.now += 1;
        let (which, number) = (number % 64, number / 64);
        // Usually the leader, sometimes the controller that wrongly believes that it leads.
        let controller = usize::from(number.is_multiple_of(4)) % self.controllers.len();
        let number = number / 4;
        let flight = if self.flights.is_empty() { None } else { Some(number % self.flights.len()) };
        match which {
            0..14 => self.as_usual(controller, number),
            14..18 => self.act(controller),
            18..22 => self.land(flight),
            22..27 => self.reply(flight, true),
            27..29 => self.reply(flight, false),
            29 => self.lose(flight),
            30..43 => self.deliver(controller, number % 4, !(number / 4).is_multiple_of(4)),
            43 | 44 => self.controllers[controller].relist(&self.server, number % 3, number / 3),
            45..50 => self.scale(number),
            50..54 => drop(self.server.manage(!number.is_multiple_of(3))),
            54..57 => self.server.pod_goes(),
            57 if number.is_multiple_of(4) => self.server.person_deletes(),
            58 => self.server.status(),
            59 if number.is_multiple_of(4) => self.server.person_edits(number / 4),
            59 | 60 => self.server.finalize(),
            61 if number.is_multiple_of(2) => self.crash(controller, number / 2),
            61 | 62 => drop(self.controllers[controller].end_member_wait()),
            _ if number.is_multiple_of(64) => self.server.change_owner(None),
            _ if number % 64 == 1 => self.server.orphan(),
            _ => self.server.collect(),
        }
        if which >= 30 {
            self.record(|simulation| {
                let (server, seen) = (&simulation.server, simulation.controllers[controller].at);
                format!("happening {which} ({number}) of {controller}, which has seen {seen:?}: {:?}, {:?}", server.owner, server.pods)
            });
        }
    }

    /// Delivers one event or all events, of one kind or of every kind.
    fn deliver(&mut self, controller: usize, kind: usize, all: bool) {
        for kind in if kind < 3 { kind..kind + 1 } else { 0..3 } {
            while self.controllers[controller].deliver(&self.server, kind) && all {}
        }
    }

    /// Performs the usual course: the events arrive, and a few steps are sent and answered. The last step may be slow or time out.
    fn as_usual(&mut self, controller: usize, number: usize) {
        if !number.is_multiple_of(4) {
            self.deliver(controller, 3, true);
        }
        let steps = (number / 4) % 4;
        for step in 0..steps {
            let before = self.flights.len();
            self.act(controller);
            if self.flights.len() == before {
                return;
            }
            match (number / 16) % 4 {
                1 if step + 1 == steps => {}
                2 if step + 1 == steps => self.reply(Some(before), false),
                _ => {
                    self.land(Some(before));
                    self.reply(Some(before), true);
                }
            }
        }
    }

    fn act(&mut self, controller: usize) {
        if let Some(pending) = self.controllers[controller].act() {
            *self.sent.entry(pending.step.name()).or_default() += 1;
            self.record(|_| format!("{controller} sends {:?}", pending.request));
            self.flights.push(Flight { pending, controller, sent: self.server.now, awaited: true, reply: None });
        }
    }

    /// Applies a request, whether or not its sender still waits for the reply.
    fn land(&mut self, flight: Option<usize>) {
        let Some(at) = flight.filter(|at| self.flights[*at].reply.is_none()) else { return };
        let reply = self.server.apply(&self.flights[at].pending.request);
        self.record(|simulation| {
            format!("{} of {} lands: {reply:?}", simulation.flights[at].pending.step.name(), simulation.flights[at].controller)
        });
        if self.flights[at].awaited {
            self.flights[at].reply = Some(reply);
        } else {
            self.flights.remove(at);
        }
    }

    /// Delivers the reply to the sender, or lets the sender give up. In the second case the request was already applied, or may still be applied.
    fn reply(&mut self, flight: Option<usize>, arrives: bool) {
        let ready = |flight: &Flight| flight.awaited && (flight.reply.is_some() || !arrives);
        let Some(at) = flight.filter(|at| self.flights.get(*at).is_some_and(ready)) else { return };
        let mut flight = self.flights.remove(at);
        self.record(|_| {
            format!("{} of {} {}", flight.pending.step.name(), flight.controller, if arrives { "is answered" } else { "timed out" })
        });
        self.controllers[flight.controller].learn(&flight.pending, flight.reply.as_ref().filter(|_| arrives), flight.sent);
        if !arrives && flight.reply.is_none() {
            flight.awaited = false;
            self.flights.push(flight);
        }
    }

    /// Drops a request after its sender gave up.
    fn lose(&mut self, flight: Option<usize>) {
        if let Some(at) = flight.filter(|at| !self.flights[*at].awaited) {
            self.flights.remove(at);
        }
    }

    fn crash(&mut self, controller: usize, place: usize) {
        for flight in self.flights.iter_mut().filter(|flight| flight.controller == controller) {
            flight.awaited = false;
        }
        self.flights.retain(|flight| flight.awaited || flight.reply.is_none());
        self.controllers[controller].crash(&self.server, place);
    }

    fn scale(&mut self, number: usize) {
        let wants = [0, 1, 0, 2][number % 4];
        self.server.change_owner(Some(OwnerState { wants, queue: u32::from(number % 16 >= 8) }));
        if number % 32 >= 16 {
            self.pods_follow();
        }
    }

    /// Lets kube-controller-manager and the kubelet finish all their work.
    fn pods_follow(&mut self) {
        while self.server.manage(true) {}
        while self.server.pods.values().any(|ending| *ending) {
            self.server.pod_goes();
        }
    }

    /// Runs without faults until nothing is left to do. Returns an error if a promise is broken or the rounds are over. L1
    fn settle(&mut self) -> Result<(), String> {
        self.record(|_| "no more faults".to_owned());
        for _ in 0..ROUNDS {
            self.server.now += 1;
            let mut quiet = self.flights.is_empty();
            while !self.flights.is_empty() {
                self.land(Some(0));
                self.reply(Some(0), true);
            }
            self.server.finalize();
            self.server.collect();
            self.pods_follow();
            for controller in 0..self.controllers.len() {
                for kind in 0..3 {
                    while self.controllers[controller].deliver(&self.server, kind) {
                        quiet = false;
                    }
                }
                self.server.now += 1;
                self.act(controller);
                quiet &= self.flights.is_empty() && !self.controllers[controller].end_member_wait();
            }
            if let Some(broken) = &self.server.broken {
                return Err(broken.clone());
            }
            if quiet {
                return self.check();
            }
        }
        Err("L1: the controllers never finish".to_owned())
    }

    fn check(&self) -> Result<(), String> {
        let wanted = self.server.owner.filter(|owner| owner.wants > 0);
        match (&self.server.group, wanted) {
            (None, None) => Ok(()),
            (Some(group), Some(owner)) if is_right(group, owner) => Ok(()),
            (group, owner) => Err(format!("L1: {owner:?} has {:?}", group.clone().map(Reply::Object))),
        }
    }
}
