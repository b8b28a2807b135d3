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
app.kubernetes.io/name: {{ include "fxccm.name" . }}
{{- end }}

{{- define "fxccm.labels" -}}
{{ include "fxccm.selector" . }}
app.kubernetes.io/part-of: fxccm
{{- if ne .Release.Service "kustomize" }}
app.kubernetes.io/instance: {{ .Release.Name }}
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
    name: {{ include "fxccm.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
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
