//! The burst: thousands of Deployments at once, all to 0 and back, then at rest beside many pods of another scheduler. Measures what the
//! controller does.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

use super::calls::until_calm;
use super::check::wrong_groups;
use super::look::{until_all_run, until_count};
use super::process::{self, Memory};
use super::stage::{AT_ONCE, Side, Stage, each};
use super::table::{Tables, counts};
use super::wave::{Before, FIGURES, Wave};
use crate::audit_log::{AuditLog, tally};
use crate::objects::{NAMESPACE, container, podgroups};
use crate::wait::secs;
use crate::workloads::{Workload, scale};
use crate::{chart, say};

/// The namespace of the other scheduler's pods.
const CROWD: &str = "crowd";

/// The number of pods that fit on one simulated node.
const PODS_PER_NODE: usize = 100;

/// The columns of the times in which the controller has nothing to do.
const QUIET: &[&str] =
    &["", "seconds", "controller's calls", "other than lease and watch", "controller's CPU, s", "memory, MiB: before / peak / after"];

/// A time in which the controller has nothing to do.
#[derive(Debug)]
pub struct Quiet {
    /// Its length in seconds.
    pub seconds: f64,
    /// The controller's calls: upkeep, and others, which should not exist.
    pub calls: BTreeMap<String, u64>,
    /// The processor time in seconds.
    pub processor: f64,
    /// The memory at the beginning, and at the end with the peak.
    pub memory: (Memory, Memory),
    /// The calls that are not upkeep.
    pub wrong: Vec<String>,
}

/// Runs the burst on its own control plane, with both programs, and returns what is wrong.
pub async fn run(deployments: usize, crowd: usize, idle: u64, flags: &[String], tables: &mut Tables) -> Result<Vec<String>> {
    let mut stage = Stage::start("burst", deployments.div_ceil(PODS_PER_NODE)).await?;
    stage.start_side(Side::Scheduler, &[]).await?;
    stage.start_side(Side::Controller, flags).await?;
    let pid = stage.pid(chart::CONTROLLER)?;
    let empty = process::memory(pid)?;
    let waves = waves(&mut stage, deployments).await?;
    say::line("  at rest");
    let mut wrong = wrong_groups(&stage.client()).await?;
    let idle = quiet(&stage, pid, async {
        sleep(secs(idle)).await;
        Ok(())
    });
    let idle = idle.await?;
    say::line("  beside a crowd");
    let beside = quiet(&stage, pid, foreign_pods(&stage, crowd)).await?;
    wrong.extend(wrong_groups(&stage.client()).await?);
    wrong.extend(stage.ended());

    let title = format!("{deployments} Deployments at once, to 0, and back; controller's memory at the start: {:.1} MiB", empty.now);
    let mut columns: Vec<_> = waves.iter().map(|wave| wave.figures(deployments).into_iter()).collect();
    for what in FIGURES {
        let row = std::iter::once(what.to_owned()).chain(columns.iter_mut().filter_map(Iterator::next));
        tables.add(&title, &["", "created", "scaled to 0", "and back"], row.collect());
    }
    tables.add("nothing to do", QUIET, idle.row(format!("at rest with {deployments} Deployments")));
    tables.add("nothing to do", QUIET, beside.row(format!("{crowd} pods of another scheduler made, changed, deleted")));
    wrong.extend(waves.into_iter().flat_map(|wave| wave.wrong.into_iter().map(move |why| format!("{}: {why}", wave.name))));
    wrong.extend(idle.wrong.into_iter().chain(beside.wrong));
    Ok(wrong)
}

impl Quiet {
    fn row(&self, what: String) -> Vec<String> {
        let (before, after) = self.memory;
        let memory = format!("{:.1} / {:.1} / {:.1}", before.now, after.peak, after.now);
        let [seconds, processor] = [format!("{:.0}", self.seconds), format!("{:.2}", self.processor)];
        vec![what, seconds, counts(&self.calls), self.wrong.len().to_string(), processor, memory]
    }
}

async fn waves(stage: &mut Stage, deployments: usize) -> Result<Vec<Wave>> {
    let client = stage.client();
    let (groups, pods) = (podgroups(&client), Api::<Pod>::namespaced(client.clone(), NAMESPACE));
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), NAMESPACE);
    let name = |number: usize| format!("d-{number:05}");
    let many = u64::try_from(deployments)?;
    let created = [("create podgroups", many)];
    let retired = [("patch podgroups", many), ("list pods", 3 * many), ("delete podgroups", many)];
    let mut waves = Vec::new();

    let (before, mut log) = (Before::of(stage).await?, stage.log()?);
    each(deployments, AT_ONCE, |number| Workload::new(&name(number)).asks(&[("cpu", "100m")]).make(&client)).await?;
    until_count(&sets, deployments, "ReplicaSets exist").await?;
    until_count(&groups, deployments, "PodGroups exist").await?;
    until_all_run(&pods, deployments).await?;
    let calls = until_calm(&mut log, Side::Controller).await?;
    keep_and_print(&mut waves, before.until_now(stage, "created", &calls, many, &created).await?);

    for (replicas, there, wave, allowed) in [(0, 0, "scaled to 0", &retired[..]), (1, deployments, "and back", &created[..])] {
        let (before, mut log) = (Before::of(stage).await?, stage.log()?);
        each(deployments, AT_ONCE, |number| {
            let (client, name) = (&client, name(number));
            async move { scale(client, &name, replicas).await }
        })
        .await?;
        until_count(&groups, there, "the PodGroups have followed").await?;
        until_all_run(&pods, there).await?;
        let calls = until_calm(&mut log, Side::Controller).await?;
        keep_and_print(&mut waves, before.until_now(stage, wave, &calls, many, allowed).await?);
    }
    Ok(waves)
}

/// Keeps a wave and prints it at once, because a run is long.
fn keep_and_print(waves: &mut Vec<Wave>, wave: Wave) {
    say::line(format!("  {}: {:?}, {:.1} s, wrong: {:?}", wave.name, wave.calls.all, wave.took, wave.wrong));
    waves.push(wave);
}

/// Runs `act` and counts the controller's calls in that time.
async fn quiet(stage: &Stage, pid: u32, act: impl Future<Output = Result<()>>) -> Result<Quiet> {
    process::forget_peak(pid)?;
    let (mut log, start): (AuditLog, _) = (stage.log()?, tokio::time::Instant::now());
    let (processor, memory) = (process::processor_seconds(pid)?, process::memory(pid)?);
    act.await?;
    // `until_calm` would be wrong here: the controller must be calm all the time.
    let calls = log.fresh()?;
    let work = calls.iter().filter(|call| Side::Controller.sent(call) && !call.is_upkeep());
    Ok(Quiet {
        seconds: start.elapsed().as_secs_f64(),
        calls: tally(calls.iter().filter(|call| Side::Controller.sent(call))),
        processor: process::processor_seconds(pid)? - processor,
        memory: (memory, process::memory(pid)?),
        wrong: work.take(5).map(|call| format!("{} {} although there is nothing to do", call.kind(), call.name)).collect(),
    })
}

/// Creates pods of another scheduler in their own namespace, changes them one by one, and deletes them with one request.
async fn foreign_pods(stage: &Stage, count: usize) -> Result<()> {
    let client = stage.client();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": CROWD}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), CROWD);
    let name = |number: usize| format!("stranger-{number:05}");
    each(count, AT_ONCE, |number| {
        let pods = &pods;
        async move {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": name(number), "labels": {"app": "stranger"}},
                "spec": {"schedulerName": "other-scheduler", "containers": [container(&[("cpu", "100m")])]},
            }))?;
            pods.create(&PostParams::default(), &pod).await?;
            Ok(())
        }
    })
    .await?;
    until_count(&pods, count, "the foreign pods exist").await?;
    each(count, AT_ONCE, |number| {
        let pods = &pods;
        async move {
            let patch = json!({"metadata": {"labels": {"changed": "yes"}}});
            pods.patch(&name(number), &PatchParams::default(), &Patch::Merge(patch)).await?;
            Ok(())
        }
    })
    .await?;
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    until_count(&pods, 0, "the foreign pods are gone").await?;
    ensure!(super::look::count(&Api::<Pod>::namespaced(client, NAMESPACE)).await? > 0, "our pods are gone, too");
    Ok(())
}
