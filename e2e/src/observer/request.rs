//! Computes the effective resource request of a pod by the Kubernetes rules, from the pod as the API shows it.
//!
//! * Containers and sidecars (init containers with restartPolicy Always) run together. An init container runs together with the sidecars that
//!   were started before it. The larger of both sums counts.
//! * A pod-level request replaces the sum in its dimensions. The overhead is added.
//! * During a resize of a container or of the pod as a whole the largest of the desired, the allocated and the actual request counts. An
//!   infeasible resize does not count.

use serde_json::Value;

use super::amounts::Amounts;

/// One pod, in nano-units.
const ONE: i128 = 1_000_000_000;

/// Returns the effective request, with the dimension `pods` = 1.
pub fn effective(spec: &Value, status: &Value) -> Amounts {
    let infeasible = infeasible(status);
    let mut together = Amounts::default();
    for container in list(spec, "containers") {
        together.add(&running(container, list(status, "containerStatuses"), infeasible));
    }
    let mut sidecars = Amounts::default();
    let mut peak = Amounts::default();
    for container in list(spec, "initContainers") {
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            sidecars.add(&running(container, list(status, "initContainerStatuses"), infeasible));
        } else {
            let mut moment = sidecars.clone();
            moment.add(&Amounts::read(container.pointer("/resources/requests")));
            peak.max_each(&moment);
        }
    }
    together.add(&sidecars);
    together.max_each(&peak);
    let whole = Amounts::read(spec.pointer("/resources/requests"));
    let counts = largest(whole.clone(), status, infeasible);
    for (name, _) in whole.iter() {
        // Only these dimensions can be requested at pod level.
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            together.set(name, counts.get(name));
        }
    }
    together.add(&Amounts::read(spec.get("overhead")));
    together.set("pods", ONE);
    together
}

/// Returns the request of one container that runs (or will run).
fn running<'a>(container: &Value, mut statuses: impl Iterator<Item = &'a Value>, infeasible: bool) -> Amounts {
    let wanted = Amounts::read(container.pointer("/resources/requests"));
    let name = container.get("name");
    let Some(status) = statuses.find(|status| status.get("name") == name) else { return wanted };
    largest(wanted, status, infeasible)
}

/// Returns the largest of the desired, the allocated and the actual request, by the status of the container or of the pod.
fn largest(wanted: Amounts, status: &Value, infeasible: bool) -> Amounts {
    let in_force = status.pointer("/resources/requests");
    let allocated = status.get("allocatedResources");
    if in_force.is_none() && allocated.is_none() {
        return wanted;
    }
    let mut total = if infeasible { Amounts::default() } else { wanted };
    total.max_each(&Amounts::read(in_force));
    total.max_each(&Amounts::read(allocated));
    total
}

/// Returns whether the resize of the pod was refused as infeasible.
fn infeasible(status: &Value) -> bool {
    list(status, "conditions").any(|condition| {
        let text = |key| condition.get(key).and_then(Value::as_str);
        text("type") == Some("PodResizePending") && text("status") == Some("True") && text("reason") == Some("Infeasible")
    })
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observer::amounts::parse;

    fn cpu(spec: &Value, status: &Value) -> i128 {
        effective(spec, status).get("cpu")
    }

    fn asks(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn init_containers_sidecars_and_overhead_are_counted() {
        let mut sidecar = asks("side", "1");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [asks("main", "1")], "initContainers": [asks("first", "4"), sidecar], "overhead": {"cpu": "100m"}});
        assert_eq!(cpu(&spec, &json!({})), parse("4100m").unwrap());
        let spec = json!({"containers": [asks("main", "1")], "initContainers": [spec["initContainers"][1], asks("then", "4")]});
        assert_eq!(cpu(&spec, &json!({})), parse("5").unwrap());
        assert_eq!(effective(&spec, &json!({})).get("pods"), ONE);
    }

    #[test]
    fn a_pod_level_request_replaces_the_sum() {
        let spec = json!({"containers": [asks("a", "1"), asks("b", "1")], "resources": {"requests": {"cpu": "500m"}}});
        assert_eq!(cpu(&spec, &json!({})), parse("500m").unwrap());
    }

    #[test]
    fn a_resize_counts_with_the_larger_request_until_it_is_infeasible() {
        let spec = json!({"containers": [asks("a", "8")]});
        let mut status =
            json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}]});
        assert_eq!(cpu(&spec, &status), parse("8").unwrap());
        status["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        assert_eq!(cpu(&spec, &status), parse("3").unwrap());
    }
    #[test]
    fn a_resize_of_the_pod_as_a_whole_counts_with_the_larger_request_too() {
        let spec = json!({"containers": [asks("a", "1")], "resources": {"requests": {"cpu": "2"}}});
        let mut status = json!({"allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}});
        assert_eq!(cpu(&spec, &status), parse("4").unwrap(), "it shrinks, and the node has not released the difference");
        assert_eq!(effective(&spec, &status).get("memory"), 0, "no request of the whole pod");
        let spec = json!({"containers": [asks("a", "1")], "resources": {"requests": {"cpu": "8"}}});
        assert_eq!(cpu(&spec, &status), parse("8").unwrap());
        status["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        assert_eq!(cpu(&spec, &status), parse("4").unwrap());
    }
}
