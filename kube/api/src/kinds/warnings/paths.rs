//! Files of a volume that are put where others of the same volume are.

use crate::kinds::validation::{list, text};
use serde_json::Value;

/// Where a file goes, and what it is of.
#[derive(PartialEq, Eq)]
struct Placed<'v> {
    path: &'v str,
    source: String,
}

impl Placed<'_> {
    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }

    /// Whether one is the other, or in it.
    fn overlaps(&self, other: &Self) -> bool {
        let within = |inner: &str, outer: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (within(self.path, other.path) || within(other.path, self.path))
    }
}

fn placed<'v>(items: &'v [Value], source: &str) -> Vec<Placed<'v>> {
    let one = |path| Placed {
        path,
        source: source.to_owned(),
    };
    items.iter().map(|it| one(text(it, "/path"))).collect()
}

/// Adds files to those that are there, and tells of which of them meet.
fn add<'v>(more: Vec<Placed<'v>>, there: &mut Vec<Placed<'v>>, mut tell: impl FnMut(String)) {
    for mut new in more {
        new.path = new.path.trim_end_matches('/');
        for old in there.iter().filter(|it| it.overlaps(&new)) {
            tell(format!("{} with {}", new.shown(), old.shown()));
        }
        there.push(new);
    }
}

/// The files of one source of a projected volume.
fn projected(source: &Value) -> Vec<Placed<'_>> {
    let items = |kind: &str| source[kind]["items"].as_array();
    let named = |what: &str, name: &str| format!("{what} {name:?}");
    let one = |path, source: &str| Placed {
        path,
        source: source.to_owned(),
    };
    if let Some(items) = items("configMap") {
        placed(items, &named("ConfigMap", text(source, "/configMap/name")))
    } else if let Some(items) = items("secret") {
        placed(items, &named("Secret", text(source, "/secret/name")))
    } else if let Some(items) = items("downwardAPI") {
        placed(items, "DownwardAPI")
    } else if source["serviceAccountToken"].is_object() {
        vec![one(text(source, "/serviceAccountToken/path"), "ServiceAccountToken")]
    } else {
        Vec::new()
    }
}

/// Warnings of the volumes of a pod.
pub fn overlaps(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        let name = text(volume, "/name");
        let mut check = |files: Vec<Placed<'_>>, what: String| {
            add(files, &mut Vec::new(), |it| {
                warnings.push(format!("volume {name:?} ({what}): overlapping paths: {it}"));
            });
        };
        let map = text(volume, "/configMap/name");
        check(
            placed(list(volume, "/configMap/items"), ""),
            format!("ConfigMap {map:?}"),
        );
        let secret = text(volume, "/secret/secretName");
        check(placed(list(volume, "/secret/items"), ""), format!("Secret {secret:?}"));
        check(placed(list(volume, "/downwardAPI/items"), ""), "DownwardAPI".to_owned());
        let mut there = Vec::new();
        for source in list(volume, "/projected/sources") {
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
                continue;
            }
            add(projected(source), &mut there, |it| {
                warnings.push(format!("volume {name:?} (Projected): overlapping paths: {it}"));
            });
        }
    }
}
