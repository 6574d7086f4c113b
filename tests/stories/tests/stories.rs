//! All stories, as a test of the workspace.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    // cargo passes flags of the usual harness; only names mean something here.
    let names = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    if std::env::args().any(|it| it == "--list") {
        for (name, _) in stories::all()? {
            println!("{name}: test");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = stories::Wanted {
        names,
        at_once: 2,
        ..stories::Wanted::default()
    };
    Ok(if stories::run_all(&wanted)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
