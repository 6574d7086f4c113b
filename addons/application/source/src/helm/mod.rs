//! Helm repositories: the index, the choice of a chart's version in it, and the archive.
//!
//! Credentials go to the repository's own origin. A chart may be on any host, and is fetched from there without them.

mod index;

use crate::{
    SourceAccess, SourceBounds, SourceError,
    digest::sha256_hex,
    error::{shown, shown_text},
    web::WebClient,
};
use bytes::Bytes;
use http::{HeaderMap, Method};
pub use index::{ChartEntry, ChartQuery, HelmIndex};
use url::Url;

/// An index is text, and is held in memory as a whole: those of the largest public repositories have 20 MiB.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// A Helm repository.
#[derive(Clone, Debug)]
pub struct HelmRepository {
    /// The URL below which there is an `index.yaml`.
    pub url: String,
    pub access: SourceAccess,
}

/// Reads which charts a repository has.
pub async fn read_index(repository: &HelmRepository, bounds: &SourceBounds) -> Result<HelmIndex, SourceError> {
    let deadline = bounds.deadline();
    let base = base(&repository.url)?;
    let url = joined(&base, "index.yaml")?;
    let client = WebClient::new(&base, &repository.access)?;
    let answer = client
        .send(Method::GET, &url, HeaderMap::new(), Bytes::new(), deadline)
        .await?;
    if !answer.status.is_success() {
        return Err(client.refusal(&answer, "the index of a Helm repository"));
    }
    let body = answer
        .bytes(bounds.total_bytes_max.min(INDEX_BYTES_MAX), deadline)
        .await?;
    let shown = shown(&url);
    let reading = tokio::task::spawn_blocking({
        let shown = shown.clone();
        move || HelmIndex::read(&body, &shown)
    });
    deadline
        .holds(&shown, async {
            let read = reading.await;
            read.map_err(|_| SourceError::corrupt(&shown, "it is no index of a Helm repository"))?
        })
        .await
}

/// Where an archive of a chart is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePlace {
    pub url: String,
    /// Whether it is on the repository's own server, which the credentials are for.
    pub is_own: bool,
}

/// Where the archive of a chart is, with whole URLs; what is on the repository's own server comes first. A URL that is
/// not supported is left out, unless all are.
pub fn archive_places(repository: &HelmRepository, chart: &ChartEntry) -> Result<Vec<ArchivePlace>, SourceError> {
    let base = base(&repository.url)?;
    let (mut places, mut failed) = (Vec::new(), None);
    for text in &chart.urls {
        match archive_url(&base, text) {
            Ok(url) => places.push(ArchivePlace {
                is_own: url.origin() == base.origin(),
                url: url.into(),
            }),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    places.sort_by_key(|it| !it.is_own);
    match failed {
        Some(error) if places.is_empty() => Err(error),
        _ => Ok(places),
    }
}

/// Downloads the archive of a chart, a tar in gzip. Its URLs are tried in their order. Where the index tells a digest,
/// the archive has it.
pub async fn download(
    repository: &HelmRepository,
    chart: &ChartEntry,
    bounds: &SourceBounds,
) -> Result<Vec<u8>, SourceError> {
    let deadline = bounds.deadline();
    let base = base(&repository.url)?;
    let client = WebClient::new(&base, &repository.access)?;
    let mut failed = None;
    for url in &chart.urls {
        let downloading = async {
            let url = archive_url(&base, url)?;
            let answer = client
                .send(Method::GET, &url, HeaderMap::new(), Bytes::new(), deadline)
                .await?;
            if !answer.status.is_success() {
                return Err(client.refusal(&answer, &format!("chart {} {}", chart.name, chart.version)));
            }
            let archive = answer.bytes(bounds.total_bytes_max, deadline).await?;
            check_digest(&archive, chart, &shown(&url))?;
            Ok(archive)
        };
        match downloading.await {
            Ok(archive) => return Ok(archive),
            // What the first one says is what most will look at.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.unwrap_or_else(|| {
        let what = format!("a URL of chart {} {}", chart.name, chart.version);
        SourceError::not_found(&shown(&base), what)
    }))
}

fn base(text: &str) -> Result<Url, SourceError> {
    let invalid = |why: String| SourceError::invalid(format!("the Helm repository {:?} {why}", shown_text(text)));
    let mut url = Url::parse(text.trim()).map_err(|it| invalid(format!("has no URL that can be read: {it}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("is reached by http or https only".to_owned()));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// A file of the repository; what the repository's URL has for a query stays.
fn joined(base: &Url, name: &str) -> Result<Url, SourceError> {
    let joined = base.join(name);
    let mut url = joined.map_err(|it| SourceError::invalid(format!("{}: {name:?} is no URL: {it}", shown(base))))?;
    if url.query().is_none() && url.origin() == base.origin() {
        url.set_query(base.query());
    }
    Ok(url)
}

/// Where an archive is. `local://` stands for the repository itself.
fn archive_url(base: &Url, text: &str) -> Result<Url, SourceError> {
    let relative = text.strip_prefix("local://").map(|it| it.trim_start_matches('/'));
    let url = joined(base, relative.unwrap_or(text))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        let reason = format!(
            "{} lists a chart at a URL of {scheme}, which is not supported",
            shown(base)
        );
        return Err(SourceError::invalid(reason));
    }
    Ok(url)
}

fn check_digest(archive: &[u8], chart: &ChartEntry, url: &str) -> Result<(), SourceError> {
    let Some(told) = chart.digest.as_deref().filter(|it| !it.is_empty()) else {
        return Ok(());
    };
    let told = told.strip_prefix("sha256:").unwrap_or(told);
    let has = sha256_hex(archive);
    if told.eq_ignore_ascii_case(&has) {
        return Ok(());
    }
    let reason = format!("the archive has the digest {has}, and the index says {told}");
    Err(SourceError::corrupt(url, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_charts_are_relative_to_the_repository() {
        let base = base("https://charts.example.com/stable").unwrap();
        let url = |text| archive_url(&base, text).unwrap().to_string();
        assert_eq!(url("a-1.tgz"), "https://charts.example.com/stable/a-1.tgz");
        assert_eq!(
            url("charts/a-1.tgz"),
            "https://charts.example.com/stable/charts/a-1.tgz"
        );
        assert_eq!(url("/a-1.tgz"), "https://charts.example.com/a-1.tgz");
        assert_eq!(url("local://a-1.tgz"), "https://charts.example.com/stable/a-1.tgz");
        assert_eq!(
            url("https://elsewhere.example.com/a-1.tgz"),
            "https://elsewhere.example.com/a-1.tgz"
        );
    }

    #[test]
    fn other_schemes_are_refused_in_words() {
        let base = base("https://charts.example.com").unwrap();
        for text in ["oci://registry.example.com/a:1", "file:///etc/passwd"] {
            let refused = archive_url(&base, text).unwrap_err().to_string();
            assert!(refused.contains("is not supported"), "{refused}");
        }
        assert!(super::base("oci://charts.example.com").is_err());
    }

    #[test]
    fn a_repositorys_own_archives_come_first() {
        let repository = HelmRepository {
            url: "https://charts.example.com/stable".to_owned(),
            access: SourceAccess::default(),
        };
        let places = |urls: &[&str]| {
            let chart = ChartEntry {
                urls: urls.iter().map(|it| (*it).to_owned()).collect(),
                ..ChartEntry::default()
            };
            let places = archive_places(&repository, &chart)?;
            Ok::<_, SourceError>(places.into_iter().map(|it| (it.url, it.is_own)).collect::<Vec<_>>())
        };
        let other = ("https://other.example.com/a.tgz".to_owned(), false);
        let own = ("https://charts.example.com/stable/a.tgz".to_owned(), true);
        assert_eq!(
            places(&["https://other.example.com/a.tgz", "oci://x.example.com/a", "a.tgz"]).unwrap(),
            [own, other]
        );
        assert!(places(&["oci://x.example.com/a"]).is_err());
        assert!(places(&[]).unwrap().is_empty());
    }
}
