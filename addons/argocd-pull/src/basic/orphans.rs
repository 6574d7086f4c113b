//! Deletes the ManifestWorks of Applications that are gone.
//!
//! Root: ManifestWork with the label of a pulled Application. Reads: the Application that its annotations name. Writes:
//! deletes it. Never: a work without the annotations.
//! Upstream: argocd-pull-integration `internal/controller/application_controller.go`, which looks for orphans at
//! intervals. Ours looks when a work or an Application changes; the interval is a safety net.

use std::{sync::Arc, time::Duration};

use ocm_addon_sdk::{
    kube::{self, Api, ResourceExt},
    ocm_api::work::ManifestWork,
    reconcile::{
        Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait,
        cache::{key_of, split_key},
        rbac::Right,
        segment::encoded,
    },
};

use super::{Pulled, hub_application};
use crate::{application::PulledApplication, words};

/// The reconciler.
pub struct OrphanedApplicationWorks {
    pulled: Pulled,
    interval: Duration,
}

/// What a plan is made from.
pub struct Seen {
    /// The work, if it is one of an Application.
    pub work: Option<Arc<ManifestWork>>,
    /// Whether that Application is there.
    pub has_application: bool,
    /// When to look again.
    pub interval: Duration,
}

impl OrphanedApplicationWorks {
    /// Over these caches; looks again after this time even if nothing happens.
    pub fn new(caches: &Caches, interval: Duration) -> Self {
        Self {
            pulled: Pulled::of(caches),
            interval,
        }
    }

    /// Asks the API server where the watch shows none: it may lag behind that of works.
    async fn has_application(&self, key: &str) -> Result<bool, ObserveError> {
        let (namespace, name) = split_key(key);
        if self.pulled.applications.get(namespace, name).is_some() {
            return Ok(true);
        }
        let Some(client) = self.pulled.client.clone() else {
            return Ok(false);
        };
        // Annotations are written by anybody; these would ask for a list.
        if namespace.is_empty() || name.is_empty() {
            return Ok(false);
        }
        let api: Api<PulledApplication> = Api::namespaced(client, &encoded(namespace));
        match api.get_metadata(&encoded(name)).await {
            Ok(_) => Ok(true),
            // Where even the kind is gone the answer is no Status.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl Reconciler for OrphanedApplicationWorks {
    const NAME: &'static str = "argocd-application-orphans";
    const RIGHTS: &'static [Right] = &[
        Right::new(
            ManifestWork::GROUP,
            "manifestworks",
            "delete",
            "The ManifestWork of an Application that is gone goes, too.",
        ),
        Right::new(
            PulledApplication::GROUP,
            "applications",
            "get",
            "Whether an Application is really gone.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let works = self.pulled.works.clone();
        watches
            .root(&self.pulled.works)
            .wakes(&self.pulled.applications, move |old, new| {
                let (Some(gone), None) = (old, new) else {
                    return Vec::new();
                };
                let key = key_of(gone);
                let all = works.list();
                let of_it = all.iter().filter(|it| hub_application(it).as_ref() == Some(&key));
                of_it.map(|it| key_of(&**it)).collect()
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let work = self.pulled.works.get(namespace, name);
        let is_it = |it: &Arc<ManifestWork>| it.labels().get(words::PULL).map(String::as_str) == Some("true");
        let work = work.filter(is_it);
        let application = work.as_deref().and_then(hub_application);
        let has_application = match &application {
            Some(key) => self.has_application(key).await?,
            None => false,
        };
        Ok(Seen {
            work: work.filter(|_| application.is_some()),
            has_application,
            interval: self.interval,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(work) = seen.work.as_deref() else {
            return plan;
        };
        if seen.has_application {
            plan.look_again(seen.interval);
        } else {
            plan.delete(Site::Hub, work);
        }
        plan
    }
}
