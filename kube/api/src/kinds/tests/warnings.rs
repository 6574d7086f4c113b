//! Warnings in the words of a real kube-apiserver.

use crate::kinds::warnings;
use serde_json::{Value, json};

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn of_pod(spec: Value) -> Vec<String> {
    warnings("", "Pod", &pod(spec), None)
}

fn of_container(more: Value) -> Vec<String> {
    let mut container = json!({"name": "c", "image": "i"});
    for (key, value) in more.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    of_pod(json!({"containers": [container]}))
}

#[test]
fn a_plain_pod_is_warned_of_nothing() {
    assert!(of_pod(json!({})).is_empty());
}

#[test]
fn pods_are_warned_of_what_does_nothing() {
    let table = [
        (
            json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ),
        (
            json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b/"}]}}]}),
            "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\"",
        ),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [
                {"secret": {"name": "s", "items": [{"path": "token"}]}}, {"serviceAccountToken": {"path": "token"}}]}}]}),
            "volume \"v\" (Projected): overlapping paths: \"token\" (ServiceAccountToken) with \"token\" (Secret \"s\")",
        ),
    ];
    for (spec, want) in table {
        assert_eq!(of_pod(spec), [want]);
    }
    let apart =
        json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "ab"}]}}]});
    assert!(of_pod(apart).is_empty());
}

#[test]
fn containers_are_warned_of_what_is_there_twice() {
    let table = [
        (
            json!({"resources": {"limits": {"memory": "1500m"}}}),
            "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
        ),
        (
            json!({"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]}),
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 1}, {"containerPort": 80}]}),
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        ),
        (
            json!({"env": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]}),
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ),
    ];
    for (more, want) in table {
        assert_eq!(of_container(more), [want]);
    }
    let built_upon = json!({"env": [{"name": "A", "value": "x"}, {"name": "A", "value": "$(A)y"}]});
    assert!(of_container(built_upon).is_empty());
    let other_protocol =
        json!({"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]});
    assert!(of_container(other_protocol).is_empty());
}

#[test]
fn templates_are_warned_of_where_they_are_and_only_when_they_change() {
    let deployment = |replicas: i64| {
        let template = pod(json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}));
        json!({"metadata": {"name": "a.b"}, "spec": {"replicas": replicas, "template": template}})
    };
    let told = |old: Option<&Value>| warnings("apps", "Deployment", &deployment(1), old);
    let of_template = "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead";
    let of_name = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
                   recommended: [must not contain dots]";
    assert_eq!(told(None), [of_name, of_template]);
    assert_eq!(told(Some(&deployment(2))), [of_template]);
    assert!(told(Some(&deployment(1))).is_empty());
}

#[test]
fn other_kinds_are_warned_of() {
    let table = [
        (
            ("", "Service"),
            json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "externalName": "a"}}),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            ("apps", "StatefulSet"),
            json!({"spec": {"revisionHistoryLimit": -1}}),
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ),
    ];
    for ((group, kind), object, want) in table {
        assert_eq!(warnings(group, kind, &object, None), [want], "{kind}");
    }
}
