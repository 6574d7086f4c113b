//! Changes the keys with which values in replicas are encrypted, one for each cluster.
//!
//! Root: the Secret `policy-encryption-key` in the namespace of a cluster. Reads: the replicas there. Writes: the
//! Secret, the annotation `trigger-update` of Policies whose replicas have encrypted values. Never: a Secret that is
//! not there; the first replica that needs a key makes it. Upstream: governance-policy-propagator
//! `controllers/encryptionkeys`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::{ByteString, api::core::v1::Secret},
    kube::{ResourceExt, runtime::watcher},
    ocm_api::policy::{ENCRYPTION_KEY_SECRET, Policy, annotations},
    reconcile::{
        Cache, Caches, ObserveError, Plan, Reconciler, Site, Step, Target, Watches, async_trait,
        cache::{Watching, split_key},
        rbac::Right,
    },
};
use serde_json::json;

use super::world::{self, PolicyWorld};

/// The key that is used, and the one that was used before.
const KEY: &str = "key";
const PREVIOUS_KEY: &str = "previousKey";
/// The length of keys that are made here, in bytes: AES-256.
const KEY_LENGTH: usize = 32;

/// The Secrets with keys.
pub fn keys(caches: &Caches) -> Cache<Secret> {
    caches.watching(Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={ENCRYPTION_KEY_SECRET}")),
        ..Watching::default()
    })
}

/// A new key.
///
/// # Errors
/// When the machine has no randomness.
pub fn new_key() -> Result<Vec<u8>, String> {
    random(KEY_LENGTH)
}

/// So many random bytes.
///
/// # Errors
/// When the machine has no randomness.
pub fn random(length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the machine gives no random bytes".to_owned())?;
    Ok(bytes)
}

/// The time as the annotation `last-rotated` has it.
pub fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The reconciler.
pub struct EncryptionKeys {
    world: PolicyWorld,
    keys: Cache<Secret>,
    days: u32,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Secret; `None` when it is gone.
    pub secret: Option<Arc<Secret>>,
    /// The Policies whose replicas on the cluster have encrypted values.
    pub roots: Vec<Arc<Policy>>,
    /// How old a key becomes, in days.
    pub days: u32,
    /// A key that nobody has used.
    pub fresh: Vec<u8>,
}

impl EncryptionKeys {
    /// Over these caches. `days` is at least 1.
    pub fn new(world: PolicyWorld, caches: &Caches, days: u32) -> Self {
        Self {
            world,
            keys: keys(caches),
            days,
        }
    }
}

#[async_trait]
impl Reconciler for EncryptionKeys {
    const NAME: &'static str = "policy-encryption-keys";
    const RIGHTS: &'static [Right] = &[
        Right::new("", "secrets", "patch", "Keys are changed from time to time."),
        Right::new(
            Policy::GROUP,
            "policies",
            "patch",
            "Replicas are encrypted anew when the key has changed.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.keys).reads(&self.world.policies);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let replicas = self.world.policies.list_in(namespace);
        let encrypted = replicas
            .iter()
            .filter(|it| it.annotations().contains_key(annotations::ENCRYPTION_IV));
        let roots: BTreeSet<String> = encrypted.filter_map(|it| world::root_key(it)).collect();
        let found = roots.iter().filter_map(|it| {
            let (namespace, name) = split_key(it);
            self.world.policies.get(namespace, name)
        });
        Ok(Seen {
            now: Timestamp::now(),
            secret: self.keys.get(namespace, name),
            roots: found.collect(),
            days: self.days,
            fresh: new_key()?,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(secret) = seen
            .secret
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let annotation = |name: &str| secret.annotations().get(name).map(String::as_str).unwrap_or_default();
        let last = annotation(annotations::LAST_ROTATED);
        if annotation(annotations::DISABLE_ROTATION).eq_ignore_ascii_case("true") {
            plan.remark("the key is changed by hand");
            trigger(&mut plan, seen, secret, last);
            return plan;
        }
        let key = |name: &str| {
            secret
                .data
                .as_ref()
                .and_then(|it| it.get(name))
                .map(|it| it.0.clone())
                .unwrap_or_default()
        };
        let (current, previous) = (key(KEY), key(PREVIOUS_KEY));
        let rest = remaining(last, seen.days, seen.now).filter(|_| is_aes(&current));
        let mut new = secret.clone();
        let data = new.data.get_or_insert_default();
        let Some(rest) = rest else {
            // A key that is none would keep clusters from decrypting anything.
            let before = if is_aes(&current) { current } else { Vec::new() };
            data.insert(PREVIOUS_KEY.to_owned(), ByteString(before));
            data.insert(KEY.to_owned(), ByteString(seen.fresh.clone()));
            let now = written(seen.now);
            new.annotations_mut()
                .insert(annotations::LAST_ROTATED.to_owned(), now.clone());
            plan.change(Site::Hub, secret, &new);
            plan.stage();
            trigger(&mut plan, seen, secret, &now);
            return plan;
        };
        if !previous.is_empty() && !is_aes(&previous) {
            data.insert(PREVIOUS_KEY.to_owned(), ByteString(Vec::new()));
            plan.change(Site::Hub, secret, &new);
        }
        plan.look_again(rest);
        plan
    }
}

/// Whether bytes can be a key of AES.
fn is_aes(key: &[u8]) -> bool {
    matches!(key.len(), 16 | 24 | 32)
}

/// How long a key may still be used. `None` when it has to be changed.
fn remaining(last: &str, days: u32, now: Timestamp) -> Option<Duration> {
    let last: Timestamp = last.parse().ok()?;
    let end = last
        .checked_add(SignedDuration::from_hours(24 * i64::from(days)))
        .ok()?;
    Duration::try_from(end.duration_since(now))
        .ok()
        .filter(|it| !it.is_zero())
}

/// Has the replicas with encrypted values made anew.
fn trigger(plan: &mut Plan, seen: &Seen, secret: &Secret, last: &str) {
    let value = format!("rotate-key-{}-{last}", secret.namespace().unwrap_or_default());
    for root in &seen.roots {
        if root.annotations().get(annotations::TRIGGER_UPDATE) == Some(&value) {
            continue;
        }
        plan.push(Step::MergePatch {
            target: Target::of(Site::Hub, &**root),
            subresource: None,
            patch: json!({"metadata": {"annotations": { annotations::TRIGGER_UPDATE: value }}}),
        });
    }
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::Value;

    use super::*;

    fn seen(annotations: Value, key: &[u8], previous: &[u8]) -> Seen {
        let metadata: ObjectMeta = serde_json::from_value(
            json!({"namespace": "c1", "name": ENCRYPTION_KEY_SECRET, "annotations": annotations}),
        )
        .unwrap();
        let data = [
            (KEY.to_owned(), ByteString(key.to_vec())),
            (PREVIOUS_KEY.to_owned(), ByteString(previous.to_vec())),
        ];
        let root =
            json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"disabled": false, "policy-templates": []}});
        Seen {
            now: "2026-03-01T00:00:00Z".parse().unwrap(),
            secret: Some(Arc::new(Secret {
                metadata,
                data: Some(data.into()),
                ..Secret::default()
            })),
            roots: vec![Arc::new(serde_json::from_value(root).unwrap())],
            days: 30,
            fresh: vec![7; KEY_LENGTH],
        }
    }

    /// What is written into the Secret, and what is told the Policy.
    fn written_by(seen: &Seen) -> (Option<Value>, Option<Value>) {
        let plan = EncryptionKeys::plan(seen);
        let patch = |of: &str| {
            plan.stages.iter().flatten().find_map(|it| match it {
                Step::MergePatch { target, patch, .. } if target.api_resource.kind == of => Some(patch.clone()),
                _ => None,
            })
        };
        (patch("Secret"), patch("Policy"))
    }

    #[test]
    fn an_old_key_becomes_the_previous_one() {
        let old = seen(
            json!({annotations::LAST_ROTATED: "2026-01-30T00:00:00Z"}),
            &[1; 32],
            &[2; 32],
        );
        let (secret, policy) = written_by(&old);
        let secret = secret.unwrap();
        assert_eq!(secret["data"][KEY], "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
        assert_eq!(
            secret["data"][PREVIOUS_KEY],
            "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
        );
        assert_eq!(
            secret["metadata"]["annotations"][annotations::LAST_ROTATED],
            "2026-03-01T00:00:00Z"
        );
        assert_eq!(
            policy.unwrap(),
            json!({"metadata": {"annotations": {annotations::TRIGGER_UPDATE: "rotate-key-c1-2026-03-01T00:00:00Z"}}})
        );
    }

    #[test]
    fn a_young_key_is_looked_at_when_it_is_old() {
        let young = seen(
            json!({annotations::LAST_ROTATED: "2026-02-28T00:00:00Z"}),
            &[1; 32],
            &[],
        );
        let plan = EncryptionKeys::plan(&young);
        assert!(plan.is_empty());
        assert_eq!(plan.again, Some(Duration::from_secs(29 * 86_400)));
    }

    #[test]
    fn what_is_no_key_is_not_kept() {
        let bad = seen(
            json!({annotations::LAST_ROTATED: "2026-02-28T00:00:00Z"}),
            b"short",
            &[2; 32],
        );
        assert_eq!(written_by(&bad).0.unwrap()["data"][PREVIOUS_KEY], "");
        let bad_previous = seen(
            json!({annotations::LAST_ROTATED: "2026-02-28T00:00:00Z"}),
            &[1; 32],
            b"short",
        );
        let (secret, policy) = written_by(&bad_previous);
        assert_eq!(secret.unwrap()["data"], json!({ PREVIOUS_KEY: "" }));
        assert_eq!(policy, None);
        assert!(
            written_by(&seen(json!({annotations::LAST_ROTATED: "yesterday"}), &[1; 32], &[]))
                .0
                .is_some()
        );
    }

    #[test]
    fn keys_of_people_are_not_changed() {
        let own = json!({annotations::DISABLE_ROTATION: "True", annotations::LAST_ROTATED: "2020-01-01T00:00:00Z"});
        let (secret, policy) = written_by(&seen(own, &[1; 32], &[]));
        assert_eq!(secret, None);
        assert!(
            policy
                .unwrap()
                .to_string()
                .contains("rotate-key-c1-2020-01-01T00:00:00Z")
        );
    }
}
