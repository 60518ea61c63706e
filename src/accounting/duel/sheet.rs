//! What do the rules say of every queue in one state of the facts?
//!
//! The same answers as the reference gives, which recounts everything at each question and is too slow for millions of states: here
//! each rule is worked out once for all queues, parents first or children first as it needs. That both say the same is tried
//! by the way, on one question of every so many histories.

use super::facts::{Amounts, DEFAULT, Facts, QUEUES, ROOT, add};

/// By queue.
type Each<T> = [T; QUEUES];

/// Everything that follows from the facts but shares.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    /// T3.
    pub(super) ways: Each<Vec<usize>>,
    /// In the order in which they share (F3).
    pub(super) children: Each<Vec<usize>>,
    /// The queues below `root`, parents first.
    pub(super) down: Vec<usize>,
    pub(super) total: Amounts,
    pub(super) used: Each<Amounts>,
    pub(super) reserved: Each<Amounts>,
    /// Whether a pod is charged there or below.
    pub(super) in_use: Each<bool>,
    pub(super) floor: Each<Amounts>,
    pub(super) held: Each<Amounts>,
    /// F4 without the floor: its own and what is held by its children.
    base: Each<Amounts>,
    /// Both, if nobody had reserved anything.
    held_by_pods: Each<Amounts>,
    base_by_pods: Each<Amounts>,
    /// T2: the nearest broken one.
    pub(super) broken: Each<Option<usize>>,
    /// O2: the nearest that is closed by hand.
    pub(super) closed: Each<Option<usize>>,
}

/// One queue on the way up after a charge.
pub(super) struct After {
    pub(super) queue: usize,
    pub(super) held: Amounts,
    pub(super) taken: Amounts,
    /// F5: whether what all nodes offer is a limit here.
    pub(super) is_limited: [bool; 3],
}

/// Why not (F6): the queue, the dimension, the rule.
pub(super) type Refusal = (usize, Option<usize>, &'static str);

impl Facts {
    pub(super) fn exists(&self, queue: usize) -> bool {
        queue == ROOT || queue == DEFAULT || self.queues[queue].is_some()
    }

    /// T1.
    pub(super) fn parent(&self, queue: usize) -> Option<usize> {
        match queue {
            ROOT => None,
            DEFAULT => Some(self.queues[DEFAULT].map_or(ROOT, |said| said.parent)),
            _ => self.queues[queue].map(|said| said.parent),
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
        self.queues[queue].and_then(|said| said.capability[dimension]).unwrap_or(i128::MAX)
    }

    /// Everything, from scratch.
    pub(super) fn sheet(&self) -> Sheet {
        let ways: Each<Vec<usize>> = std::array::from_fn(|queue| self.way(queue));
        let mut children: Each<Vec<usize>> = Default::default();
        for queue in 0..QUEUES {
            self.parent(queue).into_iter().for_each(|parent| children[parent].push(queue));
        }
        let priority = |queue: usize| self.queues[queue].map_or(0, |said| said.priority);
        children.iter_mut().for_each(|children| children.sort_by_key(|child| (-priority(*child), *child)));
        let mut down = vec![ROOT];
        let mut at = 0;
        while let Some(queue) = down.get(at).copied() {
            down.extend(&children[queue]);
            at += 1;
        }
        let mut sheet = Sheet {
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
            for above in &sheet.ways[queue] {
                add(&mut sheet.used[*above], &pod.amounts);
                sheet.in_use[*above] = true;
            }
        }
        for (queue, amounts) in self.reserved.iter().flatten() {
            sheet.ways[*queue].iter().for_each(|above| add(&mut sheet.reserved[*above], amounts));
        }
        let overpromised = sheet.guarantee(self);
        (sheet.base, sheet.held) = sheet.hold(&std::array::from_fn(|queue| sheet.taken(queue)));
        (sheet.base_by_pods, sheet.held_by_pods) = sheet.hold(&sheet.used);
        sheet.judge(self, &overpromised);
        sheet
    }
}

impl Sheet {
    pub(super) fn taken(&self, queue: usize) -> Amounts {
        let mut taken = self.used[queue];
        add(&mut taken, &self.reserved[queue]);
        taken
    }

    /// What is taken in it and in none of its children.
    fn own(&self, queue: usize, taken: &Each<Amounts>) -> Amounts {
        let mut own = taken[queue];
        for child in &self.children[queue] {
            add(&mut own, &taken[*child].map(|amount| -amount));
        }
        own
    }

    /// F2 and F3. Who promises its children more than it has (T2).
    fn guarantee(&mut self, facts: &Facts) -> Each<bool> {
        let mut guarantee: Each<Amounts> = Default::default();
        let mut overpromised = [false; QUEUES];
        for queue in self.down.iter().rev() {
            let mut sum = [0; 3];
            self.children[*queue].iter().for_each(|child| add(&mut sum, &guarantee[*child]));
            let stated = facts.queues[*queue].map_or([None; 3], |said| said.guarantee);
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

    /// F4, without the floor and with it.
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

    /// Every queue on the way up after a charge.
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

    /// T2 and O2.
    fn judge(&mut self, facts: &Facts, overpromised: &Each<bool>) {
        let broken: Each<bool> = std::array::from_fn(|queue| {
            let parent = facts.parent(queue);
            let lost = parent.is_some_and(|parent| !facts.exists(parent));
            let circle = parent.is_some_and(|parent| self.ways[parent].contains(&queue));
            !facts.exists(queue) || lost || circle || overpromised[queue]
        });
        let closed: Each<bool> = std::array::from_fn(|queue| facts.queues[queue].is_some_and(|said| said.closed));
        let first = |of: &Each<bool>, queue: usize| self.ways[queue].iter().copied().find(|above| of[*above]);
        let (broken, closed) = (std::array::from_fn(|queue| first(&broken, queue)), std::array::from_fn(|queue| first(&closed, queue)));
        (self.broken, self.closed) = (broken, closed);
    }

    /// O3.
    pub(super) fn state(&self, queue: usize) -> &'static str {
        match self.closed[queue] {
            None => "Open",
            Some(_) if self.in_use[queue] => "Closing",
            Some(_) => "Closed",
        }
    }

    /// F6.
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
