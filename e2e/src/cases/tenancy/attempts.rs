//! The attempts of a tenant to use what belongs to other tenants, and the expected outcome of each. A test compares their names with the table of
//! docs/tenancy.md.

use serde_json::{Value, json};

use super::OWN;
use super::request::{
    Attempt, DEFAULT, Expected, GROUPS, QUEUE, RBAC, create, delete, deployment, get, group, group_of, in_another_queue, patch, pod,
};
use crate::objects::NAMESPACE;

/// The objects of another tenant that the attempts aim at.
pub(super) struct Victim {
    /// The name of its PodGroup.
    pub(super) group: String,
    /// The name of its ReplicaSet, and the UID.
    pub(super) set: String,
    pub(super) uid: String,
    /// The UID of its Deployment.
    pub(super) deployment: String,
    /// The name of one of its pods.
    pub(super) pod: String,
}

/// Returns all attempts. `own` is a running pod of the tenant.
pub(super) fn all(victim: &Victim, own: &str) -> Vec<Attempt> {
    let mut rows = others_objects(victim);
    rows.extend(groups(victim));
    rows.extend(pods(victim, own));
    rows
}

/// The attempts that RBAC refuses.
fn others_objects(victim: &Victim) -> Vec<Attempt> {
    let refused = || Expected::Refused(RBAC);
    let groups = format!("{GROUPS}/namespaces/{NAMESPACE}/podgroups");
    let theirs = format!("{groups}/{}", victim.group);
    let queue = format!("{GROUPS}/queues/b");
    let new_queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "mine"}, "spec": {}});
    let body = |kind: &str, version: &str, metadata: Value| json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    let in_theirs = body("PodGroup", "scheduling.volcano.sh/v1beta1", json!({"name": "there"}));
    let eviction = body("Eviction", "policy/v1", json!({"name": victim.pod, "namespace": NAMESPACE}));
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let admin = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "use-b-too"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "use-b"}, "subjects": [],
    });
    let accounts = "/api/v1/namespaces/podgroup-system/serviceaccounts";
    let service = "/api/v1/namespaces/podgroup-system/services/podgroup-scheduler:http-metrics/proxy";
    let forward = "/api/v1/namespaces/podgroup-system/pods/podgroup-scheduler-0/portforward";
    vec![
        create("a PodGroup in another's namespace", groups.clone(), in_theirs, refused()),
        patch("another's PodGroup changed", &theirs, json!({"spec": {"minMember": 100}}), refused()),
        patch(
            "another's PodGroup marked as retiring",
            &theirs,
            json!({"metadata": {"annotations": {"podgroup.dev/retiring": "now"}}}),
            refused(),
        ),
        delete("another's PodGroup deleted", &theirs),
        delete("all of another's PodGroups deleted", &groups),
        create("another's pod evicted", format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/eviction", victim.pod), eviction, refused()),
        create("a Queue made", format!("{GROUPS}/queues"), new_queue, refused()),
        patch("a Queue's capability changed", &queue, json!({"spec": {"capability": {"cpu": "0"}}}), refused()),
        patch(
            "a Queue closed",
            &queue,
            json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-desired-state": "Closed"}}}),
            refused(),
        ),
        patch("a Queue's status written", format!("{queue}/status"), json!({"status": {"state": "Closed"}}), refused()),
        delete("a Queue deleted", &queue),
        patch(
            "the queue that its namespace names changed",
            format!("/api/v1/namespaces/{OWN}"),
            json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "b"}}}),
            refused(),
        ),
        create("the use of a queue given to itself", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(), admin, refused()),
        create("a token of the scheduler", format!("{accounts}/podgroup-scheduler/token"), token, refused()),
        get("the scheduler's debug answers through the API server", format!("{service}/debug/queues")),
        create("a port of the scheduler forwarded", forward.to_owned(), json!({}), refused()),
        patch(
            "the scheduler's Lease taken",
            "/apis/coordination.k8s.io/v1/namespaces/podgroup-system/leases/podgroup-scheduler",
            json!({"spec": {"holderIdentity": "mallory"}}),
            refused(),
        ),
    ]
}

/// The attempts with the tenant's own PodGroups.
fn groups(victim: &Victim) -> Vec<Attempt> {
    let status = "the status of a PodGroup is written by the scheduler alone";
    let hold = "volcano.sh/preemptable: false may not be said";
    let mine = format!("{GROUPS}/namespaces/{OWN}/podgroups/mine");
    // The owner is the Deployment, not the ReplicaSet: the observer reports two PodGroups of one owner.
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "victim", "uid": victim.deployment, "controller": true}]);
    let huge = "x".repeat(20_000);
    let keep = json!({"volcano.sh/preemptable": "false"});
    vec![
        in_another_queue(""),
        patch("a PodGroup moved to another's queue", &mine, json!({"spec": {"queue": "b"}}), Expected::Refused(QUEUE)),
        Attempt { what: "a Deployment in another's queue", ..deployment("stealer", "b") },
        group("a PodGroup with the name of another's", &victim.group, json!({"queue": "a"}), Expected::Harmless),
        group_of(
            "a PodGroup with another's owner",
            json!({"name": "adopted", "ownerReferences": owner}),
            json!({"queue": "a"}),
            json!({}),
            Expected::Harmless,
        ),
        group_of(
            "a PodGroup with a status",
            json!({"name": "fake"}),
            json!({"queue": "a"}),
            json!({"phase": "Running"}),
            Expected::Refused(status),
        ),
        patch("a status written later", &mine, json!({"status": {"phase": "Inqueue", "running": 2}}), Expected::Refused(status)),
        group_of(
            "a PodGroup that is not preemptable",
            json!({"name": "keeps", "annotations": keep}),
            json!({"queue": "a"}),
            json!({}),
            Expected::Refused(hold),
        ),
        group_of(
            "a PodGroup that is not preemptable, by a label",
            json!({"name": "keeps", "labels": {"volcano.sh/preemptable": "False"}}),
            json!({"queue": "a"}),
            json!({}),
            Expected::Refused(hold),
        ),
        group_of(
            "a PodGroup that protects its members as Volcano has it",
            json!({"name": "keeps", "annotations": {"volcano.sh/jdb-min-available": "1"}}),
            json!({"queue": "a"}),
            json!({}),
            Expected::Refused(hold),
        ),
        patch("a PodGroup made not preemptable", &mine, json!({"metadata": {"annotations": keep}}), Expected::Refused(hold)),
        patch(
            "a PodGroup made not preemptable by a 0",
            &mine,
            json!({"metadata": {"annotations": {"volcano.sh/preemptable": "0"}}}),
            Expected::Refused(hold),
        ),
        patch(
            "a PodGroup that says that it is preemptable",
            &mine,
            json!({"metadata": {"annotations": {"volcano.sh/preemptable": "True"}, "labels": {"volcano.sh/preemptable": "false"}}}),
            Expected::Harmless,
        ),
        patch(
            "the annotation that says so taken off, so that its label counts",
            &mine,
            json!({"metadata": {"annotations": {"volcano.sh/preemptable": null}}}),
            Expected::Refused(hold),
        ),
        group(
            "a PodGroup with a priority class of the system",
            "first",
            json!({"queue": "a", "priorityClassName": "system-node-critical"}),
            Expected::Refused("priority class system-node-critical may not be used: mallory lacks the verb use on it"),
        ),
        group_of(
            "huge annotations on a PodGroup",
            json!({"name": "huge", "annotations": {"note": huge}}),
            json!({"queue": "a"}),
            json!({}),
            Expected::Refused("longer than 16384 bytes"),
        ),
        group("the largest minMember", "many", json!({"queue": "a", "minMember": i32::MAX}), Expected::Harmless),
        group(
            "minResources of more than there is",
            "much",
            json!({"queue": "a", "minResources": {"cpu": "9E", "x/y": "9223372036854775807"}}),
            Expected::Harmless,
        ),
        group("minResources of less than nothing", "less", json!({"queue": "a", "minResources": {"cpu": "-9E"}}), Expected::Harmless),
        group(
            "minResources that are no number",
            "what",
            json!({"queue": "a", "minResources": {"cpu": "what"}}),
            Expected::Refused("minResources"),
        ),
        group(
            "a PodGroup in a queue that nobody made",
            "nowhere",
            json!({"queue": "nowhere"}),
            Expected::Refused("queue nowhere may not be used"),
        ),
        group(
            "a PodGroup in the default queue, which is not free here",
            "default",
            json!({"queue": "default"}),
            Expected::Refused(DEFAULT),
        ),
        group("a PodGroup in the default queue by an empty name", "empty", json!({"queue": ""}), Expected::Refused(DEFAULT)),
        group("a PodGroup in the default queue by no name", "unnamed", json!({"minMember": 1}), Expected::Refused(DEFAULT)),
        patch("a PodGroup moved to the default queue by an empty name", &mine, json!({"spec": {"queue": ""}}), Expected::Refused(DEFAULT)),
        group("a PodGroup in the root of all queues", "root", json!({"queue": "root"}), Expected::Refused("queue root may not be used")),
    ]
}

/// The attempts with the tenant's own pods.
fn pods(victim: &Victim, own: &str) -> Vec<Attempt> {
    let charged = "podgroup.dev/queue says which queue a pod is charged to";
    let node = "may not name its node";
    let hold = "volcano.sh/preemptable: false may not be said on a pod";
    let running = format!("/api/v1/namespaces/{OWN}/pods/{own}");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": victim.set, "uid": victim.uid, "controller": true}]);
    let theirs = json!({"podgroup.dev/queue": "b"});
    let nobodys = json!({"podgroup.dev/queue": ""});
    let above = json!({"podgroup.dev/queue-path": "root/theirs/a"});
    let gated = format!("/api/v1/namespaces/{OWN}/pods/gated");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": own}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}});
    let keep = json!({"volcano.sh/preemptable": "false"});
    vec![
        pod("a pod charged to another's queue", json!({"name": "charged", "annotations": theirs}), json!({}), Expected::Refused(charged)),
        pod("a pod charged to no queue", json!({"name": "charged", "annotations": nobodys}), json!({}), Expected::Refused(charged)),
        pod(
            "a pod that waits at a gate",
            json!({"name": "gated"}),
            json!({"schedulingGates": [{"name": "example.com/wait"}]}),
            Expected::Harmless,
        ),
        patch("a waiting pod charged to no queue", &gated, json!({"metadata": {"annotations": nobodys}}), Expected::Refused(charged)),
        pod(
            "a pod with a priority class of the system",
            json!({"name": "first"}),
            json!({"priorityClassName": "system-node-critical"}),
            Expected::Refused(
                "priority class system-node-critical may not be used on a pod: ServiceAccount default of this namespace lacks",
            ),
        ),
        pod(
            "a pod charged to another's queue, and on a node",
            json!({"name": "both", "annotations": theirs}),
            json!({"nodeName": "n1"}),
            Expected::Refused(charged),
        ),
        pod("a pod on a node past the scheduler", json!({"name": "placed"}), json!({"nodeName": "n1"}), Expected::Refused(node)),
        patch(
            "a running pod charged to another's queue",
            &running,
            json!({"metadata": {"annotations": theirs}}),
            Expected::Refused(charged),
        ),
        pod("a pod with a path of queues", json!({"name": "charged", "annotations": above}), json!({}), Expected::Refused(charged)),
        patch("a running pod below other queues", &running, json!({"metadata": {"annotations": above}}), Expected::Refused(charged)),
        patch(
            "a running pod's path of queues taken off",
            &running,
            json!({"metadata": {"annotations": {"podgroup.dev/queue-path": null}}}),
            Expected::Refused(charged),
        ),
        patch(
            "a running pod's charge taken off",
            &running,
            json!({"metadata": {"annotations": {"podgroup.dev/queue": null}}}),
            Expected::Refused(charged),
        ),
        create("a binding of its own", format!("{running}/binding"), binding, Expected::Refused(RBAC)),
        patch("a running pod made not preemptable", &running, json!({"metadata": {"annotations": keep}}), Expected::Refused(hold)),
        pod("a pod that is not preemptable", json!({"name": "keeps", "annotations": keep}), json!({}), Expected::Refused(hold)),
        pod("a pod that is not preemptable, by a label", json!({"name": "keeps", "labels": keep}), json!({}), Expected::Refused(hold)),
        pod(
            "a pod that is not preemptable, in another spelling",
            json!({"name": "keeps", "annotations": {"volcano.sh/preemptable": "False"}}),
            json!({}),
            Expected::Refused(hold),
        ),
        pod(
            "a pod that protects itself as Volcano has it",
            json!({"name": "keeps", "labels": {"volcano.sh/cooldown-time": "10m"}}),
            json!({}),
            Expected::Refused(hold),
        ),
        patch(
            "a running pod that protects itself as Volcano has it",
            &running,
            json!({"metadata": {"annotations": {"volcano.sh/jdb-max-unavailable": "1"}}}),
            Expected::Refused(hold),
        ),
        patch(
            "a running pod made not preemptable by a label",
            &running,
            json!({"metadata": {"labels": {"volcano.sh/preemptable": "0"}}}),
            Expected::Refused(hold),
        ),
        pod(
            "huge annotations on a pod",
            json!({"name": "huge", "annotations": {"volcano.sh/note": "x".repeat(20_000)}}),
            json!({}),
            Expected::Refused("longer than 16384 bytes"),
        ),
        pod("a pod with another's owner", json!({"name": "adopted", "ownerReferences": owner}), json!({}), Expected::Harmless),
        pod(
            "a pod that is a member of another's PodGroup",
            json!({"name": "member", "annotations": {"scheduling.k8s.io/group-name": victim.group}}),
            json!({}),
            Expected::Harmless,
        ),
    ]
}
