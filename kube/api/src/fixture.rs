//! A store in memory for unit tests, written to directly.

use kube_store::{
    object::Object,
    store::{Expect, Journal, Record, Store},
};
use serde_json::Value;
use std::sync::Arc;

struct Discard;

impl Journal for Discard {
    fn append(&self, _: Record) {}
}

/// Resource id of a kind, as the tests use them.
fn resource(kind: &str) -> &'static str {
    match kind {
        "ClusterRole" => "clusterroles.rbac.authorization.k8s.io",
        "ClusterRoleBinding" => "clusterrolebindings.rbac.authorization.k8s.io",
        "Role" => "roles.rbac.authorization.k8s.io",
        "RoleBinding" => "rolebindings.rbac.authorization.k8s.io",
        "Secret" => "secrets",
        "ServiceAccount" => "serviceaccounts",
        "Pod" => "pods",
        other => panic!("no resource known for {other}"),
    }
}

/// A store with `objects` in it.
pub fn store(objects: &[Value]) -> Arc<Store> {
    let store = Arc::new(Store::new([], 0, Arc::new(Discard)));
    objects.iter().for_each(|it| put(&store, it.clone()));
    store
}

/// Creates or replaces an object.
pub fn put(store: &Store, value: Value) {
    let resource: Arc<str> = resource(value["kind"].as_str().unwrap()).into();
    let metadata = &value["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let expect = store
        .get(&resource, &namespace, &name)
        .map_or(Expect::Absent, |it| Expect::Revision(it.revision));
    let made = store.commit(&resource, &namespace, &name, expect, |it| {
        Some(Object::encode(&resource, value, it))
    });
    store.publish(made.unwrap().0);
}

/// Deletes an object.
pub fn remove(store: &Store, kind: &str, namespace: &str, name: &str) {
    let resource: Arc<str> = resource(kind).into();
    let revision = store.get(&resource, namespace, name).unwrap().revision;
    let gone = store.commit(&resource, namespace, name, Expect::Revision(revision), |_| None);
    store.publish(gone.unwrap().0);
}
