//! TunnelServer, agents and clients between each other, with certificates as in a cluster.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use konnectivity::{
    Client, TunnelAgent, TunnelServer,
    agent::{self, Io, Opening},
    peer,
    server::{Limits, Port, TlsConfig},
};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

mod certificates;
use certificates::Authority;

struct World {
    authority: Authority,
    server: TunnelServer,
    front: u16,
    agents: u16,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn start() -> Self {
        Self::start_with(Authority::new(), "one", 1).await
    }

    async fn start_with(authority: Authority, id: &str, count: u32) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let server = TunnelServer::new(id, count, Limits::default());
        let stop = CancellationToken::new();
        let mut ports = Vec::new();
        for (port, admit) in [(Port::Front, peer::only("client")), (Port::Agents, peer::only("agent"))] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            ports.push(listener.local_addr().unwrap().port());
            let config = authority.server();
            let tls: TlsConfig = Arc::new(move || config.clone());
            let (server, stop) = (server.clone(), stop.clone());
            tokio::spawn(async move { server.serve(port, listener, tls, admit, stop).await });
        }
        Self {
            authority,
            server,
            front: ports[0],
            agents: ports[1],
            stop,
        }
    }

    fn agent(&self, hosts: &str) -> (TunnelAgent, CancellationToken) {
        let (port, config) = (self.agents, self.authority.client("agent"));
        let agent = TunnelAgent::new(agent::Options {
            id: "a".to_owned(),
            identifiers: hosts.to_owned(),
            server: Arc::new(move || connect(port, config.clone())),
            target: Arc::new(|address: String| {
                // The names of a cluster are addresses of this machine here.
                let port = address.rsplit_once(':').unwrap().1.to_owned();
                agent::tcp(format!("127.0.0.1:{port}"))
            }),
            connections: 10_000,
        });
        let stop = self.stop.child_token();
        let (running, of_run) = (agent.clone(), stop.clone());
        tokio::spawn(async move { running.run(of_run, Duration::from_secs(1)).await });
        (agent, stop)
    }

    async fn client(&self) -> Client {
        let io = connect(self.front, self.authority.client("client")).await.unwrap();
        Client::connect(io).await.unwrap()
    }

    async fn agents(&self, count: usize) {
        until(|| self.server.agents() == count).await;
    }
}

fn connect(port: u16, config: Arc<ClientConfig>) -> Opening {
    Box::pin(async move {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Ok(Box::new(stream) as Box<dyn Io>)
    })
}

async fn until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it did not come about");
        tokio::task::yield_now().await;
    }
}

/// Sends back what comes.
async fn echo() -> u16 {
    serve(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await
}

async fn serve<F>(each: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(each(stream));
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_both_ways() {
    let world = World::start().await;
    let port = echo().await;
    let _agent = world.agent("host=c1&host=c1.ns");
    world.agents(1).await;
    let client = world.client().await;
    for address in [format!("c1:{port}"), format!("c1.ns:{port}")] {
        let mut stream = client.dial(&address).await.unwrap();
        let sent: Vec<u8> = (0..1_000_000u32).map(|it| it as u8).collect();
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let writing = async { write.write_all(&sent).await.unwrap() };
        let mut got = vec![0; sent.len()];
        let reading = async { read.read_exact(&mut got).await.unwrap() };
        tokio::join!(writing, reading);
        assert!(got == sent);
    }
    // In the process of the server, too.
    let mut stream = world.server.dial(&format!("c1:{port}")).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut got = [0; 5];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
    drop(stream);
    until(|| world.server.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reached_is_told() {
    let world = World::start().await;
    let client = world.client().await;
    let error = client.dial("c1:1").await.err().unwrap();
    assert_eq!(error.to_string(), "No agent available");
    let _agent = world.agent("host=c1");
    world.agents(1).await;
    let error = client.dial("c1:1").await.err().unwrap();
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!(
        client.dial("c2:1").await.err().unwrap().to_string(),
        "No agent available"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_either_side_ends_the_other() {
    let world = World::start().await;
    let (agent, _stop) = world.agent("host=c1");
    world.agents(1).await;
    let client = world.client().await;
    // The destination ends it after what it had to say.
    let port = serve(|mut stream| async move { stream.write_all(b"bye").await.unwrap() }).await;
    let mut text = String::new();
    let mut stream = client.dial(&format!("c1:{port}")).await.unwrap();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "bye");
    // The client ends it.
    let port = echo().await;
    let stream = client.dial(&format!("c1:{port}")).await.unwrap();
    assert_eq!(agent.connections(), 1);
    drop(stream);
    until(|| agent.connections() == 0 && world.server.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_consumer_stalls_nobody_else() {
    let world = World::start().await;
    let _agent = world.agent("host=c1");
    world.agents(1).await;
    let client = world.client().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let endless = serve(move |mut stream| {
        let sent = counted.clone();
        async move {
            let data = vec![7; 64 << 10];
            while stream.write_all(&data).await.is_ok() {
                sent.fetch_add(data.len(), Ordering::Relaxed);
            }
        }
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(client.dial(&format!("c1:{endless}")).await.unwrap());
    }
    // More than the windows of all of them take.
    until(|| sent.load(Ordering::Relaxed) > 16 << 20).await;
    let port = echo().await;
    let mut quick = client.dial(&format!("c1:{port}")).await.unwrap();
    let mut got = [0; 5];
    let exchange = async {
        quick.write_all(b"hello").await.unwrap();
        quick.read_exact(&mut got).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(10), exchange).await.unwrap();
    assert_eq!(&got, b"hello");
    // And who reads late finds everything.
    let mut piece = vec![0; 20 << 20];
    let late = slow[0].read_exact(&mut piece);
    tokio::time::timeout(Duration::from_secs(20), late)
        .await
        .unwrap()
        .unwrap();
    assert!(piece.iter().all(|it| *it == 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_port_lets_in_its_own_identity_only() {
    let world = World::start().await;
    let _agent = world.agent("host=c1");
    world.agents(1).await;
    // A cluster's agent opens no connection at the front, and a client is no agent.
    let io = connect(world.front, world.authority.client("agent")).await.unwrap();
    let refused = match Client::connect(io).await {
        Ok(client) => client.dial("c1:1").await.err(),
        Err(error) => Some(error),
    };
    let error = refused.unwrap().to_string();
    assert!(!error.contains("No agent") && !error.contains("refused by"), "{error}");
    let stranger = Authority::new().client("client");
    let refused: io::Result<()> = async {
        let client = Client::connect(connect(world.front, stranger).await?).await?;
        client.dial("c1:1").await.map(|_| ())
    }
    .await;
    assert!(refused.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_goes_fails_open_connections_at_once() {
    let world = World::start().await;
    let (_, stop) = world.agent("host=c1");
    world.agents(1).await;
    let _other = world.agent("host=c1");
    world.agents(2).await;
    let client = world.client().await;
    let port = echo().await;
    let mut reading = JoinSet::new();
    for _ in 0..200 {
        let mut stream = client.dial(&format!("c1:{port}")).await.unwrap();
        reading.spawn(async move { stream.read(&mut [0; 1]).await });
    }
    stop.cancel();
    let begun = Instant::now();
    while let Some(read) = reading.join_next().await {
        assert!(matches!(read.unwrap(), Err(_) | Ok(0)));
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    // New ones go on through the other.
    let mut stream = client.dial(&format!("c1:{port}")).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0; 1]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_come_and_go_and_nothing_stays() {
    let world = World::start().await;
    let (agent, _stop) = world.agent("host=c1");
    world.agents(1).await;
    let client = world.client().await;
    let port = echo().await;
    let mut all = JoinSet::new();
    for index in 0..2_000u32 {
        let (client, address) = (client.clone(), format!("c1:{port}"));
        all.spawn(async move {
            let mut stream = client.dial(&address).await.unwrap();
            stream.write_all(&index.to_be_bytes()).await.unwrap();
            let mut got = [0; 4];
            stream.read_exact(&mut got).await.unwrap();
            assert_eq!(u32::from_be_bytes(got), index);
        });
        if all.len() >= 64 {
            all.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    until(|| agent.connections() == 0 && world.server.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throughput_of_one_stream() {
    let world = World::start().await;
    let _agent = world.agent("host=c1");
    world.agents(1).await;
    let client = world.client().await;
    let port = serve(|mut stream| async move {
        let data = vec![1; 256 << 10];
        for _ in 0..400 {
            if stream.write_all(&data).await.is_err() {
                return;
            }
        }
    })
    .await;
    let mut stream = client.dial(&format!("c1:{port}")).await.unwrap();
    let begun = Instant::now();
    let (mut total, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            length => total += length,
        }
    }
    assert_eq!(total, 400 * (256 << 10));
    println!("{:.0} MB/s", total as f64 / 1e6 / begun.elapsed().as_secs_f64());
}
