//! `drover addon new NAME`: an add-on that works, to be changed into another one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::cluster_name;

/// Write the project of a new add-on, with a test
#[derive(Debug, Args)]
pub struct New {
    /// The add-on's name
    name: String,
    /// The directory to write [default: the add-on's name]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where Drover's sources are, or its SDK's [default: those that the directory lies in]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// What is written, with NAME, TYPE and SDK to be replaced.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("new_files/Cargo.toml.txt")),
    ("README.md", include_str!("new_files/README.md.txt")),
    ("src/main.rs", include_str!("new_files/main.rs.txt")),
    (
        "deploy/clustermanagementaddon.yaml",
        include_str!("new_files/clustermanagementaddon.yaml.txt"),
    ),
    ("deploy/controller.yaml", include_str!("new_files/controller.yaml.txt")),
];

impl New {
    pub fn run(self) -> Result<()> {
        cluster_name::check(&self.name).context("an add-on's name names objects and a program")?;
        if self.name.starts_with(|it: char| it.is_ascii_digit()) {
            bail!("{:?} starts with a digit, and a Rust package cannot", self.name);
        }
        let directory = self.dir.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        if directory.exists() {
            bail!(
                "{} exists already; choose another directory with --dir",
                directory.display()
            );
        }
        let sdk = match &self.sdk {
            Some(given) => in_sources(given).with_context(|| format!("--sdk {}", given.display()))?,
            // An SDK that no registry has yet would make a project that does not build.
            None => around(&std::env::current_dir()?.join(&directory))
                .context("the SDK comes with Drover's sources: say where they are with --sdk DIR")?,
        };
        for (file, text) in FILES {
            let path = directory.join(file);
            let failed = || format!("could not write {}", path.display());
            let parent = path.parent().expect("every file is in the directory");
            std::fs::create_dir_all(parent).with_context(failed)?;
            std::fs::write(&path, filled(text, &self.name, &sdk)).with_context(failed)?;
        }
        output::say(format_args!(
            "{} has a working add-on; its README.md says how to try it.",
            directory.display()
        ))
    }
}

/// The SDK inside Drover's sources, whose root is.
const SDK: &str = "ocm/addon-sdk";

/// The SDK in a checkout of this project that the directory lies in.
fn around(directory: &Path) -> Option<PathBuf> {
    let mut sdks = directory.ancestors().map(|it| it.join(SDK));
    sdks.find(|it| it.join("Cargo.toml").exists())
}

/// The SDK that a user has named: itself, or the sources that it is part of.
fn in_sources(given: &Path) -> Result<PathBuf> {
    let given = given.canonicalize()?;
    let sdk = if given.join(SDK).exists() {
        given.join(SDK)
    } else {
        given
    };
    let manifest = std::fs::read_to_string(sdk.join("Cargo.toml")).unwrap_or_default();
    if !manifest.contains("name = \"ocm-addon-sdk\"") {
        bail!("there are neither Drover's sources nor its SDK");
    }
    Ok(sdk)
}

fn filled(text: &str, name: &str, sdk: &Path) -> String {
    let words = name.split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|it| it.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    let type_name: String = words.collect();
    let sdk = format!("{{ path = {:?} }}", sdk.display().to_string());
    text.replace("NAME", name)
        .replace("TYPE", &type_name)
        .replace("SDK\n", &format!("{sdk}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_type() {
        assert_eq!(
            filled("struct TYPE; NAME", "my-add-on", Path::new("/x")),
            "struct MyAddOn; my-add-on"
        );
    }

    #[test]
    fn the_sdk_is_a_path() {
        assert_eq!(
            filled("ocm-addon-sdk = SDK\n", "a", Path::new("/x/y")),
            "ocm-addon-sdk = { path = \"/x/y\" }\n"
        );
    }

    #[test]
    fn what_the_program_uses_is_in_its_manifest() {
        let text = |wanted: &str| FILES.iter().find(|(file, _)| *file == wanted).expect("a file").1;
        let manifest = text("Cargo.toml");
        let used = text("src/main.rs").lines().filter_map(|it| it.strip_prefix("use "));
        let crates: Vec<_> = used
            .filter_map(|it| it.split("::").next())
            .filter(|it| *it != "std")
            .collect();
        assert!(crates.contains(&"ocm_addon_sdk"), "{crates:?}");
        for it in crates.iter().filter(|it| **it != "super") {
            let dependency = format!("\n{} = ", it.replace('_', "-"));
            let as_is = format!("\n{it} = ");
            assert!(
                manifest.contains(&dependency) || manifest.contains(&as_is),
                "{it} is not in {manifest}"
            );
        }
        // The versions of all others are the SDK's affair.
        assert!(
            !manifest.contains("k8s-openapi") && !manifest.contains("kube"),
            "{manifest}"
        );
    }

    #[test]
    fn the_sdk_path_may_be_the_root_of_its_sources() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sdk = in_sources(&sources).expect("the sources of this test");
        assert_eq!(sdk, in_sources(&sdk).expect("the SDK itself"));
        assert!(in_sources(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err());
    }

    #[test]
    fn a_project_whose_sdk_is_nowhere_is_not_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let new = New {
            name: "hello".into(),
            dir: Some(directory.path().join("hello")),
            sdk: None,
        };
        let error = format!("{:#}", new.run().expect_err("there are no sources around it"));
        assert!(error.contains("--sdk"), "{error}");
        assert!(!directory.path().join("hello").exists());
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let new = New {
            name: "hello".into(),
            dir: Some(directory.path().to_owned()),
            sdk: None,
        };
        let error = new.run().expect_err("it exists").to_string();
        assert!(error.contains("exists already"), "{error}");
    }
}
