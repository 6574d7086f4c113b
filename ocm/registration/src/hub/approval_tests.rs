use credential::{
    csr::{CertificateSubject, new_key_and_request},
    enrol,
};

use super::*;

fn request(label: &str, subject: &CertificateSubject, user: &str) -> CertificateSigningRequest {
    let made = new_key_and_request(subject).unwrap();
    let mut request = enrol::request(label, &made.request_pem, None);
    request.metadata.name = Some(format!("{label}-x7k2p"));
    request.spec.username = Some(user.to_owned());
    request
}

fn seen(request: CertificateSigningRequest, may_renew: bool) -> Seen {
    Seen {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        request: Some(Arc::new(request)),
        may_renew,
        auto_approved_users: vec!["bootstrap".to_owned()],
        cluster: Some(served_by("a1", "Unknown")),
        is_superseded: false,
    }
}

fn served_by(agent: &str, available: &str) -> Arc<ManagedCluster> {
    let cluster = serde_json::json!({
        "metadata": {"name": "cluster1", "annotations": {"registration.open-cluster-management.io/served-by": agent}},
        "status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": available, "reason": "R",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    });
    Arc::new(serde_json::from_value(cluster).unwrap())
}

fn check(seen: &Seen, printed: &str) {
    assert_eq!(Approval::plan(seen).to_string().trim(), printed);
}

const APPROVED: &str = "hub: replace CertificateSigningRequest cluster1-x7k2p approval";

#[test]
fn an_agent_that_may_renew_gets_its_certificate() {
    let renewal = request(
        "cluster1",
        &CertificateSubject::agent("cluster1", "a1"),
        "system:open-cluster-management:cluster1:a1",
    );
    check(&seen(renewal.clone(), true), APPROVED);
    check(
        &seen(renewal, false),
        "nothing to do\nrefuses: system:open-cluster-management:cluster1:a1 may not renew its certificate",
    );
}

#[test]
fn a_first_request_needs_an_administrator_or_a_trusted_user() {
    let subject = CertificateSubject::agent("cluster1", "a1");
    check(
        &seen(request("cluster1", &subject, "someone"), false),
        "nothing to do\nwaits: an administrator must approve the request of someone",
    );
    let trusted = seen(request("cluster1", &subject, "bootstrap"), false);
    check(&trusted, APPROVED);
    // Nothing could be written of who serves a cluster that is not there, and the next agent would be let in, too.
    let early = Seen {
        cluster: None,
        ..trusted
    };
    check(&early, "nothing to do\nwaits: there is no ManagedCluster cluster1 yet");
}

#[test]
fn one_agent_cannot_renew_the_certificate_of_another() {
    let second = request(
        "cluster1",
        &CertificateSubject::agent("cluster1", "b2"),
        "system:open-cluster-management:cluster1:a1",
    );
    check(
        &seen(second, true),
        "nothing to do\nwaits: an administrator must approve the request of system:open-cluster-management:cluster1:a1",
    );
}

#[test]
fn a_second_agent_does_not_replace_a_live_agent() {
    let served = |by: &str, available: &str| {
        let request = request("cluster1", &CertificateSubject::agent("cluster1", "b2"), "bootstrap");
        Seen {
            cluster: Some(served_by(by, available)),
            ..seen(request, false)
        }
    };
    check(
        &served("a1", "True"),
        "nothing to do\nwaits: agent a1 of cluster1 is alive: an administrator must approve agent b2 if it is to take over",
    );
    check(&served("b2", "True"), APPROVED);
    let takes_over = format!("stage 1\nhub: patch ManagedCluster cluster1\nstage 2\n{APPROVED}");
    check(&served("a1", "Unknown"), &takes_over);
}

#[test]
fn a_request_for_cluster1_never_serves_cluster10() {
    for (label, cluster) in [("cluster1", "cluster10"), ("cluster10", "cluster1")] {
        let request = request(label, &CertificateSubject::agent(cluster, "a1"), "bootstrap");
        assert!(recognise(&request).is_err(), "{label} {cluster}");
        check(
            &seen(request, true),
            "nothing to do\nnote: not a request of ours: its organizations are not exactly those of the cluster",
        );
    }
}

#[test]
fn only_the_exact_subject_is_recognised() {
    let exact = CertificateSubject::agent("cluster1", "a1");
    let with = |change: fn(&mut CertificateSubject)| {
        let mut subject = exact.clone();
        change(&mut subject);
        recognise(&request("cluster1", &subject, "bootstrap"))
    };
    assert_eq!(
        with(|_| ()),
        Ok(request::AgentIdentity {
            cluster: "cluster1".to_owned(),
            id: "a1".to_owned()
        })
    );
    assert!(with(|it| it.organizations.push("system:masters".to_owned())).is_err());
    assert!(with(|it| it.common_name.push_str(":more")).is_err());
    assert!(with(|it| it.common_name = "system:open-cluster-management:cluster1:".to_owned()).is_err());
    assert!(with(|it| it.common_name = "system:admin".to_owned()).is_err());
    assert!(with(|it| it.organizations.clear()).is_err());
}

#[test]
fn requests_with_other_names_usages_or_signatures_are_not_recognised() {
    let exact = CertificateSubject::agent("cluster1", "a1");
    let named = CertificateSubject {
        dns_names: vec!["kubernetes.default.svc".to_owned()],
        ..exact.clone()
    };
    assert_eq!(
        recognise(&request("cluster1", &named, "bootstrap")),
        Err("it asks for alternative names")
    );
    let unit = CertificateSubject {
        organizational_units: vec!["north".to_owned()],
        ..exact.clone()
    };
    assert!(recognise(&request("cluster1", &unit, "bootstrap")).is_err());

    let honest = request("cluster1", &exact, "bootstrap");
    for usages in [
        vec!["client auth", "server auth"],
        vec!["digital signature"],
        vec!["any"],
        vec![],
    ] {
        let mut foreign = honest.clone();
        foreign.spec.usages = Some(usages.into_iter().map(str::to_owned).collect());
        assert_eq!(recognise(&foreign), Err("its usages are not those of a client"));
    }

    let mut broken = honest;
    broken.spec.request.0 = with_another_signature(&broken.spec.request.0);
    assert_eq!(recognise(&broken), Err("it is not signed with its own key"));
}

fn with_another_signature(pem: &[u8]) -> Vec<u8> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let (begin, end) = (
        "-----BEGIN CERTIFICATE REQUEST-----\n",
        "-----END CERTIFICATE REQUEST-----\n",
    );
    let text = String::from_utf8(pem.to_vec()).unwrap();
    let body: String = text.lines().filter(|it| !it.starts_with('-')).collect();
    let mut der = BASE64_STANDARD.decode(body).unwrap();
    // The last byte is of the signature's second number.
    *der.last_mut().unwrap() ^= 1;
    format!("{begin}{}\n{end}", BASE64_STANDARD.encode(der)).into_bytes()
}

#[test]
fn of_two_requests_in_one_text_none_is_recognised() {
    let honest = request("cluster1", &CertificateSubject::agent("cluster1", "a1"), "bootstrap");
    let text = |it: &CertificateSigningRequest| String::from_utf8(it.spec.request.0.clone()).unwrap();
    let wanted = text(&request(
        "cluster1",
        &CertificateSubject::agent("cluster2", "a1"),
        "bootstrap",
    ));
    // Go skips a block whose end has another label, and reads the one behind it.
    let skipped = text(&honest).replace("END CERTIFICATE REQUEST", "END X");
    for both in [format!("{skipped}{wanted}"), format!("{}{wanted}", text(&honest))] {
        let mut twice = honest.clone();
        twice.spec.request.0 = both.into_bytes();
        assert_eq!(recognise(&twice), Err("it does not hold one PEM certificate request"));
    }
}

#[test]
fn another_signer_or_an_add_on_is_not_ours() {
    let ours = request("cluster1", &CertificateSubject::agent("cluster1", "a1"), "bootstrap");
    let mut signer = ours.clone();
    signer.spec.signer_name = "example.com/other".to_owned();
    assert_eq!(recognise(&signer), Err("it is for another signer"));
    let mut addon = ours;
    addon.labels_mut().insert(labels::ADDON_NAME.to_owned(), "x".to_owned());
    assert_eq!(recognise(&addon), Err("it is for an add-on"));
}

#[test]
fn what_is_decided_stays_decided() {
    let mut denied = request("cluster1", &CertificateSubject::agent("cluster1", "a1"), "bootstrap");
    denied.status =
        serde_json::from_value(serde_json::json!({"conditions": [{"type": "Denied", "status": "True"}]})).unwrap();
    check(&seen(denied, true), "nothing to do");
}

#[test]
fn an_agent_approved_by_an_administrator_serves_the_cluster() {
    let mut approved = request("cluster1", &CertificateSubject::agent("cluster1", "b2"), "someone");
    approved.status =
        serde_json::from_value(serde_json::json!({"conditions": [{"type": "Approved", "status": "True"}]})).unwrap();
    let mut seen = seen(approved, false);
    check(&seen, "hub: patch ManagedCluster cluster1");
    seen.cluster = Some(served_by("b2", "True"));
    check(&seen, "nothing to do");
    // An old request that is seen again after a later one was approved says nothing.
    seen.cluster = Some(served_by("c3", "True"));
    seen.is_superseded = true;
    check(&seen, "nothing to do");
}
