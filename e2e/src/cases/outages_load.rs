//! The load during an outage: Deployments and a StatefulSet that are scaled up and down, and a Deployment with repeated rollouts.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_node, podgroups};
use crate::say;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{Workload, phases, pods_of, scale, set_image, wait_one_group, wait_rolled_out, wait_running};

use super::lifecycle::settled;

/// The name of the StatefulSet.
const SET: &str = "set";

/// The name of the Deployment with rollouts.
const ROLLED: &str = "rolled";

/// Annotation: the PodGroup is about to be deleted.
const RETIRING: &str = "podgroup.dev/retiring";

/// How many changes the API server must have accepted completely around each outage; with fewer, the case has tested nothing.
const LEAST: u64 = 2;

/// The load of a case about outages.
pub(super) struct Load {
    client: Client,
    names: Vec<String>,
    full: bool,
    flaps: AtomicU64,
    /// The number of rounds that the API server accepted completely.
    accepted: AtomicU64,
    away: Duration,
}

impl Load {
    /// Creates `deployments` Deployments and, if `full`, the StatefulSet and the Deployment with rollouts; waits until all pods run.
    pub(super) async fn start(client: &Client, deployments: usize, full: bool) -> Result<Self> {
        make_node(client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
        let load = Self {
            client: client.clone(),
            names: (0..deployments).map(|number| format!("flaps-{number:02}")).collect(),
            full,
            flaps: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            away: secs(2),
        };
        for name in &load.names {
            Workload::new(name).asks(&[("cpu", "100m")]).make(client).await?;
        }
        if full {
            make_set(client).await?;
            Workload::new(ROLLED).replicas(3).gang("3").rolling(1, 0).asks(&[("cpu", "100m")]).make(client).await?;
        }
        for name in load.names.iter().map(String::as_str).chain(full.then_some(SET)) {
            wait_running(client, name, 1, 10).await?;
        }
        if full {
            wait_running(client, ROLLED, 3, 10).await?;
        }
        Ok(load)
    }

    /// Runs `outage` while everything is scaled: 0 replicas, 1 replica, half a second each, and a new image every fourth time. Every third
    /// time 0 replicas lasts longer, so that the PodGroup is deleted. A request that the API server does not accept is skipped. The load
    /// goes on after the outage until the API server has accepted enough.
    pub(super) async fn during<T>(&self, outage: impl Future<Output = Result<T>>) -> Result<T> {
        let enough = self.accepted() + LEAST;
        let outage = async {
            let outcome = outage.await?;
            wait_until(secs(60), "the API server accepts all changes again", || async {
                let accepted = self.accepted();
                Ok(Seen::when(accepted >= enough, || format!("{accepted} of {enough}")))
            })
            .await?;
            Ok(outcome)
        };
        let flaps = async {
            for round in 0_u64.. {
                let mut accepted = true;
                let away = if round.is_multiple_of(3) { self.away } else { millis(500) };
                for (replicas, pause) in [(0, away), (1, millis(500))] {
                    accepted &= join_all(self.names.iter().map(|name| scale(&self.client, name, replicas))).await.iter().all(Result::is_ok);
                    if self.full {
                        accepted &= scale_set(&self.client, replicas).await.is_ok();
                    }
                    sleep(pause).await;
                }
                self.flaps.fetch_add(1, Ordering::Relaxed);
                self.accepted.fetch_add(u64::from(accepted), Ordering::Relaxed);
                if self.full && round.is_multiple_of(4) {
                    let _ = set_image(&self.client, ROLLED, &format!("image:{round}")).await;
                }
            }
        };
        tokio::select! {
            outcome = outage => outcome,
            () = flaps => anyhow::bail!("the load never ends"),
        }
    }

    /// Scales everything to one replica and waits until all is correct: the pods run within `seconds`, and each owner has exactly one PodGroup.
    pub(super) async fn wait_correct(&self, seconds: u64) -> Result<()> {
        let client = &self.client;
        say::line(format!(
            "        {} rounds of scaling for {} owners, {} of them accepted completely",
            self.flaps(),
            self.names.len(),
            self.accepted()
        ));
        wait_until(secs(30), "everything is scaled to 1 in the end", || async {
            for name in &self.names {
                scale(client, name, 1).await?;
            }
            if self.full {
                scale_set(client, 1).await?;
                set_image(client, ROLLED, "image:last").await?;
            }
            Ok(Seen::Yes(()))
        })
        .await?;
        for name in &self.names {
            wait_running(client, name, 1, seconds).await?;
        }
        if self.full {
            wait_set(client, seconds).await?;
            wait_rolled_out(client, ROLLED, seconds).await?;
            wait_running(client, ROLLED, 3, 10).await?;
            wait_one_group(client, ROLLED, 10).await?;
        }
        settled(client, &self.names).await?;
        // A mark by a killed controller would let the PodGroup be deleted later.
        wait_until(secs(10), "no PodGroup has the retiring mark", || async {
            let groups = podgroups(client).list(&ListParams::default()).await?.items;
            let marked: Vec<String> =
                groups.iter().filter(|group| group.annotations().contains_key(RETIRING)).map(ResourceExt::name_any).collect();
            Ok(Seen::when(marked.is_empty(), || format!("{marked:?}")))
        })
        .await
    }

    /// Sets how long every third round stays at 0 replicas.
    pub(super) fn set_pause(&mut self, away: Duration) {
        self.away = away;
    }

    /// Returns the number of rounds so far.
    pub(super) fn flaps(&self) -> u64 {
        self.flaps.load(Ordering::Relaxed)
    }

    fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

fn sets(client: &Client) -> Api<StatefulSet> {
    Api::namespaced(client.clone(), NAMESPACE)
}

async fn make_set(client: &Client) -> Result<()> {
    let object: StatefulSet = serde_json::from_value(json!({
        "metadata": {"name": SET},
        "spec": {
            "replicas": 1,
            "serviceName": SET,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": SET}},
            "template": {
                "metadata": {"labels": {"app": SET}},
                "spec": {
                    "schedulerName": SCHEDULER_NAME,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container(&[("cpu", "100m")])],
                },
            },
        },
    }))?;
    sets(client).create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn scale_set(client: &Client, replicas: u32) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    sets(client).patch_scale(SET, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until its pod runs and exactly one PodGroup exists, with its generated name and with the StatefulSet as controller.
async fn wait_set(client: &Client, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), "the StatefulSet's pod runs and it has exactly one PodGroup", || async {
        let uid = sets(client).get(SET).await?.uid().unwrap_or_default();
        let phases = phases(&pods_of(client, SET).await?);
        let groups: Vec<DynamicObject> = podgroups(client).list(&ListParams::default()).await?.items;
        let its: Vec<&DynamicObject> = groups
            .iter()
            .filter(|group| group.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true)))
            .collect();
        let one = matches!(its.as_slice(), [group] if group.name_any() == format!("podgroup-{uid}"));
        let runs = phases == BTreeMap::from([("Running".to_owned(), 1)]);
        Ok(Seen::when(one && runs, || {
            format!("pods {phases:?}, PodGroups {:?}", its.iter().map(|group| group.name_any()).collect::<Vec<_>>())
        }))
    })
    .await
}
