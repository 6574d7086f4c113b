//! What a request asks for: its path, query and Kubernetes verb, read without looking at any object.

use crate::identity::Attributes;
use http::Method;
use kube_store::status::Status;
use percent_encoding::percent_decode_str;

/// Query parameters in the order given.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part after `?`.
    pub fn parse(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }
    /// First value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }
    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }
    /// Boolean parameter: present and neither `false`, in letters of any size, nor `0`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|it| !it.eq_ignore_ascii_case("false") && it != "0")
    }
    /// A non-empty value.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|it| !it.is_empty())
    }
}

/// The path of a resource, a named object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    /// The legacy `/watch/` prefix.
    pub watch: bool,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Root,
    /// `/api`
    Legacy,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`
    GroupVersion(String, String),
    Resource(ResourcePath),
    Version,
    /// `healthz`, `livez` or `readyz`, and the check named after it.
    Health(&'static str, String),
    Metrics,
    /// All objects, to keep somewhere else.
    Backup,
    OpenApiV2,
    /// Empty, or the key of one document.
    OpenApiV3(String),
    OpenIdConfiguration,
    Jwks,
    Unknown,
}

/// Reads a path.
pub fn route(path: &str) -> Route {
    let trimmed = path.strip_prefix('/').unwrap_or(path);
    let mut segments: Vec<String> = trimmed
        .split('/')
        .map(|it| percent_decode_str(it).decode_utf8_lossy().into_owned())
        .collect();
    let health = match segments.first().map(String::as_str) {
        Some("healthz") => Some("healthz"),
        Some("livez") => Some("livez"),
        Some("readyz") => Some("readyz"),
        _ => None,
    };
    if let Some(which) = health {
        if segments.get(1).is_some_and(String::is_empty) {
            return Route::Unknown;
        }
        return Route::Health(which, segments.get(1).cloned().unwrap_or_default());
    }
    if segments.first().is_some_and(|it| it == "openapi") {
        return match segments.get(1).map(String::as_str) {
            Some("v2") if segments.len() == 2 => Route::OpenApiV2,
            Some("v3") => Route::OpenApiV3(segments[2..].join("/")),
            _ => Route::Unknown,
        };
    }
    if segments.len() > 1 && segments.last().is_some_and(String::is_empty) {
        segments.pop();
    }
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [""] | ["index.html"] => Route::Root,
        ["version"] => Route::Version,
        ["metrics"] => Route::Metrics,
        ["backup"] => Route::Backup,
        [".well-known", "openid-configuration"] => Route::OpenIdConfiguration,
        ["openid", "v1", "jwks"] => Route::Jwks,
        ["api"] => Route::Legacy,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).into()),
        ["api", version] => Route::GroupVersion(String::new(), (*version).into()),
        ["apis", group, version] => Route::GroupVersion((*group).into(), (*version).into()),
        ["api", "v1", rest @ ..] => resource("", "v1", rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Route::Unknown,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // The namespace object itself and its two subresources.
        ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
            ("", ["namespaces", name, sub].to_vec())
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest.to_vec()),
        rest => ("", rest.to_vec()),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
    let mut path = ResourcePath {
        group: group.into(),
        version: version.into(),
        resource: part(0),
        namespace: namespace.into(),
        name: part(1),
        subresource: rest.get(2..).unwrap_or_default().join("/"),
        watch,
    };
    if path.resource.is_empty() || path.name.contains('/') {
        return Route::Unknown;
    }
    // A namespace is its own namespace for authorization.
    if path.group.is_empty() && path.resource == "namespaces" && path.namespace.is_empty() {
        path.namespace = path.name.clone();
    }
    Route::Resource(path)
}

impl ResourcePath {
    /// The Kubernetes verb of a method on this path.
    ///
    /// # Errors
    /// 405 for a method that the path does not take.
    pub fn verb(&self, method: &Method, query: &Query) -> Result<&'static str, Status> {
        let collection = self.name.is_empty();
        Ok(match method.as_str() {
            "GET" if collection && (self.watch || query.flag("watch")) => "watch",
            "GET" if self.watch => "watch",
            "GET" if collection => "list",
            "GET" => "get",
            "POST" if collection || !self.subresource.is_empty() => "create",
            "PUT" if !collection => "update",
            "PATCH" if !collection => "patch",
            "DELETE" if collection => "deletecollection",
            "DELETE" => "delete",
            _ => return Err(Status::method_not_allowed()),
        })
    }

    /// What authorization decides on. A field selector on `metadata.name` names the object.
    pub fn attributes(&self, verb: &str, query: &Query, path: &str) -> Attributes {
        let mut name = self.name.clone();
        if name.is_empty() && matches!(verb, "list" | "watch" | "deletecollection") {
            let selector = query.get("fieldSelector").unwrap_or_default();
            let exact = selector.split(',').find_map(|it| it.strip_prefix("metadata.name="));
            name = exact
                .map(|it| it.trim_start_matches('=').to_owned())
                .unwrap_or_default();
        }
        Attributes {
            verb: verb.into(),
            is_resource: true,
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name,
            path: path.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ResourcePath {
        match route(text) {
            Route::Resource(it) => it,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn paths_name_resources_namespaces_and_subresources() {
        let it = path("/apis/apps/v1/namespaces/default/deployments/nginx/scale");
        assert_eq!(
            (it.group.as_str(), it.namespace.as_str(), it.name.as_str()),
            ("apps", "default", "nginx")
        );
        assert_eq!(
            (it.resource.as_str(), it.subresource.as_str()),
            ("deployments", "scale")
        );
        let it = path("/api/v1/namespaces/cluster1/finalize");
        assert_eq!(
            (it.resource.as_str(), it.name.as_str(), it.subresource.as_str()),
            ("namespaces", "cluster1", "finalize")
        );
        let it = path("/api/v1/namespaces/");
        assert_eq!((it.resource.as_str(), it.name.as_str()), ("namespaces", ""));
        let it = path("/apis/rbac.authorization.k8s.io/v1/clusterroles/open-cluster-management%3Amanagedcluster%3Ac1");
        assert_eq!(it.name, "open-cluster-management:managedcluster:c1");
        assert_eq!(route("/healthz"), Route::Health("healthz", String::new()));
        assert_eq!(route("/apis/apps/v1/"), Route::GroupVersion("apps".into(), "v1".into()));
        assert_eq!(
            route("/api/v1/a%2Fb/c"),
            Route::Resource(ResourcePath {
                resource: "a/b".into(),
                name: "c".into(),
                version: "v1".into(),
                ..ResourcePath::default()
            })
        );
    }

    #[test]
    fn methods_become_verbs() {
        let none = Query::default();
        let list = path("/api/v1/pods");
        assert_eq!(list.verb(&Method::GET, &none).unwrap(), "list");
        assert_eq!(list.verb(&Method::GET, &Query::parse("watch=1")).unwrap(), "watch");
        assert_eq!(list.verb(&Method::GET, &Query::parse("watch=false")).unwrap(), "list");
        assert_eq!(list.verb(&Method::PUT, &none).unwrap_err().code, 405);
        let named = path("/api/v1/namespaces/a/pods/b");
        assert_eq!(named.verb(&Method::GET, &Query::parse("watch=1")).unwrap(), "get");
        assert_eq!(named.verb(&Method::POST, &none).unwrap_err().code, 405);
        let query = Query::parse("fieldSelector=metadata.name%3Dx");
        assert_eq!(list.attributes("watch", &query, "").name, "x");
    }
}
