//! Manifests from a Helm chart.

use gotemplate::helm::{Capabilities, Chart, Hook, KubeVersion, Release, RenderOptions};
use ocm_api::annotations;
use serde_json::Value;

use super::File;
use crate::{Place, Refusal, Values, values, values::built_in};

/// Reads a chart from files that are part of the program; their paths are those inside the chart, after `folder`.
///
/// # Errors
/// When they are no chart.
pub fn read_chart(folder: &str, files: &[File]) -> Result<Chart, Refusal> {
    let folder = format!("{}/", folder.trim_end_matches('/'));
    let inside = files.iter().map(|it| {
        let path = it.path.strip_prefix(&folder).unwrap_or(it.path);
        (path, it.text.as_bytes())
    });
    Ok(Chart::from_files(inside)?)
}

/// Renders a chart as Helm does when it installs it: the definitions first, then everything in Helm's order.
///
/// The templates find `values`, over those of the chart and the defaults `hubKubeConfigSecret`, `managedKubeConfigSecret` and
/// `hostingClusterCapabilities`, and under the facts `clusterName`, `addonInstallNamespace` and `installMode`. The release has
/// the add-on's name and namespace, and the capabilities have the cluster's version of Kubernetes.
///
/// Of Helm's hooks, those before a deletion become hooks of the add-on, those around an installation or an upgrade become
/// ordinary objects, and the others are left out.
///
/// # Errors
/// When a template fails, in Helm's words.
pub fn chart(chart: &Chart, place: &Place, values: Values) -> Result<Vec<Value>, Refusal> {
    let values = values::merge([
        built_in::defaults_for_charts(place),
        values,
        built_in::for_charts(place),
    ]);
    let release = Release::install(place.addon_name(), &place.install_namespace);
    let rendered = chart.render(
        &release,
        &capabilities(place),
        Value::Object(values),
        &RenderOptions::default(),
    )?;
    let documents = rendered.crds.into_iter().chain(rendered.manifests);
    let objects = documents.map(|it| it.json);
    Ok(objects.chain(rendered.hooks.into_iter().filter_map(hook)).collect())
}

fn capabilities(place: &Place) -> Capabilities {
    let mut capabilities = Capabilities::default();
    let version = place.cluster.status.as_ref().map(|it| it.version.kubernetes.as_str());
    if let Some(version) = version.filter(|it| !it.is_empty()) {
        capabilities.kube_version = KubeVersion::parse(version);
    }
    capabilities
}

fn hook(it: Hook) -> Option<Value> {
    let on = |event: &str| it.events.iter().any(|it| it == event);
    let mut object = it.document.json;
    if on("pre-delete") {
        object["metadata"]["annotations"][annotations::ADDON_PRE_DELETE] = "".into();
        return Some(object);
    }
    let installs = ["pre-install", "post-install", "pre-upgrade", "post-upgrade"];
    installs.into_iter().any(on).then_some(object)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    const FILES: &[File] = &[
        File {
            path: "chart/Chart.yaml",
            text: "apiVersion: v2\nname: hello\nversion: 0.1.0\n",
        },
        File {
            path: "chart/values.yaml",
            text: "image: quay.io/hello:1\nglobal: {nodeSelector: {}}\ntolerations: [{key: chart}]\n",
        },
        File {
            path: "chart/crds/things.yaml",
            text: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.ex.io}\n",
        },
        File {
            path: "chart/templates/_names.tpl",
            text: "{{- define \"hello.name\" }}{{ .Release.Name }}-agent{{ end }}",
        },
        File {
            path: "chart/templates/agent.yaml",
            text: "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include \"hello.name\" . }}
  namespace: {{ .Release.Namespace }}
  annotations: {kubeVersion: {{ .Capabilities.KubeVersion.Version | quote }}}
  labels: {clusterName: {{ .Values.clusterName }}, secret: {{ .Values.hubKubeConfigSecret }}}
spec:
  template:
    spec:
      {{- with .Values.global.nodeSelector }}
      nodeSelector: {{ toYaml . | nindent 8 }}
      {{- end }}
      tolerations: {{ toYaml .Values.tolerations | nindent 8 }}
      containers: [{name: agent, image: {{ .Values.image }}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: hello, namespace: {{ .Release.Namespace }}}
",
        },
        File {
            path: "chart/templates/cleanup.yaml",
            text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: cleanup, annotations: {helm.sh/hook: pre-delete}}\n",
        },
        File {
            path: "chart/templates/check.yaml",
            text: "apiVersion: v1\nkind: Pod\nmetadata: {name: check, annotations: {helm.sh/hook: test}}\n",
        },
    ];

    fn place() -> Place {
        let mut place = Place::new("cluster1", "hello");
        let cluster = Arc::make_mut(&mut place.cluster);
        cluster.status.get_or_insert_default().version.kubernetes = "v1.34.1".to_owned();
        place
    }

    #[test]
    fn a_chart_is_rendered_as_helm_installs_it() {
        let hello = read_chart("chart", FILES).unwrap();
        let values =
            values::of(&json!({"image": "m.io/hello:2", "global": {"nodeSelector": {"disk": "ssd"}}})).unwrap();
        let made = chart(&hello, &place(), values).unwrap();
        let kinds: Vec<_> = made.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["CustomResourceDefinition", "ServiceAccount", "Deployment", "Job"]
        );
        let deployment = &made[2];
        assert_eq!(
            deployment["metadata"],
            json!({"name": "hello-agent", "namespace": "open-cluster-management-agent-addon",
                "annotations": {"kubeVersion": "v1.34.1"},
                "labels": {"clusterName": "cluster1", "secret": "hello-hub-kubeconfig"}})
        );
        let pods = json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "chart"}],
            "containers": [{"name": "agent", "image": "m.io/hello:2"}]});
        assert_eq!(deployment["spec"]["template"]["spec"], pods);
        assert_eq!(
            made[3]["metadata"]["annotations"]["addon.open-cluster-management.io/addon-pre-delete"],
            ""
        );
    }

    #[test]
    fn a_chart_that_fails_is_refused_in_helms_words() {
        let broken = [
            FILES[0],
            File {
                path: "chart/templates/a.yaml",
                text: "{{ fail \"no image\" }}",
            },
        ];
        let broken = read_chart("chart", &broken).unwrap();
        let refused = chart(&broken, &place(), Values::new()).unwrap_err();
        assert!(refused.message().contains("no image"), "{refused}");
    }

    #[test]
    fn files_without_a_chart_are_refused() {
        assert!(read_chart("chart", &FILES[3..]).is_err());
    }
}
