//! Where the files of a pod are. A node without containers has no file system for each pod: it rewrites the paths in a
//! container's command, and tells the others in a variable, for programs that know a path by themselves.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::environment;

/// The directories of a container, and where they are on this host; `/` is where everything else would be.
const PATHS: &str = "POD_PATHS";

/// Where a path of a container is on this host, if this process is in a pod whose node says so.
pub fn lookup(path: &str) -> Option<PathBuf> {
    lookup_in(&environment::variable(PATHS)?, path)
}

/// The same; anywhere else a path is where it says.
pub fn path(path: &str) -> PathBuf {
    lookup(path).unwrap_or_else(|| path.into())
}

fn lookup_in(paths: &str, path: &str) -> Option<PathBuf> {
    let paths: BTreeMap<PathBuf, PathBuf> = serde_json::from_str(paths).ok()?;
    let inside = |it: &(PathBuf, PathBuf)| Path::new(path).strip_prefix(&it.0).ok().map(|rest| it.1.join(rest));
    let mut found: Vec<_> = paths.into_iter().filter(|it| inside(it).is_some()).collect();
    found.sort_by_key(|(container, _)| container.as_os_str().len());
    inside(&found.pop()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_says_where_a_path_is() {
        let paths = r#"{"/": "/pod/root", "/spoke": "/pod/volumes/a", "/spoke/hub-kubeconfig": "/pod/volumes/b"}"#;
        let of = |path: &str| lookup_in(paths, path).unwrap().display().to_string();
        assert_eq!(of("/spoke/hub-kubeconfig/kubeconfig"), "/pod/volumes/b/kubeconfig");
        assert_eq!(of("/spoke/hub-kubeconfigs"), "/pod/volumes/a/hub-kubeconfigs");
        assert_eq!(of("/var/run"), "/pod/root/var/run");
        assert_eq!(lookup_in(r#"{"/spoke": "/pod"}"#, "/var"), None);
        assert_eq!(lookup_in("no table", "/var"), None);
    }
}
