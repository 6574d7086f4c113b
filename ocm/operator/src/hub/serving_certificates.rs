//! Keeps the certificates of webhooks.
//!
//! Root: ClusterManager. Reads: the Secrets `signer-secret` and `*-webhook-serving-cert`, and the ConfigMap
//! `ca-bundle-configmap` of its namespace. Writes: these, and the namespace when it is missing. Never: what another
//! ClusterManager owns, and anything while the ClusterManager is being deleted.
//! Upstream: ocm `pkg/operator/operators/clustermanager/controllers/certrotationcontroller`.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{Api, Client};
use ocm_api::operator::ClusterManager;
use ocm_reconcile::{
    Cache, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, Site, StepError, Watches, async_trait, plan::typed,
    rbac::Right,
};
use serde_json::json;

use super::{
    Options,
    caches::Sources,
    certificates::{self, BUNDLE, BUNDLE_KEY, Pair, SIGNER},
    owner,
    wanted::{self, CREATED_BY},
    webhooks,
};
use crate::{
    Layout,
    objects::{self, Current, Object, target},
};

/// The verb of the step that makes a certificate.
const MAKE: &str = "make";
/// The label of a failure, for nobody reads it.
const REASON: &str = "CertificateFailed";

/// The reconciler.
pub struct ServingCertificates {
    client: Client,
    managers: Cache<ClusterManager>,
    secrets: Vec<Cache<Secret>>,
    bundles: Cache<ConfigMap>,
    options: Arc<Options>,
}

/// What a plan is made from.
pub struct Seen {
    now: Timestamp,
    options: Arc<Options>,
    /// The namespace of the hub; `None` when there is nothing to keep.
    namespace: Option<String>,
    /// The ClusterManager's name.
    name: String,
    /// What is there.
    current: Current,
    /// What was made in this run, by the name of the Secret.
    made: BTreeMap<String, Pair>,
}

impl ServingCertificates {
    /// Over these caches.
    pub fn new(client: Client, sources: &Sources, options: Arc<Options>) -> Self {
        Self {
            client,
            managers: sources.managers.clone(),
            secrets: sources.certificates.clone(),
            bundles: sources.bundles.clone(),
            options,
        }
    }
}

impl Seen {
    fn pair(&self, secret: &str) -> Option<Pair> {
        let namespace = self.namespace.as_deref()?;
        let found = self
            .current
            .get(&target(Site::Management, "Secret", Some(namespace), secret))?;
        serde_json::from_value::<Secret>(found.clone())
            .ok()
            .map(|it| Pair::of(&it))
    }

    fn bundle(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let found = self
            .current
            .get(&target(Site::Management, "ConfigMap", Some(namespace), BUNDLE));
        let text = found.and_then(|it| it["data"][BUNDLE_KEY].as_str());
        text.unwrap_or_default().to_owned()
    }

    /// The authority, if there is one that still signs.
    fn signer(&self) -> Option<Pair> {
        let of_today = self.made.get(SIGNER).cloned();
        let is_well = |it: &Pair| it.signer_is_due(self.options.certificates.signer, self.now).is_none();
        of_today.or_else(|| self.pair(SIGNER).filter(is_well))
    }

    /// The Secrets of webhooks, with the names that they are for.
    fn targets(&self) -> Vec<(&'static str, Vec<String>)> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        webhooks::certificates(namespace, self.options.layout == Layout::Compact)
    }
}

#[async_trait]
impl Reconciler for ServingCertificates {
    const NAME: &'static str = "cluster-manager-certificates";
    const RIGHTS: &'static [Right] = &[
        Right::new(
            "",
            "secrets",
            "create",
            "Certificates of webhooks, and copies of Secrets.",
        ),
        Right::new(
            "",
            "secrets",
            "get list watch patch update delete",
            "The same, when they change.",
        )
        .only("signer-secret registration-webhook-serving-cert work-webhook-serving-cert addon-webhook-serving-cert"),
        Right::new("", "configmaps", "create", "The authorities that are trusted."),
        Right::new(
            "",
            "configmaps",
            "get list watch patch update delete",
            "The same, when they change.",
        )
        .only(BUNDLE),
        Right::new("", "namespaces", "get create patch delete", "The namespace of a hub."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.managers);
        for secrets in &self.secrets {
            owner::wakes(watches, secrets, &self.managers);
        }
        owner::wakes(watches, &self.bundles, &self.managers);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let managers = self.managers.list();
        let manager = managers.iter().find(|it| it.metadata.name.as_deref() == Some(name));
        let manager = manager.filter(|it| it.metadata.deletion_timestamp.is_none());
        let manager = manager.filter(|it| owner::elder(it, &managers).is_none());
        let namespace = manager.map(|it| wanted::namespace(it));
        let mut found = Vec::new();
        if let Some(namespace) = &namespace {
            let there = Api::<Namespace>::all(self.client.clone()).get_opt(namespace).await?;
            found.extend(there.map(|it| object(&it)));
            found.extend(
                self.secrets
                    .iter()
                    .flat_map(|it| it.list_in(namespace))
                    .map(|it| object(&*it)),
            );
            found.extend(self.bundles.list_in(namespace).into_iter().map(|it| object(&*it)));
        }
        Ok(Seen {
            now: Timestamp::now(),
            options: self.options.clone(),
            namespace,
            name: name.to_owned(),
            current: Current::holding(found),
            made: BTreeMap::new(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(namespace) = seen.namespace.as_deref() else {
            return plan;
        };
        plan.look_again(seen.options.certificates.look_again);
        let place = Object::new(
            Site::Management,
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {(CREATED_BY): seen.name}},
            }),
        );
        match seen.current.get(&place.target) {
            Some(found) if objects::is_going(found) => {
                plan.wait(format!("namespace {namespace} is being deleted"));
                return plan;
            }
            Some(_) => {}
            None => objects::keep(&mut plan, REASON, &place, &seen.current, &[]),
        }
        let Some(signer) = seen.signer() else {
            let step = plan.stage().perform(MAKE, SIGNER);
            plan.name(SIGNER, step);
            return plan;
        };
        plan.stage();
        keep_pair(&mut plan, seen, SIGNER, &signer);
        let authorities = certificates::bundle(&seen.bundle(), &signer.certificate, seen.now);
        let bundle = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": BUNDLE, "namespace": namespace},
            "data": {(BUNDLE_KEY): authorities},
        });
        plan.stage();
        objects::keep(
            &mut plan,
            REASON,
            &Object::new(Site::Management, bundle),
            &seen.current,
            &[],
        );
        plan.stage();
        for (secret, names) in seen.targets() {
            let life = seen.options.certificates.target;
            let is_due = |it: &Pair| it.target_is_due(&names, &authorities, life, seen.now).is_some();
            match (seen.made.get(secret), seen.pair(secret)) {
                (Some(made), _) => keep_pair(&mut plan, seen, secret, made),
                (None, Some(pair)) if !is_due(&pair) => {}
                (None, _) => {
                    let step = plan.perform(MAKE, secret);
                    plan.name(secret, step);
                }
            }
        }
        plan
    }

    /// Makes a certificate, and answers with a Secret that holds it.
    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let (times, now, secret) = (seen.options.certificates, seen.now, own.what.clone());
        let names = seen.targets().into_iter().find(|it| it.0 == secret).map(|it| it.1);
        let signer = seen.signer();
        let made = tokio::task::spawn_blocking(move || match (names, signer) {
            (Some(names), Some(signer)) => certificates::new_target(&signer, &names, times.target, now),
            _ => certificates::new_signer(times.signer, now),
        });
        let made = made.await.map_err(|error| StepError::Own(error.to_string()))?;
        let made =
            made.map_err(|error| StepError::Own(format!("could not make the certificate of {secret}: {error}")))?;
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "data": made.data()});
        let object = serde_json::from_value(object).map_err(StepError::Malformed)?;
        Ok(Done::Object(Box::new(object)))
    }

    fn goes_on(_: &Seen, outcome: &Outcome) -> bool {
        outcome.succeeded() && made(outcome).next().is_some()
    }

    async fn observe_again(&self, name: &str, before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let mut seen = self.observe(name).await?;
        seen.made = before.made;
        seen.made.extend(made(outcome));
        Ok(seen)
    }
}

/// What was made in a round, by the name of the Secret.
fn made(outcome: &Outcome) -> impl Iterator<Item = (String, Pair)> + '_ {
    outcome.results().filter_map(|(step, result)| match (step, result) {
        (ocm_reconcile::Step::Own(own), Ok(Done::Object(object))) => {
            let secret = (**object).clone().try_parse::<Secret>().ok()?;
            Some((own.what.clone(), Pair::of(&secret)))
        }
        _ => None,
    })
}

fn keep_pair(plan: &mut Plan, seen: &Seen, name: &str, pair: &Pair) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": seen.namespace}, "data": pair.data(),
    });
    objects::keep(plan, REASON, &Object::new(Site::Management, secret), &seen.current, &[]);
}

fn object<K>(of: &K) -> Object
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    Object::new(Site::Management, typed(of, &resource))
}
