//! A hub on another cluster than its pods: the way there, and the kubeconfigs by which its components go it.
//! Upstream: ocm `pkg/operator/helpers/sa_syncer.go`.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::Secret,
    },
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use ocm_reconcile::{Done, Outcome, Plan, Site, Step};
use serde_json::{Value, json};

use super::{
    roles,
    wanted::{EXTERNAL_KUBECONFIG, HubObjects},
};
use crate::objects::{Current, WantedObject, target};

/// How long tokens are asked for.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(8640);
/// A token is asked for anew when this part of its life is left.
const LIFE_LEFT: i32 = 5;
/// An API server that does not answer in this time is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// How to reach the hub, as everybody may know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    server: String,
    authority: Option<String>,
    server_name: Option<String>,
    proxy: Option<String>,
    is_insecure: bool,
}

/// Reads the Secret `external-hub-kubeconfig`.
///
/// # Errors
/// A sentence that names the Secret, the key, and what is wrong there.
pub fn read(secret: &Secret) -> Result<(Kubeconfig, Way), String> {
    let place = format!(
        "Secret {}/{EXTERNAL_KUBECONFIG}",
        secret.metadata.namespace.as_deref().unwrap_or_default()
    );
    let data = |key: &str| secret.data.as_ref().and_then(|it| it.get(key)).map(|it| it.0.clone());
    let text = data("kubeconfig").ok_or_else(|| format!("{place} has no key kubeconfig"))?;
    let text = String::from_utf8(text).map_err(|_| format!("kubeconfig of {place} is no text"))?;
    let read = Kubeconfig::from_yaml(&text);
    let mut kubeconfig = read.map_err(|error| format!("kubeconfig of {place} cannot be read: {error}"))?;
    let current = kubeconfig.current_context.clone().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|it| it.name == current);
    let context = context.and_then(|it| it.context.clone());
    let context = context
        .ok_or_else(|| format!("kubeconfig of {place} has no context of the name of current-context, {current:?}"))?;
    let user = context.user.clone().unwrap_or_default();
    let user = kubeconfig.auth_infos.iter_mut().find(|it| it.name == user);
    if let Some(user) = user.and_then(|it| it.auth_info.as_mut()) {
        // What stands in the Secret beside counts rather than files of somebody else's machine.
        if let Some(certificate) = data("tls.crt").filter(|_| user.client_certificate_data.is_none()) {
            user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
            user.client_certificate = None;
        }
        if let Some(key) = data("tls.key").filter(|_| user.client_key_data.is_none()) {
            user.client_key_data = Some(BASE64_STANDARD.encode(key).into());
            user.client_key = None;
        }
    }
    let cluster = kubeconfig.clusters.iter().find(|it| it.name == context.cluster);
    let cluster = cluster.and_then(|it| it.cluster.clone());
    let cluster = cluster.ok_or_else(|| format!("kubeconfig of {place} has no cluster {:?}", context.cluster))?;
    let way = Way {
        server: cluster.server.clone().unwrap_or_default(),
        authority: cluster.certificate_authority_data.clone(),
        server_name: cluster.tls_server_name.clone(),
        proxy: cluster.proxy_url.clone(),
        is_insecure: cluster.insecure_skip_tls_verify.unwrap_or_default(),
    };
    Ok((kubeconfig, way))
}

/// A client of the hub.
///
/// # Errors
/// A sentence, when the kubeconfig makes none.
pub async fn client(kubeconfig: Kubeconfig) -> Result<Client, String> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| error.to_string())?;
    config.connect_timeout = Some(PATIENCE);
    config.read_timeout = Some(PATIENCE);
    Client::try_from(config).map_err(|error| error.to_string())
}

impl Way {
    /// The kubeconfig of a component, which finds its token beside it.
    fn kubeconfig(&self) -> String {
        let mut cluster = json!({"server": self.server});
        for (field, value) in [
            ("certificate-authority-data", &self.authority),
            ("tls-server-name", &self.server_name),
            ("proxy-url", &self.proxy),
        ] {
            if let Some(value) = value {
                cluster[field] = value.as_str().into();
            }
        }
        if self.authority.is_none() || self.is_insecure {
            cluster["insecure-skip-tls-verify"] = true.into();
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "context", "preferences": {},
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "users": [{"name": "user", "user": {"tokenFile": "/var/run/secrets/hub/token"}}],
        });
        // JSON is YAML.
        serde_saphyr::to_string(&kubeconfig).unwrap_or_else(|_| kubeconfig.to_string())
    }
}

/// A token of a ServiceAccount.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    token: String,
    expires: String,
}

/// Where a ServiceAccount is said of.
fn kubeconfig_secret(hub: &HubObjects<'_>, account: &str) -> ocm_reconcile::Target {
    target(
        Site::Management,
        "Secret",
        Some(&hub.namespace),
        &format!("{account}-kubeconfig"),
    )
}

/// What has to be seen of kubeconfigs.
pub fn targets(hub: &HubObjects<'_>) -> Vec<ocm_reconcile::Target> {
    let accounts = roles::accounts(hub).into_iter().flat_map(|account| {
        let on_hub = target(Site::Hub, "ServiceAccount", Some(&hub.namespace), account);
        [on_hub, kubeconfig_secret(hub, account)]
    });
    accounts.collect()
}

/// The kubeconfigs of components, and the ServiceAccounts of which a token has to be asked for first.
pub fn kubeconfigs(
    hub: &HubObjects<'_>,
    way: &Way,
    current: &Current,
    tokens: &BTreeMap<String, Token>,
    now: Timestamp,
) -> (Vec<WantedObject>, Vec<&'static str>) {
    let (mut objects, mut missing) = (Vec::new(), Vec::new());
    for account in roles::accounts(hub) {
        let found = current.get(&target(Site::Hub, "ServiceAccount", Some(&hub.namespace), account));
        let uid = found.and_then(|it| it["metadata"]["uid"].as_str()).unwrap_or_default();
        let secret = kubeconfig_secret(hub, account);
        let present = current.get(&secret).map(|it| it["data"].clone()).unwrap_or_default();
        let mut data = json!({
            "kubeconfig": encoded(&way.kubeconfig()),
            "serviceaccount_namespace": encoded(&hub.namespace),
            "serviceaccount_name": encoded(account),
            "serviceaccount_uid": encoded(uid),
        });
        match tokens.get(account) {
            Some(token) => {
                data["token"] = encoded(&token.token);
                data["expiration"] = encoded(&token.expires);
            }
            None if is_well(&present, uid, now) => {
                data["token"] = present["token"].clone();
                data["expiration"] = present["expiration"].clone();
            }
            None => {
                missing.push(account);
                continue;
            }
        }
        let manifest = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": secret.name, "namespace": hub.namespace, "labels": hub.labels}, "data": data,
        });
        objects.push(WantedObject::new(Site::Management, manifest));
    }
    (objects, missing)
}

fn encoded(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

/// Whether a token is of this incarnation of the ServiceAccount, and lives for a while.
fn is_well(data: &Value, uid: &str, now: Timestamp) -> bool {
    let text = |key: &str| {
        let bytes = data[key].as_str().and_then(|it| BASE64_STANDARD.decode(it).ok());
        bytes.and_then(|it| String::from_utf8(it).ok()).unwrap_or_default()
    };
    let ends = text("expiration").parse::<Timestamp>();
    // An API server may give less life than was asked for: what is left is measured by what it gave, too.
    let lives = ends.is_ok_and(|it| it > now + margin(&text("token"), it));
    !text("token").is_empty() && !uid.is_empty() && text("serviceaccount_uid") == uid && lives
}

/// A fifth of the life of a token: of what it says itself where it does, else of what is asked for.
fn margin(token: &str, ends: Timestamp) -> SignedDuration {
    let claims = token.split('.').nth(1).and_then(|it| {
        let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(it).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    });
    let issued = claims
        .and_then(|it| it["iat"].as_i64())
        .and_then(|it| Timestamp::from_second(it).ok());
    issued.map_or(TOKEN_LIFE, |it| ends.duration_since(it)) / LIFE_LEFT
}

/// Asks for tokens.
pub fn ask(plan: &mut Plan, hub: &HubObjects<'_>, accounts: &[&'static str]) {
    plan.stage();
    for account in accounts {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_LIFE.as_secs()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let step = plan.push(Step::CreateSubresource {
            target: target(Site::Hub, "ServiceAccount", Some(&hub.namespace), account),
            subresource: "token",
            object: json!(request),
        });
        plan.name(super::install::ACCOUNTS_FAILED, step);
    }
}

/// The tokens that were given, by ServiceAccount.
pub fn tokens(outcome: &Outcome) -> BTreeMap<String, Token> {
    let given = outcome.results().filter_map(|(step, result)| match (step, result) {
        (
            Step::CreateSubresource {
                target, subresource, ..
            },
            Ok(Done::Object(object)),
        ) if *subresource == "token" => {
            let status = &object.data["status"];
            Some((
                target.name.clone(),
                Token {
                    token: status["token"].as_str()?.to_owned(),
                    expires: status["expirationTimestamp"].as_str().unwrap_or_default().to_owned(),
                },
            ))
        }
        _ => None,
    });
    given.collect()
}
