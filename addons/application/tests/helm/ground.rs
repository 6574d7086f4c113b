//! A cluster with HelmReleases, and a chart whose content the test says.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use addon_application::cluster::helm::{ChartContent, ChartPlace, ChartReader, HelmReleaseInstallation};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret},
    kube::{
        Api,
        api::{ListParams, Patch, PatchParams, PostParams},
    },
    ocm_api::{
        apps::{self, HelmRelease},
        crds,
    },
    reconcile::{Caches, Clients, Controller, async_trait, install::install_crds},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

pub const TEAM: &str = "team";
pub const NAME: &str = "web";

/// Where charts are.
pub struct Charts {
    files: Mutex<Result<Vec<(String, String)>, String>>,
    reads: AtomicUsize,
}

#[async_trait]
impl ChartReader for Charts {
    async fn read(&self, place: &ChartPlace) -> Result<ChartContent, String> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if place.source.r#type == "away" {
            return Err("the repository is away".to_owned());
        }
        let files = self.files.lock().clone()?;
        Ok(ChartContent::Files(
            files
                .into_iter()
                .map(|(name, text)| (name, text.into_bytes().into()))
                .collect(),
        ))
    }
}

pub struct World {
    pub site: Site,
    pub charts: Arc<Charts>,
    running: Mutex<CancellationToken>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.lock().cancel();
    }
}

impl World {
    pub async fn start() -> Self {
        let world = Self::prepare().await;
        world.run();
        world
    }

    /// Without the controller.
    pub async fn prepare() -> Self {
        let site = Site::start().await.unwrap();
        install_crds(&site.client(), crds::add_on(apps::GROUP)).await.unwrap();
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": TEAM}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(site.client());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        Self {
            site,
            charts: Arc::new(Charts {
                files: Mutex::new(Err("there is no chart".to_owned())),
                reads: AtomicUsize::new(0),
            }),
            running: Mutex::new(CancellationToken::new()),
        }
    }

    /// Starts the controller, in place of one that runs.
    pub fn run(&self) {
        let mut running = self.running.lock();
        running.cancel();
        *running = CancellationToken::new();
        let caches = Caches::new(self.site.client(), running.clone());
        let controller = HelmReleaseInstallation::new(&caches, self.site.client(), self.charts.clone());
        Controller::new(controller).start(Clients::cluster(self.site.client()), running.clone());
    }

    /// From now on this is the chart: templates by their names, and `values.yaml`.
    pub fn chart(&self, version: &str, templates: &[(&str, &str)]) {
        let metadata = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        let mut files = vec![("Chart.yaml".to_owned(), metadata)];
        for (name, text) in templates {
            let folder = if name.contains('/') || *name == "values.yaml" {
                ""
            } else {
                "templates/"
            };
            files.push((format!("{folder}{name}"), (*text).to_owned()));
        }
        *self.charts.files.lock() = Ok(files);
    }

    pub fn reads(&self) -> usize {
        self.charts.reads.load(Ordering::SeqCst)
    }

    pub fn releases(&self) -> Api<HelmRelease> {
        Api::namespaced(self.site.client(), TEAM)
    }

    pub fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.site.client(), TEAM)
    }

    pub async fn install(&self, values: Value) {
        self.install_from(json!({"source": {"type": "helmrepo"}, "chartName": "web"}), values)
            .await;
    }

    pub async fn install_from(&self, repo: Value, values: Value) {
        let release = json!({"metadata": {"name": NAME, "namespace": TEAM}, "repo": repo, "spec": values});
        let release: HelmRelease = serde_json::from_value(release).unwrap();
        let made = self.releases().create(&PostParams::default(), &release).await;
        made.unwrap();
    }

    pub async fn patch(&self, patch: Value) {
        let params = PatchParams::default();
        self.releases()
            .patch(NAME, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Changes a ConfigMap, as somebody else does.
    pub async fn patch_map(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.maps().patch(name, &params, &Patch::Merge(&patch)).await.unwrap();
    }

    /// The HelmRelease, once it has this condition.
    pub async fn told(&self, kind: &str, reason: &str) -> HelmRelease {
        let what = format!("is {kind}: {reason}");
        let api = self.releases();
        wait::until_with(&api, NAME, &what, |it| {
            it.is_some_and(|it| condition(it, kind).is_some_and(|it| it.status == "True" && it.reason == reason))
        })
        .await
        .unwrap()
    }

    /// A ConfigMap, once it has this value.
    pub async fn map(&self, name: &str, key: &str, value: &str) -> ConfigMap {
        let (api, what) = (self.maps(), format!("has {key}={value}"));
        wait::until_with(&api, name, &what, |it| {
            it.is_some_and(|it| {
                it.data
                    .as_ref()
                    .is_some_and(|it| it.get(key).is_some_and(|it| it == value))
            })
        })
        .await
        .unwrap()
    }

    /// The revisions that are stored: number and status.
    pub async fn revisions(&self) -> Vec<String> {
        let secrets: Api<Secret> = Api::namespaced(self.site.client(), TEAM);
        let listed = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
        let mut found: Vec<_> = listed
            .items
            .iter()
            .map(|it| {
                let labels = it.metadata.labels.as_ref().unwrap();
                let version: u32 = labels["version"].parse().unwrap();
                (version, labels["status"].clone())
            })
            .collect();
        found.sort();
        found
            .into_iter()
            .map(|(version, status)| format!("{version} {status}"))
            .collect()
    }
}

pub fn condition<'a>(release: &'a HelmRelease, kind: &str) -> Option<&'a apps::HelmReleaseCondition> {
    release.status.as_ref()?.conditions.iter().find(|it| it.r#type == kind)
}

/// A ConfigMap as a template.
pub fn map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata: {data}\n")
}

/// A ConfigMap with an annotation as a template.
pub fn annotated(name: &str, annotations: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {annotations}\ndata: {data}\n")
}
