//! The events of a history, and how they are drawn.
//!
//! A history is numbers: each step is a few bytes, which are read as an event and the questions after it. 0 always means the simplest
//! choice, so shrinking the bytes shrinks the history.

use std::fmt;

use proptest::prelude::*;

use super::facts::{Amounts, Bounds, GROUPS, MISSING, NAMES, NODES, PODS, QueueSpec, ROOT, amounts, queue_line};

pub(super) type Step = [u8; 18];

/// Draws a history of at least 30 steps.
pub(super) fn history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop::array::uniform18(any::<u8>()), 30..34)
}

/// A pod that is to be placed, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) pod: usize,
    pub(super) node: usize,
    pub(super) queue: usize,
    pub(super) amounts: Amounts,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Nothing,
    Node(usize, Option<Amounts>),
    Queue(usize, QueueSpec),
    NoQueue(usize),
    /// A pod is seen in the cluster: new, resized, moved, with or without a node and a queue, and with the next two queues of the path that
    /// its binding wrote.
    Seen(Place, bool, bool, Option<[usize; 2]>),
    Terminating(usize),
    Gone(usize),
    Assume(Place),
    Confirm(usize),
    /// The bind of the pod failed.
    Forget(usize),
    Reserve(usize, usize, Amounts),
    Unreserve(usize),
    /// A PodGroup waits for an amount; a zero amount ends the wait.
    Waits(usize, usize, Amounts),
    /// Places pods, rolls back to an earlier savepoint, and commits or drops the trial.
    Try([Place; 3], usize, bool),
}

/// A question after a step: whether an amount fits in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) queue: usize,
    pub(super) request: Amounts,
}

/// Reads the event of a step, and two questions. The first steps make a cluster.
pub(super) fn read(at: usize, step: &Step) -> (Event, [Question; 2]) {
    let mut bytes = Bytes(step.iter());
    let kind = match at {
        0 | 7 => 15,
        1..=6 => 1,
        _ => bytes.below(32),
    };
    let questions = [bytes.question(), bytes.question()];
    let event = match kind {
        1..=7 => bytes.queue_event(),
        8..=11 => Event::Seen(bytes.place(), bytes.mostly(), bytes.mostly(), bytes.path()),
        12..=14 => Event::Assume(bytes.place()),
        15 => Event::Node(bytes.below(NODES), Some(bytes.offers())),
        16 => Event::Node(bytes.below(NODES), (bytes.below(3) > 0).then(|| bytes.offers())),
        17 | 18 => Event::Gone(bytes.below(PODS)),
        19 => Event::Terminating(bytes.below(PODS)),
        20 => Event::Confirm(bytes.below(PODS)),
        21 => Event::Forget(bytes.below(PODS)),
        22 | 23 => Event::Reserve(bytes.below(GROUPS), bytes.any_queue(), bytes.request()),
        24 => Event::Unreserve(bytes.below(GROUPS)),
        25..=27 => Event::Waits(bytes.below(GROUPS), bytes.any_queue(), bytes.request().map(|amount| amount * 3)),
        28 => Event::NoQueue(bytes.any_queue()),
        0 => Event::NoQueue(bytes.named_queue()),
        29..=31 => {
            let (back, keep) = (bytes.below(4), bytes.mostly());
            Event::Try(std::array::from_fn(|_| bytes.place()), back, keep)
        }
        _ => Event::Nothing,
    };
    (event, questions)
}

/// The bytes of a step; 0 after the last one.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        usize::from(*self.0.next().unwrap_or(&0))
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end
    }

    fn mostly(&mut self) -> bool {
        self.next() < 192
    }

    /// Returns the first queues more often than the last, so that trees are deep.
    fn named_queue(&mut self) -> usize {
        1 + self.early(MISSING - 1, 256)
    }

    /// Returns a number below `end`, the smaller the likelier, for bytes below `of`.
    fn early(&mut self, end: usize, of: usize) -> usize {
        let byte = self.next().min(of - 1);
        byte * byte * end / (of * of)
    }

    fn any_queue(&mut self) -> usize {
        self.next() * NAMES.len() / 256
    }

    fn question(&mut self) -> Question {
        Question { queue: self.any_queue(), request: self.request() }
    }

    /// Draws a placement; every pod is charged something.
    fn place(&mut self) -> Place {
        let (spot, queue, request) = (self.next(), self.any_queue(), self.request());
        let amounts = [request[0], request[1], 1];
        Place { pod: spot % PODS, node: (spot / PODS) % (NODES + 1), queue, amounts }
    }

    fn path(&mut self) -> Option<[usize; 2]> {
        (!self.mostly()).then(|| [self.any_queue(), self.any_queue()])
    }

    fn request(&mut self) -> Amounts {
        let byte = self.next() as i128;
        [byte % 8, (byte / 8) % 4, (byte / 32) % 2]
    }

    fn offers(&mut self) -> Amounts {
        std::array::from_fn(|_| self.below(16) as i128)
    }

    fn queue_event(&mut self) -> Event {
        let queue = self.named_queue();
        // Mostly below an earlier queue; sometimes below any queue, itself and the missing one included.
        let parent = if self.0.as_slice().first() < Some(&235) { self.early(queue, 235) } else { self.next() % NAMES.len() };
        let (capability, deserved, guarantee) = (self.bounds(24), self.bounds(12), self.bounds(6));
        let rest = self.next();
        let spec = QueueSpec {
            parent,
            capability,
            deserved,
            guarantee,
            weight: rest as u32 % 4,
            priority: rest as i32 / 4 % 3,
            reclaimable: rest % 5 != 4,
            closed: rest >= 236,
        };
        if self.next() > 240 { Event::Queue(ROOT, spec) } else { Event::Queue(queue, spec) }
    }

    /// Draws limits; each dimension is unset in two of three.
    fn bounds(&mut self, end: usize) -> Bounds {
        std::array::from_fn(|_| match self.next() {
            0..170 => None,
            set => Some(((set - 170) % end) as i128),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} in {} {} node=n{}", self.pod, NAMES[self.queue], amounts(&self.amounts), self.node)
    }
}

/// Writes the event as a line of a scenario, if there is one for it.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Node(node, Some(offers)) => writeln!(f, "node n{node} {}", amounts(offers)),
            Self::Node(node, None) => writeln!(f, "no node n{node}"),
            Self::Queue(queue, spec) => f.write_str(&queue_line(NAMES[*queue], spec)),
            Self::NoQueue(queue) => writeln!(f, "no queue {}", NAMES[*queue]),
            Self::Seen(place, on_node, in_queue, path) => {
                let path = path.map(|path| path.map(|queue| NAMES[queue]));
                writeln!(f, "pod {place} # on a node: {on_node}, in a queue: {in_queue}, below {path:?}")
            }
            Self::Terminating(pod) => writeln!(f, "# p{pod} terminates"),
            Self::Gone(pod) => writeln!(f, "gone p{pod}"),
            Self::Assume(place) => writeln!(f, "pod {place} # if it fits"),
            Self::Confirm(pod) => writeln!(f, "# p{pod} is bound"),
            Self::Forget(pod) => writeln!(f, "gone p{pod} # if it was not bound"),
            Self::Reserve(group, queue, held) => writeln!(f, "reserve g{group} in {} {}", NAMES[*queue], amounts(held)),
            Self::Unreserve(group) => writeln!(f, "no reserve g{group}"),
            Self::Waits(group, queue, asks) => writeln!(f, "group g{group} in {} asks={}", NAMES[*queue], amounts(asks)),
            Self::Try(places, back, keep) => {
                writeln!(f, "# tried, undone back to {back}, committed: {keep}: {}; {}; {}", places[0], places[1], places[2])
            }
        }
    }
}
