//! A program that ends with the one that started it, however that one ends.
//!
//! `stories keep LOCK PROGRAM ARGUMENT...` runs a program and listens to its own standard input: the line `stop` is
//! SIGTERM for the program, and the end of the input, which comes when whoever started us is gone, is SIGKILL. As long
//! as the program runs, the lock is ours: one that is started in the place of one that was killed waits until
//! that has really ended.

use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

/// Runs the program, until it ends by itself or is told to.
///
/// # Errors
/// When it cannot be run.
pub fn keep(words: &[String]) -> Result<ExitCode> {
    let [lock, program, arguments @ ..] = words else {
        bail!("keep what?")
    };
    let lock = File::create(lock).with_context(|| lock.clone())?;
    lock.lock()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("could not run {program}"))?;
    let pid = child.id().to_string();
    thread::spawn(move || {
        let mut word = String::new();
        // That nothing can be read any more says the same as the end.
        let _ = std::io::stdin().read_line(&mut word);
        let signal = if word.trim() == "stop" { "-TERM" } else { "-KILL" };
        // It may have ended meanwhile.
        let _ = Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status();
    });
    let status = child.wait()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A program under `keep`.
pub(crate) struct Kept {
    pub name: String,
    child: Child,
}

impl Kept {
    /// Starts `words`. What it says goes to `said`; what it complains about to `complaints`, or to where we complain.
    pub fn start(name: &str, words: &[String], said: &Path, complaints: Option<&Path>) -> Result<Self> {
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let mut keeper = Command::new(std::env::current_exe()?);
        // Ours say at the start what they are; a story wants to know what goes wrong. A watch that is refused is none
        // of it: a real API server learns of new rights a moment after they were written.
        keeper.env("DROVER_LOG", "warn,kube_runtime=error");
        keeper.arg("keep").arg(said.with_extension("lock"));
        keeper.args(words).stdout(create(said)?);
        if let Some(complaints) = complaints {
            keeper.stderr(create(complaints)?);
        }
        // Ctrl-C is for the one who started us, who stops everything in order.
        keeper.process_group(0).stdin(Stdio::piped());
        let child = keeper.spawn().with_context(|| format!("could not start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
        })
    }

    /// An error when it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself with {status}", self.name),
        }
    }

    /// Stops it and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        if let Some(mut input) = self.child.stdin.take() {
            // It may have ended by itself; its status says how.
            let _ = input.write_all(b"stop\n");
            let status = self.child.wait()?;
            drop(input);
            if !status.success() {
                bail!("{} was stopped and ended with {status}", self.name);
            }
        }
        Ok(())
    }
}
