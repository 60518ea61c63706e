//! How does what is tested come into a cluster? By `helm install`, as at any user's; the programs then live with the rights that the chart gave.
//!
//! kwok would only pretend to run the chart's pods, so the chart is installed with no replicas and the programs run as processes with tokens of
//! the chart's own ServiceAccounts: a right that the chart forgot is a forbidden request, and that fails the case.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::wait::{Seen, secs, wait_until};
use crate::{kit, kubeconfig, objects};

/// The namespace that the chart is installed into.
pub const NAMESPACE: &str = "podgroup-system";

/// ServiceAccount of the controller.
pub const CONTROLLER: &str = "podgroup-controller";

/// ServiceAccount of the scheduler.
pub const SCHEDULER: &str = "podgroup-scheduler";

/// Longer than any case; an admin's token of the API server may be at most a day or so.
const TOKEN_SECONDS: u32 = 12 * 3600;

/// How a ServiceAccount of the chart is called in the audit log.
pub fn user(account: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{account}")
}

/// Installs the chart with `values` (`key=value`, as for `helm --set`) and returns when its CRDs are served; see also [`settle`].
pub async fn install(cluster: &Cluster, values: &[&str]) -> Result<()> {
    install_from(cluster, &folder(), values).await
}

/// The same of another chart, in this folder.
pub async fn install_from(cluster: &Cluster, chart: &Path, values: &[&str]) -> Result<()> {
    helm(cluster, "install", chart, &["--create-namespace"], values).await?;
    for name in ["podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"] {
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
        wait_until(secs(20), &format!("the CRD {name} is served"), || async {
            let conditions = definitions.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
            let served = conditions.iter().any(|each| each.type_ == "Established" && each.status == "True");
            Ok(Seen::when(served, || format!("{conditions:?}")))
        })
        .await?;
    }
    // The garbage collector looks for new kinds every 30 s and knows them from its start. A case that deletes an owner in a cluster's first half minute
    // would wait for that, and not for what it tests.
    cluster.restart("kube-controller-manager").await
}

/// `helm upgrade` of what [`install`] installed, with these values and no others; the policies of the API server follow a moment later.
pub async fn upgrade(cluster: &Cluster, values: &[&str]) -> Result<()> {
    helm(cluster, "upgrade", &folder(), &[], values).await
}

/// The chart that is tested.
pub fn folder() -> PathBuf {
    kit::repository().join("charts/podgroup")
}

async fn helm(cluster: &Cluster, verb: &str, chart: &Path, flags: &[&str], values: &[&str]) -> Result<()> {
    let chart = chart.to_str().context("the clone's path is no UTF-8")?;
    let mut arguments = vec![verb, "podgroup", chart, "--namespace", NAMESPACE];
    arguments.extend(flags);
    for value in ["controller.replicas=0", "scheduler.replicas=0"].iter().chain(values) {
        arguments.extend(["--set", value]);
    }
    cluster.run("helm", &arguments).await?;
    Ok(())
}

/// Waits until a fresh installation answers as an old one does, so that no case measures the API server's own first steps: it holds the first creations
/// of a new CRD for two seconds, and begins to apply a new policy some time after it took it.
pub async fn settle(cluster: &Cluster, admission_policy: bool) -> Result<()> {
    settle_for(cluster, objects::SCHEDULER_NAME, admission_policy).await
}

/// The same where the release serves another scheduler's pods.
pub async fn settle_for(cluster: &Cluster, scheduler: &str, admission_policy: bool) -> Result<()> {
    let client = cluster.client();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let (groups, queues) = (objects::podgroups(&client), objects::queues(&client));
    let probe = |kind: &str| -> Result<DynamicObject> {
        let object = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": {"name": "settle"}, "spec": {}});
        Ok(serde_json::from_value(object)?)
    };
    let (group, queue) = (probe("PodGroup")?, probe("Queue")?);
    let pods: Api<Pod> = Api::namespaced(client.clone(), objects::NAMESPACE);
    let owned: Pod = serde_json::from_value(json!({
        "metadata": {"name": "settle", "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "settle", "uid": "00000000-0000-4000-8000-000000000000", "controller": true,
        }]},
        "spec": {"schedulerName": scheduler, "containers": [objects::container(&[])]},
    }))?;
    let created = wait_until(secs(20), "PodGroups and Queues can be created", || async {
        tokio::try_join!(groups.create(&dry_run, &group), queues.create(&dry_run, &queue))?;
        Ok(Seen::Yes(()))
    });
    let stamped = wait_until(secs(20), "the admission policy stamps pods, or nothing does", || async {
        let pod = pods.create(&dry_run, &owned).await?;
        let stamped = pod.metadata.annotations.is_some_and(|all| all.contains_key("scheduling.k8s.io/group-name"));
        Ok(Seen::when(stamped == admission_policy, || format!("stamped: {stamped}")))
    });
    tokio::try_join!(created, stamped)?;
    Ok(())
}

/// A kubeconfig for the chart's ServiceAccount `account`, through `port`, trusting `authority` (the file of a certificate). It lies in the run's folder.
pub async fn kubeconfig(cluster: &Cluster, account: &str, port: u16, authority: &Path) -> Result<PathBuf> {
    kubeconfig_as(cluster, account, account, port, authority).await
}

/// The same for one of several programs of that account, each with a token of its own, by which the audit log tells them apart. `label` names the file.
pub async fn kubeconfig_as(cluster: &Cluster, account: &str, label: &str, port: u16, authority: &Path) -> Result<PathBuf> {
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS}}))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), NAMESPACE);
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .with_context(|| format!("a token for the chart's ServiceAccount {account}"))?;
    let token = answer.status.and_then(|status| status.token).context("the API server gave no token")?;
    let file = cluster.scratch().path(format!("kubeconfig-{label}"));
    kubeconfig::write(&file, port, authority, &token, NAMESPACE)?;
    Ok(file)
}
