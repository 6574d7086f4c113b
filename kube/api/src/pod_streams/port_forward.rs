//! Connections to the ports of a pod, each with a lane for its bytes and one for what goes wrong.

use super::{
    PodPorts,
    lanes::{Lane, LaneOut},
    spdy::Opened,
};
use bytes::BytesMut;
use std::{collections::HashMap, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};

/// Large, because it is what one call of the system moves.
const BUFFER_BYTES: usize = 64 << 10;
/// How many connections one client may have in one upgraded connection.
pub const CONNECTIONS_MAX: usize = 512;
/// How long the lanes that belong together may take to come (the stream creation timeout of a kubelet).
pub const CREATION_DEADLINE: Duration = Duration::from_secs(30);

/// Who is spoken with.
#[derive(Clone)]
pub struct ForwardedPod {
    pub name: String,
    pub ports: PodPorts,
}

/// How a lane says that nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClose {
    /// In both directions, each for itself.
    Said,
    /// Not at all: the connection is over with the pod's last word.
    Unsaid,
}

/// Connects one port until both sides are done.
async fn forward(pod: ForwardedPod, port: u16, data: Lane, error: LaneOut, half_close: HalfClose) {
    let Lane { mut incoming, out } = data;
    match (pod.ports)(port).await {
        Err(reason) => {
            let text = format!("error forwarding port {port} to pod {}: {reason}", pod.name);
            error.send(text.into()).await;
            out.end().await;
        }
        Ok(mut stream) => {
            let _ = stream.set_nodelay(true);
            let (mut from, mut to) = stream.split();
            let sent = async {
                while let Some(piece) = incoming.recv().await {
                    if to.write_all(&piece).await.is_err() {
                        return;
                    }
                }
                let _ = to.shutdown().await;
            };
            let received = async {
                let mut buffer = BytesMut::new();
                loop {
                    buffer.reserve(BUFFER_BYTES);
                    let read = from.read_buf(&mut buffer).await;
                    if !matches!(read, Ok(1..)) || !out.send(buffer.split().freeze()).await {
                        break;
                    }
                }
                out.end().await;
            };
            match half_close {
                HalfClose::Said => drop(tokio::join!(sent, received)),
                HalfClose::Unsaid => tokio::select! {
                    biased;
                    () = received => {}
                    () = async { sent.await; std::future::pending().await } => {}
                },
            }
        }
    }
    error.end().await;
}

/// Connects ports that are known from the start, until all are done. Each lane begins with its port, as two bytes
/// (kubelet pkg/cri/streaming/portforward/websocket.go).
pub async fn run_fixed(pod: ForwardedPod, ports: Vec<(u16, Lane, Lane)>) {
    let mut running = JoinSet::new();
    for (port, data, error) in ports {
        for lane in [&data, &error] {
            lane.out.send(port.to_le_bytes().to_vec().into()).await;
        }
        running.spawn(forward(pod.clone(), port, data, error.out, HalfClose::Unsaid));
    }
    while running.join_next().await.is_some() {}
}

/// The first lane of a connection, which waits for the other.
struct Half {
    opened: Opened,
    since: Instant,
}

/// Connects what the client asks for, lane by lane, until it ends the connection.
pub async fn run_asked(pod: ForwardedPod, mut opened: mpsc::Receiver<Opened>) {
    let mut halves: HashMap<String, Half> = HashMap::new();
    let mut running = JoinSet::new();
    loop {
        let oldest = halves.values().map(|it| it.since).min();
        let late = async {
            match oldest {
                Some(since) => tokio::time::sleep_until(since + CREATION_DEADLINE).await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            next = opened.recv() => next,
            Some(_) = running.join_next() => continue,
            () = late => {
                let is_late = |it: &Half| it.since.elapsed() >= CREATION_DEADLINE;
                let late: Vec<_> = halves.extract_if(|_, it| is_late(it)).collect();
                for (_, half) in late {
                    half.opened.lane.out.refuse().await;
                }
                continue;
            }
        };
        let Some(opened) = next else { break };
        let Some((key, port, is_error)) = asked(&opened) else {
            opened.lane.out.refuse().await;
            continue;
        };
        let Some(other) = halves.remove(&key) else {
            if halves.len() + running.len() >= CONNECTIONS_MAX {
                opened.lane.out.refuse().await;
                continue;
            }
            let since = Instant::now();
            halves.insert(key, Half { opened, since });
            continue;
        };
        let other = other.opened;
        if other.header("streamtype") == opened.header("streamtype") || other.header("port") != opened.header("port") {
            opened.lane.out.refuse().await;
            other.lane.out.refuse().await;
            continue;
        }
        let (data, error) = if is_error { (other, opened) } else { (opened, other) };
        running.spawn(forward(pod.clone(), port, data.lane, error.lane.out, HalfClose::Said));
    }
    while running.join_next().await.is_some() {}
}

/// Which connection a lane belongs to, its port, and whether it is the one for errors. A client that does not number
/// its connections opens the error lane just before the other.
fn asked(opened: &Opened) -> Option<(String, u16, bool)> {
    let port = opened.header("port")?.parse().ok().filter(|it| *it > 0)?;
    let is_error = match opened.header("streamtype")? {
        "error" => true,
        "data" => false,
        _ => return None,
    };
    let id = opened.lane.out.id();
    let key = match opened.header("requestid").filter(|it| !it.is_empty()) {
        Some(it) => it.to_owned(),
        None if is_error => format!("stream {id}"),
        None => format!("stream {}", id.wrapping_sub(2)),
    };
    Some((key, port, is_error))
}
