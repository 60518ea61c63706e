//! Events about an object: expected Events exist exactly once.

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::objects::NAMESPACE;
use crate::wait::{Seen, secs, wait_until};

/// Returns reason and message of the controller's Warnings about an object.
pub async fn warnings(client: &Client, kind: &str, name: &str) -> Result<Vec<(String, String)>> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let about = ListParams::default().fields(&format!("involvedObject.kind={kind},involvedObject.name={name}"));
    let ours = |event: &Event| event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("podgroup-controller");
    let texts = |event: Event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
    Ok(events.list(&about).await?.items.into_iter().filter(ours).map(texts).collect())
}

/// Waits until the object has a Warning with this reason and a message that contains `part`.
pub async fn wait_warning(client: &Client, kind: &str, name: &str, reason: &str, part: &str) -> Result<()> {
    wait_until(secs(10), &format!("{kind} {name} has an Event {reason} with {part}"), || async {
        let events = warnings(client, kind, name).await?;
        Ok(Seen::when(events.iter().any(|(seen, message)| seen == reason && message.contains(part)), || {
            format!("its Events are {events:?}")
        }))
    })
    .await
}
