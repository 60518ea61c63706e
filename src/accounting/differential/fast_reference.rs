//! A fast reference: what the rules say of every queue in one state of the facts.
//!
//! It gives the same answers as the slow reference, which recounts everything at each question and is too slow for millions of states. Here
//! each rule is computed once for all queues, parents first or children first as it needs. Now and then the two are compared on
//! one question.

use super::facts::{Amounts, DEFAULT, Facts, QUEUES, ROOT, add};

/// One value for each queue.
type Each<T> = [T; QUEUES];

/// Everything that follows from the facts, except shares.
#[derive(Clone, Debug)]
pub(super) struct FastReference {
    /// The way up of each queue (T3).
    pub(super) ways: Each<Vec<usize>>,
    /// The children of each queue, in the order in which they share (F3).
    pub(super) children: Each<Vec<usize>>,
    /// The queues below `root`, parents first.
    pub(super) down: Vec<usize>,
    pub(super) total: Amounts,
    pub(super) used: Each<Amounts>,
    pub(super) reserved: Each<Amounts>,
    /// Whether a pod is charged in the queue or below it.
    pub(super) in_use: Each<bool>,
    pub(super) floor: Each<Amounts>,
    pub(super) held: Each<Amounts>,
    /// F4 without the floor: what the queue takes itself, and what its children hold.
    base: Each<Amounts>,
    /// The same two sums without reservations.
    held_by_pods: Each<Amounts>,
    base_by_pods: Each<Amounts>,
    /// T2: the nearest broken queue.
    pub(super) broken: Each<Option<usize>>,
    /// O2: the nearest queue that is closed by hand.
    pub(super) closed: Each<Option<usize>>,
}

/// One queue on the way up, after a charge.
pub(super) struct After {
    pub(super) queue: usize,
    pub(super) held: Amounts,
    pub(super) taken: Amounts,
    /// F5: whether what all nodes offer limits this queue.
    pub(super) is_limited: [bool; 3],
}

/// A refusal (F6): the queue, the dimension, the rule.
pub(super) type Refusal = (usize, Option<usize>, &'static str);

impl Facts {
    pub(super) fn exists(&self, queue: usize) -> bool {
        queue == ROOT || queue == DEFAULT || self.queues[queue].is_some()
    }

    /// Returns the parent (T1).
    pub(super) fn parent(&self, queue: usize) -> Option<usize> {
        match queue {
            ROOT => None,
            DEFAULT => Some(self.queues[DEFAULT].map_or(ROOT, |spec| spec.parent)),
            _ => self.queues[queue].map(|spec| spec.parent),
        }
    }

    fn way(&self, queue: usize) -> Vec<usize> {
        let mut way = Vec::with_capacity(QUEUES);
        let mut at = Some(queue);
        while let Some(queue) = at.filter(|queue| *queue != ROOT && !way.contains(queue)) {
            way.push(queue);
            at = self.parent(queue);
        }
        way.push(ROOT);
        way
    }

    pub(super) fn capability(&self, queue: usize, dimension: usize) -> i128 {
        self.queues[queue].and_then(|spec| spec.capability[dimension]).unwrap_or(i128::MAX)
    }

    /// Computes everything from scratch.
    pub(super) fn reference(&self) -> FastReference {
        let ways: Each<Vec<usize>> = std::array::from_fn(|queue| self.way(queue));
        let mut children: Each<Vec<usize>> = Default::default();
        for queue in 0..QUEUES {
            self.parent(queue).into_iter().for_each(|parent| children[parent].push(queue));
        }
        let priority = |queue: usize| self.queues[queue].map_or(0, |spec| spec.priority);
        children.iter_mut().for_each(|children| children.sort_by_key(|child| (-priority(*child), *child)));
        let mut down = vec![ROOT];
        let mut at = 0;
        while let Some(queue) = down.get(at).copied() {
            down.extend(&children[queue]);
            at += 1;
        }
        let mut reference = FastReference {
            ways,
            children,
            down,
            total: self.total(),
            used: Default::default(),
            reserved: Default::default(),
            in_use: Default::default(),
            floor: Default::default(),
            held: Default::default(),
            base: Default::default(),
            held_by_pods: Default::default(),
            base_by_pods: Default::default(),
            broken: Default::default(),
            closed: Default::default(),
        };
        for (pod, queue) in self.pods.iter().flatten().filter_map(|pod| Some((pod, pod.queue?))) {
            for above in &reference.ways[queue] {
                add(&mut reference.used[*above], &pod.amounts);
                reference.in_use[*above] = true;
            }
        }
        for (queue, amounts) in self.reserved.iter().flatten() {
            reference.ways[*queue].iter().for_each(|above| add(&mut reference.reserved[*above], amounts));
        }
        let overpromised = reference.guarantee(self);
        (reference.base, reference.held) = reference.hold(&std::array::from_fn(|queue| reference.taken(queue)));
        (reference.base_by_pods, reference.held_by_pods) = reference.hold(&reference.used);
        reference.judge(self, &overpromised);
        reference
    }
}

impl FastReference {
    pub(super) fn taken(&self, queue: usize) -> Amounts {
        let mut taken = self.used[queue];
        add(&mut taken, &self.reserved[queue]);
        taken
    }

    /// Returns what is taken in the queue and in none of its children.
    fn own(&self, queue: usize, taken: &Each<Amounts>) -> Amounts {
        let mut own = taken[queue];
        for child in &self.children[queue] {
            add(&mut own, &taken[*child].map(|amount| -amount));
        }
        own
    }

    /// Computes the guarantees and floors (F2 and F3). Returns the queues that guarantee their children more than they have (T2).
    fn guarantee(&mut self, facts: &Facts) -> Each<bool> {
        let mut guarantee: Each<Amounts> = Default::default();
        let mut overpromised = [false; QUEUES];
        for queue in self.down.iter().rev() {
            let mut sum = [0; 3];
            self.children[*queue].iter().for_each(|child| add(&mut sum, &guarantee[*child]));
            let stated = facts.queues[*queue].map_or([None; 3], |spec| spec.guarantee);
            guarantee[*queue] = std::array::from_fn(|at| stated[at].unwrap_or(sum[at]));
            overpromised[*queue] = *queue != ROOT && (0..3).any(|at| stated[at].is_some_and(|own| sum[at] > own));
        }
        self.floor[ROOT] = std::array::from_fn(|at| self.total[at].min(facts.capability(ROOT, at)));
        for queue in &self.down {
            let mut left = self.floor[*queue];
            for child in &self.children[*queue] {
                self.floor[*child] = std::array::from_fn(|at| guarantee[*child][at].min(left[at]));
                add(&mut left, &self.floor[*child].map(|amount| -amount));
            }
        }
        overpromised
    }

    /// Computes F4, without the floor and with it.
    fn hold(&self, taken: &Each<Amounts>) -> (Each<Amounts>, Each<Amounts>) {
        let (mut bases, mut held) = (Each::<Amounts>::default(), *taken);
        for queue in self.down.iter().rev() {
            let mut base = self.own(*queue, taken);
            self.children[*queue].iter().for_each(|child| add(&mut base, &held[*child]));
            bases[*queue] = base;
            held[*queue] = self.with_floor(*queue, base);
        }
        (bases, held)
    }

    fn with_floor(&self, queue: usize, base: Amounts) -> Amounts {
        if queue == ROOT { base } else { std::array::from_fn(|at| base[at].max(self.floor[queue][at])) }
    }

    /// Returns every queue on the way up, after a charge.
    pub(super) fn after(&self, queue: usize, asked: &Amounts) -> Vec<After> {
        let [mut grown, mut grown_by_pods] = [*asked; 2];
        let level = |queue: &usize| {
            let raised = |base: &Amounts, by: &Amounts| {
                let mut base = *base;
                add(&mut base, by);
                base
            };
            let held = self.with_floor(*queue, raised(&self.base[*queue], &grown));
            let held_by_pods = self.with_floor(*queue, raised(&self.base_by_pods[*queue], &grown_by_pods));
            grown = std::array::from_fn(|at| held[at] - self.held[*queue][at]);
            grown_by_pods = std::array::from_fn(|at| held_by_pods[at] - self.held_by_pods[*queue][at]);
            let used = raised(&self.used[*queue], asked);
            let is_limited = std::array::from_fn(|at| *queue == ROOT && held_by_pods[at] > used[at]);
            After { queue: *queue, held, taken: raised(&self.taken(*queue), asked), is_limited }
        };
        self.ways[queue].iter().map(level).collect()
    }

    /// Computes the broken and the closed queues (T2 and O2).
    fn judge(&mut self, facts: &Facts, overpromised: &Each<bool>) {
        let broken: Each<bool> = std::array::from_fn(|queue| {
            let parent = facts.parent(queue);
            let lost = parent.is_some_and(|parent| !facts.exists(parent));
            let circle = parent.is_some_and(|parent| self.ways[parent].contains(&queue));
            !facts.exists(queue) || lost || circle || overpromised[queue]
        });
        let closed: Each<bool> = std::array::from_fn(|queue| facts.queues[queue].is_some_and(|spec| spec.closed));
        let first = |of: &Each<bool>, queue: usize| self.ways[queue].iter().copied().find(|above| of[*above]);
        let (broken, closed) = (std::array::from_fn(|queue| first(&broken, queue)), std::array::from_fn(|queue| first(&closed, queue)));
        (self.broken, self.closed) = (broken, closed);
    }

    /// Returns the state (O3).
    pub(super) fn state(&self, queue: usize) -> &'static str {
        match self.closed[queue] {
            None => "Open",
            Some(_) if self.in_use[queue] => "Closing",
            Some(_) => "Closed",
        }
    }

    /// Checks whether an amount fits (F6).
    pub(super) fn fits(&self, facts: &Facts, queue: usize, asked: &Amounts) -> Result<(), Refusal> {
        if let Some(broken) = self.broken[queue] {
            return Err((broken, None, "T2"));
        }
        if queue == ROOT || !self.children[queue].is_empty() {
            return Err((queue, None, "T1"));
        }
        if let Some(closed) = self.closed[queue] {
            return Err((closed, None, "O2"));
        }
        for After { queue: above, held, taken, is_limited } in self.after(queue, asked) {
            for at in (0..3).filter(|at| asked[*at] > 0) {
                let capability = facts.capability(above, at);
                if taken[at] > capability {
                    return Err((above, Some(at), "F1"));
                }
                let limit = if is_limited[at] { capability.min(self.total[at]) } else { capability };
                if held[at] > self.held[above][at] && held[at] > limit {
                    return Err((above, Some(at), "F5"));
                }
            }
        }
        Ok(())
    }
}
