//! Helm repositories, on good days and bad ones.

use application_source::{
    SourceAccess, SourceBounds, SourceCredentials, SourceError,
    helm::{ChartEntry, ChartQuery, HelmIndex, HelmRepository, download, read_index},
};
use sha2::{Digest, Sha256};
use source_servers::web::{WebServer, answer, nobody, redirect, unending};

const ARCHIVE: &[u8] = b"an archive";
const BASIC: &str = "Basic bWU6c2VjcmV0";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn repository(url: &str, credentials: SourceCredentials) -> HelmRepository {
    HelmRepository {
        url: url.to_owned(),
        access: SourceAccess {
            credentials,
            ..SourceAccess::default()
        },
    }
}

fn basic() -> SourceCredentials {
    SourceCredentials::Basic {
        user: "me".to_owned(),
        password: "secret".into(),
    }
}

/// A repository whose only chart is at these URLs, with this digest.
async fn server(urls: &str, digest: &str) -> WebServer {
    let index = format!("entries: {{a: [{{name: a, version: 1.0.0, urls: [{urls}], digest: '{digest}'}}]}}");
    WebServer::start(move |asked| {
        let answer = match asked.path.as_str() {
            "/charts/index.yaml" => answer(200, index.clone()),
            "/charts/a.tgz" | "/a.tgz" => answer(200, ARCHIVE),
            "/charts/unending.tgz" => unending(b"", vec![0; 65_536]),
            _ => answer(404, ""),
        };
        async move { answer }
    })
    .await
}

async fn only_chart(repository: &HelmRepository) -> (HelmIndex, ChartEntry) {
    let index = read_index(repository, &SourceBounds::default()).await.unwrap();
    let query = ChartQuery {
        name: "a".to_owned(),
        ..ChartQuery::default()
    };
    let chart = index.choose(&query).unwrap().clone();
    (index, chart)
}

async fn downloaded(server: &WebServer) -> Result<Vec<u8>, SourceError> {
    let repository = repository(&server.url("/charts"), basic());
    let (_, chart) = only_chart(&repository).await;
    download(&repository, &chart, &SourceBounds::default()).await
}

#[tokio::test]
async fn a_chart_is_found_and_downloaded() {
    for urls in ["a.tgz", "'local://a.tgz'", "/a.tgz", "missing.tgz, a.tgz"] {
        let server = server(urls, &format!("sha256:{}", sha256(ARCHIVE))).await;
        assert_eq!(downloaded(&server).await.unwrap(), ARCHIVE, "{urls}");
        assert!(server.asked().iter().all(|it| it.authorization() == Some(BASIC)));
    }
}

#[tokio::test]
async fn an_index_that_stays_the_same_keeps_its_digest() {
    let server = server("a.tgz", "").await;
    let repository = repository(
        &server.url("/charts/"),
        SourceCredentials::AuthHeader("Bearer x".into()),
    );
    let (first, _) = only_chart(&repository).await;
    let (second, _) = only_chart(&repository).await;
    assert_eq!(first, second);
    assert_eq!(first.sha1.len(), 40);
    assert_eq!(server.asked()[0].authorization(), Some("Bearer x"));
}

#[tokio::test]
async fn an_archive_that_lies_about_its_digest_is_refused() {
    let server = server("a.tgz", &sha256(b"another archive")).await;
    let refused = downloaded(&server).await.unwrap_err();
    assert!(matches!(refused, SourceError::Corrupt { .. }), "{refused:?}");
    assert!(refused.to_string().contains(&sha256(ARCHIVE)), "{refused}");
}

#[tokio::test]
async fn another_host_of_archives_gets_no_credentials() {
    let other = server("a.tgz", "").await;
    for url in [
        other.url("/a.tgz"),
        other.url("/a.tgz").replace("://", "://another:one@"),
    ] {
        let server = server(&format!("'{url}'"), "").await;
        assert_eq!(downloaded(&server).await.unwrap(), ARCHIVE);
    }
    let to = other.url("/a.tgz");
    let redirecting = WebServer::start(move |asked| {
        let answer = if asked.path.ends_with("index.yaml") {
            answer(200, "entries: {a: [{name: a, version: 1.0.0, urls: [a.tgz]}]}")
        } else {
            redirect(&to)
        };
        async move { answer }
    })
    .await;
    assert_eq!(downloaded(&redirecting).await.unwrap(), ARCHIVE);
    let asked = other.asked();
    assert!(
        asked.len() == 3 && asked.iter().all(|it| it.authorization().is_none()),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_archive_without_an_end_is_refused() {
    let server = server("unending.tgz", "").await;
    let repository = repository(&server.url("/charts"), basic());
    let (_, chart) = only_chart(&repository).await;
    let bounds = SourceBounds {
        total_bytes_max: 1 << 20,
        ..SourceBounds::default()
    };
    let refused = download(&repository, &chart, &bounds).await.unwrap_err();
    assert!(matches!(refused, SourceError::TooLarge { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_repository_that_is_none_is_told_in_words() {
    let pages = [
        (
            200,
            "<html><body>log in</body></html>",
            "it is no index of a Helm repository",
        ),
        (200, "entries: [a, b]", "it is no index of a Helm repository"),
        (401, "", "needs a login: 401 Unauthorized, the credentials are wrong"),
        (404, "", "the index of a Helm repository is not there"),
        (503, "", "it answers 503"),
    ];
    for (status, body, what) in pages {
        let server = WebServer::start(move |_| async move { answer(status, body) }).await;
        let repository = repository(&server.url(""), basic());
        let failed = read_index(&repository, &SourceBounds::default()).await.unwrap_err();
        assert!(failed.to_string().contains(what), "{failed}");
    }
    let away = repository(&nobody().await, basic());
    let failed = read_index(&away, &SourceBounds::default()).await.unwrap_err();
    assert!(matches!(failed, SourceError::Unreachable { .. }), "{failed:?}");
    let server = server("", "").await;
    let failed = downloaded(&server).await.unwrap_err();
    assert!(
        failed.to_string().ends_with("a URL of chart a 1.0.0 is not there"),
        "{failed}"
    );
}
