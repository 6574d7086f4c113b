//! `cargo xtask kubernetes`: a real control plane of Kubernetes for tests, built from its published Go modules in
//! `tests/conformance/kubernetes`.

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The program that is a control plane.
const PROGRAM: &str = "real-kubernetes";
const KUBECTL: &str = "kubectl";
/// Between two looks at a process that is to end and is not our child.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Of the log of a cluster that crashed: a panic of Go tells the reason first and then where all its goroutines were.
const LAST_LINES: usize = 200;

/// What to do with it.
#[derive(Subcommand)]
pub enum Kubernetes {
    /// Build the control plane and the kubectl of its version into target/kubernetes/bin; what is built already is kept
    Build,
    /// Start a cluster in the background and print where its kubeconfig is
    Up {
        /// Clusters of different names run beside each other
        #[arg(default_value = "cluster", value_parser = name)]
        name: String,
        /// The port of its API server; 0 takes one that is free
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Stop a cluster and remove everything it had
    Down {
        #[arg(default_value = "cluster", value_parser = name)]
        name: String,
    },
}

/// Does it; says so when it cannot be done here because there is no Go.
pub fn run(root: &Path, wanted: &Kubernetes) -> Result<()> {
    let place = Place::of(root);
    match wanted {
        Kubernetes::Down { name } => place.down(name),
        _ if !has_go() => {
            println!("skipped: there is no go to build Kubernetes with");
            Ok(())
        }
        Kubernetes::Build => place.build(),
        Kubernetes::Up { name, port } => {
            place.build()?;
            place.up(name, *port)
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    if text.is_empty() || text == "bin" || !text.chars().all(is_name) {
        return Err("a name is of small letters, digits and dashes, and not `bin`".to_owned());
    }
    Ok(text.to_owned())
}

fn has_go() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|it| it.join("go").is_file())
}

/// Where everything of it is.
struct Place {
    module: PathBuf,
    target: PathBuf,
}

impl Place {
    fn of(root: &Path) -> Self {
        Self {
            module: root.join("tests/conformance/kubernetes"),
            target: root.join("target/kubernetes"),
        }
    }

    fn program(&self, name: &str) -> PathBuf {
        self.target.join("bin").join(name)
    }

    fn build(&self) -> Result<()> {
        let sources = self.sources()?;
        let stamp = self.target.join("bin/built-from");
        let is_built = fs::read_to_string(&stamp).is_ok_and(|it| it == sources);
        if is_built && self.program(PROGRAM).is_file() && self.program(KUBECTL).is_file() {
            return Ok(());
        }
        let version = version(&fs::read_to_string(self.module.join("go.mod"))?)?;
        // Both are built at once: most of their packages are the same.
        let mut go = Command::new("go");
        go.arg("-C").arg(&self.module);
        go.args(["build", "-buildvcs=false", "-ldflags", &linker_flags(&version), "-o"]);
        go.arg(self.target.join("bin/"));
        go.args([".", "k8s.io/kubernetes/cmd/kubectl"]);
        // A program of its own, which needs no C compiler, and shares what is compiled with the other programs of Go.
        go.env("CGO_ENABLED", "0");
        fs::create_dir_all(self.target.join("bin"))?;
        ensure!(
            go.status().context("could not run go")?.success(),
            "Kubernetes could not be built"
        );
        fs::write(stamp, sources)?;
        println!("built Kubernetes {version}");
        Ok(())
    }

    /// What the programs are made from, in a few letters.
    fn sources(&self) -> Result<String> {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in self
            .module
            .read_dir()
            .with_context(|| self.module.display().to_string())?
        {
            files.push(entry?.path());
        }
        // The workspace has a say in the versions.
        let workspace = self.module.parent().into_iter();
        files.extend(workspace.flat_map(|it| [it.join("go.work"), it.join("go.work.sum")]));
        files.sort();
        let mut hasher = DefaultHasher::new();
        for file in files {
            file.file_name().hash(&mut hasher);
            fs::read(&file)?.hash(&mut hasher);
        }
        Ok(format!("{:x}", hasher.finish()))
    }

    fn up(&self, name: &str, port: u16) -> Result<()> {
        let folder = self.target.join(name);
        ensure!(
            !folder.join("pid").exists(),
            "{name} is up; `cargo xtask kubernetes down {name}` ends it"
        );
        fs::create_dir_all(&folder)?;
        let log = folder.join("log");
        let mut program = Command::new(self.program(PROGRAM));
        program.arg("--data-directory").arg(folder.join("data"));
        program.arg("--kubeconfig").arg(folder.join("kubeconfig"));
        program.arg("--port").arg(port.to_string());
        // A group of its own: Ctrl-C at what we started later is not meant for it.
        program.process_group(0).stdin(Stdio::null());
        program.stdout(Stdio::piped()).stderr(fs::File::create(&log)?);
        let mut child = program.spawn().context("could not start it")?;
        fs::write(folder.join("pid"), child.id().to_string())?;
        let mut told = String::new();
        let output = child.stdout.take().context("it has no output")?;
        BufReader::new(output).read_line(&mut told)?;
        if told.is_empty() {
            let ended = child.wait()?;
            fs::remove_file(folder.join("pid"))?;
            bail!("it ended with {ended}; {} says why", log.display());
        }
        print!("{told}");
        Ok(())
    }

    fn down(&self, name: &str) -> Result<()> {
        let folder = self.target.join(name);
        let Ok(text) = fs::read_to_string(folder.join("pid")) else {
            println!("{name} is not up");
            return Ok(());
        };
        let pid: u32 = text.trim().parse().context("the pid file holds no number")?;
        if runs(pid)? {
            let asked = Command::new("kill").arg("-TERM").arg(pid.to_string()).status()?;
            ensure!(asked.success(), "could not stop process {pid}");
            while runs(pid)? {
                thread::sleep(LOOK_AGAIN);
            }
        } else {
            println!(
                "{name} had ended by itself; the last it said:\n{}",
                last_lines(&folder.join("log"))?
            );
        }
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))
    }
}

/// The end of a log, in which the reason of a crash is.
fn last_lines(log: &Path) -> Result<String> {
    let text = fs::read(log).with_context(|| log.display().to_string())?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
}

/// Whether the process is one of ours and has not ended: numbers are given out again.
fn runs(pid: u32) -> Result<bool> {
    let ps = Command::new("ps")
        .args(["-o", "stat=,comm=", "-p", &pid.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&ps.stdout);
    let mut words = text.split_whitespace();
    let ended = words.next().is_none_or(|it| it.starts_with('Z'));
    Ok(!ended && words.next().is_some_and(|it| it.ends_with(PROGRAM)))
}

/// The version of Kubernetes that go.mod pins.
fn version(go_mod: &str) -> Result<String> {
    let line = go_mod
        .lines()
        .find_map(|it| it.trim().strip_prefix("k8s.io/kubernetes "));
    Ok(line.context("go.mod has no k8s.io/kubernetes")?.trim().to_owned())
}

/// A module does not know its own version: it is told, as Kubernetes' own build does. Without symbols it links sooner.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitCommit", ""),
            ("gitTreeState", "clean"),
        ] {
            flags += &format!(" -X {package}.{name}={value}");
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_get_the_version_pinned_in_go_mod() {
        let version = version("module x\n\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n").unwrap();
        assert_eq!(version, "v1.36.3");
        let flags = linker_flags(&version);
        assert!(
            flags.contains(" -X k8s.io/component-base/version.gitVersion=v1.36.3 "),
            "{flags}"
        );
        assert!(
            flags.contains(" -X k8s.io/component-base/version.gitMinor=36 "),
            "{flags}"
        );
    }

    #[test]
    fn a_cluster_name_is_neither_path_nor_program_directory() {
        assert!(name("cluster-1").is_ok());
        assert!(name("bin").is_err());
        assert!(name("../x").is_err());
    }
}
