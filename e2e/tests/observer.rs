//! Does the observer see what is wrong, on the real control plane, and nothing else?
//!
//! Every check has a deliberately wrong program or object that turns it red; beside each stands a right one that must stay unmentioned. And a
//! scheduler that is known to be good (the stock one) under churn gives no false alarm.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster::{Cluster, ClusterOptions};
use e2e::observer::{Finding, Observer, ObserverConfig, superlinear};
use e2e::wait::{Seen, secs, wait_until};
use tokio::time::Instant;

#[path = "observer/acts.rs"]
mod acts;
use acts::{Acts, CONTROLLER, SCHEDULER, Wish};

/// The name that the fake scheduler goes by.
const S: &str = "ob-scheduler";

async fn observe(cluster: &Cluster, scheduler: &str) -> Result<Observer> {
    let config = ObserverConfig { audit_log: Some(cluster.audit_log()), ..ObserverConfig::of_chart(scheduler) };
    Observer::start(cluster.client(), config).await
}

async fn control_plane(name: &str, kube_scheduler: bool) -> Result<(Cluster, Acts)> {
    let cluster = Cluster::start(ClusterOptions { name: name.to_owned(), kube_scheduler, ..ClusterOptions::default() }).await?;
    let crds = e2e::kit::repository().join("crds");
    cluster.run("kubectl", &["apply", "-f", crds.to_str().context("a path of text")?]).await?;
    cluster
        .run("kubectl", &["wait", "--for=condition=Established", "crd/podgroups.scheduling.volcano.sh", "crd/queues.scheduling.volcano.sh"])
        .await?;
    let acts = Acts { admin: cluster.client(), kubeconfig: cluster.kubeconfig().to_owned() };
    Ok((cluster, acts))
}

/// The (check, namespace or object) pairs of findings, each once.
fn summary(findings: &[Finding]) -> Vec<(u8, String)> {
    let place = |object: &str| object.split([' ', '/']).nth(1).unwrap_or_default().to_owned();
    let mut all: Vec<_> = findings.iter().map(|finding| (finding.check, place(&finding.object))).collect();
    all.sort();
    all.dedup();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_check_turns_red_for_what_is_wrong_and_for_nothing_else() -> Result<()> {
    let (cluster, acts) = control_plane("ob-red", false).await?;
    // Without room for the mistakes of the other steps.
    acts.node("ob-big", "1000").await?;
    acts.node("ob-small", "2").await?;
    let observer = observe(&cluster, S).await?;

    queue_status(&acts, &observer).await?;

    // All the wrong programs at once, each in a namespace of its own.
    tokio::try_join!(
        no_group(&acts),
        no_owner(&acts),
        overfull_node(&acts),
        overfull_queue(&acts),
        partly_bound(&acts),
        unguarded(&acts),
        forbidden(&acts)
    )?;
    growth(&acts, &observer).await?;
    let expected = [
        (1, "ob-1a"),
        (1, "ob-1b"),
        (2, "ob-2a"),
        (2, "ob-2b"),
        (2, "ob-2c"),
        (3, "ob-3"),
        (4, "ob-4a"),
        (4, "ob-4b"),
        (6, "ob-6"),
        (7, "ob-7"),
        (8, "ob-8"),
    ];
    let expected: Vec<(u8, String)> = expected.map(|(check, place)| (check, place.to_owned())).into();
    let seen = wait_until(secs(40), "every wrong program is found", || async {
        let seen = summary(&observer.findings());
        Ok(if expected.iter().all(|one| seen.contains(one)) { Seen::Yes(seen) } else { Seen::NotYet(format!("{seen:?}")) })
    });
    seen.await?;
    let findings = observer.stop().await;
    for finding in &findings {
        println!("{finding}");
    }
    assert_eq!(summary(&findings), expected);
    let per = |check: u8| findings.iter().filter(|finding| finding.check == check).count();
    assert_eq!((per(3), per(4), per(7), per(8)), (1, 2, 3, 1), "exactly the wrong ones");
    Ok(())
}

/// Check 5: a status that says too little, then the truth, then too much.
async fn queue_status(acts: &Acts, observer: &Observer) -> Result<()> {
    acts.queue("ob-5", "root", "").await?;
    acts.group("ob-5", "g", Wish { queue: "ob-5", ..Wish::default() }).await?;
    acts.bound_pod("ob-5", "p", S, "g", "1500m", "ob-big").await?;
    let wrong = |found: Result<(), Vec<Finding>>| summary(&found.err().unwrap_or_default());
    assert_eq!(wrong(observer.at_rest(secs(1)).await), [(5, "ob-5".to_owned())]);
    acts.allocated("ob-5", r#"{"cpu": "1500m", "pods": "1"}"#).await?;
    assert_eq!(wrong(observer.at_rest(secs(10)).await), []);
    acts.allocated("ob-5", r#"{"cpu": "1501m"}"#).await?;
    assert_eq!(wrong(observer.at_rest(secs(1)).await), [(5, "ob-5".to_owned())]);
    acts.allocated("ob-5", r#"{"cpu": "1.5"}"#).await?;
    acts.delete_pod("ob-5", "p").await?;
    assert_eq!(wrong(observer.at_rest(secs(1)).await), [(5, "ob-5".to_owned())]);
    acts.allocated("ob-5", r#"{"cpu": "0"}"#).await?;
    assert_eq!(wrong(observer.at_rest(secs(10)).await), []);
    Ok(())
}

/// Check 1: a pod whose PodGroup nobody makes; a pod whose generated PodGroup belongs to somebody else. Right: one with its own.
async fn no_group(acts: &Acts) -> Result<()> {
    acts.pod("ob-1a", "lost", S, "nowhere", "1").await?;
    acts.pod("ob-1a", "other-scheduler", "somebody", "nowhere", "1").await?;
    let uid = acts.pod("ob-1b", "bare", S, "", "1").await?;
    acts.group("ob-1b", &format!("podgroup-{uid}"), Wish::default()).await?;
    let uid = acts.pod("ob-right", "bare", S, "", "1").await?;
    acts.group("ob-right", &format!("podgroup-{uid}"), Wish { owner: Some(("v1", "Pod", "bare", &uid)), managed: true, ..Wish::default() })
        .await
}

/// Check 2: a PodGroup of ours without an owner; one whose owner is gone (a finalizer keeps it from the garbage collector); two of one owner. Right: one whose owner lives.
async fn no_owner(acts: &Acts) -> Result<()> {
    acts.group("ob-2a", "g", Wish { managed: true, ..Wish::default() }).await?;
    let gone = ("apps/v1", "ReplicaSet", "gone", "11111111-2222-3333-4444-555555555555");
    acts.group("ob-2b", "g", Wish { managed: true, owner: Some(gone), finalizer: true, ..Wish::default() }).await?;
    let uid = acts.replica_set("ob-2c", "set").await?;
    let owner = Some(("apps/v1", "ReplicaSet", "set", uid.as_str()));
    for name in ["g", "h"] {
        acts.group("ob-2c", name, Wish { managed: true, owner, ..Wish::default() }).await?;
    }
    let uid = acts.replica_set("ob-right", "set").await?;
    let owner = Some(("apps/v1", "ReplicaSet", "set", uid.as_str()));
    acts.group("ob-right", "g", Wish { managed: true, owner, ..Wish::default() }).await
}

/// Check 3: the third pod of 1 cpu on a node of 2. The first two, and a fourth that asks for no cpu, are right.
async fn overfull_node(acts: &Acts) -> Result<()> {
    acts.group("ob-3", "g", Wish::default()).await?;
    for (name, cpu) in [("a", "1"), ("b", "1"), ("c", "1"), ("d", "0")] {
        acts.bound_pod("ob-3", name, S, "g", cpu, "ob-small").await?;
    }
    Ok(())
}

/// Check 4: over the queue's own capability, and over its parent's. The first pod of each fits.
async fn overfull_queue(acts: &Acts) -> Result<()> {
    acts.queue("ob-4a", "root", "1").await?;
    acts.queue("ob-4-top", "root", "1").await?;
    acts.queue("ob-4b", "ob-4-top", "").await?;
    // Not within the forgiven moments after the queue came.
    tokio::time::sleep(secs(3)).await;
    for name in ["ob-4a", "ob-4b"] {
        acts.group(name, "g", Wish { queue: name, ..Wish::default() }).await?;
        acts.bound_pod(name, "first", S, "g", "1", "ob-big").await?;
        acts.bound_pod(name, "second", S, "g", "1m", "ob-big").await?;
    }
    Ok(())
}

/// Check 6: one of three members is bound, and that is all. Right: two of two.
async fn partly_bound(acts: &Acts) -> Result<()> {
    acts.group("ob-6", "g", Wish { min_member: 3, ..Wish::default() }).await?;
    acts.bound_pod("ob-6", "a", S, "g", "1", "ob-big").await?;
    acts.group("ob-right", "two", Wish { min_member: 2, ..Wish::default() }).await?;
    acts.bound_pod("ob-right", "a", S, "two", "1", "ob-big").await?;
    acts.bound_pod("ob-right", "b", S, "two", "1", "ob-big").await
}

/// Check 7: the controller deletes by name, by UID only, and a collection. Right: with both preconditions; and what others delete is their affair.
async fn unguarded(acts: &Acts) -> Result<()> {
    acts.allow(CONTROLLER).await?;
    for (namespace, name) in [("ob-7", "a"), ("ob-7", "b"), ("ob-7", "c"), ("ob-right", "d"), ("ob-right", "e")] {
        acts.group(namespace, name, Wish::default()).await?;
    }
    acts.delete_group(Some(CONTROLLER), "ob-7", "a", false, false).await?;
    acts.delete_group(Some(CONTROLLER), "ob-7", "b", true, false).await?;
    acts.delete_all_groups(CONTROLLER, "ob-7").await?;
    acts.delete_group(Some(CONTROLLER), "ob-right", "d", true, true).await?;
    acts.delete_group(None, "ob-right", "e", false, false).await
}

/// Check 8: the scheduler asks for what it may not have.
async fn forbidden(acts: &Acts) -> Result<()> {
    ensure!(acts.get_group(SCHEDULER, "ob-8", "g").await.is_err(), "the scheduler of this test has no rights");
    ensure!(acts.get_group("nobody", "ob-8", "g").await.is_err(), "nobody has no rights");
    Ok(())
}

/// Check 8: a program that looks at everything at each event, and one that looks once, as the audit log counts them.
async fn growth(acts: &Acts, observer: &Observer) -> Result<()> {
    for (user, squared) in [("ob-linear", false), ("ob-squared", true)] {
        acts.allow(user).await?;
        let mut sizes = [(4_u64, 0_u64), (16, 0)];
        for (events, count) in &mut sizes {
            let events = *events;
            let before = calls(observer, user);
            let wanted = if squared { events * events } else { 2 * events };
            for _ in 0..wanted {
                acts.get_group(user, "default", "g").await.err().context("there is none")?;
            }
            let counted = wait_until(secs(10), "the log tells of the calls", || async {
                let count = calls(observer, user) - before;
                Ok(if count >= wanted { Seen::Yes(count) } else { Seen::NotYet(count.to_string()) })
            });
            *count = counted.await?;
        }
        let [small, large] = sizes;
        assert_eq!(superlinear(small, large, 10).is_some(), squared, "{user}: {sizes:?}");
    }
    Ok(())
}

fn calls(observer: &Observer, user: &str) -> u64 {
    observer
        .api_calls()
        .iter()
        .filter(|(call, _)| call.user == user && call.verb == "get" && call.resource == "podgroups")
        .map(|(_, count)| count)
        .sum()
}

/// Several Deployments go up and down, nodes shrink and grow, and somebody else puts pods on the nodes; the stock scheduler binds through it all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_scheduler_under_churn_gives_no_false_alarm() -> Result<()> {
    let (cluster, acts) = control_plane("ob-good", true).await?;
    for node in ["ob-a", "ob-b", "ob-c"] {
        acts.node(node, "4").await?;
    }
    let observer = observe(&cluster, "default-scheduler").await?;
    // No PodGroups here: only the bindings are looked at.
    observer.excuse(1);
    for name in ["d0", "d1", "d2", "d3"] {
        acts.deployment("ob-churn", name, "default-scheduler", "700m").await?;
    }
    let end = Instant::now() + secs(25);
    let mut round = 0_usize;
    while Instant::now() < end {
        // A walk through sizes and nodes that is the same in every run; the interleavings differ by themselves.
        acts.scale("ob-churn", &format!("d{}", round % 4), (round * 7) % 9).await?;
        let node = ["ob-a", "ob-b", "ob-c"][round % 3];
        acts.allocatable(node, if round.is_multiple_of(5) { "1" } else { "4" }).await?;
        if round.is_multiple_of(4) {
            let name = format!("foreign-{round}");
            acts.static_pod("ob-churn", &name, "somebody", "500m", node).await?;
            if round >= 8 {
                acts.delete_pod("ob-churn", &format!("foreign-{}", round - 8)).await?;
            }
        }
        round += 1;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    // More than fits: the nodes are full to the brim when the last ones are judged.
    acts.scale("ob-churn", "d0", 30).await?;
    wait_until(secs(10), "many bindings are judged", || async {
        let count = observer.judged_bindings();
        Ok(Seen::when(count >= 50, || format!("{count} bindings")))
    })
    .await?;
    let judged = observer.judged_bindings();
    let findings = observer.stop().await;
    println!("{judged} bindings in {round} rounds");
    assert!(findings.is_empty(), "{findings:#?}");
    Ok(())
}
