//! Rows O3: the PodGroup of a Job. It exists as long as the Job has work, and its minMember is what this work still needs.

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::cases::ledger::stays_unbound;
use crate::cases::lifecycle::wait_unschedulable;
use crate::cases::operators::wait_whole;
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::kit;
use crate::objects::{field, make_node, make_queue};
use crate::operator::path;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::kubelet;
use crate::workloads::owner::{Kind, Owner, delete_as, group_name, patch, stays_without_group, wait_min_member, wait_no_group};
use crate::world::World;

/// Also L10 (#4195). A gang of 3 and capacity for 2: no pod is bound. With more capacity the Job completes. Its PodGroup is deleted and uses nothing: a second
/// Job that needs the whole queue completes, too. When the Jobs are gone (one by its TTL), nothing is left.
pub(in crate::cases) async fn completes(w: &mut World) -> Result<()> {
    let client = w.client();
    make_queue(&client, "team", None, &[("cpu", "3")]).await?;
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    let first = Owner::job("first", 3).gang("3").queue("team").make(&client).await?;
    wait_min_member(&client, &first, 3, 10).await?;
    wait_unschedulable(&client, &group_name(&first)).await?;
    stays_unbound(w, "first", 2).await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_condition(&client, "first", "Complete").await?;
    wait_no_group(&client, &first, 10).await?;
    let second = Owner::job("second", 3).gang("3").queue("team").with("/spec", "ttlSecondsAfterFinished", json!(2)).make(&client).await?;
    wait_until(secs(30), "the second Job is deleted after its TTL", || async {
        let found = Kind::Job.api(&client).get_opt("second").await?;
        Ok(Seen::when(found.is_none(), || format!("{:?}", found.map(|job| field(&job, "/status")))))
    })
    .await?;
    wait_no_group(&client, &second, 10).await?;
    delete_as(&client, Kind::Job, "first", PropagationPolicy::Background).await?;
    wait_no_group(&client, &first, 10).await
}

/// The manifest of docs/training.md. Its four workers wait where there is room for three, and say why. With room for four they run together, and the Job completes.
/// Nothing is left when it is deleted.
pub(in crate::cases) async fn of_the_page(w: &mut World) -> Result<()> {
    const FILE: &str = "docs/training/job.yaml";
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "3"), ("memory", "64Gi")]).await?;
    let page = std::fs::read_to_string(kit::repository().join("docs/training.md"))?;
    ensure!(page.contains(&format!("`{FILE}` is an Indexed Job with 4 workers")), "docs/training.md does not name {FILE}");
    let file = kit::repository().join(FILE);
    let file = path(&file)?;
    w.cluster().run("kubectl", &["apply", "--filename", file]).await?;
    let job = Kind::Job.api(&client).get("train").await?;
    wait_min_member(&client, &job, 4, 10).await?;
    wait_whole(&client, "job-name=train", 4).await?;
    group_says(&client, &group_name(&job), "3 of 4 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "1"), ("memory", "64Gi")]).await?;
    wait_condition(&client, "train", "Complete").await?;
    wait_no_group(&client, &job, 10).await?;
    w.cluster().run("kubectl", &["delete", "--filename", file]).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await
}

/// Also L11. A running Job is suspended: its pods and its PodGroup are deleted, and another Job that needs the whole queue runs. The Job is resumed:
/// its PodGroup is back, and its pods run after the other Job. A Job that is suspended from the start has no PodGroup until it is resumed.
pub(in crate::cases) async fn suspended(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "2")]).await?;
    let long = |name: &str| Owner::job(name, 2).gang("2").queue("team").played_by_the_case();
    let first = long("first").make(&client).await?;
    kubelet::run(&client, "first", 2, 20).await?;
    wait_min_member(&client, &first, 2, 10).await?;
    patch(&client, Kind::Job, "first", json!({"spec": {"suspend": true}})).await?;
    wait_no_group(&client, &first, 10).await?;

    let second = long("second").with("/spec", "suspend", json!(true)).make(&client).await?;
    stays_without_group(&client, &second, 2).await?;
    patch(&client, Kind::Job, "second", json!({"spec": {"suspend": false}})).await?;
    kubelet::run(&client, "second", 2, 20).await?;
    wait_min_member(&client, &second, 2, 10).await?;

    patch(&client, Kind::Job, "first", json!({"spec": {"suspend": false}})).await?;
    wait_min_member(&client, &first, 2, 10).await?;
    stays_unbound(w, "first", 2).await?;
    kubelet::end(&client, "second", 2, "Succeeded").await?;
    wait_condition(&client, "second", "Complete").await?;
    kubelet::run(&client, "first", 2, 20).await?;
    kubelet::end(&client, "first", 2, "Succeeded").await?;
    wait_condition(&client, "first", "Complete").await
}

/// minMember follows what a Job still needs: a changed parallelism, and the number of remaining completions when that is smaller. Then the same for
/// an indexed Job with one index that fails for good.
pub(in crate::cases) async fn follows_remaining_work(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let job = Owner::job("work", 3).gang("3").with("/spec", "completions", json!(6)).played_by_the_case().make(&client).await?;
    kubelet::run(&client, "work", 3, 20).await?;
    wait_min_member(&client, &job, 3, 10).await?;
    patch(&client, Kind::Job, "work", json!({"spec": {"parallelism": 0}})).await?;
    wait_no_group(&client, &job, 10).await?;
    patch(&client, Kind::Job, "work", json!({"spec": {"parallelism": 3}})).await?;
    kubelet::run(&client, "work", 3, 20).await?;
    wait_min_member(&client, &job, 3, 10).await?;
    patch(&client, Kind::Job, "work", json!({"spec": {"parallelism": 2}})).await?;
    wait_min_member(&client, &job, 2, 10).await?;
    patch(&client, Kind::Job, "work", json!({"spec": {"parallelism": 4}})).await?;
    wait_min_member(&client, &job, 3, 10).await?;
    kubelet::run(&client, "work", 4, 20).await?;
    kubelet::end(&client, "work", 4, "Succeeded").await?;
    // Two completions remain.
    wait_min_member(&client, &job, 2, 10).await?;
    kubelet::run(&client, "work", 2, 20).await?;
    kubelet::end(&client, "work", 1, "Succeeded").await?;
    wait_min_member(&client, &job, 1, 10).await?;
    kubelet::end(&client, "work", 1, "Succeeded").await?;
    wait_condition(&client, "work", "Complete").await?;
    wait_no_group(&client, &job, 10).await?;

    let job = Owner::job("indexed", 3)
        .gang("3")
        .with("/spec", "completionMode", json!("Indexed"))
        .with("/spec", "backoffLimit", json!(10))
        .with("/spec", "backoffLimitPerIndex", json!(0))
        .played_by_the_case()
        .make(&client)
        .await?;
    kubelet::run(&client, "indexed", 3, 20).await?;
    wait_min_member(&client, &job, 3, 10).await?;
    kubelet::end(&client, "indexed", 1, "Failed").await?;
    wait_min_member(&client, &job, 2, 10).await?;
    kubelet::end(&client, "indexed", 2, "Succeeded").await?;
    wait_condition(&client, "indexed", "Failed").await?;
    wait_no_group(&client, &job, 10).await
}

pub(super) async fn wait_condition(client: &Client, name: &str, kind: &str) -> Result<()> {
    let job = wait_until(secs(30), &format!("Job {name} is {kind}"), || async {
        let job = Kind::Job.api(client).get(name).await?;
        let holds = crate::objects::condition(&job, kind).is_some_and(|(status, _, _)| status == "True");
        let seen = field(&job, "/status").to_string();
        Ok(if holds { Seen::Yes(job) } else { Seen::NotYet(seen) })
    })
    .await?;
    ensure!(job.metadata.deletion_timestamp.is_none(), "the Job has a deletion timestamp");
    Ok(())
}
