//! Row C9: the programs run as the chart renders them, with the default values and with sets of values that use every flag.
//!
//! The modes B and C are in C3, and a cluster without the admission policies is in C4.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::endpoint::{account, bind};
use crate::cluster::Cluster;
use crate::https::{Https, Mount};
use crate::lease::leases;
use crate::objects::{NAMESPACE, make_node};
use crate::rendered::Rendered;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, delete, pods_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, programs, requests, say};

/// Every flag that the templates can render. The case fails if no set of values uses one of them, and if the templates render a flag that
/// is not listed.
const FLAGS: [&str; 17] = [
    "--scheduler-name",
    "--leader-elect",
    "--leader-elect-namespace",
    "--http-address",
    "--secure-serving",
    "--tls-cert-file",
    "--tls-private-key-file",
    "--log-format",
    "--annotate-pods",
    "--placement",
    "--queue-status",
    "--evictions",
    "--admit-by",
    "--admission-timeout",
    "--release-after",
    "--volume-timeout",
    "--scheduled-events",
];

/// C9. The same cluster three times: the default values, every value changed, and a certificate with another name.
pub(super) async fn as_rendered(w: &mut World) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    let mut seen = Vec::new();
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "8"), ("memory", "32Gi")]).await?;
    }
    chart::install(cluster, &[]).await?;
    chart::settle(cluster, true).await?;
    with_defaults(cluster, &mut seen).await?;
    chart::upgrade(cluster, &all_values_changed()?.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    chart::settle(cluster, false).await?;
    with_all_values_changed(cluster, &mut seen).await?;
    with_a_certificate(cluster, &mut seen).await?;

    let missing: Vec<_> = FLAGS.iter().filter(|flag| !seen.iter().any(|each| each == *flag)).collect();
    ensure!(missing.is_empty(), "these flags were never rendered: {missing:?}");
    let known = |flag: &str| FLAGS.contains(&flag) || EXTRA.iter().any(|extra| extra.starts_with(&format!("{flag}=")));
    let added: Vec<_> = seen.iter().filter(|flag| !known(flag)).collect();
    ensure!(added.is_empty(), "the chart renders flags that this case does not know: {added:?}");
    let accounts = ["podgroup-controller", "podgroup-scheduler", "gangs-controller", "gangs-scheduler"].map(chart::user);
    let refused = requests::read(&cluster.audit_log(), &accounts)?.refused;
    ensure!(refused.is_empty(), "the chart gave too few rights: {refused:?}");
    Ok(())
}

/// Starts both programs of a release, the controller first, and waits until they are ready.
pub(super) async fn both(cluster: &Cluster, release: &str, label: &str) -> Result<[Rendered; 2]> {
    both_from(cluster, &programs::folder()?, release, label).await
}

/// Starts both programs from another folder.
pub(super) async fn both_from(cluster: &Cluster, folder: &Path, release: &str, label: &str) -> Result<[Rendered; 2]> {
    let start = |program: &str| (format!("{release}-{program}"), format!("{label}-{program}"));
    let ((controller, its_label), (scheduler, label)) = (start("controller"), start("scheduler"));
    let mut controller = Rendered::start_from(cluster, folder, &controller, &its_label).await?;
    let mut scheduler = Rendered::start_from(cluster, folder, &scheduler, &label).await?;
    controller.wait_ready().await?;
    scheduler.wait_ready().await?;
    Ok([controller, scheduler])
}

/// The defaults: both lead with Leases as named in the roles, metrics need no token, the log is JSON, and gangs are spread over the nodes.
async fn with_defaults(cluster: &Cluster, seen: &mut Vec<String>) -> Result<()> {
    let client = cluster.client();
    let programs = both(cluster, "podgroup", "plain").await?;
    seen.extend(programs.iter().flat_map(|program| program.flags.clone()));
    both_lead(&client, "plain").await?;
    // A holder creates its deleted Lease again, which the roles of the chart allow.
    for program in [chart::CONTROLLER, chart::SCHEDULER] {
        leases(&client).delete(program, &DeleteParams::default()).await?;
    }
    both_lead(&client, "plain").await?;
    for program in &programs {
        let (status, body) = program.scraped(cluster, None).await?;
        ensure!(status == 200 && body.contains("podgroup_build_info"), "the metrics are {status}: {body}");
        let log = program.log()?;
        // The last line may still be incomplete.
        let whole = log.rsplit_once('\n').context("it has logged nothing")?.0;
        let odd = whole.lines().find(|line| serde_json::from_str::<Value>(line).is_err());
        ensure!(odd.is_none(), "this line of the log is not JSON: {odd:?}");
        ensure!(log.contains("podgroup::runtime::setup"), "the log misses an info line:\n{log}");
    }
    Workload::new("spread").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "spread", 2, 10).await?;
    let nodes = nodes_of(&client, "spread").await?;
    ensure!(nodes == ["n1", "n2"], "a gang of two is on {nodes:?}");
    helm_test(cluster).await?;
    end(programs).await?;
    // The Leases are released, so that the next programs need not wait.
    for name in [chart::CONTROLLER, chart::SCHEDULER] {
        let holder = leases(&client).get(name).await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(holder.is_empty(), "{holder} still holds {name}");
        leases(&client).delete(name, &DeleteParams::default()).await?;
    }
    delete(&client, "spread").await
}

/// `helm test` succeeds once its pod has run to its end, also where a ResourceQuota demands limits. No kubelet is here, so the case ends it.
async fn helm_test(cluster: &Cluster) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), chart::NAMESPACE);
    let quotas: Api<ResourceQuota> = Api::namespaced(cluster.client(), chart::NAMESPACE);
    let hard = json!({"requests.cpu": "10", "requests.memory": "10Gi", "limits.cpu": "10", "limits.memory": "10Gi"});
    let quota = serde_json::from_value(json!({"metadata": {"name": "limits"}, "spec": {"hard": hard}}))?;
    quotas.create(&PostParams::default(), &quota).await?;
    wait_until(secs(20), "the quota is counted", || async {
        let counted = quotas.get("limits").await?.status.is_some_and(|status| status.used.is_some());
        Ok(Seen::when(counted, || "no status".to_owned()))
    })
    .await?;
    let runs_to_its_end = async {
        wait_until(secs(60), "the pod of helm test runs", || async {
            let phase = pods.get_opt("podgroup-test").await?.and_then(|pod| pod.status?.phase);
            Ok(Seen::when(phase.as_deref() == Some("Running"), || format!("{phase:?}")))
        })
        .await?;
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        pods.patch_status("podgroup-test", &PatchParams::default(), &ended).await?;
        Ok(())
    };
    let helm = cluster.run("helm", &["test", "podgroup", "--namespace", chart::NAMESPACE, "--timeout", "60s"]);
    let (said, ()) = tokio::try_join!(helm, runs_to_its_end)?;
    ensure!(said.contains("Succeeded"), "helm test says {said}");
    quotas.delete("limits", &DeleteParams::default()).await?;
    Ok(())
}

/// Extra arguments for both programs, besides the values.
const EXTRA: [&str; 2] = ["--workers=3", "--bind-concurrency=3"];

/// Changes every value that has another choice.
fn all_values_changed() -> Result<Vec<String>> {
    let mut values = [
        "schedulerNames={podgroup-scheduler,second}",
        "leaderElection.enabled=false",
        "logFormat=text",
        r"logFilter=warn\,podgroup::controller=info",
        "http.secure.enabled=true",
        "admissionPolicy.enabled=false",
        "controller.annotatePods=true",
        "scheduler.placement=pack",
        "scheduler.queueStatus=obey",
        "scheduler.evictions=false",
        "scheduler.admitBy=nodes",
        "scheduler.admissionTimeout=1m",
        "scheduler.releaseAfter=1m30s",
        "scheduler.volumeTimeout=1m30s",
        "scheduler.scheduledEvents=true",
    ]
    .map(str::to_owned)
    .to_vec();
    let [workers, binds] = EXTRA;
    values.push(format!("controller.extraArgs={{{workers}}}"));
    values.push(format!("scheduler.extraArgs={{{binds}}}"));
    match TcpListener::bind("[::1]:0") {
        Ok(_) => values.push("http.bindAddress=[::]".to_owned()),
        Err(error) => say::line(format!("        C9: this machine has no IPv6 ({error}), so http.bindAddress is not changed")),
    }
    Ok(values)
}

/// Without an election no program touches a Lease. With TLS, health is open and the rest needs the chart's roles. The controller annotates
/// pods without the policy, a second scheduler name is served, and gangs are packed.
async fn with_all_values_changed(cluster: &Cluster, seen: &mut Vec<String>) -> Result<()> {
    let client = cluster.client();
    let programs = both(cluster, "podgroup", "otherwise").await?;
    seen.extend(programs.iter().flat_map(|program| program.flags.clone()));
    Workload::new("packed").replicas(2).gang("2").scheduler("second").make(&client).await?;
    let group = wait_one_group(&client, "packed", 10).await?.name_any();
    wait_running(&client, "packed", 2, 10).await?;
    let nodes = nodes_of(&client, "packed").await?;
    ensure!(matches!(nodes.as_slice(), [one, other] if one == other), "a gang of two is on {nodes:?}");
    wait_until(secs(10), "its pods name their group", || async {
        let pods = pods_of(&client, "packed").await?;
        let named = pods.iter().filter(|pod| pod.annotations().get("scheduling.k8s.io/group-name") == Some(&group)).count();
        Ok(Seen::when(named == 2, || format!("{named} of {} pods", pods.len())))
    })
    .await?;

    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(10), "each of its pods has an Event about its binding", || async {
        let found = events.list(&ListParams::default().fields("involvedObject.kind=Pod,reason=Scheduled")).await?.items;
        let told: Vec<_> = found.into_iter().filter_map(|event| event.message).collect();
        Ok(Seen::when(told.len() == 2 && told.iter().all(|text| text.starts_with("Successfully assigned")), || format!("{told:?}")))
    })
    .await?;

    let token = account(&client, "scraper").await?;
    bind(&client, "scraper", "podgroup-metrics-reader").await?;
    for program in &programs {
        let (status, _) = program.scraped(cluster, None).await?;
        ensure!(status == 401, "without a token the metrics are answered with {status}");
        scraped_with(cluster, program, &token).await?;
    }
    let [controller, scheduler] = &programs;
    // 503 while the API server has not answered the review.
    let status = wait_until(secs(20), "/debug/queues answers the metrics reader", || async {
        let (status, _) = scheduler.get("/debug/queues", Some(&token)).await?;
        Ok(if status == 503 { Seen::NotYet(status.to_string()) } else { Seen::Yes(status) })
    })
    .await?;
    ensure!(status == 403, "the metrics reader gets {status} from /debug/queues");
    bind(&client, "scraper", "podgroup-debug-reader").await?;
    wait_until(secs(40), "the authorized account sees /debug/queues", || async {
        let (status, body) = scheduler.get("/debug/queues", Some(&token)).await?;
        Ok(Seen::when(status == 200 && body.contains("default"), || format!("{status}: {body}")))
    })
    .await?;
    let log = controller.log()?;
    let filtered = log.contains(" INFO podgroup::controller") && !log.contains(" INFO podgroup::runtime");
    ensure!(filtered && !log.starts_with('{'), "the log is neither text nor what the filter leaves:\n{log}");

    end(programs).await?;
    let kept = Api::<Lease>::all(client.clone()).list(&ListParams::default()).await?;
    let ours: Vec<_> = kept.iter().filter(|lease| lease.name_any().starts_with("podgroup")).map(ResourceExt::name_any).collect();
    ensure!(ours.is_empty(), "without election there are {ours:?}");
    delete(&client, "packed").await
}

/// The certificate of a Secret is used. The objects of the release have another name; the Leases have the same.
async fn with_a_certificate(cluster: &Cluster, seen: &mut Vec<String>) -> Result<()> {
    let client = cluster.client();
    let mount = Mount::new(cluster.scratch().path("serving"))?;
    let certificate = mount.swap("one")?;
    let pem = |file: &str| std::fs::read_to_string(cluster.scratch().path("serving").join(file));
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "serving"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": pem("tls.crt")?, "tls.key": pem("tls.key")?},
    }))?;
    Api::<Secret>::namespaced(client.clone(), chart::NAMESPACE).create(&PostParams::default(), &secret).await?;
    chart::upgrade(cluster, &["fullnameOverride=gangs", "http.secure.enabled=true", "http.secure.certSecret=serving"]).await?;
    chart::settle(cluster, true).await?;
    let programs = both(cluster, "gangs", "certified").await?;
    seen.extend(programs.iter().flat_map(|program| program.flags.clone()));
    both_lead(&client, "certified").await?;
    let (checks, token) = (Https::trusting(&certificate)?, account(&client, "checker").await?);
    bind(&client, "checker", "gangs-metrics-reader").await?;
    for program in &programs {
        let (status, _) = checks.get(program.program.port(), "/readyz", None).await.context("the program uses another certificate")?;
        ensure!(status == 200, "/readyz says {status}");
        scraped_with(cluster, program, &token).await?;
    }
    Workload::new("last").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "last", 2, 10).await?;
    end(programs).await
}

/// Checks both Leases: in the namespace of the release, held by these pods, and no other Lease of ours anywhere.
pub(super) async fn both_lead(client: &Client, label: &str) -> Result<()> {
    // A case before has deleted the Leases: each program waits for 15 s.
    wait_until(secs(40), "both programs lead with the Leases of the chart's roles", || async {
        let mut held: Vec<_> = Api::<Lease>::all(client.clone())
            .list(&ListParams::default())
            .await?
            .into_iter()
            .filter_map(|lease| {
                let holder = lease.spec.as_ref()?.holder_identity.clone()?;
                let place = format!("{}/{}", lease.namespace()?, lease.name_any());
                holder.starts_with(label).then(|| format!("{place} {}", holder.split_once('_').map_or(holder.as_str(), |(pod, _)| pod)))
            })
            .collect();
        held.sort();
        let wanted = ["controller", "scheduler"].map(|each| format!("{}/podgroup-{each} {label}-{each}", chart::NAMESPACE));
        Ok(Seen::when(held == wanted, || format!("{held:?}")))
    })
    .await
}

/// Waits until the metrics can be read: the authorizer may not have seen the binding yet, and a refusal is cached for 10 s.
async fn scraped_with(cluster: &Cluster, program: &Rendered, token: &str) -> Result<()> {
    wait_until(secs(40), "the metrics reader sees the metrics", || async {
        let (status, body) = program.scraped(cluster, Some(token)).await?;
        Ok(Seen::when(status == 200 && body.contains("podgroup_build_info"), || format!("{status}: {body}")))
    })
    .await
}

async fn nodes_of(client: &Client, name: &str) -> Result<Vec<String>> {
    let mut nodes: Vec<_> = pods_of(client, name).await?.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    nodes.sort();
    Ok(nodes)
}

pub(super) async fn end(programs: [Rendered; 2]) -> Result<()> {
    for program in programs {
        program.end().await?;
    }
    Ok(())
}
