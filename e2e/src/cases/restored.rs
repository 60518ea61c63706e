//! Rows R1, R1-kept, R2, R2-busy and R2-passed: etcd is restored from a backup while both programs run. They work again, and delete nothing
//! that the backup has.
//!
//! One observer judges what happens before the restore, and another one what happens after it. None can judge both: an observer orders what
//! it sees by resourceVersion, and a restore brings versions back that it knows with other contents. The second one begins when the API
//! server answers again, and before there is room to bind pods in.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::lifecycle::wait_unschedulable;
use super::old_views::{cordon, decides, trouble};
use super::seen::bound;
use crate::faults::{Fault, HttpProxy, Rule, Verb};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, make_node, podgroups};
use crate::programs::{Program, Restarts};
use crate::wait::{Seen, secs, wait_until};
use crate::watched::Watched;
use crate::workloads::{Workload, groups_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig, say};

/// How many writes the backup does not have.
const LOST: u32 = 400;

/// What a program logs when it has noticed the restore.
const NOTICED: &str = "back to an earlier state (its etcd was restored from a backup)";

/// What happens right after the restore.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Nothing but what the case waits for. The cluster stays for a while below the versions that were seen before.
    Quiet,
    /// Other clients write more than the backup lacks. The versions that were seen before are passed before the programs are back, and no
    /// version shows the restore.
    Busy,
    /// They write as much a little later. The first lists are older than what was seen, and the next ones are not.
    BusyLater,
}

/// When they write: a list that is older is read again after 15 s at most, and accepted after 60 s.
const LATER: Duration = secs(15);

/// What `/readyz` of a program that goes on says until it works on the restored state.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    /// Nothing that must be seen: a program may be started again, or nothing shows the restore.
    Nothing,
    /// Both programs: that the cluster went back. It is over when the objects are listed again, so a list is late here.
    WentBack,
    /// The scheduler: that the lists are older than what was seen before.
    Older,
}

/// How late the lists of PodGroups are, of a program that must say that the cluster went back.
const LATE: Duration = secs(10);

/// R1. With the flags of the chart. A program that loses its lease while the control plane is away ends, and its kubelet starts it again. Most
/// often the renewal shows the restore, and all is bound within 3 s. Where it does not, and a bookmark had told a watch a version that the
/// backup does not have, older lists are accepted after 60 s, and read every 15 s (66 to 68 s in two of thirteen runs).
pub(super) async fn by_default(w: &mut World) -> Result<()> {
    restored(w, &[], secs(90), Then::Quiet, Says::Nothing).await
}

/// R1-kept. With a lease that outlives the time in which the control plane is away: the processes go on, and must notice the restore themselves.
pub(super) async fn with_election(w: &mut World) -> Result<()> {
    let flags = ["--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s"];
    restored(w, &flags, secs(60), Then::Quiet, Says::WentBack).await
}

/// R2. Without leader election: within three minutes.
pub(super) async fn without_election(w: &mut World) -> Result<()> {
    restored(w, &["--leader-elect=false"], secs(180), Then::Quiet, Says::Older).await
}

/// R2-busy. Without leader election, and nothing shows that the cluster went back.
pub(super) async fn unnoticed(w: &mut World) -> Result<()> {
    restored(w, &["--leader-elect=false"], secs(180), Then::Busy, Says::Nothing).await
}

/// R2-passed. Without leader election, and the cluster passes the versions that were seen before while lists are refused.
pub(super) async fn passed(w: &mut World) -> Result<()> {
    restored(w, &["--leader-elect=false"], secs(180), Then::BusyLater, Says::Older).await
}

async fn restored(w: &mut World, flags: &[&str], within: Duration, then: Then, says: Says) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    chart::install(cluster, &[]).await?;
    let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let (mut programs, mut proxies) = (Vec::new(), Vec::new());
    let watched = Watched::start(cluster, &[SCHEDULER_NAME]).await?;
    for name in [chart::CONTROLLER, chart::SCHEDULER] {
        let config = if says == Says::WentBack {
            let proxy = HttpProxy::start(cluster.kubeconfig(), server, &cluster.scratch().path("logs"), name).await?;
            let config = chart::kubeconfig(cluster, name, proxy.port(), proxy.authority()).await?;
            proxies.push(proxy);
            config
        } else {
            chart::kubeconfig(cluster, name, server, &authority).await?
        };
        programs.push(Program::start(cluster.scratch(), name, &config, &flags)?);
    }
    for program in &mut programs {
        program.wait_ready().await?;
    }
    // Only where a lease may be lost.
    let _restarts = flags.is_empty().then(|| Restarts::of_two(programs.iter_mut(), w.patience()));
    chart::settle(cluster, true).await?;
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("kept").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "kept", 2, 10).await?;
    let before = everything(&client).await?;
    // The backup has this gang without nodes.
    make_node(&client, "n2", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    cordon(&client, "n2", true).await?;
    Workload::new("late").replicas(2).gang("2").on_node("n2").make(&client).await?;
    let late = wait_one_group(&client, "late", 10).await?.name_any();
    wait_unschedulable(&client, &late).await?;
    let backup = cluster.backup().await?;

    // What the backup does not have: the nodes of this gang, another gang, and the end of a third.
    cordon(&client, "n2", false).await?;
    wait_running(&client, "late", 2, 10).await?;
    Workload::new("lost").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "lost", 2, 10).await?;
    crate::workloads::scale(&client, "kept", 0).await?;
    wait_running(&client, "kept", 0, 10).await?;
    churn(&client, LOST).await?;
    judged(watched, "before the restore").await?;
    for proxy in &proxies {
        proxy.rule(Rule { verb: Some(Verb::List), resource: "podgroups", name: None, fault: Fault::DelayRequest(LATE), times: u32::MAX });
    }
    let [controller, scheduler] = [0, 1].map(|number| programs.get(number).map_or(0, Program::port));
    let restore = async {
        let away = Instant::now();
        cluster.restore(&backup).await?;
        say::line(format!("        the control plane was away for {:.1} s", away.elapsed().as_secs_f64()));
        anyhow::Ok(Instant::now())
    };
    // The programs may notice it before the restore counts as complete. What the lists show is older until other clients write.
    let said = async {
        match says {
            Says::Nothing => Ok(()),
            Says::WentBack => say_that_it_went_back(controller, scheduler).await,
            Says::Older => unready(scheduler, chart::SCHEDULER, "was seen before: this API server is behind").await,
        }
    };
    let (back, ()) = tokio::try_join!(restore, said)?;
    if then != Then::Quiet {
        if then == Then::BusyLater {
            sleep(LATER).await;
        }
        churn(&client, 2 * LOST).await?;
    }
    // Kubernetes' documents recommend it, because kube-controller-manager may rely on stale data.
    cluster.restart("kube-controller-manager").await?;
    let watched = Watched::start(cluster, &[SCHEDULER_NAME]).await?;
    cordon(&client, "n2", false).await?;
    Workload::new("after").replicas(2).gang("2").make(&client).await?;
    wait_one_group(&client, "after", within.as_secs()).await?;
    // Whether its pods run is a matter of kwok, which was killed and waits for its own leases of the nodes.
    wait_until(
        within.saturating_sub(back.elapsed()),
        "the new gang is bound, and the one that was bound after the backup is bound again",
        || async {
            let (after, late) = (bound(&client, "after").await?, bound(&client, "late").await?);
            Ok(Seen::when(after == 2 && late == 2, || format!("of 2 pods each are bound: after {after}, late {late}")))
        },
    )
    .await?;
    say::line(format!("        both gangs were bound {:.1} s after the restore", back.elapsed().as_secs_f64()));

    let now = everything(&client).await?;
    let gone: Vec<_> = before.iter().filter(|(what, uid)| now.get(*what) != Some(uid)).collect();
    ensure!(gone.is_empty(), "the backup had these, and they were deleted or made again: {gone:?}; now {now:?}");
    ensure!(groups_of(&client, "lost").await?.is_empty(), "a PodGroup exists for a Deployment that the backup does not have");
    judged(watched, "after the restore").await?;
    for program in &mut programs {
        let (again, log) = (program.started_again(), std::fs::read_to_string(program.log())?);
        say::line(format!("        {} lost its lease and was started again: {again}", program.name()));
        // A process that was started later has seen no other state.
        ensure!(then == Then::Busy || again > 0 || log.contains(NOTICED), "{} did not log: {NOTICED}", program.name());
        ready(program.port(), program.name(), within.saturating_sub(back.elapsed()).max(secs(10))).await?;
        ensure!(program.runs(), "{} ended", program.name());
        program.terminate().await?;
    }
    Ok(())
}

/// Ends an observer. Its findings fail the case.
async fn judged(watched: Watched, when: &str) -> Result<()> {
    let (findings, _) = watched.finish(true).await;
    ensure!(findings.is_empty(), "the observer, {when}: {}", findings.join("; "));
    Ok(())
}

/// Waits until both programs have said on `/readyz` that the cluster went back, and the scheduler on `/debug/view` that it decides nothing
/// for that reason.
async fn say_that_it_went_back(controller: u16, scheduler: u16) -> Result<()> {
    let view = wait_until(WAITS, "the scheduler decides nothing because the cluster went back", || async move {
        let view = http::json(scheduler, "/debug/view").await?;
        let said = !decides(&view) && trouble(&view).starts_with("the cluster went back to an earlier state");
        Ok(Seen::when(said, || view.to_string()))
    });
    let back = "podgroups: complete (the cluster went back to an earlier state";
    tokio::try_join!(unready(controller, chart::CONTROLLER, back), unready(scheduler, chart::SCHEDULER, back), view).map(drop)
}

/// The time for the end, the restore and the start of the control plane, and for what the programs say then.
const WAITS: Duration = secs(120);

/// Waits until `/readyz` of a program fails and says this.
async fn unready(port: u16, name: &str, text: &str) -> Result<()> {
    wait_until(WAITS, &format!("/readyz of {name} fails and says: {text}"), || async move {
        let (status, body) = http::get(port, "/readyz").await?;
        Ok(Seen::when(status == 503 && body.contains(text), || format!("/readyz returns {status}: {}", body.trim())))
    })
    .await
}

async fn ready(port: u16, name: &str, within: Duration) -> Result<()> {
    wait_until(within, &format!("{name} is ready"), || async move {
        let (status, body) = http::get(port, "/readyz").await?;
        Ok(Seen::when(status == 200, || format!("/readyz returns {status}: {}", body.trim())))
    })
    .await
}

/// Returns the UID of each PodGroup, and the UID and node of each pod.
async fn everything(client: &Client) -> Result<BTreeMap<String, String>> {
    let groups = podgroups(client).list(&ListParams::default()).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?;
    let of_pod = |pod: Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        (format!("pod {}", pod.name_any()), format!("{} on {node}", pod.uid().unwrap_or_default()))
    };
    let of_group = |group: kube::api::DynamicObject| (format!("PodGroup {}", group.name_any()), group.uid().unwrap_or_default());
    Ok(groups.items.into_iter().map(of_group).chain(pods.items.into_iter().map(of_pod)).collect())
}

/// Raises the revision of etcd by this many writes.
async fn churn(client: &Client, writes: u32) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "churn"}}))?;
    maps.create(&PostParams::default(), &object).await?;
    for number in 0..writes {
        maps.patch("churn", &PatchParams::default(), &Patch::Merge(json!({"data": {"n": number.to_string()}}))).await?;
    }
    Ok(())
}
