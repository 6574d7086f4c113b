//! Fills in hub templates of replicas.
//! Upstream: governance-policy-propagator `controllers/propagator/propagation.go`.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Client, ResourceExt, core::ApiResource},
    ocm_api::{
        cluster::ManagedCluster,
        policy::{ENCRYPTION_KEY_SECRET, Policy, annotations},
    },
    reconcile::{Cache, Caches, ObserveError, Queue},
    values::settings::parse_bool,
};
use policy_template::{
    Answers, Delimiters, Input, Resolution, ResolutionCause, ResolutionError, TemplateContext, TemplateEncryption,
    TemplateKeys, TemplateSettings, Unresolved, has_template, render, uses_encryption,
};
use serde_json::{Value, json};

use super::{
    accounts::{AccountProblem, Accounts, HubConnection},
    encryption,
    lookups::Lookups,
    replicas::Replicas,
    world::PolicyWorld,
};
use crate::cluster::objects::{Interested, ObjectsAsked, WatchedObjects};

/// A template may look up things that depend on each other this many times.
const ROUNDS_MAX: usize = 100;
const IV_LENGTH: usize = 16;

/// What fills in templates. Cloning shares it.
#[derive(Clone)]
pub struct HubTemplates {
    own: Option<Lookups>,
    accounts: Accounts,
    keys: Cache<Secret>,
    clusters: Cache<ManagedCluster>,
    denied: Arc<[String]>,
}

/// What became of the templates of a replica.
#[derive(Default)]
pub struct Filled {
    /// Why not all of them could be filled in; the replica says so, too.
    pub problem: Option<String>,
    /// Whether the replica is left as it is: trying again soon may help.
    pub passing: bool,
    /// Whether trying again later may help, although nothing says when.
    pub again: bool,
    /// The cluster needs a key first.
    pub needs_key: bool,
}

impl HubTemplates {
    /// Over these caches; `connection` is where ServiceAccounts connect to.
    pub fn new(caches: &Caches, world: &PolicyWorld, denied: &[String], connection: Option<HubConnection>) -> Self {
        let lookups = |client: &Client| {
            let objects = WatchedObjects::new(client.clone(), caches.cancel_token().clone());
            Lookups::new(client.clone(), objects)
        };
        let own = caches.client().map(lookups);
        Self {
            accounts: Accounts::new(own.clone(), connection, caches.cancel_token().clone()),
            own,
            keys: encryption::keys(caches),
            clusters: world.clusters.clone(),
            denied: denied.into(),
        }
    }

    /// Wakes the keys of replicas when something that their templates have looked up changes.
    pub fn wake(&self, queue: &Queue) {
        if let Some(own) = &self.own {
            own.objects.subscribe(Replicas::WHO, queue.clone(), |_, _| true);
        }
        self.accounts.wake(queue);
    }

    /// The keys of clusters.
    pub fn keys(&self) -> &Cache<Secret> {
        &self.keys
    }

    /// How many watches templates have.
    pub fn watches(&self) -> usize {
        self.own.as_ref().map_or(0, |it| it.objects.count()) + self.accounts.watches()
    }

    /// Nobody asks for this replica any more.
    pub fn forget(&self, key: &str) {
        let by = interested(key);
        if let Some(own) = &self.own {
            own.objects.keep_only(&by, &ObjectsAsked::new());
        }
        self.accounts.forget(&by, None);
    }

    /// Fills in the templates of a replica.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub async fn fill(
        &self,
        key: &str,
        root: &Policy,
        replica: &mut Policy,
        before: Option<&Policy>,
    ) -> Result<Filled, ObserveError> {
        let is_template = |it: &Value| has_template(&it.to_string(), Delimiters::Hub, false);
        let has_templates = replica
            .spec
            .policy_templates
            .iter()
            .any(|it| is_template(&it.object_definition));
        let said = replica.annotations().get(annotations::DISABLE_TEMPLATES);
        if !has_templates || said.is_some_and(|it| parse_bool(it) == Some(true)) {
            self.forget(key);
            return Ok(Filled::default());
        }
        let by = interested(key);
        let (namespace, cluster) = (
            root.namespace().unwrap_or_default(),
            replica.namespace().unwrap_or_default(),
        );
        let mut asked = ObjectsAsked::new();
        let account = root
            .spec
            .hub_template_options
            .as_ref()
            .map(|it| it.service_account_name.as_str());
        let (lookups, mut settings) = match account.filter(|it| !it.is_empty()) {
            None => {
                let Some(own) = self.own.clone() else {
                    return Ok(Filled::default());
                };
                self.accounts.forget(&by, None);
                (own, TemplateSettings::hub(&namespace, &cluster))
            }
            Some(name) => match self.accounts.of(&namespace, name, &by, &mut asked).await {
                Ok(lookups) => {
                    self.accounts.forget(&by, Some((&namespace, name)));
                    (lookups, TemplateSettings::hub_with_service_account())
                }
                Err(problem) => {
                    if let Some(own) = &self.own {
                        own.objects.keep_only(&by, &asked);
                    }
                    return Ok(without_account(replica, problem));
                }
            },
        };
        settings.denied = self.denied.to_vec();
        let whole = json!({ "metadata": root.metadata });
        let mut filled = Filled::default();
        for index in 0..replica.spec.policy_templates.len() {
            let definition = replica.spec.policy_templates[index].object_definition.clone();
            if !is_template(&definition) {
                continue;
            }
            let text = definition.to_string();
            let encrypts = uses_encryption(&text, Delimiters::Hub);
            if encrypts && matches!(settings.encryption, TemplateEncryption::Off) {
                let Some(keys) = self.keys_of(&cluster, replica, before)? else {
                    filled.needs_key = true;
                    break;
                };
                settings.encryption = TemplateEncryption::Encrypt(keys);
            }
            let labels = self
                .clusters
                .named(&cluster)
                .map(|it| it.labels().clone())
                .unwrap_or_default();
            let context = TemplateContext::hub(&cluster, labels, &whole);
            match fill_one(&lookups, &settings, &definition, &context, &by, &mut asked).await {
                Ok(mut value) => {
                    if encrypts && let Some(iv) = replica.annotations().get(annotations::ENCRYPTION_IV) {
                        value["metadata"]["annotations"][annotations::ENCRYPTION_IV] = json!(iv);
                    }
                    replica.spec.policy_templates.to_mut()[index].object_definition = value;
                }
                Err(Unresolved { error, .. }) => {
                    let definition = &mut replica.spec.policy_templates.to_mut()[index].object_definition;
                    tell_error(definition, &error.message);
                    filled.passing = matches!(error.cause, ResolutionCause::MissingKind | ResolutionCause::Passing);
                    // Nothing tells when somebody is given rights.
                    filled.again = error
                        .message
                        .contains("ensure the client has the list and watch permissions");
                    filled.problem = Some(error.message);
                    break;
                }
            }
        }
        lookups.objects.keep_only(&by, &asked);
        Ok(filled)
    }

    /// The key of a cluster with the vector of the replica, which is written into the replica. `None` without a key.
    fn keys_of(
        &self,
        cluster: &str,
        replica: &mut Policy,
        before: Option<&Policy>,
    ) -> Result<Option<TemplateKeys>, ObserveError> {
        let Some(secret) = self.keys.get(cluster, ENCRYPTION_KEY_SECRET) else {
            return Ok(None);
        };
        let bytes = |name: &str| secret.data.as_ref().and_then(|it| it.get(name)).map(|it| it.0.clone());
        // The same vector as before: what has not changed looks the same.
        let kept = before.and_then(|it| it.annotations().get(annotations::ENCRYPTION_IV));
        let kept = kept.and_then(|it| Some((it.clone(), BASE64.decode(it).ok()?)));
        let (text, iv) = match kept.filter(|(_, iv)| iv.len() == IV_LENGTH) {
            Some(kept) => kept,
            None => {
                let iv = encryption::random(IV_LENGTH)?;
                (BASE64.encode(&iv), iv)
            }
        };
        replica
            .annotations_mut()
            .insert(annotations::ENCRYPTION_IV.to_owned(), text);
        Ok(Some(TemplateKeys {
            key: bytes("key").unwrap_or_default(),
            previous: bytes("previousKey").unwrap_or_default(),
            iv,
        }))
    }
}

fn interested(key: &str) -> Interested {
    Interested {
        who: Replicas::WHO,
        policy: key.to_owned(),
    }
}

/// Renders and looks up until nothing is asked any more.
async fn fill_one(
    lookups: &Lookups,
    settings: &TemplateSettings,
    definition: &Value,
    context: &TemplateContext,
    by: &Interested,
    asked: &mut ObjectsAsked,
) -> Result<Value, Unresolved> {
    let mut answers = Answers::default();
    for _ in 0..ROUNDS_MAX {
        match render(settings, &answers, Input::Json(definition), context)? {
            Resolution::Done(made) => return Ok(made.value),
            Resolution::Needs(queries) => {
                for query in &queries {
                    lookups.find(&mut answers, query, by, asked).await;
                }
            }
        }
    }
    Err(Unresolved {
        error: ResolutionError {
            message: "the template looks up too many things one after the other".to_owned(),
            cause: ResolutionCause::Other,
        },
        queries: Vec::new(),
        skip_object: false,
    })
}

/// Says in a template why it could not be filled in.
fn tell_error(definition: &mut Value, error: &str) {
    if let Some(object) = definition.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        metadata["annotations"][annotations::HUB_TEMPLATES_ERROR] = json!(error);
    }
}

/// All templates say that there is no identity to look things up with.
fn without_account(replica: &mut Policy, problem: AccountProblem) -> Filled {
    for template in replica.spec.policy_templates.to_mut() {
        if has_template(&template.object_definition.to_string(), Delimiters::Hub, false) {
            tell_error(&mut template.object_definition, &problem.text);
        }
    }
    Filled {
        again: !problem.is_missing,
        ..Filled::default()
    }
}

/// The kind ServiceAccount.
pub(super) fn service_accounts() -> ApiResource {
    ApiResource::erase::<ocm_addon_sdk::k8s_openapi::api::core::v1::ServiceAccount>(&())
}

/// What a run has to write besides the replica: the key of its cluster.
pub fn key_secret(cluster: &str, key: Vec<u8>, rotated: String) -> Secret {
    use ocm_addon_sdk::k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    Secret {
        metadata: ObjectMeta {
            name: Some(ENCRYPTION_KEY_SECRET.to_owned()),
            namespace: Some(cluster.to_owned()),
            labels: Some(BTreeMap::from([(
                "cluster.open-cluster-management.io/backup".to_owned(),
                "policy".to_owned(),
            )])),
            annotations: Some(BTreeMap::from([(annotations::LAST_ROTATED.to_owned(), rotated)])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), ByteString(key))])),
        ..Secret::default()
    }
}
