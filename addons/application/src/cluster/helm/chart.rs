//! Where a HelmRelease's chart is, and who reads it.

use std::sync::Arc;

use application_render::helm::{Chart, ChartError};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
    ocm_api::{
        apps::{ChartSource, HelmReleaseRepo},
        object::ObjectReference,
    },
    reconcile::async_trait,
};

/// Where a chart is, and what it is read with.
#[derive(Clone, Debug)]
pub struct ChartPlace {
    /// The repository.
    pub source: ChartSource,
    /// The name of the chart.
    pub chart_name: String,
    /// The version of the chart.
    pub version: String,
    /// The digest of the archive; empty when any will do.
    pub digest: String,
    /// The Secret with the credentials.
    pub secret: Option<Arc<Secret>>,
    /// The ConfigMap with the settings.
    pub config_map: Option<Arc<ConfigMap>>,
    /// Whether the certificate of the server is left unchecked.
    pub insecure_skip_verify: bool,
}

/// A chart as it was read.
#[derive(Clone, Debug)]
pub enum ChartContent {
    /// A packed chart.
    Archive(Vec<u8>),
    /// The files of a folder, each by its path from there.
    Files(Vec<(String, Arc<[u8]>)>),
}

impl ChartContent {
    /// The chart.
    ///
    /// # Errors
    /// When it is none.
    pub fn chart(self) -> Result<Chart, ChartError> {
        match self {
            ChartContent::Archive(archive) => Chart::from_archive(&archive),
            ChartContent::Files(files) => Chart::from_files(files),
        }
    }
}

/// Who reads charts.
#[async_trait]
pub trait ChartReader: Send + Sync {
    /// Reads a chart. It is asked at every look, and may keep what it has read by the source's revision.
    ///
    /// # Errors
    /// In words for the HelmRelease's status, without credentials.
    async fn read(&self, place: &ChartPlace) -> Result<ChartContent, String>;
}

/// A place, with the names of what it is read with.
pub(super) struct PlaceNamed<'a> {
    pub source: ChartSource,
    pub secret: Option<&'a ObjectReference>,
    pub config_map: Option<&'a ObjectReference>,
    pub insecure_skip_verify: bool,
}

/// Where a chart is, and where it is when that cannot be read.
pub(super) fn places(repo: &HelmReleaseRepo) -> Vec<PlaceNamed<'_>> {
    let first = repo.source.as_ref().map(|source| PlaceNamed {
        source: source.clone(),
        secret: repo.secret_ref.as_ref(),
        config_map: repo.config_map_ref.as_ref(),
        insecure_skip_verify: repo.insecure_skip_verify,
    });
    let second = repo.alt_source.as_ref().map(|it| PlaceNamed {
        source: ChartSource {
            r#type: it.r#type.clone(),
            github: it.github.clone(),
            git: it.git.clone(),
            helm_repo: it.helm_repo.clone(),
        },
        secret: it.secret_ref.as_ref(),
        config_map: it.config_map_ref.as_ref(),
        insecure_skip_verify: it.insecure_skip_verify,
    });
    // Without the first there is nothing that the second stands in for.
    match first {
        None => Vec::new(),
        Some(first) => std::iter::once(first).chain(second).collect(),
    }
}
