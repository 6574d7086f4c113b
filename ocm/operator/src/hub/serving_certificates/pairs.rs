//! The certificates that are there, and those that were made in a run.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use ocm_reconcile::{Done, Outcome, Plan, Site, Step, plan::typed};
use serde_json::json;

use super::{
    super::{
        Options,
        certificates::{BUNDLE, BUNDLE_KEY, Pair, SIGNER},
        webhooks,
    },
    REASON,
};
use crate::{
    Layout,
    objects::{self, Current, WantedObject, target},
};

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub(super) now: Timestamp,
    /// What the operator was told.
    pub(super) options: Arc<Options>,
    /// The namespace of the hub; `None` when there is nothing to keep.
    pub(super) namespace: Option<String>,
    /// The ClusterManager's name.
    pub(super) name: String,
    /// What is there.
    pub(super) current: Current,
    /// What was made in this run, by the name of the Secret.
    pub(super) made: BTreeMap<String, Pair>,
}

impl Seen {
    /// What a Secret holds.
    pub(super) fn pair(&self, secret: &str) -> Option<Pair> {
        let namespace = self.namespace.as_deref()?;
        let found = self
            .current
            .get(&target(Site::Management, "Secret", Some(namespace), secret))?;
        serde_json::from_value::<Secret>(found.clone())
            .ok()
            .map(|it| Pair::of(&it))
    }

    /// The authorities that are trusted.
    pub(super) fn bundle(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let found = self
            .current
            .get(&target(Site::Management, "ConfigMap", Some(namespace), BUNDLE));
        let text = found.and_then(|it| it["data"][BUNDLE_KEY].as_str());
        text.unwrap_or_default().to_owned()
    }

    /// The authority, if there is one that still signs.
    pub(super) fn signer(&self) -> Option<Pair> {
        let of_today = self.made.get(SIGNER).cloned();
        let is_well = |it: &Pair| it.signer_is_due(self.options.certificates.signer, self.now).is_none();
        of_today.or_else(|| self.pair(SIGNER).filter(is_well))
    }

    /// The Secrets of webhooks, with the names that they are for.
    pub(super) fn targets(&self) -> Vec<(&'static str, Vec<String>)> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        webhooks::certificates(namespace, self.options.layout == Layout::Compact)
    }
}

/// What was made in a round, by the name of the Secret.
pub(super) fn made(outcome: &Outcome) -> impl Iterator<Item = (String, Pair)> + '_ {
    outcome.results().filter_map(|(step, result)| match (step, result) {
        (Step::Own(own), Ok(Done::Object(object))) => {
            let secret = (**object).clone().try_parse::<Secret>().ok()?;
            Some((own.what.clone(), Pair::of(&secret)))
        }
        _ => None,
    })
}

/// Keeps a Secret with a certificate.
pub(super) fn keep_pair(plan: &mut Plan, seen: &Seen, name: &str, pair: &Pair) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": seen.namespace}, "data": pair.data(),
    });
    objects::keep(
        plan,
        REASON,
        &WantedObject::new(Site::Management, secret),
        &seen.current,
        &[],
    );
}

/// An object as a plan compares it.
pub(super) fn object<K>(of: &K) -> WantedObject
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    WantedObject::new(Site::Management, typed(of, &resource))
}
