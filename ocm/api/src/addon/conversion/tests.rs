use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ALPHA: &str = "addon.open-cluster-management.io/v1alpha1";
const BETA: &str = "addon.open-cluster-management.io/v1beta1";

fn converted(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    convert(&mut object, to).expect("the kind has both versions");
    object
}

/// An object with those of the fields that are not null.
fn fields(given: Vec<(&str, Value)>) -> Value {
    let given = given.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn word() -> impl Strategy<Value = Value> {
    let words = ["a", "b", "default", "__reserved_no_default__", ""];
    prop::sample::select(words.to_vec()).prop_map(Value::from)
}

fn maybe(it: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::option::of(it).prop_map(|it| it.unwrap_or(Value::Null))
}

fn list(it: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    maybe(prop::collection::vec(it, 0..4).prop_map(Value::from))
}

fn words() -> impl Strategy<Value = Value> {
    list(word())
}

fn annotations() -> impl Strategy<Value = Value> {
    let namespace = maybe(word());
    (maybe(word()), namespace).prop_map(|(other, namespace)| {
        let key = "addon.open-cluster-management.io/v1alpha1-install-namespace";
        let map = fields(vec![("example.com/other", other), (key, namespace)]);
        if map == json!({}) { Value::Null } else { map }
    })
}

fn referent() -> impl Strategy<Value = Value> {
    (maybe(word()), word()).prop_map(|(namespace, name)| fields(vec![("namespace", namespace), ("name", name)]))
}

fn desired() -> impl Strategy<Value = Value> {
    (maybe(word()), word(), word())
        .prop_map(|(namespace, name, hash)| fields(vec![("namespace", namespace), ("name", name), ("specHash", hash)]))
}

fn coordinates() -> impl Strategy<Value = Value> {
    maybe(
        (word(), 0..3i64).prop_map(|(name, generation)| json!({"crdName": name, "lastObservedGeneration": generation})),
    )
}

fn object(kind: &'static str, version: &'static str, spec: Value, status: Value, annotations: Value) -> Value {
    let metadata = fields(vec![("name", "a".into()), ("annotations", annotations)]);
    fields(vec![
        ("apiVersion", version.into()),
        ("kind", kind.into()),
        ("metadata", metadata),
        ("spec", spec),
        ("status", status),
    ])
}

fn references(key: &'static str) -> impl Strategy<Value = Value> {
    let reference = (word(), maybe(desired())).prop_map(|(resource, desired)| {
        fields(vec![
            ("group", "g".into()),
            ("resource", resource),
            ("desiredConfig", desired),
        ])
    });
    list(reference).prop_map(move |list| fields(vec![(key, list)]))
}

fn alpha_cluster_management() -> impl Strategy<Value = Value> {
    let config = (word(), word(), maybe(referent())).prop_map(|(group, resource, default)| {
        fields(vec![
            ("group", group),
            ("resource", resource),
            ("defaultConfig", default),
        ])
    });
    let spec = (coordinates(), list(config)).prop_map(|(configuration, configs)| {
        fields(vec![
            ("addOnConfiguration", configuration),
            ("supportedConfigs", configs),
        ])
    });
    (spec, references("defaultconfigReferences"), annotations())
        .prop_map(|(spec, status, annotations)| object("ClusterManagementAddOn", ALPHA, spec, status, annotations))
}

fn beta_cluster_management() -> impl Strategy<Value = Value> {
    let config = (word(), word(), maybe(word()), word()).prop_map(|(group, resource, namespace, name)| {
        fields(vec![
            ("group", group),
            ("resource", resource),
            ("namespace", namespace),
            ("name", name),
        ])
    });
    let spec = list(config).prop_map(|configs| fields(vec![("defaultConfigs", configs)]));
    (spec, references("defaultConfigReferences"), annotations())
        .prop_map(|(spec, status, annotations)| object("ClusterManagementAddOn", BETA, spec, status, annotations))
}

fn driver() -> impl Strategy<Value = Value> {
    maybe(prop::sample::select(vec!["csr", "token"]).prop_map(Value::from))
}

fn signer() -> impl Strategy<Value = Value> {
    prop::sample::select(vec!["kubernetes.io/kube-apiserver-client", "example.com/signer"]).prop_map(Value::from)
}

fn subject(units: &'static str) -> impl Strategy<Value = Value> {
    maybe(
        (maybe(word()), words(), words()).prop_map(move |(user, groups, organization)| {
            fields(vec![("user", user), ("groups", groups), (units, organization)])
        }),
    )
}

fn alpha_managed_cluster() -> impl Strategy<Value = Value> {
    let namespace = maybe(Just(Value::from("n")));
    let spec = (namespace, list(referent()))
        .prop_map(|(namespace, configs)| fields(vec![("installNamespace", namespace), ("configs", configs)]));
    let reference = (maybe(word()), word(), maybe(desired())).prop_map(|(namespace, name, desired)| {
        fields(vec![
            ("resource", "r".into()),
            ("namespace", namespace),
            ("name", name),
            ("lastObservedGeneration", 3.into()),
            ("desiredConfig", desired),
        ])
    });
    let registration = (signer(), subject("organizationUnit"))
        .prop_map(|(signer, subject)| fields(vec![("signerName", signer), ("subject", subject)]));
    let status = (coordinates(), driver(), list(reference), list(registration)).prop_map(
        |(configuration, driver, references, registrations)| {
            fields(vec![
                ("addOnConfiguration", configuration),
                ("kubeClientDriver", driver),
                ("configReferences", references),
                ("registrations", registrations),
            ])
        },
    );
    (spec, maybe(status), annotations())
        .prop_map(|(spec, status, annotations)| object("ManagedClusterAddOn", ALPHA, spec, status, annotations))
}

fn beta_managed_cluster() -> impl Strategy<Value = Value> {
    let reference =
        maybe(desired()).prop_map(|desired| fields(vec![("resource", "r".into()), ("desiredConfig", desired)]));
    let client = (subject("organizationUnits"), driver())
        .prop_map(|(subject, driver)| fields(vec![("subject", subject), ("driver", driver)]));
    let custom = (signer(), subject("organizationUnits"))
        .prop_map(|(signer, subject)| fields(vec![("signerName", signer), ("subject", subject)]));
    let kinds = prop::sample::select(vec!["kubeClient", "customSigner"]);
    let registration = (kinds, maybe(client), maybe(custom)).prop_map(|(kind, client, custom)| {
        fields(vec![
            ("type", kind.into()),
            ("kubeClient", client),
            ("customSigner", custom),
        ])
    });
    let status = (list(reference), list(registration)).prop_map(|(references, registrations)| {
        fields(vec![("configReferences", references), ("registrations", registrations)])
    });
    let spec = list(referent()).prop_map(|configs| fields(vec![("configs", configs)]));
    (spec, maybe(status), annotations())
        .prop_map(|(spec, status, annotations)| object("ManagedClusterAddOn", BETA, spec, status, annotations))
}

proptest! {
    #[test]
    fn an_object_of_v1alpha1_survives_conversion_to_v1beta1_and_back(
        object in prop_oneof![alpha_cluster_management(), alpha_managed_cluster()]
    ) {
        let other = converted(&object, BETA);
        prop_assert_eq!(&other["apiVersion"], BETA);
        prop_assert_eq!(converted(&other, ALPHA), object);
    }

    #[test]
    fn an_object_of_v1beta1_survives_conversion_to_v1alpha1_and_back(
        object in prop_oneof![beta_cluster_management(), beta_managed_cluster()]
    ) {
        let other = converted(&object, ALPHA);
        prop_assert_eq!(&other["apiVersion"], ALPHA);
        prop_assert_eq!(converted(&other, BETA), object);
    }

    #[test]
    fn a_second_trip_ends_where_the_first_did(
        object in prop_oneof![
            alpha_cluster_management(), alpha_managed_cluster(), beta_cluster_management(), beta_managed_cluster()
        ]
    ) {
        let there = converted(&converted(&object, ALPHA), BETA);
        prop_assert_eq!(converted(&converted(&there, ALPHA), BETA), there);
    }
}

#[test]
fn default_configurations_are_renamed_or_get_a_reserved_name() {
    let alpha = json!({
        "apiVersion": ALPHA, "kind": "ClusterManagementAddOn", "metadata": {"name": "a"},
        "spec": {
            "addOnMeta": {"displayName": "A"},
            "supportedConfigs": [
                {"group": "g", "resource": "with", "defaultConfig": {"namespace": "n", "name": "d"}},
                {"group": "g", "resource": "without"},
            ],
            "installStrategy": {"type": "Manual"},
        },
        "status": {"defaultconfigReferences": [{"group": "g", "resource": "with", "desiredConfig": {"name": "d", "specHash": "1"}}]},
    });
    let beta = json!({
        "apiVersion": BETA, "kind": "ClusterManagementAddOn", "metadata": {"name": "a"},
        "spec": {
            "addOnMeta": {"displayName": "A"},
            "defaultConfigs": [
                {"group": "g", "resource": "with", "namespace": "n", "name": "d"},
                {"group": "g", "resource": "without", "name": "__reserved_no_default__"},
            ],
            "installStrategy": {"type": "Manual"},
        },
        "status": {"defaultConfigReferences": [{"group": "g", "resource": "with", "desiredConfig": {"name": "d", "specHash": "1"}}]},
    });
    assert_eq!(converted(&alpha, BETA), beta);
    assert_eq!(converted(&beta, ALPHA), alpha);
}

fn registered() -> (Value, Value) {
    let alpha = json!({
        "apiVersion": ALPHA, "kind": "ManagedClusterAddOn", "metadata": {"name": "a"},
        "spec": {"installNamespace": "agents"},
        "status": {
            "kubeClientDriver": "csr",
            "configReferences": [{"group": "g", "resource": "r", "namespace": "n", "name": "d", "lastObservedGeneration": 1,
                "desiredConfig": {"namespace": "n", "name": "d", "specHash": "1"}}],
            "registrations": [
                {"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": "u", "groups": ["g"]}},
                {"signerName": "example.com/s", "subject": {"user": "v", "organizationUnit": ["o"]}},
            ],
        },
    });
    let beta = json!({
        "apiVersion": BETA, "kind": "ManagedClusterAddOn",
        "metadata": {"name": "a", "annotations": {"addon.open-cluster-management.io/v1alpha1-install-namespace": "agents"}},
        "spec": {},
        "status": {
            "configReferences": [{"group": "g", "resource": "r", "lastObservedGeneration": 1,
                "desiredConfig": {"namespace": "n", "name": "d", "specHash": "1"}}],
            "registrations": [
                {"type": "kubeClient", "kubeClient": {"subject": {"user": "u", "groups": ["g"]}, "driver": "csr"}},
                {"type": "customSigner", "customSigner": {"signerName": "example.com/s",
                    "subject": {"user": "v", "organizationUnits": ["o"]}}},
            ],
        },
    });
    (alpha, beta)
}

#[test]
fn registrations_get_a_type_and_the_namespace_becomes_an_annotation() {
    let (alpha, beta) = registered();
    assert_eq!(converted(&alpha, BETA), beta);
    assert_eq!(converted(&beta, ALPHA), alpha);
}

#[test]
fn what_only_v1alpha1_says_survives_an_edit_of_something_else() {
    let (mut alpha, _) = registered();
    alpha["status"]["addOnConfiguration"] = json!({"crName": "x"});
    alpha["status"]["registrations"][0]["subject"]["organizationUnit"] = json!(["unit"]);
    let mut beta = converted(&alpha, BETA);
    assert!(beta["metadata"]["annotations"][KEPT_OF_V1ALPHA1].is_string());
    beta["metadata"]["labels"] = json!({"edited": "yes"});
    beta["status"]["registrations"].as_array_mut().unwrap().insert(
        0,
        json!({"type": "customSigner", "customSigner": {"signerName": "example.com/first"}}),
    );
    let edited = converted(&beta, ALPHA);
    assert_eq!(edited["metadata"]["annotations"], Value::Null);
    assert_eq!(edited["status"]["addOnConfiguration"], json!({"crName": "x"}));
    assert_eq!(
        edited["status"]["registrations"][1]["subject"]["organizationUnit"],
        json!(["unit"])
    );
}

#[test]
fn an_edit_wins_over_what_was_kept_of_the_entry() {
    let (mut alpha, _) = registered();
    alpha["status"]["registrations"][0]["subject"]["organizationUnit"] = json!(["unit"]);
    let mut beta = converted(&alpha, BETA);
    beta["status"]["registrations"][0]["kubeClient"]["subject"]["user"] = "another".into();
    let edited = converted(&beta, ALPHA);
    let subject = json!({"user": "another", "groups": ["g"]});
    assert_eq!(edited["status"]["registrations"][0]["subject"], subject);
}

#[test]
fn what_somebody_else_wrote_into_our_annotation_does_no_harm() {
    for text in [
        "",
        "no JSON",
        "[]",
        r#"{"status.registrations": 3}"#,
        r#"{"status.registrations": {"x": {}}}"#,
    ] {
        for (version, key) in [(ALPHA, KEPT_OF_V1BETA1), (BETA, KEPT_OF_V1ALPHA1)] {
            let (alpha, beta) = registered();
            let (mut object, other, target) = if version == ALPHA {
                (alpha, beta, BETA)
            } else {
                (beta, alpha, ALPHA)
            };
            object["metadata"]["annotations"][key] = text.into();
            assert_eq!(converted(&object, target)["spec"], other["spec"], "{text}");
            assert_eq!(converted(&object, target)["status"], other["status"], "{text}");
        }
    }
}

#[test]
fn typed_objects_convert_too() {
    let (alpha, beta) = registered();
    let alpha: v1alpha1::ManagedClusterAddOn = serde_json::from_value(alpha).unwrap();
    let beta: v1beta1::ManagedClusterAddOn = serde_json::from_value(beta).unwrap();
    assert_eq!(v1beta1::ManagedClusterAddOn::from(&alpha), beta);
    assert_eq!(v1alpha1::ManagedClusterAddOn::from(&beta), alpha);
}

#[test]
fn kinds_that_do_not_differ_get_the_other_version_only() {
    let config = json!({"apiVersion": ALPHA, "kind": "AddOnDeploymentConfig", "metadata": {"name": "c"}, "spec": {"registries": []}});
    let mut expected = config.clone();
    expected["apiVersion"] = BETA.into();
    assert_eq!(converted(&config, BETA), expected);
}

#[test]
fn a_review_answers_in_its_version_with_all_or_nothing() {
    let (alpha, beta) = registered();
    for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
        let asked = |objects: Value| {
            json!({"kind": "ConversionReview", "apiVersion": version,
                "request": {"uid": "7", "desiredAPIVersion": BETA, "objects": objects}})
        };
        let answer = review(&asked(json!([alpha, beta])));
        assert_eq!(
            answer,
            json!({"kind": "ConversionReview", "apiVersion": version,
                "response": {"uid": "7", "convertedObjects": [beta, beta], "result": {"status": "Success"}}})
        );
        let answer = review(&asked(json!([alpha, {"apiVersion": ALPHA, "kind": "Widget"}])));
        assert_eq!(answer["response"]["convertedObjects"], json!([]));
        assert_eq!(answer["response"]["result"]["status"], "Failure");
        assert_eq!(
            answer["response"]["result"]["message"],
            "\"Widget\" is no kind of addon.open-cluster-management.io"
        );
    }
}

#[test]
fn an_object_of_another_shape_is_refused_and_named() {
    let text = "ManagedClusterAddOn";
    let table = [
        (
            json!({"metadata": "x"}),
            format!("metadata of a {text} is a string where a map belongs"),
        ),
        (
            json!({"metadata": [1]}),
            format!("metadata of a {text} is a list where a map belongs"),
        ),
        (
            json!({"metadata": {"annotations": 3}}),
            format!("metadata.annotations of a {text} is a number where a map belongs"),
        ),
        (
            json!({"spec": true}),
            format!("spec of a {text} is a boolean where a map belongs"),
        ),
    ];
    for (parts, message) in table {
        for (from, to) in [(ALPHA, BETA), (BETA, ALPHA)] {
            let mut object = json!({"apiVersion": from, "kind": text, "spec": {"installNamespace": "n"}});
            for (field, part) in parts.as_object().unwrap() {
                object[field] = part.clone();
            }
            assert_eq!(convert(&mut object, to).unwrap_err().to_string(), message);
        }
    }
    for missing in [Value::Null, json!({}), json!({"annotations": null})] {
        let mut object =
            json!({"apiVersion": ALPHA, "kind": text, "metadata": missing, "spec": {"installNamespace": "n"}});
        convert(&mut object, BETA).unwrap();
    }
}
