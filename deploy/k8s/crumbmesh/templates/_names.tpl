{{/* The release in front of every name, so that two can live in one namespace. */}}
{{- define "crumbmesh.name" -}}
{{- if contains "crumbmesh" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-crumbmesh{{ end }}
{{- end }}

{{/* What selects the pods of one part: (root, part). Never changes between releases. */}}
{{- define "crumbmesh.selector" -}}
app.kubernetes.io/name: crumbmesh
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "crumbmesh.labels" -}}
{{ include "crumbmesh.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* An image: (root, image), the release's own unless the part has one. */}}
{{- define "crumbmesh.image" -}}
{{- $image := .image | default .root.Values.image -}}
image: {{ printf "%s:%s" $image.repository ($image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ $image.pullPolicy | default "IfNotPresent" }}
{{- end }}

{{/* A group's part of a name: Kubernetes has no underscores, groups no dashes. */}}
{{- define "crumbmesh.group" -}}
toolexec-{{ . | replace "_" "-" }}
{{- end }}

{{/* What no schema can say about values. */}}
{{- define "crumbmesh.check" -}}
{{- $seen := dict }}
{{- range .Values.groups }}
{{- if hasKey $seen .name }}
{{- fail (printf "group %s stands twice" .name) }}
{{- end }}
{{- $_ := set $seen .name true }}
{{- if and .keda (not $.Values.nats.monitoring.endpoint) }}
{{- fail (printf "group %s has keda: expected nats.monitoring.endpoint, the host:port of NATS' monitoring, such as nats-headless.nats.svc:8222" .name) }}
{{- end }}
{{- if .keda }}{{- if gt (int (.keda.min | default 0)) (int .keda.max) }}
{{- fail (printf "group %s: keda.min %v is more than keda.max %v" .name .keda.min .keda.max) }}
{{- end }}{{- end }}
{{- end }}
{{- $seconds := 0 }}
{{- if hasSuffix "ms" .Values.grace }}{{ $seconds = 1 }}
{{- else if hasSuffix "m" .Values.grace }}{{ $seconds = mul 60 (trimSuffix "m" .Values.grace | int) }}
{{- else }}{{ $seconds = trimSuffix "s" .Values.grace | int }}{{ end }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int $seconds) }}
{{- fail (printf "terminationGracePeriodSeconds %v: expected more than grace %s, or Kubernetes kills what still finishes its calls" .Values.terminationGracePeriodSeconds .Values.grace) }}
{{- end }}
{{- end }}
