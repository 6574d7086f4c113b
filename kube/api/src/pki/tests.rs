use super::*;
use std::os::unix::fs::PermissionsExt;
use x509_parser::parse_x509_certificate;

fn names(pki: &Pki) -> Vec<String> {
    let serving = pki.serving();
    let (_, certificate) = parse_x509_certificate(&serving.chain[0]).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    names.value.general_names.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_survive_a_restart_and_only_their_owner_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("pki");
    let now = jiff::Timestamp::now();
    let first = Pki::open(Some(&dir), &[], now).unwrap();
    let id = first.token_key().unwrap().id().to_owned();
    let second = Pki::open(Some(&dir), &[], now).unwrap();
    assert_eq!(first.ca_pem(), second.ca_pem());
    assert_eq!(first.serving().chain, second.serving().chain);
    assert_eq!(second.token_key().unwrap().id(), id);
    let mode = |it: &Path| std::fs::metadata(it).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(files.iter().all(|it| mode(it) == 0o600));
}

#[test]
fn the_serving_certificate_is_replaced_when_expiring_or_lacking_names() {
    let dir = tempfile::tempdir().unwrap();
    let now = jiff::Timestamp::now();
    let first = Pki::open(Some(dir.path()), &[], now).unwrap();
    let named = Pki::open(Some(dir.path()), &["hub.example".into(), "192.0.2.7".into()], now).unwrap();
    assert_ne!(first.serving().chain, named.serving().chain);
    assert_eq!(first.ca_pem(), named.ca_pem());
    assert!(
        names(&named).iter().any(|it| it.contains("hub.example")),
        "{:?}",
        names(&named)
    );
    let later = now + jiff::SignedDuration::from_hours(24 * 320);
    let renewed = Pki::open(Some(dir.path()), &[], later).unwrap();
    assert_ne!(named.serving().chain, renewed.serving().chain);
}

#[test]
fn a_damaged_key_file_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.pem"), "nonsense").unwrap();
    let error = Pki::open(Some(dir.path()), &[], jiff::Timestamp::now())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("ca.pem is not what this server wrote there"), "{error}");
}

#[test]
fn a_client_certificate_ends_no_later_than_its_authority() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let pair = pki.issue_client_certificate("a", &["g"], CA_SECONDS * 2, now).unwrap();
    let der = CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap();
    let (_, certificate) = parse_x509_certificate(&der).unwrap();
    let (_, authority) = parse_x509_certificate(pki.authority().der()).unwrap();
    assert_eq!(certificate.validity().not_after, authority.validity().not_after);
    assert!(authority.is_ca() && !certificate.is_ca());
}

#[test]
fn a_kubeconfig_holds_everything_inline() {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now).unwrap();
    let pair = pki
        .issue_client_certificate("admin", &["system:masters"], 3600, now)
        .unwrap();
    let text = pki.kubeconfig("https://127.0.0.1:6443", "hub", "admin", &pair);
    let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(value["current-context"], "admin@hub");
    assert_eq!(value["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    assert!(
        value["users"][0]["user"]["client-key-data"]
            .as_str()
            .is_some_and(|it| it.len() > 100)
    );
}

#[test]
fn a_clock_before_the_cas_first_day_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let now = jiff::Timestamp::now();
    Pki::open(Some(dir.path()), &[], now).unwrap();
    let early = now - jiff::SignedDuration::from_hours(24);
    let error = Pki::open(Some(dir.path()), &[], early).err().unwrap().to_string();
    assert!(
        error.contains("this machine's clock says") && error.contains("ca.pem"),
        "{error}"
    );
}

#[test]
fn only_asking_for_a_token_makes_the_token_key() {
    let dir = tempfile::tempdir().unwrap();
    let now = jiff::Timestamp::now();
    let pki = Pki::open(Some(dir.path()), &[], now).unwrap();
    assert!(pki.existing_token_key().unwrap().is_none());
    let id = pki.token_key().unwrap().id().to_owned();
    let again = Pki::open(Some(dir.path()), &[], now).unwrap();
    assert_eq!(again.existing_token_key().unwrap().unwrap().id(), id);
}
