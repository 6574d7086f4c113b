//! Managed fields as a client may send them, and server-side apply over them.

use kube_api::builtin_schemas;
use kube_store::{
    managed::{self, FieldSet},
    schema::{Schema, decode},
};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static DEPLOYMENT: LazyLock<Arc<Schema>> =
    LazyLock::new(|| builtin_schemas::schema("apps", "v1", "Deployment").expect("a built-in kind"));

/// Entries, the live object and what is applied, one on each line.
pub fn ownership(data: &[u8]) {
    let mut lines = data.splitn(3, |it| *it == b'\n');
    let mut next = || serde_json::from_slice::<Value>(lines.next().unwrap_or_default()).ok();
    let (Some(entries), Some(live), Some(config)) = (next(), next(), next()) else {
        return;
    };
    sets(&entries);
    for manager in ["m", "kubectl"] {
        apply(&entries, live.clone(), &config, manager);
    }
}

fn apply(entries: &Value, mut live: Value, config: &Value, manager: &str) {
    if decode::decode(&mut live, &DEPLOYMENT, "Deployment").is_err() || !live.is_object() {
        return;
    }
    if !live["metadata"].is_object() {
        live["metadata"] = json!({});
    }
    live["metadata"]["managedFields"] = entries.clone();
    let mut config = config.clone();
    if decode::decode(&mut config, &DEPLOYMENT, "Deployment").is_err() || !config.is_object() {
        return;
    }
    let ctx = managed::Ctx {
        schema: &DEPLOYMENT,
        manager,
        api_version: "apps/v1",
        subresource: "",
        now: jiff::Timestamp::UNIX_EPOCH,
        reset_fields: &[&["status"], &["metadata", "generation"]],
        built_in: true,
        served: &["apps/v1"],
        versions: None,
    };
    let _ = managed::apply(Some(&live), &config, &ctx, false);
    if let Ok(once) = managed::apply(Some(&live), &config, &ctx, true) {
        let again = managed::apply(Some(&once), &config, &ctx, false);
        let again = again.expect("who has applied by force owns what was applied");
        assert_eq!(once, again, "what was applied is so");
    }
    let mut new = live.clone();
    managed::update(Some(&live), &mut new, &ctx);
    managed::update(Some(&live), &mut config, &ctx);
    managed::update(None, &mut new, &ctx);
}

/// What the sets of all entries say stays so when they are written, joined and parted.
fn sets(entries: &Value) {
    let entries = entries.as_array().into_iter().flatten();
    let sets: Vec<FieldSet> = entries.filter_map(|it| FieldSet::from_json(&it["fieldsV1"])).collect();
    for set in &sets {
        assert_eq!(
            FieldSet::from_json(&set.to_json()).as_ref(),
            Some(set),
            "a set is read as it was written"
        );
        let _ = set.paths();
    }
    for pair in sets.windows(2) {
        let [left, right] = pair else { continue };
        let both = left.union(right);
        assert_eq!(both, right.union(left));
        assert!(left.difference(&both).is_empty() && right.difference(&both).is_empty());
        assert_eq!(both.intersection(left), *left);
        assert_eq!(left.intersects(right), !left.intersection(right).is_empty());
        assert!(!left.difference(right).intersects(right));
        assert!(!left.recursive_difference(right).intersects(right));
    }
}
