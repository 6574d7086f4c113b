//! What a work says, in sixteen bytes: two works with the same fingerprint bring the same to their clusters.
//!
//! Objects are compared as Kubernetes means them: the order of fields is nothing, a field that is null is not there,
//! `1` is `1.0`, and `metadata.creationTimestamp`, which Go writes into everything it prints, is nobody's wish
//! (upstream clears it before it compares, too).

use std::fmt;

use ocm_api::work::{ManifestWorkSpec, Manifests};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What a work says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Of everything that a work or a template says.
    pub fn of(spec: &ManifestWorkSpec) -> Self {
        let mut hasher = Sha256::new();
        manifests(&mut hasher, &spec.workload.manifests);
        let ManifestWorkSpec {
            workload: _,
            delete_option,
            manifest_configs,
            executor,
        } = spec;
        part(&mut hasher, delete_option);
        part(&mut hasher, manifest_configs);
        part(&mut hasher, executor);
        Self::end(hasher)
    }

    /// Of the objects alone.
    pub fn of_manifests(list: &Manifests) -> Self {
        let mut hasher = Sha256::new();
        manifests(&mut hasher, list);
        Self::end(hasher)
    }

    fn end(hasher: Sha256) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize()[..16]);
        Self(bytes)
    }
}

/// As a part of a name: ten hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..5].iter().try_for_each(|it| write!(f, "{it:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Five lower-case letters and digits that stand for a text, as those that a server generates look.
pub fn five_letters(text: &str) -> String {
    // Kubernetes' own alphabet for generated names: no vowels and nothing that looks like one.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = Sha256::digest(text.as_bytes());
    hash.iter()
        .take(5)
        .map(|it| char::from(LETTERS[usize::from(*it) % LETTERS.len()]))
        .collect()
}

fn part(hasher: &mut Sha256, it: &impl Serialize) {
    let value = serde_json::to_value(it).expect("a spec serializes: its keys are strings");
    feed(hasher, &value);
}

fn manifests(hasher: &mut Sha256, list: &Manifests) {
    hasher.update((list.len() as u64).to_le_bytes());
    for manifest in list.read().iter() {
        object(hasher, &manifest.0, &["metadata", "spec"]);
    }
}

/// An object whose `metadata` says nothing about its creation. `below` names the fields that lead to one.
fn object(hasher: &mut Sha256, value: &Value, below: &[&str]) {
    let Value::Object(map) = value else {
        return feed(hasher, value);
    };
    fields(hasher, map, |hasher, key, value| match key {
        "metadata" if below.contains(&"metadata") => without_creation(hasher, value),
        // Of a Deployment and its like: `spec.template.metadata`.
        "spec" if below.contains(&"spec") => object(hasher, value, &["template"]),
        "template" if below.contains(&"template") => object(hasher, value, &["metadata"]),
        _ => feed(hasher, value),
    });
}

fn without_creation(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) if map.contains_key("creationTimestamp") => {
            let mut map = map.clone();
            map.remove("creationTimestamp");
            feed(hasher, &Value::Object(map));
        }
        other => feed(hasher, other),
    }
}

fn fields(hasher: &mut Sha256, map: &serde_json::Map<String, Value>, mut each: impl FnMut(&mut Sha256, &str, &Value)) {
    let mut fields: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    hasher.update(b"{");
    for (key, value) in fields {
        text(hasher, key);
        each(hasher, key, value);
    }
    hasher.update(b"}");
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hasher.update(b"n"),
        Value::Bool(it) => hasher.update(if *it { b"t" } else { b"f" }),
        Value::Number(it) => {
            let whole = it.as_i64().or_else(|| {
                let float = it.as_f64()?;
                (float.fract() == 0.0 && float.abs() < 1e15).then_some(float as i64)
            });
            match whole {
                Some(whole) => text(hasher, &whole.to_string()),
                None => text(hasher, &it.to_string()),
            }
            hasher.update(b"#");
        }
        Value::String(it) => {
            hasher.update(b"s");
            text(hasher, it);
        }
        Value::Array(list) => {
            hasher.update(b"[");
            list.iter().for_each(|it| feed(hasher, it));
            hasher.update(b"]");
        }
        Value::Object(map) => fields(hasher, map, |hasher, _, value| feed(hasher, value)),
    }
}

/// With its length, so that no two lists of texts run into the same bytes.
fn text(hasher: &mut Sha256, it: &str) {
    hasher.update((it.len() as u64).to_le_bytes());
    hasher.update(it.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(manifest: Value, delete_option: Value) -> Fingerprint {
        let spec = json!({"workload": {"manifests": [manifest]}, "deleteOption": delete_option});
        Fingerprint::of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn what_means_the_same_has_the_same_fingerprint() {
        let plain = of(json!({"kind": "A", "metadata": {"name": "a"}, "n": 1}), Value::Null);
        for same in [
            json!({"n": 1.0, "metadata": {"name": "a"}, "kind": "A"}),
            json!({"kind": "A", "metadata": {"name": "a", "creationTimestamp": null}, "n": 1, "status": null}),
            json!({"kind": "A", "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "n": 1}),
        ] {
            assert_eq!(of(same.clone(), Value::Null), plain, "{same}");
        }
        for other in [
            json!({"kind": "A", "metadata": {"name": "a"}, "n": 2}),
            json!({"kind": "A", "metadata": {"name": "a"}, "n": "1"}),
            json!({"kind": "A", "metadata": {"name": "a"}, "n": 1, "list": []}),
            json!({"kind": "A", "metadata": {"name": "a"}, "n": 1, "creationTimestamp": "x"}),
        ] {
            assert_ne!(of(other.clone(), Value::Null), plain, "{other}");
        }
        let orphan = of(
            json!({"kind": "A", "metadata": {"name": "a"}, "n": 1}),
            json!({"propagationPolicy": "Orphan"}),
        );
        assert_ne!(orphan, plain);
    }

    #[test]
    fn a_pod_template_may_carry_a_creation_timestamp_too() {
        let with = |metadata: Value| {
            of(
                json!({"kind": "D", "spec": {"template": {"metadata": metadata}}}),
                Value::Null,
            )
        };
        assert_eq!(with(json!({"creationTimestamp": null})), with(json!({})));
        assert_eq!(with(json!({"creationTimestamp": "t"})), with(json!({})));
        assert_ne!(with(json!({"labels": {"a": "b"}})), with(json!({})));
    }

    #[test]
    fn five_letters_are_always_the_same() {
        assert_eq!(five_letters("default/web").len(), 5);
        assert_eq!(five_letters("default/web"), five_letters("default/web"));
        assert_ne!(five_letters("default/web"), five_letters("other/web"));
    }
}
