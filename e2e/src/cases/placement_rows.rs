//! Which cases show where pods go, and with which volumes? Rows P and V of the table of cases.

use super::killed_at_requests::Requests;
use super::{bad, claims_change, killed_with_claims, nominated_by_others, placing, provisioned, tied_claims, unbound_claims, volumes};
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
    let aimed = || Setup { faults: Faults::Aimed, ..Setup::default() };
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    let quick_aimed = || Setup { disable_qps_limits: true, ..aimed() };
    vec![
        case!("P1", "a Deployment that is spread over zones", usual(), placing::spread_over_zones).also_under_faults(),
        case!("P2", "pods that keep each other away, all of a StatefulSet or by keys of labels", usual(), placing::one_on_each_node)
            .under_faults_in_soak(),
        case!("P3", "a gang in one zone", usual(), placing::gang_in_one_zone).under_faults_in_soak(),
        case!("P4", "members of a gang that need each other beside them", usual(), placing::members_that_need_each_other)
            .under_faults_in_soak(),
        case!("P5", "pods with host ports", usual(), placing::host_ports).under_faults_in_soak(),
        case!("P6", "a gang of two helpers and a worker with a whole node", usual(), placing::helpers_and_a_worker).under_faults_in_soak(),
        case!("P7", "gangs with members that find places in another order than theirs", usual(), placing::members_in_a_better_order)
            .under_faults_in_soak(),
        case!("V1", "gangs with claims, in the zone of their volumes and anywhere", usual(), volumes::gang_in_the_zone_of_its_volumes)
            .under_faults_in_soak(),
        case!("V2", "claims that are missing, not bound, and bound later", usual(), volumes::claims_that_come_later).under_faults_in_soak(),
        case!("V3", "a claim that one pod at a time may use", usual(), volumes::one_pod_at_a_time).under_faults_in_soak(),
        case!("V4", "as many volumes as the node takes", usual(), volumes::as_many_volumes_as_the_node_takes).under_faults_in_soak(),
        case!("V5", "local volumes for the claims of a gang, chosen with its nodes", usual(), unbound_claims::local_volumes)
            .under_faults_in_soak(),
        case!(
            "V6",
            "a gang waits for the binder with its places, and goes on after a restart",
            usual(),
            unbound_claims::held_until_all_are_bound
        )
        .under_faults_in_soak(),
        case!("V7", "volumes that are made for a gang, one of them late", usual(), unbound_claims::made_for_a_gang).under_faults_in_soak(),
        case!("V8", "a gang waits until its driver has storage for its volumes", usual(), unbound_claims::made_where_storage_is_left)
            .under_faults_in_soak(),
        case!("V20", "bad input among claims, volumes and classes", usual(), bad::claims::of_claims, 1_000),
        case!("V20-10000", "the same with 10,000 claims in the namespace", quick(), bad::claims::of_claims, 10_000)
            .within(secs(900))
            .only_in_soak(),
        case!(
            "V21",
            "the scheduler is killed at some of its requests for a gang with claims, and between two bindings",
            aimed(),
            killed_with_claims::each,
            Requests::Drawn(3, 0)
        ),
        case!("V21-all", "the same at every request", aimed(), killed_with_claims::each, Requests::Every).within(secs(1800)).only_in_soak(),
        case!("V22", "a zone goes while volumes are made there for a gang", usual(), claims_change::zone_goes).under_faults_in_soak(),
        case!("V23", "every write that ties a claim of a gang fails in another way", aimed(), tied_claims::each_fails_differently),
        case!("V24", "claims and volumes that are other than decided", usual(), claims_change::other_than_decided).under_faults_in_soak(),
        case!("V9", "StatefulSets with claims, scaled down and up again", with_helpers(), provisioned::stateful_sets)
            .under_faults_in_soak(),
        case!("V10", "a gang of four with claims in one zone", with_helpers(), provisioned::gang_in_one_zone).under_faults_in_soak(),
        case!("V11", "a gang with one claim that cannot be provisioned", with_helpers(), provisioned::one_claim_fails)
            .under_faults_in_soak(),
        case!("V12", "a gang with generic ephemeral volumes", with_helpers(), provisioned::ephemeral_volumes).under_faults_in_soak(),
        case!("V13", "a provisioner that answers after the deadline", with_helpers(), provisioned::answers_after_the_deadline)
            .under_faults_in_soak(),
        case!("P8", "bad input among what pods require of each other", aimed(), bad::constraints::terms_of_pods, FEW_PODS),
        case!("P8-10000", "the same with 10,000 foreign pods", quick_aimed(), bad::constraints::terms_of_pods, MANY_PODS)
            .within(secs(900))
            .only_in_soak(),
        case!(
            "P9",
            "room that kube-scheduler keeps for a pod of its own",
            Setup { kube_scheduler: true, ..usual() },
            nominated_by_others::by_kube_scheduler
        ),
        case!("P10", "a namespace with more selectors than are told apart", usual(), bad::selectors::crowded_namespace)
            .under_faults_in_soak(),
    ]
}
