use kube_api::clock::Turned;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::FromDer;

use super::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Until when the certificate in a kubeconfig is valid.
fn ends(text: &str) -> Timestamp {
    let config = kube::config::Kubeconfig::from_yaml(text).unwrap();
    let data = config.auth_infos[0].auth_info.as_ref().unwrap();
    let pem = BASE64_STANDARD
        .decode(data.client_certificate_data.as_ref().unwrap())
        .unwrap();
    let der = CertificateDer::from_pem_slice(&pem).unwrap();
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(&der).unwrap();
    Timestamp::from_second(certificate.validity().not_after.timestamp()).unwrap()
}

#[tokio::test]
async fn the_admin_certificate_lasts_a_year_and_renews_while_running() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hub.kubeconfig");
    // What a version before has left, with a certificate of ten years.
    private_file::write(&file, "old").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Embedded::start("hub", None, listener, Settings::default())
        .await
        .unwrap();
    let begun = Timestamp::now();
    let turned = Turned::at(begun);
    server
        .keep_admin_kubeconfig(vec![file.clone()], turned.clock())
        .unwrap();
    let read = || std::fs::read_to_string(&file).unwrap();
    let first = read();
    assert!(ends(&first) <= begun + DAY * 365, "{}", ends(&first));
    turned.turn(DAY * 240).await;
    assert_eq!(read(), first, "there is time");
    let mut days = 240;
    while days < 3 * 365 {
        turned.turn(DAY).await;
        days += 1;
        assert!(
            ends(&read()) > begun + DAY * (days + 100),
            "on day {days} it ends at {}",
            ends(&read())
        );
    }
    server.stop().await;
}
