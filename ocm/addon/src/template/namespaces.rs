//! Putting the manifests of a template into another namespace.

use std::collections::BTreeSet;

use ocm_addon_sdk::deploy::manifest::location_mark;
use serde_json::{Value, json};

/// Puts every manifest that is in a namespace into this one, renames Namespaces to it, and lets bindings mean the
/// ServiceAccounts there. Several Namespaces for one location become one.
///
/// Upstream (ocm pkg/addon/templateagent/decorator.go) also gives users and groups a namespace,
/// and fails on a binding that binds nobody.
pub fn rewrite(manifests: &mut Vec<Value>, namespace: &str) {
    let mut made = BTreeSet::new();
    manifests.retain_mut(|manifest| {
        let is_namespace = manifest["apiVersion"] == "v1" && manifest["kind"] == "Namespace";
        // What is no map came of a variable in its name; the work says so, where it is read.
        let metadata = manifest.as_object_mut().filter(|_| is_namespace);
        if let Some(metadata) = metadata.map(|it| it.entry("metadata").or_insert_with(|| json!({})))
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.insert("name".to_owned(), namespace.into());
        }
        put(manifest, namespace);
        // The first Namespace stays; of a hosted add-on the first on each side.
        !is_namespace || made.insert(location_mark(manifest).map(str::to_owned))
    });
}

fn put(manifest: &mut Value, namespace: &str) {
    if let Some(own) = manifest
        .pointer_mut("/metadata/namespace")
        .filter(|it| !it.is_null() && **it != "")
    {
        *own = namespace.into();
    }
    let is_binding = matches!(manifest["kind"].as_str(), Some("RoleBinding" | "ClusterRoleBinding"));
    if let Some(subjects) = manifest
        .get_mut("subjects")
        .and_then(Value::as_array_mut)
        .filter(|_| is_binding)
    {
        for subject in subjects.iter_mut().filter(|it| it["kind"] == "ServiceAccount") {
            subject["namespace"] = namespace.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_invalid_metadata_is_left_unchanged() {
        let namespace = |metadata: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        for metadata in [json!("x"), json!([]), json!(1)] {
            let mut manifests = vec![namespace(metadata.clone())];
            rewrite(&mut manifests, "new");
            assert_eq!(manifests, [namespace(metadata)]);
        }
        let mut manifests = vec![json!({"apiVersion": "v1", "kind": "Namespace"})];
        rewrite(&mut manifests, "new");
        assert_eq!(manifests, [namespace(json!({"name": "new"}))]);
    }

    #[test]
    fn objects_namespaces_and_service_accounts_move() {
        let mut manifests = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "e"},
                "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "b"}, {"kind": "Group", "name": "g"}]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "f", "namespace": "b"}}),
        ];
        rewrite(&mut manifests, "new");
        assert_eq!(
            manifests,
            [
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "new"}}),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "e"},
                    "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "new"}, {"kind": "Group", "name": "g"}]}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "f", "namespace": "new"}}),
            ]
        );
    }
}
