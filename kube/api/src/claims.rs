//! What is done to claims of volumes as they are written, and what only their classes allow.
//! Upstream: pkg/api/persistentvolumeclaim/util.go and plugin/pkg/admission/storage/persistentvolume/resize.

use crate::{
    builtin_validation::claims::{BETA_CLASS, size},
    call::Call,
    default_class::STORAGE_CLASSES,
};
use kube_store::status::Status;
use serde_json::Value;

/// Drops sources of data that a claim may not name. Of another namespace there is none, and by the older of the two fields
/// only another claim or a snapshot is named; what was stored once may stay.
pub fn drop_sources(claim: &mut Value, old: Option<&Value>) {
    let had = |key: &str| old.is_some_and(|it| !it["spec"][key].is_null());
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let text = |source: &Value, key: &str| source[key].as_str().unwrap_or_default().to_owned();
    let newer = spec.get("dataSourceRef").filter(|it| !it.is_null());
    let elsewhere = newer.is_some_and(|it| !text(it, "namespace").is_empty());
    let dropped = elsewhere && !had("dataSourceRef");
    let has_newer = newer.is_some() && !dropped;
    if dropped {
        spec.remove("dataSourceRef");
    }
    if has_newer || had("dataSource") || had("dataSourceRef") {
        return;
    }
    let known = spec.get("dataSource").is_some_and(|it| {
        matches!(
            (text(it, "apiGroup").as_str(), text(it, "kind").as_str()),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    });
    if !known {
        spec.remove("dataSource");
    }
}

/// The class that a claim names.
fn class(claim: &Value) -> &str {
    let annotated = claim["metadata"]["annotations"][BETA_CLASS].as_str();
    annotated
        .or_else(|| claim["spec"]["storageClassName"].as_str())
        .unwrap_or_default()
}

/// A claim grows once it has its volume, and where its class says so.
///
/// # Errors
/// 403 for another.
pub fn check_growth(call: &Call<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    const ASKED: &str = "/spec/resources/requests/storage";
    if size(new, ASKED) <= size(old, ASKED) {
        return Ok(());
    }
    let refuse = |why| Status::forbidden(&call.resource.plural, &call.resource.group, &call.name, why);
    if old["status"]["phase"] != "Bound" {
        return Err(refuse("Only bound persistent volume claims can be expanded"));
    }
    let found = call.server.store.get(STORAGE_CLASSES, "", class(new));
    let may_grow = found.is_some_and(|it| it.value()["allowVolumeExpansion"] == true);
    if class(new) != class(old) || !may_grow {
        return Err(refuse(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_is_filled_from_a_claim_or_a_snapshot_unless_it_says_so_in_the_newer_field() {
        let dropped = |spec: Value, old: Option<Value>| {
            let mut claim = json!({"spec": spec});
            drop_sources(&mut claim, old.map(|it| json!({"spec": it})).as_ref());
            claim["spec"].take()
        };
        let claim = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}});
        assert_eq!(dropped(claim.clone(), None), claim);
        let other = json!({"dataSource": {"kind": "Foo", "name": "x"}});
        assert_eq!(dropped(other.clone(), None), json!({}));
        assert_eq!(dropped(other.clone(), Some(other.clone())), other);
        let newer = json!({"dataSourceRef": {"kind": "Foo", "apiGroup": "a.b", "name": "x"}});
        assert_eq!(dropped(newer.clone(), None), newer);
        let elsewhere = json!({"dataSourceRef": {"kind": "Foo", "apiGroup": "a.b", "name": "x", "namespace": "y"}});
        assert_eq!(dropped(elsewhere.clone(), None), json!({}));
        assert_eq!(dropped(elsewhere.clone(), Some(elsewhere.clone())), elsewhere);
    }
}
