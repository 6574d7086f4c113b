//! Chores of the house: `cargo xtask codegen` writes what is generated, `cargo xtask tidy` says what breaks the rules,
//! `cargo xtask story` runs stories, `cargo xtask kubernetes` has a real Kubernetes for tests,
//! `cargo xtask dist` packs a release.

mod cargo;
mod codegen;
mod controllers;
mod deploy;
mod dist;
mod facts;
mod kubernetes;
mod picture;
mod story;
mod tidy;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Chores of the house")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write the generated files; with --check only say which are out of date
    Codegen {
        #[arg(long)]
        check: bool,
    },
    /// Keep what upstream's definitions say, without their texts, for the tests of `ocm-api`
    Facts {
        /// The folder with upstream's definitions as YAML
        folder: PathBuf,
    },
    /// Say what breaks the rules of the house
    Tidy,
    /// Build and pack a release: archive, checksums, SBOM
    Dist(dist::Dist),
    /// Run stories: all, or those whose name contains one of the given words
    Story(story::Story),
    /// Build, start and stop a real Kubernetes for tests
    #[command(subcommand)]
    Kubernetes(kubernetes::Kubernetes),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Codegen { check: false } => codegen::write(&root()),
        Chore::Codegen { check: true } => report(codegen::out_of_date(&root())?, "run `cargo xtask codegen`"),
        Chore::Facts { folder } => facts::write(&root(), &folder),
        Chore::Story(wanted) => story::run(&wanted),
        Chore::Kubernetes(wanted) => kubernetes::run(&root(), &wanted),
        Chore::Dist(wanted) => dist::run(&root(), &wanted),
        Chore::Tidy => report(tidy::findings(&root())?, "each rule's reason is in xtask/src/tidy"),
    }
}

/// The folder that everything is in.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_owned()
}

fn report(findings: Vec<String>, advice: &str) -> anyhow::Result<()> {
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "{} findings; {advice}", findings.len());
    Ok(())
}
