//! The effective request of a pod.
//!
//! It follows the rule of Kubernetes, so this scheduler, the kubelet and a ResourceQuota agree:
//!
//! ```text
//! run       = Σ containers + Σ sidecars                (sidecar: an init container with restartPolicy Always)
//! init      = max over the init containers i of (i itself + Σ sidecars started before it)
//! pod       = max(run, init); the pod-level requests replace cpu, memory and hugepages, if there are any
//! effective = pod + overhead, and pods = 1
//! ```
//!
//! A container that is being resized counts with the largest of its requested, allocated and actual resources, because the node has not released the
//! difference yet. A resize that the node calls infeasible does not count, because it never happens.

use super::name::{CPU, HUGEPAGES_PREFIX, MEMORY, PODS};
use super::{Amount, Resources};

/// The requests of one container, or of the pod as a whole, with its status.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ContainerRequest {
    /// `resources.requests` of the spec.
    pub requests: Resources,
    /// `allocatedResources` of the status: what the node has allocated. `None` if the status does not have it.
    pub allocated: Option<Resources>,
    /// `resources.requests` of the status: what the container has now. `None` if the status does not have it.
    pub actual: Option<Resources>,
    /// Whether an init container has `restartPolicy: Always`, which makes it a sidecar.
    pub restartable_init: bool,
}

/// Returns the requests of a container without a status.
impl From<Resources> for ContainerRequest {
    fn from(requests: Resources) -> Self {
        Self { requests, ..Self::default() }
    }
}

/// Everything that the effective request of a pod depends on.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PodRequestInput {
    /// The containers, in any order.
    pub containers: Vec<ContainerRequest>,
    /// The init containers, in the order of the spec.
    pub init_containers: Vec<ContainerRequest>,
    /// `spec.overhead`: the cost of a pod of this runtime class.
    pub overhead: Resources,
    /// `spec.resources.requests` of the pod as a whole, with its status; `None` if the spec has none.
    pub pod_level: Option<ContainerRequest>,
    /// Whether the condition `PodResizePending` has the reason `Infeasible`.
    pub resize_infeasible: bool,
}

/// Returns the effective request of a pod. It has no zeros and no negative amounts, and `pods` is exactly 1. A negative request counts as
/// 0, so it cannot free resources.
#[must_use]
pub fn effective(pod: &PodRequestInput) -> Resources {
    let infeasible = pod.resize_infeasible;
    let mut run = Resources::new();
    for container in &pod.containers {
        run.add(&largest_request(container, infeasible));
    }
    let mut sidecars = Resources::new();
    let mut init = Resources::new();
    for container in &pod.init_containers {
        if container.restartable_init {
            let request = largest_request(container, infeasible);
            run.add(&request);
            sidecars.add(&request);
            init.max_each(&sidecars);
        } else {
            // An init container runs before the pod can be resized, so its status does not count.
            let mut while_it_runs = container.requests.clone().without_negative();
            while_it_runs.add(&sidecars);
            init.max_each(&while_it_runs);
        }
    }
    run.max_each(&init);
    if let Some(whole) = &pod.pod_level {
        let effective = largest_request(whole, infeasible);
        for (name, _) in whole.requests.iter().filter(|(name, _)| counts_for_the_whole_pod(name)) {
            run.set(name.clone(), effective.get(name));
        }
    }
    run.add(&pod.overhead.clone().without_negative());
    run.with(PODS, Amount::from_units(1))
}

/// Returns the largest of the requested, allocated and actual resources; without the requested ones if the resize is infeasible.
fn largest_request(container: &ContainerRequest, infeasible: bool) -> Resources {
    let has_status = container.allocated.is_some() || container.actual.is_some();
    let mut most = if infeasible && has_status { Resources::new() } else { container.requests.clone() };
    for known in [&container.allocated, &container.actual].into_iter().flatten() {
        most.max_each(known);
    }
    most.without_negative()
}

/// Returns whether a pod-level request of this resource counts. Kubernetes ignores the others.
fn counts_for_the_whole_pod(name: &str) -> bool {
    matches!(name, CPU | MEMORY) || name.starts_with(HUGEPAGES_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::quantity::parse;

    fn of(entries: &[(&str, &str)]) -> Resources {
        entries.iter().map(|(name, text)| ((*name).into(), parse(text).unwrap())).collect()
    }

    fn cpu(text: &str) -> ContainerRequest {
        of(&[("cpu", text)]).into()
    }

    fn sidecar(text: &str) -> ContainerRequest {
        ContainerRequest { restartable_init: true, ..cpu(text) }
    }

    fn resized(asked: &str, allocated: &str, actual: &str) -> ContainerRequest {
        ContainerRequest { allocated: Some(of(&[("cpu", allocated)])), actual: Some(of(&[("cpu", actual)])), ..cpu(asked) }
    }

    #[test]
    fn the_effective_request_follows_the_rule_of_kubernetes() {
        type Case = (&'static str, PodRequestInput, &'static [(&'static str, &'static str)]);
        let cases: Vec<Case> = vec![
            ("a pod without requests counts as one pod", PodRequestInput::default(), &[("pods", "1")]),
            (
                "containers add up",
                PodRequestInput { containers: vec![cpu("1"), cpu("500m")], ..Default::default() },
                &[("cpu", "1500m"), ("pods", "1")],
            ),
            (
                "the largest init container counts, not their sum",
                PodRequestInput { containers: vec![cpu("1")], init_containers: vec![cpu("2"), cpu("3")], ..Default::default() },
                &[("cpu", "3"), ("pods", "1")],
            ),
            (
                "A8: init 4, main 1, sidecar 1 (started after init), overhead 100m",
                PodRequestInput {
                    containers: vec![cpu("1")],
                    init_containers: vec![cpu("4"), sidecar("1")],
                    overhead: of(&[("cpu", "100m")]),
                    ..Default::default()
                },
                &[("cpu", "4100m"), ("pods", "1")],
            ),
            (
                "a sidecar that started before runs beside the init container",
                PodRequestInput { containers: vec![cpu("1")], init_containers: vec![sidecar("1"), cpu("4")], ..Default::default() },
                &[("cpu", "5"), ("pods", "1")],
            ),
            (
                "sidecars add to the containers",
                PodRequestInput {
                    containers: vec![cpu("3")],
                    init_containers: vec![sidecar("1"), cpu("1"), sidecar("2")],
                    ..Default::default()
                },
                &[("cpu", "6"), ("pods", "1")],
            ),
            (
                "pod-level requests replace cpu and memory, not devices, and overhead is added",
                PodRequestInput {
                    containers: vec![of(&[("cpu", "1"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")]).into()],
                    overhead: of(&[("cpu", "1")]),
                    pod_level: Some(of(&[("cpu", "4"), ("nvidia.com/gpu", "9")]).into()),
                    ..Default::default()
                },
                &[("cpu", "5"), ("memory", "1Gi"), ("nvidia.com/gpu", "1"), ("pods", "1")],
            ),
            (
                "growing: the request counts at once",
                PodRequestInput { containers: vec![resized("3", "1", "1")], ..Default::default() },
                &[("cpu", "3"), ("pods", "1")],
            ),
            (
                "shrinking: the actual resources count",
                PodRequestInput { containers: vec![resized("1", "1", "3")], ..Default::default() },
                &[("cpu", "3"), ("pods", "1")],
            ),
            (
                "the allocated resources count",
                PodRequestInput { containers: vec![resized("1", "3", "2")], ..Default::default() },
                &[("cpu", "3"), ("pods", "1")],
            ),
            (
                "an infeasible resize does not count",
                PodRequestInput { containers: vec![resized("30", "1", "2")], resize_infeasible: true, ..Default::default() },
                &[("cpu", "2"), ("pods", "1")],
            ),
            (
                "a resize of the whole pod",
                PodRequestInput { containers: vec![cpu("1")], pod_level: Some(resized("2", "4", "3")), ..Default::default() },
                &[("cpu", "4"), ("pods", "1")],
            ),
            (
                "a negative request is 0, and a request of pods is always 1",
                PodRequestInput { containers: vec![of(&[("cpu", "-5"), ("pods", "7")]).into(), cpu("1")], ..Default::default() },
                &[("cpu", "1"), ("pods", "1")],
            ),
        ];
        for (what, pod, want) in cases {
            assert_eq!(effective(&pod), of(want), "{what}");
        }
    }
}
