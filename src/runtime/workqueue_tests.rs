//! A key is in the queue once, with one worker at a time, and comes back at its time. The clock is paused.

use super::*;

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(Backoff::new(Duration::from_millis(5), Duration::from_secs(30)))
}

/// Returns the next key within `limit`; `None` when there is none.
async fn next(queue: &WorkQueue<&'static str>, limit: Duration) -> Option<Work<&'static str>> {
    tokio::time::timeout(limit, queue.next()).await.ok()
}

async fn key_now(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    next(queue, Duration::ZERO).await.map(|work| *work.key())
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_in_which_they_were_first_added() {
    let queue = queue();
    for key in ["b", "a", "b", "c", "a"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    for expected in [Some("b"), Some("a"), Some("c"), None] {
        assert_eq!(key_now(&queue).await, expected);
    }
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_in_work_goes_to_no_other_worker_and_comes_once_more_when_it_was_added_meanwhile() {
    let queue = queue();
    queue.add("a");
    let work = next(&queue, Duration::ZERO).await.unwrap();
    queue.add("a");
    queue.add("a");
    assert_eq!((queue.len(), queue.in_work()), (0, 1));
    assert_eq!(key_now(&queue).await, None);
    drop(work);
    assert_eq!(key_now(&queue).await, Some("a"));
    assert_eq!(key_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_at_its_time_and_the_earlier_of_two_counts() {
    let queue = queue();
    let began = clock::monotonic();
    queue.add_after("a", Duration::from_secs(10));
    queue.add_after("a", Duration::from_secs(3));
    queue.add_after("a", Duration::from_secs(7));
    drop(queue.next().await);
    assert_eq!(clock::monotonic() - began, Duration::from_secs(3));
    assert!(next(&queue, Duration::from_secs(60)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_now_is_not_added_later_too() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(3));
    queue.add("a");
    assert_eq!(key_now(&queue).await, Some("a"));
    assert!(next(&queue, Duration::from_secs(60)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_is_in_work_when_its_time_comes_follows_the_work() {
    let queue = queue();
    queue.add("a");
    let work = next(&queue, Duration::ZERO).await.unwrap();
    queue.add_after("a", Duration::from_secs(1));
    assert!(next(&queue, Duration::from_secs(5)).await.is_none());
    drop(work);
    assert_eq!(key_now(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_waits_longer_each_time_and_alone() {
    let queue = queue();
    queue.add("bad");
    for wait in [5, 10, 20, 40] {
        let work = queue.next().await;
        assert_eq!(work.failed(), Duration::from_millis(wait));
        queue.add("good");
        assert_eq!(key_now(&queue).await, Some("good"));
    }
    assert_eq!((queue.failures(&"bad"), queue.failures(&"good")), (4, 0));
    queue.next().await.succeeded();
    assert_eq!(queue.failures(&"bad"), 0);
    assert_eq!(queue.retry("bad"), Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_done_can_be_added_again_after_a_delay() {
    let queue = queue();
    queue.retry("a");
    let work = queue.next().await;
    let began = clock::monotonic();
    work.again_after(Duration::from_secs(9));
    assert_eq!(queue.failures(&"a"), 0);
    drop(queue.next().await);
    assert_eq!(clock::monotonic() - began, Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn every_key_wakes_a_worker_of_its_own() {
    let queue = queue();
    let both = async { tokio::join!(queue.next(), queue.next(), queue.next()) };
    let adding = async {
        tokio::task::yield_now().await;
        queue.add_after("c", Duration::from_secs(1));
        queue.add("a");
        queue.add("b");
    };
    let limit = Duration::from_secs(2);
    let ((one, two, three), ()) = tokio::time::timeout(limit, async { tokio::join!(both, adding) }).await.unwrap();
    let mut keys = [*one.key(), *two.key(), *three.key()];
    keys.sort_unstable();
    assert_eq!((keys, queue.in_work()), (["a", "b", "c"], 3));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_up_waiting_loses_no_key() {
    let queue = queue();
    assert!(next(&queue, Duration::from_millis(1)).await.is_none());
    let waiting = queue.next();
    futures::pin_mut!(waiting);
    assert!(futures::poll!(&mut waiting).is_pending());
    queue.add("a");
    let other = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
    assert_eq!(other.map(|work| *work.key()).ok(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn the_slow_work_of_one_namespace_leaves_workers_for_the_others() {
    let lane = |key: &(&'static str, u32)| Arc::<str>::from(key.0);
    let queue = WorkQueue::with_lanes(Backoff::new(Duration::from_millis(5), Duration::from_secs(30)), Slots::of(8), lane);
    let take = async |limit: Duration| {
        let mut works = Vec::new();
        while let Ok(work) = tokio::time::timeout(limit, queue.next()).await {
            works.push(work);
        }
        works
    };
    (0..100).for_each(|number| queue.add(("hangs", number)));
    let mut hanging = take(Duration::ZERO).await;
    assert_eq!(hanging.len(), 6, "one namespace never has all workers");
    queue.add(("works", 0));
    queue.add(("works", 1));
    assert_eq!(take(Duration::ZERO).await.iter().map(|work| *work.key()).collect::<Vec<_>>(), [("works", 0), ("works", 1)]);
    // From now on it has one worker.
    tokio::time::sleep(EXPECTED).await;
    hanging.truncate(1);
    assert_eq!(take(Duration::ZERO).await.len(), 0);
    hanging.clear();
    let next = take(Duration::ZERO).await;
    assert_eq!(next.len(), 1);
    // It is answered in time: all is as before.
    drop(next);
    assert_eq!(take(Duration::ZERO).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_turns() {
    let lane = |key: &(&'static str, u32)| Arc::<str>::from(key.0);
    let queue = WorkQueue::with_lanes(Backoff::new(Duration::from_millis(5), Duration::from_secs(30)), Slots::of(8), lane);
    (0..3).for_each(|number| queue.add(("many", number)));
    queue.add(("one", 0));
    for expected in [("many", 0), ("one", 0), ("many", 1), ("many", 2)] {
        assert_eq!(*queue.next().await.key(), expected);
    }
    assert!(queue.is_empty());
}
