//! Installs the chart with `helm install`, as a user does. The programs run with the rights that the chart gives.
//!
//! kwok would only simulate the chart's pods. So the chart is installed with 0 replicas, and the programs run as processes with tokens of the chart's
//! ServiceAccounts. A right that is missing in the chart is a forbidden request, which fails the case.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
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

/// The lifetime of tokens in seconds: longer than any case. The API server limits it to about a day.
const TOKEN_SECONDS: u32 = 12 * 3600;

/// Returns the user name of a ServiceAccount of the chart in the audit log.
pub fn user(account: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{account}")
}

/// Returns the program that runs with a ServiceAccount of a release, whatever the name of the release: [`CONTROLLER`] or [`SCHEDULER`].
/// `None` for other accounts.
pub fn program_of(account: &str) -> Option<&'static str> {
    [(CONTROLLER, "-controller"), (SCHEDULER, "-scheduler")]
        .into_iter()
        .find_map(|(program, end)| account.ends_with(end).then_some(program))
}

/// The value that the chart demands: the name of the image. No kubelet pulls it here.
pub const IMAGE: &str = "image.repository=podgroup";

/// Installs the chart with `values` (`key=value`, as for `helm --set`) and waits until its CRDs are served. See also [`settle`].
pub async fn install(cluster: &Cluster, values: &[&str]) -> Result<()> {
    install_from(cluster, &folder(), values).await
}

/// Installs another chart, from this folder.
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
    // The garbage collector looks for new kinds at its start and every 30 s. Without the restart a case that deletes an owner in the first half
    // minute would wait for that instead of what it tests.
    cluster.restart("kube-controller-manager").await
}

/// Runs `helm upgrade` with these values and no others. The API server uses changed policies some time later.
pub async fn upgrade(cluster: &Cluster, values: &[&str]) -> Result<()> {
    helm(cluster, "upgrade", &folder(), &[], values).await
}

/// Returns the folder of the chart.
pub fn folder() -> PathBuf {
    kit::repository().join("charts/podgroup")
}

async fn helm(cluster: &Cluster, verb: &str, chart: &Path, flags: &[&str], values: &[&str]) -> Result<()> {
    let chart = chart.to_str().context("the path of the repository is not UTF-8")?;
    let mut arguments = vec![verb, "podgroup", chart, "--namespace", NAMESPACE];
    arguments.extend(flags);
    for value in [IMAGE, "controller.replicas=0", "scheduler.replicas=0"].iter().chain(values) {
        arguments.extend(["--set", value]);
    }
    cluster.run("helm", &arguments).await?;
    Ok(())
}

/// Waits until a new installation answers as an old one does, so that no case measures the start of the API server: it delays the first
/// creations of a new CRD by two seconds, and applies a new policy some time after its creation. `admission_policy` says whether the chart
/// may install its policy that annotates pods; it does so where the API server has the kind.
pub async fn settle(cluster: &Cluster, admission_policy: bool) -> Result<()> {
    settle_for(cluster, objects::SCHEDULER_NAME, admission_policy).await
}

/// Does the same for a release that serves another scheduler.
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
    let stamps = admission_policy && serves_mutating_policies(&client).await?;
    let stamped = wait_until(secs(20), "the admission policy annotates pods, or no policy does", || async {
        let pod = pods.create(&dry_run, &owned).await?;
        let stamped = pod.metadata.annotations.is_some_and(|all| all.contains_key("scheduling.k8s.io/group-name"));
        Ok(Seen::when(stamped == stamps, || format!("stamped: {stamped}")))
    });
    tokio::try_join!(created, stamped)?;
    Ok(())
}

/// Returns whether the API server has MutatingAdmissionPolicy, which is off by default before Kubernetes 1.36.
async fn serves_mutating_policies(client: &Client) -> Result<bool> {
    let kinds = client.list_api_group_resources("admissionregistration.k8s.io/v1").await?;
    Ok(kinds.resources.iter().any(|each| each.kind == "MutatingAdmissionPolicy"))
}

/// Writes a kubeconfig for the chart's ServiceAccount `account` into the run's folder. It connects to `port` and trusts the certificate
/// file `authority`.
pub async fn kubeconfig(cluster: &Cluster, account: &str, port: u16, authority: &Path) -> Result<PathBuf> {
    kubeconfig_as(cluster, account, account, port, authority).await
}

/// Does the same for one of several programs of that account. Each has its own token, so that the audit log tells them apart. `label` names the file.
pub async fn kubeconfig_as(cluster: &Cluster, account: &str, label: &str, port: u16, authority: &Path) -> Result<PathBuf> {
    kubeconfig_in(cluster, NAMESPACE, account, label, port, authority).await
}

/// Does the same for a ServiceAccount of another namespace.
pub async fn kubeconfig_in(cluster: &Cluster, namespace: &str, account: &str, label: &str, port: u16, authority: &Path) -> Result<PathBuf> {
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS}}))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), namespace);
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .with_context(|| format!("a token for the ServiceAccount {account} of namespace {namespace}"))?;
    let token = answer.status.and_then(|status| status.token).context("the API server returned no token")?;
    let file = cluster.scratch().path(format!("kubeconfig-{label}"));
    kubeconfig::write(&file, port, authority, &token, namespace)?;
    Ok(file)
}
