//! Row C7: a real API server accepts the objects of the chart. The pods run where the restricted Pod Security Standard is enforced. The
//! ServiceMonitors and the PrometheusRule match schemas that know no other field.

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

/// The pods do not run here: the test is whether the Deployment controller can create them.
async fn pods_where_restricted_is_enforced(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let namespace: Namespace = serde_json::from_value(json!({
        "metadata": {"name": chart::NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let two = ["controller.replicas=2", "scheduler.replicas=2"];
    chart::install(cluster, &two).await?;
    wait_pods(cluster, 2).await?;
    // With a certificate each pod has a volume. One pod of the new template is created before an old pod is deleted.
    chart::upgrade(cluster, &[two.as_slice(), &["http.secure.enabled=true", "http.secure.certSecret=certificate"]].concat()).await?;
    wait_pods(cluster, 3).await?;

    let pods: Api<Pod> = Api::namespaced(client, chart::NAMESPACE);
    let plain: Pod = serde_json::from_value(json!({
        "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "example/1"}]},
    }))?;
    // Before the namespace has its service account, the response is another one.
    wait_until(secs(10), "the API server refuses a pod that is not restricted", || async {
        match pods.create(&PostParams::default(), &plain).await {
            Ok(_) => bail!("the pod was created"),
            Err(error) => {
                let error = error.to_string();
                Ok(Seen::when(error.contains("violates PodSecurity \"restricted"), || error))
            }
        }
    })
    .await
}

/// Waits until each program has `count` pods.
async fn wait_pods(cluster: &Cluster, count: usize) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), chart::NAMESPACE);
    for component in ["controller", "scheduler"] {
        let of_it = ListParams::default().labels(&format!("app.kubernetes.io/component={component}"));
        // kube-controller-manager may have been started again just now.
        wait_until(secs(30), &format!("{count} pods of the {component} exist"), || async {
            let made = pods.list(&of_it).await?.items.len();
            Ok(Seen::when(made == count, || format!("{made}")))
        })
        .await?;
    }
    Ok(())
}

/// The API server accepts every object for the Prometheus Operator, with every way to serve, and refuses a field that the kind does not have.
async fn monitors_and_alerts(cluster: &Cluster) -> Result<()> {
    let crds = kit::crate_folder().join("crds/monitoring.yaml");
    cluster.run("kubectl", &["apply", "-f", crds.to_str().context("the path of the repository")?]).await?;
    cluster.crds_established().await?;
    let said = "serviceMonitor.labels.release=prometheus,alerts.labels.release=prometheus,alerts.for.PodgroupNotReady=20m";
    for values in [
        "commonLabels.team=x",
        said,
        "http.secure.enabled=true",
        "http.secure.enabled=true,http.secure.certSecret=certificate",
        "http.secure.enabled=true,serviceMonitor.endpoint.authorization.type=Bearer,serviceMonitor.endpoint.scrapeTimeout=5s",
        "serviceMonitor.enabled=false,podMonitor.enabled=true,podMonitor.labels.release=prometheus",
        "serviceMonitor.enabled=false,podMonitor.enabled=true,http.secure.enabled=true,http.secure.certSecret=certificate,podMonitor.endpoint.authorization.type=Bearer",
    ] {
        let taken = applied(cluster, &rendered(cluster, values).await?).await.with_context(|| values.to_owned())?;
        ensure!(taken.lines().count() == 3, "{values}: {taken}");
    }
    let text = rendered(cluster, said).await?;
    let misspelt = rendered(cluster, "serviceMonitor.endpoint.scrapTimeout=5s").await?;
    let of_pods = "serviceMonitor.enabled=false,podMonitor.enabled=true,podMonitor.endpoint.bearerTokenFile=/token";
    let of_a_file = rendered(cluster, of_pods).await?;
    for (text, field) in [
        (misspelt, "scrapTimeout"),
        (of_a_file, "bearerTokenFile"),
        (text.replace("matchLabels:", "matchLabel:"), "matchLabel"),
        (text.replace("expr:", "exp:"), "exp"),
        (text.replace("annotations:", "annotation:"), "annotation"),
    ] {
        match applied(cluster, &text).await {
            Ok(taken) => bail!("the unknown field {field} was accepted: {taken}"),
            Err(error) => ensure!(say::brief(&error).contains("unknown field"), "{field}: {}", say::brief(&error)),
        }
    }
    for (monitors, kinds) in [("serviceMonitor", "servicemonitors,prometheusrules"), ("podMonitor", "podmonitors,prometheusrules")] {
        chart::upgrade(cluster, &[&format!("{monitors}.enabled=true"), "alerts.enabled=true"]).await?;
        let made = cluster.run("kubectl", &["get", kinds, "--namespace", chart::NAMESPACE, "--output=name"]).await?;
        ensure!(made.lines().count() == 3, "the release has {made}");
    }
    Ok(())
}

async fn rendered(cluster: &Cluster, values: &str) -> Result<String> {
    let folder = kit::repository().join("charts/podgroup");
    let folder = folder.to_str().context("the path of the repository")?;
    let values = format!("{},serviceMonitor.enabled=true,alerts.enabled=true,{values}", chart::IMAGE);
    let templates = ["--show-only", "templates/monitors.yaml", "--show-only", "templates/alerts.yaml"];
    let arguments = ["template", "podgroup", folder, "--namespace", chart::NAMESPACE, "--set", &values];
    cluster.run("helm", &[arguments.as_slice(), &templates].concat()).await
}

async fn applied(cluster: &Cluster, text: &str) -> Result<String> {
    let file = cluster.scratch().path("rendered.yaml");
    std::fs::write(&file, text)?;
    cluster.run("kubectl", &["apply", "--dry-run=server", "--validate=strict", "-f", file.to_str().context("the folder's path")?]).await
}
