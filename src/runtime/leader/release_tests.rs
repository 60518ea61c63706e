//! How a Lease is given up at a clean end, and what the next leader reads from it.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_released_lease_says_when_it_was_released() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let acquired = spec(&cluster).acquire_time;
    seconds(5).await;
    one.trigger.trigger();
    assert_eq!(one.result().await, Ok(()));
    let given = spec(&cluster);
    assert_eq!((given.holder_identity.as_deref(), given.lease_duration_seconds), (Some(""), Some(1)));
    assert!(given.acquire_time > acquired && given.acquire_time == given.renew_time);
}

#[tokio::test(start_paused = true)]
async fn a_drained_leader_says_so_and_the_next_one_knows_and_removes_it() {
    let cluster = Cluster::default();
    let mut one = candidate_with(&cluster, "one", MARKED);
    assert_eq!(one.leadership.acquired().await, Some(Handover::Unclean), "the lease did not exist");
    let mut two = candidate_with(&cluster, "two", MARKED);
    seconds(5).await;
    one.leadership.release(Release::Drained);
    one.trigger.trigger();
    assert_eq!(one.result().await, Ok(()));
    assert_eq!((spec(&cluster).holder_identity.as_deref(), annotation(&cluster, "x/drained").as_deref()), (Some(""), Some("0")));
    assert!(two.leads().await <= Duration::from_secs(2));
    assert_eq!((two.leadership.acquired().await, annotation(&cluster, "x/drained")), (Some(Handover::Clean), None));
    seconds(60).await;
    assert_eq!(two.leadership.acquired().await, Some(Handover::Clean), "a renewal changes nothing");
    // The second change of the holder.
    let mut three = candidate_with(&cluster, "three", MARKED);
    seconds(5).await;
    two.leadership.release(Release::Drained);
    two.trigger.trigger();
    three.leads().await;
    assert_eq!((three.leadership.acquired().await, spec(&cluster).lease_transitions), (Some(Handover::Clean), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_not_drained_keeps_the_lease_and_the_next_one_waits_for_its_end() {
    let cluster = Cluster::default();
    let mut one = candidate_with(&cluster, "one", MARKED);
    one.leads().await;
    let mut two = candidate_with(&cluster, "two", MARKED);
    seconds(5).await;
    one.trigger.trigger();
    assert_eq!(one.result().await, Ok(()));
    assert!(!one.leadership.is_leading());
    assert_eq!((spec(&cluster).holder_identity.as_deref(), annotation(&cluster, "x/drained")), (Some("one"), None));
    assert!(two.leads().await >= Duration::from_secs(13));
    assert_eq!(two.leadership.acquired().await, Some(Handover::Unclean));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_up_without_the_mark_comes_at_once_and_uncleanly() {
    let cluster = Cluster::default();
    let mut one = candidate_with(&cluster, "one", MARKED);
    one.leads().await;
    let mut two = candidate_with(&cluster, "two", MARKED);
    seconds(5).await;
    one.leadership.release(Release::Unmarked);
    one.leadership.release(Release::Drained);
    one.trigger.trigger();
    assert_eq!(one.result().await, Ok(()));
    assert_eq!((spec(&cluster).holder_identity.as_deref(), annotation(&cluster, "x/drained")), (Some(""), None));
    assert!(two.leads().await <= Duration::from_secs(2));
    assert_eq!(two.leadership.acquired().await, Some(Handover::Unclean));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_without_an_answer_is_given_up_at_the_end() {
    for held_before in [false, true] {
        let cluster = Cluster::default();
        if held_before {
            let mut before = candidate(&cluster, "before");
            before.leads().await;
            before.trigger.trigger();
            assert_eq!(before.result().await, Ok(()));
        }
        cluster.lock().unwrap().mute = true;
        let mut one = candidate_with(&cluster, "one", MARKED);
        seconds(if held_before { 1 } else { 17 }).await;
        assert_eq!((spec(&cluster).holder_identity.as_deref(), one.leadership.is_leading()), (Some("one"), false));
        cluster.lock().unwrap().mute = false;
        one.leadership.release(Release::Unmarked);
        one.trigger.trigger();
        assert_eq!(one.result().await, Ok(()));
        assert_eq!((spec(&cluster).holder_identity.as_deref(), annotation(&cluster, "x/drained")), (Some(""), None), "{held_before}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_a_holder_without_it_has_copied_says_nothing() {
    let cluster = Cluster::default();
    let mut one = candidate_with(&cluster, "one", MARKED);
    one.leads().await;
    one.leadership.release(Release::Drained);
    one.trigger.trigger();
    assert_eq!(one.result().await, Ok(()));
    // An older version: it copies all annotations, and gives the lease up without a mark of its own.
    let mut old = candidate(&cluster, "old");
    old.leads().await;
    old.trigger.trigger();
    assert_eq!(old.result().await, Ok(()));
    assert_eq!(annotation(&cluster, "x/drained").as_deref(), Some("0"));
    let mut two = candidate_with(&cluster, "two", MARKED);
    two.leads().await;
    assert_eq!(two.leadership.acquired().await, Some(Handover::Unclean));
}
