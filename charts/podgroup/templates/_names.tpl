{{/* What is everything called? Names, labels and the few words that several templates share. */}}

{{- define "podgroup.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- /* 40: the longest suffix still leaves a valid name of a Service (63). */ -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "podgroup.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Arguments: root, component. These never change in the life of a release: a Deployment's selector cannot. */}}
{{- define "podgroup.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
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
