//! A folder of a source as what it deploys.
//! Upstream: pkg/utils/gitrepo.go, `SortResources`, and pkg/subscriber/git.
//!
//! We differ in what is told: upstream passes over files that cannot be read, and we name them, so that whoever
//! applies the rest does not take what they deployed for gone.

use std::{collections::BTreeSet, fmt};

use gotemplate::helm::Metadata;
use serde_json::Value;

use crate::{
    ignore_rules::IgnoreRules,
    kustomization::{FILE_NAMES, KustomizeOverride, Kustomizer},
    limits::{MANIFESTS_BYTES_MAX, OBJECTS_MAX, REMARKS_MAX},
    manifest::{self, ManifestFile},
    tree::{Folder, SourceEntry, SourceFound, SourceTree, TreeError, below, folder_path},
};

const IGNORE_FILE: &str = ".kubernetesignore";
const CHART_FILE: &str = "Chart.yaml";
/// Folders of jobs that run before and after; only those directly in the folder that is deployed.
const PRE_HOOKS: &str = "prehook";
const POST_HOOKS: &str = "posthook";

/// What of a tree is deployed.
#[derive(Clone, Copy, Debug)]
pub struct TreeRequest<'a> {
    /// The folder, `git-path` of the Subscription; the empty path is the root.
    pub folder: &'a str,
    /// What replaces fields of kustomization files.
    pub overrides: &'a [KustomizeOverride],
}

/// What a folder deploys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendering {
    /// The objects in the order in which they are applied: definitions and Namespaces, then what roles are made of,
    /// then the rest, then what kustomize made. A file with several documents is of the rest.
    pub objects: Vec<RenderedObject>,
    /// The folders of Helm charts.
    pub charts: Vec<ChartFolder>,
    /// What should be deployed and cannot be read.
    pub problems: Vec<FileRemark>,
    /// What is not deployed, and is no error: files that are no objects of Kubernetes, and links.
    pub notes: Vec<FileRemark>,
}

/// An object, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedObject {
    /// The object.
    pub object: Value,
    /// The file, or the folder that kustomize built, from the root of the tree.
    pub path: String,
}

/// A folder with a Helm chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFolder {
    /// The folder from the root of the tree; empty for the root.
    pub path: String,
    /// The name in `Chart.yaml`.
    pub name: String,
    /// The version in `Chart.yaml`.
    pub version: String,
}

/// Something about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRemark {
    /// The file or folder from the root of the tree.
    pub path: String,
    /// What there is to say.
    pub message: String,
}

impl fmt::Display for FileRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever looks for upstream's words finds them at the beginning.
        match self.message.strip_prefix("failed to apply klustomization: ") {
            Some(_) => write!(f, "{} ({})", self.message, self.path),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// The AnsibleJobs of a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeHooks {
    /// Those that run before.
    pub pre: Vec<RenderedObject>,
    /// Those that run after.
    pub post: Vec<RenderedObject>,
    /// Files of hooks that cannot be read.
    pub problems: Vec<FileRemark>,
}

/// Why a folder is not deployed at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderingError {
    /// The folder's name is none.
    #[error(transparent)]
    Folder(#[from] TreeError),
    /// There is no such folder.
    #[error("the folder `{0}` does not exist in the source")]
    Missing(String),
    /// There is something else.
    #[error("`{0}` is a file of the source, and a folder is expected")]
    File(String),
    /// It is, or is in, a symbolic link.
    #[error("`{0}` leads through a symbolic link, which is not followed")]
    Link(String),
    /// The manifests are too large together.
    #[error("the manifests of the folder have more than {MANIFESTS_BYTES_MAX} bytes; deploy fewer with a Subscription")]
    Bytes,
    /// It has too many objects.
    #[error("the folder has more than {OBJECTS_MAX} objects; deploy fewer with a Subscription")]
    Objects,
}

/// What a folder deploys.
///
/// # Errors
/// When there is no such folder, or it deploys too much.
pub fn render(tree: &SourceTree, request: TreeRequest<'_>) -> Result<Rendering, RenderingError> {
    let (path, folder) = open(tree, request.folder)?;
    let rules = match folder.get(IGNORE_FILE) {
        Some(SourceEntry::File(content)) => IgnoreRules::parse(content),
        _ => IgnoreRules::default(),
    };
    let mut walk = Walk {
        root: &path,
        rules,
        found: FoundFiles::default(),
        bytes: 0,
        remarks: BTreeSet::new(),
    };
    walk.folder(&path, folder)?;
    let FoundFiles {
        first,
        roles,
        rest,
        kustomizations,
        mut rendering,
    } = walk.found;
    rendering.objects = first.into_iter().chain(roles).chain(rest).collect();
    let mut kustomizer = Kustomizer::default();
    for (path, name) in kustomizations {
        match kustomizer.build(tree, &path, name, request.overrides) {
            Ok(objects) => rendering
                .objects
                .extend(objects.into_iter().map(|object| RenderedObject {
                    object,
                    path: path.clone(),
                })),
            Err(message) => remark(&mut rendering.problems, &path, message),
        }
        if rendering.objects.len() > OBJECTS_MAX {
            return Err(RenderingError::Objects);
        }
    }
    Ok(rendering)
}

/// The jobs that run before and after a folder is deployed.
///
/// # Errors
/// As [`render`].
pub fn hooks(tree: &SourceTree, folder: &str) -> Result<TreeHooks, RenderingError> {
    let (path, folder) = open(tree, folder)?;
    let mut hooks = TreeHooks::default();
    let mut bytes = 0;
    for name in [PRE_HOOKS, POST_HOOKS] {
        let Some(SourceEntry::Folder(files)) = folder.get(name) else {
            continue;
        };
        let mut objects = Vec::new();
        for (file, entry) in files {
            let (true, SourceEntry::File(content)) = (manifest::is_manifest(file), entry) else {
                continue;
            };
            bytes += content.len();
            if bytes > MANIFESTS_BYTES_MAX {
                return Err(RenderingError::Bytes);
            }
            let path = below(&below(&path, name), file);
            let read = manifest::read(content);
            for message in read.unreadable {
                remark(&mut hooks.problems, &path, message);
            }
            let jobs = read.objects.into_iter().filter(|it| it["kind"] == "AnsibleJob");
            objects.extend(jobs.map(|object| RenderedObject {
                object,
                path: path.clone(),
            }));
        }
        if objects.len() > OBJECTS_MAX {
            return Err(RenderingError::Objects);
        }
        if name == PRE_HOOKS {
            hooks.pre = objects;
        } else {
            hooks.post = objects;
        }
    }
    Ok(hooks)
}

fn open<'a>(tree: &'a SourceTree, folder: &str) -> Result<(String, &'a Folder), RenderingError> {
    let path = folder_path(folder)?;
    match tree.find(&path) {
        Some(SourceFound::Folder(folder)) => Ok((path, folder)),
        Some(SourceFound::File(_)) => Err(RenderingError::File(path)),
        Some(SourceFound::Link) => Err(RenderingError::Link(path)),
        None => Err(RenderingError::Missing(path)),
    }
}

fn remark(remarks: &mut Vec<FileRemark>, path: &str, message: impl Into<String>) {
    if remarks.len() < REMARKS_MAX {
        remarks.push(FileRemark {
            path: path.to_owned(),
            message: message.into(),
        });
    }
}

#[derive(Default)]
struct FoundFiles {
    /// Definitions and Namespaces.
    first: Vec<RenderedObject>,
    /// What roles are made of.
    roles: Vec<RenderedObject>,
    rest: Vec<RenderedObject>,
    /// Folders, each with the name of its kustomization file.
    kustomizations: Vec<(String, &'static str)>,
    rendering: Rendering,
}

struct Walk<'a> {
    root: &'a str,
    rules: IgnoreRules,
    found: FoundFiles,
    bytes: usize,
    /// Links that are told already.
    remarks: BTreeSet<String>,
}

impl Walk<'_> {
    fn folder(&mut self, path: &str, folder: &Folder) -> Result<(), RenderingError> {
        if let Some(SourceEntry::File(chart)) = folder.get(CHART_FILE) {
            self.chart(path, chart);
            return Ok(());
        }
        let kustomization = FILE_NAMES
            .into_iter()
            .find(|it| matches!(folder.get(*it), Some(SourceEntry::File(_))));
        if let Some(name) = kustomization {
            self.found.kustomizations.push((path.to_owned(), name));
            return Ok(());
        }
        for (name, entry) in folder {
            let at = below(path, name);
            let relative = at.strip_prefix(self.root).unwrap_or(&at).trim_start_matches('/');
            let is_folder = matches!(entry, SourceEntry::Folder(_));
            let is_hook = path == self.root && is_folder && matches!(name.as_str(), PRE_HOOKS | POST_HOOKS);
            if is_hook || name == ".git" || self.rules.hides(relative, is_folder) {
                continue;
            }
            match entry {
                SourceEntry::Folder(folder) => self.folder(&at, folder)?,
                SourceEntry::Link => {
                    if self.remarks.insert(at.clone()) {
                        remark(
                            &mut self.found.rendering.notes,
                            &at,
                            "it is a symbolic link, which is not followed",
                        );
                    }
                }
                SourceEntry::File(content) if manifest::is_manifest(name) => self.file(&at, content)?,
                SourceEntry::File(_) => {}
            }
        }
        Ok(())
    }

    fn chart(&mut self, path: &str, content: &[u8]) {
        let metadata = std::str::from_utf8(content)
            .map_err(|_| "it is not UTF-8".to_owned())
            .and_then(manifest::yaml)
            .and_then(|it| serde_json::from_value::<Metadata>(it).map_err(|it| it.to_string()));
        let rendering = &mut self.found.rendering;
        match metadata {
            Ok(metadata) if metadata.name.is_empty() => {
                remark(
                    &mut rendering.problems,
                    &below(path, CHART_FILE),
                    "the chart has no name",
                );
            }
            Ok(metadata) => rendering.charts.push(ChartFolder {
                path: path.to_owned(),
                name: metadata.name,
                version: metadata.version,
            }),
            Err(message) => remark(&mut rendering.problems, &below(path, CHART_FILE), message),
        }
    }

    fn file(&mut self, path: &str, content: &[u8]) -> Result<(), RenderingError> {
        self.bytes = self.bytes.saturating_add(content.len());
        if self.bytes > MANIFESTS_BYTES_MAX {
            return Err(RenderingError::Bytes);
        }
        let ManifestFile {
            objects,
            documents,
            skipped,
            unreadable,
        } = manifest::read(content);
        let found = &mut self.found;
        for message in unreadable {
            remark(&mut found.rendering.problems, path, message);
        }
        for message in skipped {
            remark(&mut found.rendering.notes, path, message);
        }
        let group = match objects.first() {
            Some(object) if documents == 1 && objects.len() == 1 => group(found, object),
            _ => &mut found.rest,
        };
        group.extend(objects.into_iter().map(|object| RenderedObject {
            object,
            path: path.to_owned(),
        }));
        if found.first.len() + found.roles.len() + found.rest.len() > OBJECTS_MAX {
            return Err(RenderingError::Objects);
        }
        Ok(())
    }
}

fn group<'a>(found: &'a mut FoundFiles, object: &Value) -> &'a mut Vec<RenderedObject> {
    match object["kind"]
        .as_str()
        .unwrap_or_default()
        .to_ascii_lowercase()
        .as_str()
    {
        "customresourcedefinition" | "namespace" => &mut found.first,
        "serviceaccount" | "clusterrole" | "role" | "clusterrolebinding" | "rolebinding" => &mut found.roles,
        _ => &mut found.rest,
    }
}
