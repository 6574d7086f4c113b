//! How a pod reaches the API server: its ServiceAccount's tokens, renewed before they expire, and a kubeconfig.

use super::{
    PodRun, Problem, fields,
    files::{self, File, Files},
    volumes::TokenWish,
};
use crate::{
    references::{Known, Reference, ReferenceKind},
    times,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, api::PostParams};
use serde_json::json;
use std::{collections::BTreeMap, io, path::Path, time::Duration};

/// What a token is for that no volume asks for: the API server, for as long as Kubernetes' own.
pub fn own_wish() -> TokenWish {
    (None, 3607)
}

/// Where containers expect their credentials.
pub const ACCOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A token and the time by which another one should be there.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    renew: Timestamp,
}

/// The tokens of one pod.
#[derive(Debug, Default)]
pub struct Tokens {
    held: BTreeMap<TokenWish, Token>,
}

impl Tokens {
    /// The token, if there is one.
    pub fn get(&self, wish: &TokenWish) -> Option<String> {
        self.held.get(wish).map(|it| it.text.clone())
    }

    /// When the first of them wants to be renewed.
    pub fn renew_in(&self, now: Timestamp) -> Option<Duration> {
        let first = self.held.values().map(|it| it.renew).min()?;
        // After a failed attempt, not at once again.
        Some(times::until(now, first).max(Duration::from_secs(5)))
    }

    fn wants(&self, wish: &TokenWish, now: Timestamp) -> bool {
        self.held.get(wish).is_none_or(|it| it.renew <= now)
    }
}

/// After four fifths of its life, as a kubelet, a token is replaced.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    times::after(now, times::until(now, expires).mul_f64(0.8))
}

/// The ServiceAccount of a pod as an object.
pub fn account(pod: &Pod) -> Reference {
    Reference {
        kind: ReferenceKind::ServiceAccount,
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: fields::account(pod).to_owned(),
    }
}

/// Whether the pod gets credentials; the pod's word goes before its account's.
pub fn wants_access(pod: &Pod, account: &Known) -> Result<bool, Problem> {
    if let Some(own) = pod.spec.as_ref().and_then(|it| it.automount_service_account_token) {
        return Ok(own);
    }
    match account {
        Known::NotYet => Err(Problem::NotYet),
        Known::Here(content) => Ok(content.automount.unwrap_or(true)),
        Known::Missing => Err(Problem::Mount(format!(
            "serviceaccount {:?} not found",
            fields::account(pod)
        ))),
    }
}

impl PodRun {
    /// Asks for the tokens that are missing or old. An old token is kept when there is no new one yet.
    pub(super) async fn renew_tokens(&self, wishes: &[TokenWish]) -> Result<(), Problem> {
        let pod = self.pod();
        let mut tokens = self.tokens.lock().await;
        for wish in wishes {
            let now = Timestamp::now();
            if !tokens.wants(wish, now) {
                continue;
            }
            match self.request_token(&pod, wish).await {
                Ok((text, expires)) => {
                    let renew = renewal(now, expires);
                    tokens.held.insert(wish.clone(), Token { text, renew });
                }
                Err(error) if tokens.held.contains_key(wish) => {
                    tracing::debug!(pod = %self.name, %error, "could not renew a token yet");
                }
                Err(error) => {
                    let text = match error {
                        kube::Error::Api(status) => status.message.clone(),
                        other => other.to_string(),
                    };
                    return Err(Problem::Mount(format!("failed to fetch token: {text}")));
                }
            }
        }
        Ok(())
    }

    async fn request_token(&self, pod: &Pod, wish: &TokenWish) -> Result<(String, Timestamp), kube::Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.ground.client.clone(), &self.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(wish.0.clone().into_iter().collect()),
                expiration_seconds: Some(wish.1),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: Some(self.name.clone()),
                    uid: Some(self.uid.clone()),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let made = api
            .create_token_request(fields::account(pod), &PostParams::default(), &request)
            .await?;
        let status = made.status.unwrap_or_default();
        let expires = status.expiration_timestamp.map(|it| it.0);
        let expires = expires.unwrap_or_else(|| times::after(Timestamp::now(), times::of_seconds(wish.1)));
        Ok((status.token.unwrap_or_default(), expires))
    }

    /// The files of the pod's own credentials.
    pub(super) fn account_files(&self, token: String) -> Files {
        let file = |text: String| File {
            bytes: text.into(),
            mode: 0o600,
        };
        let mut files = Files::from([
            ("token".to_owned(), file(token)),
            ("namespace".to_owned(), file(self.namespace.clone())),
        ]);
        if let Some(server) = &self.ground.api_server {
            files.insert("ca.crt".to_owned(), file(server.ca_pem.clone()));
        }
        files
    }

    /// A kubeconfig that reads the token anew from its file, so that it never grows old.
    pub(super) fn write_kubeconfig(&self, path: &Path, account_dir: &Path) -> io::Result<()> {
        let Some(server) = &self.ground.api_server else {
            return Ok(());
        };
        let host = match server.host.contains(':') {
            true => format!("[{}]", server.host),
            false => server.host.clone(),
        };
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": {
                "server": format!("https://{host}:{}", server.port),
                "certificate-authority": account_dir.join("ca.crt"),
            }}],
            "users": [{"name": "pod", "user": {"tokenFile": account_dir.join("token")}}],
            "contexts": [{"name": "pod", "context": {"cluster": "cluster", "user": "pod", "namespace": self.namespace}}],
            "current-context": "pod",
        });
        if let Some(parent) = path.parent() {
            files::private_dir(parent)?;
        }
        std::fs::write(path, text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_after_four_fifths_of_its_life() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(renewal(at(1000), at(2000)), at(1800));
        let tokens = Tokens {
            held: BTreeMap::from([(
                own_wish(),
                Token {
                    text: "t".into(),
                    renew: at(1800),
                },
            )]),
        };
        assert!(!tokens.wants(&own_wish(), at(1799)));
        assert!(tokens.wants(&own_wish(), at(1800)));
        assert_eq!(tokens.renew_in(at(1000)), Some(Duration::from_secs(800)));
        assert_eq!(tokens.renew_in(at(1799)), Some(Duration::from_secs(5)));
    }
}
