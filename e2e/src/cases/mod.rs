//! The table of all cases. Each case implements one row of the scenario table.

mod admitted;
mod alarms;
mod bad;
mod beside_others;
mod beside_volcano;
mod binds;
mod claims_change;
mod compatibility;
mod crowded;
mod deleted_queue;
mod dist;
mod documents;
mod endings;
mod endpoint;
mod faults;
mod flaps;
mod flooded;
mod foreign_crds;
mod foreign_pods;
mod gates;
mod handover;
mod handover_costs;
mod hanging_webhooks;
mod installs;
mod killed_at_requests;
mod killed_with_claims;
mod label_keys;
pub(crate) mod ledger;
mod levels;
pub(crate) mod lifecycle;
mod migration;
mod minimums;
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
mod reclaim;
mod recreated;
mod releases;
mod rendered;
mod requests;
mod resizing;
mod restored;
mod rights;
mod rollouts;
mod second_scheduler;
mod seen;
mod selftest;
mod spec;
mod standby;
mod standby_behind;
mod starts;
mod stateful;
mod tampered;
mod tenancy;
mod tied_claims;
mod tree;
mod tree_changes;
mod tree_large;
mod unbound_claims;
mod upgrades;
mod visible;
mod volumes;
mod waits;

use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::faults::Faults;
use crate::wait::{millis, secs};
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

/// Returns all cases in the order of the scenario table; the cases of the harness itself come first.
///
/// Counts of calls and durations of wrong states are checked without faults only, because a fault causes further calls and delays. So L8-revisions
/// and L7-churn, which check nothing else, never run under faults. Other cases run under faults and skip these checks.
pub fn table() -> Vec<Case> {
    let usual = Setup::default;
    let stock = || Setup { programs: false, kube_scheduler: true, ..Setup::default() };
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    let aimed = || Setup { faults: Faults::Aimed, ..Setup::default() };
    let mut rows = vec![
        case!("H1", "the harness: a real cluster runs a Deployment, also seen through a slow proxy", stock(), selftest::a_cluster_works),
        case!("H2", "the harness: nothing is left running after kill -9 of the runner", stock(), selftest::nothing_is_left_after_kill_9),
        case!("H3", "the fault proxy: each kind works as described", stock(), faults::each_kind_is_as_described),
        case!("C1", "objects written for Volcano keep every field", usual(), compatibility::objects_of_volcano_survive),
        case!("C2", "the chart passes its own check", Setup { kube_scheduler: false, ..stock() }, compatibility::chart).within(secs(600)),
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
        case!("L2", "flapping StatefulSets keep exactly one PodGroup, with the right owner", quick(), stateful::flapping)
            .under_faults_in_soak(),
        case!("L2-no-policy", "the same without the admission policy", Setup { admission_policy: false, ..quick() }, stateful::flapping)
            .only_in_soak()
            .under_faults_in_soak(),
        case!("L3", "a StatefulSet is deleted and recreated a hundred times", usual(), stateful::made_again)
            .as_shipped()
            .under_faults_in_soak(),
        case!("L4", "a PodGroup that a user deletes is back within seconds", usual(), lifecycle::deleted_by_hand).under_faults_in_soak(),
        case!(
            "L4-no-policy",
            "the same without the admission policy",
            Setup { admission_policy: false, ..usual() },
            lifecycle::deleted_by_hand
        )
        .under_faults_in_soak(),
        case!("L4-again", "another client deletes a PodGroup each time that it is created", usual(), recreated::less_and_less_often),
        case!("L5", "minMember follows group-min-member of a running Deployment", usual(), lifecycle::min_member_followed)
            .under_faults_in_soak(),
        case!("L7", "a rollout with maxSurge 1 of a full gang finishes", usual(), rollouts::surge_of_a_full_gang).under_faults_in_soak(),
        case!("L8", "an absurd group-min-member is reported and delays no other Deployment", usual(), lifecycle::absurd_min_member)
            .under_faults_in_soak(),
        case!("L15", "ten rollouts leave one PodGroup", usual(), rollouts::ten_rollouts).as_shipped().under_faults_in_soak(),
        case!("F-3x0s", "20 Deployments and 20 StatefulSets flap together 3 times", quick(), flaps::together, 3, secs(0))
            .under_faults_in_soak(),
        // The other pauses are in the soak: L1, L2 and the row above hold the same property every day.
        case!("F-3x500ms", "the same with half a second between", quick(), flaps::together, 3, millis(500))
            .only_in_soak()
            .also_under_faults(),
        case!("F-3x2s", "the same with two seconds between", quick(), flaps::together, 3, secs(2)).only_in_soak().also_under_faults(),
        case!("F-200x0s", "20 Deployments and 20 StatefulSets flap together 200 times", quick(), flaps::together, 200, secs(0))
            .within(secs(900))
            .only_in_soak()
            .also_under_faults(),
        case!("F-200x500ms", "the same with half a second between", quick(), flaps::together, 200, millis(500))
            .within(secs(900))
            .only_in_soak()
            .also_under_faults(),
        case!("F-200x2s", "the same with two seconds between", quick(), flaps::together, 200, secs(2))
            .within(secs(1800))
            .only_in_soak()
            .also_under_faults(),
        case!(
            "L4-tampered",
            "changes by a user to the controller's fields are reverted",
            usual(),
            tampered::controller_fields_are_restored
        )
        .under_faults_in_soak(),
        case!("L5-sources", "the PodGroup follows every source of every field", usual(), spec::sources_followed).under_faults_in_soak(),
        case!("L5-admin", "a field that an admin set stays until its source changes", usual(), spec::what_an_admin_set)
            .under_faults_in_soak(),
        case!("L6", "a pending StatefulSet gets a smaller template", usual(), spec::shrunk).under_faults_in_soak(),
        case!("L7-corners", "rollouts of full gangs with all limits of the strategy", usual(), rollouts::corners).under_faults_in_soak(),
        case!("L7-paused", "a rollout is paused, scaled, resumed and rolled back", usual(), rollouts::paused_in_the_middle)
            .under_faults_in_soak(),
        case!("L7-churn", "frequent scaling costs no write when minMember does not change", quick(), resizing::churn),
        case!("L8-values", "values that are too large or invalid", usual(), bad::sizes::values).under_faults_in_soak(),
        case!("L8-revisions", "five hundred ReplicaSets of one Deployment cost nothing", quick(), bad::sizes::revisions),
        case!("L8-owners", "false ownerReferences", usual(), bad::false_owners::owners).under_faults_in_soak(),
        case!("L8-taken", "a user's PodGroup under a generated name", usual(), bad::false_owners::a_name_that_is_taken)
            .under_faults_in_soak(),
        case!("L8-vanish", "owners that vanish between two calls", quick(), bad::endings::owners_that_vanish).under_faults_in_soak(),
        case!("L8-finalizer", "finalizers on a PodGroup", usual(), bad::endings::finalizers).under_faults_in_soak(),
        case!("L8-namespace", "a terminating namespace", usual(), bad::endings::a_namespace).under_faults_in_soak(),
        case!("L8-relabelled", "a pod whose labels no longer match", usual(), bad::relabelled::relabelled).under_faults_in_soak(),
        case!("L8-unseen", "an owned pod that neither selector nor watch shows keeps its PodGroup", aimed(), bad::relabelled::unseen),
        case!("L9", "a queue is created after the pods that name it", usual(), waits::queue_made_later, 3).under_faults_in_soak(),
        case!("L9-120", "the same two minutes later", usual(), waits::queue_made_later, 120).only_in_soak(),
        case!("L10", "a user's PodGroup stays Completed after its Job and uses nothing", usual(), waits::completed_stays)
            .under_faults_in_soak(),
        case!("L11", "a suspended Job frees its capacity for a waiting Job", usual(), waits::suspended_job_frees_capacity)
            .under_faults_in_soak(),
        case!(
            "L12",
            "a gang without members, or with failed members, is not satisfied",
            usual(),
            waits::an_empty_or_failed_gang_is_not_satisfied
        )
        .under_faults_in_soak(),
        case!("L13", "the condition Unschedulable ends when the gang runs", usual(), waits::condition_ends_with_the_waiting, 3)
            .under_faults_in_soak(),
        case!("L13-60", "the same after a minute", usual(), waits::condition_ends_with_the_waiting, 60).only_in_soak(),
        case!("L14", "pods of another scheduler cost no API call", quick(), foreign_pods::cost_nothing, 200).under_faults_in_soak(),
        case!("L14-1000", "the same for a thousand ReplicaSets", quick(), foreign_pods::cost_nothing, 1000)
            .within(secs(900))
            .only_in_soak(),
        case!("L16", "an orphaned gang is adopted by its StatefulSet's successor", usual(), endings::orphaned_and_adopted)
            .under_faults_in_soak(),
        case!("L16-deployment", "a ReplicaSet is orphaned and adopted by another Deployment", usual(), tampered::another_deployment)
            .under_faults_in_soak(),
        case!("L17", "owners are orphaned while the controller is down", usual(), endings::orphaned_while_the_controller_is_down)
            .under_faults_in_soak(),
        case!(
            "L18",
            "scheduling gates hold a gang back, which reserves nothing and is placed whole afterwards",
            usual(),
            gates::hold_a_gang_back
        )
        .under_faults_in_soak(),
        case!(
            "O1-stateful-ordered",
            "an OrderedReady StatefulSet is no gang, and an Event says so",
            usual(),
            owners::stateful::one_after_the_other
        )
        .under_faults_in_soak(),
        case!("O1-stateful-parallel", "a Parallel StatefulSet is a gang of its size", usual(), owners::stateful::all_at_once)
            .under_faults_in_soak(),
        case!("O2-daemons", "a DaemonSet's pods do not wait for each other", usual(), owners::daemons::one_on_each_node)
            .under_faults_in_soak(),
        case!("O3-job", "a Job is a gang, completes, and then uses nothing", usual(), owners::jobs::completes).under_faults_in_soak(),
        case!("O3-job-page", "the Job of docs/training.md waits whole, says why, and completes", usual(), owners::jobs::of_the_page)
            .under_faults_in_soak(),
        case!("O3-job-suspended", "a Job is suspended and resumed", usual(), owners::jobs::suspended).under_faults_in_soak(),
        case!("O3-job-shrinks", "minMember of a Job follows its remaining work", usual(), owners::jobs::follows_remaining_work)
            .under_faults_in_soak(),
        case!("O4-cron-job", "the Job of a CronJob, with Events on the CronJob", usual(), owners::batch::of_a_cron_job),
        case!("O5-bare", "a bare pod has a group of one", usual(), owners::others::bare_pods).under_faults_in_soak(),
        case!("O6-operators", "pods and ReplicaSets of an unknown kind of controller", usual(), owners::others::operators)
            .under_faults_in_soak(),
        case!("O7-named", "templates that name their own PodGroup are left alone", usual(), owners::others::groups_of_their_own)
            .under_faults_in_soak(),
        case!("O10", "a webhook names another PodGroup on the pods", usual(), owners::elsewhere::pods_name_another_group),
        case!("O7-named-later", "templates that change to another PodGroup or scheduler", usual(), owners::others::named_later)
            .under_faults_in_soak(),
        case!("O8-webhook", "pods whose scheduler a policy sets at creation", usual(), owners::webhook::names_the_scheduler)
            .under_faults_in_soak(),
        case!("O9", "a webhook for the PodGroups of one namespace hangs", usual(), hanging_webhooks::for_podgroups),
        case!("O11", "a flood of connections ends no liveness probe", usual(), flooded::probes_are_answered).as_shipped(),
        case!(
            "O6-operators-no-policy",
            "the same as O6 without the admission policy",
            Setup { admission_policy: false, ..usual() },
            owners::others::operators
        )
        .only_in_soak(),
        case!(
            "L8-relabelled-no-policy",
            "a pod whose labels no longer match, without the admission policy",
            Setup { admission_policy: false, ..usual() },
            bad::relabelled::relabelled
        )
        .only_in_soak(),
        case!("A2", "a second scheduler binds and deletes pods on the same nodes", quick(), second_scheduler::on_the_same_nodes, 10)
            .as_shipped()
            .under_faults_in_soak(),
        case!("A2-600", "the same for ten minutes", quick(), second_scheduler::on_the_same_nodes, 600).within(secs(1200)).only_in_soak(),
        case!(
            "A4-30000",
            "the same with 2,000 nodes and 30,000 pods",
            Setup { disable_qps_limits: true, ..aimed() },
            starts::lists_come_late,
            2000,
            15,
            8
        )
        .within(secs(3600))
        .only_in_soak(),
        case!("A7", "a running pod is resized past its queue's capability and back", usual(), requests::resized_in_place)
            .under_faults_in_soak(),
        case!("B1", "every binding of a gang fails in another way", aimed(), binds::every_binding_fails_differently),
        case!("B2", "a node refuses half of a gang", usual(), partial_binding::refused_on_one_node).under_faults_in_soak(),
        case!("B3", "a node is deleted between decision and binding", aimed(), binds::node_gone),
        case!("B6", "a webhook for the bindings of one namespace has no backend", usual(), binds::webhook_without_backend),
    ];
    rows.extend(placement_rows::rows());
    rows.extend(outage_rows::rows());
    rows.extend(operators::rows());
    rows.extend([
        case!("Q1", "the parent's capability blocks a sibling's gang, with a reason", usual(), queues::parent_blocks)
            .under_faults_in_soak(),
        case!("Q2", "the same for PodGroups without minResources", usual(), queues::parent_blocks_without_min_resources)
            .under_faults_in_soak(),
        case!(
            "Q5",
            "a PodGroup that fits no node blocks its queue only until its admission timeout",
            usual(),
            reclaim::unplaceable_group_blocks_its_queue_only_until_the_timeout
        )
        .under_faults_in_soak(),
        case!("Q6", "a queue gets its deserved share back by reclaim", usual(), reclaim::deserved_share_is_reclaimed)
            .under_faults_in_soak(),
        case!("Q6-budget", "a PodDisruptionBudget is obeyed", usual(), reclaim::a_budget_is_obeyed).under_faults_in_soak(),
        case!("Q6-foreign", "the share is a part of what another scheduler leaves", usual(), beside_others::share_is_reclaimed)
            .under_faults_in_soak(),
        case!("Q7-foreign", "a guarantee is kept out of what another scheduler leaves", usual(), beside_others::guarantee_stays_free)
            .under_faults_in_soak(),
        case!("Q9", "a gang that is being bound counts once", aimed(), reclaim::binding_gang_counts_once),
        case!("Q11", "fifo waits for a PodGroup that can fit", usual(), reclaim::fifo_waits_for_what_can_fit).under_faults_in_soak(),
        case!("Q20", "members beyond the minimum leave room for admitted PodGroups", usual(), minimums::surplus_leaves_room),
        case!("Q21", "the place of a lost member is kept for its gang", usual(), minimums::lost_member_keeps_its_place),
        case!("Q21-stopped", "the same while the leader ends: SIGTERM", usual(), minimums::lost_at_a_handover, minimums::End::Stopped),
        case!("Q21-killed", "the same with SIGKILL", usual(), minimums::lost_at_a_handover, minimums::End::Killed),
        case!("Q22", "fifo passes a PodGroup that no node can take", usual(), minimums::fifo_passes_what_no_node_can_take)
            .under_faults_in_soak(),
        case!("Q23", "an admission back-off ends when a member disappears", usual(), minimums::back_off_ends_with_its_reason),
        case!("Q3", "PodGroups in root and in parent queues block only themselves", usual(), tree::groups_in_root_and_parent_queues)
            .under_faults_in_soak(),
        case!("Q4", "a queue's parent is deleted and comes back", usual(), tree::parent_deleted).under_faults_in_soak(),
        case!("Q4-deleted", "a deleted queue keeps its place until its pods are gone", usual(), deleted_queue::keeps_its_place)
            .under_faults_in_soak(),
        case!("Q7", "the guarantee of an idle queue stays reserved", usual(), tree::guaranteed_and_idle).under_faults_in_soak(),
        case!("Q8", "a capability of 0 is 0, and pods are counted", usual(), tree::zero_is_zero).under_faults_in_soak(),
        case!("Q10", "no pod is bound in a closed queue, not even a best-effort pod", usual(), tree::closed).under_faults_in_soak(),
        case!("Q12", "the tree is changed while pods come and go", quick(), tree_changes::under_the_pods, 120)
            .as_shipped()
            .under_faults_in_soak(),
        case!("Q12-1000", "the same for a thousand pods", quick(), tree_changes::under_the_pods, 1000).within(secs(1200)).only_in_soak(),
        case!(
            "Q13",
            "the condition names the limiting one of three levels and dimensions",
            usual(),
            levels::every_level_in_every_dimension
        )
        .under_faults_in_soak(),
        case!("Q14", "200 queues, 500 waiting pods: the budget of a cycle, and memory", quick(), tree_large::backlog, SMALL)
            .under_faults_in_soak(),
        case!("Q14-2000", "2,000 queues, 5,000 waiting pods", quick(), tree_large::backlog, LARGE).within(secs(1800)).only_in_soak(),
        case!("Q15", "a higher priority preempts a whole gang, and evictions are refused once", aimed(), preempted::by_priority),
        case!(
            "Q16",
            "an inner queue reclaims what another branch borrowed, and no other pod is evicted",
            usual(),
            preempted::across_two_levels
        )
        .as_shipped()
        .under_faults_in_soak(),
        case!("X1", "queues below themselves, missing parents, guarantees above the parent's", usual(), bad::queues::shapes)
            .under_faults_in_soak(),
        case!("X2", "invalid amounts of queues", usual(), bad::queues::amounts).under_faults_in_soak(),
        case!("X3", "a tree 64 deep, and two hundred siblings", usual(), bad::queues::deep_and_wide, 200),
        case!("X3-5000", "the same with five thousand", usual(), bad::queues::deep_and_wide, 5000).only_in_soak(),
        case!("X4", "nodes with negative amounts, or with thousands of resources", usual(), bad::capacities::nodes).under_faults_in_soak(),
        case!("X5", "pods that request too much, nothing, or an unknown resource", usual(), bad::capacities::pods).under_faults_in_soak(),
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
        case!(
            "N1",
            "50 Deployments to 0 and back: one create each, five calls to delete one, no pod written",
            quick(),
            crate::load::case::writes_per_deployment
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
