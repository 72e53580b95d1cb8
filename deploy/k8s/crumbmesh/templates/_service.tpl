{{/* The Deployment of one of the services that no group has: (root, part, values, args,
     env, mounts, volumes). */}}
{{- define "crumbmesh.service" -}}
{{- $root := .root }}
{{- $scope := dict "root" .root "part" .part "access" (.values.access | default dict) }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "crumbmesh.name" $root }}-{{ .part }}
  labels: {{- include "crumbmesh.labels" $scope | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels: {{- include "crumbmesh.selector" $scope | nindent 6 }}
  template:
    {{- include "crumbmesh.podMeta" $scope | nindent 4 }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $root.Values.terminationGracePeriodSeconds }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "crumbmesh.podSecurity" . | nindent 8 }}
      topologySpreadConstraints: {{- include "crumbmesh.spread" $scope | nindent 8 }}
      {{- with $root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .part }}
          {{- include "crumbmesh.image" (dict "root" $root) | nindent 10 }}
          args: [{{ .part }}, --http=:8480{{ range .args }}, {{ . | quote }}{{ end }}]
          env:
            {{- include "crumbmesh.env" $scope | nindent 12 }}
            {{- with .env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- include "crumbmesh.probes" . | nindent 10 }}
          securityContext: {{- include "crumbmesh.containerSecurity" . | nindent 12 }}
          resources: {{- toYaml .values.resources | nindent 12 }}
          {{- $mounts := trim (include "crumbmesh.mounts" $scope) }}
          {{- if or $mounts .mounts }}
          volumeMounts:
            {{- with $mounts }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with .mounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
      {{- $volumes := trim (include "crumbmesh.volumes" $scope) }}
      {{- if or $volumes .volumes }}
      volumes:
        {{- with $volumes }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
{{- end }}
