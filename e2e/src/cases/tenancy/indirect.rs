//! Attempts through other writers: Kubernetes' controllers, which create the tenant's pods, and our controller, which marks its PodGroups.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::OWN;
use super::request::{Attempt, Expected, GROUPS, create, group_of, owner_of_pods, patch};
use crate::wait::{Seen, secs, wait_until};

/// An owner with a pod template that no pod may have.
pub(super) struct Template {
    what: &'static str,
    kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) name: &'static str,
    /// The words with which its pods are refused.
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

/// Returns the owners, which are accepted. [`no_pods_from_templates`] checks their pods.
pub(super) fn templates() -> Vec<Attempt> {
    let owner = |Template { what, kind, plural, name, words }| {
        let notes = if words == CHARGED { json!({"podgroup.dev/queue": "b"}) } else { json!({}) };
        let body = owner_of_pods(kind, name, "a", notes, json!({"nodeName": "n1"}));
        create(what, format!("/apis/apps/v1/namespaces/{OWN}/{plural}"), body, Expected::Harmless)
    };
    TEMPLATES.into_iter().map(owner).collect()
}

/// Checks that the pods of the templates are refused for every creator: here an admin with the permission to bind, like the DaemonSet controller in
/// every cluster.
pub(super) async fn no_pods_from_templates(client: &Client) -> Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), OWN);
    let pods: Api<Pod> = Api::namespaced(client.clone(), OWN);
    for Template { name, words, .. } in TEMPLATES {
        wait_until(secs(10), &format!("the pods of {name} are refused"), || async {
            let failed = events.list(&ListParams::default().fields("reason=FailedCreate")).await?.items;
            // The Event about a Deployment's pods is on its ReplicaSet.
            let of_it = |event: &Event| event.involved_object.name.as_deref().is_some_and(|object| object.starts_with(name));
            let messages: Vec<_> = failed.into_iter().filter(of_it).filter_map(|event| event.message).collect();
            Ok(Seen::when(messages.iter().any(|message| message.contains(words)), || format!("{messages:?}")))
        })
        .await?;
        let made = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?.items.len();
        ensure!(made == 0, "{name} has {made} pods");
    }
    Ok(())
}

/// Creates a PodGroup with more annotations than allowed, from a time before the policies.
pub(super) fn long() -> Attempt {
    group_of("a long PodGroup", json!({"name": "long", "annotations": note(20_000)}), json!({"queue": "a"}), json!({}), Expected::Harmless)
}

/// Returns the attempts of its tenant to change it.
pub(super) fn of_long_by_tenant() -> Vec<Attempt> {
    vec![
        of_long("a long PodGroup made longer", "", note(20_001), LONGER),
        of_long("a long PodGroup made shorter", "", note(19_000), Expected::Harmless),
        of_long("a long PodGroup marked by its tenant", "", json!({"podgroup.dev/retiring": "now"}), LONGER),
    ]
}

/// Returns the attempts of our controller: it may mark the PodGroup, and may not add a tenant's annotation.
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
