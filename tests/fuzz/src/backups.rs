//! Files for `drover restore`.

use kube_api::backup::{self, REVISION_GAP};
use kube_store::{
    Object,
    store::{Journal, Record, Store},
};
use std::sync::Arc;

struct Discard;

impl Journal for Discard {
    fn append(&self, _: Record) {}
}

/// A backup. A server stands on what was accepted.
pub fn backups(data: &[u8]) {
    let Ok(parsed) = backup::parse(data) else { return };
    assert!(parsed.revision.checked_add(REVISION_GAP).is_some());
    for object in &parsed.objects {
        let value = object.value();
        let again = Object::decode(&object.resource, object.json.clone()).expect("it was decoded once");
        assert_eq!(
            (&again.name, &again.namespace, again.value()),
            (&object.name, &object.namespace, value)
        );
        // The part that is left when kind and version are another's.
        let body = [b"{", object.body()].concat();
        serde_json::from_slice::<serde_json::Value>(&body).expect("the rest of an object is one");
    }
    let store = Store::new(parsed.objects, parsed.revision, Arc::new(Discard));
    let _ = store.snapshot();
}
