//! What comes of it where others write for the tenant: Kubernetes' controllers its pods, and ours the marks on its PodGroups?

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::OWN;
use super::attempts::{Attempt, Expected, GROUPS, create, group_of, owner_of_pods, patch};
use crate::wait::{Seen, secs, wait_until};

/// An owner whose template says what no pod may.
pub(super) struct Template {
    what: &'static str,
    kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) name: &'static str,
    /// With these its pods are refused.
    words: &'static str,
}

pub(super) const TEMPLATES: [Template; 3] = [
    Template {
        what: "a DaemonSet whose pods are charged to another's queue",
        kind: "DaemonSet",
        plural: "daemonsets",
        name: "set-charged",
        words: CHARGED,
    },
    Template {
        what: "a Deployment whose pods are charged to another's queue",
        kind: "Deployment",
        plural: "deployments",
        name: "all-charged",
        words: CHARGED,
    },
    Template {
        what: "a DaemonSet whose pods name their node",
        kind: "DaemonSet",
        plural: "daemonsets",
        name: "set-placed",
        words: "may not name its node",
    },
];

const CHARGED: &str = "podgroup.dev/queue says which queue a pod is charged to";

const LONGER: Expected = Expected::Refused("longer than 16384 bytes");

/// The owners are taken; what comes of them is for [`no_pods_from_templates`].
pub(super) fn templates() -> Vec<Attempt> {
    let owner = |Template { what, kind, plural, name, words }| {
        let notes = if words == CHARGED { json!({"podgroup.dev/queue": "b"}) } else { json!({}) };
        let body = owner_of_pods(kind, name, "a", notes, json!({"nodeName": "n1"}));
        create(what, format!("/apis/apps/v1/namespaces/{OWN}/{plural}"), body, Expected::Harmless)
    };
    TEMPLATES.into_iter().map(owner).collect()
}

/// The pods of the templates are refused to whoever makes them: here that is an admin, who may bind, as the DaemonSet controller may in every cluster.
pub(super) async fn no_pods_from_templates(client: &Client) -> Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), OWN);
    let pods: Api<Pod> = Api::namespaced(client.clone(), OWN);
    for Template { name, words, .. } in TEMPLATES {
        wait_until(secs(20), &format!("the pods of {name} are refused"), || async {
            let failed = events.list(&ListParams::default().fields("reason=FailedCreate")).await?.items;
            // Of a Deployment its ReplicaSet is told.
            let of_it = |event: &Event| event.involved_object.name.as_deref().is_some_and(|object| object.starts_with(name));
            let told: Vec<_> = failed.into_iter().filter(of_it).filter_map(|event| event.message).collect();
            Ok(Seen::when(told.iter().any(|message| message.contains(words)), || format!("{told:?}")))
        })
        .await?;
        let made = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?.items.len();
        ensure!(made == 0, "{name} has {made} pods");
    }
    Ok(())
}

/// A PodGroup with more annotations than may be, from before there were policies.
pub(super) fn long() -> Attempt {
    group_of("a long PodGroup", json!({"name": "long", "annotations": note(20_000)}), json!({"queue": "a"}), json!({}), Expected::Harmless)
}

/// What becomes of it in the hands of its tenant.
pub(super) fn of_long_by_tenant() -> Vec<Attempt> {
    vec![
        of_long("a long PodGroup made longer", "", note(20_001), LONGER),
        of_long("a long PodGroup made shorter", "", note(19_000), Expected::Harmless),
        of_long("a long PodGroup marked by its tenant", "", json!({"podgroup.dev/retiring": "now"}), LONGER),
    ]
}

/// And in those of our controller: it may mark it, and not say more of what tenants say.
pub(super) fn of_long_by_controller() -> Vec<Attempt> {
    vec![
        of_long("a long PodGroup marked by our controller", "?dryRun=All", json!({"podgroup.dev/retiring": "now"}), Expected::Harmless),
        of_long("a long PodGroup given more of what tenants say by our controller", "?dryRun=All", json!({"volcano.sh/more": "x"}), LONGER),
    ]
}

fn of_long(what: &'static str, parameters: &str, notes: Value, expected: Expected) -> Attempt {
    patch(what, format!("{GROUPS}/namespaces/{OWN}/podgroups/long{parameters}"), json!({"metadata": {"annotations": notes}}), expected)
}

fn note(bytes: usize) -> Value {
    json!({"note": "x".repeat(bytes)})
}
