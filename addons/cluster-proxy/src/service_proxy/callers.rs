//! Who a caller is: the managed cluster is asked first, then the hub, then an OIDC issuer. What they say is remembered
//! for a while.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ocm_addon_sdk::{kube::Client, reconcile::access};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::oidc::Oidc;
use crate::forward;

/// Answers that are remembered; more are asked for anew.
const REMEMBERED: usize = 10_000;
/// Before the name of a ServiceAccount of the hub, so that it is none of the cluster.
const OF_HUB: &str = "cluster:hub:";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Who a caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The cluster knows the token itself.
    OfCluster,
    /// Somebody whom the proxy stands in for.
    Impersonated(User),
}

/// Somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

/// Asks who callers are.
pub struct Callers {
    managed: Reviewer,
    hub: Option<Reviewer>,
    issuer: Option<Arc<Oidc>>,
}

impl Callers {
    /// The cluster's API server, and the hub's where tokens of the hub are taken. Answers count for `ttl`.
    pub fn new(managed: Client, hub: Option<Client>, ttl: Duration) -> Self {
        Self {
            managed: Reviewer::new(managed, ttl),
            hub: hub.map(|it| Reviewer::new(it, ttl)),
            issuer: None,
        }
    }

    /// The same, and tokens of this issuer.
    pub fn with_issuer(mut self, issuer: Arc<Oidc>) -> Self {
        self.issuer = Some(issuer);
        self
    }

    /// Whether anybody is asked: without a provider everything is passed on.
    pub fn are_asked(&self) -> bool {
        self.hub.is_some() || self.issuer.is_some()
    }

    /// Who has this token.
    ///
    /// # Errors
    /// The text of the answer 401.
    pub async fn who(&self, token: Option<&str>) -> Result<Caller, String> {
        let nobody = || {
            let whom = match (&self.hub, &self.issuer) {
                (None, None) => "not valid for the managed cluster",
                (Some(_), None) => "neither valid for managed cluster nor hub cluster",
                (None, Some(_)) => "neither valid for managed cluster nor the configured OIDC issuer",
                (Some(_), Some(_)) => "not valid for managed cluster, hub cluster, or the configured OIDC issuer",
            };
            Err(format!("authentication failed: token is {whom}"))
        };
        let Some(token) = token else { return nobody() };
        let known = self.managed.user(token).await;
        let known = known.map_err(|error| format!("managed cluster authentication failed: {error}"))?;
        if known.is_some() {
            return Ok(Caller::OfCluster);
        }
        if let Some(hub) = &self.hub {
            let known = hub.user(token).await;
            if let Some(user) = known.map_err(|error| format!("hub authentication failed: {error}"))? {
                return Ok(Caller::Impersonated(of_hub(user)));
            }
        }
        let Some(issuer) = &self.issuer else { return nobody() };
        let known = issuer.user(token).await;
        match known.map_err(|error| format!("oidc authentication failed: {error}"))? {
            Some(user) => Ok(Caller::Impersonated(user)),
            None => nobody(),
        }
    }
}

/// A user of the hub on a cluster. Its groups are those that the hub says.
fn of_hub(user: User) -> User {
    if !user.name.starts_with(SERVICE_ACCOUNT) {
        return user;
    }
    User {
        name: format!("{OF_HUB}{}", user.name),
        ..user
    }
}

/// One API server that is asked.
struct Reviewer {
    api: Client,
    ttl: Duration,
    remembered: Arc<Mutex<HashMap<[u8; 32], Remembered>>>,
}

struct Remembered {
    at: Instant,
    user: Option<User>,
}

impl Reviewer {
    fn new(client: Client, ttl: Duration) -> Self {
        Self {
            api: client,
            ttl,
            remembered: Arc::default(),
        }
    }

    /// Who has a token; `None` when the server does not know it. Errors are not remembered.
    async fn user(&self, token: &str) -> Result<Option<User>, String> {
        // A token is not kept.
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.remembered.lock().get(&key)
            && known.at.elapsed() < self.ttl
        {
            return Ok(known.user.clone());
        }
        let answer = access::review(&self.api, token).await;
        let status = answer.map_err(|error| forward::of_api(&error))?;
        let is_known = status.authenticated == Some(true);
        let error = status.error.unwrap_or_default();
        if !is_known && !error.is_empty() && !error.contains("invalid bearer token") {
            return Err(error);
        }
        let user = status.user.filter(|_| is_known).map(|it| User {
            name: it.username.unwrap_or_default(),
            groups: it.groups.unwrap_or_default(),
        });
        if !self.ttl.is_zero() {
            self.remember(key, user.clone());
        }
        Ok(user)
    }

    fn remember(&self, key: [u8; 32], user: Option<User>) {
        let mut all = self.remembered.lock();
        if all.len() >= REMEMBERED {
            all.retain(|_, it| it.at.elapsed() < self.ttl);
        }
        if all.len() < REMEMBERED {
            let at = Instant::now();
            all.insert(key, Remembered { at, user });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_of_the_hub_have_a_prefix() {
        let user = |name: &str| User {
            name: name.to_owned(),
            groups: vec!["g".to_owned()],
        };
        let hub = of_hub(user("system:serviceaccount:a:b"));
        assert_eq!(hub, user("cluster:hub:system:serviceaccount:a:b"));
        assert_eq!(of_hub(user("jo")), user("jo"));
    }
}
