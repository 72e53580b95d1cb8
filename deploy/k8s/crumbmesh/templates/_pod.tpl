{{/* The environment of every process on NATS: (root, access). The connection's own
     flags come from it, so that a worker of your own can read the same. */}}
{{- define "crumbmesh.env" -}}
- name: NATS_URL
  value: {{ .root.Values.nats.url | quote }}
{{- with .access.nkeySecret }}
- name: NATS_NKEY
  value: /etc/crumbmesh/nkey/seed
{{- end }}
{{- with .access.jsApiPrefix }}
- name: CRUMB_JS_API_PREFIX
  value: {{ . | quote }}
{{- end }}
{{- with .access.inboxPrefix }}
- name: CRUMB_INBOX_PREFIX
  value: {{ . | quote }}
{{- end }}
{{- if .root.Values.nats.caSecret }}
- name: CRUMB_TLS_CA
  value: /etc/crumbmesh/ca/ca.crt
{{- end }}
{{- if or .access.certSecret .root.Values.nats.certSecret }}
- name: CRUMB_TLS_CERT
  value: /etc/crumbmesh/tls/tls.crt
- name: CRUMB_TLS_KEY
  value: /etc/crumbmesh/tls/tls.key
{{- end }}
- name: CRUMB_LOG_LEVEL
  value: {{ .root.Values.log.level }}
- name: CRUMB_LOG_FORMAT
  value: {{ .root.Values.log.format }}
{{- with .root.Values.otel.endpoint }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: service.instance.id=$(POD_NAME),k8s.pod.name=$(POD_NAME)
{{- end }}
{{- end }}

{{/* Seeds are files of mode 0440 that fsGroup makes readable. */}}
{{- define "crumbmesh.mounts" -}}
{{- if .access.nkeySecret }}
- {name: nkey, mountPath: /etc/crumbmesh/nkey, readOnly: true}
{{- end }}
{{- if .root.Values.nats.caSecret }}
- {name: ca, mountPath: /etc/crumbmesh/ca, readOnly: true}
{{- end }}
{{- if or .access.certSecret .root.Values.nats.certSecret }}
- {name: tls, mountPath: /etc/crumbmesh/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "crumbmesh.volumes" -}}
{{- with .access.nkeySecret }}
- name: nkey
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: {{ $.access.nkeyKey | default "nkey.seed" }}, path: seed}]}
{{- end }}
{{- with .root.Values.nats.caSecret }}
- name: ca
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- with .access.certSecret | default .root.Values.nats.certSecret }}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "crumbmesh.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "crumbmesh.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Started is whether it answers at all; ready, whether it may work. A service that
     waits for NATS is not killed: it reconnects. */}}
{{- define "crumbmesh.probes" -}}
ports:
  - {name: http, containerPort: 8480}
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* Replicas apart from each other where there is room. */}}
{{- define "crumbmesh.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "crumbmesh.selector" . | nindent 6 }}
{{- end }}

{{/* What every pod template has: (root, part). */}}
{{- define "crumbmesh.podMeta" -}}
metadata:
  labels:
    {{- include "crumbmesh.labels" . | nindent 4 }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
