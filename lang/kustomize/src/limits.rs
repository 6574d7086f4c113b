//! What a folder may cost. It is written by somebody else: its size, its depth and the work that it asks for are
//! bounded.

use std::cell::Cell;

use crate::error::{KustomizeError, Result};

/// The largest file that is read, in bytes.
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;
/// What all files that are read may have together, in bytes; a file that is read twice counts twice.
pub(crate) const READ_BYTES_MAX: usize = 64 << 20;
/// How deep bases may be nested.
pub(crate) const BASES_DEPTH_MAX: usize = 32;
/// How many kustomization files may be read; one that is read twice counts twice.
pub(crate) const KUSTOMIZATIONS_MAX: usize = 1000;
/// How many objects a build may make. Names are compared each with each: more would take seconds.
pub(crate) const RESOURCES_MAX: usize = 5000;
/// How deep an object may be nested.
pub(crate) const DEPTH_MAX: usize = 200;
/// How many values an object, or a document, may have.
pub(crate) const VALUES_MAX: usize = 1_000_000;
/// How often a transformer may look at an object.
pub(crate) const STEPS_MAX: usize = 10_000_000;
/// How many bytes the program of a regular expression may have.
pub(crate) const REGEX_BYTES_MAX: usize = 1 << 20;

/// What a build has cost until now.
#[derive(Default)]
pub(crate) struct Cost {
    read_bytes: Cell<usize>,
    kustomizations: Cell<usize>,
    steps: Cell<usize>,
}

impl Cost {
    pub(crate) fn read(&self, bytes: usize) -> Result<()> {
        if bytes > FILE_BYTES_MAX {
            return Err(KustomizeError::too_large(format!(
                "the file has {bytes} bytes; at most {FILE_BYTES_MAX} are read"
            )));
        }
        spend(&self.read_bytes, bytes, READ_BYTES_MAX, "bytes of files are read")
    }

    pub(crate) fn kustomization(&self) -> Result<()> {
        spend(
            &self.kustomizations,
            1,
            KUSTOMIZATIONS_MAX,
            "kustomization files are read; let fewer overlays share a base",
        )
    }

    pub(crate) fn steps(&self, steps: usize) -> Result<()> {
        spend(
            &self.steps,
            steps,
            STEPS_MAX,
            "changes of objects are tried; write fewer patches or build fewer objects",
        )
    }
}

fn spend(spent: &Cell<usize>, more: usize, max: usize, what: &str) -> Result<()> {
    let sum = spent.get().saturating_add(more);
    spent.set(sum);
    if sum > max {
        return Err(KustomizeError::too_large(format!("at most {max} {what}")));
    }
    Ok(())
}
