//! Which cases end, freeze or cut off the processes? Rows K, W, S and R of the table of cases.

use super::{
    crowded, handover, handover_costs, killed_at_requests, nominated, old_views, outages, outages_lease, outages_server, releases,
    restored, standby, standby_behind,
};
use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::faults::Faults;
use crate::wait::secs;
use crate::world::Setup;

/// Returns these rows in the order of the table.
pub(super) fn rows() -> Vec<Case> {
    let usual = Setup::default;
    let crowd = || Setup { faults: Faults::Mix, replicas: true, ..Setup::default() };
    let scheduler_faults = || Setup { faults: Faults::Aimed, ..Setup::default() };
    vec![
        case!("K1", "kill -9 of the controller every second", usual(), outages::killed_every_second, 20),
        case!("K1-300", "the same for five minutes", usual(), outages::killed_every_second, 300).within(secs(1200)).only_in_soak(),
        case!("K1-slow", "kill -9 between the steps of a PodGroup's deletion", usual(), outages::killed_while_retiring, 20).only_in_soak(),
        case!("K1-slow-200", "the same two hundred times", usual(), outages::killed_while_retiring, 200).within(secs(1800)).only_in_soak(),
        case!("K1-elected", "kill -9 of the leader, with the election", usual(), outages::leaders_killed),
        case!("K3", "the API server is killed and started again", usual(), outages_server::api_server_restarts),
        case!("K4", "etcd is killed and started again", usual(), outages_server::etcd_restarts),
        case!("K5", "the API server hangs for 5 s", usual(), outages_server::api_server_hangs),
        case!("K5-long", "the API server hangs for 30 s", usual(), outages_server::api_server_hangs_long).only_in_soak(),
        case!("K6", "the leader loses the Lease during its writes", usual(), outages_lease::lease_taken_away),
        case!("K7", "the leader's clock jumps", usual(), outages_lease::clock_jumps),
        case!("K7-two", "two replicas with different clocks", usual(), outages_lease::clocks_apart).only_in_soak(),
        case!("K8", "a second release that serves another scheduler", usual(), releases::each_its_own),
        case!("K9", "a standby scheduler is warm, and takes over", usual(), standby::warm).as_shipped(),
        case!("W2", "the scheduler's watch of nodes says nothing while a node is cordoned", scheduler_faults(), old_views::silent_nodes)
            .only_in_soak(),
        case!("S1", "the leader ends while the standby's watch of pods says nothing", usual(), standby_behind::in_pods),
        case!("R1", "etcd is restored from a backup while both programs run", Setup { programs: false, ..usual() }, restored::by_default),
        case!("R1-kept", "the same with a lease that outlives the outage", Setup { programs: false, ..usual() }, restored::with_election),
        case!("R2", "the same without leader election", Setup { programs: false, ..usual() }, restored::without_election)
            .within(secs(600))
            .only_in_soak(),
        case!(
            "R2-busy",
            "the same while other clients write more than the backup lacks",
            Setup { programs: false, ..usual() },
            restored::unnoticed
        )
        .within(secs(600)),
        case!(
            "R2-passed",
            "the same while they do so when the first lists have been refused",
            Setup { programs: false, ..usual() },
            restored::passed
        )
        .within(secs(600))
        .only_in_soak(),
        case!(
            "K12",
            "full nodes and queues under faults, while one of two replicas is stopped, killed or frozen",
            crowd(),
            crowded::two_replicas,
            75
        )
        .as_shipped(),
        case!("K12-600", "the same for ten minutes", crowd(), crowded::two_replicas, 600).within(secs(1200)).as_shipped().only_in_soak(),
        case!("K21", "a scheduler that ends waits for its binding, and the next one knows it", scheduler_faults(), handover::stopped),
        case!("K22", "a binding of a killed scheduler arrives after the takeover: one node", scheduler_faults(), handover::killed),
        case!("K23", "a binding of a frozen scheduler arrives after the takeover", scheduler_faults(), handover::frozen),
        case!("K28", "a leader is cut off, and returns when the standby leads", scheduler_faults(), handover::cut_off),
        case!("K25-100", "what a handover costs beside 100 waiting pods", scheduler_faults(), handover_costs::costs, 100).only_in_soak(),
        case!("K25", "the same beside 1,000", scheduler_faults(), handover_costs::costs, 1000).only_in_soak(),
        case!("K25-10000", "the same beside 10,000", scheduler_faults(), handover_costs::costs, 10_000).within(secs(1200)).only_in_soak(),
        case!("K26", "the leader is killed while the victims of a gang are leaving", usual(), nominated::kept),
        case!(
            "K27",
            "SIGKILL at some requests for a gang of 40, also with a node that is cordoned then",
            scheduler_faults(),
            killed_at_requests::each,
            killed_at_requests::Requests::Drawn(2, 1)
        )
        .within(secs(600)),
    ]
}
