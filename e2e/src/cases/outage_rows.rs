//! Which cases end, freeze or cut off the processes? Rows K, W, S and R of the table of cases.

use super::{
    crowded, first_lists, handover, handover_costs, handover_in_a_gang, killed_at_requests, nominated, old_views, outages, outages_lease,
    outages_server, releases, restored, standby, standby_behind, starts,
};
use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::faults::Faults;
use crate::wait::secs;
use crate::world::Setup;

/// Returns these rows in the order of the table.
pub(super) fn rows() -> Vec<Case> {
    let usual = Setup::default;
    let quick = || Setup { disable_qps_limits: true, ..Setup::default() };
    let crowd = || Setup { faults: Faults::Mix, replicas: true, ..Setup::default() };
    let aimed = || Setup { faults: Faults::Aimed, ..Setup::default() };
    vec![
        case!("K1", "kill -9 of the controller every second", usual(), outages::killed_every_second, 20),
        case!("K1-300", "the same for five minutes", usual(), outages::killed_every_second, 300).within(secs(1200)).only_in_soak(),
        case!("K1-slow", "kill -9 between the steps of a PodGroup's deletion", usual(), outages::killed_while_retiring, 20).only_in_soak(),
        case!("K1-slow-200", "the same two hundred times", usual(), outages::killed_while_retiring, 200).within(secs(1800)).only_in_soak(),
        case!("K1-elected", "kill -9 of the leader, with the election", usual(), outages::leaders_killed),
        case!("K2", "two controllers that both believe they lead", quick(), outages::two_believe_they_lead),
        case!("K3", "the API server is killed and started again", usual(), outages_server::api_server_restarts),
        case!("K4", "etcd is killed and started again", usual(), outages_server::etcd_restarts),
        case!("K5", "the API server hangs for 5 s", usual(), outages_server::api_server_hangs),
        case!("K5-long", "the API server hangs for 30 s", usual(), outages_server::api_server_hangs_long).only_in_soak(),
        case!("K6", "the leader loses the Lease during its writes", usual(), outages_lease::lease_taken_away),
        case!("K7", "the leader's clock jumps", usual(), outages_lease::clock_jumps),
        case!("K7-two", "two replicas with different clocks", usual(), outages_lease::clocks_apart).only_in_soak(),
        case!("K8", "a second release that serves another scheduler", usual(), releases::each_its_own),
        case!("K9", "a standby scheduler is warm, and takes over", usual(), standby::warm).as_shipped(),
        case!("K10", "root and default are made at the start, whichever list is complete last", aimed(), starts::queues_at_the_start),
        case!("W1", "the scheduler's watch of queues says nothing while a capability is lowered", aimed(), old_views::silent_queues),
        case!("W2", "the scheduler's watch of nodes says nothing while a node is cordoned", aimed(), old_views::silent_nodes)
            .only_in_soak(),
        case!("W3", "the scheduler's watch of queues repeats a version while a capability is lowered", aimed(), old_views::repeated_queues),
        case!("S1", "the leader ends while the standby's watch of pods says nothing", usual(), standby_behind::in_pods),
        case!("S2", "the leader ends while the standby's watch of nodes says nothing", usual(), standby_behind::in_nodes),
        case!("S3", "the leader ends while the standby's watch of queues says nothing", usual(), standby_behind::in_queues),
        case!("S4", "the first lists of a fresh leader are old: nodes, pods, queues", aimed(), first_lists::are_old),
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
            "K10-elected",
            "the same where the lease is held before the pods are listed",
            aimed(),
            starts::queues_at_the_start_of_a_leader
        ),
        case!(
            "K12",
            "full nodes and queues under faults, while one of two replicas is stopped, killed or frozen",
            crowd(),
            crowded::two_replicas,
            75
        )
        .as_shipped(),
        case!("K12-600", "the same for ten minutes", crowd(), crowded::two_replicas, 600).within(secs(1200)).as_shipped().only_in_soak(),
        case!(
            "K21",
            "a scheduler that ends waits for its binding, and the next one knows it",
            aimed(),
            handover::stopped,
            handover::Room::Node
        ),
        case!("K21-queue", "the same with one queue", aimed(), handover::stopped, handover::Room::Queue),
        case!("K21-long", "a scheduler that ends without the outcome of its binding keeps the lease", aimed(), handover::stopped_in_vain),
        case!(
            "K22",
            "a binding of a killed scheduler arrives after the takeover: one node",
            aimed(),
            handover::killed,
            handover::Room::Node
        ),
        case!("K22-queue", "the same with one queue", aimed(), handover::killed, handover::Room::Queue),
        case!("K23", "a binding of a frozen scheduler arrives after the takeover", aimed(), handover::frozen, handover::Room::Node),
        case!("K23-queue", "the same with one queue", aimed(), handover::frozen, handover::Room::Queue).only_in_soak(),
        case!("K28", "a leader is cut off, and returns when the standby leads", aimed(), handover::cut_off, handover::Room::Node),
        case!("K28-queue", "the same with one queue", aimed(), handover::cut_off, handover::Room::Queue).only_in_soak(),
        case!("K24", "without election, bindings of a gang of 40 arrive after two restarts", aimed(), handover_in_a_gang::killed_in_a_gang),
        case!(
            "K24-queue",
            "without election, bindings arrive after two restarts in a queue that a gang of 34 has filled",
            aimed(),
            handover_in_a_gang::killed_beside_a_rival
        ),
        case!("K25-100", "what a handover costs beside 100 waiting pods", aimed(), handover_costs::costs, 100).only_in_soak(),
        case!("K25", "the same beside 1,000", aimed(), handover_costs::costs, 1000).only_in_soak(),
        case!("K25-10000", "the same beside 10,000", aimed(), handover_costs::costs, 10_000).within(secs(1200)).only_in_soak(),
        case!("K26", "the leader is killed while the victims of a gang are leaving", usual(), nominated::kept, nominated::End::Killed),
        case!("K26-stopped", "the same with SIGTERM", usual(), nominated::kept, nominated::End::Stopped),
        case!("K26-gone", "the victims are gone before the next leader", usual(), nominated::kept, nominated::End::KilledAndVictimsGone),
        case!(
            "K26-half",
            "the leader is killed when half of the victims are evicted",
            aimed(),
            nominated::kept,
            nominated::End::KilledHalfway
        ),
        case!("K26-half-stopped", "the same with SIGTERM", aimed(), nominated::kept, nominated::End::StoppedHalfway).only_in_soak(),
        case!(
            "K27",
            "SIGKILL at some requests for a gang of 40, also with a node that is cordoned then",
            aimed(),
            killed_at_requests::each,
            killed_at_requests::Requests::Drawn(5, 2)
        )
        .within(secs(600)),
        case!("K27-all", "the same at every request", aimed(), killed_at_requests::each, killed_at_requests::Requests::Every)
            .within(secs(3600))
            .only_in_soak(),
    ]
}
