//! The ArgoCD that a cluster gets, and its ManifestWork: plain functions.

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    kube::{ResourceExt, core::ObjectMeta},
    ocm_api::{
        RawObject,
        gitops::GitOpsCluster,
        work::{ManifestWork, ManifestWorkSpec},
    },
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{AUTHORITY, OF_GITOPS_CLUSTER, discovery::PrincipalServer, labels};

/// The namespace of the agent on clusters where nothing says another.
pub const AGENT_NAMESPACE: &str = "argocd";
/// Group and version of kind ArgoCD.
pub const API_VERSION: &str = "argoproj.io/v1beta1";
/// The kind.
pub const KIND: &str = "ArgoCD";
/// `"true"` on a GitOpsCluster whose agents have another image than the principal.
pub const DISABLE_IMAGE_SYNC: &str = "apps.open-cluster-management.io/disable-agent-image-sync";

/// Names of objects are as long as a label.
const NAME_MAX: usize = 63;

/// The name of the ManifestWork.
pub fn work_name(of: &GitOpsCluster) -> String {
    let name = format!(
        "argocd-agent-cr-{}-{}",
        of.namespace().unwrap_or_default(),
        of.name_any()
    );
    if name.len() <= NAME_MAX {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    let hash: String = digest.iter().take(4).map(|it| format!("{it:02x}")).collect();
    // Names of Kubernetes are ASCII, so that each byte is a character.
    let start: String = name.chars().take(54).collect();
    format!("{start}-{hash}")
}

/// The agent's namespace on clusters.
pub fn agent_namespace(of: &GitOpsCluster) -> &str {
    match of.spec.argo_cd_agent_addon.agent_namespace.as_str() {
        "" => AGENT_NAMESPACE,
        said => said,
    }
}

/// What clusters get: what the GitOpsCluster says, or an ArgoCD of ours. `image` is the principal's.
///
/// # Errors
/// When what the GitOpsCluster says has no ArgoCD.
pub fn manifests(of: &GitOpsCluster, server: &PrincipalServer, image: Option<&str>) -> Result<Vec<Value>, String> {
    let Some(said) = &of.spec.argo_cd_agent_addon.argo_cd_cr_manifest_work else {
        return Ok(vec![argo_cd(of, server, image)]);
    };
    let is_argo_cd = |it: &RawObject| it.api_version() == API_VERSION && it.kind() == KIND;
    if !said.manifests.iter().any(is_argo_cd) {
        return Err(format!(
            "argoCDCRManifestWork.manifests must contain at least one ArgoCD CR (apiVersion: {API_VERSION}, kind: {KIND})"
        ));
    }
    let all = said.manifests.iter();
    Ok(all
        .map(|it| match is_argo_cd(it) {
            true => with_server(it.0.clone(), server),
            false => it.0.clone(),
        })
        .collect())
}

/// The ManifestWork of a cluster; `present` is the one that is there.
pub fn work(of: &GitOpsCluster, cluster: &str, manifests: &[Value], present: Option<&ManifestWork>) -> ManifestWork {
    let mut all = labels("argocd-cr");
    all.insert(OF_GITOPS_CLUSTER.to_owned(), "true".to_owned());
    filled(cluster, &work_name(of), all, manifests.to_vec(), present)
}

/// The ManifestWork `name` with these labels and manifests.
pub fn filled(
    cluster: &str,
    name: &str,
    labels: BTreeMap<String, String>,
    manifests: Vec<Value>,
    present: Option<&ManifestWork>,
) -> ManifestWork {
    let mut work = present.cloned().unwrap_or_else(|| ManifestWork {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(cluster.to_owned()),
            ..ObjectMeta::default()
        },
        ..ManifestWork::default()
    });
    work.metadata.labels.get_or_insert_default().extend(labels);
    let manifests: Vec<RawObject> = manifests.into_iter().map(RawObject).collect();
    work.spec = ManifestWorkSpec {
        workload: Default::default(),
        ..work.spec
    };
    work.spec.workload.manifests = manifests.into();
    work
}

fn argo_cd(of: &GitOpsCluster, server: &PrincipalServer, image: Option<&str>) -> Value {
    let mode = match of.spec.argo_cd_agent_addon.mode.as_str() {
        "" => "managed",
        said => said,
    };
    let mut agent = json!({
        "enabled": true,
        "allowedNamespaces": ["*"],
        "creds": "mtls:open-cluster-management:cluster:([^:]+):addon:argocd-agent",
        "logLevel": "info",
        "logFormat": "text",
        "client": {
            "principalServerAddress": server.address,
            "principalServerPort": server.port,
            "mode": mode,
            "enableWebSocket": false,
            "enableCompression": false,
            "keepAliveInterval": "50s",
        },
        "tls": {
            "secretName": "argocd-agent-open-cluster-management.io-argocd-agent-addon-client-cert",
            "rootCASecretName": AUTHORITY,
            "insecure": false,
        },
        "redis": {"serverAddress": "argocd-redis:6379"},
    });
    if mode != "autonomous" {
        agent["destinationBasedMapping"] = json!({"enabled": true, "createNamespace": true});
    }
    if let Some(image) = image.filter(|it| !it.is_empty()) {
        agent["image"] = json!(image);
    }
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": "argocd", "namespace": agent_namespace(of)},
        "spec": {"server": {"enabled": false}, "sourceNamespaces": ["*"], "argoCDAgent": {"agent": agent}},
    })
}

/// Fills in the principal where an ArgoCD of a user does not say it.
fn with_server(mut object: Value, server: &PrincipalServer) -> Value {
    let pairs = |address: &str, port: &str| [(address.to_owned(), &server.address), (port.to_owned(), &server.port)];
    let fill = |map: &mut serde_json::Map<String, Value>, pairs: [(String, &String); 2]| {
        for (key, value) in pairs {
            let is_said = map.get(&key).is_some_and(|it| !it.is_null() && it != "");
            if !is_said {
                map.insert(key, json!(value));
            }
        }
    };
    if let Some(Value::Object(client)) = object.pointer_mut("/spec/argoCDAgent/agent/client") {
        fill(client, pairs("principalServerAddress", "principalServerPort"));
        return object;
    }
    let Value::Object(whole) = &mut object else {
        return object;
    };
    let spec = whole.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec
        && let Value::Object(extra) = spec.entry("extraConfig").or_insert_with(|| json!({}))
    {
        fill(
            extra,
            pairs("agent.principal.server.address", "agent.principal.server.port"),
        );
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gitops(name: &str, add_on: Value) -> GitOpsCluster {
        let spec = json!({"argoCDAgentAddon": add_on});
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": spec})).unwrap()
    }

    fn server() -> PrincipalServer {
        PrincipalServer {
            address: "p.example".to_owned(),
            port: "443".to_owned(),
        }
    }

    #[test]
    fn a_long_name_is_cut_and_hashed() {
        assert_eq!(work_name(&gitops("g", json!({}))), "argocd-agent-cr-argocd-g");
        let name = work_name(&gitops(&"x".repeat(60), json!({})));
        assert_eq!(name.len(), 63);
        assert!(
            name.starts_with(&format!("argocd-agent-cr-argocd-{}-", "x".repeat(31))),
            "{name}"
        );
    }

    #[test]
    fn an_argo_cd_is_made_of_the_principal() {
        let expected = json!({
            "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD",
            "metadata": {"name": "argocd", "namespace": "argocd"},
            "spec": {"server": {"enabled": false}, "sourceNamespaces": ["*"], "argoCDAgent": {"agent": {
                "enabled": true, "allowedNamespaces": ["*"],
                "creds": "mtls:open-cluster-management:cluster:([^:]+):addon:argocd-agent",
                "logLevel": "info", "logFormat": "text", "image": "i:1",
                "client": {
                    "principalServerAddress": "p.example", "principalServerPort": "443", "mode": "managed",
                    "enableWebSocket": false, "enableCompression": false, "keepAliveInterval": "50s",
                },
                "tls": {
                    "secretName": "argocd-agent-open-cluster-management.io-argocd-agent-addon-client-cert",
                    "rootCASecretName": "argocd-agent-ca", "insecure": false,
                },
                "redis": {"serverAddress": "argocd-redis:6379"},
                "destinationBasedMapping": {"enabled": true, "createNamespace": true},
            }}},
        });
        assert_eq!(
            manifests(&gitops("g", json!({})), &server(), Some("i:1")),
            Ok(vec![expected])
        );
        let autonomous = gitops("g", json!({"mode": "autonomous", "agentNamespace": "x"}));
        let made = manifests(&autonomous, &server(), None).unwrap();
        let agent = &made[0]["spec"]["argoCDAgent"]["agent"];
        assert_eq!(
            (&agent["destinationBasedMapping"], &agent["image"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(made[0]["metadata"]["namespace"], "x");
    }

    #[test]
    fn an_argo_cd_of_a_user_gets_the_principal() {
        let of = |manifests: Value| gitops("g", json!({"argoCDCRManifestWork": {"manifests": manifests}}));
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        let object = |spec: Value| json!({"apiVersion": API_VERSION, "kind": KIND, "spec": spec});
        let client = |it: Value| json!({"argoCDAgent": {"agent": {"client": it}}});
        let said = json!([
            other,
            object(client(
                json!({"principalServerAddress": "mine", "principalServerPort": ""})
            )),
            object(json!({}))
        ]);
        let made = manifests(&of(said), &server(), None).unwrap();
        let filled = client(json!({"principalServerAddress": "mine", "principalServerPort": "443"}));
        let extra = json!({"extraConfig": {
            "agent.principal.server.address": "p.example", "agent.principal.server.port": "443",
        }});
        assert_eq!(made, [other.clone(), object(filled), object(extra)]);
        assert_eq!(
            manifests(&of(json!([other])), &server(), None).unwrap_err(),
            "argoCDCRManifestWork.manifests must contain at least one ArgoCD CR (apiVersion: argoproj.io/v1beta1, kind: ArgoCD)"
        );
    }
}
