//! Why a folder could not be built: where, in which field, and what to do.

use std::fmt;

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KustomizeErrorKind {
    /// The folder says something that kustomize takes for an error too.
    Wrong,
    /// kustomize may know it, but it is not done here: remote bases, plugins, files outside of the folder.
    Refused,
    /// It is larger or deeper than what is built.
    TooLarge,
}

/// An error that the owner of the folder has to fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct KustomizeError {
    /// What kind of trouble it is.
    pub kind: KustomizeErrorKind,
    /// The file or folder in which it is, from the root of the tree; empty when it is in none.
    pub file: String,
    /// The field of the kustomization file, for example `patches[0].path`; empty when it is in none.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for KustomizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.file, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}

impl KustomizeError {
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self::new(KustomizeErrorKind::Wrong, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(KustomizeErrorKind::Refused, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(KustomizeErrorKind::TooLarge, message)
    }

    fn new(kind: KustomizeErrorKind, message: impl Into<String>) -> Self {
        KustomizeError {
            kind,
            file: String::new(),
            field: String::new(),
            message: message.into(),
        }
    }

    /// The innermost file is the one that is named.
    pub(crate) fn in_file(mut self, file: &str) -> Self {
        if self.file.is_empty() {
            self.file = file.to_owned();
        }
        self
    }

    /// The innermost field is the one that is named.
    pub(crate) fn in_field(mut self, field: &str) -> Self {
        if self.field.is_empty() {
            self.field = field.to_owned();
        }
        self
    }
}

pub(crate) type Result<T, E = KustomizeError> = std::result::Result<T, E>;
