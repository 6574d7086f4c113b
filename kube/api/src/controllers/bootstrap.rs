//! The objects that every cluster has from its first moment: system namespaces, RBAC policy, the server's own Service.

use crate::{
    authn::TrustedProxies, kinds::SYSTEM_PRIORITIES, local::Local, pki::certificate, resource_ids::PRIORITY_CLASSES,
};
use kube_store::status::Status;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Namespaces that exist from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Roles and bindings with this annotation get back at start what was taken from them.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const PROXY_CA: &str = "requestheader-client-ca-file";
const PROXY_NAMES: &str = "requestheader-allowed-names";
/// The subject of the authority that is published while no proxy is trusted.
const NOBODYS: &str = "front-proxy-of-nobody";
const TEN_YEARS_SECONDS: i64 = 10 * 365 * 24 * 3600;

/// What [`bootstrap`] writes besides the namespaces.
#[derive(Clone, Debug, Default)]
pub struct Bootstrap {
    /// PEM of the CA of client certificates, published in ConfigMap `extension-apiserver-authentication`.
    pub client_ca: String,
    /// The proxies that are believed, published there as well.
    pub front_proxy: Option<TrustedProxies>,
    /// Roles and bindings of RBAC.
    pub policy: Vec<Value>,
    /// Where the server listens; the endpoint of Service `kubernetes`. `None` without a listener.
    pub address: Option<SocketAddr>,
}

/// Writes what is missing. Run it at every start: what is there already costs one read.
///
/// # Errors
/// When an object cannot be written.
pub async fn bootstrap(local: &Local, wanted: &Bootstrap) -> Result<(), Status> {
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(local, "namespaces", "", namespace, |_, _| None).await?;
    }
    let writes = wanted.policy.iter().map(|object| async move {
        let id = match object["kind"].as_str().unwrap_or_default() {
            "ClusterRole" => "clusterroles.rbac.authorization.k8s.io",
            "ClusterRoleBinding" => "clusterrolebindings.rbac.authorization.k8s.io",
            "Role" => "roles.rbac.authorization.k8s.io",
            _ => "rolebindings.rbac.authorization.k8s.io",
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        ensure(local, id, &namespace, object.clone(), policy_patch).await
    });
    super::controller::all(writes.collect()).await?;
    for (name, value, description) in SYSTEM_PRIORITIES {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "description": description,
        });
        ensure(local, PRIORITY_CLASSES, "", class, |_, _| None).await?;
    }
    let is_trusted = wanted.front_proxy.is_some();
    let incomplete = |live: &Value, wanted: &Value| {
        let (live, wanted) = (&live["data"], &wanted["data"]);
        let same = |key: &str| live[key] == wanted[key];
        // Nobody's CA is another one each time it is made; that of proxies which are trusted no more has to go.
        let is_current = if is_trusted {
            same(PROXY_CA)
        } else {
            live[PROXY_CA].as_str().is_some_and(is_nobodys)
        };
        let complete = same("client-ca-file") && same(PROXY_NAMES) && is_current;
        (!complete).then(|| json!({"data": wanted}))
    };
    let published = authentication(&wanted.client_ca, wanted.front_proxy.as_ref());
    ensure(local, "configmaps", "kube-system", published, incomplete).await?;
    ensure(local, "services", "default", service(), |_, _| None).await?;
    if let Some(address) = wanted.address.and_then(address_to_publish) {
        let [endpoints, slice] = endpoints(address);
        let subsets = |live: &Value, wanted: &Value| {
            (live["subsets"] != wanted["subsets"]).then(|| json!({"subsets": wanted["subsets"]}))
        };
        ensure(local, "endpoints", "default", endpoints, subsets).await?;
        let ports = |live: &Value, wanted: &Value| {
            let same = live["endpoints"] == wanted["endpoints"] && live["ports"] == wanted["ports"];
            (!same).then(|| json!({"endpoints": wanted["endpoints"], "ports": wanted["ports"]}))
        };
        ensure(local, "endpointslices.discovery.k8s.io", "default", slice, ports).await?;
    }
    Ok(())
}

/// Creates the object, or patches the live one with what `patch` finds.
async fn ensure(
    local: &Local,
    id: &str,
    namespace: &str,
    wanted: Value,
    patch: impl FnOnce(&Value, &Value) -> Option<Value>,
) -> Result<(), Status> {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match local.store().get(id, namespace, &name) {
        None => match local.create(id, namespace, wanted).await {
            Err(error) if error.reason != "AlreadyExists" => Err(error),
            _ => Ok(()),
        },
        Some(live) => match patch(&live.value(), &wanted) {
            None => Ok(()),
            Some(patch) => super::controller::tolerate(local.merge_patch(id, namespace, &name, "", patch).await),
        },
    }
}

/// What a live role or binding lacks: rules and subjects that were added by hand stay, and one whose owner switched
/// updates off is left alone.
fn policy_patch(live: &Value, wanted: &Value) -> Option<Value> {
    if live["metadata"]["annotations"][AUTOUPDATE] != "true" {
        return None;
    }
    let mut patch = json!({});
    for list in ["rules", "subjects"] {
        // An aggregating role's rules belong to the aggregation.
        if wanted[list].is_null() || wanted["aggregationRule"].is_object() {
            continue;
        }
        let has = live[list].as_array().cloned().unwrap_or_default();
        let lost: Vec<_> = wanted[list]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|it| !has.contains(it))
            .collect();
        if !lost.is_empty() {
            patch[list] = has.iter().chain(lost).cloned().collect();
        }
    }
    let labels = wanted["metadata"]["labels"].as_object().into_iter().flatten();
    for (key, value) in labels {
        if live["metadata"]["labels"][key] != *value {
            patch["metadata"]["labels"][key] = value.clone();
        }
    }
    patch.as_object().is_some_and(|it| !it.is_empty()).then_some(patch)
}

/// What aggregated API servers, and every program that delegates authentication, read at start; most of them give up
/// when a key is missing.
fn authentication(client_ca: &str, proxies: Option<&TrustedProxies>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": client_ca,
            PROXY_CA: proxies.map_or_else(nobodys_authority, |it| it.pem().to_owned()),
            PROXY_NAMES: proxies.map_or_else(|| json!(["front-proxy-client"]), |it| json!(it.allowed_names())).to_string(),
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        },
    })
}

/// An authority whose key is thrown away: where no front proxy is trusted, with the CA of clients in this place anyone
/// with a certificate named `front-proxy-client` could speak for others.
fn nobodys_authority() -> String {
    use x509_cert::der::{EncodePem, pem::LineEnding};
    let key = p256::elliptic_curve::Generate::generate_from_rng(&mut rand::rng());
    let made = certificate::authority(NOBODYS, &key, jiff::Timestamp::now(), TEN_YEARS_SECONDS);
    made.ok()
        .and_then(|it| it.to_pem(LineEnding::LF).ok())
        .unwrap_or_default()
}

fn is_nobodys(pem: &str) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
        return false;
    };
    let parsed = x509_parser::parse_x509_certificate(&der);
    parsed.is_ok_and(|(_, it)| {
        let mut names = it.subject().iter_common_name();
        names.any(|it| it.as_str() == Ok(NOBODYS))
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}],
        },
    })
}

/// The address under which a server says that it is found: not everywhere, and nowhere that only its link knows.
fn address_to_publish(address: SocketAddr) -> Option<SocketAddr> {
    let (found, is_of_link) = match address.ip() {
        IpAddr::V4(it) if it.is_unspecified() => (Ipv4Addr::LOCALHOST.into(), false),
        IpAddr::V6(it) if it.is_unspecified() => (Ipv6Addr::LOCALHOST.into(), false),
        IpAddr::V4(it) => (it.into(), it.is_link_local()),
        IpAddr::V6(it) => (it.into(), it.is_unicast_link_local()),
    };
    (!is_of_link).then(|| SocketAddr::new(found, address.port()))
}

/// Endpoints and EndpointSlice of the server's own address.
fn endpoints(address: SocketAddr) -> [Value; 2] {
    let (ip, port) = (address.ip().to_string(), address.port());
    let kind = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let mirror = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    [
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": mirror},
            "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": kind,
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_where_its_endpoints_may_be() {
        let found = |address: &str| address_to_publish(address.parse().unwrap()).map(|it| it.to_string());
        let table = [
            ("127.0.0.1:6443", Some("127.0.0.1:6443")),
            ("192.168.7.8:6443", Some("192.168.7.8:6443")),
            ("0.0.0.0:6443", Some("127.0.0.1:6443")),
            ("[::]:6443", Some("[::1]:6443")),
            ("[fe80::1]:6443", None),
        ];
        for (address, want) in table {
            assert_eq!(found(address).as_deref(), want, "{address}");
        }
    }

    #[test]
    fn a_bootstrap_role_regains_removed_rules_and_keeps_added_ones() {
        let rule = |verb: &str| json!({"verbs": [verb]});
        let wanted = json!({"rules": [rule("get"), rule("list")]});
        let mut live = json!({"metadata": {"annotations": {AUTOUPDATE: "true"}}, "rules": [rule("get"), rule("mine")]});
        let patch = policy_patch(&live, &wanted).unwrap();
        assert_eq!(patch, json!({"rules": [rule("get"), rule("mine"), rule("list")]}));
        live["rules"] = patch["rules"].clone();
        assert_eq!(policy_patch(&live, &wanted), None);
        live["rules"] = json!([]);
        live["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(policy_patch(&live, &wanted), None);
    }
}
