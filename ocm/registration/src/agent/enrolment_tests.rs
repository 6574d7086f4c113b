use credential::csr::{CertificateSubject, new_key_and_request};

use super::*;

fn seen(made: Option<KeyAndRequest>, requests: usize) -> Seen {
    Seen {
        rules: enrol::Seen {
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
            threshold: DECIDED,
            subject: CertificateSubject::agent("cluster1", "a1"),
            additional: [(hub_secret::CLUSTER_NAME.to_owned(), b"cluster1".to_vec())].into(),
            data: hub_secret::Data::new(),
            pending: None,
            requests,
        },
        made,
        secret: None,
        secret_name: ("agents".to_owned(), "hub-kubeconfig-secret".to_owned()),
        cluster_name: "cluster1".to_owned(),
        expiration_seconds: None,
    }
}

#[test]
fn a_key_is_saved_before_a_certificate_is_requested() {
    let first = Enrolment::plan(&seen(None, 0));
    assert_eq!(
        first.to_string(),
        "make a key and a request for its certificate\nnote: there is no client certificate\n"
    );
    let made = new_key_and_request(&CertificateSubject::agent("cluster1", "a1")).unwrap();
    let second = Enrolment::plan(&seen(Some(made), 0));
    assert_eq!(
        second.to_string(),
        "stage 1\ncluster: create Secret agents/hub-kubeconfig-secret\nstage 2\n\
         hub: create CertificateSigningRequest (generated)\n"
    );
    assert!(second.named(REQUEST).is_some() && second.named(MADE).is_none());
}

#[test]
fn too_many_requests_on_the_hub_make_no_key() {
    let plan = Enrolment::plan(&seen(None, enrol::REQUESTS_MAX));
    assert_eq!(
        plan.to_string(),
        format!("nothing to do\nrefuses: {}\n", enrol::TOO_MANY)
    );
    assert!(matches!(plan.worked_out(), Some(CertificateDecision::Refuse { .. })));
}
