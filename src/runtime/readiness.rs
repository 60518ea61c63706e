//! Tracks which lists of the API server are complete, and why the others are not.
//!
//! A program that decides on a part of the cluster decides wrongly, so `/readyz` and the first decision both wait for all lists.
//! A list that was complete once stays complete: a broken watch leaves an older picture of the cluster, not a part of one, and the
//! program works on with it. `/readyz` fails while that lasts, so that people see it.

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
pub struct Readiness(Arc<watch::Sender<BTreeMap<ListKey, List>>>);

/// The name of a list, and its number among the lists of that name: two lists of one kind with different filters are two lists.
type ListKey = (Arc<str>, usize);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }
}

impl Readiness {
    /// Makes a readiness without lists, which is ready at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a list: it is not ready until this list was complete once. Every call adds a list of its own, whatever the name. Call it
    /// for every list before the first of them can be complete.
    pub fn expect(&self, name: &str) -> Listed {
        let name: Arc<str> = Arc::from(name);
        let mut key = (Arc::clone(&name), 0);
        self.0.send_modify(|lists| {
            key.1 = lists.keys().filter(|(other, _)| *other == name).count();
            lists.insert(key.clone(), List::default());
        });
        Listed { key, all: self.clone() }
    }

    /// Whether every list was complete once and none has trouble now: the answer of `/readyz`.
    pub fn is_ready(&self) -> bool {
        self.0.borrow().values().all(|list| list.complete && list.trouble.is_none())
    }

    /// Waits until every list was complete once.
    pub async fn ready(&self) {
        let mut changes = self.0.subscribe();
        // The sender is in `self`, so the channel cannot close here.
        let _closed = changes.wait_for(|lists| lists.values().all(|list| list.complete)).await;
    }

    /// Returns one line for each list, for `/readyz`: `pods: complete`, `podgroups: waiting (not found: …)`.
    pub fn report(&self) -> String {
        let lists = self.0.borrow();
        let line = |((name, _), list): (&ListKey, &List)| {
            let state = if list.complete { "complete" } else { "waiting" };
            let trouble = list.trouble.as_ref().map(|why| format!(" ({why})"));
            format!("{name}: {state}{}\n", trouble.unwrap_or_default())
        };
        lists.iter().map(line).collect()
    }
}

/// One list of a [`Readiness`], to report its state.
#[derive(Clone, Debug)]
pub struct Listed {
    key: ListKey,
    all: Readiness,
}

impl Listed {
    /// Reports that the list is complete.
    pub fn complete(&self) {
        self.set(|list| list.complete = true);
    }

    /// Reports what keeps the list from being complete or up to date; `None` when that is over.
    pub fn trouble(&self, why: Option<String>) {
        self.set(|list| list.trouble = why);
    }

    fn set(&self, change: impl FnOnce(&mut List)) {
        self.all.0.send_modify(|lists| change(lists.entry(self.key.clone()).or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_when_the_last_list_is_complete_and_none_has_trouble() {
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
        assert!(!readiness.is_ready(), "an unavailable API server is reported");
        assert!(readiness.report().contains("nodes: complete (unavailable: gone)"));
    }

    #[test]
    fn two_lists_with_the_same_name_are_separate() {
        let readiness = Readiness::new();
        let (first, second) = (readiness.expect("pods"), readiness.expect("pods"));
        first.complete();
        assert!(!readiness.is_ready(), "the second is not complete yet");
        second.complete();
        assert!(readiness.is_ready());
        second.trouble(Some("unavailable: gone".to_owned()));
        first.trouble(None);
        assert!(!readiness.is_ready(), "the first says nothing about the second");
        assert_eq!(readiness.report(), "pods: complete\npods: complete (unavailable: gone)\n");
        second.trouble(None);
        assert!(readiness.is_ready());
    }
}
