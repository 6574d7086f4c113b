//! The verbs, one file each.

pub mod apply;
pub mod connect;
pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod log;
pub mod patch;
pub mod scale;
pub mod update;
pub mod watch;
