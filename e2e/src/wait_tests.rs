//! Deadlines, what moves them, and what a check that fails with an error means.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_failed_wait_names_its_condition_and_the_last_state() {
    let result: Result<()> = wait_until(secs(1), "a pod runs", || async { Ok(Seen::NotYet("it is Pending".to_owned())) }).await;
    let text = format!("{:#}", result.unwrap_err());
    assert!(text.contains("a pod runs") && text.contains("it is Pending"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_its_extra_time_and_not_more() {
    let patience = Patience::default();
    patience.set(secs(60));
    let start = Instant::now();
    let late = || async move { Ok(Seen::when(start.elapsed() >= secs(30), || "too early".to_owned())) };
    patience.clone().over(async { wait_until(secs(1), "it comes late", late).await }).await.unwrap();
    patience.set(Duration::ZERO);
    let never = || async { Ok(Seen::NotYet("never".to_owned())) };
    let start = Instant::now();
    let outcome: Result<()> = patience.clone().over(async { wait_until(secs(1), "it never comes", never).await }).await;
    assert!(outcome.is_err() && start.elapsed() < secs(3));
    let (start, at_once) = (Instant::now(), patience.over(async { wait_until::<(), _, _>(secs(0), "it is not there", never).await }).await);
    assert!(at_once.is_err() && start.elapsed() < secs(1));
}

/// Waits five seconds for a condition that holds after this time, also with `in_time`. Returns whether both were in time, and the nearest.
async fn holds_after(after: Duration) -> (bool, bool, Option<Nearest>) {
    let patience = Patience::default();
    let (waited, ended) = patience
        .clone()
        .over(async {
            let start = Instant::now();
            let look = || async move { Ok(Seen::when(start.elapsed() >= after, || "too early".to_owned())) };
            (wait_until(secs(5), "it comes", look).await.is_ok(), in_time(secs(5), "it ends", tokio::time::sleep(after)).await.is_some())
        })
        .await;
    (waited, ended, patience.nearest())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_a_fixed_time_and_a_case_knows_how_near_it_came() {
    let (waited, ended, nearest) = holds_after(secs(4)).await;
    assert!(waited && ended);
    let nearest = nearest.unwrap();
    assert!((0.8..0.82).contains(&nearest.share) && nearest.limit == secs(5) && nearest.what == "it comes", "{nearest}");
    assert_eq!(holds_after(secs(6)).await, (false, false, None), "what was late came near to nothing");
}

/// Runs a wait of five seconds that nothing fulfils, with the extra time of the mix. A client obeys a `Retry-After` for 30 s from each of
/// these seconds on. Returns when the wait failed.
async fn failed_at(wait_from: u64, told_at: &[u64]) -> u64 {
    let (patience, start) = (Patience::default(), Instant::now());
    patience.set(secs(27));
    let tell = async {
        for at in told_at {
            tokio::time::sleep_until(start + secs(*at)).await;
            patience.obeys(secs(30));
        }
    };
    let never = || async { Ok(Seen::NotYet("never".to_owned())) };
    let wait = patience.clone().over(async {
        tokio::time::sleep_until(start + secs(wait_from)).await;
        assert!(wait_until::<(), _, _>(secs(5), "it never comes", never).await.is_err());
        start.elapsed().as_secs()
    });
    tokio::join!(tell, wait).1
}

#[tokio::test(start_paused = true)]
async fn a_long_retry_after_is_forgiven_while_it_lasts_and_no_longer() {
    let cases: [(u64, &[u64], u64, &str); 5] = [
        (0, &[], 32, "no Retry-After"),
        (0, &[10], 62, "all of it"),
        (20, &[10], 72, "the 20 s that are left of it"),
        (41, &[10], 73, "it is over"),
        (0, &[10, 20], 72, "two clients, from 10 s to 50 s"),
    ];
    for (wait_from, told_at, wanted, what) in cases {
        assert_eq!(failed_at(wait_from, told_at).await, wanted, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_ends_after_the_moment_does_not_count() {
    let end = Instant::now() + secs(3);
    let slow = || async move {
        tokio::time::sleep(secs(4)).await;
        Ok(Seen::NotYet("it is otherwise".to_owned()))
    };
    holds_until(end, "it is so", slow).await.unwrap();
    let end = Instant::now() + secs(3);
    assert!(holds_until(end, "it is so", || async { Ok(Seen::NotYet("it is otherwise".to_owned())) }).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_must_hold_fails_at_the_first_check_that_says_no() {
    let mut looks = 0;
    let result = holds_for(secs(60), "usage stays", || {
        looks += 1;
        let holds = looks < 3;
        async move { Ok(Seen::when(holds, || "usage is 0".to_owned())) }
    })
    .await;
    assert!(format!("{:#}", result.unwrap_err()).contains("usage is 0"));
    assert_eq!(looks, 3);
}

/// Checks for ten seconds that something holds, where each check between these seconds fails with an error. Also until a moment in ten seconds.
async fn stays(blind: std::ops::Range<u64>) -> (bool, bool) {
    let look = |start: Instant| {
        let blind = blind.contains(&start.elapsed().as_secs());
        async move { if blind { bail!("no connection") } else { Ok(Seen::Yes(())) } }
    };
    let start = Instant::now();
    let held = holds_for(secs(10), "it stays", || look(start)).await.is_ok();
    let start = Instant::now();
    (held, holds_until(start + secs(10), "it stays", || look(start)).await.is_ok())
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_check_is_no_observation_and_errors_for_long_are_a_failure() {
    assert_eq!(stays(3..3).await, (true, true));
    assert_eq!(stays(3..7).await, (true, true));
    assert_eq!(stays(3..9).await, (false, false));
    assert_eq!(stays(0..20).await, (false, false));
    assert_eq!(stays(8..20).await, (false, false), "nothing was observed at the end");
}

/// Runs [`settles`] for a condition that holds in these periods, in seconds.
async fn settled_with(periods: &[(u64, u64)]) -> bool {
    let start = Instant::now();
    let right = || periods.iter().any(|(from, to)| (*from..*to).contains(&start.elapsed().as_secs()));
    settles("it is right", || async { Ok(Seen::when(right(), || "it is wrong".to_owned())) }).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_state_settles_when_it_stays_also_after_a_moment_in_which_it_was_right_by_chance() {
    assert!(settled_with(&[(0, 99)]).await);
    assert!(settled_with(&[(1, 2), (4, 99)]).await);
    assert!(settled_with(&[(1, 2), (4, 5), (7, 99)]).await);
    assert!(settled_with(&[(29, 30), (32, 99)]).await, "the first moment was late");
    assert!(!settled_with(&[(40, 99)]).await, "never right in time");
    assert!(!settled_with(&[(1, 2), (29, 30), (34, 35)]).await, "it ends again and again");
}
