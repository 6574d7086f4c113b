//! The verbs, one file each.

pub mod apply;
pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod patch;
pub mod update;
pub mod watch;
