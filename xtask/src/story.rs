//! `cargo xtask story`: whole-system tests, as text.

use anyhow::{Context, Result, ensure};

/// What to run.
#[derive(clap::Args)]
pub struct Story {
    /// Words that a story's name contains
    names: Vec<String>,
    /// Run the optimized binary
    #[arg(long)]
    release: bool,
}

/// Builds the runner and hands over to it; it builds the binary itself and prints what failed.
pub fn run(it: &Story) -> Result<()> {
    let mut command = crate::cargo::command();
    command
        .args(["run", "--quiet", "--package", "stories"])
        .args(it.release.then_some("--release"));
    let status = command
        .arg("--")
        .args(&it.names)
        .status()
        .context("could not run cargo")?;
    ensure!(status.success(), "a story failed");
    Ok(())
}
