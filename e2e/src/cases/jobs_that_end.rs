//! G6: pods of Jobs succeed, fail and are retried at random. Nothing holds quota that has no pod to start, and every Job ends.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::old_views::cordon;
use crate::http;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_node, make_queue};
use crate::proxy::SeededRandom;
use crate::say;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{MIN_MEMBER, pod_status};
use crate::world::World;

/// Each Job has one of these queues, and no queue has two Jobs that are not over.
const QUEUES: [&str; 4] = ["jobs-0", "jobs-1", "jobs-2", "jobs-3"];
/// So long a reservation may outlast the last pod of its queue: the watch of the test is behind, and the end of a pod is seen by several.
const MAY_LAST: u64 = 10;

/// For `time` seconds Jobs come, and their pods end well or not, are deleted, and wait for nodes.
pub(super) async fn jobs_come_and_end(w: &mut World, time: u64) -> Result<()> {
    let (client, port, mut random) = (w.client(), w.scheduler()?.port(), SeededRandom(w.seed));
    for (name, cpu) in [("n1", "6"), ("n2", "3")] {
        make_node(&client, name, &[("cpu", cpu), ("memory", "64Gi")]).await?;
    }
    for queue in QUEUES {
        make_queue(&client, queue, None, &[("cpu", "4")]).await?;
    }
    let (began, mut empty, mut made, mut done) = (Instant::now(), BTreeMap::new(), 0_u32, BTreeMap::<&str, u32>::new());
    while began.elapsed() < secs(time) {
        let what = act(&client, &mut random, &mut made).await?;
        *done.entry(what).or_default() += 1;
        nothing_is_held_for_nobody(&client, port, &mut empty).await?;
        sleep(millis(200 + random.draw_number() % 800)).await;
    }
    say::line(format!("{made} Jobs in {time} s, seed {}: {done:?}", w.seed));
    ensure!(made > 0, "no Job came");
    cordon(&client, "n2", false).await?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    // What runs ends now, so that only what never gets its nodes is left over.
    wait_until(secs(180), "every Job is over", || async {
        for pod in running(&client, None).await? {
            let _gone = pod_status::end_one(&client, &pod, "Succeeded").await;
        }
        let left: Vec<String> =
            jobs.list(&ListParams::default()).await?.iter().filter(|job| !is_over(job)).map(ResourceExt::name_any).collect();
        Ok(Seen::when(left.is_empty(), || format!("{left:?} are not")))
    })
    .await
}

/// Does one thing at random, and returns what it was. What it is about may be gone by then.
async fn act(client: &Client, random: &mut SeededRandom, made: &mut u32) -> Result<&'static str> {
    let (jobs, pods): (Api<Job>, Api<Pod>) = (Api::namespaced(client.clone(), NAMESPACE), Api::namespaced(client.clone(), NAMESPACE));
    let queue = QUEUES.get(usize::try_from(random.draw_number() % 4)?).context("a queue")?;
    let live: Vec<Job> = jobs.list(&ListParams::default()).await?.items.into_iter().filter(|job| !is_over(job)).collect();
    let of_queue = live.iter().find(|job| job.labels().get("queue").is_some_and(|of| of == queue));
    Ok(match (random.draw_number() % 10, of_queue) {
        (_, None) => {
            *made += 1;
            jobs.create(&PostParams::default(), &job(&format!("job-{made}"), queue, random)?).await?;
            "made"
        }
        (0..=3, Some(job)) => {
            let phase = if !random.draw_number().is_multiple_of(3) { "Succeeded" } else { "Failed" };
            match running(client, Some(&job.name_any())).await?.first() {
                Some(pod) => pod_status::end_one(client, pod, phase).await.map_or("pod was gone", |()| phase),
                None => "nothing runs",
            }
        }
        (4 | 5, Some(job)) => {
            let its = pods.list(&ListParams::default().labels(&format!("app={}", job.name_any()))).await?;
            let now = DeleteParams::default().grace_period(0);
            match its.items.first() {
                Some(pod) => pods.delete(&pod.name_any(), &now).await.map_or("pod was gone", |_| "pod deleted"),
                None => "no pod",
            }
        }
        (6, Some(job)) => {
            let suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
            let other = Patch::Merge(json!({"spec": {"suspend": !suspended}}));
            jobs.patch(&job.name_any(), &PatchParams::default(), &other).await.map_or("was over", |_| "suspended or resumed")
        }
        (7, Some(job)) => jobs.delete(&job.name_any(), &DeleteParams::background()).await.map_or("was gone", |_| "deleted"),
        (roll, Some(_)) => {
            cordon(client, "n2", roll == 8).await?;
            "cordoned or not"
        }
    })
}

/// The pods that run, of one Job or of all.
async fn running(client: &Client, job: Option<&str>) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let of = job.map_or_else(ListParams::default, |job| ListParams::default().labels(&format!("app={job}")));
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    Ok(pods.list(&of).await?.items.into_iter().filter(|pod| runs(pod) && pod.metadata.deletion_timestamp.is_none()).collect())
}

fn job(name: &str, queue: &str, random: &mut SeededRandom) -> Result<Job> {
    let parallelism = 1 + random.draw_number() % 4;
    let minimum = 1 + random.draw_number() % parallelism;
    let template = json!({
        "metadata": {
            "labels": {"app": name},
            "annotations": {MIN_MEMBER: minimum.to_string(), "scheduling.volcano.sh/queue-name": queue},
        },
        "spec": {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container(&[("cpu", "1")])]},
    });
    let mut spec = json!({"parallelism": parallelism, "backoffLimit": random.draw_number() % 3, "template": template});
    if !random.draw_number().is_multiple_of(3) {
        let completions = json!(parallelism + random.draw_number() % 4);
        spec.as_object_mut().context("a spec")?.insert("completions".to_owned(), completions);
    }
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"queue": queue}}, "spec": spec}))?)
}

fn is_over(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    job.metadata.deletion_timestamp.is_some()
        || conditions.clone().any(|each| ["Complete", "Failed"].contains(&each.type_.as_str()) && each.status == "True")
        || job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// Fails where something is reserved in a queue of which no pod has waited or run for [`MAY_LAST`]. `empty` has since when each has none.
async fn nothing_is_held_for_nobody(client: &Client, port: u16, empty: &mut BTreeMap<String, Instant>) -> Result<()> {
    let all = http::json(port, "/debug/queues").await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?;
    let lives = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let busy: Vec<&String> =
        pods.iter().filter(lives).filter_map(|pod| pod.annotations().get("scheduling.volcano.sh/queue-name")).collect();
    for queue in all.get("queues").and_then(Value::as_array).context("no queues")? {
        let name = queue.get("name").and_then(Value::as_str).unwrap_or_default();
        let reserved = queue.get("reserved").and_then(Value::as_object).is_some_and(|amounts| !amounts.is_empty());
        if !QUEUES.contains(&name) || busy.iter().any(|of| *of == name) || !reserved {
            empty.remove(name);
            continue;
        }
        let since = *empty.entry(name.to_owned()).or_insert_with(Instant::now);
        ensure!(since.elapsed() < secs(MAY_LAST), "{queue} is reserved, and no pod of the queue waits or runs");
    }
    Ok(())
}
