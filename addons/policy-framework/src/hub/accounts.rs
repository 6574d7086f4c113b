//! The ServiceAccounts that hub templates look things up with, each with a token and watches of its own.
//! Upstream: governance-policy-propagator `controllers/propagator/template_utils.go`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    kube::{self, Api, Client, Config, api::PostParams, config::AuthInfo},
    reconcile::Queue,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{lookups::Lookups, replicas::Replicas, templates::service_accounts};
use crate::cluster::objects::{Interested, ObjectsAsked, WatchedObjects, Whereabouts};

/// How long a token lives, in seconds.
const TOKEN_SECONDS: i64 = 7_200;
/// So long before its end a token is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(8 * 60);
const RETRY: Duration = Duration::from_secs(30);

/// Where ServiceAccounts connect to: the hub's address and authority. Its credential is not used.
#[derive(Clone, Debug)]
pub struct HubConnection(pub Config);

/// Why there is no identity.
#[derive(Debug)]
pub struct AccountProblem {
    /// In words.
    pub text: String,
    /// The ServiceAccount is not there; when it comes, the replica is looked at again.
    pub is_missing: bool,
}

struct Account {
    lookups: Lookups,
    /// Who uses it.
    users: BTreeSet<Interested>,
    ends: CancellationToken,
}

type Name = (String, String);

/// All of them. Cloning shares them.
#[derive(Clone)]
pub struct Accounts {
    own: Option<Lookups>,
    connection: Option<HubConnection>,
    cancel: CancellationToken,
    used: Arc<Mutex<BTreeMap<Name, Account>>>,
    queue: Arc<Mutex<Option<Queue>>>,
}

impl Accounts {
    /// Whose tokens `own` asks for.
    pub fn new(own: Option<Lookups>, connection: Option<HubConnection>, cancel: CancellationToken) -> Self {
        Self {
            own,
            connection,
            cancel,
            used: Arc::default(),
            queue: Arc::default(),
        }
    }

    /// Wakes the keys of replicas when something changes that they have looked up.
    pub fn wake(&self, queue: &Queue) {
        *self.queue.lock() = Some(queue.clone());
    }

    /// How many watches there are.
    pub fn watches(&self) -> usize {
        self.used.lock().values().map(|it| it.lookups.objects.count()).sum()
    }

    /// A replica uses none but this one; those that nobody uses end.
    pub fn forget(&self, by: &Interested, but: Option<(&str, &str)>) {
        self.used.lock().retain(|(namespace, name), account| {
            if but == Some((namespace, name)) {
                return true;
            }
            if account.users.remove(by) {
                account.lookups.objects.keep_only(by, &ObjectsAsked::new());
            }
            if account.users.is_empty() {
                account.ends.cancel();
            }
            !account.users.is_empty()
        });
    }

    /// Look-ups with the rights of a ServiceAccount.
    ///
    /// # Errors
    /// When it is missing, or no token can be had.
    pub async fn of(
        &self,
        namespace: &str,
        name: &str,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Result<Lookups, AccountProblem> {
        let named = (namespace.to_owned(), name.to_owned());
        if let Some(account) = self.used.lock().get_mut(&named) {
            account.users.insert(by.clone());
            return Ok(account.lookups.clone());
        }
        let what = format!("the service account in hubTemplateOptions.serviceAccountName ({namespace}/{name})");
        let missing = || AccountProblem {
            text: format!("{what} does not exist"),
            is_missing: true,
        };
        let failed = |error: String| AccountProblem {
            text: format!("failed to set up the template resolver for {what}: {error}"),
            is_missing: false,
        };
        let (Some(own), Some(connection)) = (&self.own, &self.connection) else {
            return Err(failed("it is not known how ServiceAccounts reach the hub".to_owned()));
        };
        let at = Whereabouts::only(&service_accounts(), Some(namespace), name);
        match own.objects.get(&at, name, by).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                asked.insert((at, name.to_owned()));
                return Err(missing());
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        let client = own.objects.client();
        let (token, until) = match token(&client, namespace, name).await {
            Ok(token) => token,
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(missing()),
            Err(error) => return Err(failed(error.to_string())),
        };
        let ends = self.cancel.child_token();
        let connected = connect(connection, &token).map_err(|error| failed(format!("{error:#}")))?;
        let objects = WatchedObjects::new(connected.client.clone(), ends.clone());
        if let Some(queue) = &*self.queue.lock() {
            objects.subscribe(Replicas::WHO, queue.clone(), |_, _| true);
        }
        let lookups = Lookups::new(connected.client.clone(), objects);
        let account = Account {
            lookups: lookups.clone(),
            users: BTreeSet::from([by.clone()]),
            ends: ends.clone(),
        };
        self.used.lock().insert(named, account);
        tokio::spawn(renew(
            client,
            (namespace.to_owned(), name.to_owned()),
            connected.file,
            until,
            ends,
        ));
        Ok(lookups)
    }
}

async fn token(client: &Client, namespace: &str, name: &str) -> Result<(String, Timestamp), kube::Error> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let asked = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made = api.create_token_request(name, &PostParams::default(), &asked).await?;
    let status = made.status.unwrap_or_default();
    let until = status.expiration_timestamp.map_or_else(Timestamp::now, |it| it.0);
    Ok((status.token.unwrap_or_default(), until))
}

struct Connected {
    client: Client,
    file: tempfile::NamedTempFile,
}

/// A client with this token, which is read anew from its file, which only its owner can read.
fn connect(connection: &HubConnection, token: &str) -> anyhow::Result<Connected> {
    let mut file = tempfile::NamedTempFile::new().context("no file for the token")?;
    file.write_all(token.as_bytes())
        .context("the token could not be kept")?;
    let mut config = connection.0.clone();
    config.auth_info = AuthInfo {
        token_file: Some(file.path().display().to_string()),
        ..AuthInfo::default()
    };
    let client = Client::try_from(config).context("no client")?;
    Ok(Connected { client, file })
}

/// Renews the token in its file until the account is not used any more.
async fn renew(
    client: Client,
    (namespace, name): Name,
    file: tempfile::NamedTempFile,
    until: Timestamp,
    ends: CancellationToken,
) {
    let mut until = until;
    let mut wait = None;
    loop {
        let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
        let pause = wait.unwrap_or(left.saturating_sub(RENEWED_BEFORE));
        tokio::select! {
            () = ends.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let renewed = token(&client, &namespace, &name).await;
        let renewed = renewed.map_err(anyhow::Error::from).and_then(|(token, end)| {
            std::fs::write(file.path(), token)?;
            Ok(end)
        });
        match renewed {
            Ok(end) => (until, wait) = (end, None),
            Err(error) => {
                tracing::warn!(%error, account = %format!("{namespace}/{name}"), "could not renew the token of hub templates");
                wait = Some(RETRY);
            }
        }
    }
}
