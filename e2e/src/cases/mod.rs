//! Which rows of the scenario table are run? This table; each case reads like its row.

mod bad;
mod compatibility;
mod endings;
mod flaps;
pub(crate) mod ledger;
pub(crate) mod lifecycle;
mod owners;
pub(crate) mod queues;
mod resizing;
mod rollouts;
mod selftest;
mod spec;
mod strangers;
mod tampered;
mod together;
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
        case!("L2", "flapping StatefulSets keep exactly one PodGroup, with the right owner", quick(), flaps::flapping),
        case!("L2-no-policy", "the same without the admission policy", Setup { admission_policy: false, ..quick() }, flaps::flapping),
        case!("L1-together", "Deployments and StatefulSets flap together at three paces", quick(), together::both_kinds),
        case!("L3", "a StatefulSet is made again under its name a hundred times", usual(), flaps::made_again),
        case!("L4", "a PodGroup that somebody deletes is back within seconds", usual(), lifecycle::deleted_by_hand),
        case!(
            "L4-no-policy",
            "the same without the admission policy",
            Setup { admission_policy: false, ..usual() },
            lifecycle::deleted_by_hand
        ),
        case!("L4-tampered", "what somebody does to the controller's own marks is put right", usual(), tampered::what_we_wrote),
        case!("L5", "group-min-member of a running Deployment is followed", usual(), lifecycle::min_member_followed),
        case!("L5-sources", "every source of every field is followed", usual(), spec::sources_followed),
        case!("L5-admin", "what an admin set stays until its source changes", usual(), spec::what_an_admin_set),
        case!("L6", "a pending StatefulSet is shrunk", usual(), spec::shrunk),
        case!("L7", "a rollout with maxSurge 1 of a full gang finishes", usual(), rollouts::surge_of_a_full_gang),
        case!("L7-corners", "rollouts of full gangs in all corners of the strategy", usual(), rollouts::corners),
        case!("L7-paused", "a rollout is paused in its middle, scaled, resumed and rolled back", usual(), rollouts::paused_in_the_middle),
        case!("L7-churn", "an autoscaler at work costs no write where nothing changes", quick(), resizing::churn),
        case!("L8", "an absurd group-min-member is said and delays nobody else", usual(), lifecycle::absurd_min_member),
        case!("L8-values", "values that are too large or make no sense", usual(), bad::sizes::values),
        case!("L8-revisions", "five hundred ReplicaSets of one Deployment cost nothing", quick(), bad::sizes::revisions),
        case!("L8-owners", "ownerReferences that lie", usual(), bad::lies::owners),
        case!("L8-taken", "a user's PodGroup under a generated name", usual(), bad::lies::a_name_that_is_taken),
        case!("L8-vanish", "owners that vanish between two calls", quick(), bad::endings::owners_that_vanish),
        case!("L8-finalizer", "finalizers on a PodGroup", usual(), bad::endings::finalizers),
        case!("L8-namespace", "a namespace that is being deleted", usual(), bad::endings::a_namespace),
        case!("L8-relabelled", "a pod whose labels no longer match", usual(), bad::strays::relabelled),
        case!("L14", "pods of another scheduler cost no API call", quick(), strangers::cost_nothing),
        case!("L15", "ten rollouts leave one PodGroup", usual(), rollouts::ten_rollouts),
        case!("L16", "an orphaned gang is adopted by its StatefulSet's successor", usual(), endings::orphaned_and_adopted),
        case!("L16-deployment", "a ReplicaSet is orphaned and adopted by another Deployment", usual(), tampered::another_deployment),
        case!("L17", "owners are orphaned while the controller is down", usual(), endings::orphaned_behind_the_controllers_back),
        case!("O1-stateful-ordered", "an OrderedReady StatefulSet is no gang, and says so", usual(), owners::stateful::one_after_the_other),
        case!("O1-stateful-parallel", "a Parallel StatefulSet is a gang of its size", usual(), owners::stateful::all_at_once),
        case!("O2-daemons", "a DaemonSet's pods do not wait for each other", usual(), owners::daemons::one_on_each_node),
        case!("O3-job", "a Job is a gang, completes, and holds nothing then", usual(), owners::jobs::completes),
        case!("O3-job-suspended", "a Job is suspended and resumed", usual(), owners::jobs::suspended),
        case!("O3-job-shrinks", "a Job's gang is as large as what it has left to do", usual(), owners::jobs::as_much_as_is_left),
        case!("O4-cron-job", "the Job of a CronJob, and what the CronJob is told", usual(), owners::batch::of_a_cron_job),
        case!("O5-bare", "a bare pod has a group of one", usual(), owners::others::bare_pods),
        case!("O6-operators", "pods and ReplicaSets of a controller that nobody knows", usual(), owners::others::operators),
        case!("O7-named", "templates that name a group of their own are left alone", usual(), owners::others::groups_of_their_own),
        case!("O7-named-later", "templates that come to name another group or scheduler", usual(), owners::others::change_of_mind),
        case!(
            "O6-operators-no-policy",
            "the same as O6 without the admission policy",
            Setup { admission_policy: false, ..usual() },
            owners::others::operators
        ),
        case!(
            "L8-relabelled-no-policy",
            "a pod whose labels no longer match, without the admission policy",
            Setup { admission_policy: false, ..usual() },
            bad::strays::relabelled
        ),
        case!("A1", "a node with 8 GPUs in use reports 6, 0 and 8", usual(), ledger::devices_fail_and_heal),
        case!("A3", "pods that no scheduler placed overfill a node", usual(), ledger::overfilled_from_outside),
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
