//! Runs stories: `stories [NAME...]`.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let wanted: Vec<_> = std::env::args().skip(1).collect();
    Ok(if stories::run_all(&wanted)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
