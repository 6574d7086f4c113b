//! The controller with the rights that it has where it is delivered, and no others.

use std::time::Duration;

use addon_cert_policy::{NAME, addon::CertPolicy};
use ocm_addon_sdk::{AddOn, AddOnContext, k8s_openapi::api::rbac::v1::PolicyRule, kube::Client};
use serde_json::json;
use testkit::site::Site;

use crate::ground::{APP, MANAGED, NEVER, World, certificate, put};

const OLD: &str = "NonCompliant; 1 certificates expire in less than 0s: app:old\n";
const COMPLIANT: &str = "Compliant; All evaluated certificates are compliant";

fn rights() -> Vec<PolicyRule> {
    let manifests = CertPolicy::default().manifests(&AddOnContext::new("c1", NAME)).unwrap();
    let roles = manifests
        .iter()
        .filter(|it| it["kind"] == "ClusterRole" || it["kind"] == "Role");
    let rules = roles.map(|it| serde_json::from_value::<Vec<PolicyRule>>(it["rules"].clone()).unwrap());
    rules.flatten().collect()
}

async fn agent_at(site: &Site, rules: &[PolicyRule]) -> Client {
    let user = site.user_with((MANAGED, "agent"), "agent", rules).await;
    Client::new(site.server.service(user), "default")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_manifests_are_enough() {
    let world = World::prepare().await;
    let agent = agent_at(&world.home, &rights()).await;
    world.run(agent.clone(), agent, NEVER);
    world.apply("p", json!({})).await;
    world.says("p", COMPLIANT).await;
    put(&world.home.client(), APP, "old", &certificate(-1)).await;
    world.says("p", OLD).await;
    world.events("Policy", 2).await;
    world.events("CertificatePolicy", 2).await;
}

/// Upstream's role: Secrets and namespaces are listed, and not watched.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_watch_secrets_lists_them_again() {
    let world = World::prepare().await;
    let mut rules = rights();
    for rule in &mut rules {
        if rule.resources.iter().flatten().any(|it| it == "secrets") {
            rule.verbs.retain(|it| it != "watch");
        }
    }
    let agent = agent_at(&world.home, &rules).await;
    world.run(agent.clone(), agent, Duration::from_millis(100));
    world.apply("p", json!({})).await;
    world.says("p", COMPLIANT).await;
    put(&world.home.client(), APP, "old", &certificate(-1)).await;
    world.says("p", OLD).await;
    put(&world.home.client(), APP, "old", &certificate(3600)).await;
    world.says("p", COMPLIANT).await;
}
