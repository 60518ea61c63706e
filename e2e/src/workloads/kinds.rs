//! How does each kind of owner look when a user types as little as possible? One constructor each; what differs is said by the case.

use serde_json::{Value, json};

use super::owner::{Kind, Owner};

/// The annotation of a pod whose status the case itself writes, as the kubelet of a pod that runs for as long as the case wants. (kwok would end a Job's pod
/// as soon as it runs.)
pub const PLAYED_BY_THE_CASE: &str = "kwok.x-k8s.io/status";

/// The order in which a StatefulSet makes its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next only when the one before it is ready: the default.
    OrderedReady,
    /// All at once.
    Parallel,
}

fn selector(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

impl Owner {
    /// A Deployment of one replica.
    pub fn deployment(name: &str) -> Self {
        Self::new(Kind::Deployment, name, "/spec/template", json!({"replicas": 1, "selector": selector(name)}))
    }

    /// A ReplicaSet of one replica that no Deployment owns.
    pub fn replica_set(name: &str) -> Self {
        Self::new(Kind::ReplicaSet, name, "/spec/template", json!({"replicas": 1, "selector": selector(name)}))
    }

    /// A StatefulSet of one replica.
    pub fn stateful_set(name: &str, order: Order) -> Self {
        let order = match order {
            Order::OrderedReady => "OrderedReady",
            Order::Parallel => "Parallel",
        };
        let spec = json!({"replicas": 1, "selector": selector(name), "serviceName": name, "podManagementPolicy": order});
        Self::new(Kind::StatefulSet, name, "/spec/template", spec)
    }

    /// A DaemonSet.
    pub fn daemon_set(name: &str) -> Self {
        Self::new(Kind::DaemonSet, name, "/spec/template", json!({"selector": selector(name)}))
    }

    /// A Job of this parallelism and as many completions; kwok ends its pods as soon as they run.
    pub fn job(name: &str, parallelism: u32) -> Self {
        let spec = json!({"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0});
        Self::new(Kind::Job, name, "/spec/template", spec).with_pod("/spec", "restartPolicy", json!("Never"))
    }

    /// A CronJob that makes a Job every minute; until then a case makes one from it, as `kubectl create job --from` does.
    pub fn cron_job(name: &str, parallelism: u32) -> Self {
        let job = json!({"spec": {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0}});
        let spec = json!({"schedule": "* * * * *", "jobTemplate": job});
        Self::new(Kind::CronJob, name, "/spec/jobTemplate/spec/template", spec).with_pod("/spec", "restartPolicy", json!("Never"))
    }

    /// A pod; of `owned_by` if that is said, else bare.
    pub fn pod(name: &str) -> Self {
        Self::new(Kind::Pod, name, "", json!({})).with("/metadata", "name", json!(name))
    }

    /// An object of an operator.
    pub fn operators(name: &str) -> Self {
        Self::object(Kind::ConfigMap, json!({"metadata": {"name": name, "annotations": {}}}))
    }

    /// A namespace.
    pub fn namespace(name: &str) -> Self {
        Self::object(Kind::Namespace, json!({"metadata": {"name": name, "annotations": {}}}))
    }

    /// A pod of it neither runs nor ends until the case says so: see [`PLAYED_BY_THE_CASE`].
    pub fn played_by_the_case(self) -> Self {
        self.pod_annotation(PLAYED_BY_THE_CASE, "custom")
    }
}
