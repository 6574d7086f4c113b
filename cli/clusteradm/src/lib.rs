//! clusteradm's command lines and pages: its commands and flags as tables, and objects as it prints them.
//! Upstream: clusteradm v1.3.1, `pkg/cmd` and `pkg/helpers/printer`.
//!
//! What the commands do is done elsewhere, by the functions that `drover`'s own commands call.

pub mod commands;
pub mod installation;
pub mod print;

use cobra::Program;

/// The release whose command lines these are.
pub const VERSION: &str = "v1.3.1";

/// clusteradm, as cobra has it.
pub const PROGRAM: Program = Program {
    root: &commands::ROOT,
    global: commands::GLOBAL,
};
