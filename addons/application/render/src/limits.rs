//! What a tree may cost. It is written by somebody else.

/// How many files a tree may have.
pub(crate) const FILES_MAX: usize = 100_000;
/// What all files of a tree may have together, in bytes.
pub(crate) const TREE_BYTES_MAX: usize = 256 << 20;
/// How deep folders may be nested.
pub(crate) const FOLDERS_DEPTH_MAX: usize = 64;
/// The largest manifest that is read, in bytes. An object of etcd has 1.5 MiB at most; a file may have several.
pub(crate) const MANIFEST_BYTES_MAX: usize = 8 << 20;
/// What all manifests of a folder may have together, in bytes. Read as objects they take many times as much.
pub(crate) const MANIFESTS_BYTES_MAX: usize = 32 << 20;
/// How many documents a manifest may have.
pub(crate) const DOCUMENTS_MAX: usize = 5000;
/// How many objects a folder may deploy. A report of them has to fit into one object.
pub(crate) const OBJECTS_MAX: usize = 5000;
/// How many remarks on files are kept; more say nothing new.
pub(crate) const REMARKS_MAX: usize = 100;
