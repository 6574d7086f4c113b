//! A node with real processes on an embedded API.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, Client};
use kube_node::{ApiServer, Command, ImageMap, LogOptions, Node, Options, Then};
use std::{path::PathBuf, time::Duration};
use testkit::{Site, wait};
use tokio_util::sync::CancellationToken;

pub struct World {
    pub site: Site,
    pub node: Node,
    pub dir: tempfile::TempDir,
    pub cancel: CancellationToken,
}

/// The image `sh` runs whatever the container says, and `own` prints what it is given if that is
/// for the program `hello`; `confined` goes on after that.
pub async fn node(site: &Site, dir: PathBuf, cancel: CancellationToken) -> Node {
    let mut images = ImageMap::default();
    images.add("sh=*").unwrap();
    let own = Command {
        words: ["/bin/sh", "-c", "echo $1 $2; env; ls -d $0/home"]
            .map(str::to_owned)
            .into(),
        then: Then::OneOf(["hello".to_owned()].into()),
    };
    images.insert("own", own.clone());
    let stays = Command {
        words: ["/bin/sh", "-c", "echo $1 $2; exec sleep 1000"]
            .map(str::to_owned)
            .into(),
        ..own
    };
    images.insert("confined", stays);
    let options = Options {
        name: "node".into(),
        dir,
        images,
        api_server: Some(ApiServer {
            host: "127.0.0.1".into(),
            port: site.address.port(),
            ca_pem: site.server.pki().ca_pem().to_owned(),
        }),
        stop_grace: Duration::from_secs(1),
        workloads: true,
    };
    kube_node::start(site.client(), options, cancel).await.unwrap()
}

impl World {
    pub async fn new() -> Self {
        let site = Site::start().await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cancel = CancellationToken::new();
        let node = node(&site, dir.path().join("node"), cancel.clone()).await;
        Self {
            site,
            node,
            dir,
            cancel,
        }
    }

    pub fn client(&self) -> Client {
        self.site.client()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), "default")
    }

    pub async fn until_pod(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        let found = wait::until(&self.pods(), name, what, |it| it.is_some_and(&holds)).await;
        found.unwrap()
    }

    /// Waits for an event with this reason and gives its message.
    pub async fn until_event(&self, reason: &str) -> String {
        let events: Api<Event> = Api::namespaced(self.client(), "default");
        let has = |it: &Event| it.reason.as_deref() == Some(reason);
        let all = wait::until_all(&events, reason, |all| all.iter().any(has)).await;
        let found = all.into_iter().find(has).unwrap();
        found.message.unwrap_or_default()
    }

    /// The log of a pod's only container.
    pub async fn log(&self, pod: &str, options: LogOptions) -> String {
        let chunks = self.node.logs().read("default", pod, &options).unwrap();
        let text: Vec<u8> = chunks.map(|it| it.to_vec()).concat().await;
        String::from_utf8(text).unwrap()
    }

    /// Waits until the file of a process appears, and reads it.
    pub async fn until_file(&self, name: &str) -> String {
        until_text(&self.dir.path().join(name)).await
    }

    pub async fn stop(self) {
        self.cancel.cancel();
        self.node.finished().await;
        self.site.stop().await;
    }
}

pub async fn until_text(path: &std::path::Path) -> String {
    let found = async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => tokio::task::yield_now().await,
            }
        }
    };
    let patience = tokio::time::timeout(wait::PATIENCE, found).await;
    patience.unwrap_or_else(|_| panic!("{} did not appear", path.display()))
}

pub fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|it| !it.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

pub async fn until_dead(pid: &str) {
    let dead = async {
        while lives(pid) {
            tokio::task::yield_now().await;
        }
    };
    let patience = tokio::time::timeout(wait::PATIENCE, dead).await;
    patience.unwrap_or_else(|_| panic!("process {pid} lives on"));
}

pub fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|it| it.phase.as_deref())
        .unwrap_or_default()
}

/// The condition as `True`, `False` or nothing.
pub fn condition<'a>(pod: &'a Pod, kind: &str) -> &'a str {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|it| it.type_ == kind);
    found.map_or("", |it| &it.status)
}

/// The reason for which the first container waits.
pub fn waits_for(pod: &Pod) -> Option<(&str, &str)> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    Some((
        waiting.reason.as_deref()?,
        waiting.message.as_deref().unwrap_or_default(),
    ))
}
