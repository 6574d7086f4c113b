//! Tells ClusterProfiles how their clusters are reached by the user-server (feature gate ClusterProfile).
//!
//! Root: ClusterProfile. Reads: the ManagedProxyConfiguration `cluster-proxy` and the certificate of the user-server.
//! Writes: the entry `open-cluster-management` of `status.accessProviders`. Never: another entry.
//! Upstream: cluster-proxy `pkg/proxyserver/controllers/clusterprofile_controller.go`.

use std::{sync::Arc, time::Duration};

use ocm_addon_sdk::{
    k8s_openapi::{ByteString, api::core::v1::Secret},
    kube::{Client, ResourceExt, core::PartialObjectMeta, runtime::watcher},
    ocm_api::{
        multicluster::{AccessProvider, ClusterProfile, ConnectionTarget, NamedExtension},
        proxy::ManagedProxyConfiguration,
    },
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait,
        cache::{Watching, key_of, split_key},
    },
};
use serde_json::json;

use super::{CONFIGURATION, HubOptions, USER_SERVER, USER_SERVER_SECRET, read, value};

/// The entry of ours.
const PROVIDER: &str = "open-cluster-management";
/// On the ClusterProfiles of OCM.
const MANAGER: (&str, &str) = ("x-k8s.io/cluster-manager", "open-cluster-management");
/// On a ClusterProfile: whose it is.
const CLUSTER: &str = "open-cluster-management.io/cluster-name";
/// What is missing is looked for again.
const AGAIN: Duration = Duration::from_secs(60);

/// The reconciler.
pub struct AccessProviders {
    profiles: Cache<ClusterProfile>,
    configurations: Cache<ManagedProxyConfiguration>,
    secrets: Cache<PartialObjectMeta<Secret>>,
    client: Option<Client>,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// The ClusterProfile, if it is one of ours.
    pub profile: Option<Arc<ClusterProfile>>,
    /// Its entry, when there is what it needs.
    pub provider: Option<AccessProvider>,
}

impl AccessProviders {
    /// Over these caches.
    pub fn new(caches: &Caches, options: Arc<HubOptions>) -> Self {
        let named = Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={USER_SERVER_SECRET}")),
            ..Watching::default()
        };
        Self {
            profiles: caches.of(),
            configurations: caches.of(),
            secrets: caches.in_namespace(&options.namespace, named),
            client: caches.client().cloned(),
        }
    }
}

#[async_trait]
impl Reconciler for AccessProviders {
    const NAME: &'static str = "cluster-proxy-access-providers";
    const STATUS: &'static [StatusField] =
        &[StatusField::new("ClusterProfile", "accessProviders").shared("each author has an entry of its own")];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let all = self.profiles.clone();
        let every = move || all.list().iter().map(|it| key_of(&**it)).collect::<Vec<_>>();
        let of_secret = every.clone();
        watches
            .root(&self.profiles)
            .wakes(&self.configurations, move |_, _| every())
            .wakes(&self.secrets, move |_, _| of_secret());
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let Some(profile) = self.profiles.get(namespace, name).filter(|it| is_ours(it)) else {
            return Ok(Seen::default());
        };
        let mut seen = Seen {
            profile: Some(profile),
            provider: None,
        };
        let Some(configuration) = self.configurations.get("", CONFIGURATION) else {
            return Ok(seen);
        };
        let namespace = &configuration.spec.proxy_server.namespace;
        let secret = read::<Secret>(self.client.as_ref(), namespace, USER_SERVER_SECRET).await?;
        let ca = secret
            .map(|it| value(&it, "tls.crt").to_vec())
            .filter(|it| !it.is_empty());
        seen.provider = ca.map(|ca| provider(name, namespace, ca));
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.profile.is_some() && seen.provider.is_none() {
            plan.wait(format!(
                "there is no ManagedProxyConfiguration {CONFIGURATION}, or its Secret {USER_SERVER_SECRET} is missing"
            ));
            plan.look_again(AGAIN);
        }
        plan
    }

    fn conclude(seen: &Seen, _: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let (Some(profile), Some(provider)) = (&seen.profile, &seen.provider) else {
            return plan;
        };
        let mut new = (**profile).clone();
        let all = &mut new.status.get_or_insert_default().access_providers;
        match all.iter_mut().find(|it| it.name == PROVIDER) {
            Some(it) => *it = provider.clone(),
            None => all.push(provider.clone()),
        }
        plan.status(Site::Hub, &**profile, &new);
        plan
    }
}

fn is_ours(profile: &ClusterProfile) -> bool {
    let labels = profile.labels();
    labels.get(MANAGER.0).map(String::as_str) == Some(MANAGER.1) && labels.contains_key(CLUSTER)
}

fn provider(cluster: &str, namespace: &str, ca: Vec<u8>) -> AccessProvider {
    AccessProvider {
        name: PROVIDER.to_owned(),
        cluster: ConnectionTarget {
            server: format!("https://{USER_SERVER}.{namespace}:9092/{cluster}"),
            certificate_authority_data: Some(ByteString(ca)),
            extensions: vec![NamedExtension {
                name: "client.authentication.k8s.io/exec".to_owned(),
                extension: json!({"clusterName": cluster}).into(),
            }],
            ..ConnectionTarget::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_how_its_cluster_is_reached() {
        let said = serde_json::to_value(provider("c1", "ns", b"pem".to_vec())).unwrap();
        assert_eq!(
            said,
            json!({
                "name": "open-cluster-management",
                "cluster": {
                    "server": "https://cluster-proxy-addon-user.ns:9092/c1",
                    "certificate-authority-data": "cGVt",
                    "extensions": [{
                        "name": "client.authentication.k8s.io/exec",
                        "extension": {"clusterName": "c1"},
                    }],
                },
            })
        );
    }
}
