//! Which cases show where pods go, and with which volumes? Rows P and V of the table of cases.

use super::killed_at_requests::Requests;
use super::{bad, killed_with_claims, label_keys, nominated_by_others, placing, provisioned, unbound_claims};
use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::faults::Faults;
use crate::wait::secs;
use crate::world::Setup;

/// 10,000 terms.
const FEW_PODS: bad::constraints::Terms = bad::constraints::Terms { pods: 100, each: 100 };
const MANY_PODS: bad::constraints::Terms = bad::constraints::Terms { pods: 10_000, each: 1 };

/// Returns these rows in the order of the table.
pub(super) fn rows() -> Vec<Case> {
    let usual = Setup::default;
    // The simulated kubelets end the helper pods of the provisioner.
    let with_helpers = || Setup { jobs_run_on: true, ..Setup::default() };
    let scheduler_faults = || Setup { faults: Faults::Aimed, ..Setup::default() };
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    vec![
        case!("P1", "a Deployment that is spread over zones", usual(), placing::spread_over_zones).also_under_faults(),
        case!(
            "P2",
            "pods that are apart, together or spread by keys of labels, as the API server stores them",
            usual(),
            label_keys::each_kind
        )
        .under_faults_in_soak(),
        case!("V5", "local volumes for the claims of a gang, chosen with its nodes", usual(), unbound_claims::local_volumes)
            .under_faults_in_soak(),
        case!("V20", "what the API server refuses of claims and volumes, and a thousand claims", usual(), bad::claims::of_claims, 1_000),
        case!("V20-10000", "the same with 10,000 claims in the namespace", quick(), bad::claims::of_claims, 10_000)
            .within(secs(900))
            .only_in_soak(),
        case!(
            "V21",
            "the scheduler is killed at some of its requests for a gang with claims, and between two bindings",
            scheduler_faults(),
            killed_with_claims::each,
            Requests::Drawn(3, 0)
        ),
        case!("V21-all", "the same at every request", scheduler_faults(), killed_with_claims::each, Requests::Every)
            .within(secs(1800))
            .only_in_soak(),
        case!("V9", "StatefulSets with claims, scaled down and up again", with_helpers(), provisioned::stateful_sets)
            .under_faults_in_soak()
            .only_in_soak(),
        case!("V10", "a gang of four with claims in one zone", with_helpers(), provisioned::gang_in_one_zone).under_faults_in_soak(),
        case!("V11", "a gang with one claim that cannot be provisioned", with_helpers(), provisioned::one_claim_fails)
            .under_faults_in_soak()
            .only_in_soak(),
        case!("V12", "a gang with generic ephemeral volumes", with_helpers(), provisioned::ephemeral_volumes).under_faults_in_soak(),
        case!("V13", "a provisioner that answers after the deadline", with_helpers(), provisioned::answers_after_the_deadline)
            .under_faults_in_soak()
            .only_in_soak(),
        case!(
            "P8",
            "what the API server refuses of affinity and spread, and 10,000 terms",
            usual(),
            bad::constraints::terms_of_pods,
            FEW_PODS
        ),
        case!("P8-10000", "the same with 10,000 foreign pods", quick(), bad::constraints::terms_of_pods, MANY_PODS)
            .within(secs(900))
            .only_in_soak(),
        case!(
            "P9",
            "room that kube-scheduler keeps for a pod of its own",
            Setup { kube_scheduler: true, ..usual() },
            nominated_by_others::by_kube_scheduler
        ),
    ]
}
