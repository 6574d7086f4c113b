//! `managedFields` of built-in kinds, with the schemas that the server uses: the samples are those
//! of a real API server.

use jiff::Timestamp;
use kube_api::builtin_schemas;
use kube_store::{
    managed::{self, Ctx, FieldSet},
    patch::strategic,
    schema::Schema,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn schema(group: &str, kind: &str) -> Arc<Schema> {
    builtin_schemas::schema(group, "v1", kind).expect("the kind is built in")
}

fn ctx<'a>(manager: &'a str, api_version: &'a str, schema: &'a Schema) -> Ctx<'a> {
    let now = Timestamp::from_second(1_790_000_000).expect("a valid time");
    Ctx {
        manager,
        api_version,
        subresource: "",
        schema,
        now,
        reset_fields: &[&["status"]],
        built_in: true,
        served: &[],
        versions: None,
    }
}

fn owned(object: &Value, entry: usize) -> String {
    let fields = &object["metadata"]["managedFields"][entry]["fieldsV1"];
    FieldSet::from_json(fields)
        .expect("the fields are well-formed")
        .to_string()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "nginx", "image": "nginx", "imagePullPolicy": "Always", "args": ["-v"],
                        "env": [{"name": "A", "value": "1"}],
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "1"}},
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
                    "tolerations": [{"key": "x"}],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
        "status": {},
    })
}

#[test]
fn a_created_deployment_is_owned_as_on_a_real_server() {
    let schema = schema("apps", "Deployment");
    let mut object = deployment();
    managed::update(None, &mut object, &ctx("kubectl-create", "apps/v1", &schema));
    let expected = concat!(
        r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"#,
        r#""f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},"#,
        r#""f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},"#,
        r#""f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"#,
        r#""k:{\"name\":\"nginx\"}":{".":{},"f:args":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"#,
        r#""f:image":{},"f:imagePullPolicy":{},"f:name":{},"#,
        r#""f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"#,
        r#""f:resources":{".":{},"f:limits":{".":{},"f:cpu":{}}},"#,
        r#""f:volumeMounts":{".":{},"k:{\"mountPath\":\"/tmp\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},"#,
        r#""f:dnsPolicy":{},"f:restartPolicy":{},"f:securityContext":{},"f:tolerations":{},"#,
        r#""f:volumes":{".":{},"k:{\"name\":\"tmp\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}}}"#
    );
    assert_eq!(owned(&object, 0), expected);
}

#[test]
fn an_applied_deployment_owns_its_leaves_with_defaulted_port_keys() {
    let schema = schema("apps", "Deployment");
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}]}]}},
        },
    });
    let context = ctx("m", "apps/v1", &schema);
    let object = managed::apply(None, &config, &context, false).expect("nothing to conflict with");
    let expected = concat!(
        r#"{"f:spec":{"f:selector":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"nginx\"}":{".":{},"f:image":{},"#,
        r#""f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}"#
    );
    assert_eq!(owned(&object, 0), expected);
    assert_eq!(managed::apply(Some(&object), &config, &context, false), Ok(object));
}

#[test]
fn applying_an_unknown_field_of_a_built_in_kind_fails() {
    let schema = schema("", "ConfigMap");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fv"}, "foo": 1});
    let error = managed::apply(None, &config, &ctx("m", "v1", &schema), false).expect_err("foo is unknown");
    let message = "failed to create typed patch object (/fv; /v1, Kind=ConfigMap): .foo: field not declared in schema";
    assert_eq!((error.code, error.message.as_str()), (500, message));
}

#[test]
fn strategic_merge_patches_use_merge_keys_of_built_in_schemas() {
    let patch = json!({
        "metadata": {"finalizers": ["a/b"]},
        "spec": {"template": {"spec": {
            "containers": [{"name": "nginx", "ports": [{"containerPort": 81, "name": "b"}], "env": [{"name": "A", "$patch": "delete"}]}],
            "tolerations": [{"key": "y"}],
            "volumes": [{"name": "tmp", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}],
        }}},
    });
    let result = strategic::apply(
        &deployment(),
        patch.to_string().as_bytes(),
        &schema("apps", "Deployment"),
    )
    .expect("a good patch");
    let pod = &result["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "nginx");
    assert_eq!(
        pod["containers"][0]["ports"],
        json!([{"containerPort": 81, "name": "b"}, {"containerPort": 80, "protocol": "TCP"}])
    );
    assert_eq!(pod["containers"][0]["env"], json!([]));
    assert_eq!(pod["tolerations"], json!([{"key": "y"}]));
    assert_eq!(pod["volumes"], json!([{"name": "tmp", "hostPath": {"path": "/x"}}]));
}
