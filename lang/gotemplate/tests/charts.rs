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
fn a_chart_renders_crds_ordered_objects_and_hooks() {
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

/// A chart packed as `helm package` packs it.
fn packed(name: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = format!("{name}/{path}");
        archive.append_data(&mut header, path, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

const METADATA: &str = "apiVersion: v2\nname: outer\nversion: 1.0.0\n";

#[test]
fn a_packed_chart_with_a_packed_subchart_is_read() {
    let inner = packed(
        "inner",
        &[
            ("Chart.yaml", b"apiVersion: v2\nname: inner\nversion: 0.1.0\n"),
            ("values.yaml", b"size: 1\n"),
            ("templates/a.yaml", b"kind: A\nsize: {{ .Values.size }}\n"),
        ],
    );
    let outer = packed(
        "outer",
        &[
            ("Chart.yaml", METADATA.as_bytes()),
            ("values.yaml", b"inner: {size: 2}\n"),
            (
                "templates/b.yaml",
                b"kind: B\nbytes: {{ .Files.Get \"bytes.bin\" | b64enc }}\n",
            ),
            ("bytes.bin", &[0, 159, 146, 150]),
            ("charts/inner-0.1.0.tgz", &inner),
            ("charts/inner-0.1.0.tgz.prov", b"signed"),
        ],
    );
    let rendered = Chart::from_archive(&outer)
        .unwrap()
        .render(
            &Release::install("x", "y"),
            &capabilities(),
            json!({}),
            &RenderOptions::default(),
        )
        .unwrap();
    let made: Vec<_> = rendered.manifests.iter().map(|it| it.json.clone()).collect();
    assert_eq!(
        made,
        [
            json!({"kind": "A", "size": 2}),
            json!({"kind": "B", "bytes": "AJ+Slg=="})
        ]
    );
}

#[test]
fn an_archive_that_is_none_is_refused() {
    for archive in [&b""[..], b"no archive", &packed("c", &[("values.yaml", b"")])] {
        assert!(Chart::from_archive(archive).is_err());
    }
}

#[test]
fn what_helmignore_names_is_not_part_of_the_chart() {
    let chart = Chart::from_files([
        ("Chart.yaml", METADATA),
        (".helmignore", "# not these\n*.bak\n/notes/\ntemplates/draft-?.yaml\n"),
        (
            "templates/a.yaml",
            "kind: A\nfiles: {{ range $path, $_ := .Files }}{{ $path }} {{ end }}",
        ),
        ("templates/draft-1.yaml", "{{ fail \"a draft\" }}"),
        ("templates/.a.yaml.swp", "{{ fail \"an editor's\" }}"),
        ("conf/a.conf", ""),
        ("conf/a.conf.bak", ""),
        ("notes/todo.txt", ""),
        ("conf/notes/kept.txt", ""),
    ])
    .unwrap();
    let rendered = chart
        .render(
            &Release::install("x", "y"),
            &capabilities(),
            json!({}),
            &RenderOptions::default(),
        )
        .unwrap();
    assert_eq!(rendered.manifests.len(), 1);
    let files = rendered.manifests[0].json["files"].as_str().unwrap();
    assert_eq!(files, ".helmignore conf/a.conf conf/notes/kept.txt");
}

#[test]
fn lookup_finds_what_the_caller_says_and_nothing_otherwise() {
    let chart = Chart::from_files([
        ("Chart.yaml", METADATA),
        (
            "templates/a.yaml",
            "kind: A\nfound: {{ (lookup \"v1\" \"Secret\" \"n\" \"s\").data | default \"nothing\" }}",
        ),
    ])
    .unwrap();
    let found = |options: &RenderOptions| {
        let rendered = chart
            .render(&Release::install("x", "y"), &capabilities(), json!({}), options)
            .unwrap();
        rendered.manifests[0].json["found"].clone()
    };
    assert_eq!(found(&RenderOptions::default()), "nothing");
    let options = RenderOptions {
        lookup: Some(std::sync::Arc::new(
            |version: &str, kind: &str, namespace: &str, name: &str| {
                Ok(json!({"data": format!("{version} {kind} {namespace}/{name}")}))
            },
        )),
        ..RenderOptions::default()
    };
    assert_eq!(found(&options), "v1 Secret n/s");
}

#[test]
fn a_schema_that_multiplies_is_given_up_rather_than_followed() {
    // Each definition holds the value against the next one ten times.
    let mut definitions = serde_json::Map::new();
    for level in 0..12 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"allOf": vec![next; 10]}));
    }
    definitions.insert("d12".to_owned(), json!({"type": "object"}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions}).to_string();
    let chart = Chart::from_files([("Chart.yaml", METADATA), ("values.schema.json", &schema)]).unwrap();
    let refused = chart.render(
        &Release::install("x", "y"),
        &capabilities(),
        json!({}),
        &RenderOptions::default(),
    );
    let Err(RenderError::Schema(said)) = refused else {
        panic!("{refused:?}");
    };
    assert!(said.contains("takes too long"), "{}", &said[..200]);
}

#[test]
fn a_schema_with_unsupported_checks_is_refused() {
    for (schema, said) in [
        (
            json!({"unevaluatedProperties": false}),
            "/unevaluatedProperties asks for a check that is not made",
        ),
        (
            json!({"$ref": "https://example.com/x.json"}),
            "nothing is read from other documents",
        ),
        (json!({"$schema": "https://example.com/own"}), "which is not known here"),
        (
            json!({"properties": {"a": {"$id": "https://example.com/a"}}}),
            "has an address of its own",
        ),
    ] {
        let schema = schema.to_string();
        let chart = Chart::from_files([("Chart.yaml", METADATA), ("values.schema.json", &schema)]).unwrap();
        let refused = chart.render(
            &Release::install("x", "y"),
            &capabilities(),
            json!({}),
            &RenderOptions::default(),
        );
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("outer:\n") && refused.contains(said), "{refused}");
    }
}

#[test]
fn values_are_merged_deeply_and_lists_replaced() {
    let mut base = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
    merge_values(&mut base, &json!({"a": {"b": 3}, "l": [4], "n": null}));
    assert_eq!(base, json!({"a": {"b": 3, "c": 2}, "l": [4], "n": null}));
}
