//! Keeps the tokens of ManagedServiceAccounts.
//!
//! Root: ManagedServiceAccount of the cluster. Reads: the labelled Secrets of the cluster's namespace on the hub and
//! the labelled ServiceAccounts of the agent's namespace; asks the cluster whether it knows a token. Writes: the
//! ServiceAccount, its token, the Secret, the status. Never: a ServiceAccount or a Secret without the label. Upstream:
//! managed-serviceaccount `pkg/addon/agent/controller/tokenreconcile.go`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_addon_sdk::{
    duration,
    k8s_openapi::{
        ByteString,
        api::{
            authentication::v1::{TokenRequest, TokenRequestSpec},
            core::v1::{Secret, ServiceAccount},
        },
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    },
    kube::{Client, ResourceExt},
    ocm_api::{
        authentication::{ManagedServiceAccount, ManagedServiceAccountStatus, TokenSecretRef, conditions, labels},
        condition::{self, wanted},
    },
    reconcile::{
        Cache, Caches, Done, ObserveError, Outcome, Plan, Reconciler, Site as At, StatusField, Step, Target, Watches,
        access, async_trait,
        cache::{Watching, split_key},
        caches::put_written,
        execute::sentence,
    },
};

use super::{
    managed_only,
    token::{self, Judgement},
};

/// What time it is; tests have their own.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// After the time for a new token, so that the clocks' seconds do not matter.
const LATER: Duration = Duration::from_secs(5);
/// What the cluster did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(10);
/// A wait for years is one until somebody looks at the clock.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(24 * 3600);

/// Where an agent is.
#[derive(Clone, Debug)]
pub struct AgentSite {
    /// The cluster's name, which is its namespace on the hub.
    pub cluster: String,
    /// The namespace of the agent, where its ServiceAccounts are.
    pub namespace: String,
    /// The certificates of the cluster's API server, as PEM.
    pub ca: Vec<u8>,
}

/// The reconciler.
pub struct Accounts {
    accounts: Cache<ManagedServiceAccount>,
    secrets: Cache<Secret>,
    service_accounts: Cache<ServiceAccount>,
    managed: Client,
    site: Arc<AgentSite>,
    clock: Now,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Where the agent is.
    pub site: Arc<AgentSite>,
    /// The name of the object.
    pub name: String,
    /// The object; `None` when it is gone.
    pub account: Option<Arc<ManagedServiceAccount>>,
    /// Its Secret on the hub.
    pub secret: Option<Arc<Secret>>,
    /// Its ServiceAccount, if that is ours.
    pub service_account: Option<Arc<ServiceAccount>>,
    /// What is to be done about the token.
    pub due: Due,
}

/// What is to be done about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing until then.
    Nothing(Timestamp),
    /// A new one, and why.
    Token(&'static str),
    /// This one is to be written.
    Write(Fresh),
    /// Nobody can say.
    Unknown(String),
}

/// A token that the cluster has given. It is no text to print.
#[derive(Clone, PartialEq, Eq)]
pub struct Fresh {
    token: String,
    expiration: Timestamp,
}

impl std::fmt::Debug for Fresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a token until {}", self.expiration)
    }
}

impl Accounts {
    /// Over the caches of the hub and of the cluster.
    pub fn new(hub: &Caches, managed: &Caches, client: Client, site: AgentSite, clock: Now) -> Self {
        let (cluster, namespace) = (site.cluster.clone(), site.namespace.clone());
        Self {
            accounts: hub.in_namespace(&cluster, Watching::default()),
            secrets: hub.in_namespace(&cluster, managed_only()),
            service_accounts: managed.in_namespace(&namespace, managed_only()),
            managed: client,
            site: Arc::new(site),
            clock,
        }
    }

    async fn due(&self, account: &ManagedServiceAccount, secret: Option<&Secret>, now: Timestamp) -> Due {
        let site = &self.site;
        let subject = format!("system:serviceaccount:{}:{}", site.namespace, account.name_any());
        match token::judge(account, secret, &subject, &site.ca, now) {
            Judgement::Renew(why) => Due::Token(why),
            Judgement::Unreadable(why) => Due::Unknown(why.to_owned()),
            Judgement::Ask { token, until } => match self.knows(token).await {
                Ok(true) => Due::Nothing(until),
                Ok(false) => Due::Token("the cluster does not know it"),
                Err(error) => Due::Unknown(error.to_string()),
            },
        }
    }

    /// Whether the cluster would let somebody in with this token.
    async fn knows(&self, token: String) -> Result<bool, ocm_addon_sdk::kube::Error> {
        Ok(access::who(&self.managed, &token).await?.is_some())
    }
}

#[async_trait]
impl Reconciler for Accounts {
    const NAME: &'static str = "managed-service-account-token";
    const WORKERS: usize = 16;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ManagedServiceAccount::KIND, conditions::SECRET_CREATED),
        StatusField::condition(ManagedServiceAccount::KIND, conditions::TOKEN_REPORTED),
        StatusField::new(ManagedServiceAccount::KIND, "expirationTimestamp"),
        StatusField::new(ManagedServiceAccount::KIND, "tokenSecretRef"),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (of_secret, of_account) = (self.site.cluster.clone(), self.site.cluster.clone());
        watches
            .root(&self.accounts)
            .wakes(&self.secrets, move |old, new| key(&of_secret, old.or(new)))
            // What a ServiceAccount says makes no difference, only whether it is there.
            .wakes(&self.service_accounts, move |old, new| match (old, new) {
                (Some(_), Some(_)) => None,
                _ => key(&of_account, old.or(new)),
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        let account = self.accounts.get(cluster, name);
        let secret = self.secrets.get(cluster, name);
        let now = (self.clock)();
        let due = match account.as_deref().filter(|it| is_wanted(it)) {
            Some(account) => self.due(account, secret.as_deref(), now).await,
            None => Due::Unknown(String::new()),
        };
        Ok(Seen {
            now,
            site: self.site.clone(),
            name: name.to_owned(),
            service_account: self.service_accounts.get(&self.site.namespace, name),
            account,
            secret,
            due,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(account) = seen.account.as_deref().filter(|it| is_wanted(it)) else {
            // One that was there before is without the label, so that it is not here. The Secret goes with its owner.
            if let Some(ours) = &seen.service_account {
                plan.delete(At::Cluster, &**ours);
            }
            return plan;
        };
        if seen.service_account.is_none() && !matches!(seen.due, Due::Write(_)) {
            plan.create(At::Cluster, &service_account(seen));
            plan.stage();
        }
        match &seen.due {
            Due::Nothing(until) => {
                let left = until.duration_since(seen.now);
                let left = Duration::try_from(left).unwrap_or_default();
                plan.look_again((left + LATER).min(LOOK_AT_CLOCK));
            }
            Due::Unknown(why) => {
                plan.wait(why.clone()).look_again(AGAIN);
            }
            Due::Token(why) => {
                plan.remark(format!("asks for a token: {why}"));
                match token_request(seen, account) {
                    Ok(step) => {
                        let step = plan.push(step);
                        plan.name(TOKEN_STEP, step);
                    }
                    Err(why) => {
                        plan.refuse(why);
                    }
                }
            }
            Due::Write(fresh) => {
                let step = plan.push(secret(seen, account, fresh));
                plan.name(SECRET_STEP, step);
            }
        }
        plan
    }

    // The next run is woken by the Secret, before the watch has brought the status that belongs to it.
    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.service_accounts, outcome);
        put_written(&self.secrets, outcome);
    }

    fn concluded(&self, outcome: &Outcome) {
        put_written(&self.accounts, outcome);
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        !matches!(seen.due, Due::Write(_)) && outcome.object_of(TOKEN_STEP).is_some()
    }

    async fn observe_again(&self, _: &str, before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let answer = outcome.object_of(TOKEN_STEP).ok_or("the cluster gave no token")?;
        let status = &answer.data["status"];
        let token = status["token"].as_str().ok_or("the cluster gave no token")?.to_owned();
        let expiration = status["expirationTimestamp"].as_str().unwrap_or_default().parse()?;
        // Of before the token, so that a Secret that changed meanwhile is not overwritten.
        Ok(Seen {
            due: Due::Write(Fresh { token, expiration }),
            now: (self.clock)(),
            ..before
        })
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(account) = seen.account.as_deref().filter(|it| is_wanted(it)) else {
            return plan;
        };
        let mut new = account.clone();
        let said = new.status.get_or_insert_default();
        if !report(said, seen, account, outcome) {
            return plan;
        }
        plan.status(At::Hub, account, &new);
        plan
    }
}

const TOKEN_STEP: &str = "token";
const SECRET_STEP: &str = "secret";

fn is_wanted(account: &ManagedServiceAccount) -> bool {
    account.metadata.deletion_timestamp.is_none()
}

fn key<K: ResourceExt>(cluster: &str, object: Option<&K>) -> Option<String> {
    object.map(|it| format!("{cluster}/{}", it.name_any()))
}

fn labelled() -> BTreeMap<String, String> {
    [(labels::IS_MANAGED.to_owned(), "true".to_owned())].into()
}

/// Created with the label. One of the name that was there before is used as it is.
fn service_account(seen: &Seen) -> ServiceAccount {
    ServiceAccount {
        metadata: ObjectMeta {
            name: Some(seen.name.clone()),
            namespace: Some(seen.site.namespace.clone()),
            labels: Some(labelled()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    }
}

fn token_request(seen: &Seen, account: &ManagedServiceAccount) -> Result<Step, String> {
    let text = &account.spec.rotation.validity;
    let validity = duration::parse(text).ok_or_else(|| bad_validity(text))?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(validity.as_secs()),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    Ok(Step::CreateSubresource {
        target: Target::namespaced::<ServiceAccount>(At::Cluster, &seen.site.namespace, &seen.name),
        subresource: "token",
        object: serde_json::to_value(request).map_err(|error| error.to_string())?,
    })
}

fn bad_validity(text: &str) -> String {
    format!("spec.rotation.validity: {text:?} is no duration such as 8640h0m0s")
}

/// The Secret with exactly the two keys and the one owner; other labels and annotations stay.
fn secret(seen: &Seen, account: &ManagedServiceAccount, fresh: &Fresh) -> Step {
    let mut secret = seen.secret.as_deref().cloned().unwrap_or_default();
    secret.metadata.name = Some(seen.name.clone());
    secret.metadata.namespace = Some(seen.site.cluster.clone());
    secret.metadata.managed_fields = None;
    secret.metadata.labels.get_or_insert_default().extend(labelled());
    secret.metadata.owner_references = Some(vec![OwnerReference {
        api_version: ManagedServiceAccount::API_VERSION.to_owned(),
        kind: ManagedServiceAccount::KIND.to_owned(),
        name: seen.name.clone(),
        uid: account.uid().unwrap_or_default(),
        ..OwnerReference::default()
    }]);
    secret.type_ = Some("Opaque".to_owned());
    let data = [
        (token::CA, seen.site.ca.clone()),
        (token::TOKEN, fresh.token.clone().into_bytes()),
    ];
    secret.data = Some(data.map(|(key, value)| (key.to_owned(), ByteString(value))).into());
    secret.string_data = None;
    let target = Target::of(At::Hub, &secret);
    let object = ocm_addon_sdk::reconcile::plan::typed(&secret, &target.api_resource);
    match &seen.secret {
        None => Step::Create { target, object },
        Some(_) => Step::Replace {
            target,
            subresource: None,
            object,
        },
    }
}

/// Says what came of it; `false` when nothing is to be said.
fn report(
    said: &mut ManagedServiceAccountStatus,
    seen: &Seen,
    account: &ManagedServiceAccount,
    outcome: &Outcome,
) -> bool {
    let why = match (&seen.due, outcome.named(TOKEN_STEP), outcome.named(SECRET_STEP)) {
        (Due::Unknown(why), ..) => format!("failed to make a decision on token creation: {why}"),
        (Due::Token(_), Some(Err(error)), _) => {
            format!("failed to request token for service-account: {}", sentence(error))
        }
        (Due::Token(_), None, _) => match token_request(seen, account) {
            Err(why) => format!("failed to request token for service-account: {why}"),
            // Its ServiceAccount could not be made, of which nothing is said.
            Ok(_) => return false,
        },
        (Due::Write(fresh), _, Some(Ok(Done::Object(_)))) => {
            let name = seen.name.clone();
            let set = [conditions::SECRET_CREATED, conditions::TOKEN_REPORTED];
            for kind in set {
                condition::set(&mut said.conditions, wanted(kind, true, kind, ""), seen.now);
            }
            said.expiration_timestamp = Some(Time(fresh.expiration));
            said.token_secret_ref = Some(TokenSecretRef {
                name,
                // Times in objects have whole seconds.
                last_refresh_timestamp: Time(Timestamp::from_second(seen.now.as_second()).unwrap_or(seen.now)),
            });
            return true;
        }
        (Due::Write(_), _, Some(Ok(_))) => format!(
            "failed to create the token secret: Secret {}/{} is there already and is not ours: delete it, or label it {}=true",
            seen.site.cluster,
            seen.name,
            labels::IS_MANAGED
        ),
        (Due::Write(_), _, Some(Err(error))) => {
            let verb = if seen.secret.is_some() { "update" } else { "create" };
            format!("failed to {verb} the token secret: {}", sentence(error))
        }
        _ => return false,
    };
    let update = wanted(conditions::TOKEN_REPORTED, false, conditions::TOKEN_REPORT_FAILED, why);
    condition::set(&mut said.conditions, update, seen.now);
    true
}
