//! Services on this node: the names that a cluster's DNS would give them, in the hosts file of every container.
//!
//! A name leads to the pods that are ready. Where a port of the Service is another than that of its pods, it leads to
//! an address of the loopback network that is the Service's own, on which its ports are passed on. It would be so for
//! all, if a program that listens on every address could do so beside one that listens on the same port of a single
//! one.

use crate::{
    node::ApiServer,
    pod::address::{CLAIM_PORT, first_free},
};
use k8s_openapi::{
    api::core::v1::{Pod, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{Api, Client, ResourceExt};
use kube_primitives::cache::{Cache, key_of, split_key};
use parking_lot::Mutex;
use rand::seq::IndexedRandom;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The domain of a cluster.
const DOMAIN: &str = "svc.cluster.local";
/// Of the Service that leads to the API server.
const API_SERVER: &str = "default/kubernetes";
/// The names that the host itself knows.
const HOSTS: &str = "/etc/hosts";
/// A pod that does not answer by then is not there.
const DIALLED_WITHIN: Duration = Duration::from_secs(5);

/// The Services of the cluster. Cloning shares them.
#[derive(Clone)]
pub struct Services {
    inner: Arc<Inner>,
}

struct Inner {
    services: Cache<Service>,
    pods: Cache<Pod>,
    api_server: Option<ApiServer>,
    state: Mutex<State>,
    /// The first pod has come, or the last has gone.
    pods_came: Notify,
}

#[derive(Default)]
struct State {
    open: HashMap<String, OpenService>,
    /// With what they say.
    files: HashMap<PathBuf, (HostsFile, String)>,
}

/// A Service that has its address.
struct OpenService {
    uid: String,
    ports: Vec<ServicePort>,
    ip: Ipv4Addr,
    _claim: UdpSocket,
    _stop: DropGuard,
}

/// The hosts file of a pod.
#[derive(Clone, Debug)]
pub struct HostsFile {
    /// The pod's namespace, whose Services have short names.
    pub namespace: String,
    /// The pod's own lines.
    pub own: String,
}

impl Services {
    /// Follows the Services until `cancel`.
    pub fn start(client: Client, pods: Cache<Pod>, api_server: Option<ApiServer>, cancel: CancellationToken) -> Self {
        let services = Cache::start(Api::<Service>::all(client), cancel.clone());
        let inner = Inner {
            services: services.clone(),
            pods,
            api_server,
            state: Mutex::default(),
            pods_came: Notify::new(),
        };
        let all = Self { inner: Arc::new(inner) };
        let (mut changes, mut of_pods) = (services.changes(), all.inner.pods.changes());
        let follows = all.clone();
        tokio::spawn(async move {
            loop {
                changes.mark_unchanged();
                of_pods.mark_unchanged();
                follows.settle(&cancel).await;
                tokio::select! {
                    () = cancel.cancelled() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                    changed = of_pods.changed() => if changed.is_err() { return },
                    () = follows.inner.pods_came.notified() => {}
                }
            }
        });
        all
    }

    /// Keeps a hosts file from now on.
    pub fn keep(&self, path: &Path, file: HostsFile) -> std::io::Result<()> {
        let mut state = self.inner.state.lock();
        let text = self.text(&state, &file);
        std::fs::write(path, &text)?;
        state.files.insert(path.to_owned(), (file, text));
        self.inner.pods_came.notify_one();
        Ok(())
    }

    /// Keeps it no longer.
    pub fn forget(&self, path: &Path) {
        self.inner.state.lock().files.remove(path);
        self.inner.pods_came.notify_one();
    }

    /// Opens what is new, closes what is gone, and writes the names.
    async fn settle(&self, cancel: &CancellationToken) {
        let all = self.inner.services.list().into_iter().map(|it| (key_of(&*it), it));
        let wanted: BTreeMap<String, Arc<Service>> = all.filter(|(key, it)| self.has_address(key, it)).collect();
        let mut missing = Vec::new();
        {
            let mut state = self.inner.state.lock();
            // Nobody asks: a port that is listened on is taken from other programs of the machine.
            if state.files.is_empty() {
                state.open.clear();
                return;
            }
            state.open.retain(|key, open| {
                let now = wanted.get(key);
                now.is_some_and(|it| it.metadata.uid.as_ref() == Some(&open.uid) && ports(it) == open.ports)
            });
            missing.extend(wanted.iter().filter(|(key, _)| !state.open.contains_key(*key)));
        }
        for (key, service) in missing {
            let uid = service.metadata.uid.clone().unwrap_or_default();
            let Some((ip, claim)) = first_free(&uid, |ip| UdpSocket::bind((ip, CLAIM_PORT))) else {
                continue;
            };
            let stop = cancel.child_token();
            for port in ports(service) {
                self.listen(key, SocketAddr::from((ip, port_number(port.port))), port, &stop)
                    .await;
            }
            let open = OpenService {
                uid,
                ports: ports(service),
                ip,
                _claim: claim,
                _stop: stop.drop_guard(),
            };
            self.inner.state.lock().open.insert(key.clone(), open);
        }
        let mut state = self.inner.state.lock();
        let now: Vec<_> = state
            .files
            .iter()
            .map(|(path, (file, before))| (path.clone(), self.text(&state, file), before))
            .filter(|(_, text, before)| text != *before)
            .map(|(path, text, _)| (path, text))
            .collect();
        for (path, text) in now {
            // In place: the file is mounted.
            let _ = std::fs::write(&path, &text);
            if let Some((_, before)) = state.files.get_mut(&path) {
                *before = text;
            }
        }
    }

    async fn listen(&self, key: &str, address: SocketAddr, port: ServicePort, stop: &CancellationToken) {
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::debug!(service = key, %address, %error, "a port of a Service is not served on this node");
                return;
            }
        };
        let (all, key, stop) = (self.clone(), key.to_owned(), stop.clone());
        tokio::spawn(async move {
            while let Some(accepted) = tokio::select! {
                it = listener.accept() => Some(it),
                () = stop.cancelled() => None,
            } {
                let Ok((mut stream, _)) = accepted else {
                    // Mostly there are too many open files, which takes a while to change.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let Some(target) = all.target(&key, &port) else {
                    continue;
                };
                tokio::spawn(async move {
                    let connecting = tokio::time::timeout(DIALLED_WITHIN, TcpStream::connect(target));
                    if let Ok(Ok(mut pod)) = connecting.await {
                        let _ = (stream.set_nodelay(true), pod.set_nodelay(true));
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut pod).await;
                    }
                });
            }
        });
    }

    /// Where a connection to a port of a Service goes: any of its pods that is ready.
    fn target(&self, key: &str, port: &ServicePort) -> Option<SocketAddr> {
        if key == API_SERVER {
            let server = self.inner.api_server.as_ref()?;
            return Some(SocketAddr::new(server.host.parse().ok()?, server.port));
        }
        self.targets(key, port).choose(&mut rand::rng()).copied()
    }

    /// Where the pods of a Service that are ready serve a port.
    fn targets(&self, key: &str, port: &ServicePort) -> Vec<SocketAddr> {
        let (namespace, name) = split_key(key);
        let service = self.inner.services.get(namespace, name);
        let selector = service.as_ref().and_then(|it| it.spec.as_ref()?.selector.as_ref());
        let Some(selector) = selector.filter(|it| !it.is_empty()) else {
            return Vec::new();
        };
        let pods = self.inner.pods.list_in(namespace);
        let is_its = |it: &&Arc<Pod>| selector.iter().all(|(key, value)| it.labels().get(key) == Some(value));
        let mut targets: Vec<_> = pods
            .iter()
            .filter(is_its)
            .filter_map(|it| target_of(it, port))
            .collect();
        targets.sort();
        targets
    }

    /// Whether a Service has an address of its own.
    fn has_address(&self, key: &str, service: &Service) -> bool {
        let differs = |it: &ServicePort| match &it.target_port {
            None => false,
            Some(IntOrString::Int(number)) => *number != it.port,
            // What a name means is said by the pods.
            Some(IntOrString::String(_)) => {
                let mut targets = self.targets(key, it).into_iter();
                targets.any(|target| target.port() != port_number(it.port))
            }
        };
        key == API_SERVER || ports(service).iter().any(differs)
    }

    /// Where its name leads.
    fn addresses(&self, state: &State, key: &str) -> Vec<String> {
        if let Some(open) = state.open.get(key) {
            return vec![open.ip.to_string()];
        }
        let (namespace, name) = split_key(key);
        let ports = self.inner.services.get(namespace, name).map(|it| ports(&it));
        let Some(first) = ports.as_ref().and_then(|it| it.first()) else {
            return Vec::new();
        };
        self.targets(key, first)
            .into_iter()
            .map(|it| it.ip().to_string())
            .collect()
    }

    /// What a hosts file says.
    fn text(&self, state: &State, file: &HostsFile) -> String {
        let mut text = std::fs::read_to_string(HOSTS).unwrap_or_else(|_| "127.0.0.1 localhost\n".to_owned());
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&file.own);
        let mut lines = BTreeMap::new();
        for service in self.inner.services.list() {
            let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
            let alias = service.spec.as_ref().and_then(|it| it.external_name.as_deref());
            let of = alias.and_then(of_alias).unwrap_or_else(|| key_of(&*service));
            let mut names = format!("{name}.{namespace}.{DOMAIN} {name}.{namespace}.svc {name}.{namespace}");
            if namespace == file.namespace {
                let _ = write!(names, " {name}");
            }
            let addresses = self.addresses(state, &of).into_iter();
            let of_it: String = addresses.map(|it| format!("{it} {names}\n")).collect();
            lines.insert((namespace, name), of_it);
        }
        text.extend(lines.into_values());
        text
    }
}

/// The Service that an external name is of, if that is one of this cluster.
fn of_alias(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.');
    let inside = name
        .strip_suffix(&format!(".{DOMAIN}"))
        .or_else(|| name.strip_suffix(".svc"))?;
    let (name, namespace) = inside.split_once('.')?;
    Some(format!("{namespace}/{name}"))
}

/// The ports of TCP.
fn ports(service: &Service) -> Vec<ServicePort> {
    let spec = service.spec.as_ref();
    if spec.and_then(|it| it.type_.as_deref()) == Some("ExternalName") {
        return Vec::new();
    }
    let all = spec.and_then(|it| it.ports.clone()).unwrap_or_default();
    all.into_iter()
        .filter(|it| it.protocol.as_deref().is_none_or(|it| it == "TCP"))
        .collect()
}

fn port_number(port: i32) -> u16 {
    u16::try_from(port).unwrap_or_default()
}

/// Where a pod serves a port, if it is ready.
fn target_of(pod: &Pod, port: &ServicePort) -> Option<SocketAddr> {
    let status = pod.status.as_ref()?;
    let is_ready = status
        .conditions
        .iter()
        .flatten()
        .any(|it| it.type_ == "Ready" && it.status == "True");
    if !is_ready || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let number = match &port.target_port {
        None => port_number(port.port),
        Some(wanted) => target_port(pod, wanted)?,
    };
    Some(SocketAddr::new(status.pod_ip.as_deref()?.parse().ok()?, number))
}

fn target_port(pod: &Pod, wanted: &IntOrString) -> Option<u16> {
    match wanted {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let containers = &pod.spec.as_ref()?.containers;
            let mut ports = containers.iter().flat_map(|it| it.ports.iter().flatten());
            let port = ports.find(|it| it.name.as_ref() == Some(name))?;
            u16::try_from(port.container_port).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_external_name_may_be_a_service_of_the_cluster() {
        assert_eq!(of_alias("kubernetes.default.svc.cluster.local").unwrap(), API_SERVER);
        assert_eq!(of_alias("web.a.svc").unwrap(), "a/web");
        assert_eq!(of_alias("example.com"), None);
    }

    #[test]
    fn a_service_with_ports_of_its_own_has_an_address() {
        let pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "a", "labels": {"app": "b"}},
            "spec": {"containers": [{"name": "c", "ports": [{"name": "https", "containerPort": 8443}]}]},
            "status": {"podIP": "127.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let has = |port: i32, target: serde_json::Value| {
            let spec = serde_json::json!({
                "selector": {"app": "b"}, "ports": [{"port": 80}, {"port": port, "targetPort": target}],
            });
            let service = serde_json::json!({"metadata": {"name": "b", "namespace": "a"}, "spec": spec});
            let service: Service = serde_json::from_value(service).unwrap();
            let inner = Inner {
                services: Cache::holding([service.clone()]),
                pods: Cache::holding([pod.as_ref().cloned().unwrap()]),
                api_server: None,
                state: Mutex::default(),
                pods_came: Notify::new(),
            };
            Services { inner: Arc::new(inner) }.has_address("a/b", &service)
        };
        let _: &Result<Pod, serde_json::Error> = &pod;
        assert!(!has(443, 443.into()) && !has(8443, "https".into()));
        assert!(has(443, 8443.into()) && has(443, "https".into()));
    }

    #[test]
    fn only_ready_pods_are_reached_at_their_own_port() {
        let pod = |ready: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]},
                "status": {"podIP": "127.1.2.3", "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap()
        };
        let port = |target: serde_json::Value| -> ServicePort {
            serde_json::from_value(serde_json::json!({"port": 80, "targetPort": target})).unwrap()
        };
        let of = |pod: &Pod, target| target_of(pod, &port(target)).map(|it| it.to_string());
        assert_eq!(of(&pod("True"), "web".into()).as_deref(), Some("127.1.2.3:8080"));
        assert_eq!(of(&pod("True"), 9.into()).as_deref(), Some("127.1.2.3:9"));
        assert_eq!(of(&pod("False"), 9.into()), None);
        assert_eq!(of(&pod("True"), "none".into()), None);
    }
}
