//! Manifests from a Helm chart.

use gotemplate::helm::{Capabilities, Chart, Hook, KubeVersion, Release, RenderError, RenderOptions};
use ocm_api::annotations;
use serde_json::Value;

use super::{IncludedFile, release_namespace};
use crate::{AddOnContext, UserError, Values, values, values::built_in};

/// Reads a chart from files that are part of the program; their paths are those inside the chart, after `folder`.
///
/// # Errors
/// When they are no chart.
pub fn read_chart(folder: &str, files: &[IncludedFile]) -> Result<Chart, UserError> {
    let folder = format!("{}/", folder.trim_end_matches('/'));
    let inside = files.iter().map(|it| {
        let path = it.path.strip_prefix(&folder).unwrap_or(it.path);
        (path, it.text.as_bytes())
    });
    Ok(Chart::from_files(inside)?)
}

/// Reads a chart that `helm package` has packed: `include_bytes!("agent-1.0.0.tgz")`. No file of it can be forgotten,
/// and its files and subcharts may hold what is no text.
///
/// # Errors
/// When it is no chart.
pub fn read_packed_chart(archive: &[u8]) -> Result<Chart, UserError> {
    Ok(Chart::from_archive(archive)?)
}

/// Renders a chart as Helm does when it installs it: the definitions first, then everything in Helm's order.
///
/// The templates find `values`, over those of the chart and the defaults `hubKubeConfigSecret`,
/// `managedKubeConfigSecret` and `hostingClusterCapabilities`, and under the facts `clusterName`,
/// `addonInstallNamespace` and `installMode`. The release has the add-on's name and namespace, and the capabilities
/// have the cluster's version of Kubernetes.
///
/// Of Helm's hooks, those before a deletion become hooks of the add-on, those around an installation or an upgrade
/// become ordinary objects, and the others are left out. An object that names no namespace is in the release's, as with
/// Helm; of the kinds that Kubernetes does not have, those whose definition is in the chart.
///
/// # Errors
/// When a template fails, or the values are not what the chart's `values.schema.json` allows, in Helm's words.
pub fn chart(chart: &Chart, place: &AddOnContext, values: Values) -> Result<Vec<Value>, UserError> {
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
    );
    let rendered = rendered.map_err(|error| match error {
        RenderError::Schema(said) => UserError::new(format!("{}\n{WRONG_VALUES}", said.trim_end())),
        RenderError::KubeVersion { wanted, .. } if version(place).is_none() => UserError::new(format!(
            "the chart wants Kubernetes {wanted}, and the cluster has not said yet what it runs"
        )),
        other => other.into(),
    })?;
    let documents = rendered.crds.into_iter().chain(rendered.manifests);
    let objects = documents.map(|it| it.json);
    let mut objects: Vec<Value> = objects.chain(rendered.hooks.into_iter().filter_map(hook)).collect();
    release_namespace::fill(&mut objects, &place.install_namespace);
    Ok(objects)
}

/// What helps when a schema refuses values.
const WRONG_VALUES: &str = "Change what sets these values: the chart's values.yaml, what the add-on's `manifests` lays over it, \
    or the configuration of this cluster (customizedVariables of an AddOnDeploymentConfig, the annotation \
    addon.open-cluster-management.io/values). The values clusterName, addonInstallNamespace, installMode, hubKubeConfigSecret, \
    managedKubeConfigSecret and hostingClusterCapabilities are always there: a schema has to allow them.";

fn capabilities(place: &AddOnContext) -> Capabilities {
    let mut capabilities = Capabilities::default();
    if let Some(version) = version(place) {
        capabilities.kube_version = KubeVersion::parse(version);
    }
    capabilities
}

/// The cluster's version of Kubernetes, once it has said it.
fn version(place: &AddOnContext) -> Option<&str> {
    let status = place.cluster.status.as_ref()?;
    Some(status.version.kubernetes.as_str()).filter(|it| !it.is_empty())
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

    const FILES: &[IncludedFile] = &[
        IncludedFile {
            path: "chart/Chart.yaml",
            text: "apiVersion: v2\nname: hello\nversion: 0.1.0\n",
        },
        IncludedFile {
            path: "chart/values.yaml",
            text: "image: quay.io/hello:1\nglobal: {nodeSelector: {}}\ntolerations: [{key: chart}]\n",
        },
        IncludedFile {
            path: "chart/crds/things.yaml",
            text: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.ex.io}\n",
        },
        IncludedFile {
            path: "chart/templates/_names.tpl",
            text: "{{- define \"hello.name\" }}{{ .Release.Name }}-agent{{ end }}",
        },
        IncludedFile {
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
        IncludedFile {
            path: "chart/templates/cleanup.yaml",
            text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: cleanup, annotations: {helm.sh/hook: pre-delete}}\n",
        },
        IncludedFile {
            path: "chart/templates/check.yaml",
            text: "apiVersion: v1\nkind: Pod\nmetadata: {name: check, annotations: {helm.sh/hook: test}}\n",
        },
    ];

    fn place() -> AddOnContext {
        let mut place = AddOnContext::new("cluster1", "hello");
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
    fn a_failing_chart_is_refused_with_helms_message() {
        let broken = [
            FILES[0],
            IncludedFile {
                path: "chart/templates/a.yaml",
                text: "{{ fail \"no image\" }}",
            },
        ];
        let broken = read_chart("chart", &broken).unwrap();
        let refused = chart(&broken, &place(), Values::new()).unwrap_err();
        assert!(refused.message().contains("no image"), "{refused}");
    }

    /// A chart with all that `helm create` writes and more; what Helm makes of it is a test of the crate
    /// that renders it.
    fn web() -> Chart {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lang/gotemplate/tests/charts/web");
        Chart::load_dir(std::path::Path::new(folder)).unwrap()
    }

    #[test]
    fn a_helm_chart_becomes_manifests_in_the_add_on_namespace() {
        let values =
            json!({"ingress": {"enabled": true}, "autoscaling": {"enabled": true}, "cache": {"enabled": true}});
        let made = chart(&web(), &place(), values::of(&values).unwrap()).unwrap();
        let namespace = "open-cluster-management-agent-addon";
        let named: Vec<_> = made
            .iter()
            .map(|it| (it["kind"].as_str().unwrap(), it["metadata"]["name"].as_str().unwrap()))
            .collect();
        assert_eq!(
            named,
            [
                ("CustomResourceDefinition", "widgets.web.example.com"),
                ("ServiceAccount", "hello-web"),
                ("Secret", "hello-web"),
                ("ConfigMap", "hello-web"),
                ("Service", "hello-web"),
                ("Deployment", "hello-web"),
                ("HorizontalPodAutoscaler", "hello-web"),
                ("StatefulSet", "hello-cache"),
                ("Ingress", "hello-web"),
                // Helm's hooks: one that runs before an installation, one that runs before the end.
                // Tests and rollbacks are not.
                ("Job", "hello-web-migrate"),
                ("Job", "hello-web-cleanup"),
            ]
        );
        for object in &made[1..] {
            assert_eq!(object["metadata"]["namespace"], namespace, "{object}");
        }
        assert_eq!(made[0]["metadata"]["namespace"], Value::Null);
        let hook = |it: &Value| {
            it["metadata"]["annotations"]
                .get(annotations::ADDON_PRE_DELETE)
                .is_some()
        };
        assert_eq!(made.iter().map(hook).filter(|it| *it).count(), 1);
        assert!(hook(&made[10]));
    }

    #[test]
    fn values_violating_a_schema_are_refused_with_chart_and_path() {
        let values = json!({"service": {"port": 0}, "cache": {"enabled": true, "size": "big"}});
        let refused = chart(&web(), &place(), values::of(&values).unwrap()).unwrap_err();
        let said = refused.message();
        for part in [
            "web:\n- at '/service/port': minimum: got 0, want 1",
            "cache:\n- at '/size': 'big' does not match pattern",
            "customizedVariables of an AddOnDeploymentConfig",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_chart_waits_for_the_clusters_kubernetes_version() {
        let refused = chart(&web(), &AddOnContext::new("cluster1", "hello"), Values::new()).unwrap_err();
        assert_eq!(
            refused.message(),
            "the chart wants Kubernetes >=1.25.0-0, and the cluster has not said yet what it runs"
        );
    }

    #[test]
    fn what_is_no_packed_chart_is_refused() {
        assert!(read_packed_chart(b"no archive").is_err());
    }

    #[test]
    fn files_without_a_chart_are_refused() {
        assert!(read_chart("chart", &FILES[3..]).is_err());
    }
}
