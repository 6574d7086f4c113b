{{- define "common.labels" -}}
app: {{ .Chart.Name | quote }}
{{- end }}
