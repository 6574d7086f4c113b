//! The binary: what was typed is parsed, one command runs, and what went wrong is said in one sentence.
//!
//! Exit codes: 0 done, 1 the command could not do what was asked, 2 the command line itself is wrong. `drover policy`
//! has upstream's, where 2 is a policy that is not compliant.

mod add_on_credentials;
mod add_ons;
mod cli;
mod clusteradm;
mod command;
mod in_pod;
mod manifests;
mod quantity;

use std::{io::ErrorKind, process::ExitCode};

use allocator::{ALLOCATOR, Allocator};
use clap::Parser;
use fleet::{bundled, examples};

#[global_allocator]
static GLOBAL: Allocator = ALLOCATOR;

fn main() -> ExitCode {
    let begun = std::time::Instant::now();
    let arguments: Vec<_> = std::env::args_os().collect();
    // Before all else: these arguments are a stranger's.
    if let Some(code) = examples::run_in_pod(&arguments) {
        return code;
    }
    if let Some(code) = in_pod::run_add_on(&arguments) {
        return code;
    }
    let arguments = match in_pod::arguments(&arguments) {
        None => arguments,
        Some(Ok(of_the_program)) => of_the_program,
        Some(Err(code)) => return code,
    };
    if let Some((program, arguments)) = examples::asked_for(&arguments) {
        return program.run(arguments.to_vec());
    }
    if let Some(code) = bundled::run(&arguments) {
        return code;
    }
    if let Some((program, arguments)) = compat::asked_for(&arguments) {
        return program.run(arguments);
    }
    if let Some(call) = clusteradm::asked_for(&arguments) {
        return call.run();
    }
    if let Some(code) = command::policy::run_program(&arguments) {
        return code;
    }
    let cli = match cli::Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // There is nobody to tell when even this cannot be written.
            let _ = error.print();
            return ExitCode::from(command::policy::exit_code(&arguments, &error));
        }
    };
    match command::run(cli, begun) {
        Ok(code) => code,
        // The reader of our output went away (`drover get clusters | head -1`): nobody is left to tell.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", output::sentence(&error));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
