//! stub: the shape that `watched` is written against, until the observer itself is merged over it

use std::path::PathBuf;
use std::time::Duration;

/// What to observe.
#[derive(Clone, Debug, Default)]
pub struct ObserverConfig {
    /// Whose pods.
    pub scheduler_name: String,
    /// The audit log, for the rules about requests.
    pub audit_log: Option<PathBuf>,
    /// The controller's user in the audit log.
    pub controller_user: String,
    /// The scheduler's user in the audit log.
    pub scheduler_user: String,
    /// Whether PodGroups are named as our controller names them.
    pub generated_group_names: bool,
}

/// One broken rule.
#[derive(Clone, Debug)]
pub struct Finding(pub String);

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The observer.
pub struct Observer;

impl Observer {
    /// Starts watching.
    pub async fn start(_client: kube::Client, _config: ObserverConfig) -> anyhow::Result<Self> {
        Ok(Self)
    }

    /// Waits until nothing moves, and checks what must hold then.
    pub async fn at_rest_check(&self, _timeout: Duration) -> Vec<Finding> {
        Vec::new()
    }

    /// What was found so far.
    pub fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Ends; all that was found.
    pub async fn stop(self) -> Vec<Finding> {
        Vec::new()
    }
}
