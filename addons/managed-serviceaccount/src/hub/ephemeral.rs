//! Deletes ManagedServiceAccounts when their time is over (feature gate EphemeralIdentity).
//!
//! Root: ManagedServiceAccount. Writes: deletes it. Never: one without `ttlSecondsAfterCreation`.
//! Upstream: managed-serviceaccount `pkg/addon/commoncontroller/ephemeral_identity_controller.go`.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    ocm_api::authentication::ManagedServiceAccount,
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait,
        cache::{Watching, split_key},
        rbac::Right,
    },
};

/// A wait for years is one until somebody looks at the clock.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(24 * 3600);

/// The reconciler.
pub struct EphemeralAccounts {
    accounts: Cache<ManagedServiceAccount>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The object; `None` when it is gone.
    pub account: Option<Arc<ManagedServiceAccount>>,
}

impl EphemeralAccounts {
    /// Of all clusters, on the hub.
    pub fn new(caches: &Caches) -> Self {
        Self { accounts: caches.of() }
    }

    /// Of one cluster, where an agent does it.
    pub fn of_cluster(caches: &Caches, cluster: &str) -> Self {
        Self {
            accounts: caches.in_namespace(cluster, Watching::default()),
        }
    }
}

#[async_trait]
impl Reconciler for EphemeralAccounts {
    const NAME: &'static str = "ephemeral-identity";
    const RIGHTS: &'static [Right] = &[Right::new(
        ManagedServiceAccount::GROUP,
        "managedserviceaccounts",
        "delete",
        "ManagedServiceAccounts end ttlSecondsAfterCreation after they were made.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.accounts);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            account: self.accounts.get(namespace, name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(account) = seen.account.as_deref() else {
            return plan;
        };
        let created = account.metadata.creation_timestamp.as_ref().map(|it| it.0);
        let (Some(ttl), Some(created)) = (account.spec.ttl_seconds_after_creation, created) else {
            return plan;
        };
        let end = created + SignedDuration::from_secs(ttl.into());
        match Duration::try_from(end.duration_since(seen.now)) {
            Ok(left) if !left.is_zero() => {
                plan.look_again(left.min(LOOK_AT_CLOCK));
            }
            _ => {
                plan.delete(Site::Hub, account);
            }
        }
        plan
    }

    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        // An agent that may not leaves it to the hub.
        let failed = outcome.errors().any(|(_, error)| !error.is_forbidden());
        failed.then(|| outcome.error_text())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(ttl: Option<i32>, now: &str) -> String {
        let account = json!({
            "metadata": {"name": "a", "namespace": "c1", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"rotation": {}, "ttlSecondsAfterCreation": ttl},
        });
        let plan = EphemeralAccounts::plan(&Seen {
            now: now.parse().unwrap(),
            account: Some(Arc::new(serde_json::from_value(account).unwrap())),
        });
        format!("{plan}").trim().to_owned()
    }

    #[test]
    fn an_account_ends_when_its_time_is_over() {
        assert_eq!(printed(None, "2027-01-01T00:00:00Z"), "nothing to do");
        let before = printed(Some(60), "2026-01-01T00:00:59Z");
        assert!(before.contains("1s") && !before.contains("delete"), "{before}");
        let after = printed(Some(60), "2026-01-01T00:01:00Z");
        assert_eq!(after, "hub: delete ManagedServiceAccount c1/a");
    }
}
