//! Charts from files in memory, rendered as `helm template` would.

use gotemplate::helm::{Capabilities, Chart, KubeVersion, Release, RenderError, RenderOptions, merge_values};
use serde_json::json;

const DEPLOYMENT: &str = r#"{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "agent.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "agent.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  template:
    spec:
      containers:
      - name: agent
        image: {{ .Values.image | quote }}
        {{- with .Values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Release.Name }}-sa
---
apiVersion: batch/v1
kind: Job
metadata:
  name: cleanup
  annotations:
    helm.sh/hook: pre-delete
    helm.sh/hook-weight: "5"
"#;

const HELPERS: &str = r#"{{- define "agent.name" -}}
{{ .Release.Name }}-agent
{{- end }}
{{- define "agent.labels" -}}
app: {{ .Chart.Name }}
{{- if .Capabilities.APIVersions.Has "route.openshift.io/v1" }}
openshift: "true"
{{- end }}
version: {{ .Chart.AppVersion | quote }}
{{- end }}
"#;

fn chart() -> Chart {
    Chart::from_files([
        (
            "Chart.yaml",
            "apiVersion: v2\nname: agent\nversion: 1.2.3\nappVersion: \"2.0\"\n",
        ),
        (
            "values.yaml",
            "enabled: true\nreplicas: 1\nimage: example:v1\nresources:\n  limits:\n    memory: 64Mi\n    cpu: null\n",
        ),
        ("templates/_helpers.tpl", HELPERS),
        ("templates/deployment.yaml", DEPLOYMENT),
        ("templates/NOTES.txt", "Thank you"),
        (
            "crds/things.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things.x.io\n",
        ),
    ])
    .unwrap()
}

fn capabilities() -> Capabilities {
    Capabilities {
        kube_version: KubeVersion::parse("v1.31.2"),
        ..Capabilities::default()
    }
}

#[test]
fn a_chart_becomes_custom_resources_objects_in_install_order_and_hooks() {
    let release = Release::install("helloworld", "agents");
    let rendered = chart()
        .render(
            &release,
            &capabilities(),
            json!({"replicas": 2}),
            &RenderOptions::default(),
        )
        .unwrap();
    assert_eq!(rendered.crds.len(), 1);
    let kinds: Vec<_> = rendered.manifests.iter().map(|it| it.kind()).collect();
    assert_eq!(kinds, ["ServiceAccount", "Deployment"]);
    assert_eq!(
        rendered.manifests[1].json,
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "helloworld-agent",
                "namespace": "agents",
                "labels": {"app": "agent", "version": "2.0"},
            },
            "spec": {
                "replicas": 2,
                "template": {"spec": {"containers": [{
                    "name": "agent",
                    "image": "example:v1",
                    "resources": {"limits": {"memory": "64Mi", "cpu": null}},
                }]}},
            },
        })
    );
    assert_eq!(rendered.hooks.len(), 1);
    assert_eq!(rendered.hooks[0].events, ["pre-delete"]);
    assert_eq!(rendered.hooks[0].weight, 5);
}

#[test]
fn a_null_takes_a_default_away() {
    let release = Release::install("x", "y");
    let values = json!({"resources": {"limits": {"memory": null, "cpu": "1"}}});
    let rendered = chart()
        .render(&release, &capabilities(), values, &RenderOptions::default())
        .unwrap();
    let container = &rendered.manifests[1].json["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({"limits": {"cpu": "1"}}));
}

#[test]
fn a_chart_that_wants_a_newer_kubernetes_is_refused() {
    let mut chart = chart();
    chart.metadata.kube_version = ">=1.32".to_owned();
    let release = Release::install("x", "y");
    let refused = chart.render(&release, &capabilities(), json!({}), &RenderOptions::default());
    let Err(RenderError::KubeVersion { .. }) = refused else {
        panic!("{refused:?}");
    };
}

#[test]
fn values_are_merged_deeply_and_lists_replaced() {
    let mut base = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
    merge_values(&mut base, &json!({"a": {"b": 3}, "l": [4], "n": null}));
    assert_eq!(base, json!({"a": {"b": 3, "c": 2}, "l": [4], "n": null}));
}
