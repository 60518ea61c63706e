//! What happens next, and does everything end well? A history is a list of numbers; each is one thing that happens.
//!
//! After every step S1 and S2 must hold. When the numbers are used up the faults stop: all that is under way lands, all that happened is seen, and
//! within a bounded number of rounds nothing may be left to do and the cluster must be right (L1).

use std::collections::BTreeMap;

use super::player::{Asked, Mutant, Player, is_right};
use super::server::{OwnerState, Reply, Server};

/// Rounds in which everybody does what he can until nothing is left to do: far more than any history needs.
const ROUNDS: u32 = 64;

/// A request on its way.
struct Flight {
    asked: Asked,
    player: usize,
    sent: u64,
    /// Whether the sender still waits for the answer.
    awaited: bool,
    reply: Option<Reply>,
}

/// The world.
pub(in crate::lifecycle) struct World {
    server: Server,
    players: Vec<Player>,
    flights: Vec<Flight>,
    /// What happened, for people; none where nobody asked.
    pub(in crate::lifecycle) story: Option<Vec<String>>,
    /// Requests that were sent, by the name of the step.
    pub(in crate::lifecycle) sent: BTreeMap<&'static str, u32>,
}

/// Plays one history to its end, or to where a promise is broken: then says which, and with `tell` everything that happened.
pub(in crate::lifecycle) fn play(history: &[u16], mutant: Mutant, tell: bool) -> Result<World, String> {
    let mut steps = history.iter();
    // Two controllers at once, since a Lease does not fence; but one alone, in half of the histories, has nobody who makes good what it misses.
    let players = if steps.next().is_some_and(|number| number.is_multiple_of(2)) { 1 } else { 2 };
    let mut world = World::new(players, mutant, tell);
    let ended = steps.find_map(|number| {
        world.step(usize::from(*number));
        world.server.broken.clone()
    });
    match ended.map_or_else(|| world.settle(), Err) {
        Ok(()) => Ok(world),
        Err(broken) => Err(format!("{broken}\n{}", world.story.unwrap_or_default().join("\n"))),
    }
}

impl World {
    fn new(players: usize, mutant: Mutant, tell: bool) -> Self {
        let server = Server::new();
        let players = (0..players).map(|_| Player::new(&server, mutant)).collect();
        Self { server, players, flights: Vec::new(), story: tell.then(Vec::new), sent: BTreeMap::new() }
    }

    fn tell(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.story.is_some() {
            let line = format!("{:>4} {}", self.server.now, what(self));
            self.story.iter_mut().for_each(|story| story.push(line.clone()));
        }
    }

    /// One thing happens. What cannot happen now does not, and then nothing does.
    fn step(&mut self, number: usize) {
        self.server.now += 1;
        let (which, number) = (number % 64, number / 64);
        // Mostly the one that leads, and sometimes the one that thinks it does.
        let player = usize::from(number.is_multiple_of(4)) % self.players.len();
        let number = number / 4;
        let flight = if self.flights.is_empty() { None } else { Some(number % self.flights.len()) };
        match which {
            0..14 => self.as_usual(player, number),
            14..18 => self.act(player),
            18..22 => self.land(flight),
            22..27 => self.reply(flight, true),
            27..29 => self.reply(flight, false),
            29 => self.lose(flight),
            30..43 => self.deliver(player, number % 4, !(number / 4).is_multiple_of(4)),
            43 | 44 => self.players[player].relist(&self.server, number % 3, number / 3),
            45..50 => self.scale(number),
            50..54 => drop(self.server.manage(!number.is_multiple_of(3))),
            54..57 => self.server.pod_goes(),
            57 if number.is_multiple_of(4) => self.server.person_deletes(),
            58 => self.server.status(),
            59 if number.is_multiple_of(4) => self.server.person_edits(number / 4),
            59 | 60 => self.server.finalize(),
            61 if number.is_multiple_of(2) => self.crash(player, number / 2),
            61 | 62 => drop(self.players[player].doubt()),
            _ if number.is_multiple_of(64) => self.server.change_owner(None),
            _ if number % 64 == 1 => self.server.orphan(),
            _ => self.server.collect(),
        }
        if which >= 30 {
            self.tell(|world| {
                let (server, seen) = (&world.server, world.players[player].at);
                format!("happening {which} ({number}) of {player}, which has seen {seen:?}: {:?}, {:?}", server.owner, server.pods)
            });
        }
    }

    /// One event of one kind, or all that there are of one kind or of every kind.
    fn deliver(&mut self, player: usize, kind: usize, all: bool) {
        for kind in if kind < 3 { kind..kind + 1 } else { 0..3 } {
            while self.players[player].deliver(&self.server, kind) && all {}
        }
    }

    /// What is usual: the events have come, and a few steps are done and answered before anything else happens; the last of them is slow or late.
    fn as_usual(&mut self, player: usize, number: usize) {
        if !number.is_multiple_of(4) {
            self.deliver(player, 3, true);
        }
        let steps = (number / 4) % 4;
        for step in 0..steps {
            let before = self.flights.len();
            self.act(player);
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

    fn act(&mut self, player: usize) {
        if let Some(asked) = self.players[player].act() {
            *self.sent.entry(asked.step.name()).or_default() += 1;
            self.tell(|_| format!("{player} sends {:?}", asked.request));
            self.flights.push(Flight { asked, player, sent: self.server.now, awaited: true, reply: None });
        }
    }

    /// A request is applied, whether or not somebody still waits for it.
    fn land(&mut self, flight: Option<usize>) {
        let Some(at) = flight.filter(|at| self.flights[*at].reply.is_none()) else { return };
        let reply = self.server.apply(&self.flights[at].asked.request);
        self.tell(|world| format!("{} of {} lands: {reply:?}", world.flights[at].asked.step.name(), world.flights[at].player));
        if self.flights[at].awaited {
            self.flights[at].reply = Some(reply);
        } else {
            self.flights.remove(at);
        }
    }

    /// The sender has its answer; or gives up, and then the request may still land, or has landed already.
    fn reply(&mut self, flight: Option<usize>, arrives: bool) {
        let ready = |flight: &Flight| flight.awaited && (flight.reply.is_some() || !arrives);
        let Some(at) = flight.filter(|at| self.flights.get(*at).is_some_and(ready)) else { return };
        let mut flight = self.flights.remove(at);
        self.tell(|_| format!("{} of {} {}", flight.asked.step.name(), flight.player, if arrives { "is answered" } else { "timed out" }));
        self.players[flight.player].learn(&flight.asked, flight.reply.as_ref().filter(|_| arrives), flight.sent);
        if !arrives && flight.reply.is_none() {
            flight.awaited = false;
            self.flights.push(flight);
        }
    }

    /// A request that nobody waits for never arrives.
    fn lose(&mut self, flight: Option<usize>) {
        if let Some(at) = flight.filter(|at| !self.flights[*at].awaited) {
            self.flights.remove(at);
        }
    }

    fn crash(&mut self, player: usize, place: usize) {
        for flight in self.flights.iter_mut().filter(|flight| flight.player == player) {
            flight.awaited = false;
        }
        self.flights.retain(|flight| flight.awaited || flight.reply.is_none());
        self.players[player].crash(&self.server, place);
    }

    fn scale(&mut self, number: usize) {
        let wants = [0, 1, 0, 2][number % 4];
        self.server.change_owner(Some(OwnerState { wants, queue: u32::from(number % 16 >= 8) }));
        if number % 32 >= 16 {
            self.pods_follow();
        }
    }

    /// kube-controller-manager and kubelet do all that there is for them to do.
    fn pods_follow(&mut self) {
        while self.server.manage(true) {}
        while self.server.pods.values().any(|ending| *ending) {
            self.server.pod_goes();
        }
    }

    /// No more faults: until nothing is left to do, or the rounds are over. L1
    fn settle(&mut self) -> Result<(), String> {
        self.tell(|_| "no more faults".to_owned());
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
            for player in 0..self.players.len() {
                for kind in 0..3 {
                    while self.players[player].deliver(&self.server, kind) {
                        quiet = false;
                    }
                }
                self.server.now += 1;
                self.act(player);
                quiet &= self.flights.is_empty() && !self.players[player].doubt();
            }
            if let Some(broken) = &self.server.broken {
                return Err(broken.clone());
            }
            if quiet {
                return self.check();
            }
        }
        Err("L1: there is always something to do".to_owned())
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
