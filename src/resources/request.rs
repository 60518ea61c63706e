//! What does a pod effectively ask for?
//!
//! The rule of Kubernetes, so that this scheduler, the kubelet and a quota agree:
//!
//! ```text
//! run   = Σ containers + Σ sidecars                    (sidecar: an init container that is restarted for ever)
//! init  = max over the init containers i of (i itself + Σ sidecars started before it)
//! pod   = max(run, init), cpu, memory and hugepages replaced by what the pod as a whole asks, if it does
//! asked = pod + overhead, and pods = 1
//! ```
//!
//! A container that is being resized counts with the largest of what is asked, allocated and in use, because the node
//! has not given the difference back yet; a resize that the node called infeasible is not counted, it never happens.

use super::name::{CPU, HUGEPAGES_PREFIX, MEMORY, PODS};
use super::{Amount, Resources};

/// What one container (or the pod as a whole) asks for and what it has.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ContainerRequest {
    /// `resources.requests` of the spec.
    pub requests: Resources,
    /// `allocatedResources` of its status: what the node has promised. `None` if the status does not say.
    pub allocated: Option<Resources>,
    /// `resources.requests` of its status: what is in force. `None` if the status does not say.
    pub actual: Option<Resources>,
    /// Only for init containers: `restartPolicy: Always`, a sidecar.
    pub restartable_init: bool,
}

/// A container that has no status yet.
impl From<Resources> for ContainerRequest {
    fn from(requests: Resources) -> Self {
        Self { requests, ..Self::default() }
    }
}

/// All that decides what a pod asks for.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PodRequestInput {
    /// The containers, in any order.
    pub containers: Vec<ContainerRequest>,
    /// The init containers, in the order of the spec.
    pub init_containers: Vec<ContainerRequest>,
    /// `spec.overhead`: what running any pod of this runtime class costs.
    pub overhead: Resources,
    /// `spec.resources.requests` of the pod as a whole, with what its status says; `None` if the spec has none.
    pub pod_level: Option<ContainerRequest>,
    /// The condition `PodResizePending` has the reason `Infeasible`.
    pub resize_infeasible: bool,
}

/// The effective request of a pod: without zeros, never negative (a negative amount counts as 0, so that nobody can make
/// room by asking for less than nothing), and with `pods` exactly 1.
#[must_use]
pub fn effective(pod: &PodRequestInput) -> Resources {
    let infeasible = pod.resize_infeasible;
    let mut run = Resources::new();
    for container in &pod.containers {
        run.add(&in_force(container, infeasible));
    }
    let mut sidecars = Resources::new();
    let mut init = Resources::new();
    for container in &pod.init_containers {
        if container.restartable_init {
            let request = in_force(container, infeasible);
            run.add(&request);
            sidecars.add(&request);
            init.max_each(&sidecars);
        } else {
            // It runs once, before the pod can be resized: its status says nothing that counts.
            let mut while_it_runs = container.requests.clone().without_negative();
            while_it_runs.add(&sidecars);
            init.max_each(&while_it_runs);
        }
    }
    run.max_each(&init);
    if let Some(whole) = &pod.pod_level {
        let in_force = in_force(whole, infeasible);
        for (name, _) in whole.requests.iter().filter(|(name, _)| counts_for_the_whole_pod(name)) {
            run.set(name.clone(), in_force.get(name));
        }
    }
    run.add(&pod.overhead.clone().without_negative());
    run.with(PODS, Amount::from_units(1))
}

/// The largest of asked, allocated and actual; without asked if the resize will not happen.
fn in_force(container: &ContainerRequest, infeasible: bool) -> Resources {
    let has_status = container.allocated.is_some() || container.actual.is_some();
    let mut most = if infeasible && has_status { Resources::new() } else { container.requests.clone() };
    for known in [&container.allocated, &container.actual].into_iter().flatten() {
        most.max_each(known);
    }
    most.without_negative()
}

/// Only these can be asked for by the pod as a whole; anything else there is ignored, as Kubernetes does.
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
    fn the_rules_of_kubernetes_hold_case_by_case() {
        type Case = (&'static str, PodRequestInput, &'static [(&'static str, &'static str)]);
        let cases: Vec<Case> = vec![
            ("nothing asked is one pod", PodRequestInput::default(), &[("pods", "1")]),
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
                "what the whole pod asks replaces cpu and memory, not devices; overhead comes on top",
                PodRequestInput {
                    containers: vec![of(&[("cpu", "1"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")]).into()],
                    overhead: of(&[("cpu", "1")]),
                    pod_level: Some(of(&[("cpu", "4"), ("nvidia.com/gpu", "9")]).into()),
                    ..Default::default()
                },
                &[("cpu", "5"), ("memory", "1Gi"), ("nvidia.com/gpu", "1"), ("pods", "1")],
            ),
            (
                "growing: what is asked counts at once",
                PodRequestInput { containers: vec![resized("3", "1", "1")], ..Default::default() },
                &[("cpu", "3"), ("pods", "1")],
            ),
            (
                "shrinking: what is still in use counts",
                PodRequestInput { containers: vec![resized("1", "1", "3")], ..Default::default() },
                &[("cpu", "3"), ("pods", "1")],
            ),
            (
                "what is allocated counts",
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
                "less than nothing is nothing, and nobody asks for more than one pod",
                PodRequestInput { containers: vec![of(&[("cpu", "-5"), ("pods", "7")]).into(), cpu("1")], ..Default::default() },
                &[("cpu", "1"), ("pods", "1")],
            ),
        ];
        for (what, pod, want) in cases {
            assert_eq!(effective(&pod), of(want), "{what}");
        }
    }
}
