//! The table of all cases. Each case is one row.

mod admitted;
mod alarms;
mod bad;
mod beside_volcano;
mod binds;
mod compatibility;
mod crowded;
mod dist;
mod documents;
mod endings;
mod endpoint;
mod faults;
mod flaps;
mod flooded;
mod foreign_crds;
mod gang_rules;
mod handover;
mod handover_costs;
mod hanging_webhooks;
mod installs;
mod jobs_that_end;
mod killed_at_requests;
mod killed_with_claims;
mod label_keys;
pub(crate) mod ledger;
pub(crate) mod lifecycle;
mod migration;
mod nominated;
mod nominated_by_others;
mod old_views;
mod outages;
mod outages_lease;
mod outages_load;
mod outages_server;
mod owners;
mod panels;
mod panels_wanted;
mod partial_binding;
mod placing;
mod plugin;
mod plugin_secure;
mod plugin_shown;
mod preempted;
mod provisioned;
pub(crate) mod queues;
mod quiet_logs;
mod reclaim;
mod releases;
mod rendered;
mod requests;
mod restored;
mod rights;
mod rollouts;
mod second_scheduler;
mod seen;
mod selftest;
mod standby;
mod standby_behind;
mod starts;
mod tenancy;
mod tree_changes;
mod tree_large;
mod unbound_claims;
mod upgrades;
mod visible;

use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::faults::Faults;
use crate::wait::secs;
use crate::world::Setup;

const SMALL: tree_large::Size = tree_large::Size { tops: 10, leaves: 1, pods: 500, budget: 0.1 };
const LARGE: tree_large::Size = tree_large::Size { tops: 10, leaves: 19, pods: 5000, budget: 0.5 };

macro_rules! case {
    ($id:literal, $title:literal, $setup:expr, $steps:path $(, $more:expr)*) => {
        Case {
            id: $id.to_owned(),
            title: $title,
            setup: $setup,
            steps: |world| Box::pin($steps(world $(, $more)*)),
            time: CASE_TIME,
            under_faults: UnderFaults::Never,
            only_in_soak: false,
        }
    };
}

// Rows of the table. Declared here, because they need the macro.
mod operators;
mod outage_rows;
mod placement_rows;

/// Returns all cases in the order of their rows; the cases of the harness itself come first.
///
/// Counts of calls and durations of wrong states are checked without faults only, because a fault causes further calls and delays.
pub fn table() -> Vec<Case> {
    let usual = Setup::default;
    let jobs_run_on = || Setup { jobs_run_on: true, ..Setup::default() };
    let stock = || Setup { programs: false, kube_scheduler: true, ..Setup::default() };
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    let scheduler_faults = || Setup { faults: Faults::Aimed, ..Setup::default() };
    let mut rows = vec![
        case!("H1", "the harness: a real cluster runs a Deployment, also seen through a slow proxy", stock(), selftest::a_cluster_works),
        case!("H2", "the harness: nothing is left running after kill -9 of the runner", stock(), selftest::nothing_is_left_after_kill_9),
        case!("H3", "the fault proxy: each kind works as described", stock(), faults::each_kind_is_as_described),
        case!("C1", "objects written for Volcano keep every field", usual(), compatibility::objects_of_volcano_survive),
        case!("C2", "the chart passes its own check", Setup { kube_scheduler: false, ..stock() }, compatibility::chart).within(secs(1500)),
        case!(
            "C3",
            "each program works beside Volcano's other component",
            Setup { programs: false, ..usual() },
            beside_volcano::both_modes
        ),
        case!(
            "C4",
            "a cluster without admission policies, and a missing right",
            Setup { programs: false, ..usual() },
            installs::something_is_missing
        ),
        case!(
            "C5",
            "both programs with Volcano's CRDs, older and newer",
            Setup { programs: false, ..usual() },
            foreign_crds::crds_of_volcano
        ),
        case!("C6", "rights to read and to write are removed and restored", Setup { programs: false, ..usual() }, rights::are_missing),
        case!(
            "C7",
            "a real API server accepts the chart's pods (restricted standard), monitors and alerts",
            Setup { programs: false, ..usual() },
            admitted::by_a_real_api_server
        ),
        case!(
            "C8",
            "the commands of docs/from-volcano.md, forward and back, lose no PodGroup and no Queue",
            Setup { programs: false, ..usual() },
            migration::forward_and_back
        ),
        case!(
            "C9",
            "both programs run as the chart renders them, with every flag of the values",
            Setup { programs: false, ..usual() },
            rendered::as_rendered
        ),
        case!(
            "C10",
            "an upgrade from an older chart, a rollback, and the upgrade again",
            Setup { programs: false, ..usual() },
            upgrades::from_an_older_chart
        ),
        case!(
            "C11",
            "release/dist.sh: its files are complete, have one version, and run",
            Setup { programs: false, ..usual() },
            dist::made_and_run
        )
        // Where the programs are not compiled yet, it compiles them.
        .within(secs(1500)),
        case!("L1", "flapping Deployments keep exactly one PodGroup, with the right owner", quick(), lifecycle::flapping)
            .also_under_faults(),
        case!("L1-no-policy", "the same without the admission policy", Setup { admission_policy: false, ..quick() }, lifecycle::flapping)
            .only_in_soak()
            .under_faults_in_soak(),
        case!("F-3x0s", "20 Deployments and 20 StatefulSets flap together 3 times", quick(), flaps::together, 3, secs(0))
            .under_faults_in_soak(),
        case!("F-200x0s", "20 Deployments and 20 StatefulSets flap together 200 times", quick(), flaps::together, 200, secs(0))
            .within(secs(900))
            .only_in_soak()
            .also_under_faults(),
        case!("L7-corners", "rollouts of full gangs with all limits of the strategy", usual(), rollouts::corners).under_faults_in_soak(),
        case!("L7-paused", "a rollout is paused, scaled, resumed and rolled back", usual(), rollouts::paused_in_the_middle)
            .under_faults_in_soak(),
        case!("L8-values", "values that are too large or invalid", usual(), bad::sizes::values).under_faults_in_soak(),
        case!("L8-vanish", "owners that vanish between two calls", quick(), bad::endings::owners_that_vanish).under_faults_in_soak(),
        case!("L16-deployment", "a ReplicaSet is orphaned and adopted by another Deployment", usual(), endings::another_deployment)
            .under_faults_in_soak(),
        case!("O3-job-page", "the Job of docs/training.md waits whole, says why, and completes", usual(), owners::jobs::of_the_page)
            .under_faults_in_soak(),
        case!("O10", "a webhook names another PodGroup on the pods", usual(), owners::elsewhere::pods_name_another_group),
        case!("O9", "a webhook for the PodGroups of one namespace hangs", usual(), hanging_webhooks::for_podgroups),
        case!("O11", "a flood of connections ends no liveness probe", usual(), flooded::probes_are_answered).as_shipped(),
        case!("A2", "a second scheduler binds and deletes pods on the same nodes", quick(), second_scheduler::on_the_same_nodes, 10)
            .as_shipped()
            .under_faults_in_soak(),
        case!("A2-600", "the same for ten minutes", quick(), second_scheduler::on_the_same_nodes, 600).within(secs(1200)).only_in_soak(),
        case!(
            "A4-30000",
            "the same with 2,000 nodes and 30,000 pods",
            Setup { disable_qps_limits: true, ..scheduler_faults() },
            starts::lists_come_late,
            2000,
            15,
            8
        )
        .within(secs(3600))
        .only_in_soak(),
        case!("A7", "a running pod is resized past its queue's capability and back", usual(), requests::resized_in_place)
            .under_faults_in_soak(),
        case!("B1", "every binding of a gang fails in another way", scheduler_faults(), binds::every_binding_fails_differently),
        case!("B2", "a node refuses half of a gang", usual(), partial_binding::refused_on_one_node).under_faults_in_soak(),
        case!("B3", "a node is deleted between decision and binding", scheduler_faults(), binds::node_gone),
        case!("B6", "a webhook for the bindings of one namespace has no backend", usual(), binds::webhook_without_backend),
    ];
    rows.extend(placement_rows::rows());
    rows.extend(outage_rows::rows());
    rows.extend(operators::rows());
    rows.extend([
        case!("Q1", "the parent's capability blocks a sibling's gang, with a reason", usual(), queues::parent_blocks)
            .under_faults_in_soak(),
        case!("Q6", "a queue gets its deserved share back by reclaim", usual(), reclaim::deserved_share_is_reclaimed)
            .under_faults_in_soak(),
        case!("Q6-budget", "a PodDisruptionBudget is obeyed", usual(), reclaim::a_budget_is_obeyed).under_faults_in_soak(),
        case!("Q12", "the tree is changed while pods come and go", quick(), tree_changes::under_the_pods, 120)
            .as_shipped()
            .under_faults_in_soak(),
        case!("Q12-1000", "the same for a thousand pods", quick(), tree_changes::under_the_pods, 1000).within(secs(1200)).only_in_soak(),
        case!("Q14", "200 queues, 500 waiting pods: the budget of a cycle, and memory", quick(), tree_large::backlog, SMALL)
            .under_faults_in_soak(),
        case!("Q14-2000", "2,000 queues, 5,000 waiting pods", quick(), tree_large::backlog, LARGE).within(secs(1800)).only_in_soak(),
        case!("G1", "PodGroups whose members ended hold no empty queue", usual(), gang_rules::what_ended_holds_nothing)
            .under_faults_in_soak(),
        case!("G2", "the second wave of a Job starts whole", usual(), gang_rules::a_second_wave_starts_whole).under_faults_in_soak(),
        case!("G3", "as many pods ask for nodes as their queue takes", usual(), gang_rules::as_many_ask_for_nodes_as_the_queue_takes)
            .under_faults_in_soak(),
        case!("G4", "members that request more than minResources are asked", usual(), gang_rules::the_members_are_asked)
            .under_faults_in_soak(),
        case!("G5", "what a driver states for its executors is kept", usual(), gang_rules::what_is_stated_beyond_the_minimum_is_kept)
            .under_faults_in_soak(),
        case!("G6", "Jobs whose pods succeed, fail and are retried", jobs_run_on(), jobs_that_end::jobs_come_and_end, 30).within(secs(300)),
        case!("G6-600", "the same for ten minutes", jobs_run_on(), jobs_that_end::jobs_come_and_end, 600).within(secs(1200)).only_in_soak(),
        case!("G7", "parts of a gang are placed whole", usual(), gang_rules::parts_are_placed_whole).under_faults_in_soak(),
        case!("U9", "the log of a healthy cluster is quiet", jobs_run_on(), quiet_logs::nothing_cries_wolf, 100).within(secs(360)),
        case!("U9-600", "the same for ten minutes", jobs_run_on(), quiet_logs::nothing_cries_wolf, 600).within(secs(1500)).only_in_soak(),
        case!("X2", "invalid amounts of queues", usual(), bad::queues::amounts).under_faults_in_soak(),
        case!("M1", "every panel and alert shows the right numbers, with a real Prometheus", usual(), panels::show_what_is_so),
        case!("M2", "the most important alerts fire by their fault, alone", usual(), alarms::fire_by_their_fault),
        case!("T1", "more than sixty attempts of a tenant to use what belongs to others", usual(), tenancy::takes_nothing),
        case!("U1", "output for users: columns, Events, the refused delete, metrics", usual(), visible::what_a_user_sees),
        case!(
            "D1",
            "every command of docs/getting-started.md prints what the page shows",
            Setup { programs: false, ..usual() },
            documents::first_ten_minutes
        ),
        case!("D2", "every command of docs/queues.md prints what the page shows", usual(), documents::team_queues),
        case!("M3", "metrics over TLS, for authorized clients only", usual(), endpoint::for_authorized_clients),
        case!("U6", "kubectl podgroup: why a gang waits, the tree, the nodes, the audit", usual(), plugin::why_it_waits),
        case!("U7", "kubectl podgroup: closing and opening queues, and output with few rights", usual(), plugin::queues_and_rights),
        case!(
            "U8",
            "kubectl podgroup: the scheduler through a port-forward, also with TLS; its version",
            usual(),
            plugin::through_a_port_forward
        ),
    ]);
    rows.into_iter().flat_map(Case::with_variant).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn case_ids_are_unique() {
        let mut ids: Vec<_> = super::table().iter().map(|case| case.id.to_lowercase()).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
