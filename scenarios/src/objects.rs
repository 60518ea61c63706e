//! Which object does a line create?

use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};

use crate::cluster::kubelet::{ENDS, STAYS_PENDING};
use crate::server::patch::merge;
use crate::text::Words;

/// The namespace of all objects that name none.
pub const NAMESPACE: &str = "default";

/// The options of pods, for every verb that creates pods.
pub const POD_OPTIONS: [&str; 15] = [
    "label",
    "select",
    "priority",
    "class",
    "port",
    "claim",
    "tolerate",
    "gate",
    "ends",
    "scheduler",
    "annotation",
    "limit",
    "init",
    "namespace",
    "task",
];

/// The words of pods without a value.
pub const POD_FLAGS: [&str; 3] = ["keeps", "stays-pending", "best-effort"];

fn amounts(list: &[(String, String)]) -> Value {
    list.iter().map(|(name, amount)| (name.clone(), Value::from(amount.as_str()))).collect::<Map<_, _>>().into()
}

/// Reads `cpu:2,memory:1Gi`.
fn listed(text: &str) -> Result<Value> {
    let pair = |pair: &str| {
        let (name, amount) = pair.rsplit_once(':').ok_or_else(|| anyhow!("`{text}` has no amounts, as cpu:2,memory:1Gi has"))?;
        Ok((name.to_owned(), Value::from(amount)))
    };
    if text == "nothing" { Ok(json!({})) } else { Ok(text.split(',').map(pair).collect::<Result<Map<_, _>>>()?.into()) }
}

/// Reads the values `key:value` of an option.
fn pairs(words: &Words, option: &str) -> Map<String, Value> {
    words.all(option).map(|text| text.split_once(':').unwrap_or((text, ""))).map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// Returns the verb with each of its names alone: `queue a b below p` stands for two queues. The first word is always a name.
pub fn each_name(words: &Words, flags: &[&str]) -> Vec<Words> {
    let (own, rest) = words.plain.split_at(words.plain.len().min(2));
    let (options, others): (Vec<String>, Vec<String>) = rest.iter().cloned().partition(|word| flags.contains(&word.as_str()));
    let one = |name: &String| Words { plain: [&own[..1], std::slice::from_ref(name), &options].concat(), ..words.clone() };
    // A verb without a name stays as it is.
    own.get(1).map_or_else(|| vec![words.clone()], |first| std::iter::once(first).chain(&others).map(one).collect())
}

/// The words of a node without a value.
pub const NODE_FLAGS: [&str; 1] = ["cordoned"];

/// The words of a queue without a value.
pub const QUEUE_FLAGS: [&str; 3] = ["not-reclaimable", "fifo", "closed"];

/// Returns a node. It takes 110 pods, and the label `kubernetes.io/hostname` has its name.
pub fn node(words: &Words, block: &Value) -> Result<Value> {
    words.only(2, &NODE_FLAGS, &["label", "taint"])?;
    let name = words.at(1)?;
    let mut labels = pairs(words, "label");
    labels.insert("kubernetes.io/hostname".to_owned(), name.into());
    let mut offers = json!({ "pods": "110" });
    merge(&mut offers, &amounts(&words.amounts));
    let taint = |text: &str| {
        let (key, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
        json!({ "key": key, "effect": effect })
    };
    let taints: Vec<Value> = words.all("taint").map(taint).collect();
    let mut node = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints, "unschedulable": words.has("cordoned", 2) },
        "status": { "allocatable": offers, "capacity": offers, "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    add(&mut node, block);
    Ok(node)
}

/// Returns a queue.
pub fn queue(words: &Words, block: &Value) -> Result<Value> {
    let options = ["below", "capability", "deserved", "guarantee", "weight", "priority"];
    words.only(2, &QUEUE_FLAGS, &options)?;
    let mut spec = Map::new();
    for name in ["capability", "deserved"] {
        if let Some(text) = words.option(name) {
            spec.insert(name.to_owned(), listed(text)?);
        }
    }
    if let Some(text) = words.option("guarantee") {
        spec.insert("guarantee".to_owned(), json!({ "resource": listed(text)? }));
    }
    for name in ["weight", "priority"] {
        if let Some(text) = words.option(name) {
            spec.insert(name.to_owned(), json!(text.parse::<i64>()?));
        }
    }
    if let Some(parent) = words.option("below") {
        spec.insert("parent".to_owned(), parent.into());
    }
    if words.has("not-reclaimable", 2) {
        spec.insert("reclaimable".to_owned(), false.into());
    }
    if words.has("fifo", 2) {
        spec.insert("dequeueStrategy".to_owned(), "fifo".into());
    }
    let mut queue = json!({ "metadata": { "name": words.at(1)? }, "spec": spec });
    if words.has("closed", 2) {
        queue["metadata"]["annotations"] = json!({ "scheduling.volcano.sh/queue-desired-state": "Closed" });
    }
    add(&mut queue, block);
    Ok(queue)
}

/// Returns a PodGroup with this minMember.
pub fn group(name: &str, min_member: Option<usize>, words: &Words) -> Result<Value> {
    let mut spec = Map::new();
    if let Some(min) = words.option("min") {
        spec.insert("minMember".to_owned(), json!(min.parse::<i64>()?));
    } else if let Some(min) = min_member {
        spec.insert("minMember".to_owned(), json!(min));
    }
    if let Some(text) = words.option("minresources") {
        spec.insert("minResources".to_owned(), listed(text)?);
    }
    if let Some(queue) = words.option("in") {
        spec.insert("queue".to_owned(), queue.into());
    }
    if let Some(class) = words.option("class") {
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    let mut group = json!({ "metadata": { "name": name, "namespace": namespace(words) }, "spec": spec });
    if words.has("keeps", 2) {
        group["metadata"]["annotations"] = json!({ "volcano.sh/preemptable": "false" });
    }
    Ok(group)
}

/// Merges the YAML below a line into its object.
pub fn add(object: &mut Value, block: &Value) {
    if !block.is_null() {
        merge(object, block);
    }
}

/// Returns the namespace that the words name.
#[must_use]
pub fn namespace(words: &Words) -> &str {
    words.option("namespace").unwrap_or(NAMESPACE)
}

/// Returns metadata and spec of a pod, or of the template of an owner; `app` is the value of its label `app`.
pub fn pod(app: &str, words: &Words, block: &Value) -> Result<Value> {
    let mut labels = pairs(words, "label");
    labels.entry("app").or_insert_with(|| app.into());
    let mut annotations = pairs(words, "annotation");
    if let Some(ends) = words.option("ends") {
        annotations.insert(ENDS.to_owned(), ends.trim_end_matches('s').into());
    }
    if let Some(task) = words.option("task") {
        annotations.insert("volcano.sh/task-spec".to_owned(), task.into());
    }
    if words.has("stays-pending", 2) {
        annotations.insert(STAYS_PENDING.to_owned(), "".into());
    }
    if words.has("keeps", 2) {
        annotations.insert("volcano.sh/preemptable".to_owned(), "false".into());
    }
    let mut resources = json!({ "requests": amounts(&words.amounts) });
    if let Some(limits) = words.option("limit") {
        resources["limits"] = listed(limits)?;
    }
    let ports: Vec<Value> = words.all("port").map(|port| json!({ "hostPort": port.parse::<i64>().unwrap_or(0) })).collect();
    let scheduler = words.option("scheduler").unwrap_or("podgroup-scheduler");
    let mut spec = json!({
        "schedulerName": scheduler,
        "containers": [{ "name": "main", "image": "main", "resources": resources, "ports": ports }],
        "nodeSelector": pairs(words, "select"),
    });
    if let Some(init) = words.option("init") {
        spec["initContainers"] = json!([{ "name": "init", "image": "init", "resources": { "requests": listed(init)? } }]);
    }
    if let Some(priority) = words.option("priority") {
        spec["priority"] = json!(priority.parse::<i64>()?);
    }
    if let Some(class) = words.option("class") {
        spec["priorityClassName"] = class.into();
    }
    let volumes: Vec<Value> =
        words.all("claim").map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } })).collect();
    let tolerations: Vec<Value> = words.all("tolerate").map(|key| json!({ "key": key, "operator": "Exists" })).collect();
    let gates: Vec<Value> = words.all("gate").map(|name| json!({ "name": name })).collect();
    for (field, list) in [("volumes", volumes), ("tolerations", tolerations), ("schedulingGates", gates)] {
        if !list.is_empty() {
            spec[field] = list.into();
        }
    }
    if let Some(node) = words.option("on") {
        spec["nodeName"] = node.into();
    }
    let mut pod = json!({ "metadata": { "labels": labels, "annotations": annotations, "namespace": namespace(words) }, "spec": spec });
    add(&mut pod, block);
    Ok(pod)
}

/// Returns an owner of pods: `deployment`, `replicaset`, `statefulset`, `job`, `daemonset`.
pub fn owner(words: &Words, block: &Value) -> Result<Value> {
    let (verb, name) = (words.at(0)?, words.at(1)?);
    let mut annotations = Map::new();
    if let Some(min) = words.option("min") {
        annotations.insert("scheduling.volcano.sh/group-min-member".to_owned(), min.into());
    }
    if let Some(queue) = words.option("in") {
        annotations.insert("scheduling.volcano.sh/queue-name".to_owned(), queue.into());
    }
    let mut template = pod(name, words, block)?;
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    let selector = json!({ "matchLabels": { "app": name } });
    let mut spec = json!({ "selector": selector, "template": template });
    if verb == "job" {
        spec["parallelism"] = json!(words.number(2)?);
        if let Some(completions) = words.option("completions") {
            spec["completions"] = json!(completions.parse::<i64>()?);
        }
        spec["suspend"] = words.has("suspended", 2).into();
    } else if verb != "daemonset" {
        spec["replicas"] = json!(words.number(2)?);
    }
    if verb == "statefulset" && !words.has("ordered", 2) {
        spec["podManagementPolicy"] = "Parallel".into();
    }
    let mut owner = json!({ "metadata": { "name": name, "namespace": namespace(words), "annotations": annotations }, "spec": spec });
    if let Some(uid) = words.option("uid") {
        owner["metadata"]["uid"] = uid.into();
    }
    Ok(owner)
}
