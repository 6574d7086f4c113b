//! ManagedClusterAddOn in its other version.
//!
//! `spec.installNamespace` of `v1alpha1` is an annotation in `v1beta1`. A registration with the signer of API server
//! clients is of type kubeClient there, every other one of type customSigner; the driver, one for the whole add-on in
//! `v1alpha1`, stands in each kubeClient registration. References repeat the wanted configuration's name in `v1alpha1`.

use serde_json::{Map, Value};

use super::Version;
use super::kept::{PreservedFields, annotation, entries, map, remove_annotation, set_annotation};
use crate::annotations::ADDON_INSTALL_NAMESPACE;

/// The signer of client certificates for the API server.
const KUBE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

const CONFIGURATION: &str = "status.addOnConfiguration";
const DRIVER: &str = "status.kubeClientDriver";
const REFERENCES: &str = "status.configReferences";
const REGISTRATIONS: &str = "status.registrations";
/// The annotation of the install namespace, on a `v1alpha1` object whose own field says something else.
const STRAY: &str = "metadata.annotations.v1alpha1-install-namespace";

pub(super) fn convert(object: &mut Value, target: Version) {
    match target {
        Version::V1Beta1 => to_v1beta1(object),
        Version::V1Alpha1 => to_v1alpha1(object),
    }
}

fn to_v1beta1(object: &mut Value) {
    let mut theirs = PreservedFields::take(object, Version::V1Beta1);
    let mut ours = PreservedFields::default();
    let namespace = object.get_mut("spec").and_then(Value::as_object_mut);
    let namespace = namespace.and_then(|it| it.remove("installNamespace"));
    let namespace = namespace.as_ref().and_then(Value::as_str).filter(|it| !it.is_empty());
    if let Some(stray) = annotation(object, ADDON_INSTALL_NAMESPACE).map(str::to_owned)
        && (namespace.is_some() || !stray.is_empty())
    {
        ours.keep(STRAY, stray.into());
        remove_annotation(object, ADDON_INSTALL_NAMESPACE);
    }
    if let Some(namespace) = namespace {
        set_annotation(object, ADDON_INSTALL_NAMESPACE, namespace.to_owned());
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(configuration) = status.remove("addOnConfiguration") {
            ours.keep(CONFIGURATION, configuration);
        }
        let driver = status.remove("kubeClientDriver");
        if let Some(references) = status.get_mut("configReferences") {
            entries(
                references,
                REFERENCES,
                (&mut theirs, &mut ours),
                short_reference,
                long_reference,
            );
        }
        if let Some(registrations) = status.get_mut("registrations") {
            let driver = driver.as_ref();
            entries(
                registrations,
                REGISTRATIONS,
                (&mut theirs, &mut ours),
                |it| with_type(it, driver),
                with_signer,
            );
        }
        if let Some(driver) = driver.filter(|it| driver_of(status) != Some(it)) {
            ours.keep(DRIVER, driver);
        }
    }
    ours.put(object, Version::V1Alpha1);
}

fn to_v1alpha1(object: &mut Value) {
    let mut theirs = PreservedFields::take(object, Version::V1Alpha1);
    let mut ours = PreservedFields::default();
    if let Some(namespace) = annotation(object, ADDON_INSTALL_NAMESPACE)
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
    {
        remove_annotation(object, ADDON_INSTALL_NAMESPACE);
        let spec = &mut object["spec"];
        if !spec.is_object() {
            *spec = Value::Object(Map::new());
        }
        spec["installNamespace"] = namespace.into();
    }
    if let Some(Value::String(stray)) = theirs.get(STRAY) {
        set_annotation(object, ADDON_INSTALL_NAMESPACE, stray);
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(configuration) = theirs.get(CONFIGURATION) {
            status.insert("addOnConfiguration".into(), configuration);
        }
        let driver = driver_of(status).cloned();
        if let Some(references) = status.get_mut("configReferences") {
            entries(
                references,
                REFERENCES,
                (&mut theirs, &mut ours),
                long_reference,
                short_reference,
            );
        }
        if let Some(registrations) = status.get_mut("registrations") {
            let driver = driver.as_ref();
            entries(
                registrations,
                REGISTRATIONS,
                (&mut theirs, &mut ours),
                with_signer,
                |it| with_type(it, driver),
            );
        }
        if let Some(driver) = driver.or_else(|| theirs.get(DRIVER)) {
            status.insert("kubeClientDriver".into(), driver);
        }
    }
    ours.put(object, Version::V1Beta1);
}

/// The driver of the first registration that names one, in a `v1beta1` status.
fn driver_of(status: &Map<String, Value>) -> Option<&Value> {
    let registrations = status.get("registrations")?.as_array()?;
    registrations
        .iter()
        .find_map(|it| it.get("kubeClient")?.get("driver").filter(|it| !it.is_null()))
}

/// A reference as `v1beta1` says it: named by what is wanted alone.
fn short_reference(reference: &Value) -> Value {
    let mut short = reference.clone();
    if let Some(map) = short.as_object_mut() {
        map.remove("name");
        map.remove("namespace");
    }
    short
}

/// A reference as `v1alpha1` says it. Its name may not be missing, even when nothing is wanted yet.
fn long_reference(reference: &Value) -> Value {
    let mut long = reference.clone();
    if let Some(map) = long.as_object_mut() {
        let desired = map.get("desiredConfig").cloned().unwrap_or_default();
        map.insert("name".into(), desired["name"].as_str().unwrap_or_default().into());
        match desired["namespace"].as_str() {
            Some(namespace) => map.insert("namespace".into(), namespace.into()),
            None => map.remove("namespace"),
        };
    }
    long
}

/// A registration as `v1beta1` says it.
fn with_type(registration: &Value, driver: Option<&Value>) -> Value {
    let subject = registration.get("subject").filter(|it| !it.is_null());
    let field = |name: &str| subject.and_then(|it| it.get(name)).cloned();
    if registration["signerName"] == KUBE_CLIENT_SIGNER {
        let subject = subject.map(|_| map([("user", field("user")), ("groups", field("groups"))]));
        let client = map([("subject", subject), ("driver", driver.cloned())]);
        return map([("type", Some("kubeClient".into())), ("kubeClient", Some(client))]);
    }
    let subject = subject.map(|_| {
        map([
            ("user", field("user")),
            ("groups", field("groups")),
            ("organizationUnits", field("organizationUnit")),
        ])
    });
    let signer = map([
        ("signerName", registration.get("signerName").cloned()),
        ("subject", subject),
    ]);
    map([("type", Some("customSigner".into())), ("customSigner", Some(signer))])
}

/// A registration as `v1alpha1` says it.
fn with_signer(registration: &Value) -> Value {
    let (details, signer) = match registration["type"].as_str() {
        Some("kubeClient") => (registration.get("kubeClient"), Some(KUBE_CLIENT_SIGNER.into())),
        _ => {
            let details = registration.get("customSigner");
            (details, details.and_then(|it| it.get("signerName")).cloned())
        }
    };
    let subject = details.and_then(|it| it.get("subject")).filter(|it| !it.is_null());
    let field = |name: &str| subject.and_then(|it| it.get(name)).cloned();
    let subject = subject.map(|_| {
        map([
            ("user", field("user")),
            ("groups", field("groups")),
            ("organizationUnit", field("organizationUnits")),
        ])
    });
    map([("signerName", signer), ("subject", subject)])
}
