//! Parts of rows U6 and U8: `kubectl podgroup` with a scheduler that serves TLS, and the versions of the programs.

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::endpoint::{account, bind, grant_secure_serving};
use super::handover::wait_leader;
use super::plugin::{at, plugin, says};
use crate::https::{Mount, SERVICE};
use crate::objects::NAMESPACE;
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;
use crate::{chart, kubeconfig};

/// The scheduler serves TLS from now on, requires a token and is the pod `scheduler-1`; the port-forward of U8 leads to it. The plugin sends
/// nothing to a server without a trusted certificate, unless a flag permits it. The error names each missing flag.
pub(super) async fn over_tls(w: &mut World) -> Result<()> {
    grant_secure_serving(w, &[chart::SCHEDULER]).await?;
    let mount = Mount::new(w.cluster().scratch().path("certificate"))?;
    mount.swap("one")?;
    let authority = w.cluster().scratch().path("certificate").join("one/tls.crt");
    let scheduler = w.scheduler()?;
    scheduler.environment("HOSTNAME", "scheduler-1");
    mount.flags().iter().for_each(|flag| scheduler.also(flag));
    scheduler.also("--secure-serving");
    scheduler.terminate().await?;
    scheduler.launch()?;
    let w: &World = w;
    let (operator, stranger) = (person(w, "operator", Some("cluster-admin")).await?, person(w, "stranger", None).await?);
    let operator = format!("--kubeconfig {operator}");
    let trusted = format!("--scheduler-ca-file {} --scheduler-tls-server-name localhost", authority.display());

    // The scheduler is ready before it holds the Lease.
    wait_leader(&w.client(), "scheduler-1", 30).await?;
    says(w, "audit", &["the scheduler serves TLS: say --scheduler-ca-file", "--scheduler-insecure-skip-tls-verify"]).await?;
    // The admin of the cluster has a certificate and no token.
    plugin(w, &format!("audit {trusted}")).await?.must(1, &["the kubeconfig has none: say --scheduler-token-file"])?;
    says(w, &format!("audit {operator} {trusted}"), &["no differences"]).await?;
    let another = format!("audit {operator} --scheduler-ca-file {}", authority.display());
    let usual = format!("for {}.{}.svc", chart::SCHEDULER, chart::NAMESPACE);
    plugin(w, &another).await?.must(1, &["nothing answers", "certificate", &usual, "--scheduler-tls-server-name"])?;
    service(w).await?;
    plugin(w, &another).await?.must(0, &["no differences"])?;
    // With impersonation the plugin does not send the user's own token: it would show what the impersonated user may not see.
    let other = format!("{operator} --as boss --as-group system:masters");
    plugin(w, &format!("audit {other} {trusted}")).await?.must(1, &["no user can act there as boss", "--scheduler-token-file"])?;
    plugin(w, &format!("tree {other} {trusted}")).await?.must(0, &["root", "Not known", "no user can act there as boss"])?;
    plugin(w, &format!("audit {operator} --scheduler-insecure-skip-tls-verify")).await?.must(0, &["no differences"])?;
    let file = w.cluster().scratch().path("token-stranger");
    std::fs::write(&file, &stranger)?;
    let of_a_stranger = format!("audit {trusted} --scheduler-token-file {}", file.display());
    says(w, &of_a_stranger, &["asks for a token with the right to /debug/audit"]).await?;
    plugin(w, &of_a_stranger).await?.must(1, &[])
}

/// The Service of a release with another name leads to the scheduler.
async fn service(w: &World) -> Result<()> {
    let ports = json!([{"name": "http-metrics", "port": 8081, "targetPort": "http-metrics"}]);
    let spec = json!({"clusterIP": "None", "selector": {"component": "scheduler"}, "ports": ports});
    let service: Service = serde_json::from_value(json!({"metadata": {"name": SERVICE}, "spec": spec}))?;
    Api::namespaced(w.client(), chart::NAMESPACE).create(&PostParams::default(), &service).await?;
    Ok(())
}

/// Creates an account with a token. With a role it returns the flag for a kubeconfig with the token, otherwise the token itself.
async fn person(w: &World, name: &str, role: Option<&str>) -> Result<String> {
    let token = account(&w.client(), name).await?;
    let Some(role) = role else { return Ok(token) };
    bind(&w.client(), name, role).await?;
    let (port, authority) = kubeconfig::door(w.cluster().kubeconfig())?;
    let file = w.cluster().scratch().path(format!("kubeconfig-{name}"));
    kubeconfig::write(&file, port, &authority, &token, NAMESPACE)?;
    Ok(file.display().to_string())
}

/// All three programs have the same version.
pub(super) async fn one_version(w: &World) -> Result<()> {
    let value = plugin(w, "version -o json").await?.json()?;
    ensure!(*at(&value, "/differences") == json!([]) && *at(&value, "/unknown") == json!([]), "{value}");
    ensure!(*at(&value, "/plugin") == *at(&value, "/controller/version") && at(&value, "/scheduler/version").is_string(), "{value}");
    plugin(w, "version").await?.must(0, &["kubectl-podgroup", "podgroup-controller", "podgroup-scheduler"])
}

/// A scheduler of another version holds the Lease. A new leader of the controller logs it, and `kubectl podgroup version` reports it.
pub(super) async fn of_another_version(w: &mut World) -> Result<()> {
    w.scheduler()?.terminate().await?;
    let leases: Api<Lease> = Api::namespaced(w.client(), chart::NAMESPACE);
    let spec = json!({"holderIdentity": "scheduler-9_x", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z"});
    let other = json!({"metadata": {"annotations": {"podgroup.dev/version": "9.9.9"}}, "spec": spec});
    leases.patch(chart::SCHEDULER, &PatchParams::default(), &Patch::Merge(other)).await?;
    let controller = w.controller()?;
    let before = std::fs::read_to_string(controller.log())?;
    ensure!(!before.contains("9.9.9"), "the log says 9.9.9 before: {before}");
    controller.terminate().await?;
    controller.restart().await?;
    let log = controller.log().to_owned();
    wait_until(secs(30), "the controller's log contains the version of the scheduler", || async {
        let text = std::fs::read_to_string(&log)?;
        let told = text.lines().find(|line| line.contains("9.9.9")).unwrap_or_default();
        Ok(Seen::when(told.contains("helm upgrade"), || text))
    })
    .await?;
    plugin(w, "version")
        .await?
        .must(0, &["podgroup-scheduler   9.9.9", "podgroup-controller and podgroup-scheduler differ", "helm upgrade"])?;
    // Its node died, so the Lease is not released.
    let gone = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    leases.patch(chart::SCHEDULER, &PatchParams::default(), &Patch::Merge(gone)).await?;
    plugin(w, "version")
        .await?
        .must(0, &["podgroup-scheduler   ?", "scheduler-9_x holds its Lease and has not renewed it for ", "it was 9.9.9"])?;
    plugin(w, "audit").await?.must(1, &["pod podgroup-system/scheduler-9, which does not exist, and it has not been renewed for "])
}
