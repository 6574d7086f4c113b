//! The Secret that holds an agent's own credential: `hub-kubeconfig-secret`.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::config::{Cluster, Kubeconfig};
use serde_json::json;

use crate::{
    certificate::Chain,
    csr::CertificateSubject,
    kubeconfig::{self, KubeconfigProblem, Loaded},
};

/// The certificate.
pub const TLS_CRT: &str = "tls.crt";
/// The private key.
pub const TLS_KEY: &str = "tls.key";
/// A ServiceAccount token, in place of certificate and key.
pub const TOKEN: &str = "token";
/// The private key of the certificate that the hub was asked for and has not issued yet, so that the request outlives a
/// restart. It is nobody's business but the agent's.
pub const PENDING_KEY: &str = "pending.key";
/// A kubeconfig that names the two by relative paths.
pub const KUBECONFIG: &str = "kubeconfig";
/// The cluster's name.
pub const CLUSTER_NAME: &str = "cluster-name";
/// The agent's id.
pub const AGENT_NAME: &str = "agent-name";

/// The data of a Secret, by key.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The data of a Secret as plain bytes.
pub fn data(secret: &Secret) -> Data {
    secret
        .data
        .iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.0.clone()))
        .collect()
}

/// Data as a Secret holds it.
pub fn encoded(data: Data) -> BTreeMap<String, ByteString> {
    data.into_iter().map(|(key, value)| (key, ByteString(value))).collect()
}

/// A value of the Secret as text, trimmed; nothing when absent, empty or not text.
pub fn text<'a>(data: &'a Data, key: &str) -> Option<&'a str> {
    data.get(key)
        .and_then(|it| std::str::from_utf8(it).ok())
        .map(str::trim)
        .filter(|it| !it.is_empty())
}

/// What the Secret must hold besides certificate and key.
///
/// The kubeconfig points to the server of the bootstrap kubeconfig under the same cluster name, so that a changed
/// bootstrap kubeconfig is noticed by comparing the two.
pub fn additional_data(bootstrap: &Loaded, cluster: &str, agent: &str) -> Data {
    let text = document(bootstrap, &bootstrap_cluster(bootstrap), Proof::Certificate);
    BTreeMap::from([
        (KUBECONFIG.to_owned(), text.into_bytes()),
        (CLUSTER_NAME.to_owned(), cluster.as_bytes().to_vec()),
        (AGENT_NAME.to_owned(), agent.as_bytes().to_vec()),
    ])
}

/// By what the bearer of a kubeconfig proves who it is: files beside the kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// `tls.crt` and `tls.key`.
    Certificate,
    /// `token`.
    Token,
}

/// A kubeconfig for somebody else who is to speak to the same hub: an add-on's agent. A CA that `hub` names by a file
/// is embedded, because the file is not where the other is.
pub fn kubeconfig_for(hub: &Loaded, proof: Proof) -> String {
    let mut at = bootstrap_cluster(hub);
    if some(&at.certificate_authority_data).is_none()
        && some(&at.certificate_authority).is_some()
        && let Some(chain) = &hub.config.root_cert
    {
        let pem: String = chain.iter().map(|der| pem_of(der)).collect();
        at.certificate_authority = None;
        at.certificate_authority_data = Some(STANDARD.encode(pem));
    }
    document(hub, &at, proof)
}

fn pem_of(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines = encoded
        .as_bytes()
        .chunks(64)
        .map(|it| String::from_utf8_lossy(it) + "\n");
    let lines: String = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

fn bootstrap_cluster(loaded: &Loaded) -> Cluster {
    let (_, at, _) = kubeconfig::current(&loaded.kubeconfig).expect("a loaded kubeconfig has a current context");
    at
}

fn document(loaded: &Loaded, at: &Cluster, proof: Proof) -> String {
    let name = &loaded.cluster_name;
    let mut entry = json!({ "server": at.server });
    for (key, value) in [
        ("certificate-authority", &at.certificate_authority),
        ("certificate-authority-data", &at.certificate_authority_data),
        ("proxy-url", &at.proxy_url),
        ("tls-server-name", &at.tls_server_name),
    ] {
        if let Some(value) = value.as_ref().filter(|it| !it.is_empty()) {
            entry[key] = json!(value);
        }
    }
    if at.insecure_skip_tls_verify == Some(true) {
        entry["insecure-skip-tls-verify"] = json!(true);
    }
    let user = match proof {
        Proof::Certificate => json!({ "client-certificate": TLS_CRT, "client-key": TLS_KEY }),
        Proof::Token => json!({ "tokenFile": TOKEN }),
    };
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": entry }],
        "contexts": [{
            "name": "default-context",
            "context": { "cluster": name, "namespace": "configuration", "user": "default-auth" },
        }],
        "current-context": "default-context",
        "users": [{ "name": "default-auth", "user": user }],
    });
    serde_saphyr::to_string(&document).expect("a plain document serializes")
}

/// Whether the credential in the Secret can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It can, for this long.
    Valid(Chain),
    /// It cannot, for this reason.
    Invalid(String),
}

/// Whether the Secret holds a credential for `cluster` and `agent` at the hub that `bootstrap` names (upstream's three
/// rules: the kubeconfig is there, it names the same server, proxy, CA and cluster name as the bootstrap kubeconfig,
/// and the certificate is for us and not expired).
pub fn validity(data: &Data, bootstrap: &Loaded, cluster: &str, agent: &str, now: Timestamp) -> Validity {
    let invalid = |why: &str| Validity::Invalid(why.to_owned());
    let Some(ours) = text(data, KUBECONFIG) else {
        return invalid("there is no hub kubeconfig yet");
    };
    let Some((our_name, ours, _)) = Kubeconfig::from_yaml(ours)
        .ok()
        .and_then(|it| kubeconfig::current(&it).ok())
    else {
        return invalid("the hub kubeconfig is malformed");
    };
    let (their_name, theirs, _) =
        kubeconfig::current(&bootstrap.kubeconfig).expect("a loaded kubeconfig has a current context");
    let same = [
        ("server", ours.server == theirs.server),
        ("proxy", some(&ours.proxy_url) == some(&theirs.proxy_url)),
        (
            "certificate authority",
            some(&ours.certificate_authority) == some(&theirs.certificate_authority),
        ),
        (
            "certificate authority",
            some(&ours.certificate_authority_data) == some(&theirs.certificate_authority_data),
        ),
        ("cluster name", our_name == their_name),
    ];
    if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
        return Validity::Invalid(format!(
            "the bootstrap kubeconfig names another {what} than the hub kubeconfig"
        ));
    }
    let (Some(certificate), Some(key)) = (data.get(TLS_CRT), data.get(TLS_KEY)) else {
        return invalid("there is no client certificate yet");
    };
    let chain = match Chain::parse(certificate) {
        Ok(chain) => chain,
        Err(error) => return Validity::Invalid(format!("the client certificate cannot be read: {error}")),
    };
    if chain.common_name != CertificateSubject::agent(cluster, agent).common_name {
        return Validity::Invalid(format!("the client certificate is for {}", chain.common_name));
    }
    if chain.is_expired(now) {
        return Validity::Invalid(format!("the client certificate expired at {}", chain.not_after));
    }
    if !chain.belongs_to(key) {
        return invalid("the private key is not that of the client certificate");
    }
    Validity::Valid(chain)
}

/// What to connect to the hub with, certificate and key embedded.
pub async fn load(data: &Data, now: Timestamp) -> Result<Loaded, KubeconfigProblem> {
    const PATH: &str = "in hub-kubeconfig-secret";
    let malformed = |why: String| KubeconfigProblem::Malformed {
        path: PATH.to_owned(),
        why,
    };
    let yaml = text(data, KUBECONFIG).ok_or_else(|| malformed("the key kubeconfig is missing".to_owned()))?;
    let mut kubeconfig = Kubeconfig::from_yaml(yaml).map_err(|error| malformed(error.to_string()))?;
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|it| it.auth_info.as_mut()) {
        if let Some(certificate) = data.get(TLS_CRT).filter(|_| user.client_certificate.take().is_some()) {
            user.client_certificate_data = Some(STANDARD.encode(certificate));
        }
        if let Some(key) = data.get(TLS_KEY).filter(|_| user.client_key.take().is_some()) {
            user.client_key_data = Some(STANDARD.encode(key).into());
        }
    }
    let loaded = kubeconfig::load(PATH, kubeconfig).await?;
    loaded.check(now)?;
    Ok(loaded)
}

fn some(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|it| !it.is_empty())
}
