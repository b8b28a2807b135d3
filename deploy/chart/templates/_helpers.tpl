{{/* A text as a YAML scalar: quoted if it would be a number, a comment or several lines. */}}
{{- define "fxccm.scalar" -}}
{{- if regexMatch "\\s" . }}{{ toJson . }}{{ else }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "fxccm.name" -}}
{{ required "fullnameOverride must not be empty" .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fxccm.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "fxccm.name" .) }}
{{- end }}

{{- define "fxccm.leaseName" -}}
{{ .Values.leaderElection.resourceName | default (include "fxccm.name" .) }}
{{- end }}

{{- define "fxccm.leaseNamespace" -}}
{{ .Values.leaderElection.resourceNamespace | default .Release.Namespace }}
{{- end }}

{{- define "fxccm.selector" -}}
app.kubernetes.io/name: {{ include "fxccm.scalar" (include "fxccm.name" .) }}
{{- end }}

{{- define "fxccm.labels" -}}
{{ include "fxccm.selector" . }}
app.kubernetes.io/part-of: fxccm
{{- if ne .Release.Service "kustomize" }}
app.kubernetes.io/instance: {{ include "fxccm.scalar" .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{- define "fxccm.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "fxccm.subject" }}
subjects:
  - kind: ServiceAccount
    name: {{ include "fxccm.scalar" (include "fxccm.serviceAccount" .) }}
    namespace: {{ include "fxccm.scalar" .Release.Namespace }}
{{- end }}

{{- define "fxccm.sourceRules" -}}
{{- if eq .Values.fleet.clusters "clusterapi" -}}
# The clusters of the fleet.
- apiGroups: ["cluster.x-k8s.io"]
  resources: ["clusters"]
  verbs: ["list", "watch"]
{{ if .Values.fleet.cleanUpLoadBalancers -}}
# A Cluster has the fleet's finalizer until its load balancers are deleted, and events that say so.
- apiGroups: ["cluster.x-k8s.io"]
  resources: ["clusters"]
  verbs: ["get", "patch"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create"]
{{ end -}}
{{ end -}}
# Their kubeconfigs, and the configurations of their cloud provider. A list is selected by labels,
# but RBAC cannot restrict it to them.
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["list", "watch"]
{{- end }}

{{- /* Refuse values of openstack-cloud-controller-manager's chart with what to set instead. */ -}}
{{- define "fxccm.refuseOCCMValues" -}}
{{- $refused := list -}}
{{- range $key, $instead := .Files.Get "occm-values.yaml" | fromYaml -}}
  {{- $value := $.Values -}}
  {{- range splitList "." $key -}}
    {{- if kindIs "map" $value -}}
      {{- $value = get $value . -}}
    {{- else -}}
      {{- $value = "" -}}
    {{- end -}}
  {{- end -}}
  {{- if $value -}}
    {{- $refused = append $refused (printf "%s is a value of the chart of openstack-cloud-controller-manager; here: %s" $key $instead) -}}
  {{- end -}}
{{- end -}}
{{- if regexMatch "(^|/)openstack-cloud-controller-manager[^/]*$" .Values.image.repository -}}
  {{- $refused = append $refused "image.repository is that of openstack-cloud-controller-manager; here: the repository of fxccm's image" -}}
{{- end -}}
{{- if $refused -}}
  {{- fail (join "\n" $refused) -}}
{{- end -}}
{{- end -}}
