use credential::{csr::new_key_and_request, enrol::Pending, hub_secret::Data};
use futures::FutureExt;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::identity;
use ocm_reconcile::{Clients, execute};
use serde_json::{Value, json};

use super::{
    super::{credential_action::RequestUnderWay, lookup::account},
    *,
};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn addon(extra: &Value) -> ManagedClusterAddOn {
    let mut object = json!({
        "metadata": {"name": "helloworld", "namespace": "cluster1", "uid": "u", "resourceVersion": "7"},
        "spec": {},
        "status": {
            "namespace": "home",
            "kubeClientDriver": "csr",
            "registrations": [{
                "signerName": "kubernetes.io/kube-apiserver-client",
                "subject": {"user": "user", "groups": ["group"]},
            }],
        },
    });
    json_patch_merge(&mut object, extra);
    serde_json::from_value(object).unwrap()
}

/// One for which the hub has made a ServiceAccount.
fn with_account() -> ManagedClusterAddOn {
    addon(&json!({"status": {"conditions": [{
        "type": "TokenInfrastructureReady", "status": "True", "reason": "TokenInfrastructureReady",
        "message": "ServiceAccount cluster1/helloworld-agent (UID: u1) is ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}}))
}

fn json_patch_merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                json_patch_merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn secret(namespace: &str, name: &str) -> Arc<Secret> {
    let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": "s"}});
    Arc::new(serde_json::from_value(object).unwrap())
}

fn credential(addon: &ManagedClusterAddOn, driver: KubeClientDriver) -> CredentialState {
    let registration = registrations(addon, "helloworld", "cluster1", driver).remove(0);
    CredentialState {
        additional: Data::from([("cluster-name".to_owned(), b"cluster1".to_vec())]),
        fresh: Some(new_key_and_request(&registration.subject).unwrap()),
        registration,
        secret: None,
        pending: None,
        requests: Some(0),
        account: account(addon),
        token: None,
        namespace_is_missing: Some(false),
        known_good: None,
        hindrance: None,
    }
}

fn seen(addon: Option<ManagedClusterAddOn>) -> Seen {
    Seen {
        now: now(),
        threshold: 0.2,
        token_seconds: 3600,
        lease_grace: Duration::from_secs(300),
        cluster: "cluster1".to_owned(),
        name: "helloworld".to_owned(),
        is_here: addon.is_some(),
        driver: Some(KubeClientDriver::Csr),
        lease: SeenLease::Unread,
        secrets: Vec::new(),
        former: Vec::new(),
        credentials: Vec::new(),
        addon: addon.map(Arc::new),
    }
}

fn lease(renewed: &str) -> SeenLease {
    SeenLease::Found(Arc::new(
        serde_json::from_value(json!({"spec": {"renewTime": renewed}})).unwrap(),
    ))
}

fn plan(seen: &Seen) -> String {
    AddOnAgents::plan(seen).to_string().trim().to_owned()
}

/// What came of the plan, whose steps had these results.
fn outcome(seen: &Seen, stages: Vec<Vec<Result<Done, StepError>>>) -> Outcome {
    let plan = AddOnAgents::plan(seen);
    let mut outcome = execute(&Clients::default(), &plan).now_or_never().unwrap();
    outcome.stages = stages;
    outcome
}

fn forbidden() -> Result<Done, StepError> {
    let status = json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
    let status: Box<kube::core::Status> = serde_json::from_value(status).unwrap();
    Err(kube::Error::Api(status).into())
}

fn conclusion(seen: &Seen) -> String {
    let plan = AddOnAgents::conclude(seen, &outcome(seen, Vec::new()));
    format!("{plan:#}").trim().to_owned()
}

#[test]
fn a_registration_requests_a_certificate_in_upstreams_format() {
    let addon = addon(&json!({}));
    let mut seen = seen(Some(addon.clone()));
    seen.credentials = vec![credential(&addon, KubeClientDriver::Csr)];
    assert_eq!(
        plan(&seen),
        "hub: create CertificateSigningRequest (generated)\nnote: there is no client certificate"
    );
    let plan = AddOnAgents::plan(&seen);
    let ocm_reconcile::Step::Create { object, .. } = &plan.stages[0][0] else {
        panic!("{plan}")
    };
    let request: CertificateSigningRequest = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(
        request.metadata.generate_name.as_deref(),
        Some("addon-cluster1-helloworld-")
    );
    assert_eq!(
        serde_json::to_value(&request.metadata.labels).unwrap(),
        json!({
            "open-cluster-management.io/addon-name": "helloworld",
            "open-cluster-management.io/cluster-name": "cluster1",
        })
    );
    assert_eq!(request.spec.signer_name, "kubernetes.io/kube-apiserver-client");
    assert_eq!(
        request.spec.usages.unwrap(),
        ["digital signature", "key encipherment", "client auth"]
    );
    assert_eq!(request.spec.expiration_seconds, None);
}

#[test]
fn too_many_requests_on_the_hub_stop_further_requests() {
    let addon = addon(&json!({}));
    let mut seen = seen(Some(addon.clone()));
    seen.credentials = vec![CredentialState {
        requests: Some(10),
        ..credential(&addon, KubeClientDriver::Csr)
    }];
    assert!(
        plan(&seen).starts_with("nothing to do\nrefuses: Stop creating csr"),
        "{}",
        plan(&seen)
    );
    let said = conclusion(&seen);
    assert!(said.contains("\"reason\":\"ClientCertificateUpdateFailed\""), "{said}");
    assert!(
        said.contains("\"message\":\"Stop creating csr since there are too many csr created already on hub\""),
        "{said}"
    );
}

#[test]
fn a_live_agent_is_available_and_rechecked_at_lease_expiry() {
    let mut seen = seen(Some(addon(&json!({}))));
    seen.lease = lease("2026-01-02T03:04:00.000000Z");
    assert_eq!(
        conclusion(&seen),
        "hub: patch ManagedClusterAddOn cluster1/helloworld status {\"status\":{\"conditions\":[{\"lastTransitionTime\":\
         \"2026-01-02T03:04:05Z\",\"message\":\"helloworld add-on is available.\",\"reason\":\
         \"ManagedClusterAddOnLeaseUpdated\",\"status\":\"True\",\"type\":\"Available\"}]}}\nagain in 295s"
    );
}

#[test]
fn an_unchanged_condition_is_not_written_again() {
    let said = json!({"status": {"conditions": [{
        "type": "Available", "status": "True", "reason": "ManagedClusterAddOnLeaseUpdated",
        "message": "helloworld add-on is available.", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let mut seen = seen(Some(addon(&said)));
    seen.lease = lease("2026-01-02T03:04:00.000000Z");
    assert_eq!(conclusion(&seen), "nothing to do\nagain in 295s");
}

#[test]
fn the_first_status_names_the_driver() {
    let seen = seen(Some(addon(&json!({"status": {"kubeClientDriver": null}}))));
    assert_eq!(
        conclusion(&seen),
        "hub: patch ManagedClusterAddOn cluster1/helloworld status {\"status\":{\"kubeClientDriver\":\"csr\"}}"
    );
}

#[test]
fn the_default_driver_is_reported_with_the_next_status_change() {
    let fresh = addon(&json!({"status": {"kubeClientDriver": null}}));
    let mut waiting = seen(Some(fresh.clone()));
    waiting.credentials = vec![credential(&fresh, KubeClientDriver::Csr)];
    assert_eq!(conclusion(&waiting), "nothing to do");
    waiting.lease = lease("2026-01-02T03:04:00.000000Z");
    assert!(conclusion(&waiting).contains("\"kubeClientDriver\":\"csr\""));
    // One that says who the agent is only when it knows would never hear of it: the request cannot be answered before.
    let anybody = addon(&json!({"status": {
        "kubeClientDriver": null, "registrations": [{"signerName": identity::CLIENT_SIGNER, "subject": {}}],
    }}));
    let mut asking = seen(Some(anybody.clone()));
    asking.credentials = vec![credential(&anybody, KubeClientDriver::Csr)];
    assert!(conclusion(&asking).contains("\"kubeClientDriver\":\"csr\""));
    // The hub has to hear of a change, or it would not say whom the certificate is for.
    let changed = addon(&json!({"status": {"kubeClientDriver": "token"}}));
    let mut seen = seen(Some(changed.clone()));
    seen.credentials = vec![credential(&changed, KubeClientDriver::Csr)];
    assert!(conclusion(&seen).contains("\"kubeClientDriver\":\"csr\""));
}

#[test]
fn a_new_add_on_reports_no_missing_lease_yet() {
    let made = |at: &str| {
        let mut seen = seen(Some(addon(&json!({"metadata": {"creationTimestamp": at}}))));
        seen.lease = SeenLease::Missing;
        conclusion(&seen)
    };
    assert_eq!(made("2026-01-02T03:04:04Z"), "nothing to do\nagain in 3s");
    assert!(made("2026-01-02T03:04:00Z").contains("ManagedClusterAddOnLeaseNotFound"));
    // The hub's clock is ahead.
    assert!(made("2026-01-02T04:00:00Z").contains("ManagedClusterAddOnLeaseNotFound"));
}

#[test]
fn secrets_are_deleted_after_the_add_on_not_during_deletion() {
    let mut gone = seen(None);
    gone.secrets = vec![secret("home", "helloworld-hub-kubeconfig")];
    let lease = json!({"metadata": {"name": "helloworld", "namespace": "home", "uid": "l"}});
    gone.former = vec![(
        "home".to_owned(),
        SeenLease::Found(Arc::new(serde_json::from_value(lease).unwrap())),
    )];
    assert_eq!(
        plan(&gone),
        "cluster: delete Lease home/helloworld\ncluster: delete Secret home/helloworld-hub-kubeconfig"
    );
    let mut going = seen(Some(addon(
        &json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:00Z"}}),
    )));
    going.secrets = gone.secrets.clone();
    assert_eq!(plan(&going), "nothing to do");
}

#[test]
fn only_a_lease_that_may_not_be_deleted_is_foreign() {
    let mut gone = seen(None);
    gone.secrets = vec![secret("home", "helloworld-hub-kubeconfig")];
    let lease = json!({"metadata": {"name": "helloworld", "namespace": "home", "uid": "l"}});
    gone.former = vec![(
        "home".to_owned(),
        SeenLease::Found(Arc::new(serde_json::from_value(lease).unwrap())),
    )];
    let both = outcome(&gone, vec![vec![forbidden(), forbidden()]]);
    assert_eq!(secrets::leases_not_ours(&both), ["home"]);
    let one = outcome(&gone, vec![vec![Ok(Done::Gone), forbidden()]]);
    assert!(secrets::leases_not_ours(&one).is_empty());
}

#[test]
fn secrets_of_another_namespace_registration_or_agent_are_deleted() {
    let addon = addon(&json!({}));
    let mut seen = seen(Some(addon.clone()));
    seen.credentials = vec![CredentialState {
        hindrance: Some("the hub is away".to_owned()),
        ..credential(&addon, KubeClientDriver::Csr)
    }];
    seen.secrets = vec![
        secret("home", "helloworld-hub-kubeconfig"),
        secret("before", "helloworld-hub-kubeconfig"),
        secret("home", "helloworld-example.com-signer-client-cert"),
    ];
    assert_eq!(
        plan(&seen),
        "cluster: delete Secret before/helloworld-hub-kubeconfig\n\
         cluster: delete Secret home/helloworld-example.com-signer-client-cert\n\
         waits: the hub is away\nagain in 10s"
    );
    seen.is_here = false;
    seen.credentials.clear();
    assert!(plan(&seen).contains("cluster: delete Secret home/helloworld-hub-kubeconfig"));
}

#[test]
fn a_token_is_saved_once_account_and_namespace_exist() {
    let waiting = addon(&json!({}));
    let mut seen = seen(Some(waiting.clone()));
    seen.driver = Some(KubeClientDriver::Token);
    seen.credentials = vec![credential(&waiting, KubeClientDriver::Token)];
    assert_eq!(
        plan(&seen),
        "nothing to do\nwaits: the hub has not made the add-on's ServiceAccount yet"
    );
    let said = conclusion(&seen);
    assert!(
        said.contains("system:serviceaccount:cluster1:helloworld-agent"),
        "{said}"
    );
    assert!(said.contains("\"kubeClientDriver\":\"token\""), "{said}");

    let ready = with_account();
    let claims = json!({"iat": now().as_second(), "exp": now().as_second() + 600,
        "kubernetes.io": {"serviceaccount": {"uid": "u1"}}});
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let token = format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let with_token = CredentialState {
        token: Some(Ok(token)),
        ..credential(&ready, KubeClientDriver::Token)
    };
    seen.addon = Some(Arc::new(ready));
    seen.credentials = vec![CredentialState {
        namespace_is_missing: Some(true),
        ..with_token.clone()
    }];
    assert_eq!(
        plan(&seen),
        "nothing to do\nwaits: the namespace for Secret helloworld-hub-kubeconfig does not exist yet"
    );
    seen.credentials = vec![with_token];
    assert_eq!(plan(&seen), "cluster: create Secret home/helloworld-hub-kubeconfig");
}

#[test]
fn a_request_with_an_outdated_subject_is_discarded() {
    let addon = addon(&json!({}));
    let mut it = credential(&addon, KubeClientDriver::Csr);
    it.pending = Some(RequestUnderWay {
        pending: Pending {
            name: "addon-cluster1-helloworld-x".to_owned(),
            key_pem: String::new(),
            request: None,
        },
        subject: credential::csr::CertificateSubject::agent("cluster1", "other"),
        signer: it.registration.signer.clone(),
    });
    assert!(matches!(it.next(0.2, now()), CredentialAction::Forget { .. }));
}

#[test]
fn missing_facts_are_read_before_anything_is_written() {
    let addon = addon(&json!({}));
    let mut seen = seen(Some(addon.clone()));
    seen.secrets = vec![secret("before", "helloworld-hub-kubeconfig")];
    let mut round = |it: CredentialState| {
        seen.credentials = vec![it];
        let goes_on = AddOnAgents::goes_on(&seen, &outcome(&seen, Vec::new()));
        (plan(&seen), goes_on)
    };
    let all_known = credential(&addon, KubeClientDriver::Csr);
    let unlooked = CredentialState {
        requests: None,
        fresh: None,
        ..all_known.clone()
    };
    assert_eq!(round(unlooked.clone()), ("nothing to do".to_owned(), true));
    let keyless = CredentialState {
        requests: Some(0),
        ..unlooked
    };
    let makes = "make key for Secret helloworld-hub-kubeconfig";
    assert_eq!(round(keyless), (makes.to_owned(), true));
    let writes = "hub: create CertificateSigningRequest (generated)\n\
                  cluster: delete Secret before/helloworld-hub-kubeconfig\nnote: there is no client certificate";
    assert_eq!(round(all_known), (writes.to_owned(), false));
}

#[test]
fn a_token_refused_by_the_hub_is_noted_without_failing() {
    let addon = with_account();
    let mut seen = seen(Some(addon.clone()));
    seen.driver = Some(KubeClientDriver::Token);
    seen.credentials = vec![credential(&addon, KubeClientDriver::Token)];
    assert_eq!(
        plan(&seen),
        "hub: create token of ServiceAccount cluster1/helloworld-agent\nnote: there is no token"
    );
    let refused = outcome(&seen, vec![vec![forbidden()]]);
    assert!(AddOnAgents::goes_on(&seen, &refused));
    assert_eq!(AddOnAgents::failure(&seen, &refused), None);
    seen.credentials[0].token = Some(Err("no".to_owned()));
    assert_eq!(plan(&seen), "nothing to do\nrefuses: no\nagain in 10s");
    assert!(conclusion(&seen).contains("\"reason\":\"TokenCreationFailed\""));
}
