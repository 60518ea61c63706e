//! Rows K21 to K23 and K28: one scheduler takes over from another while a binding of the first is still on its way. The binding never takes
//! effect in room that the second one has given away. The observer checks nodes and queues all the time; each case also checks which pod
//! has the room.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::ledger::stays_unbound;
use super::preempted::ranked;
use super::seen::bound;
use crate::faults::{Fault, Rule, Verb};
use crate::lease::{QUICK, leases};
use crate::objects::{NAMESPACE, make_node, make_podgroup, make_queue};
use crate::programs::Program;
use crate::proxy::Delay;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{chart, kubeconfig};

/// The condition that a new leader writes after an unclean handover.
pub(super) const LEADER_CHANGED: &str = "podgroup.dev/LeaderChanged";

/// Makes a node with room for one pod, starts the scheduler of the world again with a short lease, and a second one beside it. Neither evicts a pod.
pub(super) async fn two_schedulers(w: &mut World) -> Result<Program> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "1"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "64")]).await?;
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
        async move { wait_leader(&client, holder, 30).await }
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
pub(super) async fn submit(client: &Client, name: &str, class: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": 1, "queue": "team"})).await?;
    ranked(client, &format!("{name}-0"), name, class, "1").await
}

pub(super) fn inject(w: &World, fault: Fault, times: u32) -> Result<()> {
    w.inject(Rule { verb: Some(Verb::Create), resource: "pods/binding", name: None, fault, times })
}

/// Waits until so many bindings are held back.
pub(super) async fn wait_held(w: &World, count: u64) -> Result<()> {
    wait_until(secs(10), "the binding is on its way", || async {
        let hits = w.hits("delay-request")?;
        Ok(Seen::when(hits >= count, || hits.to_string()))
    })
    .await
}

/// Submits the first pod. Its binding is held back for this time.
async fn bind_late(w: &World, seconds: u64) -> Result<()> {
    inject(w, Fault::HoldRequest(secs(seconds)), 1)?;
    submit(&w.client(), "first", "low").await?;
    wait_held(w, 1).await
}

/// Returns whether a new leader has fenced the pod.
async fn is_fenced(client: &Client, group: &str) -> Result<bool> {
    let conditions = pods_of(client, group).await?.into_iter().filter_map(|pod| pod.status?.conditions).flatten();
    Ok(conditions.into_iter().any(|condition| condition.type_ == LEADER_CHANGED && condition.last_transition_time.is_some()))
}

/// Waits until the second pod is bound.
async fn second_is_bound(client: &Client) -> Result<()> {
    wait_until(secs(30), "the second pod is bound", || async {
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
pub(super) async fn arrived_and_refused(w: &World, at_least: usize) -> Result<()> {
    w.end_faults().await?;
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

/// K21. The leader gets SIGTERM while its binding is on its way for five seconds. It ends when the binding has taken effect, and the
/// standby takes over at once. It sees the first pod where it is, so a pod of higher priority waits.
pub(super) async fn stopped(w: &mut World) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w).await?;
    bind_late(w, 5).await?;
    let began = Instant::now();
    let second = submit(&client, "second", "high");
    let (ended, submitted) = tokio::join!(w.scheduler()?.terminate_within(secs(18)), second);
    ended?;
    submitted?;
    let took = began.elapsed();
    ensure!(took >= millis(1500), "it ended after {took:?}, before its binding had an outcome");
    ensure!(bound(&client, "first").await? == 1, "it ended, and its binding has not taken effect");
    // Before the lease would have run out.
    wait_leader(&client, "two", 5).await?;
    stays_unbound(w, "second", 3).await?;
    ensure!(!is_fenced(&client, "second").await?, "a pod was changed although nothing was under way");
    w.scheduler()?.restart().await?;
    standby.terminate().await
}

/// K22. The leader is killed while its binding is on its way, and the binding arrives when the standby has taken over and bound a pod of
/// higher priority.
pub(super) async fn killed(w: &mut World) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w).await?;
    bind_late(w, 60).await?;
    w.scheduler()?.kill().await?;
    submit(&client, "second", "high").await?;
    let_go_when_second_is_bound(w).await?;
    second_then_first(w).await?;
    w.scheduler()?.restart().await?;
    standby.terminate().await
}

/// K23. The leader is frozen past its lease while its binding is on its way. It arrives when the standby has taken over and bound a pod of
/// higher priority. When the leader goes on, it ends because it lost its lease.
pub(super) async fn frozen(w: &mut World) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w).await?;
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

/// K28. The leader is cut off from the API server while its binding is on its way: its connections stay open, and nothing passes. It ends
/// because it cannot renew its lease, and is started again, still cut off. The standby takes over and binds a pod of higher priority. Then
/// the connection is back: the former leader is a standby, the late binding is refused, and the former leader works when the other one
/// ends.
pub(super) async fn cut_off(w: &mut World) -> Result<()> {
    let client = w.client();
    let mut standby = two_schedulers(w).await?;
    bind_late(w, 90).await?;
    let lost = Delay::Fixed(secs(600));
    w.scheduler_path()?.delay(lost, lost);
    submit(&client, "second", "high").await?;
    let status = w.scheduler()?.wait_end(secs(20)).await?;
    ensure!(status.code() == Some(1), "the leader that was cut off ended with {status}");
    w.scheduler()?.launch()?;
    wait_leader(&client, "two", 30).await?;
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
