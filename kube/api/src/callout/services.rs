//! Connections to where a Service's pods are. There is no cluster network and no DNS here: `<service>.<namespace>.svc`
//! is looked up in the objects themselves. EndpointSlices go first, then Endpoints, and last the addresses of the pods
//! that the Service selects, because nothing in this process writes slices.

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use kube_store::{Store, selector::LabelSelector};
use serde_json::{Value, json};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
};
use tokio::net::TcpStream;

const SLICES: &str = "endpointslices.discovery.k8s.io";

/// Connects to hosts, and to Services by name.
#[derive(Clone)]
pub struct Dial {
    store: Arc<Store>,
}

impl Dial {
    pub fn new(store: Arc<Store>) -> Self {
        Self { store }
    }
}

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let store = self.store.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let port = uri.port_u16().unwrap_or(443);
            let addresses = match service_of(host) {
                Some((name, namespace)) => match resolve(&store, namespace, name, port)? {
                    Found::Addresses(it) => it,
                    Found::Host(host) => tokio::net::lookup_host((host.as_str(), port)).await?.collect(),
                },
                None => tokio::net::lookup_host((host, port)).await?.collect(),
            };
            let mut last = io::Error::other(format!("no such host {host}"));
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(TokioIo::new(stream));
                    }
                    Err(error) => last = refused(address, &error),
                }
            }
            Err(last)
        })
    }
}

/// As Go says it.
fn refused(address: SocketAddr, error: &io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    };
    io::Error::other(format!("dial tcp {address}: {why}"))
}

/// Name and namespace of `<name>.<namespace>.svc`.
fn service_of(host: &str) -> Option<(&str, &str)> {
    host.strip_suffix(".svc")?
        .split_once('.')
        .filter(|(_, it)| !it.contains('.'))
}

enum Found {
    Addresses(Vec<SocketAddr>),
    /// The other name of an `ExternalName` Service.
    Host(String),
}

fn resolve(store: &Store, namespace: &str, name: &str, port: u16) -> io::Result<Found> {
    let Some(service) = store.get("services", namespace, name) else {
        return Err(io::Error::other(format!("service {name:?} not found")));
    };
    let service = service.value();
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok(Found::Host(
            spec["externalName"].as_str().unwrap_or_default().to_owned(),
        ));
    }
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(wanted) = ports.iter().find(|it| it["port"] == port) else {
        return Err(io::Error::other(format!(
            "no service port {port} found for service {name:?}"
        )));
    };
    let mut found = of_slices(store, namespace, name, wanted);
    if found.is_empty() {
        found = of_endpoints(store, namespace, name, wanted);
    }
    if found.is_empty() {
        found = of_pods(store, namespace, &spec["selector"], wanted);
    }
    if found.is_empty() {
        return Err(io::Error::other(format!("no endpoints available for service {name:?}")));
    }
    Ok(Found::Addresses(found))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The number of the port that a Service's port goes to: the one of its name, or the only one.
fn number(ports: &Value, wanted: &Value) -> Option<u16> {
    let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
    let found = items(ports).find(|it| name(it) == name(wanted))?;
    u16::try_from(found["port"].as_u64()?).ok()
}

fn address(ip: &Value, port: u16) -> Option<SocketAddr> {
    Some(SocketAddr::new(ip.as_str()?.parse::<IpAddr>().ok()?, port))
}

fn of_slices(store: &Store, namespace: &str, name: &str, wanted: &Value) -> Vec<SocketAddr> {
    let (slices, _) = store.list(SLICES, namespace);
    let own = slices
        .iter()
        .filter(|it| it.label("kubernetes.io/service-name") == Some(name));
    let mut found = Vec::new();
    for slice in own {
        let slice = slice.value();
        // Its addresses are names, which are not checked as addresses are.
        if slice["addressType"] == "FQDN" {
            continue;
        }
        let Some(port) = number(&slice["ports"], wanted) else {
            continue;
        };
        let ready = items(&slice["endpoints"]).filter(|it| it["conditions"]["ready"] != false);
        found.extend(
            ready
                .flat_map(|it| items(&it["addresses"]))
                .filter_map(|it| address(it, port)),
        );
    }
    found
}

fn of_endpoints(store: &Store, namespace: &str, name: &str, wanted: &Value) -> Vec<SocketAddr> {
    let Some(endpoints) = store.get("endpoints", namespace, name) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for subset in items(&endpoints.value()["subsets"]) {
        let Some(port) = number(&subset["ports"], wanted) else {
            continue;
        };
        found.extend(items(&subset["addresses"]).filter_map(|it| address(&it["ip"], port)));
    }
    found
}

fn of_pods(store: &Store, namespace: &str, selector: &Value, wanted: &Value) -> Vec<SocketAddr> {
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        return Vec::new();
    }
    let Ok(selector) = LabelSelector::from_json(&json!({"matchLabels": selector})) else {
        return Vec::new();
    };
    let (pods, _) = store.list("pods", namespace);
    let chosen = pods.iter().filter(|it| !it.terminating && selector.matches(&***it));
    chosen
        .filter_map(|pod| {
            let pod = pod.value();
            let is_ready =
                items(&pod["status"]["conditions"]).any(|it| it["type"] == "Ready" && it["status"] == "True");
            let port = match &wanted["targetPort"] {
                Value::String(name) => items(&pod["spec"]["containers"])
                    .flat_map(|it| items(&it["ports"]))
                    .find(|it| it["name"] == name.as_str())
                    .and_then(|it| it["containerPort"].as_u64()),
                Value::Number(number) => number.as_u64(),
                _ => wanted["port"].as_u64(),
            };
            let port = u16::try_from(port?).ok()?;
            is_ready.then(|| address(&pod["status"]["podIP"], port)).flatten()
        })
        .collect()
}
