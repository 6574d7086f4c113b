//! A Helm repository: an index, and charts as Helm packs them.

use crate::web::{ServerAnswer, ServerRequest, WebServer, answer};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};

/// Where the index is, without its name.
const PATH: &str = "/charts";

/// A Helm repository, until its test ends.
pub struct ChartServer {
    pub web: WebServer,
    charts: Arc<Mutex<Vec<PackedChart>>>,
}

struct PackedChart {
    name: String,
    version: String,
    keywords: Vec<String>,
    archive: Vec<u8>,
    /// As it stands in the index.
    url: String,
}

impl ChartServer {
    /// One without charts.
    pub async fn start() -> Self {
        Self::start_guarded(|_| None).await
    }

    /// The same, where a function may answer before the repository does.
    pub async fn start_guarded(guard: impl Fn(&ServerRequest) -> Option<ServerAnswer> + Send + Sync + 'static) -> Self {
        let charts: Arc<Mutex<Vec<PackedChart>>> = Arc::default();
        let all = charts.clone();
        let web = WebServer::start(move |asked| {
            let answer = guard(&asked).unwrap_or_else(|| repository(&all.lock().unwrap(), &asked));
            async move { answer }
        });
        Self { web: web.await, charts }
    }

    /// The URL of the repository.
    pub fn url(&self) -> String {
        self.web.url(PATH)
    }

    /// Packs a chart of these files, each by its path in the chart, and lists it.
    pub fn add(&self, name: &str, version: &str, files: &[(&str, &str)]) {
        self.add_at(name, version, &[], &format!("{name}-{version}.tgz"), files);
    }

    /// The same with keywords, and with the URL that stands in the index.
    pub fn add_at(&self, name: &str, version: &str, keywords: &[&str], url: &str, files: &[(&str, &str)]) {
        self.charts.lock().unwrap().push(PackedChart {
            name: name.to_owned(),
            version: version.to_owned(),
            keywords: keywords.iter().map(|it| (*it).to_owned()).collect(),
            archive: packed(name, version, files),
            url: url.to_owned(),
        });
    }
}

/// A chart as `helm package` makes it.
fn packed(name: &str, version: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, text) in [("Chart.yaml", metadata.as_str())].iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("{name}/{path}"), text.as_bytes())
            .unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn repository(charts: &[PackedChart], asked: &ServerRequest) -> ServerAnswer {
    if asked.path == format!("{PATH}/index.yaml") {
        return answer(200, index(charts));
    }
    let file = |it: &&PackedChart| asked.path.ends_with(&format!("/{}-{}.tgz", it.name, it.version));
    match charts.iter().find(file) {
        Some(chart) => answer(200, chart.archive.clone()),
        None => answer(404, ""),
    }
}

fn index(charts: &[PackedChart]) -> String {
    let mut names: Vec<_> = charts.iter().map(|it| &it.name).collect();
    names.sort();
    names.dedup();
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for name in names {
        text += &format!("  {name}:\n");
        for chart in charts.iter().filter(|it| it.name == *name) {
            let digest: String = Sha256::digest(&chart.archive)
                .iter()
                .map(|it| format!("{it:02x}"))
                .collect();
            let PackedChart {
                version, url, keywords, ..
            } = chart;
            let keywords = keywords.join(", ");
            text += &format!(
                "  - {{apiVersion: v2, name: {name}, version: {version}, digest: {digest}, urls: ['{url}'], keywords: \
                 [{keywords}]}}\n"
            );
        }
    }
    text
}
