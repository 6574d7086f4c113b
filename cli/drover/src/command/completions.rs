//! `drover completions SHELL`

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

/// Print the completion script of a shell, for example `source <(drover completions bash)`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell to write for
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "drover", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}
