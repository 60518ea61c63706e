//! Row M2: each of the most important alerts fires by its fault and stops when the fault is over, with a real Prometheus and the rules of the chart.

use anyhow::{Context, Result, ensure};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::seen::group_says;
use crate::lease::LONG;
use crate::objects::{make_node, make_queue_of, patch_queue, set_allocatable};
use crate::prometheus::Prometheus;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, dashboards, kit, say};

/// How long a fault must last before its alert fires. The chart has minutes.
const FOR: &str = "2s";

const FAULTS: [&str; 5] =
    ["PodgroupControllerAbsent", "PodgroupNodeOvercommitted", "PodgroupNotReady", "PodgroupQueueBelowDeserved", "PodgroupSchedulerAbsent"];

/// M2. Five faults: no scheduler, no controller, a replica without network, an overcommitted node, a queue without its share. Each alert fires alone,
/// and stops.
pub(super) async fn fire_by_their_fault(w: &mut World) -> Result<()> {
    let client = w.client();
    let controller = w.controller()?;
    controller.terminate().await?;
    // The network cut below is shorter than this on any machine. A lost lease would be the fault of another alert.
    LONG.iter().for_each(|flag| controller.also(flag));
    controller.restart().await?;
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    make_queue_of(&client, "keeps", json!({"reclaimable": false})).await?;
    Workload::new("runs").replicas(2).asks(&[("cpu", "1")]).queue("keeps").make(&client).await?;
    wait_running(&client, "runs", 2, 10).await?;

    let rules = w.cluster().scratch().path("alerts.yaml");
    std::fs::write(&rules, chart_rules(w).await?)?;
    let ports = [("podgroup-controller", w.controller()?.port()), ("podgroup-scheduler", w.scheduler()?.port())];
    let prometheus = Prometheus::start(w.cluster().scratch(), &ports, &rules).await?;
    for (name, _, annotations) in prometheus.alerting_rules().await? {
        let page = annotations.get("runbook_url").and_then(|url| url.as_str()?.strip_prefix("docs/").map(str::to_owned));
        let page = page.with_context(|| format!("alert {name} has no runbook"))?;
        ensure!(kit::repository().join("docs").join(&page).is_file(), "the runbook page {page} does not exist");
    }
    wait_firing(&prometheus, &[]).await?;

    deserved_share_missing(&client, &prometheus).await?;

    set_allocatable(&client, "n1", &[("cpu", "1")]).await?;
    wait_firing(&prometheus, &["PodgroupNodeOvercommitted"]).await?;
    wait_firing_for(&prometheus, "PodgroupNodeOvercommitted", &["node_name"], &["n1"]).await?;
    set_allocatable(&client, "n1", &[("cpu", "4")]).await?;
    wait_firing(&prometheus, &[]).await?;

    let path = w.controller_path()?;
    path.refuse(true);
    path.cut();
    wait_firing(&prometheus, &["PodgroupNotReady"]).await?;
    w.controller_path()?.refuse(false);
    wait_firing(&prometheus, &[]).await?;

    w.scheduler()?.terminate().await?;
    wait_firing(&prometheus, &["PodgroupSchedulerAbsent"]).await?;
    w.scheduler()?.restart().await?;
    wait_firing(&prometheus, &[]).await?;

    w.controller()?.terminate().await?;
    wait_firing(&prometheus, &["PodgroupControllerAbsent"]).await?;
    w.controller()?.restart().await?;
    wait_firing(&prometheus, &[]).await?;
    say::line(format!("        {} fired, each alone, and stopped afterwards", FAULTS.join(", ")));
    Ok(())
}

/// Queue `org` deserves resources that another queue uses and does not release. The alert fires only for `org`, which alone has a deserved
/// share, and stops when the other queue releases them.
async fn deserved_share_missing(client: &Client, prometheus: &Prometheus) -> Result<()> {
    make_queue_of(client, "org", json!({"deserved": {"cpu": "3"}})).await?;
    make_queue_of(client, "org-a", json!({"parent": "org"})).await?;
    Workload::new("owed").replicas(3).gang("3").asks(&[("cpu", "1")]).queue("org-a").make(client).await?;
    wait_firing(prometheus, &["PodgroupQueueBelowDeserved"]).await?;
    wait_firing_for(prometheus, "PodgroupQueueBelowDeserved", &["queue", "resource"], &["org", "cpu"]).await?;
    let group = wait_one_group(client, "owed", 10).await?.name_any();
    group_says(client, &group, "queue \"keeps\" is over its share and not reclaimable").await?;
    patch_queue(client, "keeps", json!({"spec": {"reclaimable": true}})).await?;
    wait_running(client, "owed", 3, 30).await?;
    wait_firing(prometheus, &[]).await
}

/// Waits until exactly these alerts fire.
async fn wait_firing(prometheus: &Prometheus, wanted: &[&str]) -> Result<()> {
    // A lost scrape begins the duration of an alert anew, and a program that was cut off waits up to 15 s before it connects again.
    wait_until(secs(40), &format!("just {wanted:?} fire"), || async {
        let firing = prometheus.firing().await?;
        Ok(Seen::when(firing == wanted, || format!("{firing:?}")))
    })
    .await
}

/// Waits until the alert fires for one object, with these values of the labels.
async fn wait_firing_for(prometheus: &Prometheus, alert: &str, labels: &[&str], wanted: &[&str]) -> Result<()> {
    wait_until(secs(40), &format!("{alert} fires for {wanted:?}"), || async {
        let firing = prometheus.firing_of(alert, labels).await?;
        Ok(Seen::when(firing == [wanted], || format!("{firing:?}")))
    })
    .await
}

/// Returns the rules of the chart's PrometheusRule, with short durations.
async fn chart_rules(w: &World) -> Result<String> {
    let chart = kit::repository().join("charts/podgroup");
    let chart = chart.to_str().context("the path is not UTF-8")?;
    let mut arguments = vec!["template", "podgroup", chart, "-n", chart::NAMESPACE, "-s", "templates/alerts.yaml"];
    let values: Vec<String> = FAULTS
        .iter()
        .map(|name| format!("alerts.for.{name}={FOR}"))
        .chain(["alerts.enabled=true".to_owned(), chart::IMAGE.to_owned()])
        .collect();
    for value in &values {
        arguments.extend(["--set", value]);
    }
    let text = w.cluster().run("helm", &arguments).await?;
    dashboards::rules_of(&text)
}
