{{/* The Secret to pull images with; the first one is what the hub's pods get. */}}
{{- define "imagePullSecretName" -}}
{{- if .Values.images.imagePullSecrets -}}
{{- (index .Values.images.imagePullSecrets 0).name -}}
{{- else -}}
open-cluster-management-image-pull-credentials
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

{{- define "placementImage" -}}
{{- include "image" (dict "root" . "name" "placement" "override" .Values.images.overrides.placementImage) -}}
{{- end }}

{{- define "addOnManagerImage" -}}
{{- include "image" (dict "root" . "name" "addon-manager" "override" .Values.images.overrides.addOnManagerImage) -}}
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
