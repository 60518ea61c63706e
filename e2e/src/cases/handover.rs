//! Rows K21 to K24 and K28: one scheduler takes over from another while a binding of the first is still on its way. The binding never takes effect in room that the second one
//! has given away. The observer checks nodes and queues all the time; each case also checks which pod has the room.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::ledger::stays_unbound;
use super::preempted::ranked;
use super::seen::{accounting_matches_api, bound};
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::lease::{QUICK, leases};
use crate::objects::{NAMESPACE, make_member, make_node, make_podgroup, make_queue};
use crate::programs::Program;
use crate::proxy::Delay;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig, say};

/// What has room for one pod.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    /// One node of 1 cpu.
    Node,
    /// A queue of 1 cpu.
    Queue,
}

/// The condition that a new leader writes after an unclean handover.
const LEADER_CHANGED: &str = "podgroup.dev/LeaderChanged";

/// Makes the room, starts the scheduler of the world again with a short lease, and a second one beside it. Neither evicts a pod.
async fn two_schedulers(w: &mut World, room: Room) -> Result<Program> {
    let client = w.client();
    let (node, queue) = match room {
        Room::Node => ("1", "64"),
        Room::Queue => ("16", "1"),
    };
    make_node(&client, "n1", &[("cpu", node), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", queue)]).await?;
    make_classes(&client).await?;
    leader_and_standby(w, &["--evictions=false"]).await
}

/// Starts the scheduler of the world again as the leader `one`, with a short lease and these flags, and the standby `two` beside it.
pub(super) async fn leader_and_standby(w: &mut World, flags: &[&str]) -> Result<Program> {
    let client = w.client();
    let flags: Vec<String> = flags.iter().chain(&QUICK).map(|flag| (*flag).to_owned()).collect();
    let first = w.scheduler()?;
    first.terminate().await?;
    flags.iter().for_each(|flag| first.also(flag));
    first.environment("HOSTNAME", "one");
    first.restart().await?;
    let named = |holder: &'static str| {
        let client = client.clone();
        async move { wait_leader(&client, holder, 20).await }
    };
    named("one").await?;
    let (server, authority) = kubeconfig::door(w.cluster().kubeconfig())?;
    let kubeconfig = chart::kubeconfig_as(w.cluster(), chart::SCHEDULER, "standby", server, &authority).await?;
    let name = [("HOSTNAME".to_owned(), "two".to_owned())];
    let mut standby = Program::start_as(w.cluster().scratch(), chart::SCHEDULER, "standby", &kubeconfig, &flags, &name)?;
    standby.wait_ready().await?;
    Ok(standby)
}

/// Creates the priority classes `low` and `high`.
pub(super) async fn make_classes(client: &Client) -> Result<()> {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value) in [("low", 10), ("high", 1000)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    }
    Ok(())
}

/// Waits until the scheduler with this name has the Lease.
pub(super) async fn wait_leader(client: &Client, name: &str, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("the scheduler {name} has the Lease"), || async {
        let lease = leases(client).get_opt(chart::SCHEDULER).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        Ok(Seen::when(holder.starts_with(&format!("{name}_")), || format!("{holder:?} has it")))
    })
    .await
}

/// Creates a PodGroup of one pod with this priority class.
async fn submit(client: &Client, name: &str, class: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": 1, "queue": "team"})).await?;
    ranked(client, &format!("{name}-0"), name, class, "1").await
}

fn aim(w: &World, fault: Fault, times: u32) -> Result<()> {
    w.aim(Rule { verb: Some(Verb::Create), resource: "pods/binding", name: None, fault, times })
}

/// Waits until so many bindings are held back.
async fn wait_held(w: &World, count: u64) -> Result<()> {
    wait_until(secs(10), "the binding is on its way", || async {
        let hits = w.hits("delay-request")?;
        Ok(Seen::when(hits >= count, || hits.to_string()))
    })
    .await
}

/// Submits the first pod. Its binding is held back for this time.
async fn bind_late(w: &World, seconds: u64) -> Result<()> {
    aim(w, Fault::HoldRequest(secs(seconds)), 1)?;
    submit(&w.client(), "first", "low").await?;
    wait_held(w, 1).await
}

/// Returns whether a new leader has fenced the pod.
async fn is_fenced(client: &Client, group: &str) -> Result<bool> {
    let conditions = pods_of(client, group).await?.into_iter().filter_map(|pod| pod.status?.conditions).flatten();
    Ok(conditions.into_iter().any(|condition| condition.type_ == LEADER_CHANGED))
}

/// Waits until the second pod is bound.
async fn second_is_bound(client: &Client) -> Result<()> {
    wait_until(secs(20), "the second pod is bound", || async {
        let count = bound(client, "second").await?;
        Ok(Seen::when(count == 1, || "it has no node".to_owned()))
    })
    .await
}

/// Waits until the second pod is bound, and lets the binding of the first one go at once: nothing but a fence has changed the first pod until then.
async fn let_go_when_second_is_bound(w: &World) -> Result<()> {
    let client = w.client();
    second_is_bound(&client).await?;
    w.let_go()?;
    arrived_and_refused(w, 1).await?;
    ensure!(is_fenced(&client, "first").await?, "the first pod was not changed");
    Ok(())
}

/// Waits until the late bindings have arrived, and checks that the API server refused at least so many of them.
async fn arrived_and_refused(w: &World, at_least: usize) -> Result<()> {
    w.calm().await?;
    let log = w.cluster().scratch().folder().join("logs").join(format!("faults-{}.log", chart::SCHEDULER));
    let log = std::fs::read_to_string(log).context("the record of the faults")?;
    let refused = log.lines().filter(|line| line.contains("the response was 409")).count();
    ensure!(refused >= at_least, "{refused} late bindings were refused, at least {at_least} were expected:\n{log}");
    Ok(())
}

/// The second pod has the room and the first one has not; when the second is gone, the first is bound.
async fn second_then_first(w: &mut World) -> Result<()> {
    let client = w.client();
    stays_unbound(w, "first", 1).await?;
    ensure!(bound(&client, "second").await? == 1, "the second pod lost its node");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("second-0", &DeleteParams::default().grace_period(0)).await?;
    wait_running(&client, "first", 1, 10).await
}

/// K21. The leader gets SIGTERM while its binding is on its way for three seconds. It ends when the binding has taken effect, and the standby takes over at once. It sees
/// the first pod where it is, so a pod of higher priority waits.
pub(super) async fn stopped(w: &mut World, room: Room) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w, room).await?;
    bind_late(w, 3).await?;
    let began = Instant::now();
    let second = submit(&client, "second", "high");
    let (ended, submitted) = tokio::join!(w.scheduler()?.terminate_within(secs(10)), second);
    ended?;
    submitted?;
    let took = began.elapsed();
    ensure!(took >= millis(1500), "it ended after {took:?}, before its binding had an outcome");
    ensure!(bound(&client, "first").await? == 1, "it ended, and its binding has not taken effect");
    wait_leader(&client, "two", 3).await?;
    stays_unbound(w, "second", 3).await?;
    ensure!(!is_fenced(&client, "second").await?, "a pod was changed although nothing was under way");
    w.scheduler()?.restart().await?;
    standby.terminate().await
}

/// K21-long. The same with a binding that is on its way for longer. The leader ends after 20 s and keeps the lease. The standby waits until it runs out, changes the
/// waiting pods, and binds the pod of higher priority. The late binding is refused.
pub(super) async fn stopped_in_vain(w: &mut World) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w, Room::Node).await?;
    bind_late(w, 60).await?;
    // What is sent again has no outcome either.
    aim(w, Fault::Refuse(Refusal::Unavailable), 1000)?;
    let second = submit(&client, "second", "high");
    let (ended, submitted) = tokio::join!(w.scheduler()?.terminate_within(secs(23)), second);
    ended?;
    submitted?;
    wait_leader(&client, "one", 0).await.context("the lease was given up")?;
    let_go_when_second_is_bound(w).await?;
    second_then_first(w).await?;
    standby.terminate().await?;
    w.scheduler()?.restart().await
}

/// K22. The leader is killed while its binding is on its way, and the binding arrives when the standby has taken over and bound a pod of higher priority.
pub(super) async fn killed(w: &mut World, room: Room) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w, room).await?;
    bind_late(w, 60).await?;
    w.scheduler()?.kill().await?;
    submit(&client, "second", "high").await?;
    let_go_when_second_is_bound(w).await?;
    second_then_first(w).await?;
    w.scheduler()?.restart().await?;
    standby.terminate().await
}

/// K23. The leader is frozen past its lease while its binding is on its way. It arrives when the standby has taken over and bound a pod of higher priority. When the
/// leader goes on, it ends because it lost its lease.
pub(super) async fn frozen(w: &mut World, room: Room) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w, room).await?;
    bind_late(w, 60).await?;
    w.scheduler()?.signal("STOP").await?;
    submit(&client, "second", "high").await?;
    let_go_when_second_is_bound(w).await?;
    let first = w.scheduler()?;
    first.signal("CONT").await?;
    let status = first.wait_end(secs(10)).await?;
    ensure!(status.code() == Some(1), "the former leader ended with {status}");
    second_then_first(w).await?;
    w.scheduler()?.restart().await?;
    standby.terminate().await
}

/// K28. The leader is cut off from the API server while its binding is on its way: its connections stay open, and nothing passes. It ends because it cannot renew its
/// lease, and is started again, still cut off. The standby takes over and binds a pod of higher priority. Then the connection is back: the former leader is a standby,
/// the late binding is refused, and the former leader works when the other one ends.
pub(super) async fn cut_off(w: &mut World, room: Room) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w, room).await?;
    bind_late(w, 90).await?;
    let lost = Delay::Fixed(secs(600));
    w.scheduler_path()?.delay(lost, lost);
    submit(&client, "second", "high").await?;
    let status = w.scheduler()?.wait_end(secs(15)).await?;
    ensure!(status.code() == Some(1), "the leader that was cut off ended with {status}");
    w.scheduler()?.launch()?;
    wait_leader(&client, "two", 20).await?;
    second_is_bound(&client).await?;
    let path = w.scheduler_path()?;
    path.delay(Delay::None, Delay::None);
    path.cut();
    w.scheduler()?.wait_ready().await?;
    wait_leader(&client, "two", 0).await.context("the former leader took the lease back")?;
    let_go_when_second_is_bound(w).await?;
    second_then_first(w).await?;
    standby.terminate().await?;
    wait_leader(&client, "one", 10).await?;
    submit(&client, "third", "low").await?;
    stays_unbound(w, "third", 3).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("first-0", &DeleteParams::default().grace_period(0)).await?;
    wait_running(&client, "third", 1, 10).await
}

/// K24. Without an election, the scheduler is killed while it binds a gang of 40 that fills its nodes. Six of its bindings have taken effect; the others arrive when the
/// next start, which packs the nodes, has decided, and before its own. It is killed as well. In the end the gang is whole.
pub(super) async fn killed_in_a_gang(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2", "n3", "n4"] {
        make_node(&client, node, &[("cpu", "10"), ("memory", "64Gi")]).await?;
    }
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--leader-elect=false");
    scheduler.restart().await?;
    // 32 bindings are sent at the same time.
    for (fault, times) in [
        (Fault::HoldRequest(secs(60)), 20),
        (Fault::DelayRequest(millis(0)), 6),
        (Fault::HoldRequest(secs(60)), 6),
        // Those of the next start.
        (Fault::DelayRequest(secs(5)), 26),
    ] {
        aim(w, fault, times)?;
    }
    // A part of the gang is bound for longer than the observer normally forgives. It must be whole within a minute.
    w.watched()?.patient(secs(50));
    make_podgroup(&client, "gang", json!({"minMember": 40})).await?;
    for number in 0..40 {
        make_member(&client, &format!("gang-{number}"), "gang", &[("cpu", "1")]).await?;
    }
    wait_held(w, 32).await?;
    let scheduler = w.scheduler()?;
    scheduler.kill().await?;
    // The next start decides otherwise.
    scheduler.also("--placement=pack");
    scheduler.restart().await?;
    wait_held(w, 58).await?;
    w.calm().await?;
    w.watched()?.patient(secs(50));
    w.scheduler()?.kill().await?;
    w.scheduler()?.restart().await?;
    wait_running(&client, "gang", 40, 60).await?;
    arrived_and_refused(w, 20).await?;
    w.watched()?.strict();
    accounting_matches_api(w).await
}

/// K24-queue. Without an election, the scheduler is killed while it binds 40 pods that fill their queue. Six of its bindings have taken effect; the others arrive when the
/// next start has given the rest of the queue to a gang of higher priority, and before the bindings of that gang. It is killed as well. In the end the gang of higher
/// priority is whole, and of the first one only the six pods are bound.
pub(super) async fn killed_beside_a_rival(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "100"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "40")]).await?;
    make_classes(&client).await?;
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--leader-elect=false");
    scheduler.also("--evictions=false");
    scheduler.restart().await?;
    for (fault, times) in [
        (Fault::DelayRequest(millis(0)), 6),
        // 32 bindings are sent at the same time.
        (Fault::HoldRequest(secs(60)), 32),
        // Those of the next start.
        (Fault::DelayRequest(secs(5)), 32),
    ] {
        aim(w, fault, times)?;
    }
    make_podgroup(&client, "first", json!({"minMember": 6, "queue": "team"})).await?;
    for number in 0..40 {
        ranked(&client, &format!("first-{number}"), "first", "low", "1").await?;
    }
    wait_held(w, 38).await?;
    w.scheduler()?.kill().await?;
    make_podgroup(&client, "second", json!({"minMember": 34, "queue": "team"})).await?;
    for number in 0..34 {
        ranked(&client, &format!("second-{number}"), "second", "high", "1").await?;
    }
    // The gang is partially bound for longer than the observer normally forgives. Checks of the queue go on.
    w.watched()?.excuse(&[6]);
    w.scheduler()?.restart().await?;
    wait_held(w, 70).await?;
    w.calm().await?;
    w.scheduler()?.kill().await?;
    w.scheduler()?.restart().await?;
    wait_running(&client, "second", 34, 10).await?;
    arrived_and_refused(w, 32).await?;
    w.watched()?.insist(&[6]);
    let count = bound(&client, "first").await?;
    ensure!(count == 6, "{count} pods of the first gang are bound, expected the 6 whose bindings were not held");
    accounting_matches_api(w).await
}

/// K25. What a handover costs beside so many waiting pods: the seconds until a new pod is bound, after a clean end and after a kill, and the writes. Up to 1,000
/// waiting pods that is 2 s and 20 s.
pub(super) async fn costs(w: &mut World, waiting: usize) -> Result<()> {
    let client = w.client();
    let (clean_limit, unclean_limit) = if waiting <= 1000 { (2, 20) } else { (60, 120) };
    let mut standby = two_schedulers(w, Room::Node).await?;
    make_node(&client, "n2", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    // Their gang is never complete.
    make_podgroup(&client, "waits", json!({"minMember": waiting + 1})).await?;
    stream::iter(0..waiting)
        .map(|number| {
            let client = client.clone();
            async move { make_member(&client, &format!("waits-{number}"), "waits", &[("cpu", "1m")]).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let port = standby.port();
    wait_until(secs(120), "the standby knows the waiting pods", || async {
        let queues = http::json(port, "/debug/queues").await?.to_string();
        Ok(Seen::when(http::get(port, "/readyz").await?.0 == 200, || queues))
    })
    .await?;
    let began = Instant::now();
    w.scheduler()?.terminate_within(secs(10)).await?;
    let ended = began.elapsed();
    submit(&client, "clean", "high").await?;
    wait_running(&client, "clean", 1, clean_limit).await?;
    let clean = began.elapsed();
    w.scheduler()?.restart().await?;
    let began = Instant::now();
    standby.kill().await?;
    wait_leader(&client, "one", 20).await?;
    let leads = began.elapsed();
    make_podgroup(&client, "unclean", json!({"minMember": 1, "queue": "default"})).await?;
    ranked(&client, "unclean-0", "unclean", "high", "1").await?;
    wait_running(&client, "unclean", 1, unclean_limit).await?;
    let unclean = began.elapsed();
    let fenced = pods_of(&client, "waits").await?.into_iter().filter_map(|pod| pod.status?.conditions);
    let fenced = fenced.filter(|conditions| conditions.iter().any(|condition| condition.type_ == LEADER_CHANGED)).count();
    say::line(format!(
        "        K25: {waiting} waiting pods: SIGTERM, ended after {:.1} s, a new pod ran after {:.1} s; kill -9, the lease was taken after {:.1} s, a new pod ran {:.1} s later; {fenced} pods were changed",
        ended.as_secs_f64(),
        clean.as_secs_f64(),
        leads.as_secs_f64(),
        (unclean - leads).as_secs_f64()
    ));
    ensure!(fenced == waiting, "{fenced} of {waiting} pods were changed");
    standby.restart().await?;
    standby.terminate().await
}
