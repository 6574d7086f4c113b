//! One upgraded connection, from the last byte of HTTP to its end.

use super::{
    PodPorts, ProcessStart, StandardStreams, lanes,
    lanes::{Inlet, Lane, Outbound, Outgoing},
    port_forward::{self, CONNECTIONS_MAX, CREATION_DEADLINE, ForwardedPod},
    process::{self, ProcessLanes},
    spdy,
    upgrade::{PortProtocol, ProcessProtocol},
    web_socket,
};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::{collections::HashMap, io, pin::pin, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, mpsc},
};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

/// How long a client may take to say goodbye after the last word. Closing at once would throw away what it sends
/// still, and with that, as TCP has it, what it has not read yet.
const LINGER: Duration = Duration::from_secs(5);

/// What is done in the connection.
pub enum Session {
    Process {
        protocol: ProcessProtocol,
        stdio: StandardStreams,
        start: ProcessStart,
    },
    Ports {
        protocol: PortProtocol,
        pod: String,
        ports: PodPorts,
        /// Those of the query, for the protocol that has them there.
        asked: Vec<u16>,
    },
}

/// What holds a session: it ends with `stands`.
pub struct SessionHold {
    pub stands: BoxStream<'static, Bytes>,
    pub permit: OwnedSemaphorePermit,
}

/// Serves what was agreed on, once the answer is sent.
pub async fn run(upgrade: OnUpgrade, session: Session, hold: SessionHold) {
    let SessionHold { mut stands, permit } = hold;
    let _permit = permit;
    let served = async {
        match upgrade.await {
            Ok(upgraded) => serve(TokioIo::new(upgraded), session).await,
            Err(error) => Err(io::Error::other(error)),
        }
    };
    let ended = tokio::select! {
        ended = Box::pin(served) => ended,
        _ = stands.next() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection into a pod ended");
    }
}

pub(super) async fn serve<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    io: T,
    session: Session,
) -> io::Result<()> {
    match session {
        Session::Process { protocol, stdio, start } => match protocol {
            ProcessProtocol::Spdy(spoken) => {
                let (from, to) = tokio::io::split(io);
                let wanted = process::wanted(stdio, spoken.resizes);
                spdy(from, to, wanted.len(), async |opened| {
                    if let Some(lanes) = gather(opened, &wanted).await {
                        process::run(lanes, start, spoken.report).await;
                    }
                })
                .await
            }
            ProcessProtocol::WebSocket(coding, report) => {
                let (out, outbound) = lanes::outgoing();
                let (lanes, inlets) = channels(stdio, &out);
                let (to, from) = web_socket::accept(io).await.split();
                let reading = web_socket::read(from, coding, inlets, out.clone());
                let writing = web_socket::write(to, coding, outbound);
                together(reading, writing, process::run(lanes, start, report), out).await
            }
        },
        Session::Ports {
            protocol,
            pod,
            ports,
            asked,
        } => {
            let pod = ForwardedPod { name: pod, ports };
            match protocol {
                PortProtocol::Spdy => {
                    let (from, to) = tokio::io::split(io);
                    let work = async |opened| port_forward::run_asked(pod, opened).await;
                    spdy(from, to, CONNECTIONS_MAX * 2, work).await
                }
                PortProtocol::Tunnelled => {
                    let (to, from) = web_socket::accept(io).await.split();
                    let from = pin!(StreamReader::new(web_socket::tunnelled(from)));
                    let to = pin!(SinkWriter::new(CopyToBytes::new(web_socket::tunnel(to))));
                    let work = async |opened| port_forward::run_asked(pod, opened).await;
                    spdy(from, to, CONNECTIONS_MAX * 2, work).await
                }
                PortProtocol::WebSocket(coding) => {
                    let (out, outbound) = lanes::outgoing();
                    let mut inlets = HashMap::new();
                    let mut all = Vec::new();
                    for (at, port) in asked.into_iter().enumerate() {
                        let mut lane = |channel: usize| {
                            let channel = u8::try_from(channel).unwrap_or(u8::MAX);
                            let (lane, inlet) = Lane::new(channel.into(), &out);
                            inlets.insert(channel, inlet);
                            lane
                        };
                        all.push((port, lane(at * 2), lane(at * 2 + 1)));
                    }
                    let (to, from) = web_socket::accept(io).await.split();
                    let reading = web_socket::read(from, coding, inlets, out.clone());
                    let writing = web_socket::write(to, coding, outbound);
                    together(reading, writing, port_forward::run_fixed(pod, all), out).await
                }
            }
        }
    }
}

/// Speaks SPDY, and does something with the streams that the client opens.
async fn spdy(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    max: usize,
    work: impl AsyncFnOnce(mpsc::Receiver<spdy::Opened>),
) -> io::Result<()> {
    let (out, outbound) = lanes::outgoing();
    let (opened, streams) = mpsc::channel(8);
    let reading = spdy::read(from, out.clone(), opened, max);
    together(reading, spdy::write(to, outbound), work(streams), out).await
}

/// Reads, writes and works until the work is done, which is then told; or until the client is gone, with which the work
/// ends at once.
async fn together(
    reading: impl Future<Output = io::Result<()>>,
    writing: impl Future<Output = io::Result<()>>,
    work: impl Future<Output = ()>,
    out: Outgoing,
) -> io::Result<()> {
    let (mut reading, mut writing) = (pin!(reading), pin!(writing));
    {
        let mut work = pin!(async {
            work.await;
            out.send(Outbound::Close).await;
        });
        tokio::select! {
            ended = &mut reading => return ended,
            ended = &mut writing => return ended,
            () = &mut work => {}
        }
    }
    let rest = async {
        let (written, read) = tokio::join!(writing, reading);
        written.and(read)
    };
    tokio::time::timeout(LINGER, rest).await.unwrap_or(Ok(()))
}

/// The lanes of a process in a WebSocket, whose channels are there from the start.
fn channels(stdio: StandardStreams, out: &Outgoing) -> (ProcessLanes, HashMap<u8, Inlet>) {
    let mut inlets = HashMap::new();
    let mut lane = |channel: u8, wanted: bool| {
        let (lane, inlet) = Lane::new(channel.into(), out);
        wanted.then(|| {
            inlets.insert(channel, inlet);
            lane
        })
    };
    let lanes = ProcessLanes {
        stdin: lane(0, stdio.stdin),
        stdout: lane(1, stdio.stdout),
        stderr: lane(2, stdio.stderr),
        error: Lane::new(3, out).0,
        resize: lane(4, stdio.tty),
    };
    (lanes, inlets)
}

/// The lanes of a process in SPDY, once the client has opened all of them.
async fn gather(mut opened: mpsc::Receiver<spdy::Opened>, wanted: &[&str]) -> Option<ProcessLanes> {
    let mut found: HashMap<&str, Lane> = HashMap::new();
    let all = async {
        while found.len() < wanted.len() {
            let it = opened.recv().await?;
            let kind = it.header("streamtype").unwrap_or_default();
            match wanted.iter().find(|name| **name == kind && !found.contains_key(**name)) {
                Some(name) => drop(found.insert(name, it.lane)),
                None => it.lane.out.refuse().await,
            }
        }
        Some(())
    };
    tokio::time::timeout(CREATION_DEADLINE, all).await.ok().flatten()?;
    Some(ProcessLanes {
        error: found.remove("error")?,
        stdin: found.remove("stdin"),
        stdout: found.remove("stdout"),
        stderr: found.remove("stderr"),
        resize: found.remove("resize"),
    })
}
