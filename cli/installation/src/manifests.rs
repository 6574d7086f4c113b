//! What a chart of an operator is on a cluster: the CRD, which comes first, and the objects, in the order in which they
//! need each other.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use client::connect::ApiServer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::{Value, json};

use crate::{Line, Mode, images::Images};

/// Objects of an installation.
#[derive(Clone, Debug)]
pub struct InstallManifests {
    /// The CRD of the operator's kind.
    pub crds: Vec<Value>,
    /// All else: namespaces first, the object that the operator follows last.
    pub objects: Vec<Value>,
}

impl InstallManifests {
    /// Of what a chart has made.
    pub fn of(rendered: Vec<Value>) -> Self {
        let (crds, objects): (Vec<Value>, Vec<Value>) = rendered
            .into_iter()
            .partition(|it| it["kind"] == "CustomResourceDefinition");
        let mut objects: Vec<Value> = objects.into_iter().map(plain).collect();
        objects.sort_by_key(|it| match it["kind"].as_str() {
            Some("Namespace") => 0,
            Some("Deployment") => 2,
            Some("ClusterManager" | "Klusterlet") => 3,
            _ => 1,
        });
        Self { crds, objects }
    }

    /// Everything, in the order in which it is written, with more objects behind the CRD.
    pub fn all(&self, more: &[Value]) -> Vec<Value> {
        self.crds.iter().chain(more).chain(&self.objects).cloned().collect()
    }

    /// The name of the object of a kind that is there once.
    pub fn name_of(&self, kind: &str) -> Option<&str> {
        let found = self.objects.iter().find(|it| it["kind"] == kind);
        found.and_then(|it| it["metadata"]["name"].as_str())
    }

    /// Writes the CRD and waits until its kind is served.
    ///
    /// # Errors
    /// What the API server refuses, and when it does not serve the kind in time.
    pub async fn apply_crds(
        &self,
        cluster: &ApiServer,
        timeout: Duration,
        tell: &mut dyn FnMut(Line) -> Result<()>,
    ) -> Result<()> {
        for line in crate::apply(cluster, &self.crds, Mode::Write).await? {
            tell(line)?;
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
        for crd in &self.crds {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default();
            let served = await_condition(definitions.clone(), name, is_crd_established());
            match tokio::time::timeout(timeout, served).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => bail!("lost sight of the CRD {name}: {error}"),
                Err(_) => bail!(
                    "{} does not serve {name} after {} s; `kubectl get crd {name} -o yaml` says why",
                    cluster.server,
                    timeout.as_secs()
                ),
            }
        }
        Ok(())
    }
}

/// An object as it is stored: `stringData` is only how it may be typed, and would be another field to server-side
/// apply.
fn plain(mut object: Value) -> Value {
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|it| it.remove("stringData")) else {
        return object;
    };
    for (key, text) in texts {
        let text = text.as_str().unwrap_or_default();
        object["data"][key] = BASE64_STANDARD.encode(text).into();
    }
    object
}

/// What an object is called among all of a cluster.
pub fn named(it: &Value) -> String {
    format!(
        "{}/{}/{}",
        it["kind"], it["metadata"]["namespace"], it["metadata"]["name"]
    )
}

/// The value `images.imageCredentials` of a chart: the Secret to pull images with is always made, as clusteradm does.
///
/// # Errors
/// When the file cannot be read, or is no docker config.
pub fn image_credentials(file: Option<&Path>) -> Result<Value> {
    let mut made = json!({"createImageCredentials": true});
    if let Some(path) = file {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("failed read the image pull credential file {name}"))?;
        let read: Option<Value> = serde_json::from_str(&text).ok();
        if !read.is_some_and(|it| it.is_object()) {
            bail!("--image-pull-credential-file {name} is no docker config in JSON: write {{\"auths\": {{...}}}}");
        }
        made["dockerConfigJson"] = text.into();
    }
    Ok(made)
}

/// How many pods an operator of a hub has, where nobody says.
pub fn replicas(images: &Images) -> u8 {
    match images {
        // What it does is not urgent, and a pod that died is started again.
        Images::Drover(_) => 1,
        // As with clusteradm.
        Images::Upstream { .. } => 3,
    }
}

/// Leaves a CRD out that a newer release has put there: an older one would take fields away that objects have.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn keep_newer_crd(cluster: &ApiServer, crds: &mut Vec<Value>) -> Result<()> {
    const VERSION: &str = "operator.open-cluster-management.io/version";
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut kept = Vec::new();
    for crd in crds.drain(..) {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let found = definitions.get_metadata_opt(&name).await;
        let found = found.map_err(|error| cluster.explain(&format!("could not look at the CRD {name}"), &error))?;
        let version = found.and_then(|it| it.annotations().get(VERSION).cloned());
        if !version.is_some_and(|it| is_newer(&it, operator::OCM_VERSION)) {
            kept.push(crd);
        }
    }
    *crds = kept;
    Ok(())
}

/// Whether a version is higher than another; what is no version is not.
pub fn is_newer(version: &str, than: &str) -> bool {
    let parts = |text: &str| -> Option<Vec<u64>> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split(['-', '+']).next()?;
        text.split('.').map(|it| it.parse().ok()).collect()
    };
    match (parts(version), parts(than)) {
        (Some(version), Some(than)) => version > than,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_in_the_order_of_their_needs() {
        let object = |kind: &str, name: &str| json!({"kind": kind, "metadata": {"name": name}});
        let rendered = vec![
            object("ClusterManager", "m"),
            object("Deployment", "d"),
            object("Secret", "s"),
            object("Namespace", "b"),
            object("CustomResourceDefinition", "c"),
            object("Namespace", "a"),
        ];
        let made = InstallManifests::of(rendered);
        let names: Vec<&str> = made
            .objects
            .iter()
            .filter_map(|it| it["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, ["b", "a", "s", "d", "m"]);
        assert_eq!((made.crds.len(), made.name_of("ClusterManager")), (1, Some("m")));
    }

    #[test]
    fn a_text_of_a_secret_becomes_data() {
        let secret = plain(json!({"kind": "Secret", "stringData": {"a": "b"}, "data": {"c": "ZA=="}}));
        assert_eq!(secret, json!({"kind": "Secret", "data": {"a": "Yg==", "c": "ZA=="}}));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(is_newer("1.10.0", "1.9.9") && is_newer("v2.0.0", "1.3.1"));
        assert!(!is_newer("1.3.1", "1.3.1") && !is_newer("latest", "1.3.1") && !is_newer("1.3.1-rc1", "1.3.1"));
    }

    #[test]
    fn a_credential_that_is_no_json_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        std::fs::write(&path, "user:password").unwrap();
        assert!(
            image_credentials(Some(&path))
                .unwrap_err()
                .to_string()
                .contains("no docker config")
        );
        std::fs::write(&path, r#"{"auths": {}}"#).unwrap();
        assert_eq!(
            image_credentials(Some(&path)).unwrap()["dockerConfigJson"],
            r#"{"auths": {}}"#
        );
    }
}
