//! Proxy server and user-server in the process of a hub, whose certificates are the Secrets that the hub keeps.

use std::{io, sync::Arc};

use futures::StreamExt;
use konnectivity::{
    TunnelServer, peer,
    server::{Limits, Port},
};
use ocm_addon_sdk::{k8s_openapi::api::core::v1::Secret, kube::Client};
use parking_lot::RwLock;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    allow_list::AllowList,
    follow_allow_list, followed,
    forward::{AnyIo, roots},
    hub::{NAMESPACE, USER_SERVER_SECRET, identities},
    tls_profile::ServingProfile,
    trust,
    user_server::{Tunnel, UserServer},
};

/// Which Services may be reached.
pub const EXPOSED_SERVICES: &str = "cluster-proxy-exposed-services";

/// Where they listen.
pub struct Listeners {
    /// For agents.
    pub agents: TcpListener,
    /// For users.
    pub users: TcpListener,
}

/// Serves until `stop`, as soon as the certificates are there.
pub async fn serve(hub: Client, listeners: Listeners, stop: CancellationToken) {
    let tunnel = TunnelServer::new("hub", 1, Limits::default());
    let profile = ServingProfile::default();
    let of_agents = profile.clone();
    let agents = kept(&hub, "agent-server", &stop, move |it| {
        trust::server(pair(it)?, Some(value(it, "ca.crt")), &of_agents, true)
    });
    let users = kept(&hub, USER_SERVER_SECRET, &stop, move |it| {
        trust::server(pair(it)?, None, &profile, false)
    });
    let trusted = kept(&hub, USER_SERVER_SECRET, &stop, |it| {
        let config: Arc<ClientConfig> = trust::client(roots(value(it, "ca.crt"))?);
        Ok(Arc::unwrap_or_clone(config))
    });
    let (Some(agents), Some(users), Some(trusted)) = tokio::join!(agents, users, trusted) else {
        return;
    };
    let agents: Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync> = agents;
    let of_tunnel = tunnel.clone();
    let dial: Tunnel = Arc::new(move |address| {
        let tunnel = of_tunnel.clone();
        Box::pin(async move { Ok(Box::new(tunnel.dial(&address).await?) as Box<dyn AnyIo>) })
    });
    let allowed: Arc<RwLock<AllowList>> = Arc::default();
    follow_allow_list(hub, NAMESPACE, EXPOSED_SERVICES, &allowed, &stop).await;
    let server = UserServer::new(dial, trusted, allowed);
    tokio::join!(
        tunnel.serve(
            Port::Agents,
            listeners.agents,
            agents,
            peer::only(identities::PROXY_AGENT),
            stop.clone(),
        ),
        server.serve(listeners.users, users, stop.clone(), stop),
    );
}

/// What the present Secret makes, from when there is one that makes something; `None` when `stop` comes first.
async fn kept<T: Send + Sync + 'static>(
    hub: &Client,
    name: &'static str,
    stop: &CancellationToken,
    make: impl Fn(&Secret) -> io::Result<T> + Send + 'static,
) -> Option<Arc<dyn Fn() -> Arc<T> + Send + Sync>> {
    let mut states = followed::of::<Secret>(hub.clone(), NAMESPACE, name);
    let made = move |secret: Option<Secret>| {
        let made = make(&secret?);
        made.inspect_err(|error| warn!("Secret {NAMESPACE}/{name} cannot be used: {error}"))
            .ok()
    };
    let first = loop {
        let state = tokio::select! {
            it = states.next() => it?,
            () = stop.cancelled() => return None,
        };
        if let Some(made) = made(state) {
            break made;
        }
    };
    let current = Arc::new(RwLock::new(Arc::new(first)));
    let (writes, stop) = (current.clone(), stop.clone());
    tokio::spawn(async move {
        while let Some(state) = tokio::select! { it = states.next() => it, () = stop.cancelled() => None } {
            if let Some(now) = made(state) {
                *writes.write() = Arc::new(now);
            }
        }
    });
    Some(Arc::new(move || current.read().clone()))
}

fn value<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    let data = secret.data.as_ref().and_then(|it| it.get(key));
    data.map(|it| it.0.as_slice()).unwrap_or_default()
}

fn pair(secret: &Secret) -> io::Result<trust::Pair> {
    trust::pair(value(secret, "tls.crt"), value(secret, "tls.key"))
}
