//! Who is let in, who is trusted, and who gets to see credentials.

use crate::git_server::{Fetching, Repository, is_here, served, source, text};
use application_source::{
    SourceAccess, SourceCredentials, SourceError,
    git::{GitReference, GitSource},
};
use source_servers::{
    Signer,
    web::{WebServer, answer, redirect},
};

const BASIC: &str = "Basic bWU6c2VjcmV0";

fn basic(password: &str) -> SourceCredentials {
    SourceCredentials::Basic {
        user: "me".to_owned(),
        password: password.into(),
    }
}

fn with(mut source: GitSource, credentials: SourceCredentials) -> GitSource {
    source.access.credentials = credentials;
    source
}

#[tokio::test]
async fn a_server_that_wants_a_login_gets_it() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository
        .serve_guarded(|asked| {
            let allowed = [Some(BASIC), Some("Bearer token")].contains(&asked.authorization());
            (!allowed).then(|| answer(401, ""))
        })
        .await;
    let source = served(&server, GitReference::Head);
    let refusals = [
        (SourceCredentials::None, "give credentials"),
        (basic("hidden"), "the credentials are wrong"),
        (
            SourceCredentials::AuthHeader("Bearer hidden".into()),
            "the credentials are wrong",
        ),
    ];
    for (credentials, advice) in refusals {
        let refused = repository.fetch(&with(source.clone(), credentials)).await.unwrap_err();
        assert!(matches!(refused, SourceError::LoginNeeded { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains(advice) && !text.contains("hidden"), "{text}");
    }
    for credentials in [basic("secret"), SourceCredentials::AuthHeader("Bearer token".into())] {
        let tree = repository.fetch(&with(source.clone(), credentials)).await.unwrap();
        assert_eq!(text(&tree, "a.yaml"), "a: 1\n");
    }
    let mut in_url = source;
    in_url.url = in_url.url.replace("://", "://me:secret@");
    assert!(repository.current(&in_url).await.is_ok());
    let key = SourceCredentials::SshKey {
        key: "hidden".into(),
        passphrase: None,
    };
    let refused = repository.fetch(&with(in_url, key)).await.unwrap_err();
    assert!(matches!(&refused, SourceError::Invalid { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("secret"), "{refused}");
}

#[tokio::test]
async fn what_one_has_fetched_another_has_to_log_in_for() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository
        .serve_guarded(|asked| (asked.authorization() != Some(BASIC)).then(|| answer(401, "")))
        .await;
    let source = served(&server, GitReference::Commit(repository.head()));
    assert!(repository.fetch(&with(source.clone(), basic("secret"))).await.is_ok());
    let refused = repository.fetch(&source).await.unwrap_err();
    assert!(matches!(refused, SourceError::LoginNeeded { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_redirect_to_another_host_gets_no_credentials() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let other = repository.serve().await;
    let to = other.url("");
    let front = WebServer::start(move |asked| {
        let to = format!("{to}{}?{}", asked.path, asked.query);
        async move { redirect(&to) }
    })
    .await;
    let source = with(served(&front, GitReference::Head), basic("secret"));
    let tree = repository.fetch(&source).await.unwrap();
    assert_eq!(text(&tree, "a.yaml"), "a: 1\n");
    assert!(front.asked().iter().all(|it| it.authorization() == Some(BASIC)));
    let asked = other.asked();
    assert!(
        asked.len() >= 4 && asked.iter().all(|it| it.authorization().is_none()),
        "{asked:?}"
    );
}

#[tokio::test]
async fn redirects_have_an_end_and_stay_encrypted() {
    let round = WebServer::start(|asked| async move { redirect(&format!("{}?{}", asked.path, asked.query)) }).await;
    let repository = Repository::empty();
    let failed = repository.fetch(&served(&round, GitReference::Head)).await.unwrap_err();
    assert!(failed.to_string().contains("redirects more than 5 times"), "{failed}");
    let signer = Signer::generate();
    let plain = repository.serve().await;
    let to = plain.url("/x");
    let server = WebServer::start_with(Some(signer.server(false)), move |_| {
        let to = to.clone();
        async move { redirect(&to) }
    })
    .await;
    let mut source = served(&server, GitReference::Head);
    source.access.ca_certificates = Some(signer.pem.clone());
    let failed = repository.fetch(&source).await.unwrap_err();
    assert!(failed.to_string().contains("which is not encrypted"), "{failed}");
    assert!(plain.asked().is_empty());
    let file = WebServer::start(|_| async { redirect("file:///etc/passwd") }).await;
    let failed = repository.fetch(&served(&file, GitReference::Head)).await.unwrap_err();
    assert!(matches!(failed, SourceError::Corrupt { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_certificate_is_trusted_by_its_authority_or_not_asked() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let (signer, stranger) = (Signer::generate(), Signer::generate());
    let server = repository.serve_with(Some(signer.server(false)), Some).await;
    let fetch = |ca_certificates: Option<&str>, insecure_skip_verify| {
        let mut source = served(&server, GitReference::Head);
        source.access = SourceAccess {
            ca_certificates: ca_certificates.map(ToOwned::to_owned),
            insecure_skip_verify,
            ..SourceAccess::default()
        };
        let repository = &repository;
        async move { repository.fetch(&source).await }
    };
    assert!(fetch(Some(&signer.pem), false).await.is_ok());
    assert!(fetch(None, true).await.is_ok());
    for bundle in [None, Some(stranger.pem.as_str())] {
        let refused = fetch(bundle, false).await.unwrap_err();
        assert!(matches!(refused, SourceError::Unreachable { .. }), "{refused:?}");
        assert!(refused.to_string().contains("give the CA certificates"), "{refused}");
    }
    for bundle in [
        "",
        "no PEM",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ] {
        let refused = fetch(Some(bundle), false).await.unwrap_err();
        assert!(matches!(refused, SourceError::Invalid { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn a_client_certificate_shows_who_asks() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let signer = Signer::generate();
    let server = repository.serve_with(Some(signer.server(true)), Some).await;
    let mut source = served(&server, GitReference::Head);
    source.access.ca_certificates = Some(signer.pem.clone());
    assert!(matches!(
        repository.fetch(&source).await,
        Err(SourceError::Unreachable { .. })
    ));
    let (certificate, key) = signer.issue("CN=me");
    source.access.credentials = SourceCredentials::ClientCertificate {
        certificate: certificate.clone(),
        key: key.into(),
    };
    assert!(repository.fetch(&source).await.is_ok());
    source.access.credentials = SourceCredentials::ClientCertificate {
        certificate,
        key: "hidden".into(),
    };
    let refused = repository.fetch(&source).await.unwrap_err().to_string();
    assert!(
        refused.contains("is no private key in PEM") && !refused.contains("hidden"),
        "{refused}"
    );
}

#[test]
fn credentials_are_not_printed() {
    let all = [
        basic("hidden"),
        SourceCredentials::AuthHeader("hidden".into()),
        SourceCredentials::SshKey {
            key: "hidden".into(),
            passphrase: Some("hidden".into()),
        },
        SourceCredentials::S3 {
            access_key_id: "id".to_owned(),
            secret_access_key: "hidden".into(),
            region: None,
        },
    ];
    for credentials in all {
        let mut source = source("https://example.com/a", GitReference::Head);
        source.access.credentials = credentials;
        assert!(!format!("{source:?}").contains("hidden"));
    }
}
