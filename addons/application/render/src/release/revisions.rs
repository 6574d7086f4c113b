//! The revisions of a release, from the labels of their Secrets: which are kept.

use std::collections::BTreeMap;

use super::stored::ReleaseStatus;

/// How many revisions Helm keeps.
pub const HISTORY_MAX: usize = 10;

/// What the labels of a Secret say about the revision in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleaseRevision {
    /// The number of the revision.
    pub version: i64,
    /// The name of the release.
    pub release: String,
    /// What became of it.
    pub status: ReleaseStatus,
}

impl ReleaseRevision {
    /// Reads labels; without the number and the name of a release there is no revision.
    #[must_use]
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        if labels.get("owner")? != "helm" {
            return None;
        }
        Some(ReleaseRevision {
            version: labels.get("version")?.parse().ok()?,
            release: labels.get("name")?.clone(),
            status: ReleaseStatus::of_word(labels.get("status").map_or("", String::as_str)),
        })
    }

    /// The name of its Secret.
    #[must_use]
    pub fn secret_name(&self) -> String {
        super::stored::secret_name(&self.release, self.version)
    }
}

/// The revisions that go so that one more fits, the oldest first. What is deployed stays.
#[must_use]
pub fn superfluous_revisions(history: &[ReleaseRevision], most: usize) -> Vec<ReleaseRevision> {
    let most = most.saturating_sub(1);
    let mut history = history.to_vec();
    history.sort();
    let deployed = history
        .iter()
        .rev()
        .find(|it| it.status == ReleaseStatus::Deployed)
        .map(|it| it.version);
    let too_many = history.len().saturating_sub(most);
    history
        .into_iter()
        .filter(|it| Some(it.version) != deployed)
        .take(too_many)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(version: i64, status: ReleaseStatus) -> ReleaseRevision {
        ReleaseRevision {
            version,
            release: "web".to_owned(),
            status,
        }
    }

    #[test]
    fn the_oldest_go_and_the_deployed_one_stays() {
        let history: Vec<_> = (1..=12)
            .map(|it| {
                let status = if it == 2 {
                    ReleaseStatus::Deployed
                } else {
                    ReleaseStatus::Failed
                };
                revision(it, status)
            })
            .collect();
        let gone: Vec<_> = superfluous_revisions(&history, HISTORY_MAX)
            .iter()
            .map(|it| it.version)
            .collect();
        assert_eq!(gone, [1, 3, 4]);
        assert!(superfluous_revisions(&history[..9], HISTORY_MAX).is_empty());
    }

    #[test]
    fn labels_say_which_revision_it_is() {
        let labels = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            ReleaseRevision::of_labels(&pairs.collect())
        };
        let all = [
            ("owner", "helm"),
            ("name", "web"),
            ("version", "3"),
            ("status", "pending-upgrade"),
        ];
        let read = labels(&all).unwrap();
        assert_eq!(read, revision(3, ReleaseStatus::PendingUpgrade));
        assert_eq!(read.secret_name(), "sh.helm.release.v1.web.v3");
        assert_eq!(labels(&all[..3]).unwrap().status, ReleaseStatus::Unknown);
        assert_eq!(labels(&all[..2]), None);
        assert_eq!(labels(&all[1..]), None);
    }
}
