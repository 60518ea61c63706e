//! Which rows of the scenario table are run? This table; each case reads like its row.

mod compatibility;
pub(crate) mod ledger;
pub(crate) mod lifecycle;
mod outages;
mod outages_lease;
mod outages_load;
mod outages_server;
pub(crate) mod queues;
mod rollouts;
mod selftest;
mod visible;

use crate::case::Case;
use crate::world::Setup;

macro_rules! case {
    ($id:literal, $title:literal, $setup:expr, $steps:path) => {
        Case { id: $id, title: $title, setup: $setup, steps: |world| Box::pin($steps(world)) }
    };
}

/// All cases, in the order of the scenario table; those that try the harness itself come first.
pub fn table() -> Vec<Case> {
    let usual = Setup::default;
    let stock = || Setup { programs: false, kube_scheduler: true, ..Setup::default() };
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    vec![
        case!("H1", "the harness: a real cluster runs a Deployment, also seen through a slow proxy", stock(), selftest::a_cluster_works),
        case!("H2", "the harness: nothing is left running after kill -9 of the runner", stock(), selftest::nothing_is_left_after_kill_9),
        case!("C1", "objects written for Volcano survive whole", usual(), compatibility::objects_of_volcano_survive),
        case!("C2", "the chart does what it says", Setup { kube_scheduler: false, ..stock() }, compatibility::chart),
        case!("L1", "flapping Deployments keep exactly one PodGroup, with the right owner", quick(), lifecycle::flapping),
        case!("L1-no-policy", "the same without the admission policy", Setup { admission_policy: false, ..quick() }, lifecycle::flapping),
        case!("L4", "a PodGroup that somebody deletes is back within seconds", usual(), lifecycle::deleted_by_hand),
        case!(
            "L4-no-policy",
            "the same without the admission policy",
            Setup { admission_policy: false, ..usual() },
            lifecycle::deleted_by_hand
        ),
        case!("L5", "group-min-member of a running Deployment is followed", usual(), lifecycle::min_member_followed),
        case!("L7", "a rollout with maxSurge 1 of a full gang finishes", usual(), rollouts::surge_of_a_full_gang),
        case!("L8", "an absurd group-min-member is said and delays nobody else", usual(), lifecycle::absurd_min_member),
        case!("L15", "ten rollouts leave one PodGroup", usual(), rollouts::ten_rollouts),
        case!("A1", "a node with 8 GPUs in use reports 6, 0 and 8", usual(), ledger::devices_fail_and_heal),
        case!("A3", "pods that no scheduler placed overfill a node", usual(), ledger::overfilled_from_outside),
        case!("K1", "kill -9 of the controller every second", usual(), outages::killed_every_second),
        case!("K1-slow", "kill -9 between the steps of retirements", usual(), outages::killed_while_retiring),
        case!("K1-elected", "kill -9 of whoever leads, with the election", usual(), outages::leaders_killed),
        case!("K2", "two controllers that both believe they lead", quick(), outages::two_believe_they_lead),
        case!("K3", "the API server is killed and started again", usual(), outages_server::api_server_restarts),
        case!("K4", "etcd is killed and started again", usual(), outages_server::etcd_restarts),
        case!("K5", "the API server stands still for 5 s", usual(), outages_server::api_server_hangs),
        case!("K5-long", "the API server stands still for 30 s", usual(), outages_server::api_server_hangs_long),
        case!("K6", "the Lease is taken away mid-write", usual(), outages_lease::lease_taken_away),
        case!("K7", "the leader's clock jumps", usual(), outages_lease::clock_jumps),
        case!("K7-two", "two replicas with different clocks", usual(), outages_lease::clocks_apart),
        case!("Q1", "the parent's capability blocks a sibling's gang, which says so", usual(), queues::parent_blocks),
        case!("Q2", "the same for PodGroups without minResources", usual(), queues::parent_blocks_without_min_resources),
        case!("U1", "what people see: columns, Events, the refused delete, metrics", usual(), visible::what_a_user_sees),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_cases_have_one_name() {
        let mut ids: Vec<_> = super::table().iter().map(|case| case.id.to_lowercase()).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
