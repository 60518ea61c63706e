//! The race: PodGroups that the controller creates per second, compared with a raw flood of the same PodGroups in the same run.
//!
//! The ReplicaSets and their pods exist, the PodGroups do not. In turn, a plain client creates the PodGroups, and the controller is started and
//! creates them. The client's objects are those that the controller created in a first round, without the fields that the server adds. Both rates
//! come from the audit log: from the moment at which the API server received the first creation until it had answered the last. Only the ratio within
//! one round is meaningful.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use tokio::time::sleep;

use super::calls::until_calm;
use super::look::until_count;
use super::process::Meter;
use super::rate::Rate;
use super::stage::{AT_ONCE, Side, Stage, each};
use super::table::Tables;
use crate::audit_log::{AuditLog, Entry};
use crate::objects::{NAMESPACE, podgroups};
use crate::wait::secs;
use crate::workloads::Workload;
use crate::{chart, say};

/// The numbers of concurrent requests that the flood tries; the best one counts.
const CONCURRENCIES: [usize; 4] = [8, 16, 32, 64];

/// The pause between two floods, in which etcd, the garbage collector and the watches complete the last deletion. It is longer than they ever needed.
const REST: Duration = secs(4);

/// The columns of the table: a row for each controller in each round.
const COLUMNS: &[&str] = &["round", "flood, 1/s", "controller", "its rate, 1/s", "ratio", "flood, CPU ms each", "controller, CPU ms each"];

/// Runs the race on its own control plane.
pub async fn run(objects: usize, rounds: usize, workers: &[u16], flags: &[String], tables: &mut Tables) -> Result<()> {
    let mut runner = Runner { stage: Stage::start("race", 0).await?, objects, flags: flags.to_vec() };
    let client = runner.stage.client();
    each(objects, AT_ONCE, |number| Workload::new(&format!("d-{number:05}")).asks(&[("cpu", "100m")]).make(&client)).await?;
    until_count(&Api::<ReplicaSet>::namespaced(client.clone(), NAMESPACE), objects, "ReplicaSets exist").await?;
    until_count(&Api::<Pod>::namespaced(client.clone(), NAMESPACE), objects, "pods exist").await?;
    runner.controlled(None).await.context("the first round")?;
    let made = podgroups(&client).list(&ListParams::default()).await?.items;
    ensure!(made.len() == objects, "{} PodGroups for {objects} ReplicaSets", made.len());
    let templates: Vec<DynamicObject> = made.into_iter().map(as_sent).collect();
    let mut tried = Vec::new();
    for concurrency in CONCURRENCIES {
        tried.push((concurrency, runner.flood(&templates, concurrency).await?));
    }
    let best = tried.iter().max_by(|(_, one), (_, other)| one.per_second.total_cmp(&other.per_second)).map_or(AT_ONCE, |(best, _)| *best);
    let tried: Vec<String> = tried.iter().map(|(at_once, rate)| format!("{:.0} with {at_once}", rate.per_second)).collect();
    say::line(format!("flood of {objects} PodGroups by requests under way: {}; taken: {best}", tried.join(", ")));
    let variants: Vec<Option<u16>> = if workers.is_empty() { vec![None] } else { workers.iter().copied().map(Some).collect() };
    let mut ratios: BTreeMap<Option<u16>, Vec<f64>> = BTreeMap::new();
    for round in 1..=rounds {
        // etcd is smaller for the first one, so they take turns.
        let mut order: Vec<Turn> = std::iter::once(Turn::Flood).chain(variants.iter().copied().map(Turn::Controller)).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        let (mut flood, mut controllers) = (None, Vec::new());
        for turn in order {
            match turn {
                Turn::Flood => flood = Some(runner.flood(&templates, best).await?),
                Turn::Controller(workers) => controllers.push((workers, runner.controlled(workers).await?)),
            }
        }
        let flood = flood.context("the flood has no turn")?;
        for (workers, rate) in controllers {
            let (name, ratio) = (label(workers), rate.per_second / flood.per_second);
            say::line(format!("  round {round}: flood {:.0}/s, controller ({name}) {:.0}/s", flood.per_second, rate.per_second));
            ratios.entry(workers).or_default().push(ratio);
            let [flooded, made] = [&flood, &rate].map(|rate| format!("{:.0}", rate.per_second));
            let (of_flood, of_controller) = (costs(&flood, "load"), costs(&rate, chart::CONTROLLER));
            let row = vec![round.to_string(), flooded, name, made, format!("{ratio:.2}"), of_flood, of_controller];
            tables.add("PodGroup creations per second", COLUMNS, row);
        }
    }
    let ended = runner.stage.ended();
    ensure!(ended.is_empty(), "{}", ended.join("; "));
    for (workers, mut ratios) in ratios {
        ratios.sort_by(f64::total_cmp);
        if let (Some(least), Some(median), Some(most)) = (ratios.first(), ratios.get(ratios.len() / 2), ratios.last()) {
            let row = [*median, *least, *most].map(|ratio| format!("{ratio:.2}"));
            let row = std::iter::once(label(workers)).chain(row).collect();
            tables.add("controller by flood", &["controller", "median", "least", "most"], row);
        }
    }
    Ok(())
}

/// Returns the cost of the control plane and of the program that made the objects.
fn costs(rate: &Rate, maker: &str) -> String {
    let told = |name: &&String| ["etcd", "kube-apiserver", "kube-controller-manager", maker].contains(&name.as_str());
    let parts: Vec<String> = rate.cost.iter().filter(|(name, _)| told(name)).map(|(name, millis)| format!("{name} {millis:.2}")).collect();
    parts.join(", ")
}

/// What creates the PodGroups next.
enum Turn {
    Flood,
    /// With this number of workers.
    Controller(Option<u16>),
}

struct Runner {
    stage: Stage,
    objects: usize,
    /// Of the controller.
    flags: Vec<String>,
}

impl Runner {
    async fn flood(&mut self, templates: &[DynamicObject], concurrency: usize) -> Result<Rate> {
        self.clear().await?;
        let groups = podgroups(&self.stage.client());
        let (mut log, meter) = (self.stage.log()?, self.stage.meter());
        each(templates.len(), concurrency, |number| {
            let (groups, template) = (&groups, templates.get(number));
            async move {
                groups.create(&PostParams::default(), template.context("a template")?).await?;
                Ok(())
            }
        })
        .await?;
        self.rate(&mut log, &meter, |call| !Side::Controller.sent(call)).await
    }

    async fn controlled(&mut self, workers: Option<u16>) -> Result<Rate> {
        self.clear().await?;
        let groups = podgroups(&self.stage.client());
        let (mut log, meter) = (self.stage.log()?, self.stage.meter());
        let flags: Vec<String> = self.flags.iter().cloned().chain(workers.map(|workers| format!("--workers={workers}"))).collect();
        self.stage.start_side(Side::Controller, &flags).await?;
        until_count(&groups, self.objects, "the controller has created the PodGroups").await?;
        let rate = self.rate(&mut log, &meter, |call| Side::Controller.sent(call)).await;
        self.stage.stop().await?;
        rate
    }

    /// Waits until there is no PodGroup and no request in progress.
    async fn clear(&self) -> Result<()> {
        let groups = podgroups(&self.stage.client());
        groups.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        until_count(&groups, 0, "no PodGroup exists").await?;
        sleep(REST).await;
        Ok(())
    }

    /// Returns the rate of the creations that `filter` accepts.
    async fn rate(&self, log: &mut AuditLog, meter: &Meter, filter: impl Fn(&Entry) -> bool) -> Result<Rate> {
        let cost = meter.millis_each(self.objects);
        let calls = until_calm(log, Side::Controller).await?;
        let made: Vec<&Entry> = calls.iter().filter(|call| call.kind() == "create podgroups" && call.code == 201 && filter(call)).collect();
        ensure!(made.len() == self.objects, "{} creations in the audit log for {} PodGroups", made.len(), self.objects);
        Rate::of(made.into_iter(), cost)
    }
}

/// Returns the label of a controller with this number of workers.
fn label(workers: Option<u16>) -> String {
    workers.map_or("as it is".to_owned(), |workers| format!("{workers} workers"))
}

/// Returns the object as its creator sent it, without the fields that the server adds.
fn as_sent(mut object: DynamicObject) -> DynamicObject {
    let meta = &mut object.metadata;
    (meta.uid, meta.resource_version, meta.creation_timestamp, meta.generation, meta.managed_fields) = (None, None, None, None, None);
    object
}
