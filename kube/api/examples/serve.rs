//! A Kubernetes API on loopback: `cargo run --example serve -- DIR [PORT]`, then `kubectl --kubeconfig DIR/kubeconfig`.

use kube_api::{Options, Server, identity::MASTERS};
use std::{net::SocketAddr, path::PathBuf};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: serve DIR [PORT]")?);
    let port: u16 = arguments.next().map_or(Ok(0), |it| it.parse())?;
    let started = std::time::Instant::now();
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    let address = listener.local_addr()?;
    let options = Options {
        data_dir: Some(dir.clone()),
        address: Some(address),
        ..Options::default()
    };
    let server = Server::open(options).await?;
    let listening = server.listen(listener)?;
    let pair = server
        .pki()
        .issue_client_certificate("admin", &[MASTERS], 365 * 86400, jiff::Timestamp::now())?;
    let kubeconfig = server
        .pki()
        .kubeconfig(&format!("https://{address}"), "embedded", "admin", &pair);
    std::fs::write(dir.join("kubeconfig"), kubeconfig)?;
    println!(
        "https://{address} ready after {:?}; kubeconfig: {}",
        started.elapsed(),
        dir.join("kubeconfig").display()
    );
    tokio::signal::ctrl_c().await?;
    server.stop(Some(listening)).await;
    Ok(())
}
