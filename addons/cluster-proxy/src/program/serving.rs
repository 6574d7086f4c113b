//! An HTTPS server with pages for probes, which drains when it is told to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use ocm_addon_sdk::program::{self, Pages};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::user_server::{self, Answering, Serving};

/// The pages for probes; no flag changes the port.
const HEALTH: &str = ":8000";

/// Serves on `address` until `stop`. Then `/readyz` says so, new requests are taken for `first` more, and open ones
/// may go on until `all` is over.
pub async fn serve<A: Answering>(
    address: &str,
    tls: Serving,
    answering: Arc<A>,
    (all, first): (Duration, Duration),
    stop: CancellationToken,
) -> Result<()> {
    let read = |text: &str| program::address(text).map_err(anyhow::Error::msg);
    let ends = CancellationToken::new();
    let draining = Arc::new(AtomicBool::new(false));
    let of_page = draining.clone();
    let pages = Pages::new().healthy(|| Ok(())).ready(move || {
        let is_draining = of_page.load(Ordering::Relaxed);
        if is_draining {
            Err("draining".to_owned())
        } else {
            Ok(())
        }
    });
    pages.serve(read(HEALTH)?, &ends).await?;
    let address = read(address)?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen on {address}"))?;
    info!(%address, "serves");
    let (closing, drained) = (CancellationToken::new(), CancellationToken::new());
    let (of_closing, of_drained) = (closing.clone(), drained.clone());
    let ending = async move {
        stop.cancelled().await;
        draining.store(true, Ordering::Relaxed);
        tokio::time::sleep(first).await;
        of_closing.cancel();
        tokio::time::sleep(all - first).await;
        warn!("HTTP request drain timeout {all:?} expired; exiting with active requests");
        of_drained.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = user_server::serve(listener, tls, closing, drained, answering) => {}
        () = ending => {}
    }
    ends.cancel();
    Ok(())
}
