//! Which lists are complete, and what keeps the others from it?
//!
//! A program that decides on half a cluster decides wrongly, so `/readyz` and the first decision both wait for this.
//! A list that was complete once stays so: a watch that breaks later leaves an older picture, not half of one, and the
//! program goes on with it. `/readyz` says no for as long as that lasts, so that people see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

#[derive(Clone, Debug, Default)]
struct List {
    complete: bool,
    trouble: Option<String>,
}

/// The lists of one program. Cheap to clone; every clone is the same.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<BTreeMap<Place, List>>>);

/// Its name, and the how many-th of that name it is: two lists of one kind, each with a filter of its own, are two.
type Place = (Arc<str>, usize);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }
}

impl Readiness {
    /// Ready at once, as long as no list is expected.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on not ready until this list, which has an entry of its own whatever its name, was complete once. Call it
    /// once for every list, before the first of them can be complete.
    pub fn expect(&self, name: &str) -> Listed {
        let name: Arc<str> = Arc::from(name);
        let mut place = (Arc::clone(&name), 0);
        self.0.send_modify(|lists| {
            place.1 = lists.keys().filter(|(other, _)| *other == name).count();
            lists.insert(place.clone(), List::default());
        });
        Listed { place, all: self.clone() }
    }

    /// Whether every expected list was complete once, and none is in trouble now: the answer of `/readyz`.
    pub fn is_ready(&self) -> bool {
        self.0.borrow().values().all(|list| list.complete && list.trouble.is_none())
    }

    /// Waits until every expected list was complete once.
    pub async fn ready(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close here.
        let _closed = changes.wait_for(|lists| lists.values().all(|list| list.complete)).await;
    }

    /// One line for each list, for `/readyz`: `pods: complete`, `podgroups: waiting (not found: …)`.
    pub fn report(&self) -> String {
        let lists = self.0.borrow();
        let line = |((name, _), list): (&Place, &List)| {
            let state = if list.complete { "complete" } else { "waiting" };
            let trouble = list.trouble.as_ref().map(|why| format!(" ({why})"));
            format!("{name}: {state}{}\n", trouble.unwrap_or_default())
        };
        lists.iter().map(line).collect()
    }
}

/// The place of one list in a [`Readiness`].
#[derive(Clone, Debug)]
pub struct Listed {
    place: Place,
    all: Readiness,
}

impl Listed {
    /// The list is complete.
    pub fn complete(&self) {
        self.set(|list| list.complete = true);
    }

    /// Something keeps the list from being complete or up to date; `None` when that is over.
    pub fn trouble(&self, why: Option<String>) {
        self.set(|list| list.trouble = why);
    }

    fn set(&self, change: impl FnOnce(&mut List)) {
        self.all.0.send_modify(|lists| change(lists.entry(self.place.clone()).or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_once_the_last_list_is_complete_and_while_none_is_in_trouble() {
        let readiness = Readiness::new();
        let pods = readiness.expect("pods");
        let nodes = readiness.expect("nodes");
        pods.complete();
        nodes.trouble(Some("forbidden: no".to_owned()));
        assert!(!readiness.is_ready());
        assert_eq!(readiness.report(), "nodes: waiting (forbidden: no)\npods: complete\n");
        let ((), ()) = tokio::join!(readiness.ready(), async { nodes.complete() });
        nodes.trouble(None);
        assert!(readiness.is_ready());
        nodes.trouble(Some("unavailable: gone".to_owned()));
        assert!(!readiness.is_ready(), "an API server that is away is said");
        assert!(readiness.report().contains("nodes: complete (unavailable: gone)"));
    }

    #[test]
    fn two_lists_of_one_name_are_two() {
        let readiness = Readiness::new();
        let (first, second) = (readiness.expect("pods"), readiness.expect("pods"));
        first.complete();
        assert!(!readiness.is_ready(), "the second is not there yet");
        second.complete();
        assert!(readiness.is_ready());
        second.trouble(Some("unavailable: gone".to_owned()));
        first.trouble(None);
        assert!(!readiness.is_ready(), "that the first works says nothing of the second");
        assert_eq!(readiness.report(), "pods: complete\npods: complete (unavailable: gone)\n");
        second.trouble(None);
        assert!(readiness.is_ready());
    }
}
