//! How is the observer wired to a case? It starts before the programs, sees everything, and its findings fail the case whatever the case itself found.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use kube::Client;

use crate::chart;
use crate::cluster::Cluster;
use crate::objects::SCHEDULER_NAME;
use crate::observer::{Absences, Excused, Observer, ObserverConfig};
use crate::wait::secs;

/// A cluster that is observed.
pub struct Watched {
    observer: Observer,
}

impl Watched {
    /// Starts observing as cluster admin.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        Self::at(cluster.client(), cluster.audit_log()).await
    }

    /// The same for a cluster that another process has started: its admin, and its audit log.
    pub async fn at(client: Client, audit_log: PathBuf) -> Result<Self> {
        let config = ObserverConfig {
            audit_log: Some(audit_log),
            controller_user: chart::user(chart::CONTROLLER),
            scheduler_user: chart::user(chart::SCHEDULER),
            ..ObserverConfig::of_chart(SCHEDULER_NAME)
        };
        Ok(Self { observer: Observer::start(client, config).await? })
    }

    /// From now on these checks (1, 2, 6, 8) assert nothing, until [`Self::insist`]: for a case that takes away who would have to act.
    pub fn excuse(&self, checks: &[u8]) {
        checks.iter().for_each(|check| self.observer.excuse(*check));
    }

    /// Ends an excuse; what is wrong at this moment has its whole grace again.
    pub fn insist(&self, checks: &[u8]) {
        checks.iter().for_each(|check| self.observer.insist(*check));
    }

    /// When refusals were excused.
    pub fn excused_refusals(&self) -> Excused {
        self.observer.excused_refusals()
    }

    /// Waits longer for what needs a write of somebody, as long as faults are injected; see [`Observer::patient`].
    pub fn patient(&self, extra: Duration) {
        self.observer.patient(extra);
    }

    /// Ends that.
    pub fn strict(&self) {
        self.observer.strict();
    }

    /// For who sees that a program is away; see [`Absences`].
    pub fn absences(&self) -> Absences {
        self.observer.absences()
    }

    /// What was found so far, one text each.
    pub fn findings(&self) -> Vec<String> {
        self.observer.findings().iter().map(ToString::to_string).collect()
    }

    /// At the end of a case: what must hold when nothing moves any more is checked too, if `rest` (the stock scheduler writes no queue's status).
    pub async fn finish(self, rest: bool) -> Vec<String> {
        let at_rest = if rest { self.observer.at_rest(secs(60)).await.err().unwrap_or_default() } else { Vec::new() };
        let mut findings: Vec<String> = at_rest.iter().map(ToString::to_string).collect();
        for text in self.observer.stop().await.iter().map(ToString::to_string) {
            if !findings.contains(&text) {
                findings.push(text);
            }
        }
        findings
    }
}
