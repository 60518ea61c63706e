//! Watches that are silent, and watches that speak and are old all the same.

use super::*;
use crate::runtime::watch::timeline::Timeline;

const MINUTE: Duration = Duration::from_secs(61);

fn bookmark(version: &str) -> Value {
    event("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version}}))
}

fn age(run: &Run) -> f64 {
    let text = metrics::text(&run.registry).unwrap();
    text.lines().find_map(|line| line.strip_prefix("podgroup_watch_age_seconds{resource=\"pods\"} ")?.parse().ok()).unwrap()
}

fn ended(run: &Run, reason: &str) -> bool {
    metrics::text(&run.registry).unwrap().contains(&format!("podgroup_watch_ends_total{{reason=\"{reason}\",resource=\"pods\"}} 1"))
}

/// Continues a timeline as an election does, every 2 s, from this version on.
async fn elect(timeline: Timeline, from: u64) {
    for version in from.. {
        timeline.record(clock::through_suspension(), version);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_new_bookmarks_lives_and_a_silent_one_is_dead_and_the_list_is_read_again() {
    let mut run = run(vec![
        empty("10"),
        Reply::Slowly(vec![bookmark("11"), bookmark("12"), event("ADDED", pod("a", "13"))], MINUTE),
        Reply::Silence,
        Reply::List("20", "", vec![pod("b", "15")]),
        Reply::Watch(vec![event("ADDED", pod("c", "21"))], FOREVER),
    ]);
    // The cluster is at these versions 55 s after the watch was opened, and after each bookmark.
    run.versions.lock().unwrap().extend(["11", "12", "13"]);
    run.expect(&["reset [] bad []"]).await;
    let began = clock::monotonic();
    run.expect(&["up to date", "up to date", "apply a", "up to date"]).await;
    let spoke = clock::monotonic();
    assert!((3 * MINUTE..3 * MINUTE + Duration::from_secs(1)).contains(&(spoke - began)), "{:?}", spoke - began);
    assert!((6.0..7.0).contains(&age(&run)), "as old as the question: {}", age(&run));
    tokio::time::sleep(Duration::from_secs(68)).await;
    assert_eq!(run.count(), 2);
    assert!((74.0..75.0).contains(&age(&run)), "{}", age(&run));
    // The list has no answer for 30 s, and readiness says why the view is old.
    let (listed, uri) = run.asked(2).await;
    assert!(!uri.contains("watch"), "{uri}");
    assert!((Duration::from_secs(68)..Duration::from_secs(70)).contains(&(listed - spoke)), "{:?}", listed - spoke);
    assert!(run.readiness.report().contains("no event and no bookmark for 62s"), "{}", run.readiness.report());
    assert!(!run.readiness.is_ready());
    run.expect(&["reset [\"b\"] bad []", "apply c"]).await;
    assert!(run.readiness.is_ready());
    assert!(ended(&run, "silent") && age(&run) < 1.0);
}

/// The API server is cut off from etcd: its bookmarks come, and repeat the last version. The election goes on at another one.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_bookmarks_repeat_a_version_is_dead_75_s_after_that_version() {
    let repeated = || (0..100).map(|_| bookmark("10")).collect();
    let mut run = run(vec![empty("10"), Reply::Slowly(repeated(), Duration::from_secs(10)), Reply::Silence, empty("900")]);
    run.tasks.spawn(elect(run.relist.timeline().clone(), 11));
    run.expect(&["reset [] bad []"]).await;
    let began = clock::monotonic();
    let (listed, uri) = run.asked(2).await;
    assert!(!uri.contains("watch"), "{uri}");
    assert!((Duration::from_secs(75)..Duration::from_secs(76)).contains(&(listed - began)), "{:?}", listed - began);
    assert!(run.readiness.report().contains("may be cut off from etcd"), "{}", run.readiness.report());
    run.expect(&["reset [] bad []"]).await;
    assert!(ended(&run, "stale"));
}

/// The same without election. The questions have no answer: the API server cannot reach etcd.
#[tokio::test(start_paused = true)]
async fn without_an_answer_of_etcd_bookmarks_prove_nothing() {
    let newer = (11..200).map(|version| bookmark(&version.to_string())).collect();
    let mut run = run(vec![empty("10"), Reply::Slowly(newer, Duration::from_secs(10)), empty("900")]);
    run.expect(&["reset [] bad []", "reset [] bad []"]).await;
    assert!(ended(&run, "stale"));
}

/// An etcd that notifies: each bookmark is a few seconds old, also where no question has an answer.
#[tokio::test(start_paused = true)]
async fn with_an_election_bookmarks_prove_themselves() {
    let bookmarks = (1..10).map(|minute| bookmark(&(10 + 30 * minute).to_string())).collect();
    let mut run = run(vec![empty("10"), Reply::Slowly(bookmarks, MINUTE)]);
    run.tasks.spawn(elect(run.relist.timeline().clone(), 10));
    run.expect(&["reset [] bad []"]).await;
    for _ in 1..10 {
        run.expect(&["up to date"]).await;
        assert!(age(&run) < 12.0, "{}", age(&run));
    }
    assert_eq!(run.count(), 2);
}

/// An etcd that does not notify. No watch has to die first for the program to learn that.
#[tokio::test(start_paused = true)]
async fn the_first_bookmark_is_new_where_etcd_does_not_notify() {
    let mut run = run(vec![empty("10"), Reply::Slowly(vec![bookmark("37")], MINUTE), Reply::Silence]);
    run.tasks.spawn(elect(run.relist.timeline().clone(), 10));
    // What the cluster is at after 55 s, and no bookmark would say without the question.
    run.versions.lock().unwrap().push_back("37");
    run.expect(&["reset [] bad []", "up to date"]).await;
    assert!(run.versions.lock().unwrap().is_empty());
    assert!((6.0..8.0).contains(&age(&run)), "{}", age(&run));
}
