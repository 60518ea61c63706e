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
use super::process;
use super::stage::{AT_ONCE, Stage, controller, each};
use crate::audit_log::{AuditLog, Entry, span};
use crate::objects::{NAMESPACE, podgroups};
use crate::say;
use crate::wait::secs;
use crate::workloads::Workload;

/// The numbers of concurrent requests that the flood tries; the best one counts.
const CONCURRENCIES: [usize; 4] = [8, 16, 32, 64];

/// The pause between two floods, in which etcd, the garbage collector and the watches complete the last deletion. It is longer than they ever needed.
const REST: Duration = secs(4);

/// One rate and its cost.
#[derive(Clone, Debug)]
pub struct Rate {
    /// Creations per second.
    pub per_second: f64,
    /// Milliseconds of processor time for each creation, by program.
    pub cost: BTreeMap<String, f64>,
}

/// The result.
#[derive(Debug)]
pub struct Race {
    /// The number of PodGroups in each flood.
    pub objects: usize,
    /// The rate of the flood by the number of concurrent requests.
    pub tried: Vec<(usize, Rate)>,
    /// The best number of concurrent requests.
    pub best: usize,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// One round: the flood and the controllers in turn.
#[derive(Debug)]
pub struct Round {
    /// The flood.
    pub flood: Rate,
    /// The controller, with each requested number of workers (`None`: its default).
    pub controllers: Vec<(Option<u16>, Rate)>,
}

impl Race {
    /// Returns the rate of the controller with this number of workers divided by that of the flood, in rising order.
    pub fn ratios(&self, workers: Option<u16>) -> Vec<f64> {
        let of_round = |round: &Round| {
            let (_, rate) = round.controllers.iter().find(|(number, _)| *number == workers)?;
            Some(rate.per_second / round.flood.per_second)
        };
        let mut ratios: Vec<f64> = self.rounds.iter().filter_map(of_round).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }
}

/// Runs the race on its own control plane.
pub async fn run(objects: usize, rounds: usize, workers: &[u16], flags: &[String]) -> Result<Race> {
    let mut runner = Runner { stage: Stage::start("race", flags).await?, objects };
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
    let variants: Vec<Option<u16>> = if workers.is_empty() { vec![None] } else { workers.iter().copied().map(Some).collect() };
    let mut results = Vec::new();
    for round in 1..=rounds {
        // etcd is smaller for the first one, so they take turns.
        let (mut flood, mut controllers) = (None, Vec::new());
        if round % 2 == 1 {
            flood = Some(runner.flood(&templates, best).await?);
        }
        let order: Vec<Option<u16>> = if round % 2 == 1 { variants.clone() } else { variants.iter().rev().copied().collect() };
        for workers in order {
            controllers.push((workers, runner.controlled(workers).await?));
        }
        let flood = match flood {
            Some(flood) => flood,
            None => runner.flood(&templates, best).await?,
        };
        let rates: Vec<String> =
            controllers.iter().map(|(workers, rate)| format!("{} {:.0}/s", label(*workers), rate.per_second)).collect();
        say::line(format!("  round {round}: flood {:.0}/s, controller: {}", flood.per_second, rates.join(", ")));
        results.push(Round { flood, controllers });
    }
    let ended = runner.stage.ended();
    ensure!(ended.is_empty(), "{}", ended.join("; "));
    Ok(Race { objects, tried, best, rounds: results })
}

struct Runner {
    stage: Stage,
    objects: usize,
}

impl Runner {
    async fn flood(&mut self, templates: &[DynamicObject], concurrency: usize) -> Result<Rate> {
        self.clear().await?;
        let groups = podgroups(&self.stage.client());
        let (mut log, before) = self.begin()?;
        each(templates.len(), concurrency, |number| {
            let (groups, template) = (&groups, templates.get(number));
            async move {
                groups.create(&PostParams::default(), template.context("a template")?).await?;
                Ok(())
            }
        })
        .await?;
        self.end(&mut log, before, "load", |call| call.user != controller()).await
    }

    async fn controlled(&mut self, workers: Option<u16>) -> Result<Rate> {
        self.clear().await?;
        let groups = podgroups(&self.stage.client());
        let (mut log, before) = self.begin()?;
        let flags: Vec<String> = workers.iter().map(|workers| format!("--workers={workers}")).collect();
        self.stage.start_controller(&flags).await?;
        until_count(&groups, self.objects, "the controller has created the PodGroups").await?;
        let rate = self.end(&mut log, before, "podgroup-controller", |call| call.user == controller()).await;
        self.stage.stop_controller().await?;
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

    fn begin(&self) -> Result<(AuditLog, BTreeMap<String, f64>)> {
        Ok((self.stage.log()?, process::all(self.stage.cluster().scratch().folder())))
    }

    /// Returns the rate of the creations that `filter` accepts, and their cost: all of the control plane, and the program that made them.
    async fn end(&self, log: &mut AuditLog, before: BTreeMap<String, f64>, maker: &str, filter: impl Fn(&Entry) -> bool) -> Result<Rate> {
        let after = process::all(self.stage.cluster().scratch().folder());
        let calls = until_calm(log, &controller()).await?;
        let made: Vec<&Entry> = calls.iter().filter(|call| call.kind() == "create podgroups" && call.code == 201 && filter(call)).collect();
        ensure!(made.len() == self.objects, "{} creations in the audit log for {} PodGroups", made.len(), self.objects);
        let took = span(made.iter().copied()).context("there are fewer than two creations")?.as_secs_f64();
        let count = self.objects as f64;
        let cost = after.into_iter().map(|(name, seconds)| {
            let spent = seconds - before.get(&name).copied().unwrap_or_default();
            (name, spent * 1000.0 / count)
        });
        let told = |name: &String| ["etcd", "kube-apiserver", "kube-controller-manager", maker].contains(&name.as_str());
        Ok(Rate { per_second: count / took, cost: cost.filter(|(name, _)| told(name)).collect() })
    }
}

/// Returns the label of a controller with this number of workers.
pub fn label(workers: Option<u16>) -> String {
    workers.map_or("as it is".to_owned(), |workers| format!("{workers} workers"))
}

/// Returns the object as its creator sent it, without the fields that the server adds.
fn as_sent(mut object: DynamicObject) -> DynamicObject {
    let meta = &mut object.metadata;
    (meta.uid, meta.resource_version, meta.creation_timestamp, meta.generation, meta.managed_fields) = (None, None, None, None, None);
    object
}
