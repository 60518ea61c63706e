//! Writes a drawn cluster for the scheduler and for the reference.

use super::*;

impl Facts {
    fn node_of(&self, running: &Running) -> usize {
        running.node % self.slack.len()
    }

    /// Returns the amount that a node offers.
    fn offers(&self, node: usize) -> Pair {
        let mut offers = self.slack[node];
        for pod in self.all_pods().iter().filter(|(_, pod)| self.node_of(pod) == node) {
            offers.iter_mut().zip(pod.1.asks).for_each(|(offers, asks)| *offers += asks);
        }
        offers.map(|amount| amount.max(0))
    }

    /// Returns each running pod with its PodGroup.
    fn all_pods(&self) -> Vec<(Option<String>, Running)> {
        let gang = |pod: &Running| pod.gang.map(|gang| format!("gang-{gang}-{}", LEAVES[pod.queue]));
        let mut all: Vec<_> = self.pods.iter().map(|pod| (gang(pod), pod.clone())).collect();
        if self.preemptor.runs {
            let own = Running {
                queue: self.preemptor.queue,
                asks: self.preemptor.asks,
                node: 0,
                gang: None,
                priority: 0,
                created: 0,
                not_preemptable: false,
                terminating: false,
                guards: Guards::None,
            };
            all.push((Some("asking".to_owned()), own));
        }
        all
    }

    fn gangs(&self) -> BTreeSet<(usize, usize)> {
        self.pods.iter().filter_map(|pod| Some((pod.gang?, pod.queue))).collect()
    }

    fn reserves(&self) -> Option<Pair> {
        let members = i64::try_from(self.preemptor.members).unwrap();
        self.preemptor.reserved.then(|| self.preemptor.asks.map(|asks| asks * members))
    }

    /// Returns the minResources of the PodGroup that preempts.
    fn stated(&self) -> Option<Pair> {
        let members = i64::try_from(self.preemptor.members).unwrap() + i64::from(self.preemptor.runs);
        let stated = |(asks, more): (i64, i64)| asks * members + more;
        let [cpu, memory] = self.preemptor.asks;
        self.preemptor.states.map(|[more_cpu, more_memory]| [stated((cpu, more_cpu)), stated((memory, more_memory))])
    }

    pub(in super::super) fn beyond(&self) -> Resources {
        amounts(&list(self.preemptor.states.unwrap_or_default()))
    }

    pub(in super::super) fn members(&self) -> Vec<Uid> {
        (0..self.preemptor.members).map(|at| Uid::from(format!("ns/m{at}").as_str())).collect()
    }

    /// Returns the budgets of a pod, by number. A pod with two budgets cannot be evicted: it gets the number after the last, which allows nothing.
    pub(in super::super) fn budgets_of(&self, uid: &str) -> Vec<usize> {
        let pod = (0..self.pods.len()).find(|at| format!("p{at}") == uid).and_then(|at| self.pods.get(at));
        match pod.map_or(Guards::None, |pod| pod.guards) {
            Guards::None => Vec::new(),
            Guards::One(at) => vec![at],
            Guards::Both => vec![self.budgets.len()],
        }
    }

    /// R6: whether the budgets allow these evictions together.
    pub(in super::super) fn budgets_allow(&self, victims: &[String]) -> bool {
        let all: Vec<usize> = victims.iter().flat_map(|uid| self.budgets_of(uid)).collect();
        let asked = |budget: usize| u32::try_from(all.iter().filter(|at| **at == budget).count()).unwrap();
        all.iter().all(|at| self.budgets.get(*at).is_some_and(|lets| asked(*at) <= *lets))
    }

    /// Writes the facts as a scenario. The reference has no budgets: a pod that its budgets never allow to evict is written as not preemptable.
    pub(in super::super) fn text(&self) -> String {
        let mut text = String::new();
        for node in 0..self.slack.len() {
            let _ = writeln!(text, "node n{node} {}", pair(self.offers(node)));
        }
        for ((name, parent), fields) in SHAPE.iter().zip(&self.queues) {
            let _ = write!(text, "queue {name}");
            parent.iter().for_each(|parent| _ = write!(text, " parent={parent}"));
            for (key, bounds) in [("capability", fields.capability), ("deserved", fields.deserved), ("guarantee", fields.guarantee)] {
                if bounds.iter().any(Option::is_some) {
                    let set: Vec<_> =
                        DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some(format!("{name}:{}", bound?))).collect();
                    let _ = write!(text, " {key}={}", set.join(","));
                }
            }
            let _ = write!(text, " weight={} priority={}", fields.weight, fields.priority);
            text.push_str(if fields.reclaimable { "" } else { " reclaimable=no" });
            text.push_str(if fields.closed { " closed\n" } else { "\n" });
        }
        for (at, (group, pod)) in self.all_pods().iter().enumerate() {
            let _ = write!(text, "pod p{at} in {} {} node=n{}", LEAVES[pod.queue], pair(pod.asks), self.node_of(pod));
            group.iter().for_each(|group| _ = write!(text, " group={group}"));
            let _ = write!(text, " priority={} created={}", pod.priority, pod.created);
            let not_preemptable = pod.not_preemptable || !self.budgets_allow(&[format!("p{at}")]);
            text.push_str(if not_preemptable { " preemptable=no" } else { "" });
            text.push_str(if pod.terminating { " terminating\n" } else { "\n" });
        }
        for (gang, queue) in self.gangs() {
            let _ = writeln!(text, "group gang-{gang}-{} in {} min={}", LEAVES[queue], LEAVES[queue], self.mins[gang]);
        }
        let preemptor = &self.preemptor;
        let not_preemptable = if preemptor.preemptable { "" } else { " preemptable=no" };
        let member_keeps = if preemptor.member_keeps { " preemptable=not-all" } else { "" };
        let min = preemptor.members + usize::from(preemptor.runs);
        let (queue, asks) = (LEAVES[preemptor.queue], pair(preemptor.asks));
        let stated = self.stated().map(|stated| format!(" minresources={}", pair(stated))).unwrap_or_default();
        let _ = writeln!(
            text,
            "group asking in {queue} min={min} asks={asks} times={} priority={}{stated}{not_preemptable}{member_keeps}",
            preemptor.members, preemptor.priority
        );
        if let Some((queue, asks)) = self.waits {
            let _ = writeln!(text, "group waits in {} asks={}", LEAVES[queue], pair(asks));
        }
        if let Some(reserves) = self.reserves() {
            let _ = writeln!(text, "reserve asking in {queue} {}", pair(reserves));
        }
        text
    }

    /// Returns the state of the scheduler for these facts.
    pub(in super::super) fn state(&self) -> SchedulingState {
        let mut state = SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]);
        for at in 0..self.slack.len() {
            state.apply_node(NodeFacts { allocatable: amounts(&list(self.offers(at))), ..node(&format!("n{at}"), &[]) });
        }
        for ((name, parent), fields) in SHAPE.iter().zip(&self.queues) {
            let bounds = |bounds: Bounds| {
                limits(&DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some((*name, bound?))).collect::<Vec<_>>())
            };
            state.apply_queue(QueueFacts {
                capability: bounds(fields.capability),
                deserved: bounds(fields.deserved),
                guarantee: bounds(fields.guarantee),
                weight: fields.weight,
                priority: fields.priority,
                reclaimable: fields.reclaimable,
                closed_by_hand: fields.closed,
                ..queue(name, *parent, &[])
            });
        }
        for (gang, queue) in self.gangs() {
            state.apply_group(group("ns", &format!("gang-{gang}-{}", LEAVES[queue]), self.mins[gang], LEAVES[queue]));
        }
        let preemptor = &self.preemptor;
        let min = u32::try_from(preemptor.members).unwrap() + u32::from(preemptor.runs);
        let facts = group("ns", "asking", min, LEAVES[preemptor.queue]);
        let min_resources = self.stated().map(|stated| amounts(&list(stated)));
        state.apply_group(GroupFacts { preemptable: preemptor.preemptable, min_resources, ..facts });
        for (at, (group, facts)) in self.all_pods().iter().enumerate() {
            let seconds = SignedDuration::from_secs(i64::from(facts.created));
            let pod_facts = PodFacts {
                request: amounts(&list(facts.asks)),
                priority: facts.priority,
                created: Timestamp::UNIX_EPOCH + seconds,
                preemptable: !facts.not_preemptable,
                deleting: facts.terminating,
                charged_queue: Some(LEAVES[facts.queue].to_owned()),
                uid: Uid::from(format!("p{at}").as_str()),
                ..pod("ns", &format!("p{at}"), group.as_deref().unwrap_or("none"), &[])
            };
            state.apply_pod(running(pod_facts, &format!("n{}", self.node_of(facts))));
        }
        for (at, uid) in self.members().iter().enumerate() {
            let name = uid.as_str().trim_start_matches("ns/").to_owned();
            let preemptable = at > 0 || !preemptor.member_keeps;
            state.apply_pod(PodFacts { request: amounts(&list(preemptor.asks)), preemptable, ..pod("ns", &name, "asking", &[]) });
        }
        if let Some((queue, asks)) = self.waits {
            state.apply_group(group("ns", "waits", 1, LEAVES[queue]));
            state.apply_pod(PodFacts { request: amounts(&list(asks)), ..pod("ns", "w0", "waits", &[]) });
        }
        if let Some(reserves) = self.reserves() {
            state.cache.set_reservation(&Self::key(), LEAVES[preemptor.queue], &amounts(&list(reserves)));
        }
        state
    }

    pub(in super::super) fn queue(&self) -> &'static str {
        LEAVES[self.preemptor.queue]
    }

    pub(in super::super) fn key() -> GroupKey {
        GroupKey::new("ns", "asking")
    }

    pub(in super::super) fn left_on(&self, node: &str, gone: &[String]) -> Pair {
        let mut left = [0; 2];
        for at in (0..self.slack.len()).filter(|at| format!("n{at}") == node) {
            left = self.offers(at);
            for (pod, (_, facts)) in self.all_pods().iter().enumerate() {
                let is_there = self.node_of(facts) == at && !facts.terminating && !gone.contains(&format!("p{pod}"));
                left.iter_mut().zip(facts.asks).for_each(|(left, asks)| *left -= if is_there { asks } else { 0 });
            }
        }
        left
    }
}

fn list(pair: Pair) -> [(&'static str, i64); 2] {
    [(DIMENSIONS[0], pair[0]), (DIMENSIONS[1], pair[1])]
}

fn pair(pair: Pair) -> String {
    format!("cpu:{},memory:{}", pair[0], pair[1])
}
