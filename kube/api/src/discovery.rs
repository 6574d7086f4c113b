//! Discovery: which groups, versions and resources are served, in the plain and the aggregated form.

use crate::{
    group_version::api_version,
    registry::{Registry, Resource},
    respond::Body,
};
use http::{HeaderMap, HeaderValue, Response, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};

/// The Kubernetes version that the server speaks. Build metadata only: a pre-release part would fail Helm's
/// constraints.
pub const GIT_VERSION: &str = concat!("v1.36.0+drover.", env!("CARGO_PKG_VERSION"));

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// `/`: the paths that lead somewhere.
pub fn paths(registry: &Registry) -> Value {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
    ]
    .map(str::to_owned)
    .to_vec();
    for (group, _) in registry.groups().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(registry.versions(group).iter().map(|it| format!("/apis/{group}/{it}")));
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    json!({"paths": paths})
}

/// `/api`.
pub fn legacy() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
    })
}

fn group_entry(registry: &Registry, group: &str) -> Value {
    let versions: Vec<Value> = registry
        .versions(group)
        .iter()
        .map(|it| json!({"groupVersion": format!("{group}/{it}"), "version": it}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group, "versions": versions, "preferredVersion": preferred})
}

/// `/apis`.
pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .filter(|(it, _)| !it.is_empty())
        .map(|(it, _)| group_entry(registry, it))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`.
pub fn group(registry: &Registry, group: &str) -> Option<Value> {
    if group.is_empty() || registry.versions(group).is_empty() {
        return None;
    }
    let mut entry = group_entry(registry, group);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

/// A subresource: name, kind, group, version, verbs.
type Subresource = (String, String, String, String, Vec<&'static str>);

fn subresources(resource: &Resource, version: &str) -> Vec<Subresource> {
    let three = vec!["get", "patch", "update"];
    let mut all: Vec<Subresource> = Vec::new();
    let served = resource.version(version);
    if served.is_some_and(|it| it.status) {
        all.push((
            "status".into(),
            resource.kind.clone(),
            String::new(),
            String::new(),
            three.clone(),
        ));
    }
    if resource.traits.scale && (resource.is_builtin() || served.is_some_and(|it| it.scale.is_some())) {
        all.push(("scale".into(), "Scale".into(), "autoscaling".into(), "v1".into(), three));
    }
    for it in resource.subresources {
        all.push((
            it.name.into(),
            it.kind.into(),
            it.group.into(),
            it.version.into(),
            it.verbs.to_vec(),
        ));
    }
    all.sort();
    all
}

fn storage_hash(resource: &Resource) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    // Events of both groups are stored as those of the core group.
    let group = if resource.group == "events.k8s.io" {
        ""
    } else {
        &resource.group
    };
    let text = format!("{group}/{}/{}", resource.storage_version(), resource.kind);
    STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub fn group_version(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for resource in registry
        .group(group)?
        .values()
        .filter(|it| it.version(version).is_some())
    {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs(),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = resource.short_names.clone().into();
        }
        if !resource.categories.is_empty() {
            entry["categories"] = resource.categories.clone().into();
        }
        if !resource.traits.review {
            entry["storageVersionHash"] = storage_hash(resource).into();
        }
        resources.push(entry);
        for (name, kind, group, version, verbs) in subresources(resource, version) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "kind": kind, "verbs": verbs,
            });
            if !group.is_empty() {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    if resources.is_empty() {
        return None;
    }
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": api_version(group, version), "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

/// The version of the aggregated form that the client accepts first, if it accepts one.
pub fn wants_aggregated(headers: &HeaderMap) -> Option<&'static str> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    accept.split(',').find_map(|element| {
        let has = |wanted: &str| element.split(';').any(|it| it.trim() == wanted);
        if !(has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io")) {
            return None;
        }
        if has("v=v2") {
            Some("v2")
        } else if has("v=v2beta1") {
            Some("v2beta1")
        } else {
            None
        }
    })
}

/// `/api` and `/apis` in the aggregated form: everything in two requests.
pub fn aggregated(registry: &Registry, legacy: bool, headers: &HeaderMap) -> Response<Body> {
    let version = wants_aggregated(headers).unwrap_or("v2");
    let items: Vec<Value> = registry
        .groups()
        .filter(|(group, _)| group.is_empty() == legacy)
        .map(|(group, resources)| {
            let versions: Vec<Value> = registry
                .versions(group)
                .iter()
                .map(|version| {
                    let served = resources.values().filter(|it| it.version(version).is_some());
                    let entries: Vec<Value> = served.map(|it| aggregated_resource(it, version)).collect();
                    json!({"version": version, "freshness": "Current", "resources": entries})
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items,
    })
    .to_string();
    let etag: String = Sha512::digest(body.as_bytes())
        .iter()
        .map(|it| format!("{it:02X}"))
        .collect();
    let etag = format!("\"{etag}\"");
    let unchanged = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|it| it.as_bytes() == etag.as_bytes());
    let mut response = Response::new(if unchanged {
        Body::empty()
    } else {
        Body::from(bytes::Bytes::from(body))
    });
    if unchanged {
        *response.status_mut() = http::StatusCode::NOT_MODIFIED;
    }
    let out = response.headers_mut();
    let media = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    if let (Ok(media), Ok(etag)) = (HeaderValue::from_str(&media), HeaderValue::from_str(&etag)) {
        out.insert(header::CONTENT_TYPE, media);
        out.insert(header::ETAG, etag);
    }
    out.insert(header::VARY, HeaderValue::from_static("Accept"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn aggregated_resource(resource: &Resource, version: &str) -> Value {
    // Clients read empty as "the group and version around it"; custom resources fill it in.
    let own = |group: &str, version: &str| match (group.is_empty(), resource.is_builtin()) {
        (true, true) => ("".to_owned(), "".to_owned()),
        (true, false) => (resource.group.clone(), version.to_owned()),
        (false, _) => (group.to_owned(), version.to_owned()),
    };
    let (group, shown) = own("", version);
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": group, "version": shown, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    let children: Vec<Value> = subresources(resource, version)
        .into_iter()
        .map(|(name, kind, group, its_version, verbs)| {
            let (group, shown) = if group.is_empty() { own("", version) } else { (group, its_version) };
            json!({"subresource": name, "responseKind": {"group": group, "version": shown, "kind": kind}, "verbs": verbs})
        })
        .collect();
    if !children.is_empty() {
        entry["subresources"] = children.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_show_their_scale_and_namespaces_no_deletecollection() {
        let registry = crate::kinds::registry();
        let apps = group_version(&registry, "apps", "v1").unwrap();
        let resources = apps["resources"].as_array().unwrap();
        let scale = resources.iter().find(|it| it["name"] == "deployments/scale").unwrap();
        assert_eq!(
            (&scale["group"], &scale["version"], &scale["kind"]),
            (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
        );
        let core = group_version(&registry, "", "v1").unwrap();
        assert!(core.get("apiVersion").is_none());
        let namespaces = core["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["name"] == "namespaces")
            .unwrap();
        assert!(!namespaces["verbs"].to_string().contains("deletecollection"));
        assert!(group_version(&registry, "apps", "v2").is_none());
    }

    #[test]
    fn the_aggregated_form_answers_304_to_its_own_etag() {
        let registry = crate::kinds::registry();
        let mut headers = HeaderMap::new();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(wants_aggregated(&headers), Some("v2"));
        let first = aggregated(&registry, false, &headers);
        headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(aggregated(&registry, false, &headers).status(), 304);
    }
}
