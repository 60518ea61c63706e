//! Connects the observer to a case. It starts before the programs, and its findings fail the case whatever the case itself found.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use kube::Client;

use crate::chart;
use crate::cluster::Cluster;
use crate::kit::Kit;
use crate::objects::SCHEDULER_NAME;
use crate::observer::{Absences, Excused, JudgedConstraints, Observer, ObserverConfig};
use crate::wait::secs;

/// A cluster with a running observer.
pub struct Watched {
    observer: Observer,
}

impl Watched {
    /// Starts an observer with the oracle as cluster admin, for programs that serve these scheduler names.
    pub async fn start(cluster: &Cluster, schedulers: &[&str]) -> Result<Self> {
        Self::of(cluster.client(), cluster.audit_log(), schedulers, Some(oracle()?)).await
    }

    /// Does the same without the oracle: the observer judges no constraints (checks 10 and the first half of 11).
    pub async fn without_oracle(cluster: &Cluster, schedulers: &[&str]) -> Result<Self> {
        Self::of(cluster.client(), cluster.audit_log(), schedulers, None).await
    }

    /// Does the same as [`Self::start`] for a cluster that another process has started with the chart's defaults, with its admin and its audit log.
    pub async fn at(client: Client, audit_log: PathBuf) -> Result<Self> {
        Self::of(client, audit_log, &[SCHEDULER_NAME], Some(oracle()?)).await
    }

    async fn of(client: Client, audit_log: PathBuf, schedulers: &[&str], oracle: Option<PathBuf>) -> Result<Self> {
        let config = ObserverConfig {
            audit_log: Some(audit_log),
            controller_user: chart::user(chart::CONTROLLER),
            scheduler_user: chart::user(chart::SCHEDULER),
            oracle,
            ..ObserverConfig::of_chart(schedulers)
        };
        Ok(Self { observer: Observer::start(client, config).await? })
    }

    /// Suspends these checks (1, 2, 6, 8) until [`Self::insist`], for a case that stops a program on purpose.
    pub fn excuse(&self, checks: &[u8]) {
        checks.iter().for_each(|check| self.observer.excuse(*check));
    }

    /// Resumes the checks. A state that is wrong at this moment gets its whole grace again.
    pub fn insist(&self, checks: &[u8]) {
        checks.iter().for_each(|check| self.observer.insist(*check));
    }

    /// Returns the periods in which refusals were excused.
    pub fn excused_refusals(&self) -> Excused {
        self.observer.excused_refusals()
    }

    /// Makes the graces longer while faults are injected; see [`Observer::patient`].
    pub fn patient(&self, extra: Duration) {
        self.observer.patient(extra);
    }

    /// Restores the usual graces.
    pub fn strict(&self) {
        self.observer.strict();
    }

    /// Returns a handle for a task that sees when a program is absent; see [`Absences`].
    pub fn absences(&self) -> Absences {
        self.observer.absences()
    }

    /// Returns how many bindings by the scheduler were judged so far.
    pub fn judged_bindings(&self) -> u64 {
        self.observer.judged_bindings()
    }

    /// Returns how many evictions by the scheduler were judged so far.
    pub fn judged_evictions(&self) -> u64 {
        self.observer.judged_evictions()
    }

    /// Returns how many bindings were judged by the constraints of pods so far.
    pub fn judged_constraints(&self) -> JudgedConstraints {
        self.observer.judged_constraints()
    }

    /// Returns how often each user made each call so far.
    pub fn api_calls(&self) -> std::collections::BTreeMap<crate::observer::Call, u64> {
        self.observer.api_calls()
    }

    /// Returns the findings so far, one text each.
    pub fn findings(&self) -> Vec<String> {
        self.observer.findings().iter().map(ToString::to_string).collect()
    }

    /// Ends the observer and returns all findings, and how many bindings were judged by constraints. With `rest`, the rules of a cluster at rest are
    /// checked, too (the stock scheduler writes no queue's status).
    pub async fn finish(self, rest: bool) -> (Vec<String>, JudgedConstraints) {
        let at_rest = if rest { self.observer.at_rest(secs(60)).await.err().unwrap_or_default() } else { Vec::new() };
        let mut findings: Vec<String> = at_rest.iter().map(ToString::to_string).collect();
        let (found, judged) = self.observer.stop().await;
        for text in found.iter().map(ToString::to_string) {
            if !findings.contains(&text) {
                findings.push(text);
            }
        }
        (findings, judged)
    }
}

fn oracle() -> Result<PathBuf> {
    Ok(Kit::locate()?.program("oracle"))
}
