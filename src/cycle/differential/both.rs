//! Runs the same history on the real cycle and on the model, and compares their states.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::scene::{GroupFields, QueueFields, Scene, name};
use crate::accounting::reference::Amounts;
use crate::accounting::reference::cycle_model::{Bind, CycleModel, MemberState, Seen};
use crate::api::GroupKey;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::cycle::policy::Policy;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{POLICY, class};
use crate::resources::Resources;

/// A cycle that is due within this time is part of the same step.
const AT_ONCE: Duration = Duration::from_millis(150);
/// The number of cycles after which nothing must be left to do.
const MOST_CYCLES: usize = 40;

/// The real cycle, the model, and the objects of the history.
pub(super) struct Both {
    pub(super) state: SchedulingState,
    pub(super) model: CycleModel,
    /// The time in milliseconds.
    pub(super) now: u64,
    pub(super) nodes: usize,
    pub(super) queues: Vec<QueueFields>,
    /// The PodGroups; `None` for a deleted one.
    pub(super) groups: Vec<Option<GroupFields>>,
    /// The numbers of the PodGroups that are over.
    pub(super) over: BTreeSet<usize>,
    /// The number of pods that were created.
    pub(super) pods_created: usize,
    /// What every cycle did; nothing where it is not asked for.
    pub(super) trace: Option<Vec<String>>,
}

impl Both {
    /// Creates all objects except the pods.
    pub(super) fn begin(scene: &Scene, traced: bool) -> Self {
        let mut both = Self {
            state: SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]),
            model: CycleModel::default(),
            now: 0,
            nodes: scene.nodes.len(),
            queues: scene.queues.clone(),
            groups: scene.groups.iter().cloned().map(Some).collect(),
            over: BTreeSet::new(),
            pods_created: 0,
            trace: traced.then(Vec::new),
        };
        (0..3).for_each(|value| both.state.apply_priority_class(class(&format!("c{value}"), value)));
        scene.nodes.iter().enumerate().for_each(|(at, offers)| both.node(at, *offers));
        (0..both.queues.len()).for_each(|at| both.queue(at));
        (0..both.groups.len()).for_each(|at| both.group(at));
        both
    }

    /// Runs cycles until nothing is left to do. The error is the first difference.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..MOST_CYCLES {
            self.cycle()?;
            let Some(next) = self.state.next_attempt() else { return self.check_settled() };
            if next > Duration::from_millis(self.now) + AT_ONCE {
                return self.check_settled();
            }
            self.now = self.now.max(u64::try_from(next.as_millis()).unwrap());
        }
        Err("the cycles do not end".to_owned())
    }

    fn cycle(&mut self) -> Result<(), String> {
        let policy = Policy { release: Duration::ZERO, ..POLICY };
        let plan = run(&mut self.state, &policy, Duration::from_millis(self.now));
        if !plan.evictions.is_empty() {
            return Err(format!("pods are evicted: {:?}", plan.evictions));
        }
        let tried: BTreeSet<String> = plan.tried.iter().map(|key| key.name.to_string()).collect();
        let binds: Vec<Bind> = plan.binds.iter().map(|bind| Bind { pod: bind.name.to_string(), node: bind.node.to_string() }).collect();
        let real = self.real();
        let backing_off: BTreeSet<String> =
            real.iter().filter(|(_, seen)| seen.backs_off_until.is_some()).map(|(name, _)| name.clone()).collect();
        if let Some(trace) = &mut self.trace {
            trace.push(cycle_text(&self.state, self.now, &tried, &binds, &real));
        }
        self.model.cycle(self.now, &tried, &binds, &backing_off).map_err(|what| format!("{what} ({binds:?} of {tried:?})"))?;
        same(&real, &self.model.seen(self.now))
    }

    /// Checks that both have the same accounting, and that no PodGroup is missed: when the model tries every PodGroup again, nothing changes.
    fn check_settled(&self) -> Result<(), String> {
        let report = self.state.cache().accounting().audit();
        if !report.is_clean() {
            return Err(format!("the audit finds {:?}", report.differences));
        }
        for queue in (0..self.queues.len()).map(name).chain(["root".to_owned()]) {
            let view = self.state.cache().accounting().quota().queue(&queue);
            let (real, want) = ([view.used, view.reserved].map(nanos), self.model.counted(&queue));
            if real != want {
                return Err(format!("used and reserved in {queue}: {real:?}, by the rules {want:?}"));
            }
        }
        let mut after = self.model.clone();
        let before = after.seen(self.now);
        let all = before.keys().cloned().collect();
        let backing_off = before.iter().filter(|(_, seen)| seen.backs_off_until.is_some()).map(|(name, _)| name.clone()).collect();
        after.cycle(self.now, &all, &[], &backing_off).map_err(|what| format!("a PodGroup is missed: {what}"))?;
        let mut then = after.seen(self.now);
        // Pods that are being bound cannot be preempted, so the program asks what it may reclaim of them once they are bound. Then such a
        // PodGroup is admitted without a reservation, or backs off because there is nothing to preempt.
        let binds = self.model.members().values().any(|member| matches!(&member.state, MemberState::On(place) if !place.bound));
        then.retain(|name, seen| {
            let was = &before[name];
            let reclaims = seen.reserved.is_empty() || after.is_admitted_by_reclaim(name);
            let begins = seen.times > was.times || seen.admitted == Some(true) && reclaims;
            !(binds && was.admitted == Some(false) && begins)
        });
        let before = before.into_iter().filter(|(name, _)| then.contains_key(name)).collect();
        same(&before, &then).map_err(|what| format!("a PodGroup is missed: {what}"))
    }

    fn real(&self) -> BTreeMap<String, Seen> {
        let seen = |(key, group): (&GroupKey, &crate::cycle::cache::Group)| {
            group.facts.as_ref()?;
            let until = u64::try_from(group.admission.backoff.until.as_millis()).unwrap();
            let seen = Seen {
                reserved: nanos(self.state.cache().reserved(group)),
                admitted: Some(group.is_admitted()),
                times: group.admission.backoff.times,
                backs_off_until: Some(until).filter(|until| *until > self.now),
            };
            Some((key.name.to_string(), seen))
        };
        self.state.cache().groups().iter().filter_map(seen).collect()
    }
}

fn same(real: &BTreeMap<String, Seen>, want: &BTreeMap<String, Seen>) -> Result<(), String> {
    let is_as = |seen: &Seen, want: &Seen| *want == Seen { admitted: want.admitted.and(seen.admitted), ..seen.clone() };
    let wrong = real.iter().find(|(name, seen)| !want.get(*name).is_some_and(|want| is_as(seen, want)));
    match wrong {
        Some((name, seen)) => Err(format!("{name}: {seen:?}, by the rules {:?}", want.get(name))),
        None if real.len() == want.len() => Ok(()),
        None => Err("a PodGroup is missing".to_owned()),
    }
}

/// Writes what a cycle did, and what the program holds after it.
fn cycle_text(state: &SchedulingState, now: u64, tried: &BTreeSet<String>, binds: &[Bind], real: &BTreeMap<String, Seen>) -> String {
    let bound: Vec<String> = binds.iter().map(|bind| format!("{} on {}", bind.pod, bind.node)).collect();
    let mut text = format!("cycle at {now} ms: tries {tried:?}, binds {bound:?}\n");
    for name in state.cache().queues().keys() {
        let view = state.cache().accounting().quota().queue(name);
        text += &format!("  queue {name}: used {:?}, reserved {:?}\n", view.used, view.reserved);
    }
    for (key, group) in state.cache().groups().iter() {
        let waiting: Vec<&str> = group.waiting.iter().map(|uid| &**uid).collect();
        text += &format!("  {}: {:?}, waiting {waiting:?}, {:?}\n", key.name, real.get(&*key.name), group.refusal);
    }
    text
}

fn nanos(resources: &Resources) -> Amounts {
    resources.iter().filter(|(_, amount)| amount.nanos() > 0).map(|(name, amount)| (name.to_string(), amount.nanos())).collect()
}
