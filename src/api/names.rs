//! The keys and words of the API that other tools write and read, and ours. Nothing is spelled out anywhere else.

/// The annotation of a pod that names its PodGroup, in the pod's namespace.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// The older spelling of [`GROUP_NAME`]: read, never written.
pub const GROUP_NAME_OLD: &str = "scheduling.volcano.sh/group-name";
/// The annotation of an owner or its template that asks for a minMember.
pub const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// The annotation of an owner or its template that asks for minResources: a JSON object of quantities.
pub const MIN_RESOURCES: &str = "scheduling.volcano.sh/group-min-resources";
/// The annotation of an owner, a template or (as the fallback) a namespace that names the queue.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";
/// The annotation of a pod that names its task, which minTaskMember counts.
pub const TASK: &str = "volcano.sh/task-spec";
/// The annotation of a PodGroup or a pod, or else its label, that says whether others may take its place.
pub const PREEMPTABLE: &str = "volcano.sh/preemptable";
/// How [`PREEMPTABLE`] says yes, as Go reads it (`strconv.ParseBool`); where it is not there that is yes, and whatever else it says is no.
pub const YES: [&str; 6] = ["1", "t", "T", "TRUE", "true", "True"];
/// What `preemptionPolicy` of a pod or a PriorityClass says where nobody goes for it.
pub const PREEMPTS_NEVER: &str = "Never";
/// Every annotation of an owner that begins so is copied to its PodGroup.
pub const COPIED_PREFIX: &str = "volcano.sh/";

/// The annotation of a Queue that says whether it takes new groups: [`OPEN`] or [`CLOSED`].
pub const QUEUE_DESIRED_STATE: &str = "scheduling.volcano.sh/queue-desired-state";
/// A queue that takes new groups.
pub const OPEN: &str = "Open";
/// A queue that takes none.
pub const CLOSED: &str = "Closed";
/// A queue that takes none and in which something is still charged.
pub const CLOSING: &str = "Closing";

/// The queue of whoever names none.
pub const DEFAULT_QUEUE: &str = "default";
/// The implied parent of every queue that names none.
pub const ROOT_QUEUE: &str = "root";

/// What a generated PodGroup's name begins with; the owner's UID follows.
pub const GENERATED_PREFIX: &str = "podgroup-";

/// Whose pods we serve unless told otherwise.
pub const DEFAULT_SCHEDULER: &str = "podgroup-scheduler";

/// The field manager (and name in logs, leases and Events) of the controller.
pub const CONTROLLER: &str = "podgroup-controller";
/// The field manager (and name in logs, leases and Events) of the scheduler.
pub const SCHEDULER: &str = "podgroup-scheduler";

/// The condition of a PodGroup that waits; its reason is the code of the cause.
pub const WAITING: &str = "podgroup.dev/Waiting";
/// The annotation of each program's Lease that says of which version its holder is.
pub const VERSION: &str = "podgroup.dev/version";
/// The label of a PodGroup that says who made it; ours carry [`CONTROLLER`] there.
pub const MANAGED_BY: &str = "podgroup.dev/managed-by";
/// The label that the admission policy stamps on a pod beside [`GROUP_NAME`], so that people can list a group's pods.
pub const GROUP_LABEL: &str = "podgroup.dev/group";
/// The annotation that marks a PodGroup as retiring (design.md §3): only a marked one can be deleted.
pub const RETIRING: &str = "podgroup.dev/retiring";
/// The annotation that keeps the minMember that was asked for where it differs from the one in force.
pub const ASKED_MIN_MEMBER: &str = "podgroup.dev/asked-min-member";
/// The annotation that remembers what the controller last wrote, so that what an admin set stays until its source changes.
pub const APPLIED: &str = "podgroup.dev/applied";
/// The annotation that the binding writes onto a pod: the queue that it is charged to for good.
pub const CHARGED_QUEUE: &str = "podgroup.dev/queue";
