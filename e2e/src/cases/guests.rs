//! What if the CRDs in the cluster are Volcano's, older or newer than this release? Row C5: both programs work on them, the chart's notes name what the API server
//! drops, and nothing is written again and again because it is dropped.
//!
//! The CRDs are of our own making, with the fields that Volcano's have (`e2e/crds`).

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{condition, field, make_member, make_node, make_podgroup, make_queue_of, patch_queue, podgroups, queues};
use crate::rendered::Rendered;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, delete, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, kit};

/// CRDs of one age.
struct Guest {
    label: &'static str,
    /// All warnings of the notes, each by its beginning.
    warnings: &'static [&'static str],
    /// Fields by which one sees that the API server has this one: whether a PodGroup keeps it, and a Queue.
    sign: [(&'static str, bool); 2],
    /// Whether a PodGroup can say why it waits and how many run.
    says: bool,
    /// What the status of a queue with one gang of two cpus says, by pointer; null is nothing.
    queue: [(&'static str, Value); 3],
}

const COUNTS: &str = "/status/running";
const GROUPS_OLD: &str =
    "WARNING: the CRD of podgroups does not know spec.networkTopology, spec.subGroupPolicy, so the API server drops these fields";
const QUEUES_OLD: &str = "WARNING: the CRD of queues does not know spec.parent, spec.deserved, spec.guarantee, spec.priority, spec.dequeueStrategy, spec.affinity, status.allocated, status.completed, so the API server drops these fields";

/// C5.
pub(super) async fn crds_of_volcano(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    apply(w.cluster(), "volcano-older.yaml").await?;
    chart::install(w.cluster(), &["crds.enabled=false"]).await?;
    chart::settle(w.cluster(), true).await?;
    let open = || ("/status/state", json!("Open"));
    let older = Guest {
        label: "older",
        warnings: &[GROUPS_OLD, QUEUES_OLD],
        sign: [("/status/conditions", true), ("/spec/parent", false)],
        says: true,
        queue: [open(), (COUNTS, json!(1)), ("/status/allocated", Value::Null)],
    };
    stay(w, older).await?;

    oldest(w.cluster()).await?;
    let oldest = Guest {
        label: "oldest",
        warnings: &[
            "WARNING: the CRD of podgroups does not know spec.networkTopology, spec.subGroupPolicy, status.conditions, status.running, status.succeeded, status.failed, so",
            QUEUES_OLD,
            "WARNING: the CRD of queues has no status subresource, which Volcano's has",
        ],
        sign: [("/status/conditions", false), ("/status/state", true)],
        says: false,
        queue: [("/status/state", Value::Null), (COUNTS, Value::Null), ("/status/allocated", Value::Null)],
    };
    stay(w, oldest).await?;

    apply(w.cluster(), "volcano-newer.yaml").await?;
    let newer = Guest {
        label: "newer",
        warnings: &[],
        sign: [("/spec/preemptable", true), ("/spec/borrowing", true)],
        says: true,
        queue: [open(), (COUNTS, json!(2)), ("/status/allocated/cpu", json!("3"))],
    };
    stay(w, newer).await
}

/// Both programs come to these CRDs, serve a gang and a closed queue, come to rest, and go.
async fn stay(w: &World, guest: Guest) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    wait_served(cluster, &guest).await?;
    chart::upgrade(cluster, &["crds.enabled=false"]).await?;
    notes(cluster, &guest).await?;
    let newer = guest.label == "newer";
    let [team, shut, train, late] = ["team", "shut", "train", "late"].map(|name| format!("{name}-{}", guest.label));
    make_queue_of(&client, &team, json!({"weight": 1})).await?;
    make_queue_of(&client, &shut, json!({"weight": 1})).await?;
    patch_queue(&client, &shut, json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-desired-state": "Closed"}}})).await?;
    if newer {
        of_tomorrow(cluster, &team).await?;
    }
    let before = writes(w)?;
    let mut controller = Rendered::start(cluster, chart::CONTROLLER, &format!("controller-{}", guest.label)).await?;
    let mut scheduler = Rendered::start(cluster, chart::SCHEDULER, &format!("scheduler-{}", guest.label)).await?;
    controller.wait_ready().await?;
    scheduler.wait_ready().await?;
    Workload::new(&train).replicas(2).gang("2").queue(&team).make(&client).await?;
    Workload::new(&late).replicas(2).gang("2").queue(&shut).make(&client).await?;
    wait_running(&client, &train, 2, 20).await.context(guest.label)?;
    let train_group = wait_one_group(&client, &train, 5).await?.name_any();
    let late_group = wait_one_group(&client, &late, 20).await?.name_any();
    wait_until(secs(20), &format!("{}: the status of what it knows is written", guest.label), || async {
        let (group, waits) = (podgroups(&client).get(&train_group).await?, podgroups(&client).get(&late_group).await?);
        let (in_team, in_shut) = (queues(&client).get(&team).await?, queues(&client).get(&shut).await?);
        let why = condition(&waits, "Unschedulable").map(|(_, _, message)| message).unwrap_or_default();
        let told = !guest.says || (field(&group, COUNTS) == 2 && why.contains(&format!("queue \"{shut}\" is closed")));
        let phases = field(&group, "/status/phase") == "Running" && field(&waits, "/status/phase") == "Pending";
        let open = guest.queue.iter().all(|(pointer, value)| field(&in_team, pointer) == *value);
        let closed = guest.queue.first().is_none_or(|(_, open)| open.is_null() || field(&in_shut, "/status/state") == "Closed");
        let seen = || [&group, &waits, &in_team, &in_shut].map(|object| field(object, "/status").to_string()).join("\n");
        Ok(Seen::when(told && phases && open && closed, seen))
    })
    .await?;
    if newer {
        of_tomorrow_is_kept(cluster, &team).await?;
    }

    // Once all is said nothing more is written; what is dropped costs one try more where its object changes, and no more than that.
    let all = at_rest(w).await?.saturating_sub(before);
    ensure!(all <= 40, "{}: {all} writes for two gangs and their queues", guest.label);
    let before = writes(w)?;
    let touch = json!({"metadata": {"annotations": {"e2e/touched": guest.label}}});
    patch_queue(&client, &team, touch.clone()).await?;
    patch_queue(&client, &shut, touch.clone()).await?;
    for group in [&train_group, &late_group] {
        podgroups(&client).patch(group, &PatchParams::default(), &Patch::Merge(&touch)).await?;
    }
    let more = at_rest(w).await?.saturating_sub(before);
    ensure!(more <= 8, "{}: four objects were touched, and {more} writes came of it", guest.label);

    for name in [&train, &late] {
        delete(&client, name).await?;
    }
    wait_running(&client, &train, 0, 20).await?;
    controller.end().await?;
    scheduler.end().await
}

/// Writes of both programs to PodGroups and Queues so far, refused ones too.
fn writes(w: &World) -> Result<u64> {
    let of_ours = |what: &str| what.contains(" patch podgroups") || what.contains(" patch queues") || what.contains(" create podgroups");
    Ok(w.requests()?.counts.iter().filter(|(what, _)| of_ours(what)).map(|(_, count)| count).sum())
}

/// Waits until nobody has written for longer than two writes of the same object are apart; how many writes there are then.
async fn at_rest(w: &World) -> Result<u64> {
    wait_until(secs(30), "both programs come to rest", || async {
        let count = writes(w)?;
        match holds_for(secs(4), "nobody writes", || async { Ok(Seen::when(writes(w)? == count, String::new)) }).await {
            Ok(()) => Ok(Seen::Yes(count)),
            Err(_) => Ok(Seen::NotYet(format!("{count} writes, and more"))),
        }
    })
    .await
}

async fn apply(cluster: &Cluster, file: &str) -> Result<()> {
    let file = kit::crate_folder().join("crds").join(file);
    cluster.run("kubectl", &["apply", "--server-side", "--force-conflicts", "-f", file.to_str().context("the clone's path")?]).await?;
    cluster.run("kubectl", &["wait", "--for=condition=Established", "--all", "crd", "--timeout=20s"]).await?;
    Ok(())
}

/// Takes more away from the older ones than any that Volcano shipped lacks: what a PodGroup says but for its phase, and the status subresource of Queues.
async fn oldest(cluster: &Cluster) -> Result<()> {
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let fields = ["conditions", "running", "succeeded", "failed"];
    let groups: Vec<Value> = fields.iter().map(|name| json!({"op": "remove", "path": format!("{status}/{name}")})).collect();
    let queues = json!([{"op": "remove", "path": "/spec/versions/0/subresources"}]);
    for (name, patch) in [("podgroups", Value::from(groups)), ("queues", queues)] {
        let name = format!("{name}.scheduling.volcano.sh");
        cluster.run("kubectl", &["patch", "crd", &name, "--type=json", "--patch", &patch.to_string()]).await?;
    }
    Ok(())
}

/// The API server takes up a changed CRD a moment later.
async fn wait_served(cluster: &Cluster, guest: &Guest) -> Result<()> {
    let client = cluster.client();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let status = json!({"phase": "Pending", "conditions": [{"type": "Unschedulable", "status": "True"}]});
    let group = object("PodGroup", json!({"preemptable": true}), status)?;
    let queue = object("Queue", json!({"parent": "root", "borrowing": {"limit": "1"}}), json!({"state": "Open", "allocated": {}}))?;
    wait_until(secs(20), &format!("the {} CRDs are served", guest.label), || async {
        let group = podgroups(&client).create(&dry_run, &group).await?;
        let queue = queues(&client).create(&dry_run, &queue).await?;
        let [(of_group, group_has), (of_queue, queue_has)] = guest.sign;
        let same = field(&group, of_group).is_null() != group_has && field(&queue, of_queue).is_null() != queue_has;
        Ok(Seen::when(same, || format!("{:?} {:?}", group.data, queue.data)))
    })
    .await
}

fn object(kind: &str, spec: Value, status: Value) -> Result<DynamicObject> {
    let object = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": {"name": "sign"}, "spec": spec, "status": status,
    });
    Ok(serde_json::from_value(object)?)
}

/// The notes name each field that is dropped and nothing else, and promise no column that is not there.
async fn notes(cluster: &Cluster, guest: &Guest) -> Result<()> {
    let notes = cluster.run("helm", &["get", "notes", "podgroup", "--namespace", chart::NAMESPACE]).await?;
    let warnings: Vec<&str> = notes.lines().filter(|line| line.starts_with("WARNING")).collect();
    let same =
        warnings.len() == guest.warnings.len() && warnings.iter().zip(guest.warnings).all(|(found, wanted)| found.starts_with(wanted));
    ensure!(same, "{}: wanted {:#?}, found {warnings:#?}", guest.label, guest.warnings);
    ensure!(notes.contains("without the columns WHY and OWNER"), "{}: {notes}", guest.label);
    Ok(())
}

/// What another program of tomorrow left: fields and words that we do not know.
async fn of_tomorrow(cluster: &Cluster, queue: &str) -> Result<()> {
    let client = cluster.client();
    patch_queue(&client, queue, json!({"spec": {"dequeueStrategy": "fair", "borrowing": {"limit": "4", "from": ["shut"]}}})).await?;
    let status = json!({"status": {"state": "Draining", "allocated": {"cpu": "7"}, "borrowed": {"cpu": "1"}}});
    queues(&client).patch_status(queue, &PatchParams::default(), &Patch::Merge(status)).await?;
    make_podgroup(&client, "tomorrow", json!({"minMember": 1, "queue": queue, "preemptable": true, "minSubGroup": 1})).await?;
    let status = json!({"status": {"phase": "Preempting", "evicted": 3}});
    podgroups(&client).patch("tomorrow", &PatchParams::default(), &Patch::Merge(status)).await?;
    make_podgroup(&client, "nameless", json!({"minMember": 1, "queue": ""})).await?;
    make_member(&client, "nameless-0", "nameless", &[("cpu", "1")]).await?;
    make_member(&client, "tomorrow-0", "tomorrow", &[("cpu", "1")]).await
}

/// It is served, what we do not know stays, and where we read a word that we do not know somebody is told.
async fn of_tomorrow_is_kept(cluster: &Cluster, queue: &str) -> Result<()> {
    let client = cluster.client();
    wait_running(&client, "nameless", 1, 20).await?;
    wait_running(&client, "tomorrow", 1, 20).await?;
    wait_until(secs(20), "the group of tomorrow runs, and keeps what we do not know", || async {
        let (group, team) = (podgroups(&client).get("tomorrow").await?, queues(&client).get(queue).await?);
        let kept = field(&group, "/status/phase") == "Running"
            && field(&group, "/status/evicted") == 3
            && field(&group, "/spec/preemptable") == true
            && field(&team, "/status/borrowed/cpu") == "1"
            && field(&team, "/spec/dequeueStrategy") == "fair"
            && field(&team, "/spec/borrowing/from/0") == "shut";
        Ok(Seen::when(kept, || format!("{:?} {:?}", group.data, team.data)))
    })
    .await?;
    let events: Api<Event> = Api::namespaced(client, "default");
    wait_until(secs(20), "the queue is told of the word that we do not know", || async {
        let told = events.list(&ListParams::default().fields(&format!("involvedObject.name={queue},reason=InvalidQueue"))).await?.items;
        let found = told.iter().any(|event| event.message.as_deref().is_some_and(|text| text.contains("spec.dequeueStrategy")));
        Ok(Seen::when(found, || format!("{} Events", told.len())))
    })
    .await
}
