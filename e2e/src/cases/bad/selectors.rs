//! Row P10: a namespace with more selectors than are told apart. Its pods wait with a reason, and no other pod waits for them.

use anyhow::Result;
use kube::ResourceExt;
use serde_json::Value;

use super::constraints::{MOST_ALIKE, RACK, expression, label, terms};
use crate::cases::ledger::stays_unbound;
use crate::cases::placing::zoned;
use crate::cases::seen::{accounting_matches_api, group_says, pod_says, pods_wait_for};
use crate::workloads::{Workload, delete, wait_one_group, wait_running};
use crate::world::World;

/// How many workloads share the selectors of the namespace.
const CROWD: usize = 4;

/// P10. A pod that would bring one selector more into its namespace than are told apart there waits with a reason, and is bound when one goes.
/// Another PodGroup is bound as usual.
pub(in crate::cases) async fn crowded_namespace(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, "a1", "a", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let each = MOST_ALIKE / CROWD;
    let alike = |from: usize, count: usize| terms((from..from + count).map(|at| expression(&format!("k-{at}"), "Exists", 0)), RACK);
    let of = |name: &str, anti: Value| Workload::new(name).asks(&[("cpu", "100m")]).affinity("podAntiAffinity", anti);
    let why = "more than 256 different selectors in affinity and spread of the pods of a namespace";
    for at in 0..CROWD {
        of(&format!("crowd-{at}"), alike(at * each, each)).make(&client).await?;
        wait_running(&client, &format!("crowd-{at}"), 1, 10).await?;
    }
    of("late", alike(2000, 1)).make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, why).await?;
    pod_says(&client, "late", why).await?;
    pods_wait_for(&client, "late", 1, "UnsupportedField").await?;
    // Selectors that are there already, and a value of a label, take no room.
    of("known", alike(0, each)).make(&client).await?;
    of("by-value", terms([label("app", "by-value")], RACK)).make(&client).await?;
    wait_running(&client, "known", 1, 10).await?;
    wait_running(&client, "by-value", 1, 10).await?;
    stays_unbound(w, "late", 1).await?;
    delete(&client, "crowd-1").await?;
    wait_running(&client, "late", 1, 10).await?;
    accounting_matches_api(w).await
}
