{{- define "fxccm.name" -}}
{{ required "fullnameOverride must not be empty" .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fxccm.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "fxccm.name" .) }}
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
