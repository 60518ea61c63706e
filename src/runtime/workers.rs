//! Who works on the keys of a queue, and what happens when the work fails or panics?
//!
//! As many workers as were asked for, each on another key. A panic is that key's failure and nobody else's: it is logged,
//! the key is tried again after its back-off, and the worker goes on.

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;

use super::shutdown::Shutdown;
use super::workqueue::WorkQueue;

/// What became of the work on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until the key is added again.
    Done,
    /// Done, and to be looked at again after this time at the latest. The failures of the key are forgotten.
    Again(Duration),
    /// It failed: again after the back-off of this key. The worker has logged why.
    Retry,
}

/// Works on the keys of `queue`, `count` (at least 1) at a time, until `stop`. Work that is under way then is finished
/// first; who cannot wait for that drops this future, which cuts it off.
pub async fn run<K, F>(queue: WorkQueue<K>, count: u16, stop: Shutdown, work: impl Fn(K) -> F + Clone + Send + Sync + 'static)
where
    K: Clone + Ord + Debug + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let mut workers = JoinSet::new();
    for _ in 0..count.max(1) {
        workers.spawn(worker(queue.clone(), stop.clone(), work.clone()));
    }
    while workers.join_next().await.is_some() {}
}

async fn worker<K, F>(queue: WorkQueue<K>, stop: Shutdown, work: impl Fn(K) -> F + Send + Sync)
where
    K: Clone + Ord + Debug + Send + Sync,
    F: Future<Output = Outcome> + Send,
{
    while let Some(item) = stop.unless(queue.next()).await {
        // The call itself is in there too: it may panic before its first await.
        let attempt = AssertUnwindSafe(async { work(item.key().clone()).await });
        match attempt.catch_unwind().await {
            Ok(Outcome::Done) => item.succeeded(),
            Ok(Outcome::Again(delay)) => item.again_after(delay),
            Ok(Outcome::Retry) => {
                item.failed();
            }
            Err(_panic) => {
                tracing::error!(key = ?item.key(), "the work on this key panicked; trying it again later");
                item.failed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::backoff::Backoff;
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn queue() -> WorkQueue<u32> {
        WorkQueue::new(Backoff::new(Duration::from_millis(5), Duration::from_secs(30)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_one_failure_of_one_key() {
        let (trigger, stop) = Shutdown::new();
        let queue = queue();
        let worked = Arc::new(AtomicUsize::new(0));
        let (seen, first) = (Arc::clone(&worked), Arc::new(AtomicUsize::new(0)));
        queue.add(1);
        queue.add(2);
        let work = move |key| {
            let (seen, first) = (Arc::clone(&seen), Arc::clone(&first));
            async move {
                assert!(key != 1 || first.fetch_add(1, Ordering::Relaxed) > 0, "once");
                seen.fetch_add(1, Ordering::Relaxed);
                Outcome::Done
            }
        };
        let end = async {
            while worked.load(Ordering::Relaxed) < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            trigger.trigger();
        };
        tokio::join!(run(queue.clone(), 1, stop, work), end);
        assert_eq!((queue.len(), queue.failures(&1)), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_count_are_under_way_and_what_is_under_way_is_finished() {
        let (trigger, stop) = Shutdown::new();
        let queue = queue();
        (0..10).for_each(|key| queue.add(key));
        let finished = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&finished);
        let work = move |_| {
            let counted = Arc::clone(&counted);
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counted.fetch_add(1, Ordering::Relaxed);
                Outcome::Retry
            }
        };
        let end = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(queue.in_work(), 3);
            trigger.trigger();
        };
        tokio::join!(run(queue.clone(), 3, stop, work), end);
        assert_eq!(finished.load(Ordering::Relaxed), 3);
        assert_eq!((queue.len(), queue.failures(&0)), (7, 1));
    }
}
