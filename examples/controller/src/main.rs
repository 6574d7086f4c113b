//! Runs the controller on the hub of `$KUBECONFIG`: `drover up`, and in another terminal
//! `KUBECONFIG=.drover/hub.kubeconfig cargo run -p example-controller`.

use anyhow::Context;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let hub = kube::Client::try_default()
        .await
        .context("could not connect to the hub of $KUBECONFIG")?;
    let cancel = CancellationToken::new();
    let running = example_controller::start(hub, &cancel);
    tokio::signal::ctrl_c().await?;
    cancel.cancel();
    running.finished.await.context("the controller ended badly")
}
