//! What a request to the user-server is for, by its path.
//! Upstream: cluster-proxy `pkg/userserver/`.

use crate::headers;

/// A Service on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTarget {
    /// `http` or `https`.
    pub proto: String,
    /// The namespace of the Service.
    pub namespace: String,
    /// The Service.
    pub service: String,
    /// Its port.
    pub port: String,
}

impl ServiceTarget {
    /// The API server of a cluster.
    pub fn api_server() -> Self {
        Self {
            proto: "https".to_owned(),
            namespace: "default".to_owned(),
            service: "kubernetes".to_owned(),
            port: "443".to_owned(),
        }
    }

    /// Whether it is the API server.
    pub fn is_api_server(&self) -> bool {
        self.namespace.eq_ignore_ascii_case("default") && self.service.eq_ignore_ascii_case("kubernetes")
    }

    /// As headers, name and value.
    pub fn headers(&self) -> [(&'static str, &str); 4] {
        [
            (headers::PROTO, &self.proto),
            (headers::NAMESPACE, &self.namespace),
            (headers::SERVICE, &self.service),
            (headers::PORT, &self.port),
        ]
    }
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    /// The cluster.
    pub cluster: String,
    /// Of the cluster.
    pub service: ServiceTarget,
    /// What is asked of it: path and query.
    pub path: String,
}

/// What stands in the place of the verb in a path to a Service.
const MARK: &str = "proxy-service";

/// Reads the raw request target. Nothing in it is decoded, so that no encoding hides a part from whoever looks at it.
///
/// # Errors
/// The text of the answer 400.
pub fn read(uri: &str) -> Result<RequestTarget, String> {
    let (path, query) = uri
        .split_once('?')
        .map_or((uri, None), |(path, query)| (path, Some(query)));
    let parts: Vec<&str> = path.split('/').collect();
    if parts.iter().any(|it| is_a_climb(it)) {
        return Err(format!(
            "requestURL format not correct, no part of a path may be . or ..: {uri}"
        ));
    }
    let with_query = |path: String| match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    if parts.len() > 9 && parts[8] == MARK {
        let service = service(parts[5], parts[7])?;
        return Ok(RequestTarget {
            cluster: cluster(parts[1], uri)?,
            service,
            path: with_query(format!("/{}", parts[9..].join("/"))),
        });
    }
    if parts.len() < 3 {
        return Err(format!("requestURL format not correct, path more than 2: {uri}"));
    }
    Ok(RequestTarget {
        cluster: cluster(parts[1], uri)?,
        service: ServiceTarget::api_server(),
        path: with_query(format!("/{}", parts[2..].join("/"))),
    })
}

/// `.` and `..`, also encoded: somebody behind us may decode them.
fn is_a_climb(part: &str) -> bool {
    let decoded = part.to_ascii_lowercase().replace("%2e", ".");
    matches!(decoded.as_str(), "." | "..") || decoded.split("%2f").chain(decoded.split("%5c")).any(|it| it == "..")
}

/// The name of a cluster is one of a namespace.
fn cluster(name: &str, uri: &str) -> Result<String, String> {
    let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-' || it == '.';
    if name.is_empty() || name.len() > 253 || !name.chars().all(is_name) {
        return Err(format!(
            "requestURL format not correct, {name:?} is no name of a cluster: {uri}"
        ));
    }
    Ok(name.to_owned())
}

/// `[http:|https:]NAME[:PORT]`
fn service(namespace: &str, text: &str) -> Result<ServiceTarget, String> {
    let invalid = || format!("invalid service name {text:?}");
    let parts: Vec<&str> = text.split(':').collect();
    let (proto, name, port) = match parts[..] {
        [name] => ("https", name, ""),
        ["http" | "https", name] => (parts[0], name, ""),
        [name, port] => ("https", name, port),
        ["http" | "https", name, port] => (parts[0], name, port),
        _ => return Err(invalid()),
    };
    let is_label = |it: &str| {
        !it.is_empty()
            && it.len() <= 63
            && it
                .chars()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
    };
    let is_port = port.is_empty() || is_label(port);
    if !is_label(name) || !is_label(namespace) || !is_port {
        return Err(invalid());
    }
    let default = if proto == "http" { "80" } else { "443" };
    Ok(ServiceTarget {
        proto: proto.to_owned(),
        namespace: namespace.to_owned(),
        service: name.to_owned(),
        port: if port.is_empty() { default } else { port }.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_behind_a_cluster_is_for_its_api_server() {
        let target = read("/c1/api/v1/pods?watch=1").unwrap();
        assert_eq!(
            (target.cluster.as_str(), target.path.as_str()),
            ("c1", "/api/v1/pods?watch=1")
        );
        assert!(target.service.is_api_server());
        assert_eq!(read("/c1/").unwrap().path, "/");
        assert_eq!(
            read("/c1").unwrap_err(),
            "requestURL format not correct, path more than 2: /c1"
        );
    }

    #[test]
    fn a_service_is_named_with_protocol_and_port() {
        let uri = |service: &str| format!("/c1/api/v1/namespaces/ns/services/{service}/proxy-service/a/b?x=y");
        let target = read(&uri("http:web:8080")).unwrap();
        assert_eq!(target.path, "/a/b?x=y");
        let service = &target.service;
        let told = [&service.proto, &service.namespace, &service.service, &service.port];
        assert_eq!(told, ["http", "ns", "web", "8080"]);
        assert_eq!(read(&uri("web")).unwrap().service.proto, "https");
        assert_eq!(read(&uri("web:8443")).unwrap().service.port, "8443");
        assert_eq!(
            read(&uri("ftp:web:1")).unwrap_err(),
            r#"invalid service name "ftp:web:1""#
        );
        assert_eq!(read(&uri("a:b:c:d")).unwrap_err(), r#"invalid service name "a:b:c:d""#);
    }

    #[test]
    fn tricks_with_paths_are_refused() {
        for uri in [
            "/c1/../c2/api",
            "/c1/%2e%2e/c2/api",
            "/c1/a%2f..%2f..%2fc2",
            "/../x/y",
            "/c1%2fapi/v1",
            "//api/v1",
            "/C1/api",
            "/c1/./x",
        ] {
            let error = read(uri).unwrap_err();
            assert!(error.starts_with("requestURL format not correct"), "{uri}: {error}");
        }
        // What Kubernetes itself decodes is left to it.
        assert_eq!(read("/c1/api/v1/a%2Fb").unwrap().path, "/api/v1/a%2Fb");
    }
}
