//! What a run adds to the table that `.ci/run` prints at its end: one line in the file that `$LANES_SUMMARY` names, of
//! fields with tabs between them: lane, passed, failed, skipped, seconds, and where stories failed or why none was
//! told.

use anyhow::{Context, Result};
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::Lane;

const FILE: &str = "LANES_SUMMARY";

/// How a run went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary<'a> {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    pub took: Duration,
    /// Where stories failed, or why none was told.
    pub reason: &'a str,
}

impl Summary<'_> {
    /// Adds the line, if somebody wants it.
    pub(crate) fn write(&self, lane: Lane) -> Result<()> {
        let Some(file) = std::env::var_os(FILE).map(PathBuf::from) else {
            return Ok(());
        };
        let folder = std::env::var_os("STORIES_FOLDER").map(PathBuf::from);
        let line = self.line(&title(lane, folder.as_deref(), is_debug()));
        let opened = OpenOptions::new().create(true).append(true).open(&file);
        let written = opened.and_then(|mut it| writeln!(it, "{line}"));
        written.with_context(|| format!("{FILE}: could not write to {}", file.display()))
    }

    fn line(&self, title: &str) -> String {
        let Self {
            passed,
            failed,
            skipped,
            took,
            reason,
        } = self;
        let seconds = took.as_secs_f64().round();
        format!("{title}\t{passed}\t{failed}\t{skipped}\t{seconds}\t{reason}")
    }
}

/// Whether the stories are told with a build for debugging, whatever tells them.
fn is_debug() -> bool {
    match std::env::var_os("DROVER_BIN").map(PathBuf::from) {
        Some(binary) => binary.parent().is_some_and(|it| it.ends_with("debug")),
        None => cfg!(debug_assertions),
    }
}

/// The lane's name; stories of another folder are told by its name, and a build for debugging says so.
fn title(lane: Lane, folder: Option<&Path>, is_debug: bool) -> String {
    let folder = folder.and_then(Path::file_name).map(|it| it.to_string_lossy());
    let mut title = format!("stories: {}", lane.name());
    if let Some(folder) = folder {
        title = format!("{title}, {folder}");
    }
    if is_debug {
        title.push_str(" (debug build)");
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_lane_the_folder_and_the_build() {
        let summary = Summary {
            passed: 3,
            skipped: 1,
            took: Duration::from_millis(61_600),
            ..Summary::default()
        };
        let real = Lane::named("real").unwrap();
        assert_eq!(summary.line(&title(real, None, false)), "stories: real\t3\t0\t1\t62\t");
        let folder = Path::new("tests/conformance/upstream");
        assert_eq!(
            title(Lane::default(), Some(folder), true),
            "stories: embedded, upstream (debug build)"
        );
    }
}
