//! Certificates come, expire and are renewed, and policies say so.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{Namespace, Secret},
    kube::{
        Api,
        api::{Patch, PatchParams},
    },
    reconcile::metrics,
};
use serde_json::json;
use testkit::{site::Site, wait};

use crate::{
    ground::{APP, GROUP, MANAGED, NEVER, World, certificate, delete, everything_said, messages, namespace, put},
    made::{Made, pem},
};

const DAY: i64 = 24 * 3600;
const COMPLIANT: &str = "Compliant; All evaluated certificates are compliant";

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_expires_soon_is_told_to_the_owner() {
    let world = World::start().await;
    put(&world.home.client(), APP, "front", &certificate(DAY)).await;
    world.apply("p", json!({"minimumDuration": "100h"})).await;
    let message = "NonCompliant; 1 certificates expire in less than 100h0m0s: app:front\n";
    let policy = world.says("p", message).await;
    let status = policy.status.unwrap();
    assert_eq!(status.compliant, "NonCompliant");
    let found = &status.compliancy_details[APP];
    assert_eq!(found.non_compliant_certificates, 1);
    let expiration = &found.non_compliant_certificates_list["front"].expiration;
    assert_eq!(
        found.message,
        format!(
            "Found 1 non compliant certificates in the namespace app.\nList of non compliant certificates:\n\
             front expires on {expiration}\n"
        )
    );
    let event = world.events("Policy", 1).await.remove(0);
    assert_eq!(event.message.as_deref(), Some(message));
    assert_eq!(event.reason.as_deref(), Some("policy: managed/p"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.action.as_deref(), Some("ComplianceStateUpdate"));
    assert_eq!(event.involved_object.uid.as_deref(), Some("1-2-3"));
    assert_eq!(
        event.reporting_component.as_deref(),
        Some("certificate-policy-controller")
    );
    assert!(event.metadata.name.unwrap().starts_with("p."));
    let related = event.related.unwrap();
    assert_eq!(related.kind.as_deref(), Some("CertificatePolicy"));
    assert_eq!(related.api_version, Some(format!("{GROUP}/v1")));
    let remark = world.events("CertificatePolicy", 1).await.remove(0);
    assert_eq!(remark.reason.as_deref(), Some("PolicyUpdate"));
    assert_eq!(
        remark.message.as_deref(),
        Some("NonCompliant; Non-compliant certificates in app[1]: [front, front]")
    );

    // It is renewed.
    put(&world.home.client(), APP, "front", &certificate(30 * DAY)).await;
    let policy = world.says("p", COMPLIANT).await;
    assert_eq!(messages(&policy), [COMPLIANT, message]);
    assert_eq!(policy.status.unwrap().compliant, "Compliant");
    let told = world.events("Policy", 2).await;
    assert_eq!(told[1].message.as_deref(), Some(COMPLIANT));
    assert_eq!(told[1].type_.as_deref(), Some("Normal"));
    let said = everything_said(&world.home.client()).await;
    assert!(!said.contains("private") && !said.contains("BEGIN"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_is_seen_at_once() {
    let world = World::start().await;
    world.apply("p", json!({})).await;
    world.says("p", COMPLIANT).await;
    put(&world.home.client(), APP, "old", &certificate(-DAY)).await;
    let message = "NonCompliant; 1 certificates expire in less than 0s: app:old\n";
    world.says("p", message).await;
    // One more of another namespace is none of its business.
    put(&world.home.client(), MANAGED, "old", &certificate(-DAY)).await;
    let secrets: Api<Secret> = Api::namespaced(world.home.client(), APP);
    delete(&secrets, "old").await;
    let policy = world.says("p", COMPLIANT).await;
    assert_eq!(messages(&policy), [COMPLIANT, message, COMPLIANT]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_wakes_its_policy_when_it_expires() {
    let world = World::start().await;
    put(&world.home.client(), APP, "front", &certificate(3)).await;
    world.apply("p", json!({})).await;
    let message = "NonCompliant; 1 certificates expire in less than 0s: app:front\n";
    world.says("p", message).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_that_come_and_change_are_selected() {
    let world = World::start().await;
    let client = world.home.client();
    let selector = json!({"namespaceSelector": {"matchLabels": {"tier": "web"}}});
    world.apply("p", selector).await;
    let none = "Compliant; No namespaces matched the namespace selector.";
    let policy = world.says("p", none).await;
    let details = policy.status.unwrap().compliancy_details;
    assert_eq!(
        details[""].message,
        "Found 0 non compliant certificates, no namespaces were selected.\n"
    );
    namespace(&client, "web").await;
    put(&client, "web", "old", &certificate(-DAY)).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"tier": "web"}}}));
    namespaces.patch("web", &PatchParams::default(), &label).await.unwrap();
    let policy = world
        .says("p", "NonCompliant; 1 certificates expire in less than 0s: web:old\n")
        .await;
    let details = policy.status.unwrap().compliancy_details;
    assert_eq!(details.keys().collect::<Vec<_>>(), ["web"]);
    let label = Patch::Merge(json!({"metadata": {"labels": {"tier": null}}}));
    namespaces.patch("web", &PatchParams::default(), &label).await.unwrap();
    let policy = world.says("p", none).await;
    assert_eq!(
        policy.status.unwrap().compliancy_details.keys().collect::<Vec<_>>(),
        [""]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_controller_looks_at_another_cluster() {
    let world = World::prepare().await;
    let target = Site::start().await.unwrap();
    namespace(&target.client(), APP).await;
    world.run(world.home.client(), target.client(), NEVER);
    put(&world.home.client(), APP, "here", &certificate(-DAY)).await;
    put(&target.client(), APP, "there", &certificate(-DAY)).await;
    world.apply("p", json!({})).await;
    world
        .says("p", "NonCompliant; 1 certificates expire in less than 0s: app:there\n")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_of_the_cluster_alone_are_judged_too() {
    let world = World::start().await;
    let client = world.home.client();
    world.apply("p", json!({})).await;
    world.says("p", COMPLIANT).await;
    let alone = "open-cluster-management-policies";
    namespace(&client, alone).await;
    let policy = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "CertificatePolicy",
        "metadata": {"name": "own", "namespace": alone}, "spec": {"namespaceSelector": {"include": [APP]}},
    });
    world.home.apply(&policy.to_string()).await;
    let api = world.home.api(&format!("{GROUP}/v1"), "CertificatePolicy", alone).await;
    wait::until_with(&api, "own", "is compliant", |it| {
        it.is_some_and(|it| it.data["status"]["compliant"] == "Compliant")
    })
    .await;
    // The others are still there.
    put(&client, APP, "old", &certificate(-DAY)).await;
    world
        .says("p", "NonCompliant; 1 certificates expire in less than 0s: app:old\n")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_the_state_away_is_told_again() {
    let world = World::start().await;
    world.apply("p", json!({})).await;
    world.says("p", COMPLIANT).await;
    let remove = Patch::Merge(json!({"status": {"compliant": null}}));
    let api = world.policies();
    api.patch_status("p", &PatchParams::default(), &remove).await.unwrap();
    let policy = wait::until(&api, "p", "says it twice", |it| {
        it.is_some_and(|it| messages(it).len() == 2)
    })
    .await;
    assert_eq!(messages(&policy.unwrap()), [COMPLIANT, COMPLIANT]);
    world.events("Policy", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_messages_are_remembered() {
    let world = World::start().await;
    let client = world.home.client();
    world.apply("p", json!({"disallowedSANPattern": "bad"})).await;
    world.says("p", COMPLIANT).await;
    let (good, bad) = (["a.example"], ["bad.example"]);
    let made = |names| {
        pem(&Made {
            from: 0,
            until: 9_000_000_000,
            ca: false,
            names,
        })
    };
    for _ in 0..6 {
        put(&client, APP, "s", &made(&bad)).await;
        world
            .says(
                "p",
                "NonCompliant;  1 certificates defined SAN entries do not match pattern  Disallowed: bad: app:s\n",
            )
            .await;
        put(&client, APP, "s", &made(&good)).await;
        world.says("p", COMPLIANT).await;
    }
    let policy = world.policies().get("p").await.unwrap();
    assert_eq!(messages(&policy).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_a_metric_until_the_policy_goes() {
    let world = World::start().await;
    put(&world.home.client(), APP, "old", &certificate(-DAY)).await;
    world.apply("measured", json!({})).await;
    world
        .says(
            "measured",
            "NonCompliant; 1 certificates expire in less than 0s: app:old\n",
        )
        .await;
    let line = r#"cluster_policy_governance_info{kind="CertificatePolicy",policy="measured",policy_namespace="managed",severity="low"} 1"#;
    assert!(metrics::text().contains(line), "{}", metrics::text());
    delete(&world.policies(), "measured").await;
    wait_for(|| !metrics::text().contains("measured")).await;
}

/// Waits for what is in the memory of this process.
async fn wait_for(holds: impl Fn() -> bool) {
    let state = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(wait::PATIENCE, state).await.unwrap();
}
