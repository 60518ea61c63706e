//! Which rows of the scenario table are run? This table; each case reads like its row.

mod admitted;
mod alarms;
mod bad;
mod behind;
mod binds;
mod compatibility;
mod dist;
mod documents;
mod endings;
mod endpoint;
mod faults;
mod flaps;
mod guests;
mod half;
mod halves;
mod installs;
pub(crate) mod ledger;
mod levels;
pub(crate) mod lifecycle;
mod moving;
mod outages;
mod outages_lease;
mod outages_load;
mod outages_server;
mod owed;
mod owners;
mod panels;
mod panels_wanted;
mod plugin;
mod plugin_secure;
mod plugin_shown;
mod preempted;
pub(crate) mod queues;
mod releases;
mod rendered;
mod requests;
mod resizing;
mod rights;
mod rivals;
mod rollouts;
mod seen;
mod selftest;
mod spec;
mod standby;
mod starts;
mod stateful;
mod strangers;
mod tampered;
mod tenancy;
mod tree;
mod tree_changes;
mod tree_large;
mod upgrades;
mod visible;
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

/// All cases, in the order of the scenario table; those that try the harness itself come first. What counts calls, or measures how long something was wrong, is run
/// without faults only: a list that is read again is a call, and what is late by the mix's doing is late. So L8-revisions and L7-churn never are, which promise nothing but
/// counts; a row that promises more is, and asks for its counts only without.
pub fn table() -> Vec<Case> {
    let usual = Setup::default;
    let stock = || Setup { programs: false, kube_scheduler: true, ..Setup::default() };
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    let aimed = || Setup { faults: Faults::Aimed, ..Setup::default() };
    let rows = vec![
        case!("H1", "the harness: a real cluster runs a Deployment, also seen through a slow proxy", stock(), selftest::a_cluster_works),
        case!("H2", "the harness: nothing is left running after kill -9 of the runner", stock(), selftest::nothing_is_left_after_kill_9),
        case!("H3", "the fault proxy: each kind is seen as promised", stock(), faults::each_kind_is_as_promised),
        case!("C1", "objects written for Volcano survive whole", usual(), compatibility::objects_of_volcano_survive),
        case!("C2", "the chart does what it says", Setup { kube_scheduler: false, ..stock() }, compatibility::chart).within(secs(600)),
        case!(
            "C3",
            "each program keeps to its half beside Volcano's other one",
            Setup { programs: false, ..usual() },
            halves::beside_volcano
        ),
        case!(
            "C4",
            "a cluster without admission policies, and a right that is missing",
            Setup { programs: false, ..usual() },
            installs::something_is_missing
        ),
        case!("C5", "both programs on CRDs of Volcano's, older and newer", Setup { programs: false, ..usual() }, guests::crds_of_volcano),
        case!("C6", "rights to read and to write are taken away and given back", Setup { programs: false, ..usual() }, rights::are_missing),
        case!(
            "C7",
            "a real API server takes the chart's pods under the restricted standard, its monitors and its alerts",
            Setup { programs: false, ..usual() },
            admitted::by_a_real_api_server
        ),
        case!(
            "C8",
            "the commands of docs/from-volcano.md, there and back, lose no PodGroup and no Queue",
            Setup { programs: false, ..usual() },
            moving::there_and_back
        ),
        case!(
            "C9",
            "both programs run as the chart renders them, with every flag that a value turns on",
            Setup { programs: false, ..usual() },
            rendered::as_rendered
        ),
        case!(
            "C10",
            "an upgrade from a chart whose CRDs and templates are older, back, and again",
            Setup { programs: false, ..usual() },
            upgrades::from_an_older_chart
        ),
        case!(
            "C11",
            "release/dist.sh: what it makes is whole, of one version, and runs",
            Setup { programs: false, ..usual() },
            dist::made_and_run
        )
        .within(secs(900)),
        case!("L1", "flapping Deployments keep exactly one PodGroup, with the right owner", quick(), lifecycle::flapping)
            .also_under_faults(),
        case!("L1-no-policy", "the same without the admission policy", Setup { admission_policy: false, ..quick() }, lifecycle::flapping)
            .under_faults_in_soak(),
        case!("L2", "flapping StatefulSets keep exactly one PodGroup, with the right owner", quick(), stateful::flapping)
            .also_under_faults(),
        case!("L2-no-policy", "the same without the admission policy", Setup { admission_policy: false, ..quick() }, stateful::flapping)
            .only_in_soak()
            .under_faults_in_soak(),
        case!("L3", "a StatefulSet is made again under its name a hundred times", usual(), stateful::made_again).also_under_faults(),
        case!("L4", "a PodGroup that somebody deletes is back within seconds", usual(), lifecycle::deleted_by_hand).also_under_faults(),
        case!(
            "L4-no-policy",
            "the same without the admission policy",
            Setup { admission_policy: false, ..usual() },
            lifecycle::deleted_by_hand
        )
        .under_faults_in_soak(),
        case!("L5", "group-min-member of a running Deployment is followed", usual(), lifecycle::min_member_followed).also_under_faults(),
        case!("L7", "a rollout with maxSurge 1 of a full gang finishes", usual(), rollouts::surge_of_a_full_gang).also_under_faults(),
        case!("L8", "an absurd group-min-member is said and delays nobody else", usual(), lifecycle::absurd_min_member).also_under_faults(),
        case!("L15", "ten rollouts leave one PodGroup", usual(), rollouts::ten_rollouts).also_under_faults(),
        case!("F-3x0s", "20 Deployments and 20 StatefulSets flap together 3 times", quick(), flaps::together, 3, secs(0))
            .also_under_faults(),
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
        case!("L4-tampered", "what somebody does to the controller's own marks is put right", usual(), tampered::what_we_wrote)
            .under_faults_in_soak(),
        case!("L5-sources", "every source of every field is followed", usual(), spec::sources_followed).under_faults_in_soak(),
        case!("L5-admin", "what an admin set stays until its source changes", usual(), spec::what_an_admin_set).under_faults_in_soak(),
        case!("L6", "a pending StatefulSet is shrunk", usual(), spec::shrunk).also_under_faults(),
        case!("L7-corners", "rollouts of full gangs in all corners of the strategy", usual(), rollouts::corners).under_faults_in_soak(),
        case!("L7-paused", "a rollout is paused in its middle, scaled, resumed and rolled back", usual(), rollouts::paused_in_the_middle)
            .under_faults_in_soak(),
        case!("L7-churn", "an autoscaler at work costs no write where nothing changes", quick(), resizing::churn),
        case!("L8-values", "values that are too large or make no sense", usual(), bad::sizes::values).under_faults_in_soak(),
        case!("L8-revisions", "five hundred ReplicaSets of one Deployment cost nothing", quick(), bad::sizes::revisions),
        case!("L8-owners", "ownerReferences that lie", usual(), bad::lies::owners).under_faults_in_soak(),
        case!("L8-taken", "a user's PodGroup under a generated name", usual(), bad::lies::a_name_that_is_taken).under_faults_in_soak(),
        case!("L8-vanish", "owners that vanish between two calls", quick(), bad::endings::owners_that_vanish).under_faults_in_soak(),
        case!("L8-finalizer", "finalizers on a PodGroup", usual(), bad::endings::finalizers).under_faults_in_soak(),
        case!("L8-namespace", "a namespace that is being deleted", usual(), bad::endings::a_namespace).under_faults_in_soak(),
        case!("L8-relabelled", "a pod whose labels no longer match", usual(), bad::strays::relabelled).under_faults_in_soak(),
        case!("L9", "a queue is made after the pods that name it", usual(), waits::queue_made_later, 3).under_faults_in_soak(),
        case!("L9-120", "the same two minutes after", usual(), waits::queue_made_later, 120).only_in_soak(),
        case!("L10", "a user's PodGroup stays Completed after its Job and holds nothing", usual(), waits::completed_stays)
            .under_faults_in_soak(),
        case!("L11", "a Job that is suspended makes room for the one that waits", usual(), waits::suspended_makes_room)
            .under_faults_in_soak(),
        case!("L12", "a gang of nobody, and of Failed members, is not satisfied", usual(), waits::nothing_is_not_enough)
            .under_faults_in_soak(),
        case!("L13", "a gang that has waited says so no longer", usual(), waits::no_longer_waits, 3).under_faults_in_soak(),
        case!("L13-60", "the same after a minute", usual(), waits::no_longer_waits, 60).only_in_soak(),
        case!("L14", "pods of another scheduler cost no API call", quick(), strangers::cost_nothing, 200).also_under_faults(),
        case!("L14-1000", "the same for a thousand ReplicaSets", quick(), strangers::cost_nothing, 1000).within(secs(900)).only_in_soak(),
        case!("L16", "an orphaned gang is adopted by its StatefulSet's successor", usual(), endings::orphaned_and_adopted)
            .also_under_faults(),
        case!("L16-deployment", "a ReplicaSet is orphaned and adopted by another Deployment", usual(), tampered::another_deployment)
            .under_faults_in_soak(),
        case!("L17", "owners are orphaned while the controller is down", usual(), endings::orphaned_behind_the_controllers_back)
            .also_under_faults(),
        case!("O1-stateful-ordered", "an OrderedReady StatefulSet is no gang, and says so", usual(), owners::stateful::one_after_the_other)
            .under_faults_in_soak(),
        case!("O1-stateful-parallel", "a Parallel StatefulSet is a gang of its size", usual(), owners::stateful::all_at_once)
            .under_faults_in_soak(),
        case!("O2-daemons", "a DaemonSet's pods do not wait for each other", usual(), owners::daemons::one_on_each_node)
            .under_faults_in_soak(),
        case!("O3-job", "a Job is a gang, completes, and holds nothing then", usual(), owners::jobs::completes).under_faults_in_soak(),
        case!("O3-job-suspended", "a Job is suspended and resumed", usual(), owners::jobs::suspended).under_faults_in_soak(),
        case!("O3-job-shrinks", "a Job's gang is as large as what it has left to do", usual(), owners::jobs::as_much_as_is_left)
            .under_faults_in_soak(),
        case!("O4-cron-job", "the Job of a CronJob, and what the CronJob is told", usual(), owners::batch::of_a_cron_job),
        case!("O5-bare", "a bare pod has a group of one", usual(), owners::others::bare_pods).under_faults_in_soak(),
        case!("O6-operators", "pods and ReplicaSets of a controller that nobody knows", usual(), owners::others::operators)
            .under_faults_in_soak(),
        case!("O7-named", "templates that name a group of their own are left alone", usual(), owners::others::groups_of_their_own)
            .under_faults_in_soak(),
        case!("O7-named-later", "templates that come to name another group or scheduler", usual(), owners::others::change_of_mind)
            .under_faults_in_soak(),
        case!("O8-webhook", "pods whose scheduler a policy names when they are made", usual(), owners::webhook::names_the_scheduler)
            .under_faults_in_soak(),
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
            bad::strays::relabelled
        )
        .only_in_soak(),
        case!("A1", "a node with 8 GPUs in use reports 6, 0 and 8", usual(), ledger::devices_fail_and_heal).under_faults_in_soak(),
        case!("A3", "pods that no scheduler placed overfill a node", usual(), ledger::overfilled_from_outside).under_faults_in_soak(),
        case!("A2", "a second scheduler binds and deletes pods on the same nodes", quick(), rivals::on_the_same_nodes, 10)
            .under_faults_in_soak(),
        case!("A2-600", "the same for ten minutes", quick(), rivals::on_the_same_nodes, 600).within(secs(1200)).only_in_soak(),
        case!("A4", "nothing is bound before all lists are there", aimed(), starts::lists_come_late, 3, 4, 2),
        case!(
            "A4-30000",
            "the same beside 2,000 nodes and 30,000 pods",
            Setup { disable_qps_limits: true, ..aimed() },
            starts::lists_come_late,
            2000,
            15,
            8
        )
        .within(secs(3600))
        .only_in_soak(),
        case!("A6", "a pod that is leaving holds its queue's room until it is gone", usual(), behind::leaving_still_counts)
            .under_faults_in_soak(),
        case!("A7", "a running pod is resized past its queue's capability and back", usual(), requests::resized_in_place)
            .under_faults_in_soak(),
        case!(
            "A8",
            "init containers, sidecars and overhead cost what the kubelet's rule says",
            usual(),
            requests::init_sidecar_and_overhead
        )
        .under_faults_in_soak(),
        case!("A9", "sums of large and odd amounts are exact", quick(), requests::large_and_odd).under_faults_in_soak(),
        case!("A10", "minMember of a running gang is raised while the watch of PodGroups lags", aimed(), behind::minimum_raised_unseen),
        case!("B1", "every binding of a gang goes wrong in another way", aimed(), binds::every_way_but_the_right_one),
        case!("B2", "a node refuses half of a gang", usual(), half::refused_on_one_node).under_faults_in_soak(),
        case!("B3", "a node goes between decision and binding", aimed(), binds::node_gone),
        case!("B4", "a pod goes between decision and binding", aimed(), binds::pod_gone),
        case!("B5", "another scheduler takes a pod between decision and binding", aimed(), binds::taken_by_another),
        case!("B6", "a webhook about the bindings of one namespace has no backend", usual(), binds::webhook_without_backend),
        case!("K1", "kill -9 of the controller every second", usual(), outages::killed_every_second, 20),
        case!("K1-300", "the same for five minutes", usual(), outages::killed_every_second, 300).within(secs(1200)).only_in_soak(),
        case!("K1-slow", "kill -9 between the steps of retirements", usual(), outages::killed_while_retiring, 20).only_in_soak(),
        case!("K1-slow-200", "the same two hundred times", usual(), outages::killed_while_retiring, 200).within(secs(1800)).only_in_soak(),
        case!("K1-elected", "kill -9 of whoever leads, with the election", usual(), outages::leaders_killed),
        case!("K2", "two controllers that both believe they lead", quick(), outages::two_believe_they_lead),
        case!("K3", "the API server is killed and started again", usual(), outages_server::api_server_restarts),
        case!("K4", "etcd is killed and started again", usual(), outages_server::etcd_restarts),
        case!("K5", "the API server stands still for 5 s", usual(), outages_server::api_server_hangs),
        case!("K5-long", "the API server stands still for 30 s", usual(), outages_server::api_server_hangs_long),
        case!("K6", "the Lease is taken away mid-write", usual(), outages_lease::lease_taken_away),
        case!("K7", "the leader's clock jumps", usual(), outages_lease::clock_jumps),
        case!("K7-two", "two replicas with different clocks", usual(), outages_lease::clocks_apart),
        case!("K8", "a second release that serves another scheduler", usual(), releases::each_its_own),
        case!("K9", "a scheduler that stands by is warm, and takes over", usual(), standby::warm),
        case!("K10", "root and default are made at the start, whichever list is complete last", aimed(), starts::queues_at_the_start),
        case!(
            "K10-elected",
            "the same where the lease is held before the pods are listed",
            aimed(),
            starts::queues_at_the_start_of_a_leader
        ),
        case!("Q1", "the parent's capability blocks a sibling's gang, which says so", usual(), queues::parent_blocks)
            .under_faults_in_soak(),
        case!("Q2", "the same for PodGroups without minResources", usual(), queues::parent_blocks_without_min_resources)
            .under_faults_in_soak(),
        case!("A5", "evictions go wrong once each, in every way", aimed(), owed::evictions_go_wrong_once),
        case!("Q5", "a group that fits no node holds its queue up for its patience only", usual(), owed::hopeless_holds_nobody_up)
            .under_faults_in_soak(),
        case!("Q6", "what is owed to a queue comes back by reclaim", usual(), owed::what_is_owed_comes_back).under_faults_in_soak(),
        case!("Q6-budget", "a disruption budget is obeyed", usual(), owed::a_budget_is_obeyed).under_faults_in_soak(),
        case!("Q9", "a gang that is being bound counts once", aimed(), owed::nothing_counts_twice),
        case!("Q11", "fifo waits for what can fit", usual(), owed::fifo_waits_for_what_can_fit).under_faults_in_soak(),
        case!("Q3", "PodGroups in root and in parent queues block themselves only", usual(), tree::groups_where_none_belong)
            .under_faults_in_soak(),
        case!("Q4", "a queue's parent is deleted and comes back", usual(), tree::parent_deleted).under_faults_in_soak(),
        case!("Q7", "what is guaranteed to an idle queue is kept for it", usual(), tree::guaranteed_and_idle).under_faults_in_soak(),
        case!("Q8", "a capability of 0 is 0, and pods are counted", usual(), tree::zero_is_zero).under_faults_in_soak(),
        case!("Q10", "closed queues bind nobody, best-effort pods included", usual(), tree::closed).under_faults_in_soak(),
        case!("Q12", "the tree is changed while pods come and go", quick(), tree_changes::under_the_pods, 120).under_faults_in_soak(),
        case!("Q12-1000", "the same for a thousand pods", quick(), tree_changes::under_the_pods, 1000).within(secs(1200)).only_in_soak(),
        case!(
            "Q13",
            "each of three levels binds in each of three dimensions, and is named",
            usual(),
            levels::every_level_in_every_dimension
        )
        .under_faults_in_soak(),
        case!("Q14", "two hundred queues, five hundred pods that wait: a cycle's budget, and memory", quick(), tree_large::backlog, SMALL)
            .under_faults_in_soak(),
        case!("Q14-2000", "two thousand queues, five thousand pods that wait", quick(), tree_large::backlog, LARGE)
            .within(secs(1800))
            .only_in_soak(),
        case!("Q15", "a higher priority takes the places of a whole gang, and evictions are refused once", aimed(), preempted::by_priority),
        case!("Q16", "an inner queue gets back what another branch borrowed, and nobody else goes", usual(), preempted::across_two_levels)
            .under_faults_in_soak(),
        case!("X1", "queues below themselves, orphans, and promises beyond the parent's", usual(), bad::queues::shapes)
            .under_faults_in_soak(),
        case!("X2", "amounts of queues that make no sense", usual(), bad::queues::amounts).under_faults_in_soak(),
        case!("X3", "a tree 64 deep, and five hundred siblings", usual(), bad::queues::deep_and_wide, 500),
        case!("X3-5000", "the same with five thousand", usual(), bad::queues::deep_and_wide, 5000).only_in_soak(),
        case!("X4", "nodes that report less than nothing, or thousands of resources", usual(), bad::supplies::nodes).under_faults_in_soak(),
        case!("X5", "pods that ask for too much, for nothing, or for what nobody has", usual(), bad::supplies::pods).under_faults_in_soak(),
        case!("M1", "every panel and alert shows what is so, to a real Prometheus", usual(), panels::show_what_is_so),
        case!("M2", "the alerts that matter most fire by their fault", usual(), alarms::fire_by_their_fault),
        case!("T1", "a tenant tries more than sixty ways to take what is not its own", usual(), tenancy::takes_nothing),
        case!("U1", "what people see: columns, Events, the refused delete, metrics", usual(), visible::what_a_user_sees),
        case!(
            "D1",
            "every command of docs/getting-started.md, from its first to its last, prints what it says",
            Setup { programs: false, ..usual() },
            documents::first_ten_minutes
        ),
        case!("M3", "metrics over TLS, for whom the cluster lets see them", usual(), endpoint::for_who_may),
        case!("U6", "kubectl podgroup: why a gang waits, the tree, the nodes, the audit", usual(), plugin::why_it_waits),
        case!("U7", "kubectl podgroup: queues closed and opened, and what one sees who may see little", usual(), plugin::queues_and_rights),
        case!(
            "U8",
            "kubectl podgroup: the scheduler is asked through a port-forward, with TLS too; its version",
            usual(),
            plugin::through_a_port_forward
        ),
        case!(
            "N1",
            "50 Deployments, to 0 and back: one creation each, three calls to retire one, no pod written to",
            quick(),
            crate::load::case::writes_per_deployment
        ),
    ];
    rows.into_iter().flat_map(Case::with_variant).collect()
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
