//! How do the simulated kubelets treat pods, where the simulator's own way does not fit a case?

/// Nodes are ready, pods run as soon as they have a node, and end when they are deleted. Finalizers hold them, as in a cluster; the
/// simulator's own stage removes them. The helper pods of local-path-provisioner succeed instead. The simulator's own stages also complete
/// the pods of Jobs; they are all replaced, because the simulator has either its own stages or these.
pub const JOBS_RUN_ON: &str = r#"apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
      - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: "True", reason: KubeletReady, lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: run}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .metadata.namespace, operator: NotIn, values: [local-path-storage]}
      - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ Now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: true, restartCount: 0, state: {running: {startedAt: {{ Now | Quote }}}}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: help}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .metadata.namespace, operator: In, values: [local-path-storage]}
      - {key: .status.phase, operator: In, values: [Pending]}
  next: {statusTemplate: 'phase: Succeeded'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
"#;
