use kube::api::DynamicObject;
use ocm_api::{
    addon::v1alpha1::{AddOnDeploymentConfig, ConfigReference},
    annotations,
    condition::wanted,
};
use serde_json::{Value, json};

use super::*;
use crate::{ConfigKind, UserError, spec_hash, values::config};

/// One that is where its configuration says, and may be hosted.
struct Configured;

impl AddOn for Configured {
    fn name(&self) -> &str {
        "configured"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }

    fn hosted(&self, place: &AddOnContext) -> bool {
        config::of(place).is_ok()
    }
}

fn object(namespace: Value) -> DynamicObject {
    let object = json!({
        "metadata": {"name": "next", "namespace": "default", "resourceVersion": "1"},
        "spec": {"agentInstallNamespace": namespace},
    });
    serde_json::from_value(object).unwrap()
}

/// The add-on, which was in the namespace `hello` and hosted, after it was given the configuration `next`
/// with this hash.
fn given(hash: &str) -> ManagedClusterAddOn {
    let mut addon = ManagedClusterAddOn::new("configured", Default::default());
    addon.metadata.namespace = Some("cluster1".to_owned());
    addon.metadata.annotations = Some([(annotations::ADDON_HOSTING_CLUSTER.to_owned(), "host".to_owned())].into());
    let status = addon.status.get_or_insert_default();
    status.namespace = "hello".to_owned();
    status.config_references.push(ConfigReference {
        group: AddOnDeploymentConfig::GROUP.to_owned(),
        resource: AddOnDeploymentConfig::PLURAL.to_owned(),
        desired_config: Some(ConfigSpecHash {
            namespace: "default".to_owned(),
            name: "next".to_owned(),
            spec_hash: hash.to_owned(),
        }),
        ..ConfigReference::default()
    });
    let validity = wanted(
        managed_cluster_add_on::HOSTING_CLUSTER_VALIDITY,
        true,
        "Valid",
        String::new(),
    );
    condition::set(&mut status.conditions, validity, jiff::Timestamp::UNIX_EPOCH);
    addon
}

/// The namespace that the add-on is seen in, and whether it is seen hosted, where these are the configurations
/// of the hub.
fn seen(addon: ManagedClusterAddOn, configs: Vec<DynamicObject>) -> (String, bool) {
    let context = Context::holding([ManagedCluster::new("cluster1", Default::default())], [addon]);
    context.registry.add(Arc::new(Configured), false).unwrap();
    let kind = ConfigKind::of::<AddOnDeploymentConfig>();
    context.configs.hold(&kind, configs);
    let Look::Here(installed) = context.look("cluster1/configured") else {
        panic!("it is there");
    };
    let place = installed.place;
    (place.install_namespace, matches!(place.mode, Mode::Hosted(_)))
}

#[test]
fn an_add_on_keeps_its_namespace_until_its_configuration_settles() {
    let stays = ("hello".to_owned(), true);
    let next = object(json!("elsewhere"));
    assert_eq!(seen(given(""), vec![next.clone()]), stays);
    assert_eq!(seen(given("of another state"), vec![next.clone()]), stays);
    let hash = spec_hash::of(&next.data);
    assert_eq!(seen(given(&hash), vec![next]), ("elsewhere".to_owned(), true));
}

#[test]
fn an_add_on_keeps_its_namespace_when_its_author_fails() {
    let unreadable = object(json!(1));
    let hash = spec_hash::of(&unreadable.data);
    assert_eq!(seen(given(&hash), vec![unreadable]).0, "hello");
    // Or when there is no such configuration.
    assert_eq!(seen(given(""), Vec::new()), ("hello".to_owned(), true));
    // One that says nothing about it leaves it to the ManagedClusterAddOn.
    let silent = object(json!(""));
    let hash = spec_hash::of(&silent.data);
    assert_eq!(seen(given(&hash), vec![silent]).0, namespaces::AGENT_ADDON);
}

#[test]
fn an_add_on_knows_the_companions_on_its_cluster() {
    struct Accompanied;
    impl AddOn for Accompanied {
        fn name(&self) -> &str {
            "accompanied"
        }
        fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
            Ok(Vec::new())
        }
        fn companions(&self) -> &[&str] {
            &["guest", "other"]
        }
    }
    let on = |name: &str, cluster: &str| {
        let mut addon = ManagedClusterAddOn::new(name, Default::default());
        addon.metadata.namespace = Some(cluster.to_owned());
        addon
    };
    let guest = on("guest", "cluster1");
    let context = Context::holding(
        [ManagedCluster::new("cluster1", Default::default())],
        [on("accompanied", "cluster1"), guest.clone(), on("other", "cluster2")],
    );
    context.registry.add(Arc::new(Accompanied), false).unwrap();
    let Look::Here(installed) = context.look("cluster1/accompanied") else {
        panic!("it is there");
    };
    assert!(installed.place.is_with("guest") && !installed.place.is_with("other"));
    let woken = and_companions(&context.registry, &guest);
    assert_eq!(woken, ["cluster1/guest", "cluster1/accompanied"]);
}

#[test]
fn cluster_registry_and_version_changes_reconcile_the_add_on() {
    let registry = Registry::default();
    registry.add(Arc::new(Configured), false).unwrap();
    let cluster = ManagedCluster::new("cluster1", Default::default());
    let is_looked_at = |change: fn(&mut ManagedCluster)| {
        let mut changed = cluster.clone();
        change(&mut changed);
        concerns(|| registry.get("configured"), Some(&cluster), Some(&changed))
    };
    assert!(is_looked_at(|it| {
        let registries = r#"{"registries":[{"source":"quay.io","mirror":"mirror.example.com"}]}"#;
        let annotation = (annotations::IMAGE_REGISTRIES.to_owned(), registries.to_owned());
        it.metadata.annotations = Some([annotation].into());
    }));
    assert!(is_looked_at(|it| {
        it.status.get_or_insert_default().version.kubernetes = "v1.34.1".to_owned();
    }));
    assert!(is_looked_at(|it| it.spec.hub_accepts_client = true));
    // A heartbeat, and what the hub writes on a cluster for other add-ons, are nothing to it.
    assert!(!is_looked_at(|it| {
        it.metadata.labels = Some(
            [(
                "feature.open-cluster-management.io/addon-a".to_owned(),
                "available".to_owned(),
            )]
            .into(),
        );
    }));
    assert!(!is_looked_at(|_| {}));
}
