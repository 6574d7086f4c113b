//! Folders that kustomize builds, with what a Subscription says otherwise.

use kustomize::{KustomizeError, KustomizeFiles};
use serde_json::{Map, Value};

use crate::{
    manifest,
    tree::{SourceEntry, SourceTree, below},
};

/// The names of the file that makes a folder one of kustomize's. Upstream finds the first two only.
pub(crate) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What the words of every error of kustomize begin with, in upstream's spelling.
const FAILED: &str = "failed to apply klustomization: ";

/// What a Subscription's `packageOverrides` replace in kustomization files.
#[derive(Clone, Debug, PartialEq)]
pub struct KustomizeOverride {
    /// Which file: its path in the repository, or `kustomization` for every one.
    pub package: String,
    /// What replaces fields of the same name: an object, or a text with one as YAML.
    pub value: Value,
}

impl KustomizeOverride {
    /// Whether it is about the kustomization file of this folder. What is before the word `kustomization` names the
    /// folder, and nothing there means every one. Upstream: pkg/utils/kustomize.go, `VerifyAndOverrideKustomize`.
    fn is_about(&self, folder: &str) -> bool {
        let named = self.package.split("kustomization").next().unwrap_or_default();
        let named = named.trim_start_matches("./").trim_matches('/');
        named.is_empty() || named.eq_ignore_ascii_case(folder)
    }

    fn fields(&self) -> Result<Map<String, Value>, String> {
        let read = match &self.value {
            Value::String(text) => manifest::yaml(text)?,
            other => other.clone(),
        };
        match read {
            Value::Object(fields) => Ok(fields),
            Value::Null => Ok(Map::new()),
            _ => Err("the value of a package override is no object".to_owned()),
        }
    }
}

/// Everything that kustomize may read, made when a folder needs it.
#[derive(Default)]
pub(crate) struct Kustomizer {
    files: Option<KustomizeFiles>,
}

impl Kustomizer {
    /// The objects of a folder whose kustomization file has this name.
    ///
    /// # Errors
    /// In upstream's words.
    pub(crate) fn build(
        &mut self,
        tree: &SourceTree,
        folder: &str,
        name: &str,
        overrides: &[KustomizeOverride],
    ) -> Result<Vec<Value>, String> {
        let failed = |why: String| format!("{FAILED}{why}");
        let mut fields = Map::new();
        let mut replaced = false;
        for it in overrides.iter().filter(|it| it.is_about(folder)) {
            replaced = true;
            fields.extend(it.fields().map_err(failed)?);
        }
        let built = if replaced {
            let path = below(folder, name);
            let content = tree.file(&path).map(|it| String::from_utf8_lossy(it).into_owned());
            let own = manifest::yaml(&content.unwrap_or_default()).map_err(|it| failed(format!("{path}: {it}")))?;
            let mut own = match own {
                Value::Object(own) => own,
                _ => Map::new(),
            };
            own.extend(fields);
            let files = tree_for_kustomize(tree, Some((&path, Value::Object(own))));
            files.and_then(|files| kustomize::build(&files, folder))
        } else {
            if self.files.is_none() {
                self.files = Some(tree_for_kustomize(tree, None).map_err(|it| failed(it.to_string()))?);
            }
            kustomize::build(self.files.get_or_insert_default(), folder)
        };
        built.map_err(|it| failed(it.to_string()))
    }
}

fn tree_for_kustomize(tree: &SourceTree, replaced: Option<(&str, Value)>) -> Result<KustomizeFiles, KustomizeError> {
    let mut files = KustomizeFiles::new();
    let mut refused = None;
    tree.every_entry(&mut |path, entry| {
        let added = match (entry, &replaced) {
            (SourceEntry::File(_), Some((it, value))) if *it == path => files.insert(&path, value.to_string()),
            (SourceEntry::File(content), _) => files.insert_shared(&path, content.clone()),
            _ => files.insert_link(&path),
        };
        if let Err(error) = added {
            refused.get_or_insert(error);
        }
    });
    refused.map_or(Ok(files), Err)
}
