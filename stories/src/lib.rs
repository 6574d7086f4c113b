//! Stories: what a user types and what is printed, run against the real binary and the real kubectl.
//!
//! A story is a text file. Prose starts with `#`; a blank line ends the output that is expected.
//!
//! ```text
//! file work.yaml                  the indented lines below are its content
//! set KUBECONFIG=a.kubeconfig     for all commands from here on
//! $ COMMAND                       runs once; its output is what follows, its exit code 0
//! wait $ COMMAND                  runs until its output is what follows
//! let NAME $ COMMAND              its output, trimmed, is $NAME for all commands from here on
//! start NAME $ COMMAND            runs in the background; `wait log NAME` waits for what it prints
//! stop NAME                       SIGTERM; it must end with exit code 0
//! kill NAME                       SIGKILL
//! ```
//!
//! In expected output `...` alone on a line stands for any lines, within a line for any text, `<word>` for one word, and
//! several spaces for one or more. `exit 1` as the last line is the exit code.

mod expect;
mod parse;
mod run;

pub use parse::{Action, Step, parse};
pub use run::{Failure, run};

use anyhow::{Context, Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The stories of this repository, by name; `$STORIES_FOLDER` names another folder of them.
///
/// # Errors
/// When the folder cannot be read.
pub fn all() -> Result<Vec<(String, PathBuf)>> {
    let folder =
        std::env::var_os("STORIES_FOLDER").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let mut stories = Vec::new();
    for entry in folder
        .read_dir()
        .with_context(|| format!("could not read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "story") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            stories.push((name, path));
        }
    }
    stories.sort();
    Ok(stories)
}

/// The folder with the `drover` binary: `$DROVER_BIN` names another binary, otherwise it is built in the profile of this
/// program.
///
/// # Errors
/// When it cannot be built.
pub fn binary_folder() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("DROVER_BIN") {
        let path = PathBuf::from(path).canonicalize().context("DROVER_BIN names no file")?;
        return path.parent().map(Path::to_path_buf).context("DROVER_BIN names no file");
    }
    let here = std::env::current_exe()?;
    // target/<profile>/deps/stories-... or target/<profile>/stories
    let folder = here
        .ancestors()
        .skip(1)
        .find(|it| !it.ends_with("deps"))
        .context("this program lies nowhere")?;
    let release = folder.ends_with("release");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "drover"])
        .args(release.then_some("--release"));
    if !build.status().context("could not run cargo")?.success() {
        bail!("drover could not be built");
    }
    Ok(folder.to_path_buf())
}

/// Whether a program is in the path.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|it| it.join(name).is_file())
}

/// Runs the stories whose name contains one of `wanted` (all without any) and prints a line for each; the answer is
/// whether none failed.
///
/// # Errors
/// When the stories cannot be read or the binary cannot be built.
pub fn run_all(wanted: &[String]) -> Result<bool> {
    let stories = all()?;
    let chosen: Vec<_> = stories
        .into_iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|it| name.contains(it.as_str())))
        .collect();
    if chosen.is_empty() && !wanted.is_empty() {
        bail!("no story is named {}", wanted.join(" or "));
    }
    if !has_program("kubectl") {
        for (name, _) in chosen {
            println!("story {name} ... skipped: kubectl is not in the PATH");
        }
        return Ok(true);
    }
    let binaries = binary_folder()?;
    let mut failed = 0;
    let total = chosen.len();
    for (name, path) in chosen {
        let text = std::fs::read_to_string(&path)?;
        let steps = parse(&text).with_context(|| format!("could not read story {name}"))?;
        let begun = std::time::Instant::now();
        match run(&steps, &binaries) {
            Ok(()) => println!("story {name} ... ok ({:.1} s)", begun.elapsed().as_secs_f64()),
            Err(failure) => {
                failed += 1;
                println!("story {name} ... FAILED\n\nstories/{name}.story:{failure}");
            }
        }
    }
    println!("\n{} stories passed, {failed} failed", total - failed);
    Ok(failed == 0)
}
