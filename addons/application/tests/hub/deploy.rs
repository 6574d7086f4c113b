//! The manifests of a hub, held against the code.

use std::collections::BTreeSet;

use addon_application::{
    NAME,
    addon::ApplicationManager,
    hub::{HubSettings, administrators::role_and_binding, controllers, webhook::PendingEvents},
};
use ocm_addon_sdk::{
    AddOn, AddOnContext, Grant,
    hub::{self, Options},
    k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule},
    ocm_api::addon::v1alpha1::ClusterManagementAddOn,
    reconcile::{Caches, Controller},
};
use serde_json::{Value, json};

use crate::ground::{RIGHTS, made_up_source};

const ADMINISTRATORS: &str = include_str!("../../deploy/administrators.yaml");
const OFFER: &str = include_str!("../../deploy/clustermanagementaddon.yaml");

/// Group, resource, verb, and name or nothing.
type Allowed = BTreeSet<[String; 4]>;

fn documents(text: &str) -> Vec<Value> {
    let all = text.split("\n---\n");
    all.map(|it| serde_saphyr::from_str(it).unwrap()).collect()
}

fn allowed<'a>(rules: impl IntoIterator<Item = &'a PolicyRule>) -> Allowed {
    let mut all = Allowed::new();
    for rule in rules {
        let names = rule.resource_names.clone().unwrap_or_else(|| vec![String::new()]);
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    let of = |name: &String| [group.clone(), resource.clone(), verb.clone(), name.clone()];
                    all.extend(names.iter().map(of));
                }
            }
        }
    }
    all
}

/// What controllers say they need, and looking at what they watch.
fn needed(all: &[Controller]) -> Vec<PolicyRule> {
    let looking = |it: &Controller| {
        let kinds = it.watches.iter().filter(|it| !it.plural.is_empty());
        let rules = kinds.map(|it| rule(&it.group, &it.plural, "get list watch", None));
        rules.collect::<Vec<_>>()
    };
    let rules = all
        .iter()
        .flat_map(|it| it.rights.iter().map(|it| it.rule()).chain(looking(it)));
    rules.collect()
}

fn rule(group: &str, resource: &str, verbs: &str, name: Option<&str>) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.split(' ').map(str::to_owned).collect(),
        resource_names: name.map(|it| vec![it.to_owned()]),
        ..PolicyRule::default()
    }
}

#[test]
fn the_role_of_the_program_is_what_it_needs() {
    let settings = HubSettings {
        reader: made_up_source(),
        sync_interval: std::time::Duration::from_secs(60),
        trusted_identities: false,
        own_namespace: None,
        events: PendingEvents::default(),
    };
    let mut rules = needed(&controllers(&Caches::unfed(), &settings));
    // What brings add-ons to clusters, but for what no agent of this one asks for: certificates of other signers, and
    // rights beyond the namespace of its cluster. Nobody gives more than he has, so that nothing is escalated.
    let mut of_add_ons = hub::controllers(&Caches::unfed(), Options::default());
    of_add_ons.retain(|it| it.name != "addon-csr-signing");
    rules.extend(needed(&of_add_ons));
    let (rbac, admission) = ("rbac.authorization.k8s.io", "admissionregistration.k8s.io");
    let certificates = "certificates.k8s.io";
    let is_needed = |it: &[String; 4]| {
        let beyond = it[1].starts_with("cluster") && ["create", "patch", "delete"].contains(&it[2].as_str());
        it[0] != rbac || !beyond && !["escalate", "bind"].contains(&it[2].as_str())
    };
    let mut wanted: Allowed = allowed(&rules).into_iter().filter(is_needed).collect();
    let any_signer = [certificates, "signers", "approve", ""].map(str::to_owned);
    assert!(wanted.remove(&any_signer));
    let configurations = "addon.open-cluster-management.io";
    let besides = [
        rule(
            certificates,
            "signers",
            "approve",
            Some("kubernetes.io/kube-apiserver-client"),
        ),
        rule(configurations, "addondeploymentconfigs", "get list watch", None),
        // Which hub it is.
        rule("", "namespaces", "get", None),
        // Its webhooks.
        rule(
            admission,
            "mutatingwebhookconfigurations",
            "patch",
            Some("identities.apps.open-cluster-management.io"),
        ),
        rule(
            admission,
            "validatingwebhookconfigurations",
            "get patch",
            Some("channels.apps.open.cluster.management.webhook.validator"),
        ),
        rule("authorization.k8s.io", "subjectaccessreviews", "create", None),
    ];
    wanted.extend(allowed(&besides));
    let place = AddOnContext::new("c1", NAME);
    for permission in ApplicationManager::default().hub_permissions(&place).unwrap() {
        let Grant::Rules { rules, .. } = permission.grant else {
            panic!("the agent has rules")
        };
        wanted.extend(allowed(&rules));
    }
    let role = documents(RIGHTS)
        .into_iter()
        .find(|it| it["kind"] == "ClusterRole")
        .unwrap();
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    let given = allowed(role.rules.iter().flatten());
    let missing: Vec<_> = wanted.difference(&given).collect();
    let superfluous: Vec<_> = given.difference(&wanted).collect();
    assert!(
        missing.is_empty() && superfluous.is_empty(),
        "missing {missing:#?}, superfluous {superfluous:#?}"
    );
}

#[test]
fn administrators_are_those_of_the_code() {
    assert_eq!(documents(ADMINISTRATORS), role_and_binding());
}

#[test]
fn the_offer_has_the_configurations_of_the_add_on() {
    let offer: ClusterManagementAddOn = serde_json::from_value(documents(OFFER).remove(0)).unwrap();
    assert_eq!(offer.metadata.name.as_deref(), Some(NAME));
    let offered: Vec<_> = offer
        .spec
        .supported_configs
        .iter()
        .map(|it| json!([it.group, it.resource]))
        .collect();
    let supported = ApplicationManager::default().supported_configs();
    let supported: Vec<_> = supported.iter().map(|it| json!([it.group, it.resource])).collect();
    assert_eq!(offered, supported);
}
