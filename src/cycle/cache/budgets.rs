//! Decides whether the disruption budgets allow evictions (R6).
//!
//! The answer follows the last watched status of the budgets and counts like the API server:
//!
//! * Of the pods that a budget guards, at most the allowed number is evicted.
//! * A pod that is not ready costs nothing where the budget says so.
//! * A pod that does not run yet or is terminating costs nothing.
//! * A pod under two budgets cannot be evicted.
//! * A nominated victim counts, because the status of the budget does not know it yet.
//!
//! This is checked before victims are chosen. The API server checks each eviction again, and its decision is final.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::pod_facts::PodPhase;
use crate::api::{BudgetFacts, BudgetKey, PodFacts, Uid};

use super::{Cache, Change};

impl Cache {
    /// Adds or updates a disruption budget.
    pub fn apply_budget(&mut self, facts: BudgetFacts) {
        let old = Arc::make_mut(&mut self.budgets).insert(facts.key.clone(), facts.clone());
        // A preemption that found no victims may find some now.
        let more = old.is_some_and(|old| {
            old.allowed < facts.allowed || old.selector != facts.selector || (facts.frees_unready && !old.frees_unready)
        });
        if more {
            self.changed(Change::Budgets);
        }
    }

    /// Removes a disruption budget.
    pub fn delete_budget(&mut self, key: &BudgetKey) {
        if Arc::make_mut(&mut self.budgets).remove(key).is_some() {
            self.changed(Change::Budgets);
        }
    }

    /// The keys of the budgets.
    pub fn budget_keys(&self) -> impl Iterator<Item = &BudgetKey> {
        self.budgets.keys()
    }

    /// Returns whether all of these pods may be evicted now, together, in addition to the victims that are nominated already.
    pub(in crate::cycle) fn budgets_allow<'a>(&'a self, victims: &'a BTreeSet<Uid>, nominated: impl Iterator<Item = &'a Uid>) -> bool {
        if self.budgets.is_empty() {
            return true;
        }
        let facts = |uid: &Uid| self.pods.get(uid).map(|member| &member.facts).filter(|facts| guarded(facts));
        let mut concerned: BTreeSet<&BudgetKey> = BTreeSet::new();
        for pod in victims.iter().filter_map(facts) {
            let mut guards = guards_of(&self.budgets, pod);
            concerned.extend(guards.next().map(|budget| &budget.key));
            if guards.next().is_some() {
                return false;
            }
        }
        let going: BTreeSet<&Uid> = victims.iter().chain(nominated).collect();
        concerned.into_iter().filter_map(|key| self.budgets.get(key)).all(|budget| {
            let counts = |pod: &&Arc<PodFacts>| costs(budget, pod);
            let going = going.iter().filter_map(|uid| facts(uid)).filter(counts).count();
            // A budget that is used up does not protect pods that cost it nothing.
            let asked = victims.iter().filter_map(facts).filter(counts).count();
            asked == 0 || u32::try_from(going).is_ok_and(|going| going <= budget.allowed)
        })
    }
}

/// The number of further evictions that each budget allows; a snapshot.
#[derive(Debug)]
pub(in crate::cycle) struct BudgetRoom {
    budgets: Arc<BTreeMap<BudgetKey, BudgetFacts>>,
    places: BTreeMap<BudgetKey, usize>,
    left: Vec<u32>,
}

impl BudgetRoom {
    /// The allowed evictions, by index.
    pub(in crate::cycle) fn left(&self) -> &[u32] {
        &self.left
    }

    /// Returns the indices of the budgets that an eviction of this pod would cost something.
    pub(in crate::cycle) fn of(&self, pod: &PodFacts) -> Vec<usize> {
        if self.budgets.is_empty() || !guarded(pod) {
            return Vec::new();
        }
        let mut guards = guards_of(&self.budgets, pod);
        let Some(first) = guards.next() else { return Vec::new() };
        if guards.next().is_some() {
            // It cannot be evicted: beyond the last index nothing is left.
            return vec![self.left.len()];
        }
        if costs(first, pod) { self.places.get(&first.key).copied().into_iter().collect() } else { Vec::new() }
    }
}

impl Cache {
    /// Returns how many evictions the budgets allow now, beyond these victims that are nominated already.
    pub(in crate::cycle) fn budget_room<'a>(&self, nominated: impl Iterator<Item = &'a Uid>) -> BudgetRoom {
        let budgets = Arc::clone(&self.budgets);
        let places: BTreeMap<_, _> = budgets.keys().cloned().enumerate().map(|(place, key)| (key, place)).collect();
        let mut room = BudgetRoom { left: budgets.values().map(|budget| budget.allowed).collect(), budgets, places };
        for uid in nominated {
            let Some(member) = self.pods.get(uid) else { continue };
            for place in room.of(&member.facts) {
                if let Some(left) = room.left.get_mut(place) {
                    *left = left.saturating_sub(1);
                }
            }
        }
        room
    }
}

/// The budgets that guard the pod.
fn guards_of<'a>(budgets: &'a BTreeMap<BudgetKey, BudgetFacts>, pod: &'a PodFacts) -> impl Iterator<Item = &'a BudgetFacts> {
    let of_namespace = budgets.range(BudgetKey { namespace: Arc::clone(&pod.namespace), name: Arc::from("") }..);
    let of_namespace = of_namespace.map(|(_, budget)| budget).take_while(|budget| budget.key.namespace == pod.namespace);
    of_namespace.filter(|budget| guards(budget, pod))
}

/// Whether an eviction of the pod is checked against budgets at all.
const fn guarded(pod: &PodFacts) -> bool {
    !pod.deleting && !pod.phase.ended() && !matches!(pod.phase, PodPhase::Pending)
}

fn guards(budget: &BudgetFacts, pod: &PodFacts) -> bool {
    budget.key.namespace == pod.namespace && budget.selector.matches(&pod.labels)
}

/// Whether an eviction costs nothing now, but would if the pod were ready.
pub(super) fn frees_unready(budgets: &BTreeMap<BudgetKey, BudgetFacts>, pod: &PodFacts) -> bool {
    guarded(pod) && !pod.ready && guards_of(budgets, pod).any(|budget| budget.frees_unready)
}

/// Whether other budgets guard the pod than before, because its labels changed.
pub(super) fn is_guarded_otherwise(budgets: &BTreeMap<BudgetKey, BudgetFacts>, before: &PodFacts, now: &PodFacts) -> bool {
    let keys = |pod: &PodFacts| guards_of(budgets, pod).map(|budget| budget.key.clone()).collect::<Vec<_>>();
    !budgets.is_empty() && before.labels != now.labels && keys(before) != keys(now)
}

fn costs(budget: &BudgetFacts, pod: &PodFacts) -> bool {
    guards(budget, pod) && (pod.ready || !budget.frees_unready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::label_selector::LabelSelector;
    use crate::cycle::state::SchedulingState;
    use crate::cycle::testing::steps::empty_state;
    use crate::cycle::testing::{pod, running};

    fn budget(name: &str, app: &str, allowed: u32) -> BudgetFacts {
        BudgetFacts { key: BudgetKey::new("ns", name), selector: LabelSelector::label("app", app), allowed, frees_unready: false }
    }

    fn with(pods: &[(&str, &str)]) -> SchedulingState {
        let mut state = empty_state();
        for (name, app) in pods {
            let labels = [("app".to_owned(), (*app).to_owned())].into();
            state.apply_pod(PodFacts { labels, ..running(pod("ns", name, "g", &[("cpu", 1)]), "n") });
        }
        state
    }

    fn allows(state: &SchedulingState, names: &[&str]) -> bool {
        let victims = names.iter().map(|name| Uid::from(format!("ns/{name}").as_str())).collect();
        state.cache.budgets_allow(&victims, state.holds.victims())
    }

    fn change(state: &mut SchedulingState, name: &str, change: impl Fn(PodFacts) -> PodFacts) {
        let facts = PodFacts::clone(&state.cache().pods()[&Uid::from(format!("ns/{name}").as_str())].facts);
        state.apply_pod(change(facts));
    }

    #[test]
    fn no_more_pods_are_evicted_than_a_budget_allows() {
        let mut state = with(&[("a", "x"), ("b", "x"), ("c", "y")]);
        assert!(allows(&state, &["a", "b", "c"]));
        state.apply_budget(budget("x", "x", 1));
        assert!(allows(&state, &["a", "c"]) && !allows(&state, &["a", "b"]));
        state.apply_budget(BudgetFacts { key: BudgetKey::new("other", "y"), ..budget("y", "y", 0) });
        assert!(allows(&state, &["c"]), "a budget guards its namespace only");
        state.apply_budget(BudgetFacts { selector: LabelSelector::everything(), ..budget("x", "", 2) });
        assert!(allows(&state, &["a", "b"]) && !allows(&state, &["a", "b", "c"]), "an empty selector is all");
        state.apply_budget(BudgetFacts { selector: LabelSelector::Nothing, ..budget("x", "", 0) });
        assert!(allows(&state, &["a", "b", "c"]), "and no selector selects no pod");
        state.apply_budget(budget("x", "x", 0));
        state.delete_budget(&BudgetKey::new("ns", "x"));
        assert!(allows(&state, &["a", "b"]));
    }

    #[test]
    fn a_pod_that_is_not_ready_costs_nothing_where_the_budget_says_so() {
        let mut state = with(&[("a", "x"), ("b", "x")]);
        change(&mut state, "a", |facts| PodFacts { ready: false, ..facts });
        state.apply_budget(budget("x", "x", 0));
        assert!(!allows(&state, &["a"]));
        state.apply_budget(BudgetFacts { frees_unready: true, ..budget("x", "x", 0) });
        assert!(allows(&state, &["a"]) && !allows(&state, &["b"]));
    }

    #[test]
    fn a_pending_or_terminating_pod_costs_nothing_and_a_pod_under_two_budgets_is_never_evicted() {
        let mut state = with(&[("a", "x"), ("b", "x")]);
        state.apply_budget(budget("x", "x", 0));
        change(&mut state, "a", |facts| PodFacts { phase: PodPhase::Pending, ..facts });
        change(&mut state, "b", |facts| PodFacts { deleting: true, ..facts });
        assert!(allows(&state, &["a", "b"]));
        change(&mut state, "a", |facts| PodFacts { phase: PodPhase::Running, ..facts });
        for name in ["x", "z"] {
            state.apply_budget(budget(name, "x", 9));
        }
        assert!(!allows(&state, &["a"]));
    }

    #[test]
    fn the_victims_of_other_nominations_are_counted() {
        let mut state = with(&[("a", "x"), ("b", "x")]);
        state.apply_budget(budget("x", "x", 1));
        state.apply_group(crate::cycle::testing::group("ns", "asks", 1, "default"));
        state.apply_pod(pod("ns", "p", "asks", &[("cpu", 1)]));
        let resources = state.cache().pods()[&Uid::from("ns/p")].facts.request.clone();
        let place = crate::accounting::Placement { uid: "ns/p".into(), node: "n".into(), queue: "default".into(), resources };
        let (key, until) = (crate::api::GroupKey::new("ns", "asks"), std::time::Duration::from_secs(9));
        assert!(allows(&state, &["b"]));
        assert!(state.nominate(&key, &[place], &["ns/a".into()], crate::cycle::plan::EvictionCause::Preemption, until).is_some());
        assert!(!allows(&state, &["b"]) && allows(&state, &["a"]));
        change(&mut state, "b", |facts| PodFacts { ready: false, ..facts });
        state.apply_budget(BudgetFacts { frees_unready: true, ..budget("x", "x", 0) });
        assert!(allows(&state, &["b"]) && !allows(&state, &["a"]), "an eviction that costs nothing needs no room in the budget");
        state.apply_budget(budget("x", "x", 1));
        state.delete_pod(&"ns/a".into());
        assert!(allows(&state, &["b"]));
    }

    #[test]
    fn a_budget_that_allows_more_wakes_a_podgroup_that_was_refused() {
        let (mut state, now) = (empty_state(), std::time::Duration::ZERO);
        crate::cycle::testing::steps::gang(&mut state, "g", 1, "default", 1, &[("cpu", 1)]);
        state.apply_budget(budget("x", "x", 1));
        while state.has_work(now) {
            assert!(crate::cycle::run(&mut state, &crate::cycle::testing::POLICY, now).binds.is_empty());
        }
        state.apply_budget(budget("x", "x", 0));
        assert!(!state.has_work(now));
        state.apply_budget(budget("x", "x", 1));
        assert!(state.has_work(state.next_attempt().unwrap()));
    }
}
