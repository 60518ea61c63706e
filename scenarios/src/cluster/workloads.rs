//! What do the controllers of Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets do? They create and delete pods until there are
//! as many as are wanted.
//!
//! A Deployment has one ReplicaSet for each template. After a change of the template it scales the older ones to 0 and the new one up at
//! once (`Recreate` without its wait). A StatefulSet creates all pods at once, or with `OrderedReady` each after the one before it runs.

use serde_json::{Value, json};

use crate::server::kinds::Kind;
use crate::server::patch::{as_map, merge};
use crate::server::store::{Store, ended, names};

/// Acts until nothing changes any more.
pub fn act(store: &mut Store) {
    let mut before = 0;
    while before != store.version() {
        before = store.version();
        for plural in ["deployments", "replicasets", "statefulsets", "jobs", "daemonsets"] {
            let owners: Vec<Value> = store.all(plural).filter(|owner| owner["metadata"]["deletionTimestamp"].is_null()).cloned().collect();
            for owner in owners {
                match plural {
                    "deployments" => deployment(store, &owner),
                    "replicasets" => replica_set(store, &owner),
                    "statefulsets" => stateful_set(store, &owner),
                    "jobs" => job(store, &owner),
                    _ => daemon_set(store, &owner),
                }
            }
        }
    }
}

fn kind(plural: &str) -> &'static Kind {
    Kind::by_plural(plural).expect("the table has it")
}

/// Returns the objects of a kind that this owner controls: they name it, and its selector selects them.
fn controlled(store: &Store, plural: &'static str, owner: &Value) -> Vec<Value> {
    let uid = &owner["metadata"]["uid"];
    let selector = owner["spec"]["selector"]["matchLabels"].as_object();
    let is_owned = |object: &&Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let names_it =
            owners.is_some_and(|owners| owners.iter().any(|reference| reference["uid"] == *uid && reference["controller"] == true));
        names_it && selector.is_none_or(|selector| selector.iter().all(|(key, value)| object["metadata"]["labels"][key] == *value))
    };
    store.all(plural).filter(is_owned).cloned().collect()
}

fn reference(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }])
}

fn number(object: &Value, path: &str, otherwise: usize) -> usize {
    object.pointer(path).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok()).unwrap_or(otherwise)
}

/// Creates a pod from a template.
fn make_pod(store: &mut Store, owner: &Value, name: &str) {
    let template = &owner["spec"]["template"];
    let mut pod = json!({ "metadata": template["metadata"], "spec": template["spec"] });
    let (namespace, _) = names(owner);
    let metadata = as_map(&mut pod["metadata"]);
    metadata.insert("namespace".to_owned(), namespace.clone().into());
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("ownerReferences".to_owned(), reference(owner));
    pod["status"] = json!({ "phase": "Pending" });
    if store.get(kind("pods"), &namespace, name).is_none() {
        store.add(kind("pods"), pod);
    }
}

fn delete_pod(store: &mut Store, pod: &Value) {
    store.begin_deletion(kind("pods"), pod);
}

fn goes(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Writes status fields, if they change.
fn show(store: &mut Store, plural: &'static str, owner: &Value, status: &Value) {
    let (namespace, name) = names(owner);
    let Some(mut changed) = store.get(kind(plural), &namespace, &name).cloned() else { return };
    crate::server::patch::merge(&mut changed["status"], status);
    store.change(kind(plural), changed);
}

fn deployment(store: &mut Store, owner: &Value) {
    let (namespace, name) = names(owner);
    let sets = controlled(store, "replicasets", owner);
    let wanted = owner["spec"]["replicas"].as_u64().unwrap_or(1);
    if !sets.iter().any(|set| set["spec"]["template"] == owner["spec"]["template"]) {
        let set = json!({
            "metadata": {
                "namespace": namespace, "name": format!("{name}-{}", sets.len() + 1), "labels": owner["spec"]["template"]["metadata"]["labels"],
                "annotations": owner["metadata"]["annotations"], "ownerReferences": reference(owner),
            },
            "spec": { "replicas": 0, "selector": owner["spec"]["selector"], "template": owner["spec"]["template"] },
        });
        store.add(kind("replicasets"), set);
        return;
    }
    for set in sets {
        let size = if set["spec"]["template"] == owner["spec"]["template"] { wanted } else { 0 };
        let mut scaled = set;
        scaled["spec"]["replicas"] = json!(size);
        // They are copied, and never removed.
        merge(&mut scaled["metadata"]["annotations"], &owner["metadata"]["annotations"]);
        store.change(kind("replicasets"), scaled);
    }
    show(store, "deployments", owner, &json!({ "observedGeneration": owner["metadata"]["generation"], "replicas": wanted }));
}

/// Numbers the pods of an owner: the next one has the number of pods that it ever had.
fn next_number(store: &Store, owner: &Value, prefix: &str) -> usize {
    let is_one = |change: &&crate::server::store::Change| {
        change.plural == "pods"
            && change.happened == crate::server::store::Happened::Added
            && change.object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix))
            && change.object["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    };
    store.log().iter().filter(is_one).count()
}

fn replica_set(store: &mut Store, owner: &Value) {
    let (_, name) = names(owner);
    let mut pods: Vec<Value> = controlled(store, "pods", owner).into_iter().filter(|pod| !goes(pod) && !ended(pod)).collect();
    let wanted = number(owner, "/spec/replicas", 1);
    let prefix = format!("{name}-");
    let mut next = next_number(store, owner, &prefix);
    while pods.len() < wanted {
        make_pod(store, owner, &format!("{prefix}{next}"));
        next += 1;
        pods.push(Value::Null);
    }
    // Pods without a node go first, then the youngest.
    pods.sort_by_key(|pod| (pod["spec"]["nodeName"].is_string(), std::cmp::Reverse(age(pod))));
    let surplus = pods.len().saturating_sub(wanted);
    pods.iter().take(surplus).for_each(|pod| delete_pod(store, pod));
    let existing = controlled(store, "pods", owner).len();
    show(store, "replicasets", owner, &json!({ "replicas": existing, "observedGeneration": owner["metadata"]["generation"] }));
}

/// The age of a pod: UIDs grow.
fn age(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn stateful_set(store: &mut Store, owner: &Value) {
    let (namespace, name) = names(owner);
    let wanted = number(owner, "/spec/replicas", 1);
    let ordered = owner["spec"]["podManagementPolicy"] != "Parallel";
    for place in 0..wanted {
        let pod_name = format!("{name}-{place}");
        match store.get(kind("pods"), &namespace, &pod_name).cloned() {
            None => make_pod(store, owner, &pod_name),
            Some(pod) if ordered && pod["status"]["phase"] != "Running" => break,
            Some(_) => continue,
        }
        if ordered {
            break;
        }
    }
    for pod in controlled(store, "pods", owner).into_iter().filter(|pod| !goes(pod)) {
        let (_, pod_name) = names(&pod);
        let place = pod_name.rsplit('-').next().and_then(|place| place.parse::<usize>().ok());
        if place.is_some_and(|place| place >= wanted) {
            delete_pod(store, &pod);
        }
    }
}

fn job(store: &mut Store, owner: &Value) {
    let (_, name) = names(owner);
    let pods = controlled(store, "pods", owner);
    let succeeded = pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded").count();
    let failed = pods.iter().filter(|pod| pod["status"]["phase"] == "Failed").count();
    let parallelism = number(owner, "/spec/parallelism", 1);
    let completions = owner["spec"]["completions"].as_u64().and_then(|number| usize::try_from(number).ok());
    let done = completions.is_some_and(|completions| succeeded >= completions);
    let left = completions.map_or(parallelism, |completions| completions.saturating_sub(succeeded));
    let wanted = if owner["spec"]["suspend"] == true || done { 0 } else { parallelism.min(left) };
    let active: Vec<Value> = pods.into_iter().filter(|pod| !goes(pod) && !ended(pod)).collect();
    let prefix = format!("{name}-");
    let next = next_number(store, owner, &prefix);
    (next..).take(wanted.saturating_sub(active.len())).for_each(|number| make_pod(store, owner, &format!("{prefix}{number}")));
    active.iter().skip(wanted).for_each(|pod| delete_pod(store, pod));
    let running = active.len().clamp(0, wanted).max(wanted);
    let conditions = if done { json!([{ "type": "Complete", "status": "True" }]) } else { json!([]) };
    show(store, "jobs", owner, &json!({ "active": running, "succeeded": succeeded, "failed": failed, "conditions": conditions }));
}

fn daemon_set(store: &mut Store, owner: &Value) {
    let (namespace, name) = names(owner);
    let nodes: Vec<String> = store.all("nodes").map(|node| names(node).1).collect();
    for node in &nodes {
        let pod_name = format!("{name}-{node}");
        if store.get(kind("pods"), &namespace, &pod_name).is_none() {
            let mut with_node = owner.clone();
            let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
            let terms = json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
            with_node["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
            make_pod(store, &with_node, &pod_name);
        }
    }
    let status = json!({ "desiredNumberScheduled": nodes.len(), "observedGeneration": owner["metadata"]["generation"] });
    show(store, "daemonsets", owner, &status);
}
