//! Does a real API server take what the chart makes? Row C7: its pods where the restricted Pod Security Standard is enforced, and its ServiceMonitors and
//! PrometheusRule by schemas that know no other field.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;
use crate::{chart, kit, say};

/// C7.
pub(super) async fn by_a_real_api_server(w: &mut World) -> Result<()> {
    pods_where_restricted_is_enforced(w.cluster()).await?;
    monitors_and_alerts(w.cluster()).await
}

/// Nobody runs them here: what is asked is whether the Deployments' controller may make them.
async fn pods_where_restricted_is_enforced(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let namespace: Namespace = serde_json::from_value(json!({
        "metadata": {"name": chart::NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let two = ["controller.replicas=2", "scheduler.replicas=2"];
    chart::install(cluster, &two).await?;
    wait_pods(cluster, 2).await?;
    // With a certificate each has a volume, and one pod of the new template comes before an old one goes.
    chart::upgrade(cluster, &[two.as_slice(), &["http.secure.enabled=true", "http.secure.certSecret=certificate"]].concat()).await?;
    wait_pods(cluster, 3).await?;

    let pods: Api<Pod> = Api::namespaced(client, chart::NAMESPACE);
    let plain: Pod = serde_json::from_value(json!({
        "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "example/1"}]},
    }))?;
    // Wherever the namespace's account was not made yet the answer is another.
    wait_until(secs(20), "a pod that is not restricted is refused", || async {
        match pods.create(&PostParams::default(), &plain).await {
            Ok(_) => bail!("it was made"),
            Err(error) => {
                let error = error.to_string();
                Ok(Seen::when(error.contains("violates PodSecurity \"restricted"), || error))
            }
        }
    })
    .await
}

/// Waits until each program has so many pods.
async fn wait_pods(cluster: &Cluster, count: usize) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), chart::NAMESPACE);
    for component in ["controller", "scheduler"] {
        let of_it = ListParams::default().labels(&format!("app.kubernetes.io/component={component}"));
        wait_until(secs(30), &format!("{count} pods of the {component} are made"), || async {
            let made = pods.list(&of_it).await?.items.len();
            Ok(Seen::when(made == count, || format!("{made}")))
        })
        .await?;
    }
    Ok(())
}

/// What the chart renders for the Prometheus Operator is taken as it is, with every way to serve; a field that the kind does not have is not.
async fn monitors_and_alerts(cluster: &Cluster) -> Result<()> {
    let crds = kit::crate_folder().join("crds/monitoring.yaml");
    cluster.run("kubectl", &["apply", "-f", crds.to_str().context("the clone's path")?]).await?;
    cluster.run("kubectl", &["wait", "--for=condition=Established", "--all", "crd", "--timeout=20s"]).await?;
    let said = "serviceMonitor.labels.release=prometheus,alerts.labels.release=prometheus,alerts.for.PodgroupNotReady=20m";
    for values in [
        "commonLabels.team=x",
        said,
        "http.secure.enabled=true",
        "http.secure.enabled=true,http.secure.certSecret=certificate",
        "http.secure.enabled=true,serviceMonitor.endpoint.authorization.type=Bearer,serviceMonitor.endpoint.scrapeTimeout=5s",
    ] {
        let taken = applied(cluster, &rendered(cluster, values).await?).await.with_context(|| values.to_owned())?;
        ensure!(taken.lines().count() == 3, "{values}: {taken}");
    }
    let text = rendered(cluster, said).await?;
    let misspelt = rendered(cluster, "serviceMonitor.endpoint.scrapTimeout=5s").await?;
    for (text, field) in [
        (misspelt, "scrapTimeout"),
        (text.replace("matchLabels:", "matchLabel:"), "matchLabel"),
        (text.replace("expr:", "exp:"), "exp"),
        (text.replace("annotations:", "annotation:"), "annotation"),
    ] {
        match applied(cluster, &text).await {
            Ok(taken) => bail!("{field} was taken: {taken}"),
            Err(error) => ensure!(say::brief(&error).contains("unknown field"), "{field}: {}", say::brief(&error)),
        }
    }
    let kinds = ["serviceMonitor.enabled=true", "alerts.enabled=true"];
    chart::upgrade(cluster, &kinds).await?;
    let made =
        cluster.run("kubectl", &["get", "servicemonitors,prometheusrules", "--namespace", chart::NAMESPACE, "--output=name"]).await?;
    ensure!(made.lines().count() == 3, "the release has {made}");
    Ok(())
}

async fn rendered(cluster: &Cluster, values: &str) -> Result<String> {
    let folder = kit::repository().join("charts/podgroup");
    let folder = folder.to_str().context("the clone's path")?;
    let values = format!("serviceMonitor.enabled=true,alerts.enabled=true,{values}");
    let templates = ["--show-only", "templates/service-monitors.yaml", "--show-only", "templates/alerts.yaml"];
    let arguments = ["template", "podgroup", folder, "--namespace", chart::NAMESPACE, "--set", &values];
    cluster.run("helm", &[arguments.as_slice(), &templates].concat()).await
}

async fn applied(cluster: &Cluster, text: &str) -> Result<String> {
    let file = cluster.scratch().path("rendered.yaml");
    std::fs::write(&file, text)?;
    cluster.run("kubectl", &["apply", "--dry-run=server", "--validate=strict", "-f", file.to_str().context("the folder's path")?]).await
}
