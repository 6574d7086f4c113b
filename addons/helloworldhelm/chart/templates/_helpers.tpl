{{/* The resources of a container by its ID: of several entries that fit, the last one counts. */}}
{{- define "helloworldhelm.resources" -}}
{{- $id := .id -}}
{{- range $entry := reverse .all -}}
{{- if regexMatch $entry.containerIDRegex $id -}}
{{- toYaml $entry.resources -}}
{{- break -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What all pods of the add-on have. */}}
{{- define "helloworldhelm.placement" -}}
serviceAccountName: {{ .Release.Name }}-agent-sa
{{- with .Values.global.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "helloworldhelm.environment" -}}
{{- range $name := list "HTTP_PROXY" "HTTPS_PROXY" "NO_PROXY" -}}
{{- with index $.Values.global.proxyConfig $name }}
- name: {{ $name }}
  value: {{ . | quote }}
{{- end }}
{{- end -}}
{{- end -}}
