//! Row M1: the dashboards and alerts show the right numbers. A real Prometheus scrapes the programs while the case creates a known state, and every
//! query of every panel and alert must return the numbers of that state.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::panels_wanted::{RANGE, Row, alerts, in_between, of_alert, rows, variables};
use super::seen::{bound, group_says, metric};
use crate::dashboards::{self, Panel, dashboards};
use crate::lease::LONG;
use crate::objects::{make_bound_pod, make_member, make_node, make_podgroup, make_queue_of, patch_queue, podgroups};
use crate::prometheus::Prometheus;
use crate::proxy::Delay;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{Workload, annotate, groups_of, scale, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, say};

/// M1. Each part of the state is a number in some panel. A panel without a row of expected numbers fails the case, and so does a row without a panel.
pub(super) async fn show_what_is_so(w: &mut World) -> Result<()> {
    let client = w.client();
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    // An admitted PodGroup stays admitted, however slow the machine is.
    scheduler.also("--admission-timeout=0s");
    scheduler.restart().await?;
    let controller = w.controller()?;
    controller.terminate().await?;
    // With one worker a few PodGroups are enough for one to wait for its turn.
    controller.also("--workers=1");
    // Its writes are slow for a while below.
    LONG.iter().for_each(|flag| controller.also(flag));
    controller.restart().await?;
    let ports = [("podgroup-controller", w.controller()?.port()), ("podgroup-scheduler", w.scheduler()?.port())];
    let prometheus = Prometheus::start(w.cluster().scratch(), &ports, &dashboards::alerts()).await?;
    // Watches that end are a number, too. A rate does not see the first one, with which a counter begins.
    w.scheduler_path()?.cut();
    let dashboards = dashboards()?;
    let panels: Vec<Panel> = dashboards.iter().flat_map(|dashboard| dashboard.panels.clone()).collect();
    lifecycle(w, &client).await?;
    queues(&client, &prometheus).await?;
    turns(w, &client, &prometheus, &panels).await?;
    unreadable(w, &client).await?;
    w.scheduler_path()?.cut();

    let rows = rows();
    for panel in &panels {
        let of_panel: Vec<_> = rows.iter().filter(|row| row.panel == panel.title).collect();
        ensure!(!of_panel.is_empty(), "no expected numbers for the panel {:?}", panel.title);
        for row in of_panel {
            ensure!(row.wanted.len() == panel.queries.len(), "{:?} has {} queries", panel.title, panel.queries.len());
            for (query, wanted) in panel.queries.iter().zip(&row.wanted) {
                gives(&prometheus, &row.filled(query), wanted, &panel.title).await?;
            }
        }
    }
    let loose: Vec<_> = rows.iter().map(|row| row.panel).filter(|title| panels.iter().all(|panel| panel.title != *title)).collect();
    ensure!(loose.is_empty(), "expected numbers without a panel: {loose:?}");

    let chosen: Vec<_> = dashboards.iter().flat_map(|dashboard| &dashboard.variables).collect();
    let names: BTreeSet<_> = chosen.iter().map(|variable| variable.name.as_str()).collect();
    ensure!(names.len() == variables().len(), "there are the variables {names:?}, and values for {}", variables().len());
    for variable in chosen {
        let (selector, label) = variable.asks().with_context(|| format!("{variable:?} has no label"))?;
        let wanted = variables().into_iter().find(|(name, _)| *name == variable.name).map(|(_, values)| values);
        let offered = prometheus.label_values(&filled(selector, "", ""), label).await?;
        ensure!(wanted.as_ref().is_some_and(|wanted| offered == *wanted), "{variable:?} offers {offered:?}, wanted {wanted:?}");
    }

    let rules = prometheus.alerting_rules().await?;
    ensure!(rules.len() == alerts().len(), "there are {} alerts, and numbers for {}", rules.len(), alerts().len());
    for (name, query, _) in &rules {
        let wanted = of_alert(name).with_context(|| format!("no numbers are known for the alert {name}"))?;
        gives(&prometheus, query, &wanted, name).await?;
    }
    say::line(format!(
        "        {} queries of {} panels, {} variables and {} alerts return the right numbers",
        panels.iter().map(|panel| panel.queries.len()).sum::<usize>(),
        panels.len(),
        variables().len(),
        rules.len()
    ));
    Ok(())
}

async fn gives(prometheus: &Prometheus, query: &str, wanted: &super::panels_wanted::Wanted, what: &str) -> Result<()> {
    // A late response to a scrape is a gap of a few seconds.
    wait_until(secs(40), &format!("{what} ({query}) gives {wanted:?}"), || async {
        let seen = prometheus.query(query).await?;
        Ok(Seen::when(wanted.is(&seen), || format!("{seen:?}")))
    })
    .await
}

/// Creates and deletes one PodGroup, and causes one refused patch by a write from another client.
async fn lifecycle(w: &mut World, client: &Client) -> Result<()> {
    make_node(client, "n1", &[("cpu", "17"), ("memory", "64Gi")]).await?;
    make_node(client, "n2", &[("cpu", "1"), ("memory", "1Gi")]).await?;
    // More than the second node has, past every scheduler.
    make_bound_pod(client, "outside", "n2", &[("cpu", "2")]).await?;
    Workload::new("goes").asks(&[("memory", "1Mi")]).make(client).await?;
    wait_running(client, "goes", 1, 10).await?;
    let group = wait_one_group(client, "goes", 10).await?.name_any();
    w.controller_path()?.delay(Delay::Fixed(millis(150)), Delay::None);
    let port = w.controller()?.port();
    for number in 0_u32.. {
        if metric(port, "podgroup_controller_preconditions_refused_total{step=\"amend\"}").await? > 0.5 {
            break;
        }
        ensure!(number < 100, "no amendment was refused");
        annotate(client, "goes", "volcano.sh/beside", &number.to_string()).await?;
        // The patch may be in progress, not sent yet, or done: in one of the attempts the time is right.
        tokio::time::sleep(millis(20 * u64::from(number % 10))).await;
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/busy": number.to_string()}}}));
        podgroups(client).patch(&group, &PatchParams::default(), &patch).await?;
        tokio::time::sleep(millis(100)).await;
    }
    w.controller_path()?.delay(Delay::None, Delay::None);
    scale(client, "goes", 0).await?;
    wait_until(secs(20), "the PodGroup without pods is deleted", || async {
        Ok(Seen::when(groups_of(client, "goes").await?.is_empty(), || "it still exists".to_owned()))
    })
    .await
}

/// `a` borrows four and gives two back to `b`; `ml` is full because of its parent `team`, and both lack two of their share; `shut` is closed; `b`
/// waits for a resource that no node has; `spare` has guarantees of cpu and memory. `dept` deserves a resource that its own `lab` may not have, and
/// lacks nothing.
async fn queues(client: &Client, prometheus: &Prometheus) -> Result<()> {
    for (name, spec) in [
        ("a", json!({"deserved": {"cpu": "6"}})),
        ("b", json!({"deserved": {"cpu": "6"}, "capability": {"example.com/gpu": "4"}})),
        ("team", json!({"deserved": {"cpu": "4"}, "capability": {"cpu": "4"}})),
        ("ml", json!({"parent": "team", "deserved": {"cpu": "4"}})),
        ("shut", json!({"capability": {"cpu": "0"}})),
        ("orphan", json!({"parent": "nobody"})),
        ("dept", json!({"deserved": {"example.com/gpu": "2"}})),
        ("lab", json!({"parent": "dept", "capability": {"example.com/gpu": "0"}})),
        ("spare", json!({"guarantee": {"resource": {"cpu": "1", "memory": "1Gi"}}})),
    ] {
        make_queue_of(client, name, spec).await?;
    }
    let closed = json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-desired-state": "Closed"}}});
    patch_queue(client, "shut", closed).await?;
    Workload::new("fits").replicas(2).asks(&[("cpu", "1")]).queue("ml").make(client).await?;
    wait_running(client, "fits", 2, 10).await?;
    // A rate sees the first pods where a scrape has shown the series before them.
    wait_until(secs(20), "Prometheus knows the waiting times of a", || async {
        let known = prometheus.query("podgroup_scheduler_pod_waiting_seconds_count{queue=\"a\"}").await?;
        Ok(Seen::when(!known.is_empty(), || "no series".to_owned()))
    })
    .await?;
    Workload::new("borrows").replicas(10).asks(&[("cpu", "1")]).queue("a").make(client).await?;
    wait_running(client, "borrows", 10, 10).await?;
    waits(client, "gang", "ml", 3, ("cpu", "1"), "queue \"team\" is over its quota").await?;
    waits(client, "gpu", "b", 1, ("example.com/gpu", "1"), "Insufficient example.com/gpu").await?;
    waits(client, "capped", "lab", 1, ("example.com/gpu", "1"), "queue \"lab\" is over its quota").await?;
    waits(client, "late", "shut", 1, ("cpu", "1"), "queue \"shut\" is closed").await?;
    Workload::new("owed").replicas(6).gang("6").asks(&[("cpu", "1")]).queue("b").make(client).await?;
    wait_running(client, "owed", 6, 10).await?;
    wait_until(secs(20), "the reclaimed pods wait", || async {
        let (has, all) = (bound(client, "borrows").await?, crate::workloads::pods_of(client, "borrows").await?.len());
        Ok(Seen::when((has, all) == (8, 10), || format!("{has} of {all} are bound")))
    })
    .await?;
    // It waits for a shorter time than `borrows`, in whole seconds as creation times are.
    tokio::time::sleep(millis(1001)).await;
    waits(client, "passes", "a", 1, ("example.com/gpu", "1"), "Insufficient example.com/gpu").await
}

/// Three PodGroups need a patch, and each write is slow: one is in progress, and two wait for their turn.
async fn turns(w: &mut World, client: &Client, prometheus: &Prometheus, panels: &[Panel]) -> Result<()> {
    // Less than a request and a new connection may take, and more than two scrapes.
    w.controller_path()?.delay(Delay::Fixed(millis(4500)), Delay::None);
    futures::future::try_join_all(["fits", "borrows", "owed"].map(|name| annotate(client, name, "volcano.sh/beside", "yes"))).await?;
    let row = in_between();
    let panel = panels.iter().find(|panel| panel.title == row.panel).context("no such panel")?;
    for (query, wanted) in panel.queries.iter().zip(&row.wanted) {
        gives(prometheus, &row.filled(query), wanted, &panel.title).await?;
    }
    w.controller_path()?.delay(Delay::None, Delay::None);
    Ok(())
}

/// A queue with a number that is too large for the programs, as the CRDs of another release may allow: its last known state stays.
async fn unreadable(w: &mut World, client: &Client) -> Result<()> {
    let weight = |weight: u64| json!({"extendClusters": [{"name": "far", "weight": weight}]});
    make_queue_of(client, "foreign", weight(1)).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "queues.scheduling.volcano.sh";
    let mut versions = serde_json::to_value(crds.get(name).await?.spec.versions)?;
    let path = "/0/schema/openAPIV3Schema/properties/spec/properties/extendClusters/items/properties/weight";
    *versions.pointer_mut(path).context("the CRD of queues says nothing of that weight")? = json!({"type": "integer"});
    crds.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"versions": versions}}))).await?;
    let port = w.scheduler()?.port();
    let mut number = 3_000_000_000;
    // Repeated, because the API server uses the changed schema some time later.
    wait_until(secs(40), "the scheduler has counted a queue that it cannot read", || {
        number += 1;
        async move {
            patch_queue(client, "foreign", json!({"spec": weight(number)})).await?;
            let met = metric(port, "podgroup_scheduler_unreadable_objects_total").await?;
            Ok(Seen::when(met > 0.5, || format!("{met}")))
        }
    })
    .await
}

/// Creates a gang of single pods and waits until its PodGroup has this reason.
async fn waits(client: &Client, name: &str, queue: &str, members: u32, asks: (&str, &str), why: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": members, "queue": queue})).await?;
    for number in 0..members {
        make_member(client, &format!("{name}-{number}"), name, &[asks]).await?;
    }
    group_says(client, name, why).await?;
    Ok(())
}

impl Row {
    /// Returns the query with the row's values in place of the dashboard's variables.
    fn filled(&self, query: &str) -> String {
        filled(query, self.queue, self.resource)
    }
}

/// Returns the query with values in place of the dashboard's variables.
fn filled(query: &str, queue: &str, resource: &str) -> String {
    let chosen =
        [("$cluster", ".*"), ("$namespace", chart::NAMESPACE), ("$queue", queue), ("$resource", resource), ("$__rate_interval", RANGE)];
    chosen.iter().fold(query.to_owned(), |query, (variable, value)| query.replace(variable, value))
}
