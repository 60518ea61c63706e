//! Row O4: the PodGroup of a CronJob's Job. It is like that of any Job, and its Events are on the CronJob, the object that users edit.

use anyhow::{Result, ensure};
use kube::api::PropagationPolicy;
use serde_json::json;

use super::jobs::wait_condition;
use crate::cases::lifecycle::wait_unschedulable;
use crate::objects::{field, make_node, make_queue};
use crate::workloads::events::{wait_warning, warnings};
use crate::workloads::owner::{Kind, Owner, delete_as, group_name, wait_min_member, wait_no_group};
use crate::workloads::{MIN_MEMBER, QUEUE};
use crate::world::World;

/// A CronJob's Job (created by hand, like `kubectl create job --from`) is a gang with the size in its template, and completes. A Job with an invalid size has
/// an Event on the CronJob only. The Jobs are deleted with the CronJob.
pub(in crate::cases) async fn of_a_cron_job(w: &mut World) -> Result<()> {
    let client = w.client();
    make_queue(&client, "nightly", None, &[("cpu", "4")]).await?;
    let annotations = |members: &str| json!({"annotations": {MIN_MEMBER: members, QUEUE: "nightly"}});
    for (name, members) in [("good", "2"), ("bad", "many")] {
        Owner::cron_job(name, 2)
            .with("/spec", "suspend", json!(true))
            .with("/spec/jobTemplate", "metadata", annotations(members))
            .make(&client)
            .await?;
        w.cluster().run("kubectl", &["create", "job", &format!("{name}-1"), &format!("--from=cronjob/{name}")]).await?;
    }
    let (good, bad) = (Kind::Job.api(&client).get("good-1").await?, Kind::Job.api(&client).get("bad-1").await?);
    // No node exists yet.
    let group = wait_min_member(&client, &good, 2, 10).await?;
    ensure!(field(&group, "/spec/queue") == "nightly", "the queue is {}", field(&group, "/spec/queue"));
    wait_min_member(&client, &bad, 1, 10).await?;
    wait_unschedulable(&client, &group_name(&good)).await?;
    wait_warning(&client, "CronJob", "bad", "InvalidPodGroupSource", "group-min-member").await?;
    let events = warnings(&client, "Job", "bad-1").await?;
    ensure!(events.is_empty(), "the Job has the Events {events:?}");

    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_condition(&client, "good-1", "Complete").await?;
    wait_condition(&client, "bad-1", "Complete").await?;
    for name in ["good", "bad"] {
        delete_as(&client, Kind::CronJob, name, PropagationPolicy::Background).await?;
    }
    wait_no_group(&client, &good, 10).await?;
    wait_no_group(&client, &bad, 10).await
}
