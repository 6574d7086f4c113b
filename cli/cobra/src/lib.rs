//! Command lines as upstream's programs, which are written in Go, take and refuse them: flags and commands as tables,
//! read as spf13/pflag reads them, found as spf13/cobra finds them, in the sentences that users and scripts know.
//! Upstream: spf13/cobra, spf13/pflag, and kubectl's help templates.

pub mod command;
pub mod completion;
pub mod flag;
pub mod help;
pub mod parse;
pub mod values;

pub use command::{CobraCommand, Find, Program};
pub use flag::{Flag, KnownGate, ValueKind, alpha, beta, flag, hidden};
pub use parse::{ParseError, Parsed, parse};
pub use values::FlagValues;
