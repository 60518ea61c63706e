//! Values that are too large or invalid.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::objects::{field, make_node};
use crate::workloads::events::{wait_warning, warnings};
use crate::workloads::owner::Owner;
use crate::workloads::{MIN_MEMBER, wait_one_group, wait_running};
use crate::world::World;

const MIN_RESOURCES: &str = "scheduling.volcano.sh/group-min-resources";

/// Annotations of 200 KiB (the API server accepts 256), values that grow when they are written, a minResources that is not JSON, a negative
/// one, a min-member that is not a number. Only the bad value is ignored, and one Event on the Deployment names it. The pods run, and other
/// pods do not wait.
pub(in crate::cases) async fn values(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    // Half of the limit, because kube-controller-manager copies the annotations to the ReplicaSet, which has its own ones, too.
    let long = "x".repeat(200 * 1024);
    // The PodGroup contains these values twice, and there they would exceed the limit of the API server: six bytes of JSON per character, and a map
    // of resources.
    let control = "\u{1}".repeat(50_000);
    let names: serde_json::Map<String, serde_json::Value> = (0..24_000).map(|number| (format!("r{number}"), json!(1))).collect();
    let names = json!(names).to_string();
    for (name, key, value, said) in [
        ("large", "volcano.sh/large", long.as_str(), "volcano.sh/"),
        ("control", "volcano.sh/control", control.as_str(), "volcano.sh/"),
        ("no-json", MIN_RESOURCES, "{\"cpu\": ", MIN_RESOURCES),
        ("long-no-json", MIN_RESOURCES, long.as_str(), MIN_RESOURCES),
        ("negative", MIN_RESOURCES, "{\"cpu\": \"-1\"}", MIN_RESOURCES),
        ("no-quantity", MIN_RESOURCES, "{\"cpu\": \"1x\", \"memory\": [1]}", MIN_RESOURCES),
        ("names", MIN_RESOURCES, names.as_str(), MIN_RESOURCES),
        ("no-number", MIN_MEMBER, "all of them", MIN_MEMBER),
        ("long-no-number", MIN_MEMBER, long.as_str(), MIN_MEMBER),
    ] {
        Owner::deployment(name).annotation(key, value).make(&client).await?;
        wait_running(&client, name, 1, 10).await?;
        let group = wait_one_group(&client, name, 10).await?;
        let (members, cpu) = (field(&group, "/spec/minMember"), field(&group, "/spec/minResources/cpu"));
        ensure!(members == 1 && cpu == "1", "{name} has minMember {members} and minResources of {cpu} cpu");
        wait_warning(&client, "Deployment", name, "InvalidPodGroupSource", said).await?;
        // A bad value is reported once, however often the Deployment is reconciled.
        crate::workloads::scale(&client, name, 2).await?;
        wait_running(&client, name, 2, 10).await?;
        let events = warnings(&client, "Deployment", name).await?;
        ensure!(events.len() == 1, "the Events on {name} are {events:?}");
        ensure!(events.iter().all(|(_, message)| message.len() < 1024), "the Events on {name} are {events:?}");
    }
    Ok(())
}
