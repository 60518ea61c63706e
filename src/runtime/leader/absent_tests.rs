//! A Lease that does not exist: it was deleted, or never made.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again_by_its_holder() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let two = candidate(&cluster, "two");
    seconds(3).await;
    cluster.lock().unwrap().lease = None;
    for _ in 0..30 {
        seconds(1).await;
        assert!(one.leadership.is_leading() && !two.leadership.is_leading());
    }
    assert_eq!(spec(&cluster).holder_identity.as_deref(), Some("one"));
}

/// The holder believes in its lease until its next renewal, and a process that starts then cannot know of it.
#[tokio::test(start_paused = true)]
async fn a_process_that_starts_after_the_lease_was_deleted_does_not_lead_beside_its_holder() {
    for after in [0, 500, 1900] {
        let cluster = Cluster::default();
        let mut one = candidate(&cluster, "one");
        one.leads().await;
        seconds(20).await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        cluster.lock().unwrap().lease = None;
        let two = candidate(&cluster, "two");
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(one.leadership.is_leading() && !two.leadership.is_leading(), "{after} ms");
        }
        assert_eq!(spec(&cluster).holder_identity.as_deref(), Some("one"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_stays_absent_is_created_after_its_duration() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    let took = one.leads().await;
    assert!(took >= Duration::from_secs(15) && took <= Duration::from_secs(17), "{took:?}");
    // Its holder was killed, and cannot create it again.
    drop(one);
    cluster.lock().unwrap().lease = None;
    let mut two = candidate(&cluster, "two");
    let took = two.leads().await;
    assert!(took >= Duration::from_secs(15) && took <= Duration::from_secs(17), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_created_without_a_holder_is_taken_at_once() {
    let cluster = Cluster::default();
    let metadata = serde_json::from_value(json!({"name": "program", "resourceVersion": "7"})).unwrap();
    cluster.lock().unwrap().lease = Some(Lease { metadata, spec: None });
    let mut one = candidate(&cluster, "one");
    assert!(one.leads().await < Duration::from_secs(1));
    assert_eq!(one.leadership.acquired().await, Some(Handover::Unclean));
}

/// The versions of the Lease are what the watches compare theirs with.
#[tokio::test(start_paused = true)]
async fn a_leader_and_a_standby_know_which_version_the_cluster_had_not_passed_when() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let two = candidate(&cluster, "two");
    seconds(21).await;
    let (version, now) = (cluster.lock().unwrap().version, clock::through_suspension());
    for candidate in [&one, &two] {
        let timeline = candidate.relist.timeline();
        let as_of = timeline.as_of(version).unwrap();
        assert!(now - as_of <= Duration::from_secs(4), "{:?}", now - as_of);
        assert!(timeline.as_of(version - 3).unwrap() < as_of);
    }
}
