//! What does the loop make of a server that will not have what it writes, or does not know who it is?

use super::*;

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_once_whatever_words_the_server_finds_and_tried_ever_more_rarely() {
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
    // Pods that come wake the key, and it is not tried any sooner for that.
    for number in 0..60 {
        rig.events.send(Seen::Pod(0, WatchEvent::Apply(SeenPod { group: key(), ..pod(number) }))).await.unwrap();
        seconds(1).await;
    }
    assert!(rig.count("POST podgroups") <= tries + 1, "{} tries after {tries}", rig.count("POST podgroups"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_later_is_asked_later() {
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
    assert_eq!((rig.count("POST podgroups"), rig.requests.lock().unwrap().len()), (7, 7), "and nothing is read for it");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_no_reason_to_hurry() {
    let rig = Rig::start(Box::new(|_, _, _| status(404, "the server could not find the requested resource")), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    let tries = rig.count("POST podgroups");
    assert!((20..40).contains(&tries), "{tries} tries in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn events_that_the_server_will_not_have_are_not_tried_again() {
    let rig = Rig::start(Box::new(|_, _, _| status(403, "the namespace is going")), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    assert_eq!(rig.count("POST events"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_authentication_is_over_when_it_is_over() {
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
    assert_eq!(rig.count("POST events"), 0, "nothing is wrong with the object");
    // The longest that the back-off of a failure waits.
    seconds(30).await;
    let last = rig.requests.lock().unwrap().last().cloned();
    assert_eq!(last.map(|(sent, _)| sent).as_deref(), Some("POST podgroups"));
    assert_eq!(rig.requests.lock().unwrap().len(), tries + 2, "a read, and the creation");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_an_outage_of_authentication_swallowed_is_written_after_it() {
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
    assert!(after > before, "it was tried {before} times, and never again");
    seconds(600).await;
    assert_eq!(rig.count("POST events"), after, "once it is there it is told");
}
