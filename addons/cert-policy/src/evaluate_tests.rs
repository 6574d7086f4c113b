use ocm_addon_sdk::ocm_api::policy::configuration_policy::ComplianceHistory;
use serde_json::{Value, json};

use super::*;

const HOUR: i64 = 3600;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A Secret whose certificate began an hour ago, and ends after so many hours.
fn secret(name: &str, hours: i64) -> CertificateSecret {
    let mut secret = CertificateSecret::default();
    secret.metadata.name = Some(name.to_owned());
    let now = now().as_second();
    secret.certificate = Some(CertificateFacts {
        from: now - HOUR,
        until: now + hours * HOUR,
        ca: false,
        names: Vec::new(),
    });
    secret
}

fn authority(name: &str, hours: i64) -> CertificateSecret {
    let mut secret = secret(name, hours);
    secret.certificate.as_mut().unwrap().ca = true;
    secret
}

fn named(name: &str, names: &[&str]) -> CertificateSecret {
    let mut secret = secret(name, 1000);
    secret.certificate.as_mut().unwrap().names = names.iter().map(|it| (*it).to_owned()).collect();
    secret
}

fn labelled(mut secret: CertificateSecret, labels: Value) -> CertificateSecret {
    secret.metadata.labels = serde_json::from_value(labels).unwrap();
    secret
}

fn judge_all(spec: Value, namespaces: &[(&str, &[CertificateSecret])]) -> CertificateReport {
    let secrets = namespaces.iter().map(|(namespace, secrets)| {
        let secrets = secrets.iter().cloned().map(Arc::new).collect();
        ((*namespace).to_owned(), secrets)
    });
    let spec = serde_json::from_value(spec).unwrap();
    evaluate(&spec, SignedDuration::ZERO, &secrets.collect(), now())
}

fn judge(spec: Value, secrets: &[CertificateSecret]) -> CertificateReport {
    judge_all(spec, &[("ns", secrets)])
}

#[test]
fn a_certificate_that_expires_soon_does_not_comply() {
    let spec = json!({"minimumDuration": "100h"});
    let report = judge_all(
        spec.clone(),
        &[
            ("b", &[secret("good", 101), secret("old", 99)]),
            ("a", &[secret("older", -1)]),
            ("c", &[]),
        ],
    );
    assert_eq!(report.state, NON_COMPLIANT);
    assert_eq!(
        report.message,
        "NonCompliant; 2 certificates expire in less than 100h0m0s: a:older, b:old\n"
    );
    assert_eq!(report.details["b"].non_compliant_certificates, 1);
    assert_eq!(
        report.details["b"].message,
        "Found 1 non compliant certificates in the namespace b.\nList of non compliant certificates:\n\
         old expires on 2026-01-05T03:00:00Z\n"
    );
    assert_eq!(
        report.details["c"].message,
        "Found 0 non compliant certificates in the namespace c.\n"
    );
    let found = serde_json::to_value(&report.details["b"].non_compliant_certificates_list).unwrap();
    let hour = 3_600_000_000_000_i64;
    assert_eq!(
        found,
        json!({"old": {
            "secretName": "old", "expiration": "2026-01-05T03:00:00Z", "expiry": 99 * hour, "duration": 100 * hour,
        }})
    );
    assert_eq!(report.next, Some(Duration::from_millis(3_600_001)));
    let report = judge(spec, &[secret("just", 100)]);
    assert_eq!(report.message, "Compliant; All evaluated certificates are compliant");
    assert_eq!(report.next, Some(Duration::from_millis(1)));
}

#[test]
fn without_a_minimum_only_expired_certificates_fail() {
    let report = judge(json!({}), &[secret("old", -1), secret("new", 1)]);
    assert_eq!(
        report.message,
        "NonCompliant; 1 certificates expire in less than 0s: ns:old\n"
    );
    let secrets = [("ns".to_owned(), vec![Arc::new(secret("new", 1))])].into();
    let report = evaluate(
        &CertificatePolicySpec::default(),
        SignedDuration::from_hours(672),
        &secrets,
        now(),
    );
    assert_eq!(
        report.message,
        "NonCompliant; 1 certificates expire in less than 672h0m0s: ns:new\n"
    );
}

#[test]
fn authorities_have_a_minimum_of_their_own() {
    let secrets = [authority("ca", 150), secret("leaf", 150), authority("new", 300)];
    let report = judge(
        json!({"minimumDuration": "100h", "minimumCADuration": "200h"}),
        &secrets,
    );
    assert_eq!(
        report.message,
        "NonCompliant;  1 CA certificates expire in less than 200h0m0s: ns:ca\n"
    );
    assert_eq!(report.next, Some(Duration::from_millis(50 * 3_600_000 + 1)));
    let report = judge(json!({"minimumDuration": "200h"}), &secrets);
    assert_eq!(
        report.message,
        "NonCompliant; 2 certificates expire in less than 200h0m0s: ns:ca, ns:leaf\n"
    );
}

#[test]
fn certificates_and_authorities_may_last_too_long() {
    let secrets = [authority("ca", 499), secret("leaf", 499)];
    let report = judge(
        json!({"maximumDuration": "400h", "maximumCADuration": "450h30m"}),
        &secrets,
    );
    assert_eq!(
        report.message,
        "NonCompliant;  1 certificates exceed the maximum duration of 400h0m0s: ns:leaf\n \
         1 CA certificates exceed the maximum duration of 450h30m0s: ns:ca\n"
    );
    assert!(report.details["ns"].message.ends_with(
        "List of non compliant certificates:\nca duration too long 500h0m0s\nleaf duration too long 500h0m0s\n"
    ));
    let report = judge(
        json!({"maximumDuration": "400h", "maximumCADuration": "500h"}),
        &secrets[..1],
    );
    assert_eq!(report.state, COMPLIANT);
    assert_eq!(
        judge(json!({"maximumDuration": "400h"}), &secrets[..1]).state,
        NON_COMPLIANT
    );
}

#[test]
fn names_must_match_what_is_allowed() {
    let secrets = [
        named("good", &["a.example.com", "b.example.com"]),
        named("other", &["a.example.com", "a.elsewhere"]),
        named("test", &["test.example.com"]),
        named("none", &[]),
    ];
    let spec = json!({"allowedSANPattern": r"\.example\.com$", "disallowedSANPattern": "^test"});
    let report = judge(spec, &secrets);
    assert_eq!(
        report.message,
        "NonCompliant;  2 certificates defined SAN entries do not match pattern Allowed: \\.example\\.com$ Disallowed: \
         ^test: ns:other, ns:test\n"
    );
    let report = judge(json!({"disallowedSANPattern": "^test"}), &secrets);
    assert!(report.details["ns"].message.ends_with(
        "List of non compliant certificates:\ntest SAN entry found not matching pattern  Disallowed: ^test\n"
    ));
    // What is no pattern is not looked at.
    assert_eq!(judge(json!({"allowedSANPattern": "["}), &secrets).state, COMPLIANT);
}

#[test]
fn each_broken_rule_has_a_line() {
    let mut both = named("both", &["a"]);
    both.certificate.as_mut().unwrap().until = now().as_second() - 1;
    let spec = json!({"allowedSANPattern": "b", "maximumDuration": "1m"});
    let report = judge(spec, &[both]);
    assert_eq!(
        report.message,
        "NonCompliant; 1 certificates expire in less than 0s: ns:both\n 1 certificates exceed the maximum duration of \
         1m0s: ns:both\n 1 certificates defined SAN entries do not match pattern Allowed: b: ns:both\n"
    );
    assert_eq!(
        report.details["ns"].message,
        "Found 1 non compliant certificates in the namespace ns.\nList of non compliant certificates:\n\
         both expires on 2025-12-31T23:59:59Z\nboth duration too long 59m59s\n\
         both SAN entry found not matching pattern Allowed: b\n"
    );
}

#[test]
fn secrets_without_the_labels_or_a_certificate_are_ignored() {
    let mut none = secret("none", -1);
    none.certificate = None;
    let secrets = [
        labelled(secret("in", -1), json!({"a": "b", "c": "d"})),
        labelled(secret("other", -1), json!({"a": "c"})),
        secret("bare", -1),
        none,
    ];
    let report = judge(json!({"labelSelector": {"a": "b"}}), &secrets);
    assert_eq!(
        report.message,
        "NonCompliant; 1 certificates expire in less than 0s: ns:in\n"
    );
}

#[test]
fn a_label_names_a_certificate_in_the_details_alone() {
    let secrets = [labelled(secret("s", -1), json!({"certificate-name": "front"}))];
    let report = judge(json!({}), &secrets);
    assert_eq!(
        report.message,
        "NonCompliant; 1 certificates expire in less than 0s: ns:s\n"
    );
    assert!(report.details["ns"].message.contains("\nfront expires on "));
    assert_eq!(
        report.details["ns"].non_compliant_certificates_list["front"].secret,
        "s"
    );
}

#[test]
fn without_namespaces_a_policy_complies_and_says_so() {
    let report = judge_all(json!({}), &[]);
    assert_eq!(
        report.message,
        "Compliant; No namespaces matched the namespace selector."
    );
    assert_eq!(
        report.details[""].message,
        "Found 0 non compliant certificates, no namespaces were selected.\n"
    );
    assert_eq!(report.next, None);
}

#[test]
fn a_duration_that_cannot_be_read_does_not_comply() {
    let report = judge(json!({"maximumDuration": "1x5h"}), &[]);
    assert_eq!(report.state, NON_COMPLIANT);
    assert_eq!(
        report.message,
        "NonCompliant; spec.maximumDuration cannot be read as a duration of Go: \"1x5h\""
    );
}

#[test]
fn a_certificate_without_an_end_never_expires() {
    let mut endless = secret("endless", 0);
    let end = 253_402_300_799;
    endless.certificate.as_mut().unwrap().until = end;
    let report = judge(json!({"maximumDuration": "1h"}), &[endless]);
    let found = &report.details["ns"].non_compliant_certificates_list["endless"];
    assert_eq!(found.expiration, "9999-12-31T23:59:59Z");
    assert_eq!((found.expiry, found.duration), (i64::MAX, i64::MAX));
}

fn status_of(report: &CertificateReport) -> CertificatePolicyStatus {
    CertificatePolicyStatus {
        compliant: report.state.to_owned(),
        compliancy_details: report.details.clone(),
        history: vec![ComplianceHistory {
            message: report.message.clone(),
            ..ComplianceHistory::default()
        }],
    }
}

#[test]
fn only_what_is_new_is_told() {
    let spec = json!({"disallowedSANPattern": "a"});
    let report = judge(spec.clone(), &[named("s", &["a"])]);
    assert_eq!(news(None, &report), ReportNews::Message);
    let mut status = status_of(&report);
    let expiry = |it: &mut CertificatePolicyStatus| {
        let found = it.compliancy_details.get_mut("ns").unwrap();
        found.non_compliant_certificates_list.get_mut("s").unwrap().expiry += 1;
    };
    expiry(&mut status);
    assert_eq!(news(Some(&status), &report), ReportNews::None);
    // It is renewed, and its name is as wrong as before.
    let mut renewed = named("s", &["a"]);
    renewed.certificate.as_mut().unwrap().until += 1;
    let renewed = judge(spec.clone(), &[renewed]);
    assert_eq!(news(Some(&status), &renewed), ReportNews::Details);
    assert_eq!(
        news(Some(&status), &judge(spec, &[named("t", &["a"])])),
        ReportNews::Message
    );
    // Whoever wants to be told again takes the state away.
    status.compliant.clear();
    assert_eq!(news(Some(&status), &report), ReportNews::Message);
}
