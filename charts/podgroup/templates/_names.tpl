{{/* Names, labels and fragments that several templates share. */}}

{{/* The name of the application: the chart's, or nameOverride. */}}
{{- define "podgroup.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{- define "podgroup.fullname" -}}
{{- $name := include "podgroup.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- /* 40: the longest suffix still leaves a valid name of a Service (63). */ -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of a program. Arguments: root, component. */}}
{{- define "podgroup.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- fail (printf "%s.serviceAccount.create is false and %s.serviceAccount.name is empty: name the ServiceAccount that exists" .component .component) -}}
{{- end -}}
{{- $account.name | default (printf "%s-%s" (include "podgroup.fullname" .root) .component) -}}
{{- end -}}

{{/* The image of both programs: [registry/]repository[:tag][@digest]. */}}
{{- define "podgroup.image" -}}
{{- $image := .Values.image -}}
{{- if not $image.repository -}}
{{- fail "image.repository is empty, and this project publishes no image: build one with \"make dist\", push it, and set --set image.repository=registry.example.com/podgroup (docs/install.md)" -}}
{{- end -}}
{{- $registry := .Values.global.imageRegistry | default $image.registry -}}
{{- $first := splitList "/" $image.repository | first -}}
{{- if and $registry (contains "/" $image.repository) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- fail (printf "image.repository is %s, with a registry, and %s names another: leave the registry out of one of them" $image.repository (ternary "global.imageRegistry" "image.registry" (not (empty .Values.global.imageRegistry)))) -}}
{{- end -}}
{{- with $registry }}{{ . }}/{{ end }}{{ $image.repository -}}
{{- if $image.digest -}}
{{- with $image.tag }}:{{ . }}{{ end }}@{{ $image.digest -}}
{{- else -}}
:{{ $image.tag | default .Chart.AppVersion -}}
{{- end -}}
{{- end -}}

{{- define "podgroup.labels" -}}
app.kubernetes.io/name: {{ include "podgroup.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/component" "helm.sh/chart" }}
{{- range $key, $value := .Values.commonLabels }}
{{- if has $key $own }}
{{- fail (printf "commonLabels: %s is the chart's own label" $key) }}
{{- end }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Arguments: root, component. They stay the same for the whole life of a release, because the selector of a Deployment is immutable. */}}
{{- define "podgroup.selector" -}}
app.kubernetes.io/name: {{ include "podgroup.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The names of the generated form: "podgroup-" and a UUID in lower case, as the API server makes them. The programs use the same form. */}}
{{- define "podgroup.uidForm" -}}
[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
{{- end -}}

{{/*
The version of the MutatingAdmissionPolicy API to use; empty where no policy is to be made.
A cluster that Helm talks to lists its kinds ("v1/Pod"); `helm template` knows no cluster and then "true" means the stable version.
*/}}
{{- define "podgroup.policyVersion" -}}
{{- $enabled := toString .Values.admissionPolicy.enabled -}}
{{- $found := "" -}}
{{- range list "v1" "v1beta1" "v1alpha1" -}}
{{- if and (not $found) ($.Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/%s/MutatingAdmissionPolicy" .)) -}}
{{- $found = printf "admissionregistration.k8s.io/%s" . -}}
{{- end -}}
{{- end -}}
{{- if eq $enabled "true" -}}
{{- if and (not $found) (.Capabilities.APIVersions.Has "v1/Pod") -}}
{{- fail "admissionPolicy.enabled is true, but this cluster does not serve MutatingAdmissionPolicy (Kubernetes 1.36, or 1.34 with the API and its feature gate switched on). Use auto or false: without the policy everything works, and controller.annotatePods can write the names afterwards." -}}
{{- end -}}
{{- $found | default "admissionregistration.k8s.io/v1" -}}
{{- else if and (eq $enabled "auto") .Values.controller.enabled -}}
{{- $found -}}
{{- end -}}
{{- end -}}

{{/* "true" where the CRD of PodGroup in this cluster has the columns WHY and OWNER: one of ours, from another release or a manifest. */}}
{{- define "podgroup.ownColumns" -}}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "podgroups.scheduling.volcano.sh" }}
{{- $names := list }}
{{- range (dig "spec" "versions" list $crd) }}
{{- if eq .name "v1beta1" }}
{{- range .additionalPrinterColumns }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- end }}
{{- and (has "WHY" $names) (has "OWNER" $names) }}
{{- end -}}

{{/*
The fields that this release uses and the CRDs of this cluster lack, where another release installed them (crds.enabled=false). One line for each, empty where none is missing.
Additional fields of a newer CRD are kept and not read.
*/}}
{{- define "podgroup.crdGaps" -}}
{{- $ofGroups := list "spec.minMember" "spec.minTaskMember" "spec.minResources" "spec.queue" "spec.priorityClassName" "spec.networkTopology" "spec.subGroupPolicy" "status.phase" "status.conditions" "status.running" "status.succeeded" "status.failed" }}
{{- $ofQueues := list "spec.parent" "spec.capability" "spec.deserved" "spec.guarantee" "spec.weight" "spec.priority" "spec.reclaimable" "spec.dequeueStrategy" "spec.affinity" "status.state" "status.allocated" "status.pending" "status.inqueue" "status.running" "status.unknown" "status.completed" }}
{{- range $plural, $fields := dict "podgroups" $ofGroups "queues" $ofQueues }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (printf "%s.scheduling.volcano.sh" $plural) }}
{{- range (dig "spec" "versions" list $crd) }}
{{- if eq .name "v1beta1" }}
{{- $missing := list }}
{{- $schema := dig "schema" "openAPIV3Schema" dict . }}
{{- range $fields }}
{{- $path := splitList "." . }}
{{- $part := dig "properties" (first $path) dict $schema }}
{{- if and (not (dig "x-kubernetes-preserve-unknown-fields" false $part)) (not (hasKey (dig "properties" dict $part) (last $path))) }}
{{- $missing = append $missing . }}
{{- end }}
{{- end }}
{{- if $missing }}
{{- printf "the CRD of %s does not know %s, so the API server drops these fields: it is older than this release. Update Volcano's CRDs, or hand them over (docs/install.md).\n" $plural (join ", " $missing) }}
{{- end }}
{{- if and (eq $plural "queues") (not (hasKey (.subresources | default dict) "status")) }}
{{- printf "the CRD of queues has no status subresource, which Volcano's has: the scheduler can write no status of a Queue. Queues are closed and opened by their annotation all the same. Update the CRD, or hand it over (docs/install.md).\n" }}
{{- end }}
{{- if and (eq $plural "podgroups") (hasKey (.subresources | default dict) "status") }}
{{- printf "the CRD of podgroups has a status subresource, which Volcano's has not: the scheduler's status of a PodGroup is dropped. Update the CRD, or hand it over (docs/install.md).\n" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
