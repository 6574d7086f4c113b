//! Upstream's programs: called by their names, as their images are started, the binary takes their sub-commands and
//! flags.
//!
//! Each runs one part of a hub or of an agent alone, beside whichever of the other parts somebody else runs.

mod agents;
mod api;
mod debug_page;
mod drivers;
mod flags;
mod hub_choice;
mod hub_files;
mod hubs;
mod operator_config;
mod operators;
mod read;
mod rounds;
mod settings;
mod webhook_servers;

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::Result;
use clap::Command;
use flags::Subcommand;
use operator::Layout;
use process::runtime;
use read::{FlagValues, ReadError};

/// One of upstream's programs.
#[derive(Clone, Copy)]
pub struct UpstreamProgram {
    name: &'static str,
    about: &'static str,
    subcommands: &'static [Subcommand],
    /// Those of upstream's that are not here, each with the reason and what to use.
    absent: &'static [(&'static str, &'static str)],
}

const PROGRAMS: [UpstreamProgram; 7] = [
    UpstreamProgram {
        name: "registration",
        about: "Spoke agent and hub controllers for cluster registration",
        subcommands: flags::REGISTRATION,
        absent: &[],
    },
    UpstreamProgram {
        name: "work",
        about: "Spoke agent and hub controllers for works",
        subcommands: flags::WORK,
        absent: &[],
    },
    UpstreamProgram {
        name: "placement",
        about: "Hub controller that chooses clusters",
        subcommands: flags::PLACEMENT,
        absent: &[],
    },
    UpstreamProgram {
        name: "addon",
        about: "Hub controllers for add-ons",
        subcommands: flags::ADDON,
        absent: &[],
    },
    UpstreamProgram {
        name: "registration-operator",
        about: "The operator of hubs and agents, and a spoke agent with registration and works in one process",
        subcommands: flags::OPERATOR,
        absent: &[],
    },
    UpstreamProgram {
        name: "operator",
        about: "The operator of hubs and agents that are one Deployment each",
        subcommands: flags::OPERATORS,
        absent: &[],
    },
    UpstreamProgram {
        name: "server",
        about: "Nothing: there is no gRPC server",
        subcommands: &[],
        absent: &[(
            "grpc",
            "hub and agents meet at the hub's Kubernetes API, and there is no gRPC server between them; give agents a kubeconfig \
             of the hub's API that they can reach",
        )],
    },
];

/// The program that these arguments ask for, and its own arguments: by the name the binary was called by, or by the
/// first of them, as a word (`drover work agent`) or as a path (`drover /work agent`,
/// which is how upstream's images are started).
pub fn asked_for(arguments: &[OsString]) -> Option<(UpstreamProgram, &[OsString])> {
    let at = |position: usize| {
        let name = Path::new(arguments.get(position)?).file_name()?;
        let program = PROGRAMS.into_iter().find(|it| *name == *it.name)?;
        Some((program, &arguments[position + 1..]))
    };
    let by_word = || {
        let (program, rest) = at(1)?;
        let is_path = arguments[1].len() > program.name.len();
        // `drover addon enable` and its like are ours, and older.
        let is_ours = program.name == "addon" && !is_path && {
            let words: Vec<String> = rest.iter().map(|it| it.to_string_lossy().into_owned()).collect();
            let word = read::word(&words).map(|at| words[at].as_str());
            !program.subcommands.iter().any(|it| Some(it.name) == word)
        };
        (!is_ours).then_some((program, rest))
    };
    at(0).or_else(by_word)
}

impl UpstreamProgram {
    /// Runs with these arguments, the program's name left out.
    pub fn run(self, arguments: &[OsString]) -> ExitCode {
        let arguments: Vec<String> = arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        let Some(at) = read::word(&arguments) else {
            return self.without_subcommand(&arguments);
        };
        let word = &arguments[at];
        let Some(subcommand) = self.subcommands.iter().find(|it| it.name == word) else {
            return match word.as_str() {
                "help" => self.help(arguments.get(at + 1)),
                "completion" => self.completion(arguments.get(at + 1)),
                word => match self.absent.iter().find(|(name, _)| *name == word) {
                    Some((_, why)) => self.is_not_here(word, why),
                    None => self.unknown(word),
                },
            };
        };
        let others: Vec<String> = [&arguments[..at], &arguments[at + 1..]].concat();
        if others.iter().any(|it| it == "--version") {
            return self.version();
        }
        let values = match read::read(self.name, subcommand, &others) {
            Ok(values) => values,
            Err(ReadError::Help(text)) => {
                print!("{text}");
                return ExitCode::SUCCESS;
            }
            Err(ReadError::Wrong(why)) => {
                // Cobra says it, shows how to use the command, and then the program says it again.
                let usage = read::command(self.name, subcommand).render_help();
                eprintln!("Error: {why}\n{usage}\n{why}");
                return ExitCode::FAILURE;
            }
        };
        match self.start(subcommand.name, values) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}", output::sentence(&error));
                ExitCode::FAILURE
            }
        }
    }

    fn start(self, subcommand: &str, values: FlagValues) -> Result<()> {
        runtime::log_to_stderr(
            std::env::var("DROVER_LOG").ok().as_deref(),
            log_filter(values.number("v")),
        )?;
        if let Some(name) = unused_proxy(|name| std::env::var(name).ok()) {
            tracing::warn!(
                variable = name,
                "proxies of the environment are not used; write proxy-url into the kubeconfigs where one is to be gone through"
            );
        }
        credential::connection::install_crypto_provider();
        match (self.name, subcommand) {
            ("registration", "controller") => runtime::long(hubs::registration(values)),
            ("work", "manager") => runtime::long(hubs::work(values)),
            ("placement", "controller") => runtime::long(hubs::placement(values)),
            ("placement", _) => runtime::long(hubs::placement_debug(values)),
            ("addon", "manager") => runtime::long(hubs::add_ons(values)),
            ("registration", "agent") => runtime::short(agents::registration(values, "registration-agent", false)),
            ("work", "agent") => runtime::short(agents::work(values)),
            ("registration-operator", "hub") => runtime::long(operators::hub(values, Layout::Upstream)),
            ("registration-operator", "klusterlet") => runtime::long(operators::klusterlet(values, Layout::Upstream)),
            ("operator", "hub") => runtime::long(operators::hub(values, Layout::Compact)),
            ("operator", _) => runtime::long(operators::klusterlet(values, Layout::Compact)),
            ("registration-operator", _) => runtime::short(agents::registration(values, "klusterlet-agent", true)),
            ("registration", _) => runtime::long(webhook_servers::registration(values)),
            ("work", _) => runtime::long(webhook_servers::work(values)),
            _ => runtime::long(webhook_servers::add_ons(values)),
        }
    }

    /// All of it as clap has it, for help and completion.
    fn command(self) -> Command {
        let subcommands = self.subcommands.iter().map(|it| read::command(self.name, it));
        Command::new(self.name).about(self.about).subcommands(subcommands)
    }

    fn without_subcommand(self, arguments: &[String]) -> ExitCode {
        if arguments.iter().any(|it| it == "--version") {
            return self.version();
        }
        if arguments.iter().any(|it| it == "--help" || it == "-h") {
            return self.help(None);
        }
        if let Some(flag) = arguments.iter().find(|it| it.starts_with('-')) {
            let name = flag.split('=').next().unwrap_or_default();
            eprintln!(
                "Error: unknown flag: {name}\n{}\nunknown flag: {name}",
                self.command().render_help()
            );
            return ExitCode::FAILURE;
        }
        // Upstream shows its help and fails: a Deployment that names no sub-command is to be seen.
        print!("{}", self.command().render_help());
        ExitCode::FAILURE
    }

    fn version(self) -> ExitCode {
        println!("{} version v{}", self.name, env!("CARGO_PKG_VERSION"));
        ExitCode::SUCCESS
    }

    fn help(self, about: Option<&String>) -> ExitCode {
        match about.and_then(|it| self.subcommands.iter().find(|sub| sub.name == it)) {
            Some(subcommand) => print!("{}", read::command(self.name, subcommand).render_help()),
            None => print!("{}", self.command().render_help()),
        }
        ExitCode::SUCCESS
    }

    fn completion(self, shell: Option<&String>) -> ExitCode {
        match shell.and_then(|it| it.parse::<clap_complete::Shell>().ok()) {
            Some(shell) => {
                let mut command = self.command();
                clap_complete::generate(shell, &mut command, self.name, &mut std::io::stdout());
                ExitCode::SUCCESS
            }
            None => self.help(None),
        }
    }

    fn is_not_here(self, word: &str, why: &str) -> ExitCode {
        eprintln!("error: {} {word} is not supported: {why}", self.name);
        ExitCode::FAILURE
    }

    fn unknown(self, word: &str) -> ExitCode {
        let why = format!("unknown command {word:?} for {:?}", self.name);
        eprintln!("Error: {why}\nRun '{} --help' for usage.\n{why}", self.name);
        ExitCode::FAILURE
    }
}

/// A variable by which programs in Go would go through a proxy.
fn unused_proxy(says: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let names = ["HTTPS_PROXY", "https_proxy"];
    names
        .into_iter()
        .find(|it| says(it).is_some_and(|it| !it.trim().is_empty()))
}

/// klog's levels in our words. kube logs what it also returns, and what it returns is told in a sentence.
fn log_filter(level: i64) -> &'static str {
    match level {
        ..=3 => "info,kube_client=off,kube_runtime=off,rustls_platform_verifier=off",
        4..=5 => "debug,kube_client=off,kube_runtime=off,rustls_platform_verifier=off,h2=info,hyper=info,rustls=info",
        _ => "trace,h2=debug,hyper=debug,rustls=debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[&str]) -> Option<(&'static str, usize)> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        asked_for(&words).map(|(program, rest)| (program.name, rest.len()))
    }

    #[test]
    fn the_image_has_a_link_for_each_program() {
        let recipe = include_str!("../../../deploy/Containerfile");
        let (_, rest) = recipe.split_once("for name in ").unwrap();
        let (linked, _) = rest.split_once(';').unwrap();
        let linked: std::collections::BTreeSet<_> = linked.split_whitespace().collect();
        // `server` is not there, and `operator` is no program of upstream's images.
        let of_upstream = PROGRAMS.iter().filter(|it| !["server", "operator"].contains(&it.name));
        assert_eq!(linked, of_upstream.map(|it| it.name).collect());
    }

    #[test]
    fn a_program_is_selected_by_name_path_or_first_argument() {
        assert_eq!(found(&["/usr/bin/registration", "agent"]), Some(("registration", 1)));
        assert_eq!(found(&["drover", "work", "agent", "--v=2"]), Some(("work", 2)));
        assert_eq!(found(&["drover", "/placement", "controller"]), Some(("placement", 1)));
        assert_eq!(found(&["registration"]), Some(("registration", 0)));
        assert_eq!(found(&["drover", "get", "work"]), None);
    }

    #[test]
    fn a_proxy_of_the_environment_is_noticed() {
        let of = |name: &'static str, value: &'static str| move |asked: &str| (asked == name).then(|| value.to_owned());
        assert_eq!(
            unused_proxy(of("https_proxy", "http://proxy:3128")),
            Some("https_proxy")
        );
        assert_eq!(unused_proxy(of("HTTPS_PROXY", " ")), None);
        assert_eq!(unused_proxy(of("HTTP_PROXY", "http://proxy:3128")), None);
    }

    #[test]
    fn our_own_commands_for_add_ons_stay_ours() {
        assert_eq!(found(&["drover", "addon", "enable"]), None);
        assert_eq!(found(&["drover", "addon"]), None);
        assert_eq!(found(&["drover", "addon", "manager"]), Some(("addon", 1)));
        assert_eq!(found(&["drover", "addon", "webhook-server"]), Some(("addon", 1)));
        assert_eq!(found(&["drover", "addon", "--v=2", "manager"]), Some(("addon", 2)));
        assert_eq!(found(&["drover", "addon", "--help"]), None);
        assert_eq!(found(&["drover", "/addon", "enable"]), Some(("addon", 1)));
        assert_eq!(found(&["addon", "enable"]), Some(("addon", 1)));
    }
}
