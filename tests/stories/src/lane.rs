//! Where a story's hub and clusters live: in the binary, as always, or on a real Kubernetes.
//!
//! A story says `drover up`. On a lane with a real Kubernetes another program of that name comes first in the path: it
//! hands `up` to `fleet`, where everything is real `kube up` too, and everything else to the binary.
//! So one text is told on every lane.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Which of the two are on a real Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    pub real_hub: bool,
    pub real_clusters: bool,
}

const NAMES: &[(&str, Lane)] = &[
    ("embedded", lane(false, false)),
    ("real", lane(true, true)),
    ("real-hub", lane(true, false)),
    ("real-clusters", lane(false, true)),
];

const fn lane(real_hub: bool, real_clusters: bool) -> Lane {
    Lane {
        real_hub,
        real_clusters,
    }
}

/// What a story's prose says when it is about the embedded API alone; the reason follows.
const EMBEDDED_ONLY: &str = "# Embedded only: ";

/// The control plane, as `cargo xtask kubernetes build` builds it.
pub(crate) const PROGRAM: &str = "real-kubernetes";

impl Lane {
    /// By the name that a command line has for it.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn named(name: &str) -> Result<Self> {
        let found = NAMES.iter().find(|it| it.0 == name);
        let known: Vec<_> = NAMES.iter().map(|it| it.0).collect();
        match found {
            Some((_, lane)) => Ok(*lane),
            None => bail!("there is no lane {name}; there are {}", known.join(", ")),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|it| it.1 == self).map_or("", |it| it.0)
    }

    pub(crate) fn is_embedded(self) -> bool {
        self == Self::default()
    }
}

/// Why a story is told on the embedded API alone, if it is.
pub(crate) fn embedded_only(story: &str) -> Option<&str> {
    story.lines().find_map(|it| it.strip_prefix(EMBEDDED_ONLY))
}

/// The programs of a lane: what comes first in a story's path, and the variables that they read.
pub(crate) struct Programs {
    pub folders: Vec<PathBuf>,
    pub variables: Vec<(String, String)>,
    /// The other `drover` is in here.
    _stand_in: Option<TempDir>,
}

/// Where these sources are, for stories about manifests that come with them.
const SOURCES: &str = "STORY_SOURCES";

/// Of `fleet`, which is started by a story and knows nothing but what is in its environment.
pub(crate) const LANE: &str = "STORY_LANE";
pub(crate) const DROVER: &str = "STORY_DROVER";
pub(crate) const KUBERNETES: &str = "STORY_KUBERNETES";

impl Programs {
    /// `binaries` has our binary, `kubernetes` the control plane and a kubectl.
    pub fn of(lane: Lane, binaries: &Path, kubernetes: &Path) -> Result<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .unwrap_or(binaries);
        let text = |it: &Path| it.to_string_lossy().into_owned();
        let mut it = Self {
            folders: vec![binaries.to_path_buf()],
            variables: vec![(SOURCES.to_owned(), text(sources))],
            _stand_in: None,
        };
        if lane.is_embedded() {
            return Ok(it);
        }
        let kubernetes = kubernetes
            .canonicalize()
            .with_context(|| kubernetes.display().to_string())?;
        let drover = binaries.join("drover");
        let folder = tempfile::Builder::new().prefix("story-programs-").tempdir()?;
        let stand_in = folder.path().join("drover");
        let this = std::env::current_exe()?;
        // Whether `drover kube up` is a hub or a cluster only the story knows.
        let stands_in_for = match lane.real_hub && lane.real_clusters {
            true => "up|kube:up",
            false => "up",
        };
        let script = format!(
            "#!/bin/sh\nwords=$1; [ \"$1\" != kube ] || words=$1:$2\ncase $words in {stands_in_for}) exec '{}' \"$@\";; esac\nexec '{}' \"$@\"\n",
            this.display(),
            drover.display()
        );
        fs::write(&stand_in, script)?;
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755))?;
        it.folders.insert(0, kubernetes.clone());
        it.folders.insert(0, folder.path().to_path_buf());
        it.variables.extend([
            (LANE.to_owned(), lane.name().to_owned()),
            (DROVER.to_owned(), text(&drover)),
            (KUBERNETES.to_owned(), text(&kubernetes)),
        ]);
        it._stand_in = Some(folder);
        Ok(it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_one_name_and_unknown_names_list_all() {
        for (name, lane) in NAMES {
            assert_eq!((Lane::named(name).unwrap(), lane.name()), (*lane, *name));
        }
        let error = Lane::named("surreal").unwrap_err().to_string();
        assert!(error.contains("embedded, real, real-hub, real-clusters"), "{error}");
    }

    #[test]
    fn a_story_explains_why_it_needs_the_embedded_api() {
        assert_eq!(
            embedded_only("# About logs.\n# Embedded only: no kubelet.\n"),
            Some("no kubelet.")
        );
        assert_eq!(embedded_only("# About logs.\n"), None);
    }
}
