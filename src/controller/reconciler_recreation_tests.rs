//! Tests of the loop with another client that deletes a PodGroup each time that it is created.

use super::*;

/// Deletes the PodGroup as soon as it exists, for this time. The watch shows its creation only if `shown`.
async fn delete_each_time(rig: &Rig, seconds: u64, shown: bool) {
    let mut deleted = 0;
    for _ in 0..seconds * 100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let creations: Vec<Value> =
            rig.requests.lock().unwrap().iter().filter(|(sent, _)| sent == "POST podgroups").map(|(_, body)| body.clone()).collect();
        for (number, body) in (1..).zip(&creations).skip(deleted) {
            let group = seen_group(&created(body.clone(), number));
            if shown {
                rig.events.send(Observation::Group(WatchEvent::Apply(group.clone()))).await.unwrap();
            }
            rig.events.send(Observation::Group(WatchEvent::Delete(group))).await.unwrap();
        }
        deleted = creations.len();
    }
}

fn server() -> Box<Answers> {
    let mut version = 0;
    Box::new(move |_, kind, body| {
        version += u32::from(kind == "podgroups");
        if kind == "podgroups" { (201, created(body.clone(), version)) } else { (201, body.clone()) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_podgroup_that_is_deleted_each_time_is_created_after_growing_waits_and_reported_once() {
    for shown in [true, false] {
        let rig = Rig::start(server(), Leadership::always());
        rig.show(1, Vec::new()).await;
        delete_each_time(&rig, 20, shown).await;
        // The first one, two at once, and those after 5 s and 10 s.
        assert_eq!(rig.count("POST podgroups"), 5, "shown {shown}");
        // New pods enqueue the key, but the creation still waits.
        for number in 0..10 {
            rig.events.send(Observation::Pod(0, WatchEvent::Apply(ObservedPod { group: key(), ..pod(number) }))).await.unwrap();
            seconds(1).await;
        }
        assert_eq!(rig.count("POST podgroups"), 5, "pods do not shorten the wait");
        seconds(600).await;
        assert_eq!(rig.count("POST podgroups"), 6, "it is back within the wait");
        assert_eq!((rig.count("POST events"), rig.requests.lock().unwrap().len()), (1, 7), "shown {shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_podgroup_that_is_deleted_once_is_created_again_at_once() {
    let rig = Rig::start(server(), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(1).await;
    let group = seen_group(&created(rig.requests.lock().unwrap()[0].1.clone(), 1));
    rig.events.send(Observation::Group(WatchEvent::Delete(group))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((rig.count("POST podgroups"), rig.count("POST events")), (2, 0));
}
