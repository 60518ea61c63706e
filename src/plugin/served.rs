//! Finds the port on which a pod of the scheduler serves, and the name for which its certificate must be issued.

use serde_json::Value;

use crate::api::names::SCHEDULER;

use super::fetch::Fetch;
use super::flags::{Common, is_name};

/// The port of the scheduler's container where it names none.
const PORT: u16 = 8081;

/// The name of the port in the chart.
const PORT_NAME: &str = "http-metrics";

/// The port on which a pod of the scheduler serves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) tls: bool,
}

/// Returns the container's port by its name in the chart, or the default port; with TLS where the kubelet's probes of that container use TLS.
pub(super) fn port(pod: &Value) -> Port {
    let is_named = |port: &&Value| port.get("name").and_then(Value::as_str) == Some(PORT_NAME);
    let number = |port: &Value| u16::try_from(port.get("containerPort")?.as_u64()?).ok();
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let mut named = containers.filter_map(|container| Some((container, container.get("ports")?.as_array()?.iter().find(is_named)?)));
    let Some((container, port)) = named.next() else { return Port { number: PORT, tls: false } };
    let probes = ["/livenessProbe/httpGet/scheme", "/readinessProbe/httpGet/scheme"].map(|path| container.pointer(path));
    Port { number: number(port).unwrap_or(PORT), tls: probes.into_iter().flatten().any(|scheme| scheme == "HTTPS") }
}

/// Returns the name for which the pod's certificate must be issued, where no flag names one: its Service, whatever the release is called. Without
/// the permission to list Services it is the pod's ServiceAccount, which has the same name in the chart.
pub(super) async fn server(flags: &Common, fetch: &Fetch, namespace: &str, pod: &Value, port: u16) -> String {
    if let Some(name) = &flags.scheduler_tls_server_name {
        return name.clone();
    }
    let services = match flags.scheduler_insecure_skip_tls_verify {
        // Any name works.
        true => Vec::new(),
        false => fetch.list(&format!("/api/v1/namespaces/{namespace}/services"), "").await.unwrap_or_default(),
    };
    let account = pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).filter(|name| *name != "default" && is_name(name));
    let service = service_of(&services, pod, port).or(account).unwrap_or(SCHEDULER);
    format!("{service}.{namespace}.svc")
}

/// Returns the Service that leads to this port of the pod; the first by name of several.
fn service_of<'a>(services: &'a [Value], pod: &Value, port: u16) -> Option<&'a str> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object)?;
    let selects = |service: &&Value| {
        let selector = service.pointer("/spec/selector").and_then(Value::as_object);
        selector.is_some_and(|all| !all.is_empty() && all.iter().all(|(key, value)| labels.get(key) == Some(value)))
    };
    let leads = |of: &Value| match of.get("targetPort").or_else(|| of.get("port")) {
        Some(Value::String(name)) => name == PORT_NAME,
        Some(number) => number.as_u64() == Some(port.into()),
        None => false,
    };
    let serves = |service: &&Value| service.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten().any(leads);
    let name = |service: &'a Value| service.pointer("/metadata/name").and_then(Value::as_str).filter(|name| is_name(name));
    services.iter().filter(selects).filter(serves).filter_map(name).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_port_is_the_one_that_the_chart_names() {
        let pod = |probe: Value| {
            let ports = json!([{"name": "x", "containerPort": 1}, {"name": "http-metrics", "containerPort": 9}]);
            let sidecar = json!({"livenessProbe": {"httpGet": {"scheme": "HTTPS"}}});
            json!({"spec": {"containers": [sidecar, {"ports": ports, "readinessProbe": probe}]}})
        };
        assert_eq!(port(&pod(json!({}))), Port { number: 9, tls: false });
        assert_eq!(port(&pod(json!({"httpGet": {"scheme": "HTTP"}}))), Port { number: 9, tls: false });
        assert_eq!(port(&pod(json!({"httpGet": {"scheme": "HTTPS"}}))), Port { number: 9, tls: true });
        assert_eq!(port(&json!({})), Port { number: PORT, tls: false });
    }

    #[test]
    fn the_name_of_the_certificate_is_that_of_the_service_that_leads_to_the_pod() {
        let pod = json!({"metadata": {"labels": {"component": "scheduler", "release": "b"}}});
        let service = |name: &str, selector: Value, target: Value| {
            let ports = json!([{"port": 1}, {"port": 80, "targetPort": target}]);
            json!({"metadata": {"name": name}, "spec": {"selector": selector, "ports": ports}})
        };
        let ours = json!({"component": "scheduler"});
        let services = [
            service("a-other-release", json!({"component": "scheduler", "release": "a"}), json!("http-metrics")),
            service("a-other-port", ours.clone(), json!("http")),
            service("a-selects-nothing", json!({}), json!("http-metrics")),
            service("c-by-number", ours.clone(), json!(9)),
            service("b-by-name", ours.clone(), json!("http-metrics")),
            json!({"metadata": {"name": "a-without-selector"}}),
        ];
        assert_eq!(service_of(&services, &pod, 9), Some("b-by-name"));
        assert_eq!(service_of(&services[..4], &pod, 9), Some("c-by-number"));
        assert_eq!(service_of(&services[..3], &pod, 9), None);
        assert_eq!(service_of(&services, &json!({}), 9), None);
        let direct = json!({"metadata": {"name": "direct"}, "spec": {"selector": ours, "ports": [{"port": 9}]}});
        assert_eq!(service_of(&[direct], &pod, 9), Some("direct"));
    }
}
