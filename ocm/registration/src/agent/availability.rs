//! Whether the cluster's API server is well.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use ocm_api::{
    condition::{ConditionUpdate, wanted},
    conditions::managed_cluster::{self, reason},
};

/// A failure counts when it has lasted this long.
const PATIENCE: Duration = Duration::from_secs(20);
/// How soon to look again while a failure does not count yet.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// What the API server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiServerHealth {
    /// It is well.
    Ok,
    /// It is not, with the status it answered (0 when it did not) and its words.
    Failed { code: u16, text: String },
}

/// Asks `/livez`, and `/healthz` where the former does not exist or is forbidden.
pub(super) async fn probe(client: &Client) -> ApiServerHealth {
    match ask(client, "/livez").await {
        ApiServerHealth::Failed { code: 404 | 403, .. } => ask(client, "/healthz").await,
        health => health,
    }
}

async fn ask(client: &Client, path: &str) -> ApiServerHealth {
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a path makes a request");
    match client.request_text(request).await {
        Ok(_) => ApiServerHealth::Ok,
        Err(kube::Error::Api(status)) => ApiServerHealth::Failed {
            code: status.code,
            text: status.message.clone(),
        },
        Err(error) => ApiServerHealth::Failed {
            code: 0,
            text: error.to_string(),
        },
    }
}

/// What to say about it; `None` while a failure is too young to count.
pub(super) fn condition_of(
    health: &ApiServerHealth,
    failing_since: Option<Timestamp>,
    now: Timestamp,
) -> Option<ConditionUpdate> {
    match health {
        ApiServerHealth::Ok => Some(wanted(
            managed_cluster::AVAILABLE,
            true,
            reason::AVAILABLE,
            "Managed cluster is available",
        )),
        ApiServerHealth::Failed { code, text } => {
            let lasted = failing_since
                .map(|it| now.duration_since(it).unsigned_abs())
                .unwrap_or_default();
            (lasted >= PATIENCE).then(|| {
                let message = format!("The kube-apiserver is not ok, status code: {code}, {text}");
                wanted(
                    managed_cluster::AVAILABLE,
                    false,
                    reason::KUBE_API_SERVER_UNAVAILABLE,
                    message,
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_failure_says_nothing_and_a_long_one_does() {
        let failed = ApiServerHealth::Failed {
            code: 500,
            text: "etcd is gone".to_owned(),
        };
        let start = Timestamp::from_second(1000).unwrap();
        let after = |seconds| condition_of(&failed, Some(start), start + Duration::from_secs(seconds));
        assert_eq!(after(19), None);
        assert_eq!(
            after(20).map(|it| it.message),
            Some("The kube-apiserver is not ok, status code: 500, etcd is gone".to_owned())
        );
        assert!(condition_of(&ApiServerHealth::Ok, None, start).is_some());
    }
}
