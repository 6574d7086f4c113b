//! What an add-on brings to a cluster, for tests of its manifests.

use serde_json::Value;

/// `KIND NAME` of each.
pub fn kinds(all: &[Value]) -> Vec<String> {
    let name = |it: &Value| {
        let (kind, metadata) = (it["kind"].as_str().unwrap(), &it["metadata"]);
        format!("{kind} {}", metadata["name"].as_str().unwrap())
    };
    all.iter().map(name).collect()
}

/// The first one of a kind.
pub fn of_kind<'a>(all: &'a [Value], kind: &str) -> &'a Value {
    all.iter().find(|it| it["kind"] == kind).unwrap()
}

/// The spec of the pods of the Deployment.
pub fn pod(all: &[Value]) -> &Value {
    &of_kind(all, "Deployment")["spec"]["template"]["spec"]
}

/// The arguments of its first container.
pub fn arguments(all: &[Value]) -> Vec<String> {
    serde_json::from_value(pod(all)["containers"][0]["args"].clone()).unwrap()
}

/// A variable of its first container.
pub fn environment(all: &[Value], name: &str) -> Value {
    let variables = pod(all)["containers"][0]["env"].as_array().unwrap();
    variables.iter().find(|it| it["name"] == name).unwrap()["value"].clone()
}
