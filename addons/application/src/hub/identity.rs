//! Who has written a Subscription or a PlacementRule, as the hub says it in the object itself. Pure.
//! Upstream: stolostron's multicloud-operators-foundation pkg/webhook/mutating, which looks at what is created only.
//! Ours differs: a change counts, too, or whoever may change an administrator's Subscription would deploy as the
//! administrator does; and who may speak for everybody says for whom, as a backup that is restored does.

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::ocm_api::apps::{annotations, labels};
use serde_json::{Map, Value};

/// Both annotations that say it.
const IDENTITY: [&str; 2] = [annotations::USER_IDENTITY, annotations::USER_GROUP];
/// Annotations that change nothing of what is deployed: the hub writes them, or they only say when.
const IDLE_ANNOTATIONS: [&str; 4] = [
    annotations::CLUSTER_ADMIN,
    annotations::GIT_CURRENT_COMMIT,
    annotations::WEBHOOK_EVENT_COUNT,
    annotations::MANUAL_REFRESH_TIME,
];
/// Labels that the hub writes.
const IDLE_LABELS: [&str; 3] = [labels::RECONCILE_RATE, labels::APP, labels::PART_OF];

/// Somebody who writes an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectWriter<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The groups of the user.
    pub groups: &'a [String],
}

/// What those may impersonate who say for whom they write.
pub const IMPERSONATED: [&str; 2] = ["users", "groups"];

/// Whether an object names somebody as its author whom it did not name before: that is for those who may impersonate
/// [everybody](IMPERSONATED).
pub fn is_claimed(object: &Value, old: Option<&Value>) -> bool {
    let mut both = IDENTITY
        .iter()
        .map(|it| (annotation(object, it), old.and_then(|old| annotation(old, it))));
    both.any(|(new, old)| new.is_some_and(|new| Some(new) != old))
}

/// The annotations of an object with who has written it; `None` where it says that already. `is_believed` is about an
/// author that the object [claims](is_claimed).
pub fn attributed(object: &Value, old: Option<&Value>, by: ObjectWriter<'_>, is_believed: bool) -> Option<Value> {
    if is_copy(object) || is_believed && is_claimed(object, old) {
        return None;
    }
    let author = match old.filter(|old| content(old) == content(object)) {
        Some(old) => IDENTITY.map(|it| annotation(old, it).map(str::to_owned)),
        None => [by.user.to_owned(), by.groups.join(",")].map(|it| Some(BASE64_STANDARD.encode(it))),
    };
    let mut all = map(object, "annotations");
    for (name, value) in IDENTITY.into_iter().zip(author) {
        match value {
            Some(value) => drop(all.insert(name.to_owned(), value.into())),
            None => drop(all.remove(name)),
        }
    }
    (all != map(object, "annotations")).then_some(Value::Object(all))
}

/// A copy that a work has brought has the author of the Subscription that it is a copy of.
fn is_copy(object: &Value) -> bool {
    object["spec"]["placement"]["local"] == true && annotation(object, annotations::HOSTING_SUBSCRIPTION).is_some()
}

/// What says what is deployed, and where.
fn content(object: &Value) -> (&Value, Map<String, Value>, Map<String, Value>) {
    let (mut annotations, mut labels) = (map(object, "annotations"), map(object, "labels"));
    annotations.retain(|name, _| !IDENTITY.iter().chain(&IDLE_ANNOTATIONS).any(|it| it == name));
    // What kubectl keeps there says nothing that the object does not.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    labels.retain(|name, _| !IDLE_LABELS.iter().any(|it| it == name));
    (&object["spec"], annotations, labels)
}

fn map(object: &Value, part: &str) -> Map<String, Value> {
    object["metadata"][part].as_object().cloned().unwrap_or_default()
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALICE: &str = "YWxpY2U=";
    const EVE: &str = "ZXZl";

    fn object(annotations: Value, channel: &str) -> Value {
        json!({"metadata": {"name": "s", "annotations": annotations}, "spec": {"channel": channel}})
    }

    fn by(user: &str, object: &Value, old: Option<&Value>, is_believed: bool) -> Option<(Value, Value)> {
        let groups = ["a".to_owned(), "b".to_owned()];
        let writer = ObjectWriter { user, groups: &groups };
        let all = attributed(object, old, writer, is_believed)?;
        Some((
            all[annotations::USER_IDENTITY].clone(),
            all[annotations::USER_GROUP].clone(),
        ))
    }

    fn of(user: &str) -> Option<(Value, Value)> {
        Some((
            BASE64_STANDARD.encode(user).into(),
            BASE64_STANDARD.encode("a,b").into(),
        ))
    }

    #[test]
    fn what_is_created_has_its_writer() {
        assert_eq!(by("eve", &object(json!({}), "a"), None, false), of("eve"));
        let claims = object(json!({annotations::USER_IDENTITY: ALICE}), "a");
        assert!(is_claimed(&claims, None));
        assert_eq!(by("eve", &claims, None, false), of("eve"));
        assert_eq!(by("eve", &claims, None, true), None);
    }

    #[test]
    fn whoever_changes_what_is_deployed_is_its_author() {
        let signed = json!({annotations::USER_IDENTITY: ALICE, annotations::USER_GROUP: ""});
        let old = object(signed.clone(), "a");
        assert_eq!(by("eve", &object(signed.clone(), "b"), Some(&old), false), of("eve"));
        let mut moved = signed.clone();
        moved[annotations::GIT_PATH] = "other".into();
        assert_eq!(by("eve", &object(moved, "a"), Some(&old), true), of("eve"));
        let mut labelled = old.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(by("eve", &labelled, Some(&old), false), of("eve"));
    }

    #[test]
    fn other_changes_leave_the_author() {
        let signed = json!({annotations::USER_IDENTITY: ALICE, annotations::USER_GROUP: ""});
        let old = object(signed.clone(), "a");
        let mut counted = signed.clone();
        counted[annotations::WEBHOOK_EVENT_COUNT] = "3".into();
        assert_eq!(by("hub", &object(counted, "a"), Some(&old), false), None);
        let alices = Some((json!(ALICE), json!("")));
        for changed in [
            json!({}),
            json!({annotations::USER_IDENTITY: EVE, annotations::USER_GROUP: EVE}),
        ] {
            assert_eq!(by("eve", &object(changed, "a"), Some(&old), false), alices);
        }
        // Nobody has written what is older than the rule.
        let (unsigned, claims) = (object(json!({}), "a"), object(signed, "a"));
        assert_eq!(by("eve", &unsigned, Some(&unsigned), false), None);
        let left = attributed(
            &claims,
            Some(&unsigned),
            ObjectWriter {
                user: "eve",
                groups: &[],
            },
            false,
        );
        assert_eq!(left, Some(json!({})));
    }

    #[test]
    fn a_copy_keeps_what_it_is_told() {
        let mut copy = object(json!({annotations::HOSTING_SUBSCRIPTION: "a/b"}), "a");
        copy["spec"]["placement"] = json!({"local": true});
        assert_eq!(by("agent", &copy, None, false), None);
        copy["metadata"]["annotations"] = json!({});
        assert_eq!(by("eve", &copy, None, false), of("eve"));
    }
}
