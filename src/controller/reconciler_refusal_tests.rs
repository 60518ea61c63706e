//! Tests of the loop with an API server that refuses writes or rejects authentication.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_in_one_event_and_retried_less_and_less_often() {
    let mut refusals = 0;
    let answers = move |_: &str, kind: &str, body: &Value| {
        refusals += 1;
        if kind == "events" { (201, body.clone()) } else { status(403, &format!("exceeded quota, used {refusals}")) }
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    assert_eq!(rig.count("POST events"), 1);
    let tries = rig.count("POST podgroups");
    assert!((8..15).contains(&tries), "{tries} tries in ten minutes");
    // New pods enqueue the key, but the write still waits for its back-off.
    for number in 0..60 {
        rig.events.send(Observation::Pod(0, WatchEvent::Apply(ObservedPod { group: key(), ..pod(number) }))).await.unwrap();
        seconds(1).await;
    }
    assert!(rig.count("POST podgroups") <= tries + 1, "{} tries after {tries}", rig.count("POST podgroups"));
}

#[tokio::test(start_paused = true)]
async fn a_429_is_retried_after_the_time_that_the_server_asks_for() {
    let answers = |_: &str, _: &str, _: &Value| {
        let details = json!({ "retryAfterSeconds": 10 });
        (
            429,
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429, "details": details }),
        )
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(61).await;
    assert_eq!((rig.count("POST podgroups"), rig.requests.lock().unwrap().len()), (7, 7), "nothing is read");
}

#[tokio::test(start_paused = true)]
async fn a_missing_crd_is_retried_with_a_back_off() {
    let rig = Rig::start(Box::new(|_, _, _| status(404, "the server could not find the requested resource")), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    let tries = rig.count("POST podgroups");
    assert!((20..40).contains(&tries), "{tries} tries in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_refuses_is_not_retried() {
    let rig = Rig::start(Box::new(|_, _, _| status(403, "the namespace is going")), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    assert_eq!(rig.count("POST events"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_authentication_is_retried_until_it_ends() {
    let end = clock::monotonic() + Duration::from_secs(600);
    let answers = move |method: &str, _: &str, body: &Value| match method {
        _ if clock::monotonic() < end => status(401, "Unauthorized"),
        "GET" => status(404, "not there"),
        _ => (201, created(body.clone(), 2)),
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    let tries = rig.requests.lock().unwrap().len();
    assert!((20..40).contains(&tries), "{tries} requests in ten minutes");
    assert_eq!(rig.count("POST events"), 0, "the object is not the cause");
    // The longest delay of the back-off.
    seconds(30).await;
    let last = rig.requests.lock().unwrap().last().cloned();
    assert_eq!(last.map(|(sent, _)| sent).as_deref(), Some("POST podgroups"));
    assert_eq!(rig.requests.lock().unwrap().len(), tries + 2, "a read, and the creation");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_failed_during_an_outage_of_authentication_is_written_after_it() {
    let end = clock::monotonic() + Duration::from_secs(60);
    let answers = move |_: &str, kind: &str, body: &Value| match kind {
        "events" if clock::monotonic() < end => status(401, "Unauthorized"),
        "events" => (201, body.clone()),
        _ => status(403, "a quota"),
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(60).await;
    let before = rig.count("POST events");
    assert!(before >= 1);
    seconds(600).await;
    let after = rig.count("POST events");
    assert!(after > before, "it was sent {before} times, and never again");
    seconds(600).await;
    assert_eq!(rig.count("POST events"), after, "an Event that exists is not sent again");
}
