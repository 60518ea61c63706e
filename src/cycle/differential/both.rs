//! The same history on the real cycle and on the rules: do they say the same?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::scene::{GroupSaid, QueueSaid, Scene, name};
use crate::accounting::reference::Amounts;
use crate::accounting::reference::cycle_model::{Bind, CycleModel as Story, Seen};
use crate::api::GroupKey;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::cycle::policy::Policy;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{POLICY, class};
use crate::resources::Resources;

/// A cycle that is to come so much later is part of the same step.
const AT_ONCE: Duration = Duration::from_millis(150);
/// After so many cycles there is nothing left to do.
const MOST_CYCLES: usize = 40;

pub(super) struct Both {
    pub(super) state: SchedulingState,
    pub(super) story: Story,
    /// In milliseconds.
    pub(super) now: u64,
    pub(super) nodes: usize,
    pub(super) queues: Vec<QueueSaid>,
    /// None where it is gone.
    pub(super) groups: Vec<Option<GroupSaid>>,
    pub(super) over: BTreeSet<usize>,
    /// How many pods came.
    pub(super) came: usize,
}

impl Both {
    /// Everything but pods is there.
    pub(super) fn begin(scene: &Scene) -> Result<Self, String> {
        let mut both = Self {
            state: SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]),
            story: Story::default(),
            now: 0,
            nodes: scene.nodes.len(),
            queues: scene.queues.clone(),
            groups: scene.groups.iter().cloned().map(Some).collect(),
            over: BTreeSet::new(),
            came: 0,
        };
        (0..3).for_each(|value| both.state.apply_priority_class(class(&format!("c{value}"), value)));
        scene.nodes.iter().enumerate().for_each(|(at, offers)| both.node(at, *offers));
        (0..both.queues.len()).for_each(|at| both.queue(at));
        (0..both.groups.len()).for_each(|at| both.group(at));
        both.settle().map(|()| both)
    }

    /// Cycles run until nothing is left to do.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..MOST_CYCLES {
            self.cycle()?;
            let Some(next) = self.state.next_attempt() else { return self.is_right() };
            if next > Duration::from_millis(self.now) + AT_ONCE {
                return self.is_right();
            }
            self.now = self.now.max(u64::try_from(next.as_millis()).unwrap());
        }
        Err("it does not come to rest".to_owned())
    }

    fn cycle(&mut self) -> Result<(), String> {
        let policy = Policy { release: Duration::ZERO, ..POLICY };
        let plan = run(&mut self.state, &policy, Duration::from_millis(self.now));
        if !plan.evictions.is_empty() {
            return Err(format!("somebody goes: {:?}", plan.evictions));
        }
        let looked_at = plan.tried.iter().map(|key| key.name.to_string()).collect();
        let binds: Vec<Bind> = plan.binds.iter().map(|bind| Bind { pod: bind.name.to_string(), node: bind.node.to_string() }).collect();
        let real = self.real();
        let rest = real.iter().filter(|(_, seen)| seen.rests_until.is_some()).map(|(name, _)| name.clone()).collect();
        self.story.cycle(self.now, &looked_at, &binds, &rest).map_err(|what| format!("{what} ({binds:?} of {looked_at:?})"))?;
        same(&real, &self.story.seen(self.now))
    }

    /// The accounting of both is the same, and no PodGroup is forgotten: a turn for each changes nothing.
    fn is_right(&self) -> Result<(), String> {
        let report = self.state.cache().accounting().audit();
        if !report.is_clean() {
            return Err(format!("the audit finds {:?}", report.differences));
        }
        for queue in (0..self.queues.len()).map(name).chain(["root".to_owned()]) {
            let view = self.state.cache().accounting().quota().queue(&queue);
            let (real, want) = ([view.used, view.reserved].map(nanos), self.story.counted(&queue));
            if real != want {
                return Err(format!("used and reserved in {queue}: {real:?}, by the text {want:?}"));
            }
        }
        let mut after = self.story.clone();
        let before = after.seen(self.now);
        let everybody = before.keys().cloned().collect();
        let rest = before.iter().filter(|(_, seen)| seen.rests_until.is_some()).map(|(name, _)| name.clone()).collect();
        after.cycle(self.now, &everybody, &[], &rest).map_err(|what| format!("nobody looks, and {what}"))?;
        same(&before, &after.seen(self.now)).map_err(|what| format!("nobody looks, and {what}"))
    }

    fn real(&self) -> BTreeMap<String, Seen> {
        let seen = |(key, group): (&GroupKey, &crate::cycle::cache::Group)| {
            group.facts.as_ref()?;
            let until = u64::try_from(group.admission.backoff.until.as_millis()).unwrap();
            let seen = Seen {
                reserved: nanos(self.state.cache().reserved(group)),
                admitted: Some(group.is_admitted()),
                times: group.admission.backoff.times,
                rests_until: Some(until).filter(|until| *until > self.now),
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
        Some((name, seen)) => Err(format!("{name}: {seen:?}, by the text {:?}", want.get(name))),
        None if real.len() == want.len() => Ok(()),
        None => Err("somebody is not there".to_owned()),
    }
}

fn nanos(resources: &Resources) -> Amounts {
    resources.iter().filter(|(_, amount)| amount.nanos() > 0).map(|(name, amount)| (name.to_string(), amount.nanos())).collect()
}
