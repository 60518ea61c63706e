//! Writes the statuses, conditions and Events: one request each, and the Event of a PodGroup after its status.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use crate::api::names::SCHEDULER;
use crate::api::{Pod, PodGroup, Queue};
use crate::runtime::call::CallError;

use super::super::command::{self, Command};
use super::super::event::WriteOutcome;
use super::super::state::subject;
use super::Destination;

impl Destination {
    /// Writes the object of this command.
    pub(super) async fn write_status(&self, command: Command) -> WriteOutcome {
        let subject = subject(&command);
        let answer = if self.leadership.is_leading() { self.write(command).await } else { Err(CallError::Other("not leading".to_owned())) };
        if let Err(error) = &answer {
            tracing::debug!(?subject, %error, "the object could not be written");
        }
        write_outcome(answer)
    }

    /// Writes the object and returns its new resourceVersion.
    async fn write(&self, command: Command) -> Result<String, CallError> {
        let params = patched();
        match command {
            Command::Bind(_) | Command::Volume(_) | Command::Evict { .. } | Command::StopEvictions { .. } | Command::Fence { .. } => {
                Ok(String::new())
            }
            Command::Group { key, uid, status, events, now } => {
                let groups = Api::<PodGroup>::namespaced(self.client.clone(), &key.namespace);
                let body = Patch::Merge(command::group_patch(&uid, &status));
                let version = version(&self.caller.once("patch", "podgroups", groups.patch(&key.name, &params, &body)).await?);
                for (reason, message) in events {
                    self.event(command::event(&key, &uid, &reason, &message, now), &key.namespace).await;
                }
                Ok(version)
            }
            Command::Queue { name, status, gone, by } => {
                let queues = Api::<Queue>::all(self.client.clone());
                let body = Patch::Merge(command::queue_patch(&status, &gone, by));
                Ok(version(&self.caller.once("patch", "queues/status", queues.patch_status(&name, &params, &body)).await?))
            }
            Command::QueueEvent { name, uid, message, now } => {
                self.event(command::queue_event(&name, &uid, &message, now), command::CLUSTER_EVENTS).await;
                Ok(String::new())
            }
            Command::MisnamedPod { namespace, name, uid, message, now } => {
                self.event(command::misnamed_pod_event(&namespace, &name, &uid, &message, now), &namespace).await;
                Ok(String::new())
            }
            Command::MakeQueue { name } => {
                // As a dynamic object, because the slim type does not carry its own kind, which a creation must name.
                let queues = Api::<DynamicObject>::all_with(self.client.clone(), &ApiResource::erase::<Queue>(&()));
                let body = serde_json::from_value(command::new_queue(&name)).map_err(|error| CallError::Other(error.to_string()))?;
                tracing::info!(queue = %name, "creating the missing queue");
                Ok(version(&self.caller.once("create", "queues", queues.create(&created(), &body)).await?))
            }
            Command::PodEvent { namespace, name, uid, message, now } => {
                match self.create_event(command::pod_event(&namespace, &name, &uid, &message, now), &namespace).await {
                    // A quota, a policy or the end of the namespace refuses the next one as well, and after a time limit the Event may be
                    // there. The next one is the one that is repeated anyway.
                    Ok(())
                    | Err(CallError::Forbidden(_) | CallError::NamespaceTerminating(_) | CallError::Invalid(_) | CallError::Timeout(_)) => {
                        Ok(String::new())
                    }
                    Err(error) => Err(error),
                }
            }
            Command::Pod { namespace, name, uid, condition, nominated, since } => {
                let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
                let body = Patch::Strategic(command::pod_patch(&uid, &condition, &nominated, since));
                Ok(version(&self.caller.once("patch", "pods/status", pods.patch_status(&name, &params, &body)).await?))
            }
        }
    }

    /// Sends an Event. A failure is only logged, because a condition or `kubectl podgroup` has the same content.
    pub(super) async fn event(&self, body: Value, namespace: &str) {
        if let Err(error) = self.create_event(body, namespace).await {
            tracing::debug!(%error, "the Event could not be written");
        }
    }

    async fn create_event(&self, body: Value, namespace: &str) -> Result<(), CallError> {
        let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(self.client.clone(), namespace);
        let body = serde_json::from_value(body).map_err(|error| CallError::Invalid(error.to_string()))?;
        self.caller.once("create", "events", events.create(&created(), &body)).await.map(|_| ())
    }
}

/// Converts the answer of the API server to an outcome. A conflict is a failure, so the write is retried.
fn write_outcome(answer: Result<String, CallError>) -> WriteOutcome {
    match answer {
        Ok(resource_version) => WriteOutcome::Written { resource_version },
        Err(CallError::NotFound(_) | CallError::AlreadyExists(_)) => WriteOutcome::Gone,
        Err(error) => WriteOutcome::Failed(error.kind()),
    }
}

/// Returns parameters with our field manager.
pub(super) fn created() -> PostParams {
    PostParams { field_manager: Some(SCHEDULER.to_owned()), ..PostParams::default() }
}

pub(super) fn patched() -> PatchParams {
    PatchParams { field_manager: Some(SCHEDULER.to_owned()), ..PatchParams::default() }
}

fn version<K: Resource>(object: &K) -> String {
    object.resource_version().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_object_ends_its_status_writes() {
        let text = String::new;
        let outcome = |error| write_outcome(Err(error));
        assert_eq!(outcome(CallError::NotFound(text())), WriteOutcome::Gone);
        assert_eq!(outcome(CallError::AlreadyExists(text())), WriteOutcome::Gone, "another client has created the queue");
        // Found in a fault test: after one conflict the status of a queue stayed wrong.
        assert_eq!(outcome(CallError::Conflict(text())), WriteOutcome::Failed("conflict"));
        assert_eq!(outcome(CallError::Unavailable(text())), WriteOutcome::Failed("unavailable"));
    }
}
