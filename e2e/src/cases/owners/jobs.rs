//! Row O3-job-page: the Job of docs/training.md.

use anyhow::{Result, ensure};
use kube::Client;

use crate::cases::operators::wait_whole;
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::kit;
use crate::objects::{field, make_node};
use crate::operator::path;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, group_name, wait_min_member, wait_no_group};
use crate::world::World;

/// The manifest of docs/training.md. Its four workers wait where there is room for three, and say why. With room for four they run
/// together, and the Job completes. Nothing is left when it is deleted.
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

async fn wait_condition(client: &Client, name: &str, kind: &str) -> Result<()> {
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
