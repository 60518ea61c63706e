//! Row U1: the output for users: columns, Events, one log line for a refused delete, and metrics.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::http;
use crate::objects::{NAMESPACE, make_node, podgroups};
use crate::proxy::Delay;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{MIN_MEMBER, Workload, annotate, groups_of, scale, wait_one_group, wait_running};
use crate::world::World;

/// U1. `kubectl get podgroups` has Volcano's columns. An error is an Event on the Deployment, once for each change. A delete that fails a
/// precondition is one log line with the expected and the found version. The controller's metrics count all of it.
pub(super) async fn what_a_user_sees(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("d").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "d", 2, 10).await?;
    let group = wait_one_group(&client, "d", 10).await?.name_any();
    columns(w, &group).await?;
    events_once(&client).await?;
    refused_delete(w, &client, &group).await
}

async fn columns(w: &World, group: &str) -> Result<()> {
    wait_until(secs(10), "kubectl get podgroups shows the PodGroup", || async {
        let table = w.cluster().run("kubectl", &["get", "podgroups", "-n", NAMESPACE, "-o", "wide"]).await?;
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let [header, row] = rows.as_slice() else { return Ok(Seen::NotYet(table)) };
        // Volcano's columns first; OWNER, OWNER-KIND and WHY are ours. WHY is empty, because the PodGroup does not wait.
        let shown = *header == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE", "OWNER", "OWNER-KIND", "WHY"];
        let right =
            matches!(row.as_slice(), [name, "Running", "2", "2", _age, "default", owner, "ReplicaSet"] if *name == group && owner.starts_with("d-"));
        Ok(Seen::when(shown && right, || table.clone()))
    })
    .await
}

/// Two mistakes one after the other cause two Events. The first mistake again, and other changes, cause no third one.
async fn events_once(client: &Client) -> Result<()> {
    for (value, expected) in [("nonsense", 1), ("-7", 2), ("nonsense", 2)] {
        annotate(client, "d", MIN_MEMBER, value).await?;
        annotate(client, "d", "volcano.sh/beside", value).await?;
        wait_until(secs(10), &format!("{expected} Events after group-min-member {value:?}"), || async {
            let found = complaints(client).await?;
            let copied = groups_of(client, "d")
                .await?
                .iter()
                .any(|group| group.annotations().get("volcano.sh/beside").is_some_and(|text| text == value));
            Ok(Seen::when(copied && found.len() == expected, || format!("{found:?}; the other annotation is copied: {copied}")))
        })
        .await?;
    }
    for event in complaints(client).await? {
        let about = &event.involved_object;
        ensure!(about.kind.as_deref() == Some("Deployment") && about.name.as_deref() == Some("d"), "the Event is about {about:?}");
        ensure!(event.count == Some(1) && event.reason.as_deref() == Some("InvalidPodGroupSource"), "{event:?}");
    }
    Ok(())
}

async fn complaints(client: &Client) -> Result<Vec<Event>> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let all = events.list(&ListParams::default()).await?.items;
    Ok(all
        .into_iter()
        .filter(|event| event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("podgroup-controller"))
        .collect())
}

/// Writes into the PodGroup while its delete is on a slow path: the resourceVersion in the precondition is old when the delete arrives. If
/// a delete was faster, everything is tried again.
async fn refused_delete(w: &mut World, client: &Client, group: &str) -> Result<()> {
    let api = podgroups(client);
    scale(client, "d", 0).await?;
    w.controller_path()?.delay(Delay::Fixed(millis(150)), Delay::None);
    let port = w.controller()?.port();
    let refused = "podgroup_controller_preconditions_refused_total{step=\"delete\"}";
    let mut missed = 0;
    for number in 0_u32.. {
        let there = write_into_a_marked_one(&api, group, number).await?;
        if metric(port, refused).await? > 0.0 {
            break;
        }
        ensure!(number < 150, "no delete was refused, and {missed} PodGroups were deleted");
        if !there {
            missed += 1;
            scale(client, "d", 1).await?;
            wait_running(client, "d", 1, 10).await?;
            wait_one_group(client, "d", 10).await?;
            scale(client, "d", 0).await?;
        }
        // Longer than a check takes on this path (three lists), or the next version exists before the delete is sent; shorter than a check
        // and a delete. How long these take differs, so in one of the attempts the time is right.
        sleep(millis(450 + 25 * u64::from(number % 10))).await;
    }
    wait_until(secs(10), "the PodGroup is deleted after the last write", || async {
        Ok(Seen::when(api.get_opt(group).await?.is_none(), || "it still exists".to_owned()))
    })
    .await?;
    w.controller_path()?.delay(Delay::None, Delay::None);
    let log = std::fs::read_to_string(w.controller()?.log())?;
    let line =
        log.lines().find(|line| line.contains("a precondition refused the delete")).context("no log line reports the refused delete")?;
    let field =
        |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)).map(|value| value.trim_matches('"').to_owned());
    let versions = (field("decided_resource_version="), field("met_resource_version="));
    ensure!(versions.0.is_some() && versions.1.is_some() && versions.0 != versions.1, "{line}");
    ensure!(field("decided_uid=").is_some() && field("decided_uid=") == field("met_uid="), "{line}");
    for (name, least) in [
        ("podgroup_controller_steps_total{outcome=\"is\",step=\"create\"}", 1.0),
        ("podgroup_controller_steps_total{outcome=\"is\",step=\"amend\"}", 3.0),
        ("podgroup_controller_steps_total{outcome=\"gone\",step=\"delete\"}", 1.0),
        ("podgroup_controller_creation_seconds_count", 1.0),
    ] {
        // The cluster shows the outcome of a step before the controller has its response.
        wait_until(secs(10), &format!("{name} is at least {least}"), || async {
            let value = metric(port, name).await?;
            Ok(Seen::when(value >= least, || value.to_string()))
        })
        .await?;
    }
    wait_until(secs(10), "no PodGroup waits", || async {
        let depth = metric(port, "podgroup_controller_queue_depth").await?;
        Ok(Seen::when(depth == 0.0, || depth.to_string()))
    })
    .await
}

/// Returns whether the PodGroup still exists. It is written only when it has the mark, because otherwise the write would make the mark fail, too.
async fn write_into_a_marked_one(api: &Api<DynamicObject>, group: &str, number: u32) -> Result<bool> {
    let Some(found) = api.get_opt(group).await? else { return Ok(false) };
    if !found.annotations().contains_key("podgroup.dev/retiring") {
        return Ok(true);
    }
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/busy": number.to_string()}}}));
    match api.patch(group, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the value of one line of /metrics; 0 when the line is missing.
async fn metric(port: u16, name: &str) -> Result<f64> {
    let (_, body) = http::get(port, "/metrics").await?;
    let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.map_or(Ok(0.0), |value| value.trim().parse())?)
}
