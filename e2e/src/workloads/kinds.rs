//! A constructor for each kind of owner, with the fields that a user must type. A case sets what differs.

use serde_json::{Value, json};

use super::owner::{Kind, Owner};

/// The annotation of a pod that gets its status from the case instead of a kubelet, so that the pod runs as long as the case needs. (kwok would end a
/// Job's pod as soon as it runs.)
pub const PLAYED_BY_THE_CASE: &str = "kwok.x-k8s.io/status";

/// The order in which a StatefulSet creates its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next pod only after the one before it is ready: the default.
    OrderedReady,
    /// All pods at once.
    Parallel,
}

fn selector(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

impl Owner {
    /// Returns a Deployment with one replica.
    pub fn deployment(name: &str) -> Self {
        Self::new(Kind::Deployment, name, "/spec/template", json!({"replicas": 1, "selector": selector(name)}))
    }

    /// Returns a ReplicaSet with one replica and without a Deployment.
    pub fn replica_set(name: &str) -> Self {
        Self::new(Kind::ReplicaSet, name, "/spec/template", json!({"replicas": 1, "selector": selector(name)}))
    }

    /// Returns a StatefulSet with one replica.
    pub fn stateful_set(name: &str, order: Order) -> Self {
        let order = match order {
            Order::OrderedReady => "OrderedReady",
            Order::Parallel => "Parallel",
        };
        let spec = json!({"replicas": 1, "selector": selector(name), "serviceName": name, "podManagementPolicy": order});
        Self::new(Kind::StatefulSet, name, "/spec/template", spec)
    }

    /// Returns a Job with this parallelism and as many completions. kwok ends its pods as soon as they run.
    pub fn job(name: &str, parallelism: u32) -> Self {
        let spec = json!({"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0});
        Self::new(Kind::Job, name, "/spec/template", spec).with_pod("/spec", "restartPolicy", json!("Never"))
    }

    /// Returns a CronJob. A case creates a Job from it, like `kubectl create job --from`, before its schedule does.
    pub fn cron_job(name: &str, parallelism: u32) -> Self {
        let job = json!({"spec": {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0}});
        let spec = json!({"schedule": "* * * * *", "jobTemplate": job});
        Self::new(Kind::CronJob, name, "/spec/jobTemplate/spec/template", spec).with_pod("/spec", "restartPolicy", json!("Never"))
    }

    /// Returns a bare pod.
    pub fn pod(name: &str) -> Self {
        Self::new(Kind::Pod, name, "", json!({})).with("/metadata", "name", json!(name))
    }

    /// Returns the object of an operator.
    pub fn operators(name: &str) -> Self {
        Self::object(Kind::ConfigMap, json!({"metadata": {"name": name, "annotations": {}}}))
    }

    /// Returns a namespace.
    pub fn namespace(name: &str) -> Self {
        Self::object(Kind::Namespace, json!({"metadata": {"name": name, "annotations": {}}}))
    }

    /// Makes its pods neither run nor end until the case says so: see [`PLAYED_BY_THE_CASE`].
    pub fn played_by_the_case(self) -> Self {
        self.pod_annotation(PLAYED_BY_THE_CASE, "custom")
    }
}
