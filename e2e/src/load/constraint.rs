//! What the measured pods require of the pods, nodes and volumes around them, as in the rows `requires`, `prefers` and `claims` of `make bench`.
//!
//! Each constraint among pods selects the pods of the same gang, so that the first pod of each gang starts anew. Claims are made by `claims`.

use anyhow::Result;
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::stage::{AT_ONCE, Stage, each};

/// The number of zones that the nodes are divided into.
const ZONES: usize = 8;

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A constraint of each measured pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Constraint {
    /// No constraint.
    Nothing,
    /// A spread over the zones with a skew of at most 1.
    Spread,
    /// No two pods of a gang on a node.
    Apart,
    /// All pods of a gang in one zone.
    Together,
    /// Preferably no two pods of a gang on a node.
    PreferApart,
    /// A claim of its own, which is bound.
    BoundClaim,
    /// A claim of its own without a volume, of a `WaitForFirstConsumer` class with free volumes.
    UnboundClaim,
}

impl Constraint {
    /// All constraints among pods, in the order of their turns.
    pub const AMONG_PODS: [Self; 5] = [Self::Nothing, Self::Spread, Self::Apart, Self::Together, Self::PreferApart];

    /// Returns the words in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no constraint",
            Self::Spread => "spread over zones",
            Self::Apart => "anti-affinity on the host",
            Self::Together => "affinity in the zone",
            Self::PreferApart => "preferred anti-affinity on the host",
            Self::BoundClaim => "a claim that is bound",
            Self::UnboundClaim => "a claim without a volume",
        }
    }

    /// Returns the fields of a pod's spec, for the pods with this label `app`. `claim` is the name of the pod's claim.
    pub fn spec(self, app: &str, claim: &str) -> Value {
        let selector = json!({"matchLabels": {"app": app}});
        let required =
            |key: &str| json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}]});
        let host = "kubernetes.io/hostname";
        match self {
            Self::Nothing => json!({}),
            Self::Spread => json!({"topologySpreadConstraints":
                [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]}),
            Self::Apart => json!({"affinity": {"podAntiAffinity": required(host)}}),
            Self::Together => json!({"affinity": {"podAffinity": required(ZONE)}}),
            Self::PreferApart => json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 10, "podAffinityTerm": {"topologyKey": host, "labelSelector": selector}}]}}}),
            Self::BoundClaim | Self::UnboundClaim => {
                json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})
            }
        }
    }
}

/// Gives each node the label of one of the zones, in turn.
pub async fn label_zones(stage: &Stage, nodes: usize) -> Result<()> {
    let all: Api<Node> = Api::all(stage.client());
    each(nodes, AT_ONCE, |number| {
        let all = &all;
        async move {
            let labels = json!({"metadata": {"labels": {ZONE: format!("z{}", number % ZONES)}}});
            all.patch(&format!("node-{number:04}"), &PatchParams::default(), &Patch::Merge(&labels)).await?;
            Ok(())
        }
    })
    .await
}
