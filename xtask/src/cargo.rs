//! Running cargo: the one that runs us, where it is one.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

/// Cargo, without arguments.
pub fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What cargo prints in a folder.
///
/// # Errors
/// When it cannot be run, or does not succeed.
pub fn output(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = command()
        .args(arguments)
        .current_dir(folder)
        .output()
        .context("could not run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {}: {}",
        arguments[0],
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("cargo prints text")
}
