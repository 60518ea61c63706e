//! The keys and words of the API, as constants. No other file contains these texts.

/// The annotation of a pod that names its PodGroup, in the pod's namespace.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// The older spelling of [`GROUP_NAME`]: read, never written.
pub const GROUP_NAME_OLD: &str = "scheduling.volcano.sh/group-name";
/// The annotation of an owner or its template that asks for a minMember.
pub const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// The annotation of an owner or its template that asks for minResources: a JSON object of quantities.
pub const MIN_RESOURCES: &str = "scheduling.volcano.sh/group-min-resources";
/// The annotation of an owner, a pod template or a namespace that names the queue. The namespace is the fallback.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";
/// The annotation of a pod that names its task, which minTaskMember counts.
pub const TASK: &str = "volcano.sh/task-spec";
/// The annotation of a PodGroup or a pod, or otherwise its label, that says whether it can be preempted.
pub const PREEMPTABLE: &str = "volcano.sh/preemptable";
/// The annotation of a pod that asks Volcano to align its resources to NUMA nodes of a machine; every policy but [`NUMA_SOFT`] is a hard constraint.
pub const NUMA_POLICY: &str = "volcano.sh/numa-topology-policy";
/// The policies of [`NUMA_POLICY`] that keep a pod from no node.
pub const NUMA_SOFT: [&str; 3] = ["", "none", "best-effort"];
/// The annotation of a pod that Volcano may place on nodes that others take back at times of the day.
pub const REVOCABLE_ZONE: &str = "volcano.sh/revocable-zone";
/// The annotation of a pod, or copied to a PodGroup, from which Volcano's controller makes `spec.networkTopology.mode`; hard unless it says soft.
pub const TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
/// The same for `spec.networkTopology.highestTierAllowed`.
pub const TOPOLOGY_TIER: &str = "volcano.sh/network-topology-highest-tier";
/// The annotation, or else the label, of a pod that Volcano keeps from preemption for so long after it started.
pub const COOLDOWN: &str = "volcano.sh/cooldown-time";
/// The annotation of a pod or PodGroup that bounds how many members Volcano preempts.
pub const JDB_MIN_AVAILABLE: &str = "volcano.sh/jdb-min-available";
/// See [`JDB_MIN_AVAILABLE`].
pub const JDB_MAX_UNAVAILABLE: &str = "volcano.sh/jdb-max-unavailable";
/// The prefixes of Volcano's device resources. Pods share one card, or Volcano's scheduler chooses the cards and writes them onto the pod.
pub const SHARED_DEVICES: [&str; 3] = ["volcano.sh/vgpu-", "volcano.sh/gpu-memory", "volcano.sh/gpu-number"];
/// The resources by whole names that Volcano's scheduler shares out of Ascend NPUs: virtual NPUs of MindCluster.
pub const SHARED_NPUS: [&str; 1] = ["huawei.com/npu-core"];
/// The prefix and the suffix of the memory of virtual NPUs that Volcano's scheduler shares out of Ascend NPUs. The model is between them.
pub const SHARED_NPU_MEMORY: [&str; 2] = ["huawei.com/Ascend", "-memory"];
/// The label of a node that names its node group.
pub const NODE_GROUP: &str = "volcano.sh/nodegroup-name";
/// The values of [`PREEMPTABLE`] that mean yes, as in Go's `strconv.ParseBool`. A missing value also means yes; any other value means no.
pub const YES: [&str; 6] = ["1", "t", "T", "TRUE", "true", "True"];
/// The `preemptionPolicy` of a pod or a PriorityClass that may not preempt other pods.
pub const PREEMPTS_NEVER: &str = "Never";
/// The prefix of the annotations of an owner that are copied to its PodGroup.
pub const COPIED_PREFIX: &str = "volcano.sh/";

/// The annotation of a Queue that says whether it admits new PodGroups: [`OPEN`] or [`CLOSED`].
pub const QUEUE_DESIRED_STATE: &str = "scheduling.volcano.sh/queue-desired-state";
/// The state of a queue that admits new PodGroups.
pub const OPEN: &str = "Open";
/// The state of a queue that admits no new PodGroups.
pub const CLOSED: &str = "Closed";
/// The state of a queue that admits no new PodGroups and still has charged pods.
pub const CLOSING: &str = "Closing";

/// The queue of a PodGroup that names none.
pub const DEFAULT_QUEUE: &str = "default";
/// The parent of a queue that names none.
pub const ROOT_QUEUE: &str = "root";

/// The annotation of a pod template or pod that asks for one PodGroup for the pods of several owners: [`GANG_OF_JOBSET`] or [`GANG_OF_LWS`].
pub const GANG: &str = "podgroup.dev/gang";
/// The value of [`GANG`] that asks for one PodGroup for all Jobs of a JobSet.
pub const GANG_OF_JOBSET: &str = "jobset";
/// The label of a Job or pod that a JobSet created, with the name of the JobSet.
pub const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// The label of a Job or pod that a JobSet created, with the number of restarts of the JobSet before.
pub const JOBSET_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
/// The label of a Job or pod that a JobSet created, with the number of Jobs of the whole JobSet.
pub const JOBSET_JOBS: &str = "jobset.sigs.k8s.io/global-replicas";
/// The label of a Job or pod that a JobSet created, with the position of the Job in the JobSet.
pub const JOBSET_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
/// The prefix of the name of the PodGroup of a JobSet. The name of the JobSet and its attempt follow.
pub const JOBSET_PREFIX: &str = "jobset-";

/// The value of [`GANG`] that asks for one PodGroup for each group of a LeaderWorkerSet: a leader and its workers.
pub const GANG_OF_LWS: &str = "leaderworkerset";
/// The label of a pod that a LeaderWorkerSet created, with the name of the LeaderWorkerSet.
pub const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
/// The label of a pod that a LeaderWorkerSet created, with the number of its group. A webhook writes it onto leaders.
pub const LWS_GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// The label of a pod that a LeaderWorkerSet created, with its position in the group: `0` is the leader.
pub const LWS_WORKER: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// The annotation of a pod that a LeaderWorkerSet created, with the number of pods of a group.
pub const LWS_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
/// The label of a pod that a LeaderWorkerSet created, with the revision of its template.
pub const LWS_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// The prefix of the name of the PodGroup of a group of a LeaderWorkerSet. The name of the LeaderWorkerSet, the number of the group and the
/// revision follow.
pub const LWS_PREFIX: &str = "lws-";

/// The prefix of the name of a generated PodGroup. The UID of the owner follows.
pub const GENERATED_PREFIX: &str = "podgroup-";

/// The scheduler of pods that name none: the name of kube-scheduler.
pub const KUBE_SCHEDULER: &str = "default-scheduler";
/// The scheduler name that is served by default.
pub const DEFAULT_SCHEDULER: &str = "podgroup-scheduler";

/// The field manager (and name in logs, leases and Events) of the controller.
pub const CONTROLLER: &str = "podgroup-controller";
/// The field manager (and name in logs, leases and Events) of the scheduler.
pub const SCHEDULER: &str = "podgroup-scheduler";

/// The condition that the minimum of a PodGroup has nodes. It stays, with another status, when that is over.
pub const SCHEDULED: &str = "Scheduled";
/// The phase of a PodGroup when all its pods have ended.
pub const COMPLETED: &str = "Completed";
/// The condition of a PodGroup that waits; its reason is the code of the cause.
pub const WAITING: &str = "podgroup.dev/Waiting";
/// The annotation of the Lease of a program with the version of the leader.
pub const VERSION: &str = "podgroup.dev/version";
/// The annotation of the scheduler's Lease that says that its last holder had nothing under way when it gave the Lease up. The value is the
/// number of the Lease's transitions.
pub const DRAINED: &str = "podgroup.dev/drained";
/// The condition of a pod that a new leader writes after an unclean handover, so that earlier bindings of the pod are refused.
pub const LEADER_CHANGED: &str = "podgroup.dev/LeaderChanged";
/// The condition of a pod with a binding that was not answered and is not wanted any more: the write makes it void.
pub const BINDING_WITHDRAWN: &str = "podgroup.dev/BindingWithdrawn";
/// The label of a PodGroup with the program that manages it. The controller writes [`CONTROLLER`].
pub const MANAGED_BY: &str = "podgroup.dev/managed-by";
/// The label of a pod with the name of its PodGroup, so that people can list the pods of a PodGroup. It is written together with [`GROUP_NAME`].
pub const GROUP_LABEL: &str = "podgroup.dev/group";
/// The annotation that marks a PodGroup as retiring (`src/lifecycle/mod.rs` draws its life). The controller deletes only a marked PodGroup.
pub const RETIRING: &str = "podgroup.dev/retiring";
/// The annotation with the minMember that was asked for, if it differs from the minMember of the PodGroup.
pub const ASKED_MIN_MEMBER: &str = "podgroup.dev/asked-min-member";
/// The annotation of a PodGroup with the number of its pods that are to succeed in all, those that did among them. The controller writes it for
/// gangs of Jobs.
pub const COMPLETIONS: &str = "podgroup.dev/completions";

/// On a PodGroup: how many owners of its pods are not created yet. Until they are, its minMember is not known, and none of its pods starts.
pub const AWAITED_OWNERS: &str = "podgroup.dev/awaited-owners";
/// The annotation with the fields that the controller wrote last. A field that an admin set stays until its source changes.
pub const APPLIED: &str = "podgroup.dev/applied";
/// The annotation of a bound pod with the queue that it is charged to. It never changes.
pub const CHARGED_QUEUE: &str = "podgroup.dev/queue";
/// The annotation of a bound pod with the path of queues, from `root` down to [`CHARGED_QUEUE`], as it was when the pod was bound.
pub const QUEUE_PATH: &str = "podgroup.dev/queue-path";
