//! Manifests from Go templates, one or more objects per file.

use gotemplate::{Engine, Functions};
use serde_json::Value;

use super::{IncludedFile, documents};
use crate::{AddOnContext, UserError, Values, values, values::built_in};

/// What Go prints for a value that is not there.
const NO_VALUE: &str = "<no value>";

/// Fills templates in, in the order of the files. A file that makes nothing counts for nothing.
///
/// The templates find `values`, over the defaults `HubKubeConfigSecret` and `ManagedKubeConfigSecret` and under the
/// facts `ClusterName`, `AddonInstallNamespace` and `InstallMode`. They have the functions
/// of upstream's add-on framework and those of sprig.
///
/// # Errors
/// When a template cannot be read, prints a value that is not there, or makes no Kubernetes object.
pub fn templates(files: &[IncludedFile], place: &AddOnContext, values: Values) -> Result<Vec<Value>, UserError> {
    let values = values::merge([
        built_in::defaults_for_templates(place),
        values,
        built_in::for_templates(place),
    ]);
    let values = Value::Object(values);
    let engine = Engine::new(Functions::addon());
    let mut manifests = Vec::new();
    for file in files {
        let text = engine.parse(file.path, file.text)?.render(&values)?;
        if text.contains(NO_VALUE) {
            let line = text.lines().find(|it| it.contains(NO_VALUE)).unwrap_or_default().trim();
            return Err(UserError::new(format!(
                "{} prints a value that is not set: {line}",
                file.path
            )));
        }
        manifests.extend(documents(&text, file.path)?);
    }
    Ok(manifests)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(text: &'static str, values: Value) -> Result<Vec<Value>, UserError> {
        let file = IncludedFile { path: "a.yaml", text };
        templates(
            &[file],
            &AddOnContext::new("cluster1", "hello"),
            values::of(&values).unwrap(),
        )
    }

    const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: {{ .AddonInstallNamespace }}}
data:
  cluster: {{ .ClusterName }}
  secret: {{ .HubKubeConfigSecret }}
{{- if .NodeSelector }}
  selector: {{ .NodeSelector.disk | quote }}
{{- end }}
";

    #[test]
    fn values_and_facts_fill_templates_in() {
        let plain = made(MAP, json!({"ClusterName": "facts win", "HubKubeConfigSecret": "own"})).unwrap();
        assert_eq!(plain[0]["data"], json!({"cluster": "cluster1", "secret": "own"}));
        let selected = made(MAP, json!({"NodeSelector": {"disk": "ssd"}})).unwrap();
        assert_eq!(selected[0]["data"]["selector"], "ssd");
        assert_eq!(selected[0]["data"]["secret"], "hello-hub-kubeconfig");
    }

    #[test]
    fn a_file_that_a_condition_emptied_makes_nothing() {
        assert_eq!(
            made("{{ if .Absent }}apiVersion: v1\nkind: A{{ end }}", json!({})).unwrap(),
            Vec::<Value>::new()
        );
    }

    #[test]
    fn an_unset_value_is_refused_with_its_line() {
        let refused = made("apiVersion: v1\nkind: A\nspec: {{ .Image }}\n", json!({})).unwrap_err();
        assert_eq!(
            refused.message(),
            "a.yaml prints a value that is not set: spec: <no value>"
        );
    }

    #[test]
    fn a_template_that_cannot_be_read_is_refused_by_name() {
        let refused = made("{{ if }}", json!({})).unwrap_err();
        assert!(refused.message().contains("a.yaml"), "{refused}");
    }
}
