//! A cluster that has what files say, and keeps in memory what is written to it.
//! Upstream: config-policy-controller `pkg/dryrun`, on client-go's fake of a dynamic client.

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{ocm_api::selector::Selector, reconcile::async_trait};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::mappings::KnownKinds;
use crate::{
    cluster::{Cluster, ClusterError, ServedKind},
    evaluate::go_types,
};

/// Objects by plural with group and version, namespace, and name.
type Objects = BTreeMap<(String, String, String), Arc<Value>>;

/// A cluster of files.
pub struct FileCluster {
    kinds: KnownKinds,
    objects: Mutex<Objects>,
}

impl FileCluster {
    /// A cluster with these kinds and the namespace `default`.
    pub fn new(kinds: KnownKinds) -> Self {
        let cluster = Self {
            kinds,
            objects: Mutex::default(),
        };
        let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        let place = ("v1/namespaces".to_owned(), String::new(), "default".to_owned());
        cluster.objects.lock().insert(place, Arc::new(default));
        cluster
    }

    /// Puts in an object of a file. What is there already stays as it is.
    ///
    /// # Errors
    /// When its kind is not known, or it is no object of that kind.
    pub fn put(&self, mut object: Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let Some(kind) = self.kinds.find(&api_version, &kind) else {
            return Err(format!(
                "the resource version was not found for kind {kind}: if this is a custom resource, it may need an entry in \
                 the mappings file"
            ));
        };
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return Err(format!("the metadata of the {} is no map", kind.kind));
        };
        let namespace = metadata.get("namespace").map(text).unwrap_or_default();
        let namespace = match (kind.namespaced, namespace.as_str()) {
            (true, "") => {
                metadata.insert("namespace".to_owned(), "default".into());
                "default".to_owned()
            }
            (false, namespace) if !namespace.is_empty() => {
                return Err(format!(
                    "request namespace does not match object namespace, request: \"\" object: {namespace:?}"
                ));
            }
            _ => namespace,
        };
        for field in [
            "resourceVersion",
            "generatedName",
            "creationTimestamp",
            "selfLink",
            "uid",
        ] {
            metadata.remove(field);
        }
        let name = metadata.get("name").map(text).unwrap_or_default();
        let is_named = !name.is_empty() || metadata.contains_key("generateName");
        go_types::check(&object).map_err(|why| {
            let kind = &kind.kind;
            format!("failed to unmarshal the content of *unstructured.Unstructured into *v1.{kind}: {why}")
        })?;
        if !is_named {
            let group = match kind.group.as_str() {
                "" => String::new(),
                group => format!(".{group}"),
            };
            let kind = &kind.kind;
            return Err(format!(
                "{kind}{group} \"\" is invalid: metadata.name: Required value: name is required"
            ));
        }
        let place = place(&kind, &namespace, &name);
        self.objects.lock().entry(place).or_insert_with(|| Arc::new(object));
        Ok(())
    }

    fn find(&self, of: &ServedKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.objects.lock().get(&place(of, namespace, name)).cloned()
    }
}

fn resource(of: &ServedKind) -> String {
    format!("{}/{}", of.api_version(), of.plural)
}

fn place(of: &ServedKind, namespace: &str, name: &str) -> (String, String, String) {
    (resource(of), namespace.to_owned(), name.to_owned())
}

fn place_of(of: &ServedKind, object: &Value) -> (String, String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    place(of, text("namespace"), text("name"))
}

fn refusal(code: u16, reason: &str, of: &ServedKind, name: &str, what: &str) -> ClusterError {
    let group = match of.group.as_str() {
        "" => String::new(),
        group => format!(".{group}"),
    };
    ClusterError {
        code,
        reason: reason.to_owned(),
        message: format!("{}{group} {name:?} {what}", of.plural),
        about: of.plural.clone(),
        causes: Vec::new(),
    }
}

#[async_trait]
impl Cluster for FileCluster {
    async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Arc<ServedKind>>, ClusterError> {
        Ok(self.kinds.find(api_version, kind))
    }

    async fn get(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        Ok(self.find(of, namespace, name))
    }

    async fn get_now(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        Ok(self.find(of, namespace, name))
    }

    async fn list(
        &self,
        of: &ServedKind,
        namespace: &str,
        selector: Option<&Selector>,
    ) -> Result<Vec<Arc<Value>>, ClusterError> {
        let resource = resource(of);
        let objects = self.objects.lock();
        let of_kind = objects.iter().filter(|((it, ..), _)| *it == resource);
        let in_namespace = of_kind.filter(|((_, it, _), _)| namespace.is_empty() || it == namespace);
        let selected = in_namespace.filter(|(_, object)| {
            let labels = &object["metadata"]["labels"];
            selector.is_none_or(|it| it.matches(|key| labels[key].as_str()))
        });
        Ok(selected.map(|(_, object)| Arc::clone(object)).collect())
    }

    async fn create(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        let place = place_of(of, object);
        let mut objects = self.objects.lock();
        if objects.contains_key(&place) {
            return Err(refusal(409, "AlreadyExists", of, &place.2, "already exists"));
        }
        objects.insert(place, Arc::new(object.clone()));
        Ok(object.clone())
    }

    // As upstream, whose fake of a cluster keeps what it is to try only: object templates of one policy that are about
    // the same object see what those before them have made of it.
    async fn update(&self, of: &ServedKind, object: &Value, _: bool) -> Result<Value, ClusterError> {
        let place = place_of(of, object);
        let mut objects = self.objects.lock();
        let Some(existing) = objects.get_mut(&place) else {
            return Err(refusal(404, "NotFound", of, &place.2, "not found"));
        };
        *existing = Arc::new(object.clone());
        Ok(object.clone())
    }

    async fn delete(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<(), ClusterError> {
        match self.objects.lock().remove(&place(of, namespace, name)) {
            Some(_) => Ok(()),
            None => Err(refusal(404, "NotFound", of, name, "not found")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> FileCluster {
        FileCluster::new(KnownKinds::built_in())
    }

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"a": name}}})
    }

    #[tokio::test]
    async fn objects_of_files_are_in_a_namespace() {
        let cluster = cluster();
        cluster.put(config_map("b")).unwrap();
        cluster.put(config_map("a")).unwrap();
        let mut again = config_map("a");
        again["data"] = json!({"late": "x"});
        cluster.put(again).unwrap();
        let kind = cluster.served("v1", "ConfigMap").await.unwrap().unwrap();
        let found = cluster.list(&kind, "", None).await.unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b"]);
        let found = cluster.get(&kind, "default", "a").await.unwrap().unwrap();
        assert_eq!(found["data"], Value::Null, "the first one stays");
        let selector =
            Selector::of_expressions([
                &serde_json::from_value(json!({"key": "a", "operator": "In", "values": ["b"]})).unwrap(),
            ])
            .unwrap();
        assert_eq!(cluster.list(&kind, "default", Some(&selector)).await.unwrap().len(), 1);
        let kind = cluster.served("v1", "Namespace").await.unwrap().unwrap();
        assert_eq!(cluster.list(&kind, "", None).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn writes_are_refused_as_a_server_does() {
        let cluster = cluster();
        let kind = cluster.served("v1", "ConfigMap").await.unwrap().unwrap();
        let mut object = config_map("a");
        object["metadata"]["namespace"] = "n".into();
        let error = cluster.update(&kind, &object, true).await.unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (404, "configmaps \"a\" not found")
        );
        cluster.create(&kind, &object).await.unwrap();
        let error = cluster.create(&kind, &object).await.unwrap_err();
        assert_eq!(
            (error.reason.as_str(), error.message.as_str()),
            ("AlreadyExists", "configmaps \"a\" already exists")
        );
        cluster.delete(&kind, "n", "a").await.unwrap();
        assert_eq!(cluster.delete(&kind, "n", "a").await.unwrap_err().code, 404);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let refused = |object: Value| cluster().put(object).unwrap_err();
        assert_eq!(
            refused(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}})),
            "Deployment.apps \"\" is invalid: metadata.name: Required value: name is required"
        );
        assert!(
            refused(json!({"apiVersion": "a/v1", "kind": "Foo"})).starts_with("the resource version was not found")
        );
        assert_eq!(
            refused(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}})),
            "request namespace does not match object namespace, request: \"\" object: \"b\""
        );
    }
}
