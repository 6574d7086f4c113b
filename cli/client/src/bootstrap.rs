//! The credential a cluster joins with, from both ends: the hub's administrator makes it, the joining cluster checks
//! that it really speaks to that hub.
//! Upstream: clusteradm `init`, `get token` and `join`. We differ in one thing: clusteradm sends the token to whoever
//! answers at the address and then believes the CA that this one names. We ask for the CA without the token, and
//! believe it only if its fingerprint is the one that the administrator handed over.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, ServiceAccount},
};
use kube::{Api, Client, Config, api::PostParams, config::Kubeconfig};
use serde_json::{Value, json};

use crate::connect::{ApiServer, Cause};

/// Where an API server tells everybody where it is and what its CA is.
const PUBLIC: &str = "kube-public";
const CLUSTER_INFO: &str = "cluster-info";

/// How long a token can be joined with. Upstream's is the same.
const TOKEN_SECONDS: i64 = 3600;

/// Everything a cluster needs to ask to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The hub's URL, as the joining cluster reaches it.
    pub server: String,
    /// What the cluster shows itself with until it has a certificate.
    pub token: String,
    /// The hub's CA in PEM; none where the hub's certificate is signed by an authority every machine knows.
    pub ca: Option<String>,
}

impl Invitation {
    /// Makes one with an administrator's credential. `server` is where clusters reach the hub, if that is not where the
    /// administrator does.
    pub async fn make(hub: &ApiServer, server: Option<&str>) -> Result<Self> {
        let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), ocm_api::namespaces::OPERATOR);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let account = hub::bootstrap::SERVICE_ACCOUNT;
        let made = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await;
        let made = match made {
            Ok(made) => made,
            Err(kube::Error::Api(status)) if status.code == 404 => bail!(
                "{} has no ServiceAccount {}/{account}, which clusters join with; is it a hub that `drover up` or \
                 `drover hub` runs on?",
                hub.server,
                ocm_api::namespaces::OPERATOR
            ),
            Err(error) => return Err(hub.explain("could not make a token", &error)),
        };
        let token = made.status.and_then(|it| it.token).filter(|it| !it.is_empty());
        let token = token.ok_or_else(|| anyhow!("{} answered without a token", hub.server))?;
        Ok(Self {
            server: server.unwrap_or(&hub.server).trim_end_matches('/').to_owned(),
            token,
            ca: hub.ca.clone(),
        })
    }

    /// The fingerprint to check the hub's CA by.
    pub fn ca_hash(&self) -> Option<String> {
        fingerprint(self.ca.as_deref()?).ok()
    }

    /// The same for programs, with clusteradm's names.
    pub fn value(&self) -> Value {
        json!({"hub-token": self.token, "hub-apiserver": self.server, "hub-ca-hash": self.ca_hash()})
    }

    /// The command that joins a cluster with it.
    pub fn command(&self) -> String {
        let hash = self
            .ca_hash()
            .map(|it| format!(" --hub-ca-hash {it}"))
            .unwrap_or_default();
        format!(
            "drover join --hub-token {} --hub-apiserver {}{hash} --cluster-name <cluster_name>",
            self.token, self.server
        )
    }

    /// The kubeconfig an agent bootstraps with.
    pub fn kubeconfig(&self) -> Result<String> {
        let mut cluster = json!({ "server": self.server });
        if let Some(ca) = &self.ca {
            cluster["certificate-authority-data"] = BASE64_STANDARD.encode(ca).into();
        }
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "hub", "cluster": cluster }],
            "contexts": [{ "name": "bootstrap", "context": { "cluster": "hub", "user": "bootstrap", "namespace": "default" } }],
            "current-context": "bootstrap",
            "users": [{ "name": "bootstrap", "user": { "token": self.token } }],
        });
        output::yaml(&kubeconfig)
    }
}

/// Reads a hub's address.
///
/// # Errors
/// When it is no https URL.
pub fn parse_server(text: &str) -> Result<String, String> {
    let parsed = url::Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    if parsed.scheme() != "https" || parsed.host_str().is_none() {
        return Err("a hub is reached by https: write https://HOST:PORT".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Where a hub is and what its CA is, as kubeadm publishes it.
pub fn public_kubeconfig(server: &str, ca: &str) -> Result<String> {
    output::yaml(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64_STANDARD.encode(ca),
        } }],
        "contexts": [],
        "users": [],
        "current-context": "",
        "preferences": {},
    }))
}

/// Asks the hub for its CA and checks it. `hash` comes from the hub's administrator; without it the first answer is
/// believed, and the returned remark says so.
pub async fn discover_ca(server: &str, hash: Option<&str>) -> Result<(String, Option<String>)> {
    if let Some(hash) = hash
        && !(hash
            .strip_prefix("sha256:")
            .is_some_and(|it| it.len() == 64 && it.chars().all(|c| c.is_ascii_hexdigit())))
    {
        bail!("--hub-ca-hash {hash} is not sha256: and 64 hexadecimal digits; copy it from `drover get token`");
    }
    // Nothing secret is sent this way, and nothing that comes back is believed before its fingerprint is checked.
    let maps: Api<ConfigMap> = Api::namespaced(unverified(server, None)?, PUBLIC);
    let fix = "pass the hub's CA with --ca-file, or a whole kubeconfig with --bootstrap-kubeconfig";
    let info = match maps.get(CLUSTER_INFO).await {
        Ok(info) => info,
        Err(kube::Error::Api(_)) => bail!("the hub {server} does not tell strangers its CA; {fix}"),
        Err(error) => {
            let cause = match Cause::of(&error) {
                Cause::Refused => format!("nothing listens at {server}; check --hub-apiserver, and that the hub runs"),
                other => other.sentence(server, "--hub-apiserver"),
            };
            bail!("could not ask the hub for its CA: {cause}")
        }
    };
    let kubeconfig = info
        .data
        .and_then(|it| it.get("kubeconfig").cloned())
        .unwrap_or_default();
    let ca = ca_of(&kubeconfig).ok_or_else(|| anyhow!("the hub {server} does not say what its CA is; {fix}"))?;
    let found = fingerprint(&ca)?;
    match hash {
        // Nothing but what has this fingerprint: there may be more certificates behind it.
        Some(wanted) if wanted.eq_ignore_ascii_case(&found) => Ok((pem(&first_certificate(&ca)?), None)),
        Some(wanted) => bail!(
            "the hub at {server} has another CA ({found}) than --hub-ca-hash says ({wanted}): it is not the hub the token \
             is from, or it was set up anew; ask its administrator for a new token"
        ),
        None => Ok((
            ca,
            Some(format!(
                "trusting the CA {found} that answers at {server}; --hub-ca-hash makes sure that it is the hub's"
            )),
        )),
    }
}

/// A client that takes every certificate for the server's.
fn unverified(server: &str, token: Option<&str>) -> Result<Client> {
    let url = server
        .parse()
        .with_context(|| format!("--hub-apiserver {server} is not a URL"))?;
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    config.connect_timeout = Some(std::time::Duration::from_secs(5));
    config.auth_info.token = token.map(|it| it.to_owned().into());
    Client::try_from(config).context("could not prepare a connection")
}

/// Asks a hub for its CA that tells it to nobody without a token, as clusteradm does: the token is sent to whoever
/// answers, and the answer is believed. No CA is one that every machine knows.
pub async fn discover_ca_with_token(server: &str, token: &str) -> Result<(Option<String>, Option<String>)> {
    let maps: Api<ConfigMap> = Api::namespaced(unverified(server, Some(token))?, PUBLIC);
    let remark = Some(format!(
        "the token was sent to {server} before its certificate could be checked; --ca-file avoids it"
    ));
    let failed = |error: &kube::Error| {
        let cause = Cause::of(error).sentence(server, "--hub-apiserver");
        anyhow!("could not ask the hub for its CA: {cause}")
    };
    let info = maps.get_opt(CLUSTER_INFO).await.map_err(|error| failed(&error))?;
    let text = |map: Option<ConfigMap>, key: &str| map.and_then(|it| it.data?.remove(key));
    if let Some(kubeconfig) = text(info, "kubeconfig") {
        return Ok((ca_of(&kubeconfig), remark));
    }
    let root = maps.get_opt("kube-root-ca.crt").await.map_err(|error| failed(&error))?;
    Ok((text(root, "ca.crt"), remark))
}

/// Where an API server says it is reached: the server of `kube-public/cluster-info`; nothing where it does not say.
pub async fn public_server(target: &ApiServer) -> Result<Option<String>> {
    let maps: Api<ConfigMap> = Api::namespaced(target.client.clone(), PUBLIC);
    let found = match maps.get_opt(CLUSTER_INFO).await {
        Ok(found) => found,
        // Not everybody may see everything that is public.
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(target.explain("could not look for kube-public/cluster-info", &error)),
    };
    let text = found.and_then(|it| it.data?.remove("kubeconfig"));
    let kubeconfig = text.and_then(|it| Kubeconfig::from_yaml(&it).ok());
    let server = kubeconfig.and_then(|it| it.clusters.into_iter().next()?.cluster?.server);
    Ok(server.filter(|it| it.starts_with("https://") || it.starts_with("http://")))
}

/// The CA that a kubeconfig's first cluster trusts.
fn ca_of(kubeconfig: &str) -> Option<String> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).ok()?;
    let data = kubeconfig
        .clusters
        .into_iter()
        .find_map(|it| it.cluster?.certificate_authority_data)?;
    String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()
}

/// Reads a CA file.
pub fn read_ca(path: &Path) -> Result<String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read the CA file {name}"))?;
    fingerprint(&text).with_context(|| format!("{name} is not a CA file"))?;
    Ok(text)
}

/// The first certificate in a PEM text, as DER.
fn first_certificate(pem: &str) -> Result<Vec<u8>> {
    let (_, pem) =
        x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| anyhow!("it holds no certificate in PEM"))?;
    if pem.label != "CERTIFICATE" {
        bail!("it holds a {}, not a certificate", pem.label.to_lowercase());
    }
    Ok(pem.contents)
}

/// The SHA-256 of the first certificate in a PEM text, as `openssl x509 -fingerprint` would take it.
fn fingerprint(pem: &str) -> Result<String> {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &first_certificate(pem)?);
    Ok(format!(
        "sha256:{}",
        digest.as_ref().iter().map(|it| format!("{it:02x}")).collect::<String>()
    ))
}

/// A DER certificate as PEM.
pub fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|it| std::str::from_utf8(it).unwrap_or_default())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation(ca: Option<String>) -> Invitation {
        Invitation {
            server: "https://127.0.0.1:6443".into(),
            token: "abc".into(),
            ca,
        }
    }

    #[test]
    fn an_invitation_is_a_command_and_a_kubeconfig() {
        assert_eq!(
            invitation(None).command(),
            "drover join --hub-token abc --hub-apiserver https://127.0.0.1:6443 --cluster-name <cluster_name>"
        );
        let ca = pem(&[1, 2, 3]);
        let invitation = invitation(Some(ca.clone()));
        // sha256 of the bytes 1, 2, 3
        let hash = "sha256:039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81";
        assert!(
            invitation.command().contains(&format!(" --hub-ca-hash {hash} ")),
            "{}",
            invitation.command()
        );
        let kubeconfig = Kubeconfig::from_yaml(&invitation.kubeconfig().unwrap()).unwrap();
        assert_eq!(kubeconfig.current_context.as_deref(), Some("bootstrap"));
        assert_eq!(ca_of(&invitation.kubeconfig().unwrap()), Some(ca));
    }

    #[test]
    fn an_address_is_an_https_url() {
        assert_eq!(parse_server("https://hub:6443/").unwrap(), "https://hub:6443");
        assert!(
            parse_server("http://hub:6443")
                .unwrap_err()
                .contains("https://HOST:PORT")
        );
        assert!(parse_server("hub:6443").is_err());
    }

    #[test]
    fn a_file_that_is_no_ca_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        std::fs::write(&path, "hello").unwrap();
        let error = format!("{:#}", read_ca(&path).unwrap_err());
        assert!(
            error.ends_with("ca.crt is not a CA file: it holds no certificate in PEM"),
            "{error}"
        );
        std::fs::write(&path, pem(&[1])).unwrap();
        assert!(read_ca(&path).is_ok());
    }

    #[tokio::test]
    async fn a_malformed_hash_is_refused_before_anything_is_sent() {
        let error = discover_ca("https://127.0.0.1:1", Some("abc"))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("--hub-ca-hash abc is not sha256: and 64 hexadecimal digits"),
            "{error}"
        );
    }
}
