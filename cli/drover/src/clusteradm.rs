//! The binary as clusteradm: called by that name, as the plugin of kubectl, or as `drover clusteradm`.
//! Upstream: clusteradm v1.3.1, `cmd/clusteradm` and `pkg/cmd`. Flags, arguments, lines for scripts, and exits are its;
//! what is done is what drover's own commands do. We differ where upstream is wrong: an unknown command below a group
//! is an error, and `--dry-run` writes nothing anywhere.

mod addons;
mod get;
mod hub_addons;
mod installation;
mod line;
mod objects;
mod plugin;
mod preflight;
mod proxy;

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use clusteradm::PROGRAM;
use cobra::{Find, Parsed, completion};
use process::runtime::{log_to_stderr, short};

use self::{line::Line, preflight::Fatal};
use crate::is_broken_pipe;

/// The names of the program: its own, and those that kubectl finds it by.
const NAMES: [&str; 3] = ["clusteradm", "kubectl-clusteradm", "kubectl-cm"];

/// A call of clusteradm.
pub struct ClusteradmCall {
    /// As the program was called, for the lines that say what to type.
    called: String,
    line: Vec<String>,
}

/// Whether these arguments call clusteradm.
pub fn asked_for(arguments: &[OsString]) -> Option<ClusteradmCall> {
    let text = |it: &OsString| it.to_string_lossy().into_owned();
    let (first, rest) = arguments.split_first()?;
    let name = Path::new(first).file_name()?.to_string_lossy().into_owned();
    let (called, line) = match rest.split_first() {
        _ if name == "kubectl-cm" => ("kubectl cm".to_owned(), rest),
        _ if NAMES.contains(&name.as_str()) => (text(first), rest),
        Some((word, rest)) if word.to_str() == Some(NAMES[0]) => (format!("{} {}", text(first), NAMES[0]), rest),
        _ => return None,
    };
    Some(ClusteradmCall {
        called,
        line: line.iter().map(text).collect(),
    })
}

impl ClusteradmCall {
    /// Does what was typed.
    pub fn run(self) -> ExitCode {
        if let Some(code) = kubeconfig(&self.line) {
            return code;
        }
        let done = match PROGRAM.find(&self.line) {
            Find::Wrong(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
            Find::Help(path) => output::print(&PROGRAM.help(&path, &self.called)),
            Find::Run(path, parsed) => {
                for warning in &parsed.warnings {
                    eprintln!("{warning}");
                }
                let names: Vec<&str> = path.iter().skip(1).map(|it| it.name).collect();
                self.command(&names, parsed)
            }
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                match error.downcast_ref::<Fatal>() {
                    Some(several_lines) => eprintln!("Error: {several_lines}"),
                    None => eprintln!("Error: {}", output::sentence(&error)),
                }
                ExitCode::FAILURE
            }
        }
    }

    fn command(&self, names: &[&str], parsed: Parsed) -> Result<()> {
        match names {
            ["version"] => return version(),
            ["options"] => return output::print(&PROGRAM.options()),
            ["completion"] => return completion_script(&parsed.words),
            ["help"] => return self.help(&parsed.words),
            ["plugin", _] => return plugin::list(),
            _ => {}
        }
        let line = Line::new(&self.called, parsed);
        log_to_stderr(line.global.log.as_deref(), line.log_filter())?;
        credential::connection::install_crypto_provider();
        if line.is_dry_run() {
            output::say(format_args!("{} is running in dry-run mode", self.called))?;
        }
        match names {
            ["init"] => short(installation::init(&line)),
            ["join"] => short(installation::join(&line)),
            ["accept"] => short(installation::accept(&line)),
            ["unjoin"] => short(installation::unjoin(&line)),
            ["clean"] => short(installation::clean(&line)),
            ["upgrade", what] => short(installation::upgrade(what, &line)),
            ["get", "token"] => short(installation::get_token(&line)),
            ["get", "hub-info"] => short(installation::hub_info(&line)),
            ["get", "klusterlet-info"] => short(installation::klusterlet_info(&line)),
            ["delete", "token"] => short(installation::delete_token(&line)),
            ["get", what] => short(get::run(what, &line)),
            ["create", what] => short(objects::create(what, &line)),
            ["delete", what] => short(objects::delete(what, &line)),
            ["clusterset", verb] => short(objects::clusterset(verb, &line)),
            ["addon", verb] => short(addons::run(verb, &line)),
            ["proxy", what] => short(proxy::run(what, &line)),
            ["install", _] => short(hub_addons::install(&line)),
            ["uninstall", _] => short(hub_addons::uninstall(&line)),
            _ => bail!("{} is not here", names.join(" ")),
        }
    }

    fn help(&self, words: &[String]) -> Result<()> {
        match PROGRAM.named(words) {
            Some(path) => output::print(&PROGRAM.help(&path, &self.called)),
            None => bail!(
                "unknown help topic {:?}; `{} help` lists the commands",
                words.join(" "),
                self.called
            ),
        }
    }
}

/// `config`, which is kubectl's.
fn kubeconfig(line: &[String]) -> Option<ExitCode> {
    let at = PROGRAM.first_word(line)?;
    if line[at] != "config" {
        return None;
    }
    match Command::new("kubectl").args(line).status() {
        Ok(status) => {
            let code = status.code().and_then(|it| u8::try_from(it).ok()).unwrap_or(1);
            Some(ExitCode::from(code))
        }
        Err(error) => {
            eprintln!("Error: could not run kubectl, which changes kubeconfigs: {error}; put kubectl into $PATH");
            Some(ExitCode::FAILURE)
        }
    }
}

fn version() -> Result<()> {
    output::print(&format!(
        "clusteradm\tversion\t:{}\ndefault bundle\tversion\t:{}\n",
        clusteradm::VERSION,
        clusteradm::VERSION.trim_start_matches('v')
    ))
}

fn completion_script(words: &[String]) -> Result<()> {
    let shells = "bash, zsh, fish or powershell";
    let [shell] = words else {
        bail!("name a shell to write the completion script for: {shells}");
    };
    let script = completion::script(PROGRAM, shell);
    output::print(&script.with_context(|| format!("there is no completion script for {shell}: write {shells}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words: &[&str]) -> Option<(String, Vec<String>)> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        asked_for(&words).map(|it| (it.called, it.line))
    }

    #[test]
    fn clusteradm_is_called_by_its_name_or_as_a_command() {
        let line = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            called(&["/bin/clusteradm", "get", "token"]),
            Some(("/bin/clusteradm".to_owned(), line(&["get", "token"])))
        );
        assert_eq!(
            called(&["drover", "clusteradm", "init"]),
            Some(("drover clusteradm".to_owned(), line(&["init"])))
        );
        assert_eq!(called(&["kubectl-cm"]), Some(("kubectl cm".to_owned(), line(&[]))));
        assert_eq!(called(&["drover", "get", "clusteradm"]), None);
        assert_eq!(called(&["drover"]), None);
    }
}
