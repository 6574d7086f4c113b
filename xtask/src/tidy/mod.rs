//! The rules of the house as checks on its sources, pages and manifests. Every finding is one line: where,
//! and which rule.

mod commands;
mod edges;
mod imports;
mod pages;
mod reconcilers;
mod sources;
mod tree;
mod unused;
mod versions;
mod words;

use std::{borrow::Cow, path::Path, sync::LazyLock};

use anyhow::Context;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::cargo;

/// All that breaks a rule.
pub fn findings(root: &Path) -> anyhow::Result<Vec<String>> {
    let sources = read(root)?;
    let metadata = metadata(root)?;
    let mut found = edges::findings(&metadata)?;
    found.extend(tree::findings(root)?);
    found.extend(versions::findings(root)?);
    found.extend(unused::findings(root, &metadata, &sources)?);
    found.extend(sources::findings(&sources));
    found.extend(reconcilers::findings(&sources));
    found.extend(words::findings(&sources));
    found.extend(imports::findings(&sources));
    let pages = pages::read(root)?;
    found.extend(pages::findings(root, &pages));
    found.extend(commands::findings(&sources, &pages));
    Ok(found)
}

/// What cargo tells of the members of the workspace.
fn metadata(root: &Path) -> anyhow::Result<Value> {
    let metadata = cargo::output(root, &["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
    serde_json::from_str(&metadata).context("cargo metadata is JSON")
}

/// One file of Rust.
struct Source {
    /// From the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs")
    }

    /// What the file says about itself.
    fn header(&self) -> String {
        self.text.lines().take_while(|line| line.starts_with("//!")).collect()
    }

    /// The file up to its own tests, without the declarations of tests in other files. Lines keep their numbers.
    fn code(&self) -> Cow<'_, str> {
        static BODY: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?m)^#\[cfg\(test\)\]\n(pub(\([a-z]+\))? )?mod \w+ \{").expect("a constant"));
        static ELSEWHERE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?m)^#\[cfg\(test\)\]\n(#\[path[^\n]*\n)?(pub(\([a-z]+\))? )?mod \w+;").expect("a constant")
        });
        let end = BODY.find(&self.text).map_or(self.text.len(), |it| it.start());
        let blank = |it: &Captures<'_>| "\n".repeat(it[0].matches('\n').count());
        ELSEWHERE.replace_all(&self.text[..end], blank)
    }
}

/// Every file of Rust in the house, by path.
fn read(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut sources = vec![];
    for folder in ["addons", "cli", "examples", "kube", "lang", "ocm", "tests", "xtask"] {
        visit(root, &root.join(folder), &mut sources)?;
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

fn visit(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|it| it != "target") {
            visit(root, &path, sources)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let path = path
                .strip_prefix(root)
                .expect("found below it")
                .to_string_lossy()
                .replace('\\', "/");
            sources.push(Source { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    fn none(found: Vec<String>) {
        assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    }

    fn sources() -> Vec<super::Source> {
        super::read(&crate::root()).unwrap()
    }

    #[test]
    fn crates_use_only_what_lies_below_them() {
        none(super::edges::findings(&super::metadata(&crate::root()).unwrap()).unwrap());
    }

    #[test]
    fn no_banned_crate_or_feature_is_built() {
        none(super::tree::findings(&crate::root()).unwrap());
    }

    #[test]
    fn compilers_and_releases_are_the_same_everywhere() {
        none(super::versions::findings(&crate::root()).unwrap());
    }

    #[test]
    fn every_dependency_is_used() {
        none(super::unused::findings(&crate::root(), &super::metadata(&crate::root()).unwrap(), &sources()).unwrap());
    }

    #[test]
    fn the_sources_keep_the_rules() {
        none(super::sources::findings(&sources()));
    }

    #[test]
    fn names_and_comments_keep_the_rules() {
        none(super::words::findings(&sources()));
    }

    #[test]
    fn code_goes_on_after_tests_in_another_file() {
        let source = |text: &str| super::Source {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        };
        let declared = source("#[cfg(test)]\n#[path = \"x.rs\"]\nmod x;\n#[cfg(test)]\nmod y;\nstruct A;\n");
        assert_eq!(declared.code(), "\n\n\n\n\nstruct A;\n");
        let own = source("struct A;\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(own.code(), "struct A;\n");
    }

    #[test]
    fn no_large_circle_of_files_imports_itself() {
        none(super::imports::findings(&sources()));
    }

    #[test]
    fn every_link_arrives_and_the_book_is_whole() {
        none(super::pages::findings(
            &crate::root(),
            &super::pages::read(&crate::root()).unwrap(),
        ));
    }

    #[test]
    fn the_guide_shows_commands_that_there_are() {
        none(super::commands::findings(
            &sources(),
            &super::pages::read(&crate::root()).unwrap(),
        ));
    }

    #[test]
    fn reconcilers_say_what_they_do_and_conditions_have_one_author() {
        none(super::reconcilers::findings(&sources()));
    }
}
