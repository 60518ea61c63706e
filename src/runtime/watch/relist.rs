//! Requests that the watches of a program list again.
//!
//! A program that needs a view of the cluster from after a certain moment raises the generation. Each watch that shares the [`Relist`] then
//! drops what it does (a wait, a list under way or an open watch) and lists again. Each complete list names the generation that was current
//! when the list *began*, so the receiver knows which request the list satisfies.
//!
//! A request may name a floor: a resourceVersion that the cluster has reached. A list below it comes from an API server that is behind; `newest` says
//! what follows.

use std::sync::Arc;

use tokio::sync::watch;

use super::timeline::Timeline;

/// The log's words for it.
pub(in crate::runtime) const WENT_BACK: &str =
    "the cluster went back to an earlier state (its etcd was restored from a backup); everything is listed again";
/// The same, where it is likely and not certain.
pub(super) const MAY_HAVE_GONE_BACK: &str = "after an outage the lists were older for a while: the cluster may have gone back to an earlier state (its etcd was restored from a backup); everything is listed again";

/// What is requested of the watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The number of requests so far.
    pub(super) generation: u64,
    /// The resourceVersion that the cluster had reached before the last request; 0 if no request named one.
    pub(super) floor: u64,
    /// The generation of the last request that was made because the cluster went back, or may have; 0 if it never did.
    pub(super) went_back: u64,
    /// The generation of the last of these for which it was certain.
    pub(super) certain: u64,
}

/// Raises the generation of lists, and has the [`Timeline`] that the election and the watches share. Cheap to clone; every clone is the same.
#[derive(Clone, Debug)]
pub struct Relist {
    asked: Arc<watch::Sender<Asked>>,
    timeline: Timeline,
}

impl Default for Relist {
    fn default() -> Self {
        Self { asked: Arc::new(watch::Sender::new(Asked::default())), timeline: Timeline::default() }
    }
}

impl Relist {
    /// Makes a relist of generation 0: nothing is requested yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every watch for a list that begins after this call. Returns the generation of these lists. `floor` is a resourceVersion that
    /// the cluster has reached, from the answer to a write (see [`Leadership::floor`](crate::runtime::leader::Leadership::floor)); `None`
    /// if none is known.
    pub fn request(&self, floor: Option<u64>) -> u64 {
        self.change(|asked| asked.floor = asked.floor.max(floor.unwrap_or(0)))
    }

    /// Reports that the cluster went back to an earlier state, because its etcd was restored from a backup: every watch lists again, and
    /// accepts lists that are older than what it has seen. `floor` is a resourceVersion that the cluster has reached since.
    pub(in crate::runtime) fn went_back(&self, floor: u64) {
        self.change(|asked| {
            asked.floor = floor;
            asked.went_back = asked.generation;
            asked.certain = asked.generation;
        });
    }

    /// Reports that the cluster may have gone back: every watch lists again, and what was learned before is doubted. Unlike
    /// [`Self::went_back`], each watch still refuses lists that are older than what it has seen.
    pub(super) fn doubt(&self) {
        self.change(|asked| asked.went_back = asked.generation);
    }

    /// Returns the generation that a list has which begins now.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.asked().generation
    }

    /// Waits until the cluster went back, after the generation `known`. Returns the generation of the lists that show the state since. Safe
    /// to drop and to call again.
    pub async fn back_after(&self, known: u64) -> u64 {
        self.wait(|asked| asked.went_back > known).await.went_back
    }

    /// Returns which version the cluster had not passed when.
    pub(in crate::runtime) const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub(super) fn asked(&self) -> Asked {
        *self.asked.borrow()
    }

    /// Waits until the generation is above this one. Safe to drop and to call again.
    pub(super) async fn above(&self, generation: u64) {
        self.wait(|asked| asked.generation > generation).await;
    }

    /// Changes what is asked for as a new generation, and returns that.
    fn change(&self, change: impl FnOnce(&mut Asked)) -> u64 {
        self.asked.send_modify(|asked| {
            asked.generation = asked.generation.saturating_add(1);
            change(asked);
        });
        self.generation()
    }

    async fn wait(&self, until: impl Fn(&Asked) -> bool) -> Asked {
        let mut changes = self.asked.subscribe();
        // The sender is in `self`, so the channel cannot close here.
        let _closed = changes.wait_for(until).await;
        self.asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_request_has_a_generation_of_its_own_and_every_clone_sees_it() {
        let relist = Relist::new();
        let other = relist.clone();
        assert_eq!(relist.generation(), 0);
        let ((), first) = tokio::join!(other.above(0), async { relist.request(None) });
        assert_eq!((first, relist.request(None), other.generation()), (1, 2, 2));
        other.above(1).await;
    }

    #[tokio::test]
    async fn a_floor_only_rises_until_the_cluster_went_back() {
        let relist = Relist::new();
        relist.request(Some(20));
        relist.request(None);
        relist.request(Some(10));
        assert_eq!(relist.asked(), Asked { generation: 3, floor: 20, went_back: 0, certain: 0 });
        let (back, ()) = tokio::join!(relist.back_after(0), async { relist.went_back(12) });
        assert_eq!((back, relist.asked()), (4, Asked { generation: 4, floor: 12, went_back: 4, certain: 4 }));
        assert_eq!(relist.request(Some(13)), 5);
        assert_eq!(relist.asked(), Asked { generation: 5, floor: 13, went_back: 4, certain: 4 });
        relist.doubt();
        assert_eq!(relist.asked(), Asked { generation: 6, floor: 13, went_back: 6, certain: 4 });
    }
}
