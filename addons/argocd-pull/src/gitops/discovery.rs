//! Where agents reach the principal: a plain function on its Service.
//! Upstream: argocd-pull-integration `internal/controller/gitopscluster`.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{Node, Service, ServicePort},
    kube::ResourceExt,
};

/// Services of the principal; the first one that is there counts.
pub const PRINCIPALS: [&str; 2] = ["argocd-agent-principal", "openshift-gitops-agent-principal"];
const HTTPS: i32 = 443;

/// Address and port of the principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalServer {
    /// A host name or an address.
    pub address: String,
    /// The port.
    pub port: String,
}

/// Finds it by the Service; `nodes` are for a Service of type NodePort.
///
/// # Errors
/// When clusters do not reach the Service.
pub fn discover(service: &Service, nodes: &[Node]) -> Result<PrincipalServer, String> {
    let spec = service.spec.as_ref();
    let kind = spec.and_then(|it| it.type_.as_deref()).unwrap_or("ClusterIP");
    let ports = spec.and_then(|it| it.ports.as_deref()).unwrap_or_default();
    if let Some(address) = balanced(service).into_iter().next() {
        let port = ports.iter().find(|it| is_secure(it)).map_or(HTTPS, |it| it.port);
        return Ok(PrincipalServer {
            address,
            port: port.to_string(),
        });
    }
    let node = nodes.iter().find_map(internal_address);
    let secure = ports.iter().find(|it| is_secure(it)).and_then(|it| it.node_port);
    let port = secure.or_else(|| ports.iter().find_map(|it| it.node_port));
    match (kind, node, port) {
        ("NodePort", Some(address), Some(port)) => Ok(PrincipalServer {
            address,
            port: port.to_string(),
        }),
        _ => Err(format!(
            "no external endpoint found for service {} in namespace {} (type={kind}, no LoadBalancer ingress)",
            service.name_any(),
            service.namespace().unwrap_or_default(),
        )),
    }
}

/// Names and addresses of the load balancer.
pub fn balanced(service: &Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    let ingress = status.and_then(|it| it.ingress.as_deref()).unwrap_or_default();
    let said = ingress.iter().flat_map(|it| [it.hostname.clone(), it.ip.clone()]);
    said.flatten().filter(|it| !it.is_empty()).collect()
}

/// Whether its nodes are how it is reached.
pub fn is_on_nodes(service: &Service) -> bool {
    service.spec.as_ref().and_then(|it| it.type_.as_deref()) == Some("NodePort")
}

/// The address of a node inside of its network.
pub fn internal_address(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_deref()?;
    let found = addresses.iter().find(|it| it.type_ == "InternalIP")?;
    Some(found.address.clone())
}

fn is_secure(port: &ServicePort) -> bool {
    port.name.as_deref() == Some("https") || [HTTPS, 8443].contains(&port.port)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(spec: Value, status: Value) -> Result<String, String> {
        let service = json!({"metadata": {"name": "p", "namespace": "argocd"}, "spec": spec, "status": status});
        let service: Service = serde_json::from_value(service).unwrap();
        let addresses = json!([{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.7"}]);
        let node: Node = serde_json::from_value(json!({"metadata": {}, "status": {"addresses": addresses}})).unwrap();
        discover(&service, &[node]).map(|it| format!("{}:{}", it.address, it.port))
    }

    #[test]
    fn a_principal_is_found_by_its_service() {
        let ingress = |it: Value| json!({"loadBalancer": {"ingress": [it]}});
        let ports = json!([{"name": "metrics", "port": 8000}, {"port": 8443, "nodePort": 30443}]);
        let balanced = json!({"type": "LoadBalancer", "ports": ports});
        assert_eq!(
            found(balanced.clone(), ingress(json!({"hostname": "p.example"}))).unwrap(),
            "p.example:8443"
        );
        let plain = json!({"type": "LoadBalancer", "ports": [{"name": "grpc", "port": 9000}]});
        assert_eq!(
            found(plain, ingress(json!({"ip": "192.0.2.1"}))).unwrap(),
            "192.0.2.1:443"
        );
        let nodes = json!({"type": "NodePort", "ports": ports});
        assert_eq!(found(nodes, json!({})).unwrap(), "10.0.0.7:30443");
        let first = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]});
        assert_eq!(found(first, json!({})).unwrap(), "10.0.0.7:30001");
        assert_eq!(
            found(balanced, json!({})).unwrap_err(),
            "no external endpoint found for service p in namespace argocd (type=LoadBalancer, no LoadBalancer ingress)"
        );
        let inside = found(json!({"ports": ports}), json!({})).unwrap_err();
        assert!(inside.contains("(type=ClusterIP, no LoadBalancer ingress)"), "{inside}");
    }
}
