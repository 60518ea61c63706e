//! Do the alerts that matter most fire by the fault that they are for, and are they silent again when it is over? M2, with a real Prometheus and the chart's own rules.

use anyhow::{Context, Result, ensure};
use kube::Client;
use serde_json::json;

use crate::objects::{make_node, make_queue_of, patch_queue, set_allocatable};
use crate::prometheus::Prometheus;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_running};
use crate::world::World;
use crate::{kit, say};

/// How long a fault must last here before its alert fires; minutes in the chart.
const FOR: &str = "2s";

const FAULTS: [&str; 5] =
    ["PodgroupControllerAbsent", "PodgroupNodesOvercommitted", "PodgroupNotReady", "PodgroupQueueOwed", "PodgroupSchedulerAbsent"];

/// M2. Nobody schedules, nobody keeps PodGroups, a replica is cut off, a node is overcommitted, nothing comes back that a queue is owed: each alert fires, alone, and stops.
pub(super) async fn fire_by_their_fault(w: &mut World) -> Result<()> {
    let client = w.client();
    let controller = w.controller()?;
    controller.terminate().await?;
    // It is cut off below, for shorter than this on any machine: to lose the lease by that is another alert's fault.
    controller.also("--leader-elect-lease-duration=60s");
    controller.also("--leader-elect-renew-deadline=50s");
    controller.restart().await?;
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    make_queue_of(&client, "keeps", json!({"reclaimable": false})).await?;
    Workload::new("runs").replicas(2).asks(&[("cpu", "1")]).queue("keeps").make(&client).await?;
    wait_running(&client, "runs", 2, 20).await?;

    let rules = w.cluster().scratch().path("alerts.yaml");
    std::fs::write(&rules, chart_rules(w).await?)?;
    let ports = [("podgroup-controller", w.controller()?.port()), ("podgroup-scheduler", w.scheduler()?.port())];
    let prometheus = Prometheus::start(w.cluster().scratch(), &ports, &rules).await?;
    for (name, _, annotations) in prometheus.alerting_rules().await? {
        let page = annotations.get("runbook_url").and_then(|url| url.as_str()?.split_once("/docs/").map(|(_, page)| page.to_owned()));
        let page = page.with_context(|| format!("{name} has no runbook"))?;
        ensure!(kit::repository().join("docs").join(&page).is_file(), "there is no page {page}");
    }
    fires(&prometheus, &[]).await?;

    owed(&client, &prometheus).await?;

    set_allocatable(&client, "n1", &[("cpu", "1")]).await?;
    fires(&prometheus, &["PodgroupNodesOvercommitted"]).await?;
    set_allocatable(&client, "n1", &[("cpu", "4")]).await?;
    fires(&prometheus, &[]).await?;

    let path = w.controller_path()?;
    path.refuse(true);
    path.cut();
    fires(&prometheus, &["PodgroupNotReady"]).await?;
    w.controller_path()?.refuse(false);
    fires(&prometheus, &[]).await?;

    w.scheduler()?.terminate().await?;
    fires(&prometheus, &["PodgroupSchedulerAbsent"]).await?;
    w.scheduler()?.restart().await?;
    fires(&prometheus, &[]).await?;

    w.controller()?.terminate().await?;
    fires(&prometheus, &["PodgroupControllerAbsent"]).await?;
    w.controller()?.restart().await?;
    fires(&prometheus, &[]).await?;
    say::line(format!("        {} fired, each alone, and stopped", FAULTS.join(", ")));
    Ok(())
}

/// What `org` deserves is wanted below it, and another queue has a part of it and lets nobody go: it fires for `org`, the only one that states a share. It is over when that queue lets go.
async fn owed(client: &Client, prometheus: &Prometheus) -> Result<()> {
    make_queue_of(client, "org", json!({"deserved": {"cpu": "3"}})).await?;
    make_queue_of(client, "org-a", json!({"parent": "org"})).await?;
    Workload::new("owed").replicas(3).gang("3").asks(&[("cpu", "1")]).queue("org-a").make(client).await?;
    fires(prometheus, &["PodgroupQueueOwed"]).await?;
    let whose = prometheus.query("count by (queue, resource) (ALERTS{alertname=\"PodgroupQueueOwed\",alertstate=\"firing\"})").await?;
    ensure!(whose == [("queue=org,resource=cpu".to_owned(), 1.0)], "it fires for {whose:?}");
    patch_queue(client, "keeps", json!({"spec": {"reclaimable": true}})).await?;
    wait_running(client, "owed", 3, 30).await?;
    fires(prometheus, &[]).await
}

/// Waits until just these fire.
async fn fires(prometheus: &Prometheus, wanted: &[&str]) -> Result<()> {
    wait_until(secs(30), &format!("just {wanted:?} fire"), || async {
        let firing = prometheus.firing().await?;
        Ok(Seen::when(firing == wanted, || format!("{firing:?}")))
    })
    .await
}

/// The rules as the chart puts them into its PrometheusRule, with short durations.
async fn chart_rules(w: &World) -> Result<String> {
    let chart = kit::repository().join("charts/podgroup");
    let mut arguments = vec!["template", "podgroup", chart.to_str().context("a path of text")?, "-s", "templates/alerts.yaml"];
    let values: Vec<String> =
        FAULTS.iter().map(|name| format!("alerts.for.{name}={FOR}")).chain(["alerts.enabled=true".to_owned()]).collect();
    for value in &values {
        arguments.extend(["--set", value]);
    }
    let text = w.cluster().run("helm", &arguments).await?;
    let (_, spec) = text.split_once("\nspec:\n").context("the PrometheusRule has no spec")?;
    // What stands below `spec` is a file of rules, two columns further to the left.
    Ok(spec.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect())
}
