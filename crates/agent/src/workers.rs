//! The one list of what an agent does for the hub while it has a session with it.

use kube::Client;
use registration::agent::HubSession;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use work::agent::{WorkAgentOptions, hub_hash};

/// Starts the workers with each session, and stops them with it.
pub async fn follow(mut sessions: watch::Receiver<Option<HubSession>>, cluster: Client, cancel: CancellationToken) {
    loop {
        let session = sessions.borrow_and_update().clone();
        if let Some(session) = session {
            let stop = cancel.child_token();
            let work = work(&session, &cluster, stop.clone());
            tokio::pin!(work);
            tokio::select! {
                () = &mut work => {}
                () = session.ended.cancelled() => {
                    stop.cancel();
                    // What is under way is finished, not torn: half an apply would be repaired only by the next session.
                    work.await;
                }
            }
            if cancel.is_cancelled() {
                return;
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = sessions.changed() => if changed.is_err() { return },
        }
    }
}

async fn work(session: &HubSession, cluster: &Client, stop: CancellationToken) {
    let hash = hub_hash(&session.server);
    let options = WorkAgentOptions::new(session.client.clone(), cluster.clone(), &session.cluster, &hash);
    work::agent::run(options, stop).await;
}
