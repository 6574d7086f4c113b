//! `clusteradm plugin list`: programs whose names start with `clusteradm-`.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Result, bail};

const PREFIX: &str = "clusteradm-";

/// Lists the plugins in `$PATH`.
pub fn list() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for directory in std::env::split_paths(&path) {
        for file in plugins(&directory) {
            if names.insert(file.clone()) {
                found.push(directory.join(file).display().to_string());
            }
        }
    }
    if found.is_empty() {
        bail!("unable to find any {PREFIX} plugins in your PATH");
    }
    output::print(&format!(
        "The following compatible plugins are available:\n\n{}\n",
        found.join("\n")
    ))
}

/// The names of programs in a directory that are plugins.
fn plugins(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let programs = entries.filter(|it| {
        let about = std::fs::metadata(it.path());
        about.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    });
    let names = programs.map(|it| it.file_name().to_string_lossy().into_owned());
    names.filter(|it| it.starts_with(PREFIX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_a_program_with_the_prefix() {
        let directory = tempfile::tempdir().unwrap();
        for (name, mode) in [("clusteradm-a", 0o755), ("clusteradm-b", 0o644), ("other", 0o755)] {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        assert_eq!(plugins(directory.path()), ["clusteradm-a".to_owned()].into());
        assert!(plugins(&directory.path().join("none")).is_empty());
    }
}
