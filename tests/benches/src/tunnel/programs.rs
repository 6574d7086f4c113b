//! The tunnel alone, as programs: ours, and konnectivity's own where they are given.

use std::{
    io,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{best, rate, world};
use crate::{Size, drover::resident_of, statistics::mebibytes};
use world::Keys;

/// Agents of one server.
const AGENTS: usize = 1000;
const DEADLINE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(20);
/// Before a server is weighed.
const SETTLE: Duration = Duration::from_secs(5);

/// Throughput of one stream, and what a server with many agents weighs.
pub async fn measure(binary: &Path, konnectivity: Option<&Path>, size: Size) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let keys = Keys::new()?;
    keys.write(folder.path())?;
    let source = source().await?;
    let mut report = json!({
        "ours": run(&[binary, Path::new("proxy-server")], &[binary, Path::new("proxy-agent")], &keys, folder.path(), source, size).await?,
        "agents": agents(binary, &keys, folder.path(), size).await?,
    });
    if let Some(programs) = konnectivity {
        let (server, agent) = (programs.join("server"), programs.join("agent"));
        report["konnectivity"] = run(&[&server], &[&agent], &keys, folder.path(), source, size).await?;
    }
    Ok(report)
}

/// A process that ends with its owner.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(words: &[&Path], flags: &[String]) -> Result<Program> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(flags);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Ok(Program(child.with_context(|| words[0].display().to_string())?))
}

async fn free() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

/// Writes to whoever connects until he has enough.
async fn source() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let piece = vec![b'x'; 256 << 10];
                while tokio::io::AsyncWriteExt::write_all(&mut stream, &piece).await.is_ok() {}
            });
        }
    });
    Ok(port)
}

/// A server that runs, and its ports.
struct Server {
    program: Program,
    front: u16,
    agents: u16,
}

async fn server(words: &[&Path], folder: &Path) -> Result<Server> {
    let (front, agents) = (free().await?, free().await?);
    let file = |name: &str| folder.join(name).display().to_string();
    let flags = [
        format!("--server-port={front}"),
        format!("--agent-port={agents}"),
        format!("--health-port={}", free().await?),
        format!("--admin-port={}", free().await?),
        "--server-bind-address=127.0.0.1".to_owned(),
        "--agent-bind-address=127.0.0.1".to_owned(),
        "--health-bind-address=127.0.0.1".to_owned(),
        "--proxy-strategies=destHost".to_owned(),
        "--server-count=1".to_owned(),
        format!("--server-ca-cert={}", file("ca.crt")),
        format!("--server-cert={}", file("server.crt")),
        format!("--server-key={}", file("server.key")),
        format!("--cluster-ca-cert={}", file("ca.crt")),
        format!("--cluster-cert={}", file("server.crt")),
        format!("--cluster-key={}", file("server.key")),
    ];
    let program = start(words, &flags)?;
    let deadline = Instant::now() + DEADLINE;
    while TcpStream::connect(("127.0.0.1", agents)).await.is_err() {
        ensure!(Instant::now() < deadline, "{} does not listen", words[0].display());
        tokio::time::sleep(GLANCE).await;
    }
    Ok(Server { program, front, agents })
}

/// One stream from a source behind an agent, by a client of ours.
async fn run(
    of_server: &[&Path],
    of_agent: &[&Path],
    keys: &Keys,
    folder: &Path,
    source: u16,
    size: Size,
) -> Result<Value> {
    let server = server(of_server, folder).await?;
    let file = |name: &str| folder.join(name).display().to_string();
    let flags = [
        "--proxy-server-host=127.0.0.1".to_owned(),
        format!("--proxy-server-port={}", server.agents),
        "--agent-identifiers=host=127.0.0.1".to_owned(),
        format!("--ca-cert={}", file("ca.crt")),
        format!("--agent-cert={}", file("agent.crt")),
        format!("--agent-key={}", file("agent.key")),
        "--health-server-host=127.0.0.1".to_owned(),
        format!("--health-server-port={}", free().await?),
        format!("--admin-server-port={}", free().await?),
    ];
    let _agent = start(of_agent, &flags)?;
    let client = konnectivity::Client::connect(world::connect(server.front, keys.tunnel(false)?).await?).await?;
    let deadline = Instant::now() + DEADLINE;
    let address = format!("127.0.0.1:{source}");
    while let Err(error) = client.dial(&address).await {
        ensure!(Instant::now() < deadline, "the agent does not come: {error}");
        tokio::time::sleep(GLANCE).await;
    }
    let length = if size.runs == 1 { 64 << 20 } else { 512 << 20 };
    let mut rates = Vec::new();
    for _ in 0..size.runs {
        let mut stream = client.dial(&address).await?;
        let reading = async {
            let mut piece = vec![0; 256 << 10];
            let mut read = 0;
            while read < length {
                let count = stream.read(&mut piece).await?;
                ensure!(count > 0, "the stream has ended");
                read += count;
            }
            Ok(())
        };
        rates.push(rate(length, reading).await?);
    }
    drop(server.program);
    Ok(json!({"oneStreamMegabytesPerSecond": best(rates, f64::NAN)}))
}

/// What a server weighs with many agents.
async fn agents(binary: &Path, keys: &Keys, folder: &Path, size: Size) -> Result<Value> {
    let count = if size.runs == 1 { 100 } else { AGENTS };
    let server = server(&[binary, Path::new("proxy-server")], folder).await?;
    let process = server.program.0.id();
    let before = resident_of(process)?;
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let mut all = Vec::new();
    for number in 0..count {
        let agent = world::agent(keys, server.agents, &format!("cluster{number}"), 1)?;
        let (runs, ends) = (agent.clone(), stop.clone());
        tokio::spawn(async move { runs.run(ends, Duration::ZERO).await });
        all.push(agent);
    }
    let deadline = Instant::now() + DEADLINE;
    while !all.iter().all(konnectivity::TunnelAgent::is_ready) {
        ensure!(Instant::now() < deadline, "not all agents come");
        tokio::time::sleep(GLANCE).await;
    }
    let client = konnectivity::Client::connect(world::connect(server.front, keys.tunnel(false)?).await?).await?;
    // Each is there for who asks.
    let refused = client.dial(&format!("cluster{}:1", count - 1)).await;
    ensure!(
        refused.is_err_and(|it| it.kind() != io::ErrorKind::TimedOut),
        "nobody listens there"
    );
    // Handshakes leave something behind that is given back.
    tokio::time::sleep(SETTLE).await;
    let resident = resident_of(process)?;
    Ok(json!({
        "count": count,
        "residentMebibytes": {"measured": mebibytes(resident), "promised": 60},
        "residentMebibytesWithout": mebibytes(before),
    }))
}
