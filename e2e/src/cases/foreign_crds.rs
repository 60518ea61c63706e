//! Row C5: the CRDs in the cluster are Volcano's, older or newer than this release. Both programs work with them, the chart's notes name
//! the fields that the API server drops, and a dropped field does not cause repeated writes.
//!
//! The CRDs are our own, with the fields of Volcano's CRDs (`e2e/crds`).

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

/// One set of CRDs.
struct CrdSet {
    label: &'static str,
    /// All warnings of the notes, each by its first words.
    warnings: &'static [&'static str],
    /// Two fields that show whether the API server uses this set: whether a PodGroup keeps the first, and a Queue the second.
    sign: [(&'static str, bool); 2],
    /// Whether the status of a PodGroup can contain the reason for waiting and the number of running pods.
    says: bool,
    /// The status of a queue with one gang of two cpus, by JSON pointer; null means absent.
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
    let older = CrdSet {
        label: "older",
        warnings: &[GROUPS_OLD, QUEUES_OLD],
        sign: [("/status/conditions", true), ("/spec/parent", false)],
        says: true,
        queue: [open(), (COUNTS, json!(1)), ("/status/allocated", Value::Null)],
    };
    serve_with(w, older).await?;

    oldest(w.cluster()).await?;
    let oldest = CrdSet {
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
    serve_with(w, oldest).await?;

    apply(w.cluster(), "volcano-newer.yaml").await?;
    let newer = CrdSet {
        label: "newer",
        warnings: &[],
        sign: [("/spec/preemptable", true), ("/spec/borrowing", true)],
        says: true,
        queue: [open(), (COUNTS, json!(2)), ("/status/allocated/cpu", json!("3"))],
    };
    serve_with(w, newer).await
}

/// Both programs start with these CRDs, serve a gang and a closed queue, stop writing, and are stopped.
async fn serve_with(w: &World, set: CrdSet) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    wait_served(cluster, &set).await?;
    chart::upgrade(cluster, &["crds.enabled=false"]).await?;
    notes(cluster, &set).await?;
    let newer = set.label == "newer";
    let [team, shut, train, late] = ["team", "shut", "train", "late"].map(|name| format!("{name}-{}", set.label));
    make_queue_of(&client, &team, json!({"weight": 1})).await?;
    make_queue_of(&client, &shut, json!({"weight": 1})).await?;
    patch_queue(&client, &shut, json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-desired-state": "Closed"}}})).await?;
    if newer {
        with_unknown_fields(cluster, &team).await?;
    }
    let before = writes(w)?;
    let mut controller = Rendered::start(cluster, chart::CONTROLLER, &format!("controller-{}", set.label)).await?;
    let mut scheduler = Rendered::start(cluster, chart::SCHEDULER, &format!("scheduler-{}", set.label)).await?;
    controller.wait_ready().await?;
    scheduler.wait_ready().await?;
    Workload::new(&train).replicas(2).gang("2").queue(&team).make(&client).await?;
    Workload::new(&late).replicas(2).gang("2").queue(&shut).make(&client).await?;
    wait_running(&client, &train, 2, 10).await.context(set.label)?;
    let train_group = wait_one_group(&client, &train, 10).await?.name_any();
    let late_group = wait_one_group(&client, &late, 10).await?.name_any();
    wait_until(secs(10), &format!("{}: the known fields of the status are written", set.label), || async {
        let (group, waits) = (podgroups(&client).get(&train_group).await?, podgroups(&client).get(&late_group).await?);
        let (in_team, in_shut) = (queues(&client).get(&team).await?, queues(&client).get(&shut).await?);
        let why = condition(&waits, "Unschedulable").map(|(_, _, message)| message).unwrap_or_default();
        let told = !set.says || (field(&group, COUNTS) == 2 && why.contains(&format!("queue \"{shut}\" is closed")));
        let phases = field(&group, "/status/phase") == "Running" && field(&waits, "/status/phase") == "Pending";
        let open = set.queue.iter().all(|(pointer, value)| field(&in_team, pointer) == *value);
        let closed = set.queue.first().is_none_or(|(_, open)| open.is_null() || field(&in_shut, "/status/state") == "Closed");
        let seen = || [&group, &waits, &in_team, &in_shut].map(|object| field(object, "/status").to_string()).join("\n");
        Ok(Seen::when(told && phases && open && closed, seen))
    })
    .await?;
    if newer {
        unknown_fields_are_kept(cluster, &team).await?;
    }

    // When everything is written there are no more writes. A dropped field costs one more attempt when its object changes, and not more.
    let all = at_rest(w).await?.saturating_sub(before);
    ensure!(all <= 40, "{}: {all} writes for two gangs and their queues", set.label);
    let before = writes(w)?;
    let touch = json!({"metadata": {"annotations": {"e2e/touched": set.label}}});
    patch_queue(&client, &team, touch.clone()).await?;
    patch_queue(&client, &shut, touch.clone()).await?;
    for group in [&train_group, &late_group] {
        podgroups(&client).patch(group, &PatchParams::default(), &Patch::Merge(&touch)).await?;
    }
    let more = at_rest(w).await?.saturating_sub(before);
    ensure!(more <= 8, "{}: four changed objects caused {more} writes", set.label);

    for name in [&train, &late] {
        delete(&client, name).await?;
    }
    wait_running(&client, &train, 0, 10).await?;
    controller.end().await?;
    scheduler.end().await
}

/// Returns the number of writes of both programs to PodGroups and Queues so far, including refused ones.
fn writes(w: &World) -> Result<u64> {
    let of_ours = |what: &str| what.contains(" patch podgroups") || what.contains(" patch queues") || what.contains(" create podgroups");
    Ok(w.requests()?.counts.iter().filter(|(what, _)| of_ours(what)).map(|(_, count)| count).sum())
}

/// Waits until there has been no write for longer than the interval between two writes of one object; returns the number of writes.
async fn at_rest(w: &World) -> Result<u64> {
    wait_until(secs(30), "both programs stop writing", || async {
        let count = writes(w)?;
        match holds_for(secs(4), "no program writes", || async { Ok(Seen::when(writes(w)? == count, String::new)) }).await {
            Ok(()) => Ok(Seen::Yes(count)),
            Err(_) => Ok(Seen::NotYet(format!("{count} writes, and still more"))),
        }
    })
    .await
}

async fn apply(cluster: &Cluster, file: &str) -> Result<()> {
    let file = kit::crate_folder().join("crds").join(file);
    cluster
        .run("kubectl", &["apply", "--server-side", "--force-conflicts", "-f", file.to_str().context("the path of the repository")?])
        .await?;
    cluster.crds_established().await
}

/// Removes more from the older CRDs than any version of Volcano lacks: the status of PodGroups except the phase, and the status subresource
/// of Queues.
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

/// Waits until the API server serves the changed CRDs.
async fn wait_served(cluster: &Cluster, set: &CrdSet) -> Result<()> {
    let client = cluster.client();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let status = json!({"phase": "Pending", "conditions": [{"type": "Unschedulable", "status": "True"}]});
    let group = object("PodGroup", json!({"preemptable": true}), status)?;
    let queue = object("Queue", json!({"parent": "root", "borrowing": {"limit": "1"}}), json!({"state": "Open", "allocated": {}}))?;
    wait_until(secs(10), &format!("the {} CRDs are served", set.label), || async {
        let group = podgroups(&client).create(&dry_run, &group).await?;
        let queue = queues(&client).create(&dry_run, &queue).await?;
        let [(of_group, group_has), (of_queue, queue_has)] = set.sign;
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

/// The notes name each dropped field and nothing else, and promise no missing column.
async fn notes(cluster: &Cluster, set: &CrdSet) -> Result<()> {
    let notes = cluster.run("helm", &["get", "notes", "podgroup", "--namespace", chart::NAMESPACE]).await?;
    let warnings: Vec<&str> = notes.lines().filter(|line| line.starts_with("WARNING")).collect();
    let same = warnings.len() == set.warnings.len() && warnings.iter().zip(set.warnings).all(|(found, wanted)| found.starts_with(wanted));
    ensure!(same, "{}: wanted {:#?}, found {warnings:#?}", set.label, set.warnings);
    ensure!(notes.contains("without the columns WHY and OWNER"), "{}: {notes}", set.label);
    Ok(())
}

/// Creates objects with fields and values of a future version, which we do not know.
async fn with_unknown_fields(cluster: &Cluster, queue: &str) -> Result<()> {
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

/// The objects are served, unknown fields stay, and an unknown value of a known field is reported.
async fn unknown_fields_are_kept(cluster: &Cluster, queue: &str) -> Result<()> {
    let client = cluster.client();
    wait_running(&client, "nameless", 1, 10).await?;
    wait_running(&client, "tomorrow", 1, 10).await?;
    wait_until(secs(10), "the PodGroup with unknown fields runs and keeps them", || async {
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
    wait_until(secs(10), "an Event on the queue names the unknown value", || async {
        let told = events.list(&ListParams::default().fields(&format!("involvedObject.name={queue},reason=InvalidQueue"))).await?.items;
        let found = told.iter().any(|event| event.message.as_deref().is_some_and(|text| text.contains("spec.dequeueStrategy")));
        Ok(Seen::when(found, || format!("{} Events", told.len())))
    })
    .await
}
