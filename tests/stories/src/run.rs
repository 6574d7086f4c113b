//! Runs one story in a folder of its own.

use crate::{
    expect,
    lane::Programs,
    parse::{Action, Step},
    port,
};
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// How long a command may take, and how long an expectation may take to hold: `$STORY_SECONDS_MAX`, 60 without it.
fn patience() -> Duration {
    let given = std::env::var("STORY_SECONDS_MAX").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(given.unwrap_or(60))
}

/// Between two tries of a `wait` and two looks at a process. Waiting is what the story is about; this only sets how
/// closely it is watched.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Lines of a background process's output that a failure shows.
const LOG_LINES_MAX: usize = 40;

/// What went wrong, and where.
#[derive(Debug)]
pub(crate) struct StoryFailure {
    /// Of the story, from 1.
    pub line: usize,
    text: String,
    /// What the background processes printed last.
    pub logs: String,
}

impl fmt::Display for StoryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.text)
    }
}

struct Background {
    child: Child,
    log: PathBuf,
}

struct Runner<'a> {
    folder: &'a Path,
    environment: BTreeMap<String, String>,
    background: BTreeMap<String, Background>,
    /// Commands run so far; names their output files.
    serial: usize,
}

/// Runs the steps with these programs first in the path; an error is the first step that did not go as written.
pub(crate) fn run(steps: &[Step], programs: &Programs) -> Result<(), StoryFailure> {
    let prepare = |error: std::io::Error| StoryFailure {
        line: 1,
        text: format!("could not prepare a folder: {error}"),
        logs: String::new(),
    };
    let folder = tempfile::Builder::new().prefix("story-").tempdir().map_err(prepare)?;
    let logs = tempfile::Builder::new()
        .prefix("story-logs-")
        .tempdir()
        .map_err(prepare)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(programs.folders.iter().cloned().chain(std::env::split_paths(&path)));
    let home = folder.path().to_string_lossy().into_owned();
    let environment = [
        (
            "PATH",
            path.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default(),
        ),
        ("HOME", home.clone()),
        (
            "KUBECACHEDIR",
            logs.path().join("kubectl").to_string_lossy().into_owned(),
        ),
        ("TERM", "dumb".into()),
        ("NO_COLOR", "1".into()),
        ("KUBECONFIG", String::new()),
    ];
    let environment = environment
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .chain(programs.variables.iter().cloned())
        .collect();
    let mut runner = Runner {
        folder: folder.path(),
        environment,
        background: BTreeMap::new(),
        serial: 0,
    };
    for step in steps {
        if let Err(text) = runner.step(step, logs.path()) {
            return Err(StoryFailure {
                line: step.line,
                text,
                logs: runner.logs(),
            });
        }
    }
    Ok(())
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        for background in self.background.values_mut() {
            // Already ended is what we want.
            background.child.kill().ok();
            background.child.wait().ok();
        }
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|it| format!("    {it}\n")).collect()
}

impl Runner<'_> {
    fn step(&mut self, step: &Step, logs: &Path) -> Result<(), String> {
        match &step.action {
            Action::File { name, content } => self.write(name, content),
            Action::Set { name, value } => {
                self.environment.insert(name.clone(), value.clone());
                Ok(())
            }
            Action::Run(command) => {
                let (output, status) = self.command(command, logs)?;
                let ok = status.code() == Some(step.exit) && expect::matches(&step.expected, &output);
                if ok {
                    Ok(())
                } else {
                    Err(unexpected(command, step, &output, status))
                }
            }
            Action::Wait(command) => {
                let deadline = Instant::now() + patience();
                loop {
                    let (output, status) = self.command(command, logs)?;
                    if status.code() == Some(step.exit) && expect::matches(&step.expected, &output) {
                        return Ok(());
                    }
                    if Instant::now() > deadline {
                        let text = unexpected(command, step, &output, status);
                        return Err(format!("{text}  after waiting {} s\n", patience().as_secs()));
                    }
                    self.check_background()?;
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
            Action::Let { name, command } => {
                let (output, status) = self.command(command, logs)?;
                if !status.success() {
                    return Err(unexpected(command, step, &output, status));
                }
                self.environment.insert(name.clone(), output.trim().to_owned());
                Ok(())
            }
            Action::Port(name) => {
                self.environment.insert(name.clone(), port::free()?.to_string());
                Ok(())
            }
            Action::Start { name, command } => self.start(name, command, logs),
            Action::WaitLog(name) => self.wait_log(name, step),
            Action::Stop(name) => self.stop(name),
            Action::Kill(name) => {
                let mut background = self.take(name)?;
                background
                    .child
                    .kill()
                    .map_err(|it| format!("could not kill {name}: {it}"))?;
                background
                    .child
                    .wait()
                    .map(|_| ())
                    .map_err(|it| format!("could not wait for {name}: {it}"))
            }
        }
    }

    fn write(&self, name: &str, content: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|it| format!("could not create {}: {it}", parent.display()))?;
        }
        fs::write(&path, content).map_err(|it| format!("could not write {name}: {it}"))
    }

    /// A shell command whose output goes to a file: a pipe would fill up while nobody reads.
    fn shell(&self, command: &str, output: &Path) -> Result<Child, String> {
        let open = || fs::File::create(output).and_then(|it| Ok((it.try_clone()?, it)));
        let (out, error) = open().map_err(|it| format!("could not create {}: {it}", output.display()))?;
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(command)
            .current_dir(self.folder)
            .envs(&self.environment);
        for name in ["KUBECONFIG"]
            .into_iter()
            .filter(|it| self.environment.get(*it).is_some_and(String::is_empty))
        {
            shell.env_remove(name);
        }
        shell.stdin(Stdio::null()).stdout(out).stderr(error);
        shell.spawn().map_err(|it| format!("could not run sh: {it}"))
    }

    fn command(&mut self, command: &str, logs: &Path) -> Result<(String, ExitStatus), String> {
        self.serial += 1;
        let output = logs.join(format!("{}", self.serial));
        let mut child = self.shell(command, &output)?;
        let status = wait(&mut child, patience());
        let text = fs::read_to_string(&output).unwrap_or_default();
        fs::remove_file(&output).ok(); // a story may try a command a thousand times
        match status {
            Some(status) => Ok((text, status)),
            None => {
                child.kill().ok();
                child.wait().ok();
                Err(format!(
                    "$ {command}\n  did not end within {} s and printed\n{}",
                    patience().as_secs(),
                    indent(&text)
                ))
            }
        }
    }

    fn start(&mut self, name: &str, command: &str, logs: &Path) -> Result<(), String> {
        self.serial += 1;
        let log = logs.join(format!("{name}.{}.log", self.serial));
        // `exec`, so that signals reach the program and not the shell.
        let child = self.shell(&format!("exec {command}"), &log)?;
        self.background.insert(name.to_owned(), Background { child, log });
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<Background, String> {
        self.background
            .remove(name)
            .ok_or_else(|| format!("nothing was started as {name}"))
    }

    fn wait_log(&mut self, name: &str, step: &Step) -> Result<(), String> {
        let deadline = Instant::now() + patience();
        loop {
            let background = self
                .background
                .get(name)
                .ok_or_else(|| format!("nothing was started as {name}"))?;
            let log = fs::read_to_string(&background.log).unwrap_or_default();
            if expect::matches(&step.expected, &log) {
                return Ok(());
            }
            self.check_background()?;
            if Instant::now() > deadline {
                let expected = indent(&step.expected.join("\n"));
                return Err(format!(
                    "{name} did not print within {} s\n{expected}",
                    patience().as_secs()
                ));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn stop(&mut self, name: &str) -> Result<(), String> {
        let mut background = self.take(name)?;
        let asked = Command::new("kill")
            .arg("-TERM")
            .arg(background.child.id().to_string())
            .status();
        if !asked.is_ok_and(|it| it.success()) {
            self.background.insert(name.to_owned(), background);
            return Err(format!("{name} had already ended"));
        }
        let status = wait(&mut background.child, patience());
        self.background.insert(name.to_owned(), background);
        match status {
            Some(status) if status.success() => {
                self.background.remove(name);
                Ok(())
            }
            Some(status) => Err(format!("{name} was stopped and ended with {status}")),
            None => Err(format!(
                "{name} did not end within {} s of SIGTERM",
                patience().as_secs()
            )),
        }
    }

    /// A background process that has ended will not bring what the story waits for.
    fn check_background(&mut self) -> Result<(), String> {
        for (name, background) in &mut self.background {
            if let Ok(Some(status)) = background.child.try_wait() {
                return Err(format!("{name} ended by itself with {status}"));
            }
        }
        Ok(())
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for (name, background) in &self.background {
            let log = fs::read_to_string(&background.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n");
            text += &format!("  {name} printed\n{}\n", indent(&last));
        }
        text
    }
}

fn unexpected(command: &str, step: &Step, output: &str, status: ExitStatus) -> String {
    let expected = indent(&step.expected.join("\n"));
    format!(
        "$ {command}\n  wanted (exit {})\n{expected}  got ({status})\n{}",
        step.exit,
        indent(output)
    )
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Err(_) => return None,
            Ok(None) if Instant::now() > deadline => return None,
            Ok(None) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lane::Lane, parse::parse};

    fn try_story(text: &str) -> Result<(), StoryFailure> {
        let programs = Programs::of(Lane::default(), Path::new("/"), Path::new("/")).unwrap();
        run(&parse(text).unwrap(), &programs)
    }

    #[test]
    fn a_story_runs_in_its_own_folder_with_its_variables() {
        let story = "file sub/a.txt\n    hello\n\nlet WORD $ cat sub/a.txt\n\n$ echo $WORD world\nhello world\n";
        try_story(story).unwrap();
        try_story("$ exit 3\nexit 3\n").unwrap();
    }

    #[test]
    fn a_wait_holds_when_a_background_process_brings_it_about() {
        let story = "start writer $ sh -c 'echo begun; touch there; exec sleep 60'\n\nwait log writer\nbegun\n\nwait $ ls there\nthere\n\nkill writer\n";
        try_story(story).unwrap();
    }

    #[test]
    fn a_failure_names_the_line_and_shows_what_was_printed() {
        let failure = try_story("# Prose.\n$ echo one\ntwo\n").unwrap_err().to_string();
        assert!(failure.starts_with("2: $ echo one"), "{failure}");
        assert!(
            failure.contains("    two\n") && failure.contains("    one\n"),
            "{failure}"
        );
        let failure = try_story("start x $ sh -c 'echo a last word; exit 1'\n\nwait $ true\nnever\n").unwrap_err();
        assert!(failure.to_string().contains("x ended by itself"), "{failure}");
        assert!(failure.logs.contains("a last word"), "{}", failure.logs);
    }
}
