//! Tests that the observer sees each kind of violation on the real control plane, and reports nothing else.
//!
//! For every check there is a program or an object that violates it on purpose, and a correct one that must not be reported.
//! A correct scheduler (the stock scheduler) under churn must cause no finding.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster::{Cluster, ClusterOptions};
use e2e::observer::{Finding, Observer, ObserverConfig, superlinear};
use e2e::wait::{Seen, secs, wait_until};
use serde_json::json;
use tokio::time::Instant;

#[path = "observer/requests.rs"]
mod requests;
use requests::{CONTROLLER, GroupOptions, Requests, SCHEDULER};

/// The name of the simulated scheduler.
const S: &str = "ob-scheduler";

async fn observe(cluster: &Cluster, scheduler: &str) -> Result<Observer> {
    let oracle = Some(e2e::kit::Kit::locate()?.program("oracle"));
    let config = ObserverConfig { audit_log: Some(cluster.audit_log()), oracle, ..ObserverConfig::of_chart(&[scheduler]) };
    Observer::start(cluster.client(), config).await
}

async fn control_plane(name: &str, kube_scheduler: bool) -> Result<(Cluster, Requests)> {
    let cluster = Cluster::start(ClusterOptions { name: name.to_owned(), kube_scheduler, ..ClusterOptions::default() }).await?;
    let crds = e2e::kit::repository().join("crds");
    cluster.run("kubectl", &["apply", "-f", crds.to_str().context("the path is not UTF-8")?]).await?;
    cluster.crds_established().await?;
    let requests = Requests { admin: cluster.client(), kubeconfig: cluster.kubeconfig().to_owned() };
    Ok((cluster, requests))
}

/// Returns the (check, namespace or object) pairs of findings, each once.
fn summary(findings: &[Finding]) -> Vec<(u8, String)> {
    let place = |object: &str| object.split([' ', '/']).nth(1).unwrap_or_default().to_owned();
    let mut all: Vec<_> = findings.iter().map(|finding| (finding.check, place(&finding.object))).collect();
    all.sort();
    all.dedup();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make observer: it needs a control plane and, as a case, time to run"]
async fn every_check_reports_violations_and_nothing_else() -> Result<()> {
    let (cluster, requests) = control_plane("ob-red", false).await?;
    // The node is large, so that the violations of the other steps do not exceed it.
    requests.node("ob-big", "1000").await?;
    requests.node("ob-small", "2").await?;
    let observer = observe(&cluster, S).await?;

    queue_status(&requests, &observer).await?;

    // These violations run at the same time, each in its own namespace.
    tokio::try_join!(
        no_group(&requests),
        no_owner(&requests),
        overfull_node(&requests),
        overfull_queue(&requests),
        partly_bound(&requests),
        unguarded(&requests),
        forbidden(&requests)
    )?;
    // Bindings at the same time are judged together, and not at all where too many states were in force meanwhile. So nothing is bound beside these.
    constraints(&requests).await?;
    volumes(&requests).await?;
    growth(&requests, &observer).await?;
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
        (10, "ob-10a"),
        (10, "ob-10b"),
        (10, "ob-10c"),
        (11, "ob-11a"),
        (11, "ob-11b"),
    ];
    let expected: Vec<(u8, String)> = expected.map(|(check, place)| (check, place.to_owned())).into();
    let seen = wait_until(secs(60), "every violation is found", || async {
        let seen = summary(&observer.findings());
        Ok(if expected.iter().all(|one| seen.contains(one)) { Seen::Yes(seen) } else { Seen::NotYet(format!("{seen:?}")) })
    });
    seen.await?;
    let (findings, _) = observer.stop().await;
    for finding in &findings {
        println!("{finding}");
    }
    assert_eq!(summary(&findings), expected);
    let per = |check: u8| findings.iter().filter(|finding| finding.check == check).count();
    assert_eq!((per(3), per(4), per(7), per(8), per(10), per(11)), (1, 2, 3, 1, 3, 2), "only the violations are found");
    Ok(())
}

/// Check 5: the status of a queue is too low, then correct, then too high.
async fn queue_status(requests: &Requests, observer: &Observer) -> Result<()> {
    requests.queue("ob-5", "root", "").await?;
    requests.group("ob-5", "g", GroupOptions { queue: "ob-5", ..GroupOptions::default() }).await?;
    requests.bound_pod("ob-5", "p", S, "g", "1500m", "ob-big").await?;
    let wrong = |found: Result<(), Vec<Finding>>| summary(&found.err().unwrap_or_default());
    assert_eq!(wrong(observer.at_rest(secs(1)).await), [(5, "ob-5".to_owned())]);
    requests.allocated("ob-5", r#"{"cpu": "1500m", "pods": "1"}"#).await?;
    assert_eq!(wrong(observer.at_rest(secs(10)).await), []);
    requests.allocated("ob-5", r#"{"cpu": "1501m"}"#).await?;
    assert_eq!(wrong(observer.at_rest(secs(1)).await), [(5, "ob-5".to_owned())]);
    requests.allocated("ob-5", r#"{"cpu": "1.5"}"#).await?;
    requests.delete_pod("ob-5", "p").await?;
    assert_eq!(wrong(observer.at_rest(secs(1)).await), [(5, "ob-5".to_owned())]);
    requests.allocated("ob-5", r#"{"cpu": "0"}"#).await?;
    assert_eq!(wrong(observer.at_rest(secs(10)).await), []);
    Ok(())
}

/// Check 1: a pod without a PodGroup, and a pod whose generated PodGroup has another owner. Correct: a pod with its own PodGroup.
async fn no_group(requests: &Requests) -> Result<()> {
    requests.pod("ob-1a", "lost", S, "nowhere", "1").await?;
    requests.pod("ob-1a", "other-scheduler", "other-scheduler", "nowhere", "1").await?;
    let uid = requests.pod("ob-1b", "bare", S, "", "1").await?;
    requests.group("ob-1b", &format!("podgroup-{uid}"), GroupOptions::default()).await?;
    let uid = requests.pod("ob-right", "bare", S, "", "1").await?;
    requests
        .group(
            "ob-right",
            &format!("podgroup-{uid}"),
            GroupOptions { owner: Some(("v1", "Pod", "bare", &uid)), managed: true, ..GroupOptions::default() },
        )
        .await
}

/// Check 2: a managed PodGroup without an owner; one with a deleted owner (a finalizer stops the garbage collector); two with one owner.
/// Correct: a live owner.
async fn no_owner(requests: &Requests) -> Result<()> {
    requests.group("ob-2a", "g", GroupOptions { managed: true, ..GroupOptions::default() }).await?;
    let gone = ("apps/v1", "ReplicaSet", "gone", "11111111-2222-3333-4444-555555555555");
    requests.group("ob-2b", "g", GroupOptions { managed: true, owner: Some(gone), finalizer: true, ..GroupOptions::default() }).await?;
    let uid = requests.replica_set("ob-2c", "set").await?;
    let owner = Some(("apps/v1", "ReplicaSet", "set", uid.as_str()));
    for name in ["g", "h"] {
        requests.group("ob-2c", name, GroupOptions { managed: true, owner, ..GroupOptions::default() }).await?;
    }
    let uid = requests.replica_set("ob-right", "set").await?;
    let owner = Some(("apps/v1", "ReplicaSet", "set", uid.as_str()));
    requests.group("ob-right", "g", GroupOptions { managed: true, owner, ..GroupOptions::default() }).await
}

/// Check 3: the third pod of 1 cpu on a node of 2 cpu. Correct: the first two pods, and a fourth pod without a cpu request.
async fn overfull_node(requests: &Requests) -> Result<()> {
    requests.group("ob-3", "g", GroupOptions::default()).await?;
    for (name, cpu) in [("a", "1"), ("b", "1"), ("c", "1"), ("d", "0")] {
        requests.bound_pod("ob-3", name, S, "g", cpu, "ob-small").await?;
    }
    Ok(())
}

/// Check 10: two pods with one host port on one node, two that keep each other away, and two of one domain where another is empty. The
/// first is right.
async fn constraints(requests: &Requests) -> Result<()> {
    let web = json!({"matchLabels": {"app": "web"}});
    let port = json!({"containers": [{"name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 8010}]}]});
    let term = json!([{"labelSelector": web, "topologyKey": "kubernetes.io/hostname"}]);
    let away = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    let spread = json!({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": web}]});
    for (namespace, spec) in [("ob-10a", port), ("ob-10b", away), ("ob-10c", spread)] {
        requests.group(namespace, "g", GroupOptions::default()).await?;
        for name in ["first", "second"] {
            requests.constrained_pod(namespace, name, S, spec.clone(), "ob-big").await?;
        }
    }
    Ok(())
}

/// Check 11: a claim without a volume, and one whose volume no node can mount. Correct: a volume that every node can mount.
async fn volumes(requests: &Requests) -> Result<()> {
    let away = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["none"]}]}]);
    let away = json!({"required": {"nodeSelectorTerms": away}});
    for (namespace, affinity) in [("ob-11a", None), ("ob-11b", Some(away)), ("ob-11c", Some(json!(null)))] {
        requests.group(namespace, "g", GroupOptions::default()).await?;
        requests.claim(namespace, affinity).await?;
        let spec = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        requests.constrained_pod(namespace, "first", S, spec, "ob-big").await?;
    }
    Ok(())
}

/// Check 4: a queue above its own capability, and a queue above the capability of its parent. The first pod of each queue fits.
async fn overfull_queue(requests: &Requests) -> Result<()> {
    requests.queue("ob-4a", "root", "1").await?;
    requests.queue("ob-4-top", "root", "1").await?;
    requests.queue("ob-4b", "ob-4-top", "").await?;
    // Wait for the end of the time in which a new queue is forgiven.
    tokio::time::sleep(secs(3)).await;
    for name in ["ob-4a", "ob-4b"] {
        requests.group(name, "g", GroupOptions { queue: name, ..GroupOptions::default() }).await?;
        requests.bound_pod(name, "first", S, "g", "1", "ob-big").await?;
        requests.bound_pod(name, "second", S, "g", "1m", "ob-big").await?;
    }
    Ok(())
}

/// Check 6: only one of three members is bound. Correct: two of two.
async fn partly_bound(requests: &Requests) -> Result<()> {
    requests.group("ob-6", "g", GroupOptions { min_member: 3, ..GroupOptions::default() }).await?;
    requests.bound_pod("ob-6", "a", S, "g", "1", "ob-big").await?;
    requests.group("ob-right", "two", GroupOptions { min_member: 2, ..GroupOptions::default() }).await?;
    requests.bound_pod("ob-right", "a", S, "two", "1", "ob-big").await?;
    requests.bound_pod("ob-right", "b", S, "two", "1", "ob-big").await
}

/// Check 7: the controller deletes by name, with the UID only, and as a collection. Correct: both preconditions; and any delete by another user.
async fn unguarded(requests: &Requests) -> Result<()> {
    requests.allow(CONTROLLER).await?;
    for (namespace, name) in [("ob-7", "a"), ("ob-7", "b"), ("ob-7", "c"), ("ob-right", "d"), ("ob-right", "e")] {
        requests.group(namespace, name, GroupOptions::default()).await?;
    }
    requests.delete_group(Some(CONTROLLER), "ob-7", "a", false, false).await?;
    requests.delete_group(Some(CONTROLLER), "ob-7", "b", true, false).await?;
    requests.delete_all_groups(CONTROLLER, "ob-7").await?;
    requests.delete_group(Some(CONTROLLER), "ob-right", "d", true, true).await?;
    requests.delete_group(None, "ob-right", "e", false, false).await
}

/// Check 8: the scheduler requests something without the rights for it.
async fn forbidden(requests: &Requests) -> Result<()> {
    ensure!(requests.get_group(SCHEDULER, "ob-8", "g").await.is_err(), "the scheduler of this test has no rights");
    ensure!(requests.get_group("unknown-user", "ob-8", "g").await.is_err(), "the unknown user has no rights");
    Ok(())
}

/// Check 8: a program that reads every object at each event, and a program that reads once, as the audit log counts their calls.
async fn growth(requests: &Requests, observer: &Observer) -> Result<()> {
    for (user, squared) in [("ob-linear", false), ("ob-squared", true)] {
        requests.allow(user).await?;
        let mut sizes = [(4_u64, 0_u64), (16, 0)];
        for (events, count) in &mut sizes {
            let events = *events;
            let before = calls(observer, user);
            let wanted = if squared { events * events } else { 2 * events };
            for _ in 0..wanted {
                requests.get_group(user, "default", "g").await.err().context("the object must not exist")?;
            }
            let counted = wait_until(secs(10), "the audit log shows the calls", || async {
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

/// Deployments are scaled up and down, nodes shrink and grow, and another client puts pods on the nodes. The stock scheduler binds pods all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make observer: it needs a control plane and, as a case, time to run"]
async fn a_correct_scheduler_under_churn_causes_no_finding() -> Result<()> {
    let (cluster, requests) = control_plane("ob-good", true).await?;
    for node in ["ob-a", "ob-b", "ob-c"] {
        requests.node(node, "4").await?;
    }
    let observer = observe(&cluster, "default-scheduler").await?;
    // There are no PodGroups in this test: only the bindings are judged.
    observer.excuse(1);
    for name in ["d0", "d1", "d2", "d3"] {
        requests.deployment("ob-churn", name, "default-scheduler", "700m").await?;
    }
    let end = Instant::now() + secs(25);
    let mut round = 0_usize;
    // On a slow machine it takes more than that until there is enough to judge.
    while Instant::now() < end || (observer.judged_bindings() < 50 && round < 2000) {
        // The sizes and nodes are the same in every run; only the interleavings differ.
        requests.scale("ob-churn", &format!("d{}", round % 4), (round * 7) % 9).await?;
        let node = ["ob-a", "ob-b", "ob-c"][round % 3];
        requests.allocatable(node, if round.is_multiple_of(5) { "1" } else { "4" }).await?;
        if round.is_multiple_of(4) {
            let name = format!("foreign-{round}");
            requests.static_pod("ob-churn", &name, "other-scheduler", "500m", node).await?;
            if round >= 8 {
                requests.delete_pod("ob-churn", &format!("foreign-{}", round - 8)).await?;
            }
        }
        round += 1;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    // More pods than fit: the nodes are full when the last bindings are judged.
    requests.scale("ob-churn", "d0", 30).await?;
    wait_until(secs(60), "many bindings are judged", || async {
        let count = observer.judged_bindings();
        Ok(Seen::when(count >= 50, || format!("{count} bindings")))
    })
    .await?;
    let judged = observer.judged_bindings();
    let (findings, _) = observer.stop().await;
    println!("{judged} bindings in {round} rounds");
    assert!(findings.is_empty(), "{findings:#?}");
    Ok(())
}
