//! Watches and lists after an outage, and after a restore of etcd.

use super::*;

/// What real servers do after a restore: the watch from a version of the future opens and says nothing, and the lists are older.
#[tokio::test(start_paused = true)]
async fn after_a_restore_of_etcd_a_watch_alone_works_again_within_three_minutes() {
    let mut script = vec![empty("999999"), Reply::Watch(vec![], FOREVER)];
    script.extend((0..30).map(|_| Reply::List("10", "", vec![pod("a", "1")])));
    let mut run = run(script);
    run.expect(&["reset [] bad []"]).await;
    let (opened, _) = run.asked(1).await;
    run.asked(4).await;
    assert!(run.readiness.report().contains("999999 was seen before"), "{}", run.readiness.report());
    // All kinds are listed again.
    run.expect(&["reset [\"a\"] bad [] generation 1 back"]).await;
    let waited = clock::monotonic() - opened;
    // 75 s of silence, 60 s of older lists, and a back-off of 15 s.
    assert!((Duration::from_secs(135)..Duration::from_secs(155)).contains(&waited), "{waited:?}");
}

/// A list, a watch that ends after a second, this number of attempts without an answer, and then the rest.
fn with_outage(attempts: usize, rest: Vec<Reply>) -> Vec<Reply> {
    let mut script = vec![empty("20"), Reply::Watch(vec![event("ADDED", pod("a", "25"))], Duration::from_secs(1))];
    script.extend((0..attempts).map(|_| Reply::Status(503)));
    script.extend(rest);
    script
}

/// A restored etcd has passed the version of the watch before the watch is opened again: nothing says that `b` was made in the meantime,
/// and that `a` is gone.
#[tokio::test(start_paused = true)]
async fn after_an_outage_the_objects_are_listed_again_though_the_watch_can_go_on() {
    let events = || Reply::Watch(vec![event("ADDED", pod("c", "31"))], FOREVER);
    // Attempts at 0, 0.1, 0.3, 0.7 and 1.5 s, and a success at 3.1 s.
    let mut run = run(with_outage(5, vec![events(), Reply::List("30", "", vec![pod("b", "22")]), events()]));
    run.expect(&["reset [] bad []", "apply a", "reset [\"b\"] bad []", "apply c"]).await;
    let text = metrics::text(&run.registry).unwrap();
    assert!(text.contains("podgroup_watch_ends_total{reason=\"away\",resource=\"pods\"} 1"), "{text}");
    // A change to another API server is shorter, and the watch goes on.
    let mut run = self::run(with_outage(4, vec![events()]));
    run.expect(&["reset [] bad []", "apply a", "apply c"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_list_after_an_outage_has_all_kinds_listed_again_and_is_accepted_at_once_without_never_back() {
    let restored = || Reply::List("12", "", vec![pod("b", "11")]);
    let mut run = run_as(with_outage(5, vec![Reply::Watch(vec![], FOREVER), restored(), restored()]), false);
    run.expect(&["reset [] bad []", "apply a", "reset [\"b\"] bad [] generation 1 back"]).await;
    // Without an outage it comes from an API server that is behind, and the other kinds are left alone.
    let behind = vec![empty("20"), Reply::Watch(vec![gone()], FOREVER), empty("12")];
    let mut run = run_as(behind, false);
    run.expect(&["reset [] bad []", "reset [] bad [] back"]).await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_were_older_after_an_outage_and_are_newer_now_have_all_kinds_listed_again() {
    let newer = || Reply::List("26", "", vec![pod("b", "22")]);
    let mut run = run(with_outage(5, vec![Reply::Watch(vec![], FOREVER), empty("24"), newer(), empty("24"), newer()]));
    // The list of the new generation is refused as well while it is older.
    run.expect(&["reset [] bad []", "apply a", "reset [\"b\"] bad [] generation 1 back"]).await;
    assert_eq!(run.relist.back_after(0).await, 1);
    // Without an outage it was an API server that is behind.
    let behind = vec![empty("25"), Reply::Watch(vec![gone()], FOREVER), empty("24"), newer()];
    let mut run = self::run(behind);
    run.expect(&["reset [] bad []", "reset [\"b\"] bad []"]).await;
}
