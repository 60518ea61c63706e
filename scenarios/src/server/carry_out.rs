//! What does a request do, and what is its answer? As kube-apiserver has it, for the kinds and fields that the programs use.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::patch::{as_map, merge, set_condition, strategic};
use super::refusal::Refusal;
use super::request::Request;
use super::selector::Selector;
use super::store::{Store, ended, has_finalizers};

/// Carries out a request that is no watch. Returns the code and the body of the answer.
pub fn carry_out(store: &mut Store, request: &Request) -> Result<(u16, Value), Refusal> {
    match (request.verb, &*request.subresource) {
        ("create", "binding") => bind(store, request),
        ("create", "eviction") => evict(store, request),
        ("create", "") => create(store, request).map(|object| (201, object)),
        ("get", _) => Ok((200, existing(store, request)?.clone())),
        ("list", _) => Ok((200, list(store, request))),
        ("update" | "patch", _) => write(store, request).map(|object| (200, object)),
        ("delete", "") => delete(store, request).map(|object| (200, object)),
        _ => Err(Refusal::not_found(&request.action())),
    }
}

fn what(kind: &Kind, name: &str) -> String {
    format!("{} \"{name}\"", kind.plural)
}

fn existing<'a>(store: &'a Store, request: &Request) -> Result<&'a Value, Refusal> {
    store.get(request.kind, &request.namespace, &request.name).ok_or_else(|| Refusal::not_found(&what(request.kind, &request.name)))
}

/// Creates an object, also one that a scenario creates.
pub fn create(store: &mut Store, request: &Request) -> Result<Value, Refusal> {
    let mut object = request.body.clone();
    let metadata = as_map(as_map(&mut object).entry("metadata").or_insert(Value::Null));
    if request.kind.namespaced {
        metadata.insert("namespace".to_owned(), request.namespace.clone().into());
    }
    if metadata.get("name").is_none_or(Value::is_null) {
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        let name = format!("{prefix}{:05x}", store.version());
        metadata.insert("name".to_owned(), name.into());
    }
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    if store.get(request.kind, &request.namespace, &name).is_some() {
        return Err(Refusal::already_exists(&what(request.kind, &name)));
    }
    if request.kind.plural == "pods" {
        let spec = as_map(as_map(&mut object).entry("spec").or_insert(Value::Null));
        spec.entry("schedulerName").or_insert_with(|| "default-scheduler".into());
        spec.entry("terminationGracePeriodSeconds").or_insert_with(|| 30.into());
        let status = as_map(as_map(&mut object).entry("status").or_insert(Value::Null));
        status.entry("phase").or_insert_with(|| "Pending".into());
    }
    Ok(store.add(request.kind, object))
}

fn list(store: &Store, request: &Request) -> Value {
    page(store.all(request.kind.plural), store.version(), request)
}

/// Returns the list of the objects as they were at this version.
pub fn list_at(store: &Store, request: &Request, version: u64) -> Value {
    page(store.all_at(request.kind.plural, version).values().copied(), version, request)
}

fn page<'a>(objects: impl Iterator<Item = &'a Value>, version: u64, request: &Request) -> Value {
    let query = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let selector = Selector { namespace: request.namespace.clone(), labels: query("labelSelector"), fields: query("fieldSelector") };
    let limit = query("limit").parse().unwrap_or(usize::MAX);
    let from: usize = query("continue").parse().unwrap_or(0);
    let chosen: Vec<&Value> = objects.filter(|object| selector.takes(object)).collect();
    let page: Vec<&Value> = chosen.iter().skip(from).take(limit).copied().collect();
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if from + page.len() < chosen.len() {
        metadata["continue"] = (from + page.len()).to_string().into();
    }
    json!({ "apiVersion": request.kind.api_version, "kind": format!("{}List", request.kind.name), "metadata": metadata, "items": page })
}

fn write(store: &mut Store, request: &Request) -> Result<Value, Refusal> {
    let before = existing(store, request)?.clone();
    let named = |field: &str| request.body["metadata"][field].as_str().filter(|text| !text.is_empty());
    if named("uid").is_some_and(|uid| before["metadata"]["uid"] != uid) {
        return Err(Refusal::invalid(format!("{}: metadata.uid: field is immutable", what(request.kind, &request.name))));
    }
    if named("resourceVersion").is_some_and(|version| before["metadata"]["resourceVersion"] != version) {
        let message = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Refusal::conflict(format!("Operation cannot be fulfilled on {}: {message}", what(request.kind, &request.name))));
    }
    let mut after = if request.verb == "update" { Value::Null } else { before.clone() };
    if request.strategic {
        strategic(&mut after, &request.body)
    } else {
        merge(&mut after, &request.body)
    };
    for field in ["uid", "name", "namespace", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"] {
        let metadata = as_map(&mut after["metadata"]);
        match before["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if request.kind.has_status {
        // The object and its status are written apart from each other.
        let (kept, fields) = (if request.subresource == "status" { "spec" } else { "status" }, as_map(&mut after));
        match before.get(kept) {
            Some(value) => fields.insert(kept.to_owned(), value.clone()),
            None => fields.remove(kept),
        };
    }
    let after = store.change(request.kind, after);
    if !after["metadata"]["deletionTimestamp"].is_null() && !has_finalizers(&after) && request.kind.plural != "pods" {
        store.remove(request.kind, &request.namespace, &request.name);
    }
    Ok(after)
}

fn delete(store: &mut Store, request: &Request) -> Result<Value, Refusal> {
    let object = existing(store, request)?.clone();
    preconditions(&object, &request.body["preconditions"], request)?;
    if request.body["gracePeriodSeconds"] == 0 {
        store.remove(request.kind, &request.namespace, &request.name);
    } else if !store.begin_deletion(request.kind, &object) {
        return Ok(store.get(request.kind, &request.namespace, &request.name).cloned().unwrap_or(object));
    }
    Ok(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
}

fn preconditions(object: &Value, wanted: &Value, request: &Request) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        if wanted[field].is_string() && wanted[field] != object["metadata"][field] {
            let message =
                format!("Precondition failed: {field} in precondition: {}, in object: {}", wanted[field], object["metadata"][field]);
            return Err(Refusal::conflict(format!("Operation cannot be fulfilled on {}: {message}", what(request.kind, &request.name))));
        }
    }
    Ok(())
}

/// Binds a pod, as `registry/core/pod/storage` of Kubernetes does: it checks UID and version, that the pod has no node, no gate and is not
/// being deleted.
fn bind(store: &mut Store, request: &Request) -> Result<(u16, Value), Refusal> {
    let pod = existing(store, request)?.clone();
    preconditions(&pod, &request.body["metadata"], request)?;
    let refused = |why: &str| Err(Refusal::conflict(format!("Operation cannot be fulfilled on pods/binding \"{}\": {why}", request.name)));
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return refused("pod is being deleted, cannot be assigned to a host");
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return refused(&format!("pod {} is already assigned to node \"{node}\"", request.name));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return refused("pod has non-empty .spec.schedulingGates");
    }
    let mut bound = pod;
    bound["spec"]["nodeName"] = request.body["target"]["name"].clone();
    if request.body["metadata"]["annotations"].is_object() {
        merge(&mut bound["metadata"]["annotations"], &request.body["metadata"]["annotations"]);
    }
    if let Some(status) = bound["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let condition =
        json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": store.time(), "reason": null, "message": null });
    set_condition(&mut bound, &condition);
    store.change(request.kind, bound);
    Ok((201, json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })))
}

/// Evicts a pod, if the budgets of its namespace allow it. A pod without a node, or that has ended, needs no budget.
fn evict(store: &mut Store, request: &Request) -> Result<(u16, Value), Refusal> {
    let pod = existing(store, request)?.clone();
    preconditions(&pod, &request.body["deleteOptions"]["preconditions"], request)?;
    let success = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    let dry = request.query.contains_key("dryRun");
    let protected = pod["spec"]["nodeName"].is_string() && !ended(&pod) && pod["metadata"]["deletionTimestamp"].is_null();
    if protected {
        let guards = |budget: &&Value| {
            let labels = budget["spec"]["selector"]["matchLabels"].as_object();
            let matches = labels.is_some_and(|labels| labels.iter().all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value)));
            budget["metadata"]["namespace"] == pod["metadata"]["namespace"] && matches
        };
        let budget = store.all("poddisruptionbudgets").find(guards).cloned();
        if let Some(budget) = budget {
            let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
            if allowed <= 0 {
                return Err(Refusal::budget(budget["metadata"]["name"].as_str().unwrap_or_default()));
            }
            if !dry && let Some(kind) = Kind::by_plural("poddisruptionbudgets") {
                let mut budget = budget;
                budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
                store.change(kind, budget);
            }
        }
    }
    if !dry {
        let mut marked = pod;
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            "lastTransitionTime": store.time() });
        set_condition(&mut marked, &condition);
        let marked = store.change(request.kind, marked);
        store.begin_deletion(request.kind, &marked);
    }
    Ok((201, success))
}
