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
//! port NAME                       $NAME is a TCP port that nobody has
//! start NAME $ COMMAND            runs in the background; `wait log NAME` waits for what it prints
//! stop NAME                       SIGTERM; it must end with exit code 0
//! kill NAME                       SIGKILL
//! ```
//!
//! `$STORY_SOURCES` is the folder of these sources, whose manifests a story may apply.
//!
//! In expected output `...` alone on a line stands for any lines, within a line for any text, `<word>` for one word,
//! and several spaces for one or more. `exit 1` as the last line is the exit code.

mod expect;
pub mod fleet;
pub mod keep;
mod lane;
mod parse;
mod port;
mod run;
mod summary;

pub use lane::Lane;
pub use parse::{Action, Step, parse};
use run::run;

use anyhow::{Context, Result, bail};
use lane::Programs;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};
use summary::Summary;

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

/// The folder with the `drover` binary: `$DROVER_BIN` names another binary, otherwise it is built
/// in the profile of this program.
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

/// What to run, and where.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Words that a story's name contains; all stories without any.
    pub names: Vec<String>,
    /// Where hub and clusters live.
    pub lane: Lane,
    /// The folder with the control plane of a real Kubernetes and its kubectl.
    pub kubernetes: PathBuf,
    /// How many are told side by side; one if it is not said. Stories wait more than they compute.
    pub at_once: usize,
}

/// Runs the stories and prints a line for each; the answer is whether none failed.
///
/// # Errors
/// When the stories cannot be read or the binary cannot be built.
pub fn run_all(wanted: &Wanted) -> Result<bool> {
    let stories = all()?;
    let names = &wanted.names;
    let chosen: Vec<_> = stories
        .into_iter()
        .filter(|(name, _)| names.is_empty() || names.iter().any(|it| name.contains(it.as_str())))
        .collect();
    if chosen.is_empty() && !names.is_empty() {
        bail!("no story is named {}", names.join(" or "));
    }
    let is_real = !wanted.lane.is_embedded();
    let missing = match () {
        () if is_real && !wanted.kubernetes.join(lane::PROGRAM).is_file() => {
            Some("no Kubernetes was built; `cargo xtask kubernetes build` does")
        }
        () if !is_real && !has_program("kubectl") => Some("kubectl is not in the PATH"),
        () => None,
    };
    if let Some(missing) = missing {
        for (name, _) in &chosen {
            println!("story {name} ... skipped: {missing}");
        }
        let summary = Summary {
            skipped: chosen.len(),
            reason: missing,
            ..Summary::default()
        };
        summary.write(wanted.lane)?;
        return Ok(true);
    }
    let programs = Programs::of(wanted.lane, &binary_folder()?, &wanted.kubernetes)?;
    let all_begun = Instant::now();
    let (next, ends) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..wanted.at_once.max(1) {
            scope.spawn(|| {
                while let Some((name, path)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let end = tell(name, path, &programs, is_real);
                    ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
                }
            });
        }
    });
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ends = ends.into_iter().collect::<Result<Vec<_>>>()?;
    let count = |end: End| ends.iter().filter(|it| **it == end).count();
    let (passed, skipped) = (count(End::Passed), count(End::Skipped));
    let failed = ends.iter().filter_map(|it| match it {
        End::Failed(place) => Some(place.as_str()),
        End::Passed | End::Skipped => None,
    });
    let places = failed.collect::<Vec<_>>();
    let (failed, reason) = (places.len(), places.join(", "));
    let took = all_begun.elapsed();
    println!(
        "\nlane {}: {passed} stories passed, {failed} failed, {skipped} skipped, {:.0} s",
        wanted.lane.name(),
        took.as_secs_f64()
    );
    let summary = Summary {
        passed,
        failed,
        skipped,
        took,
        reason: &reason,
    };
    summary.write(wanted.lane)?;
    Ok(failed == 0)
}

/// What became of a story.
#[derive(PartialEq, Eq)]
enum End {
    Passed,
    /// In this line of its file.
    Failed(String),
    Skipped,
}

/// Tells one story and prints a line for it.
fn tell(name: &str, path: &Path, programs: &Programs, is_real: bool) -> Result<End> {
    let text = std::fs::read_to_string(path)?;
    if let Some(why) = lane::embedded_only(&text).filter(|_| is_real) {
        println!("story {name} ... skipped: {why}");
        return Ok(End::Skipped);
    }
    let steps = parse(&text).with_context(|| format!("could not read story {name}"))?;
    let begun = Instant::now();
    match run(&steps, programs) {
        Ok(()) => {
            println!("story {name} ... ok ({:.1} s)", begun.elapsed().as_secs_f64());
            Ok(End::Passed)
        }
        Err(failure) => {
            // What went wrong comes last: who has only the end of what was printed finds it.
            println!(
                "story {name} ... FAILED\n\n{}stories/{name}.story:{failure}\n",
                failure.logs
            );
            Ok(End::Failed(format!("{name}.story:{}", failure.line)))
        }
    }
}
