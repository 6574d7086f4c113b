//! Keeps the certificates of webhooks.
//!
//! Root: ClusterManager. Reads: the Secrets `signer-secret` and `*-webhook-serving-cert`, and the ConfigMap
//! `ca-bundle-configmap` of its namespace. Writes: these, and the namespace when it is missing. Never: what another
//! ClusterManager owns, and anything while the ClusterManager is being deleted.
//! Upstream: ocm `pkg/operator/operators/clustermanager/controllers/certrotationcontroller`.

mod pairs;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{Api, Client};
use ocm_api::operator::ClusterManager;
use ocm_reconcile::{
    Cache, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, Site, StepError, Watches, async_trait, rbac::Right,
};
use serde_json::json;

use self::pairs::{Seen, keep_pair, made, object};
use super::{
    Options,
    caches::HubCaches,
    certificates::{self, BUNDLE, BUNDLE_KEY, Pair, SIGNER},
    owner,
    wanted::{self, CREATED_BY},
};
use crate::objects::{self, Current, WantedObject};

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

impl ServingCertificates {
    /// Over these caches.
    pub fn new(client: Client, sources: &HubCaches, options: Arc<Options>) -> Self {
        Self {
            client,
            managers: sources.managers.clone(),
            secrets: sources.certificates.clone(),
            bundles: sources.bundles.clone(),
            options,
        }
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
            "get list watch patch delete",
            "The same, when they change.",
        )
        .only("signer-secret registration-webhook-serving-cert work-webhook-serving-cert addon-webhook-serving-cert"),
        Right::new("", "configmaps", "create", "The authorities that are trusted."),
        Right::new("", "configmaps", "list watch patch", "The same, when they change.").only(BUNDLE),
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
        let place = WantedObject::new(
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
            &WantedObject::new(Site::Management, bundle),
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
