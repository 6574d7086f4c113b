//! What the index of a Helm repository says.

use crate::{SourceError, digest::sha1_hex};
use gotemplate::{SemanticVersion, VersionConstraints};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Values of an index: ten for each version of a chart would be a hundred thousand versions.
const NODES_MAX: usize = 10_000_000;

/// Which charts a repository has.
#[derive(Clone, Debug, PartialEq)]
pub struct HelmIndex {
    /// SHA-1 of the index as it was sent, in hexadecimal: while it stays the same, nothing has changed.
    pub sha1: String,
    /// The versions of each chart, in the order of the index.
    pub entries: BTreeMap<String, Vec<ChartEntry>>,
    /// Where it is from, for messages.
    url: String,
}

/// One version of a chart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ChartEntry {
    pub name: String,
    pub version: String,
    pub app_version: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub urls: Vec<String>,
    /// SHA-256 of the archive, in hexadecimal.
    pub digest: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub keywords: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Which versions of Helm 2's server it is for.
    pub tiller_version: Option<String>,
    pub deprecated: Option<bool>,
}

/// Which version of a chart is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartQuery {
    /// The chart's name.
    pub name: String,
    /// A range of versions as `^1.2` or `>=1 <3`; without one, any.
    pub version: Option<String>,
    /// The digest that the index tells of the version.
    pub digest: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(deserialize_with = "or_default")]
    entries: BTreeMap<String, Option<Vec<ChartEntry>>>,
}

/// What is written as null is as good as left out.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

impl HelmIndex {
    /// Reads an index, which `url` sent.
    pub(super) fn read(bytes: &[u8], url: &str) -> Result<Self, SourceError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_nodes: NODES_MAX,
                max_events: 3 * NODES_MAX,
            },
            with_snippet: false,
        };
        let text = std::str::from_utf8(bytes).map_err(|_| SourceError::corrupt(url, "the index is no UTF-8"))?;
        let written = serde_saphyr::from_str_with_options::<Option<Written>>(text, options);
        let written = written.map_err(|it| {
            let reason = it.without_snippet().to_string();
            SourceError::corrupt(url, format!("it is no index of a Helm repository: {reason}"))
        })?;
        let entries = written.unwrap_or_default().entries.into_iter();
        Ok(Self {
            sha1: sha1_hex(bytes),
            entries: entries.map(|(name, all)| (name, all.unwrap_or_default())).collect(),
            url: url.to_owned(),
        })
    }

    /// The newest version that is wanted. Without a range, versions before a release count only where there is no
    /// release.
    pub fn choose(&self, query: &ChartQuery) -> Result<&ChartEntry, SourceError> {
        self.choose_among(query, |_| true)
    }

    /// The newest version that is wanted, among those that `also` takes.
    pub fn choose_among(
        &self,
        query: &ChartQuery,
        also: impl Fn(&ChartEntry) -> bool,
    ) -> Result<&ChartEntry, SourceError> {
        let range = query.version.as_deref().map(str::trim).filter(|it| !it.is_empty());
        let constraints = range.map(VersionConstraints::parse).transpose().map_err(|it| {
            let range = range.unwrap_or_default();
            SourceError::invalid(format!("{range:?} is no range of versions: {it}"))
        })?;
        let digest = query.digest.as_deref().filter(|it| !it.is_empty());
        let bare = |text: &str| text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
        let all = self.entries.get(&query.name).map(Vec::as_slice).unwrap_or_default();
        let wanted = all.iter().filter_map(|entry| {
            // What is no version can be no newest, and Helm does not list it either.
            let version = SemanticVersion::parse(&entry.version).ok()?;
            let in_range = constraints.as_ref().is_none_or(|it| it.allow(&version));
            let has_digest = digest.is_none_or(|it| entry.digest.as_deref().map(bare) == Some(bare(it)));
            (in_range && has_digest && also(entry)).then_some((version, entry))
        });
        let prefers_releases = constraints.is_none();
        let newest = wanted.reduce(|newest, other| {
            let rank = |version: &SemanticVersion| prefers_releases && version.pre.is_empty();
            let order = rank(&other.0).cmp(&rank(&newest.0)).then(other.0.compare(&newest.0));
            // Of two that are equal, the index has the better one first.
            if order.is_gt() { other } else { newest }
        });
        newest.map(|(_, entry)| entry).ok_or_else(|| {
            let mut what = format!("chart {}", query.name);
            if let Some(range) = range {
                what += &format!(" with a version in {range:?}");
            }
            if let Some(digest) = digest {
                what += &format!(" with the digest {digest}");
            }
            SourceError::not_found(&self.url, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INDEX: &str = "
apiVersion: v1
generated: 2024-01-01T00:00:00Z
entries:
  nginx:
    - {name: nginx, version: 1.2.0, appVersion: 1.25, urls: [nginx-1.2.0.tgz], digest: AA}
    - {name: nginx, version: 1.10.0, urls: [nginx-1.10.0.tgz], digest: bb, keywords: [web], annotations: null}
    - {name: nginx, version: 2.0.0-rc.1, urls: [nginx-2.tgz], keywords: null}
    - {name: nginx, version: latest, urls: null}
  early:
    - {name: early, version: 0.1.0-alpha.2}
    - {name: early, version: 0.1.0-alpha.10}
  none:
";

    fn index() -> HelmIndex {
        HelmIndex::read(INDEX.as_bytes(), "https://charts.example.com/index.yaml").unwrap()
    }

    fn chosen(name: &str, version: Option<&str>, digest: Option<&str>) -> Result<String, SourceError> {
        let query = ChartQuery {
            name: name.to_owned(),
            version: version.map(ToOwned::to_owned),
            digest: digest.map(ToOwned::to_owned),
        };
        index().choose(&query).map(|it| it.version.clone())
    }

    #[test]
    fn the_newest_version_in_the_range_is_chosen() {
        assert_eq!(chosen("nginx", None, None).unwrap(), "1.10.0");
        assert_eq!(chosen("nginx", Some(""), None).unwrap(), "1.10.0");
        assert_eq!(chosen("nginx", Some("~1.2"), None).unwrap(), "1.2.0");
        assert_eq!(chosen("nginx", Some("1.x"), None).unwrap(), "1.10.0");
        assert_eq!(chosen("nginx", Some(">=1.0.0-0"), None).unwrap(), "2.0.0-rc.1");
        assert_eq!(chosen("early", None, None).unwrap(), "0.1.0-alpha.10");
        assert_eq!(chosen("nginx", None, Some("sha256:aa")).unwrap(), "1.2.0");
    }

    #[test]
    fn a_chart_that_is_missing_is_named() {
        let missing = chosen("nginx", Some(">5"), Some("cc")).unwrap_err();
        assert!(matches!(missing, SourceError::NotFound { .. }));
        assert_eq!(
            missing.to_string(),
            "https://charts.example.com/index.yaml: chart nginx with a version in \">5\" with the digest cc is not there"
        );
        assert!(matches!(chosen("none", None, None), Err(SourceError::NotFound { .. })));
        assert!(matches!(
            chosen("nginx", Some("what"), None),
            Err(SourceError::Invalid { .. })
        ));
    }

    #[test]
    fn callers_choose_by_what_else_they_see() {
        let index = index();
        let query = ChartQuery {
            name: "nginx".to_owned(),
            ..ChartQuery::default()
        };
        let found = index
            .choose_among(&query, |it| it.digest.as_deref() == Some("AA"))
            .unwrap();
        assert_eq!(found.app_version.as_deref(), Some("1.25"));
        assert!(index.choose_among(&query, |_| false).is_err());
    }

    #[test]
    fn the_digest_of_an_index_is_that_of_its_bytes() {
        let empty = HelmIndex::read(b"", "").unwrap();
        assert_eq!(empty.sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert!(empty.entries.is_empty());
    }

    #[test]
    fn an_index_with_aliases_without_end_is_refused() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, of) in ["bcdefghijk", "abcdefghij"].map(|it| it.chars().collect::<Vec<_>>())[0]
            .iter()
            .zip("abcdefghij".chars())
        {
            let all = vec![format!("*{of}"); 9].join(", ");
            text += &format!("{name}: &{name} [{all}]\n");
        }
        text += "entries: {a: [{keywords: *k}]}\n";
        assert!(HelmIndex::read(text.as_bytes(), "").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_of_an_index_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = HelmIndex::read(&bytes, "");
        }

        #[test]
        fn no_change_of_an_index_makes_its_reader_panic(at in 0..INDEX.len(), with in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = INDEX.as_bytes().to_vec();
            bytes[at] = with;
            if cut {
                bytes.truncate(at);
            }
            if let Ok(index) = HelmIndex::read(&bytes, "") {
                for name in index.entries.keys() {
                    let _ = index.choose(&ChartQuery { name: name.clone(), version: Some("^1".into()), digest: None });
                }
            }
        }
    }
}
