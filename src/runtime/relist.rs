//! Requests that the watches of a program list again.
//!
//! A program that needs a view of the cluster from after a certain moment raises the generation. Each watch that shares the [`Relist`] then drops what it
//! does (a wait, a list under way or an open watch) and lists again. Each complete list names the generation that was current when the list *began*, so the
//! receiver knows which request the list satisfies.

use std::sync::Arc;

use tokio::sync::watch;

/// Raises the generation of lists. Cheap to clone; every clone is the same.
#[derive(Clone, Debug)]
pub struct Relist(Arc<watch::Sender<u64>>);

impl Default for Relist {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Relist {
    /// Makes a relist of generation 0: nothing is requested yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every watch for a list that begins after this call. Returns the generation of these lists.
    pub fn request(&self) -> u64 {
        self.0.send_modify(|generation| *generation = generation.saturating_add(1));
        self.generation()
    }

    /// Returns the generation that a list has which begins now.
    #[must_use]
    pub fn generation(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the generation is above this one. Safe to drop and to call again.
    pub(super) async fn above(&self, generation: u64) {
        let mut changes = self.0.subscribe();
        // The sender is in `self`, so the channel cannot close here.
        let _closed = changes.wait_for(|now| *now > generation).await;
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
        let ((), first) = tokio::join!(other.above(0), async { relist.request() });
        assert_eq!((first, relist.request(), other.generation()), (1, 2, 2));
        other.above(1).await;
    }
}
