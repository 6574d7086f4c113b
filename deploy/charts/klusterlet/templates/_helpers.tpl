{{/* Whether the operator runs here: it follows the Klusterlets of hosted clusters, too, but their charts leave it out. */}}
{{- define "withOperator" -}}
{{- if and (has .Values.klusterlet.mode (list "Default" "Singleton")) (not .Values.noOperator) }}yes{{ end -}}
{{- end }}

{{/* Where the agent runs: of a hosted one, the namespace that is named as the Klusterlet. */}}
{{- define "agentNamespace" -}}
{{- if has .Values.klusterlet.mode (list "Hosted" "SingletonHosted") -}}
{{- include "klusterletName" . -}}
{{- else -}}
{{- include "klusterletNamespace" . -}}
{{- end -}}
{{- end }}

{{- define "klusterletName" -}}
{{- if .Values.klusterlet.name -}}
{{- .Values.klusterlet.name -}}
{{- else if has .Values.klusterlet.mode (list "Hosted" "SingletonHosted") -}}
{{- printf "klusterlet-%s" .Values.klusterlet.clusterName -}}
{{- else -}}
klusterlet
{{- end -}}
{{- end }}

{{- define "klusterletNamespace" -}}
{{- if .Values.klusterlet.namespace -}}
{{- .Values.klusterlet.namespace -}}
{{- else if has .Values.klusterlet.mode (list "Hosted" "SingletonHosted") -}}
{{- printf "open-cluster-management-%s" .Values.klusterlet.clusterName -}}
{{- else -}}
open-cluster-management-agent
{{- end -}}
{{- end }}

{{/* An image: its override, or the registry and the tag of the layout. Takes the root, upstream's name and the override. */}}
{{- define "image" -}}
{{- $images := .root.Values.images -}}
{{- if .override -}}
{{- .override -}}
{{- else if eq .root.Values.layout "upstream" -}}
{{- printf "%s/%s:%s" ($images.registry | default "quay.io/open-cluster-management") .name ($images.tag | default "v1.3.1") -}}
{{- else -}}
{{- if $images.registry }}{{ $images.registry }}/{{ end }}drover:{{ $images.tag | default .root.Chart.AppVersion -}}
{{- end -}}
{{- end }}

{{- define "registrationImage" -}}
{{- include "image" (dict "root" . "name" "registration" "override" .Values.images.overrides.registrationImage) -}}
{{- end }}

{{- define "workImage" -}}
{{- include "image" (dict "root" . "name" "work" "override" .Values.images.overrides.workImage) -}}
{{- end }}

{{- define "operatorImage" -}}
{{- include "image" (dict "root" . "name" "registration-operator" "override" .Values.images.overrides.operatorImage) -}}
{{- end }}

{{/* What the Secret to pull images with holds. */}}
{{- define "dockerConfigJson" -}}
{{- $images := .Values.images -}}
{{- $credentials := $images.imageCredentials -}}
{{- if and $credentials.userName $credentials.password -}}
{{- $registry := $images.registry -}}
{{- if and (not $registry) (eq .Values.layout "upstream") -}}
{{- $registry = "quay.io/open-cluster-management" -}}
{{- end -}}
{{- $registry = required "images.registry is empty: images.imageCredentials.userName and password need the registry that they are for" $registry -}}
{{- $auth := printf "%s:%s" $credentials.userName $credentials.password | b64enc -}}
{{- printf "{\"auths\": {\"%s\": {\"auth\": \"%s\"}}}" $registry $auth -}}
{{- else -}}
{{- $credentials.dockerConfigJson | default "{}" -}}
{{- end -}}
{{- end }}
