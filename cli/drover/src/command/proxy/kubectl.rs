//! `drover proxy kubectl`.

use std::{
    ffi::OsString,
    io::{BufRead, Write},
    path::Path,
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result};
use clap::Args;
use client::connect::ApiServer;

use super::kubeconfig::{Reach, save};

#[derive(Debug, Args)]
pub struct Kubectl {
    #[command(flatten)]
    pub reach: Reach,
    /// What kubectl is to do, as one text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "command")]
    pub args: Option<String>,
    /// Ask for one command after the other, until exit
    #[arg(short, long, visible_alias = "interactive-mode")]
    pub interactive: bool,
    /// What kubectl is to do
    #[arg(last = true, value_name = "KUBECTL-ARGUMENTS")]
    pub command: Vec<OsString>,
}

impl Kubectl {
    /// Runs kubectl; its exit code is that of this process.
    pub async fn run(&self, hub: &ApiServer) -> Result<()> {
        let (text, users) = self.reach.kubeconfig(hub).await?;
        let folder = tempfile::tempdir().context("could not make a directory for the kubeconfig")?;
        let path = folder.path().join("kubeconfig");
        save(&path, &text)?;
        let typed: Vec<OsString> = match &self.args {
            Some(text) => words(text),
            None => self.command.clone(),
        };
        let interactive = self.interactive;
        // kubectl speaks through this process, which must not stand still while it runs.
        let run = tokio::task::spawn_blocking(move || {
            let code = if interactive {
                ask(&path)
            } else {
                Ok(kubectl(&path, &typed)?.code())
            };
            drop(folder);
            code
        });
        let code = run.await.context("kubectl could not be run")??;
        drop(users);
        match code {
            Some(0) => Ok(()),
            // kubectl has said why.
            other => std::process::exit(other.unwrap_or(1)),
        }
    }
}

fn kubectl(kubeconfig: &Path, arguments: &[OsString]) -> Result<ExitStatus> {
    let status = Command::new("kubectl")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .status();
    status.context("could not run kubectl, which has to be on the path; `drover proxy kubeconfig` needs none")
}

/// Runs what is typed, line by line.
fn ask(kubeconfig: &Path) -> Result<Option<i32>> {
    println!("Please enter the kubectl command and use \"exit\" to quit the interactive mode");
    let mut lines = std::io::stdin().lock().lines();
    loop {
        print!("kubectl> ");
        std::io::stdout().flush()?;
        let Some(line) = lines.next().transpose()? else {
            return Ok(Some(0));
        };
        if line.trim() == "exit" {
            println!("Exit from interactive mode");
            return Ok(Some(0));
        }
        // It says itself what is wrong.
        kubectl(kubeconfig, &words(&line))?;
    }
}

fn words(line: &str) -> Vec<OsString> {
    let words = line.split_whitespace().map(OsString::from);
    // People type the name of the program, too.
    words
        .enumerate()
        .filter(|(index, word)| *index > 0 || word != "kubectl")
        .map(|(_, word)| word)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_its_spaces() {
        assert_eq!(words("get  pods -A"), ["get", "pods", "-A"]);
        assert_eq!(words("kubectl get kubectl"), ["get", "kubectl"]);
    }
}
