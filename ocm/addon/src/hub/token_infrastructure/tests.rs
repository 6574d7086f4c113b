use futures::FutureExt;
use k8s_openapi::api::core::v1::ServiceAccount;
use ocm_reconcile::{Clients, Done, execute};
use serde_json::{Value, json};

use super::{
    objects::{binding, metadata, role},
    *,
};

fn addon(driver: Option<&str>, conditions: Value) -> ManagedClusterAddOn {
    let mut status = json!({
        "registrations": [{"signerName": "kubernetes.io/kube-apiserver-client"}], "conditions": conditions,
    });
    if let Some(driver) = driver {
        status["kubeClientDriver"] = json!(driver);
    }
    let addon = json!({"metadata": {"name": "a", "namespace": "cluster1", "uid": "u1"}, "spec": {}, "status": status});
    serde_json::from_value(addon).unwrap()
}

fn seen(addon: Option<ManagedClusterAddOn>) -> Seen {
    Seen {
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        addon: addon.map(Arc::new),
        is_let_in: true,
        objects: TokenObjects::default(),
        met: false,
    }
}

fn with_objects(addon: &ManagedClusterAddOn) -> Seen {
    let mut account = ServiceAccount {
        metadata: metadata(addon, "a-agent".to_owned()),
        ..ServiceAccount::default()
    };
    account.metadata.uid = Some("u2".to_owned());
    Seen {
        objects: TokenObjects {
            service_account: Some(Arc::new(account)),
            role: Some(Arc::new(role(addon))),
            role_binding: Some(Arc::new(binding(addon))),
        },
        ..seen(Some(addon.clone()))
    }
}

fn printed(seen: &Seen) -> String {
    TokenInfrastructure::plan(seen).to_string().trim().to_owned()
}

fn ready() -> Value {
    json!([{
        "type": "TokenInfrastructureReady", "status": "True", "reason": "TokenInfrastructureReady",
        "message": "ServiceAccount cluster1/a-agent (UID: u2) is ready", "lastTransitionTime": "2026-01-01T12:00:00Z",
    }])
}

#[test]
fn a_token_agent_gets_a_service_account_and_token_role() {
    let addon = addon(Some("token"), json!([]));
    assert_eq!(
        printed(&seen(Some(addon.clone()))),
        "hub: create ServiceAccount cluster1/a-agent\nhub: create Role cluster1/a-token-role\n\
         hub: create RoleBinding cluster1/a-token-role\nwaits: the objects are being made"
    );
    assert_eq!(
        serde_json::to_value(role(&addon)).unwrap()["rules"],
        json!([
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["a-agent"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["subscribe"]},
        ])
    );
    let names: Vec<_> = binding(&addon)
        .subjects
        .unwrap()
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(
        names,
        [
            "system:open-cluster-management:cluster1",
            "open-cluster-management:cluster1"
        ]
    );
}

#[test]
fn the_agent_reads_the_accounts_uid_in_the_condition() {
    let plan = TokenInfrastructure::plan(&with_objects(&addon(Some("token"), json!([]))));
    let wanted = json!({"status": {"conditions": ready()}, "metadata": {"uid": "u1"}});
    assert_eq!(
        format!("{plan:#}").trim(),
        format!(
            "hub: patch ManagedClusterAddOn cluster1/a status {}",
            json!({"status": wanted["status"]})
        )
    );
    assert_eq!(printed(&with_objects(&addon(Some("token"), ready()))), "nothing to do");
}

#[test]
fn an_extra_permission_is_removed() {
    let addon = addon(Some("token"), ready());
    let mut seen = with_objects(&addon);
    let mut wide = role(&addon);
    wide.rules.as_mut().unwrap()[0].resource_names = None;
    seen.objects.role = Some(Arc::new(wide));
    assert_eq!(
        printed(&seen),
        "hub: patch Role cluster1/a-token-role\nwaits: the objects are being made"
    );
}

#[test]
fn token_infrastructure_is_deleted_when_no_token_is_used() {
    let all = "hub: delete RoleBinding cluster1/a-token-role\nhub: delete Role cluster1/a-token-role\nhub: delete ServiceAccount cluster1/a-agent";
    let gone = Seen {
        addon: None,
        ..with_objects(&addon(Some("token"), ready()))
    };
    assert_eq!(printed(&gone), all);
    let changed = with_objects(&addon(Some("csr"), ready()));
    let stages = all.replace("hub: delete RoleBinding", "stage 1\nhub: delete RoleBinding");
    assert_eq!(
        printed(&changed),
        format!("{stages}\nstage 2\nhub: patch ManagedClusterAddOn cluster1/a status")
    );
    assert_eq!(printed(&seen(Some(addon(Some("csr"), json!([]))))), "nothing to do");
}

#[test]
fn a_foreign_service_account_is_reported_and_not_taken_over() {
    let addon = addon(Some("token"), json!([]));
    let mut seen = seen(Some(addon));
    let plan = TokenInfrastructure::plan(&seen);
    let mut outcome = execute(&Clients::default(), &plan).now_or_never().unwrap();
    outcome.stages = vec![vec![Ok(Done::AlreadyExists), Ok(Done::Performed), Ok(Done::Performed)]];
    // At first the watch may just be late.
    let first = TokenInfrastructure::conclude(&seen, &outcome);
    assert!(first.is_empty() && first.again == Some(UNSEEN_AGAIN), "{first}");
    seen.met = true;
    let told = format!("{:#}", TokenInfrastructure::conclude(&seen, &outcome));
    assert!(
        told.contains(
            "Failed to apply token infrastructure: ServiceAccount cluster1/a-agent is there already and was not made for the \
             add-on; remove it, or label it"
        ),
        "{told}"
    );
}

#[test]
fn a_denied_or_deleted_cluster_loses_its_accounts_and_tokens() {
    let addon = addon(Some("token"), ready());
    let denied = Seen {
        is_let_in: false,
        ..with_objects(&addon)
    };
    let plan = printed(&denied);
    for gone in [
        "RoleBinding cluster1/a-token-role",
        "Role cluster1/a-token-role",
        "ServiceAccount cluster1/a-agent",
    ] {
        assert!(plan.contains(&format!("delete {gone}")), "{plan}");
    }
    let cluster = |spec: Value, deleted: Value| {
        let it = json!({"metadata": {"name": "cluster1", "deletionTimestamp": deleted}, "spec": spec});
        is_let_in(Some(&serde_json::from_value(it).unwrap()))
    };
    assert!(cluster(json!({"hubAcceptsClient": true}), Value::Null));
    assert!(!cluster(json!({"hubAcceptsClient": false}), Value::Null));
    assert!(!cluster(
        json!({"hubAcceptsClient": true}),
        json!("2026-01-01T00:00:00Z")
    ));
    assert!(!is_let_in(None));
}
