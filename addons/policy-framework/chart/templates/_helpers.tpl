{{- define "framework.labels" -}}
app: {{ .Release.Name }}
chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
release: {{ .Release.Name }}
heritage: {{ .Release.Service }}
{{- end -}}

{{/* Everything but what stays on the managed cluster follows the agent. */}}
{{- define "framework.agentLabels" -}}
{{ include "framework.labels" . }}
addon.open-cluster-management.io/hosted-manifest-location: hosting
{{- end -}}

{{/* Where the policies of the cluster are. */}}
{{- define "framework.policyNamespace" -}}
{{- if eq .Values.installMode "Hosted" }}{{ .Release.Namespace }}{{ else }}{{ .Values.clusterName }}{{ end -}}
{{- end -}}

{{/* "yes" when nothing is brought from the hub, because the cluster is the hub. */}}
{{- define "framework.isHub" -}}
{{- if and .Values.onMulticlusterHub (ne .Values.installMode "Hosted") (not .Values.syncPoliciesOnMulticlusterHub) }}yes{{ end -}}
{{- end -}}

{{- define "framework.secureMetrics" -}}
{{- if and .Values.prometheus.enabled (eq .Values.hostingKubernetesDistribution "OpenShift") }}yes{{ end -}}
{{- end -}}

{{/* The resources of a container by its ID: of several entries that fit, the last one counts. */}}
{{- define "framework.resources" -}}
{{- $id := .id -}}
{{- range $entry := reverse .all -}}
{{- if regexMatch $entry.containerIDRegex $id -}}
{{- toYaml $entry.resources -}}
{{- break -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "framework.environment" -}}
- name: OPERATOR_NAME
  value: governance-policy-framework-addon
{{- range $name := list "HTTP_PROXY" "HTTPS_PROXY" "NO_PROXY" -}}
{{- with index $.Values.global.proxyConfig $name }}
- name: {{ $name }}
  value: {{ . | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "framework.confined" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
privileged: false
readOnlyRootFilesystem: true
{{- end -}}

{{/* What all pods of the add-on have. */}}
{{- define "framework.pod" -}}
serviceAccountName: {{ .Release.Name }}-sa
hostNetwork: false
hostPID: false
hostIPC: false
securityContext:
  runAsNonRoot: true
{{- with .Values.global.imagePullSecret }}
imagePullSecrets:
- name: {{ . | quote }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.global.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
