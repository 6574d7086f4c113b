//! The binary as a child process: its steps, its memory, its CPU time.

use anyhow::{Context, Result, anyhow, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The user of the kubeconfigs that `up` writes. The benches join with it, so `accept` is told to trust it.
pub const ADMIN: &str = "kubernetes-admin";

/// A process that is stopped when it is dropped.
pub struct Drover {
    child: Child,
    /// From exec to the line that says ready.
    pub ready_after: Duration,
}

impl From<Child> for Drover {
    fn from(child: Child) -> Self {
        Self {
            child,
            ready_after: Duration::ZERO,
        }
    }
}

impl Drover {
    /// Runs `drover up` and waits until it is ready.
    pub fn up(binary: &Path, data: &Path, clusters: usize) -> Result<Self> {
        Self::until_ready(binary, &["up", "--clusters", &clusters.to_string()], data)
    }

    /// Runs a command that serves from a data directory, and waits until it says that it is ready.
    pub fn until_ready(binary: &Path, command: &[&str], data: &Path) -> Result<Self> {
        let begun = Instant::now();
        let mut child = Command::new(binary)
            .args(command)
            .args(["-o", "json", "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("the output is piped")?;
        for line in BufReader::new(output).lines() {
            let line: Value = serde_json::from_str(&line?)?;
            if line["ready"] == true {
                return Ok(Self {
                    child,
                    ready_after: begun.elapsed(),
                });
            }
        }
        bail!(
            "drover {} ended with {} before it was ready",
            command.join(" "),
            child.wait()?
        )
    }

    /// Runs another long-lived command.
    pub fn run<I: AsRef<OsStr>>(binary: &Path, arguments: impl IntoIterator<Item = I>) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.spawn()?.into())
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> Result<u64> {
        resident(&format!("/proc/{}/status", self.child.id()))
    }

    /// Looks at the resident memory from now on, again and again.
    pub fn watch_resident(&self) -> Peak {
        let file = format!("/proc/{}/status", self.child.id());
        let done = Arc::new(AtomicBool::new(false));
        let told = done.clone();
        let looking = std::thread::spawn(move || {
            let mut highest = 0;
            while !told.load(Ordering::Relaxed) {
                highest = highest.max(resident(&file)?);
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(highest)
        });
        Peak { done, looking }
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> Result<Duration> {
        let (own, kernel) = self.cpu_by_side()?;
        Ok(own + kernel)
    }

    /// CPU time used so far: by the program itself, and by the kernel for it.
    pub fn cpu_by_side(&self) -> Result<(Duration, Duration)> {
        cpu_by_side(self.child.id())
    }

    /// Asks the process to stop and waits.
    pub fn stop(mut self) -> Result<()> {
        self.terminate();
        self.child.wait()?;
        Ok(())
    }

    #[allow(unsafe_code)] // std can only kill; a server is asked to stop.
    fn terminate(&self) {
        // SAFETY: kill takes two numbers; the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
    }
}

/// CPU time that a process has used so far.
pub fn cpu_of(process: u32) -> Result<Duration> {
    let (own, kernel) = cpu_by_side(process)?;
    Ok(own + kernel)
}

fn cpu_by_side(process: u32) -> Result<(Duration, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may hold spaces, but it ends at the last bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|it| it.parse::<u64>().ok())
            .context("the kernel tells CPU time")
    };
    // Linux counts in hundredths of a second for user space, whatever it uses inside.
    let time = |at: usize| ticks(at).map(|it| Duration::from_millis(it * 10));
    Ok((time(11)?, time(12)?))
}

/// Resident memory of a process in bytes.
pub fn resident_of(process: u32) -> Result<u64> {
    resident(&format!("/proc/{process}/status"))
}

fn resident(file: &str) -> Result<u64> {
    let status = fs::read_to_string(file)?;
    let line = status
        .lines()
        .find(|it| it.starts_with("VmRSS:"))
        .context("the kernel tells resident memory")?;
    let kibibytes: u64 = line.split_whitespace().nth(1).context("a number of kB")?.parse()?;
    Ok(kibibytes << 10)
}

/// The most that was resident since somebody began to look.
pub struct Peak {
    done: Arc<AtomicBool>,
    looking: JoinHandle<Result<u64>>,
}

impl Peak {
    /// Ends looking.
    pub fn highest(self) -> Result<u64> {
        self.done.store(true, Ordering::Relaxed);
        self.looking
            .join()
            .map_err(|_| anyhow!("nobody looked at the memory"))?
    }
}

impl Drop for Drover {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            let _ = self.child.wait();
        }
    }
}

/// Path of a kubeconfig that `up` wrote.
pub fn kubeconfig(data: &Path, name: &str) -> PathBuf {
    data.join(format!("{name}.kubeconfig"))
}

/// A client of one of the API servers that `up` started.
pub async fn client(data: &Path, name: &str) -> Result<Client> {
    client_of(&kubeconfig(data, name)).await
}

/// A client of the API server that a kubeconfig names.
pub async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
