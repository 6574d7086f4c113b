//! Rules of built-in kinds, a table each: what is refused, and what may not change.
//! They belong to checks of the other sections.

use crate::cx::Cx;
use serde_json::{Value, json};

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

/// A container with what is asked about.
fn container(more: Value) -> Value {
    let mut spec = pod_spec();
    let container = spec["containers"][0].as_object_mut().unwrap();
    container.extend(more.as_object().unwrap().clone());
    spec
}

fn workload(strategy: &str, update: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        strategy: {"type": "RollingUpdate", "rollingUpdate": update},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()},
    }})
}

/// Creates that Kubernetes refuses, with a part of what it says of each.
pub async fn refused(c: &Cx) {
    let namespace = c.namespace_called("rules").await;
    let core = format!("/api/v1/namespaces/{namespace}");
    let apps = format!("/apis/apps/v1/namespaces/{namespace}");
    // Of the pod, which any workload makes: a template is not asked for its ServiceAccount.
    let pods = [
        (
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            "resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            container(json!({"resources": {"requests": {"ex.io/disk": "1"}}})),
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            container(json!({"resources": {"limits": {"ex.io/disk": "2"}, "requests": {"ex.io/disk": "1"}}})),
            "resources.requests: Invalid value: \"1\": must be equal to ex.io/disk limit of 2",
        ),
        (
            container(json!({"resources": {"limits": {"memory": "-1"}}})),
            "resources.limits[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            container(json!({"resources": {"limits": {"pods": "1"}}})),
            "resources.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers",
        ),
        (
            container(json!({"livenessProbe": {"periodSeconds": 5}})),
            "livenessProbe: Required value: must specify a handler type",
        ),
        (
            container(json!({"readinessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 80}}})),
            "readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (
            container(json!({"livenessProbe": {"successThreshold": 2, "httpGet": {"port": "http"}}})),
            "livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            container(json!({"startupProbe": {"httpGet": {"port": "UPPER"}}})),
            "startupProbe.httpGet.port: Invalid value: \"UPPER\": must contain only alpha-numeric characters (a-z, 0-9), and \
             hyphens (-)",
        ),
        (
            container(json!({"lifecycle": {"preStop": {}}})),
            "lifecycle.preStop: Required value: must specify a handler type",
        ),
        (
            container(json!({"lifecycle": {"preStop": {"exec": {}}}})),
            "lifecycle.preStop.exec.command: Required value",
        ),
        (
            container(json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]})),
            "ports[1].name: Duplicate value: \"a\"",
        ),
        (
            container(json!({"env": [{"name": "a=b"}]})),
            "env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters \
             other than '='",
        ),
        (
            container(json!({"env": [{"name": "a", "valueFrom": {}}]})),
            "env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, ",
        ),
    ];
    for (spec, wanted) in pods {
        let template = json!({"metadata": {"name": "a"}, "template": {"spec": spec}});
        c.post(&format!("{core}/podtemplates?dryRun=All"), template)
            .await
            .fails(422, "Invalid")
            .mentions(&format!("template.spec.containers[0].{wanted}"));
    }
    let mut init = container(json!({}));
    init["initContainers"] = json!([{"name": "i", "image": "i", "livenessProbe": {"tcpSocket": {"port": 80}}}]);
    let others = [
        (
            format!("{core}/podtemplates"),
            json!({"metadata": {"name": "a"}, "template": {"spec": init}}),
            "initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        ),
        (
            format!("{core}/podtemplates"),
            json!({"metadata": {"name": "a"}, "template": {"metadata": {"labels": {"a": "-"}}, "spec": pod_spec()}}),
            "template.labels: Invalid value: \"-\"",
        ),
        (
            format!("{apps}/deployments"),
            workload("strategy", json!({"maxUnavailable": 0, "maxSurge": 0})),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            format!("{apps}/deployments"),
            workload("strategy", json!({"maxUnavailable": "101%"})),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ),
        (
            format!("{apps}/deployments"),
            workload("strategy", json!({"maxSurge": "some"})),
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"some\": a valid percent string must be a numeric string followed \
             by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        (
            format!("{apps}/daemonsets"),
            workload("updateStrategy", json!({"maxUnavailable": 1, "maxSurge": 1})),
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ),
        (
            format!("{apps}/controllerrevisions"),
            json!({"metadata": {"name": "a"}, "revision": 1}),
            "data: Required value: data is mandatory",
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses".to_owned(),
            json!({"metadata": {"name": c.name("class")}}),
            "provisioner: Required value",
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses".to_owned(),
            json!({"metadata": {"name": c.name("runtime")}}),
            "handler: Required value",
        ),
        (
            format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
            json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["2001:db8::1"]}]}),
            "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
        ),
    ];
    for (path, object, wanted) in others {
        c.post(&format!("{path}?dryRun=All"), object)
            .await
            .fails(422, "Invalid")
            .mentions(wanted);
    }
}

/// Fields that keep the value they were created with, with a part of what Kubernetes says of each.
pub async fn immutable(c: &Cx) {
    let namespace = c.namespace_called("kept").await;
    let table = [
        (
            format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"),
            json!({"data": {"a": "b"}, "revision": 1}),
            json!({"data": {"a": "c"}}),
            "data: Invalid value: ",
        ),
        (
            format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
            json!({"addressType": "IPv4", "endpoints": []}),
            json!({"addressType": "IPv6"}),
            "addressType: Invalid value: \"IPv6\": field is immutable",
        ),
    ];
    for (at, (path, mut object, change, wanted)) in table.into_iter().enumerate() {
        let name = c.name(&format!("kept{at}"));
        object["metadata"] = json!({"name": name});
        c.make(&path, object).await;
        c.merge(&format!("{path}/{name}"), change)
            .await
            .fails(422, "Invalid")
            .mentions(wanted);
    }
}
