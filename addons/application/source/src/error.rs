//! What can go wrong with a source, in words for whoever configured it. No message holds credentials: a URL is shown
//! without its user, its query and its fragment.

use std::error::Error;
use url::Url;

/// Why a source could not be fetched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SourceError {
    /// There is no connection to the server, or it answers with a failure of its own.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable { url: String, reason: String },
    /// The server wants credentials, or refuses those that it was given.
    #[error("{url} needs a login: {reason}")]
    LoginNeeded { url: String, reason: String },
    /// The server is there; the repository, branch, tag, commit, chart, bucket or object is not.
    #[error("{url}: {what} is not there")]
    NotFound { url: String, what: String },
    /// What was sent is not what it should be: cut off, garbage, or of another digest.
    #[error("{url} sent something unusable: {reason}")]
    Corrupt { url: String, reason: String },
    /// There is more than the bounds allow.
    #[error("{url} is too large: {what}")]
    TooLarge { url: String, what: String },
    /// It did not end in time. The time is in seconds.
    #[error("{url} did not answer within {seconds} s")]
    TimedOut { url: String, seconds: f64 },
    /// The configuration of the source is wrong, and asking again does not help.
    #[error("{reason}")]
    Invalid { reason: String },
}

impl SourceError {
    pub(crate) fn unreachable(url: &str, reason: impl ToString) -> Self {
        Self::Unreachable {
            url: url.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn login_needed(url: &str, reason: impl ToString) -> Self {
        Self::LoginNeeded {
            url: url.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn not_found(url: &str, what: impl ToString) -> Self {
        Self::NotFound {
            url: url.to_owned(),
            what: what.to_string(),
        }
    }

    pub(crate) fn corrupt(url: &str, reason: impl ToString) -> Self {
        Self::Corrupt {
            url: url.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn too_large(url: &str, what: impl ToString) -> Self {
        Self::TooLarge {
            url: url.to_owned(),
            what: what.to_string(),
        }
    }

    pub(crate) fn invalid(reason: impl ToString) -> Self {
        Self::Invalid {
            reason: reason.to_string(),
        }
    }
}

/// A URL without what may be secret in it.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // They fail for URLs that have no authority, and so nothing to hide there.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// A text that is no URL, as far as it can be shown: what may be a user, a password or a token is left out.
pub(crate) fn shown_text(text: &str) -> String {
    let without_query = |it: &str| it.split(['?', '#']).next().unwrap_or_default().to_owned();
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{}", without_query(rest)),
        None => without_query(text),
    }
}

/// An error and its causes, in one line; a cause that its effect tells already is not told again.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
