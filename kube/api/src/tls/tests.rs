use super::*;
use crate::clock::Turned;
use jiff::{SignedDuration, Timestamp};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConnection, SideData,
    client::WebPkiServerVerifier, time_provider::TimeProvider,
};
use std::{
    collections::BTreeSet,
    io::{Read, Write},
};

#[derive(Debug)]
struct At(Timestamp);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(
            self.0.as_second() as u64
        )))
    }
}

/// Carries what one side has to say to the other, until neither has.
fn carry<A: SideData, B: SideData>(
    from: &mut ConnectionCommon<A>,
    to: &mut ConnectionCommon<B>,
) -> Result<bool, Error> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut rest = wire.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(!wire.is_empty())
}

/// A client that trusts `authority` and lives at `now` connects.
fn connect(
    shown: &ArcSwap<ServerConfig>,
    authority: &CertificateDer<'static>,
    now: Timestamp,
) -> Result<(ClientConnection, ServerConnection), Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .unwrap();
    let config = ClientConfig::builder_with_details(provider(), Arc::new(At(now)))
        .with_safe_default_protocol_versions()?
        .with_webpki_verifier(verifier)
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap())?;
    let mut server = ServerConnection::new(shown.load_full())?;
    while carry(&mut client, &mut server)? | carry(&mut server, &mut client)? {}
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}

#[tokio::test]
async fn a_server_running_three_years_always_shows_a_valid_certificate() {
    const DAY: SignedDuration = SignedDuration::from_hours(24);
    let begun = Timestamp::now();
    let turned = Turned::at(begun);
    let dir = tempfile::tempdir().unwrap();
    let pki = Arc::new(Pki::open(Some(dir.path()), &[], begun).unwrap());
    let authority = pki.authority().der().clone();
    let config = |pki: &Pki| server_config(pki, &[]);
    let shown = Arc::new(ArcSwap::new(config(&pki).unwrap()));
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keep(pki.clone(), shown.clone(), config, turned.clock(), stop.clone()));
    let (mut client, mut server) = connect(&shown, &authority, begun).unwrap();
    let mut certificates = BTreeSet::new();
    for day in 1..=3 * 365 {
        turned.turn(DAY).await;
        let now = begun + DAY * day;
        let (client, _) = connect(&shown, &authority, now).unwrap_or_else(|error| panic!("on day {day}: {error}"));
        certificates.insert(client.peer_certificates().unwrap()[0].to_vec());
        // It is renewed with months to spare, not on its last day.
        connect(&shown, &authority, now + DAY * 100)
            .unwrap_or_else(|error| panic!("100 days after day {day}: {error}"));
    }
    assert_eq!(certificates.len(), 5, "each lives for two thirds of its year");

    // Who has been connected since the first day still is.
    client.writer().write_all(b"still here").unwrap();
    carry(&mut client, &mut server).unwrap();
    let mut heard = [0; 10];
    server.reader().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still here");

    // A restart goes on with the last one.
    let again = Pki::open(Some(dir.path()), &[], begun + DAY * (3 * 365)).unwrap();
    assert_eq!(again.serving().chain, pki.serving().chain);
    stop.cancel();
    keeping.await.unwrap();
}
