use super::*;
use crate::{authn::Authenticator, fixture, identity::AUTHENTICATED, listen::PeerCertificate};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use p256::{
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
};
use std::sync::Arc;
use x509_cert::{builder::Builder, request::RequestBuilder};

const CLUSTER_GROUPS: [&str; 2] = [
    "system:open-cluster-management:cluster1",
    "system:open-cluster-management:managed-clusters",
];

/// A request as Go writes it: PrintableString values, all organisations in one relative name.
fn request_pem(common_name: &str, organizations: &[&str]) -> String {
    let key = SigningKey::generate_from_rng(&mut rand::rng());
    let subject = certificate::subject(common_name, organizations).unwrap();
    let request = RequestBuilder::new(subject)
        .unwrap()
        .build::<_, DerSignature>(&key)
        .unwrap();
    request.to_pem(p256::pkcs8::LineEnding::LF).unwrap()
}

fn object(signer: &str, common_name: &str, organizations: &[&str], usages: &[&str]) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": KIND, "metadata": {"name": "c1"},
        "spec": {
            "request": STANDARD.encode(request_pem(common_name, organizations)),
            "signerName": signer, "usages": usages, "username": "forged", "groups": ["system:masters"],
        },
    })
}

fn client() -> Value {
    object(
        CLIENT,
        "system:open-cluster-management:cluster1:agent",
        &CLUSTER_GROUPS,
        &["client auth", "digital signature"],
    )
}

#[test]
fn a_request_records_its_actual_user() {
    let mut csr = client();
    prepare_create(&mut csr, &User::new("alice", &["devs"])).unwrap();
    assert_eq!(csr["spec"]["username"], "alice");
    assert_eq!(csr["spec"]["groups"], json!(["devs"]));
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let refuse = |change: &dyn Fn(&mut Value)| {
        let mut csr = client();
        change(&mut csr);
        prepare_create(&mut csr, &User::new("a", &[])).unwrap_err().message
    };
    let message = refuse(&|it| it["spec"]["expirationSeconds"] = 10.into());
    assert!(
        message.contains("may not specify a duration less than 600 seconds (10 minutes)"),
        "{message}"
    );
    let message = refuse(&|it| it["spec"]["usages"] = json!([]));
    assert!(message.contains("spec.usages: Required value"), "{message}");
    let message = refuse(&|it| it["spec"]["usages"] = json!(["flying"]));
    assert!(
        message.contains(r#"spec.usages[0]: Unsupported value: "flying": supported values: "any", "cert sign""#),
        "{message}"
    );
    let message = refuse(&|it| it["spec"]["request"] = STANDARD.encode("x").into());
    assert!(
        message.contains("PEM block type must be CERTIFICATE REQUEST"),
        "{message}"
    );
    let message = refuse(&|it| it["spec"]["signerName"] = "nodomain".into());
    assert!(
        message.contains("must be a fully qualified domain and path"),
        "{message}"
    );
    let mut masters = object(CLIENT, "root", &["system:masters"], &["client auth"]);
    let refused = prepare_create(&mut masters, &User::new("a", &[])).unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(
        refused
            .message
            .ends_with("use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
    );
}

#[test]
fn a_signed_certificate_authenticates_with_both_groups() {
    let now = jiff::Timestamp::now();
    let pki = Arc::new(Pki::open(None, &[], now).unwrap());
    let pem = sign(&pki, &client(), now).unwrap();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let peer = PeerCertificate::new(&[der]).unwrap();
    let authenticator = Authenticator::new(fixture::store(&[]), pki).unwrap();
    let user = authenticator.authenticate(&HeaderMap::new(), Some(&peer), now).unwrap();
    assert_eq!(user.username, "system:open-cluster-management:cluster1:agent");
    assert_eq!(user.groups, [CLUSTER_GROUPS[0], CLUSTER_GROUPS[1], AUTHENTICATED]);
}

#[test]
fn the_subject_is_copied_exactly_and_lifetimes_match_kubernetes() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let signed = |seconds: Option<i64>| {
        let mut csr = client();
        csr["spec"]["expirationSeconds"] = seconds.into();
        let subject = SigningRequest::read(&csr["spec"]["request"])
            .unwrap()
            .subject
            .to_der()
            .unwrap();
        let pem = sign(&pki, &csr, now).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert_eq!(parsed.subject().as_raw(), subject);
        assert!(parsed.extended_key_usage().unwrap().unwrap().value.client_auth);
        assert!(!parsed.extended_key_usage().unwrap().unwrap().value.server_auth);
        assert!(parsed.basic_constraints().unwrap().unwrap().critical);
        assert_eq!(parsed.raw_serial().len(), 16);
        (
            parsed.validity().not_before.timestamp() - now.as_second(),
            parsed.validity().not_after.timestamp() - now.as_second(),
        )
    };
    assert_eq!(signed(Some(3600)), (-300, 3600));
    assert_eq!(signed(Some(24 * 3600)), (-300, 24 * 3600 - 300));
    assert_eq!(signed(None), (-300, SECONDS_DEFAULT - 300));
}

#[test]
fn the_client_signer_rejects_requests_for_server_certificates() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let csr = object(CLIENT, "a", &[], &["client auth", "server auth"]);
    let failure = sign(&pki, &csr, now).unwrap_err();
    assert_eq!(failure.0, "invalid usage for client certificate: server auth");
    assert_eq!(failure.condition()["reason"], "SignerValidationFailure");
}

#[test]
fn a_request_signed_with_another_key_is_not_signed() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let mut csr = client();
    let pem = STANDARD.decode(csr["spec"]["request"].as_str().unwrap()).unwrap();
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(&pem).unwrap();
    let mut request = CertReq::from_der(&der).unwrap();
    request.info.subject = certificate::subject("someone-else", &[]).unwrap();
    let pem = request.to_pem(p256::pkcs8::LineEnding::LF).unwrap();
    csr["spec"]["request"] = STANDARD.encode(pem).into();
    assert_eq!(
        sign(&pki, &csr, now).unwrap_err().0,
        "unable to verify certificate request signature"
    );
}

fn with_conditions(csr: &Value, conditions: Value) -> Value {
    let mut csr = csr.clone();
    csr["status"]["conditions"] = conditions;
    csr
}

#[test]
fn each_face_changes_only_what_it_may() {
    let now = jiff::Timestamp::now();
    let old = client();
    let approved = json!([{"type": "Approved", "status": "True", "reason": "r"}]);
    let update = |old: &Value, new: Value, face| prepare_update(old, new, face, now);
    let done = update(&old, with_conditions(&old, approved.clone()), Face::Approval).unwrap();
    assert!(done["status"]["conditions"][0]["lastUpdateTime"].is_string());
    assert!(done["status"]["conditions"][0]["lastTransitionTime"].is_string());

    let main = update(
        &old,
        with_conditions(&object(CLIENT, "other", &[], &["client auth"]), approved.clone()),
        Face::Main,
    );
    assert_eq!(main.unwrap(), old);

    let refused = |old: &Value, new: Value, face| update(old, new, face).unwrap_err().message;
    let message = refused(&old, with_conditions(&old, approved.clone()), Face::Status);
    assert!(
        message.contains(r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#),
        "{message}"
    );
    let message = refused(&done, with_conditions(&old, json!([])), Face::Approval);
    assert!(
        message.contains(r#"updates may not remove a condition of type "Approved""#),
        "{message}"
    );
    let both = json!([approved[0], {"type": "Denied", "status": "True"}]);
    let message = refused(&done, with_conditions(&done, both), Face::Approval);
    assert!(
        message.contains(r#"Invalid value: "Denied": Approved and Denied conditions are mutually exclusive"#),
        "{message}"
    );
    let message = refused(
        &old,
        with_conditions(&old, json!([{"type": "Approved", "status": "False"}])),
        Face::Approval,
    );
    assert!(
        message.contains(r#"status.conditions[0].status: Unsupported value: "False": supported values: "True""#),
        "{message}"
    );
}

#[test]
fn a_certificate_is_set_once_and_only_through_status() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let old = with_conditions(&client(), json!([{"type": "Approved", "status": "True"}]));
    let with_certificate = |pem: &str| {
        let mut csr = old.clone();
        csr["status"]["certificate"] = STANDARD.encode(pem).into();
        csr
    };
    let pem = sign(&pki, &old, now).unwrap();
    let signed = prepare_update(&old, with_certificate(&pem), Face::Status, now).unwrap();
    assert!(needs_sign_permission(&old, &signed));
    assert!(!needs_sign_permission(&old, &old));
    // A condition that is only dated back would have its request cleared away.
    let earlier = with_conditions(
        &client(),
        json!([{"type": "Approved", "status": "True", "lastUpdateTime": "2020-01-01T00:00:00Z"}]),
    );
    assert!(needs_sign_permission(&old, &earlier));
    let message = prepare_update(&old, with_certificate("text"), Face::Status, now)
        .unwrap_err()
        .message;
    assert!(
        message.contains("must contain at least one CERTIFICATE PEM block"),
        "{message}"
    );
    let other = sign(&pki, &old, now).unwrap();
    let message = prepare_update(&signed, with_certificate(&other), Face::Status, now)
        .unwrap_err()
        .message;
    assert!(
        message.contains("status.certificate: Forbidden: updates may not modify existing certificate content"),
        "{message}"
    );
    let kept = prepare_update(&signed, old.clone(), Face::Approval, now).unwrap();
    assert_eq!(kept["status"]["certificate"], signed["status"]["certificate"]);
}

#[test]
fn approval_requires_permission_for_the_signer_or_its_domain() {
    let csr = client();
    let only =
        |name: &'static str| move |it: &Attributes| it.name == name && it.verb == "approve" && it.resource == "signers";
    assert_eq!(check_signer_permission(&csr, "approve", only(CLIENT)), Ok(()));
    assert_eq!(
        check_signer_permission(&csr, "approve", only("kubernetes.io/*")),
        Ok(())
    );
    let refused = check_signer_permission(&csr, "approve", only("other/x")).unwrap_err();
    assert_eq!(
        refused.message,
        "certificatesigningrequests.certificates.k8s.io \"c1\" is forbidden: user not permitted to approve requests with \
         signerName \"kubernetes.io/kube-apiserver-client\""
    );
}

#[test]
fn a_kubelet_gets_only_its_own_kind_of_subject() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let usages = ["client auth", "digital signature"];
    assert!(
        sign(
            &pki,
            &object(KUBELET_CLIENT, "system:node:n1", &["system:nodes"], &usages),
            now
        )
        .is_ok()
    );
    for (name, groups) in [
        ("alice", &["system:nodes"][..]),
        ("system:node:n1", &["system:nodes", "system:masters"]),
    ] {
        assert!(
            sign(&pki, &object(KUBELET_CLIENT, name, groups, &usages), now).is_err(),
            "{name} {groups:?}"
        );
    }
    let serving = object(KUBELET_SERVING, "system:node:n1", &["system:nodes"], &["server auth"]);
    assert_eq!(
        sign(&pki, &serving, now).unwrap_err().0,
        "DNS or IP subjectAltName is required"
    );
}

#[test]
fn a_damaged_request_is_refused_and_never_panics() {
    let csr = client();
    let pem = STANDARD.decode(csr["spec"]["request"].as_str().unwrap()).unwrap();
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(&pem).unwrap();
    for at in 0..der.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut damaged = der.to_vec();
            damaged[at] ^= mask;
            if let Ok(asked) = SigningRequest::read_der(&damaged) {
                assert!(!asked.is_signed_by_its_key(), "byte {at} with {mask:#x}");
            }
        }
        assert!(SigningRequest::read_der(&der[..at]).is_err());
    }
}

#[test]
fn only_a_kubelets_request_is_approved_by_itself() {
    assert_eq!(automatic_approval(&client()), None);
    let usages = ["client auth", "digital signature"];
    let mut kubelet = object(KUBELET_CLIENT, "system:node:n1", &["system:nodes"], &usages);
    assert_eq!(automatic_approval(&kubelet).unwrap().subresource, "nodeclient");
    kubelet["spec"]["username"] = "system:node:n1".into();
    assert_eq!(automatic_approval(&kubelet).unwrap().subresource, "selfnodeclient");
    assert_eq!(
        automatic_approval(&object(KUBELET_CLIENT, "alice", &["system:nodes"], &usages)),
        None
    );
}

#[test]
fn a_text_with_two_requests_is_none() {
    let (one, other) = (request_pem("one", &[]), request_pem("other", &[]));
    for text in [
        format!("{one}{other}"),
        format!("{}{other}", one.replace("CERTIFICATE REQUEST", "CERTIFICATE REQUEST-X")),
    ] {
        assert!(SigningRequest::read(&STANDARD.encode(text).into()).is_err());
    }
    let asked = SigningRequest::read(&STANDARD.encode(format!("Certificate Request:\n{one}")).into()).unwrap();
    assert_eq!(asked.common_name, "one");
}

#[test]
fn a_requester_has_the_groups_it_had() {
    let csr = json!({"spec": {"username": "system:anonymous", "groups": ["system:unauthenticated"]}});
    let user = requester(&csr);
    assert_eq!(
        (user.username.as_str(), user.groups),
        ("system:anonymous", vec!["system:unauthenticated".to_owned()])
    );
}

#[test]
fn a_signer_keeps_the_decision_and_may_set_labels() {
    let now = jiff::Timestamp::now();
    let condition = |reason: &str| json!({"type": "Approved", "status": "True", "reason": reason, "lastUpdateTime": "2026-01-01T00:00:00Z"});
    let mut old = client();
    old["status"] = json!({"conditions": [condition("First")]});
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    new["status"]["conditions"] = json!([condition("Changed")]);
    let written = prepare_update(&old, new, Face::Status, now).unwrap();
    assert_eq!(written["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(written["status"]["conditions"][0]["reason"], "First");
}
