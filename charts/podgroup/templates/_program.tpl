{{/*
What do the two programs have in common? Account, Deployment, Service, and the right to their Lease. What differs is told by the caller:
root, component ("controller" or "scheduler"), port, values (of that program), args (the flags that only it has).
*/}}

{{- define "podgroup.program" -}}
{{- $name := printf "%s-%s" (include "podgroup.fullname" .root) .component -}}
{{- $election := .root.Values.leaderElection.enabled -}}
{{- if and (not $election) (gt (int .values.replicas) 1) -}}
{{- fail (printf "%s.replicas is %d with leaderElection.enabled=false: two replicas would act at the same time. Set %s.replicas=1, or leave the election on." .component (int .values.replicas) .component) -}}
{{- end -}}
{{- if and (eq .component "scheduler") (has "default-scheduler" .root.Values.schedulerNames) (not .root.Values.replacesDefaultScheduler) -}}
{{- fail "schedulerNames has default-scheduler, which is kube-scheduler's name: two schedulers would place the same pods. Name another one, or set replacesDefaultScheduler=true where kube-scheduler does not run or serves another name." -}}
{{- end -}}
{{- $account := include "podgroup.serviceAccount" (dict "root" .root "component" .component) -}}
{{- if and .root.Values.http.secure.certSecret (not .root.Values.http.secure.enabled) -}}
{{- fail "http.secure.certSecret is set and http.secure.enabled is not: without TLS no certificate is shown. Set http.secure.enabled=true, or leave the Secret out." -}}
{{- end -}}
{{- /* Typed twice, a flag ends the program; and rights, policies and probes go by the value. */ -}}
{{- $values := dict "scheduler-name" "schedulerNames" "leader-elect" "leaderElection.enabled" "leader-elect-namespace" "the namespace of the release" "http-address" "http.bindAddress"
  "secure-serving" "http.secure.enabled" "tls-cert-file" "http.secure.certSecret" "tls-private-key-file" "http.secure.certSecret" "log-format" "logFormat"
  "placement" "scheduler.placement" "queue-status" "scheduler.queueStatus" "evictions" "scheduler.evictions" "admit-by" "scheduler.admitBy" "admission-timeout" "scheduler.admissionTimeout"
  "admission-patience" "scheduler.admissionTimeout" "release-after" "scheduler.releaseAfter" "volume-timeout" "scheduler.volumeTimeout" "scheduled-events" "scheduler.scheduledEvents" "annotate-pods" "controller.annotatePods" -}}
{{- $component := .component -}}
{{- range .values.extraArgs -}}
{{- with index $values (. | trimPrefix "--" | splitList "=" | first) -}}
{{- fail (printf "%s.extraArgs: this flag has a value of the chart, %s: say that instead" $component .) -}}
{{- end -}}
{{- end -}}
{{- range .values.extraEnv -}}
{{- if eq .name "RUST_LOG" -}}
{{- fail (printf "%s.extraEnv: RUST_LOG has a value of the chart, logFilter: set that instead" $component) -}}
{{- end -}}
{{- end -}}
{{- if .values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  {{- with .values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# The pods that need the token ask for it themselves.
automountServiceAccountToken: false
---
{{ end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      {{- include "podgroup.selector" . | nindent 6 }}
  strategy:
    {{- if $election }}
    type: RollingUpdate
    rollingUpdate:
      # The new one is ready, its caches complete, before the old one goes.
      maxUnavailable: 0
      maxSurge: 1
    {{- else }}
    # Without leader election the old one must be gone before the new one acts.
    type: Recreate
    {{- end }}
  template:
    metadata:
      labels:
        {{- include "podgroup.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        {{- range $key, $value := .values.podLabels }}
        {{- if or (hasPrefix "app.kubernetes.io/" $key) (eq $key "helm.sh/chart") }}
        {{- fail (printf "%s.podLabels: %s is the chart's own label" $.component $key) }}
        {{- end }}
        {{ $key }}: {{ $value | quote }}
        {{- end }}
      {{- with .values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $account }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      # The controller ends within four seconds of SIGTERM. The scheduler waits up to 20 s for the outcome of the bindings that it has sent, so that the next
      # leader can start at once. The rest is for a slow node.
      terminationGracePeriodSeconds: {{ eq .component "scheduler" | ternary 30 10 }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- include "podgroup.spread" . | nindent 8 }}
      securityContext:
        runAsNonRoot: true
        {{- with .root.Values.runAsUser }}
        runAsUser: {{ int . }}
        {{- end }}
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ .component }}
          image: {{ include "podgroup.image" .root | quote }}
          {{- with .root.Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          command: [{{ printf "/podgroup-%s" .component | quote }}]
          args:
            {{- range .root.Values.schedulerNames }}
            - --scheduler-name={{ . }}
            {{- end }}
            - --leader-elect={{ $election }}
            {{- if $election }}
            - --leader-elect-namespace={{ .root.Release.Namespace }}
            {{- end }}
            - --http-address={{ .root.Values.http.bindAddress }}:{{ .port }}
            {{- if .root.Values.http.secure.enabled }}
            - --secure-serving
            {{- if .root.Values.http.secure.certSecret }}
            - --tls-cert-file=/certificate/tls.crt
            - --tls-private-key-file=/certificate/tls.key
            {{- end }}
            {{- end }}
            - --log-format={{ .root.Values.logFormat }}
            {{- range concat .args (.values.extraArgs | default list) }}
            - {{ . | quote }}
            {{- end }}
          {{- if or .root.Values.logFilter .values.extraEnv }}
          env:
            {{- with .root.Values.logFilter }}
            - name: RUST_LOG
              value: {{ . | quote }}
            {{- end }}
            {{- with .values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
          ports:
            - name: http-metrics
              containerPort: {{ .port }}
              protocol: TCP
          # Fails only when the program's main loop has made no progress for a minute. A restart mends that; it does not mend an unavailable API server.
          livenessProbe:
            httpGet:
              path: /healthz
              port: http-metrics
              {{- include "podgroup.scheme" . | nindent 14 }}
            periodSeconds: 10
            failureThreshold: 3
          # True only once the lists are complete and while the watches work, of a replica that stands by too: it never waits for the lease, or a rolling
          # update would wait for the old leader, and that for the update.
          readinessProbe:
            httpGet:
              path: /readyz
              port: http-metrics
              {{- include "podgroup.scheme" . | nindent 14 }}
            periodSeconds: 2
          {{- with .values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if and .root.Values.http.secure.enabled .root.Values.http.secure.certSecret }}
          volumeMounts:
            # No subPath: such a mount is never brought up to date.
            - name: certificate
              mountPath: /certificate
              readOnly: true
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
      {{- if and .root.Values.http.secure.enabled .root.Values.http.secure.certSecret }}
      volumes:
        - name: certificate
          secret:
            secretName: {{ .root.Values.http.secure.certSecret }}
      {{- end }}
{{- if .root.Values.metrics.service.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .port | quote }}
    prometheus.io/path: /metrics
    {{- if .root.Values.http.secure.enabled }}
    prometheus.io/scheme: https
    {{- end }}
spec:
  # Headless: every replica is scraped, not whichever answers, and most of all one that says why it is not ready.
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "podgroup.selector" . | nindent 4 }}
  ports:
    - name: http-metrics
      port: {{ .port }}
      targetPort: http-metrics
      protocol: TCP
{{- end }}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  # Not minAvailable: a program that is not ready, for the API server is away, must not keep its node from being drained.
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "podgroup.selector" . | nindent 6 }}
{{- end }}
{{- with .root.Values.networkPolicy }}
{{- if .enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  namespace: {{ $.root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" $.root | nindent 4 }}
    app.kubernetes.io/component: {{ $.component }}
spec:
  podSelector:
    matchLabels:
      {{- include "podgroup.selector" $ | nindent 6 }}
  policyTypes: [Ingress{{ if .egress }}, Egress{{ end }}]
  ingress:
    - ports:
        - port: http-metrics
          protocol: TCP
      {{- with .from }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- with .egress }}
  egress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- if $election }}
{{- /* Without a Lease a program waits for its duration: it may have been deleted under its holder. One without a holder says that there is none. */}}
{{- if not (lookup "coordination.k8s.io/v1" "Lease" .root.Release.Namespace (printf "podgroup-%s" .component)) }}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: podgroup-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  annotations:
    # It belongs to the program from now on: no upgrade, rollback or uninstallation touches it.
    helm.sh/hook: pre-install
    helm.sh/hook-delete-policy: hook-failed
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-lease
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
rules:
  # Making the Lease: RBAC cannot bind a create to a name.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  # Holding it, and only it.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [podgroup-{{ .component }}]
    verbs: [get, update]
  # Of which version the other program is.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [podgroup-{{ ternary "scheduler" "controller" (eq .component "controller") }}]
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-lease
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}-lease
subjects:
  - kind: ServiceAccount
    name: {{ $account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "podgroup.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $account }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* Where the replicas of a program run: each on a node and in a zone of its own as far as that can be had, else as the values say. */}}
{{- define "podgroup.spread" -}}
{{- $own := include "podgroup.selector" . | fromYaml -}}
{{- $constraints := list -}}
{{- range .values.topologySpreadConstraints -}}
{{- $constraints = append $constraints (ternary . (merge (dict "labelSelector" (dict "matchLabels" $own)) .) (hasKey . "labelSelector")) -}}
{{- end -}}
{{- if not $constraints -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- /* ScheduleAnyway: with two nodes, or one, the third pod of a rolling update must find a place. */ -}}
{{- $constraints = append $constraints (dict "maxSkew" 1 "topologyKey" . "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" (dict "matchLabels" $own)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}

{{/* How the kubelet's probes come: with TLS where that is on; they check no certificate. */}}
{{- define "podgroup.scheme" -}}
scheme: {{ ternary "HTTPS" "HTTP" .root.Values.http.secure.enabled }}
{{- end -}}
