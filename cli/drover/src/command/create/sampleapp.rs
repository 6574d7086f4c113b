//! `drover create sampleapp [NAME]`
//! Upstream: clusteradm `create sampleapp`, whose ApplicationSet this is.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use installation::Mode;
use output::{Data, encode};
use serde_json::{Value, json};

/// Create a sample ApplicationSet of Argo CD: an application on every cluster that the placement app-placement chooses
#[derive(Debug, Args)]
pub struct CreateSampleApp {
    /// What its name starts with
    #[arg(default_value = "sampleapp")]
    pub name: String,
    /// Also write what is applied to FILE
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// Print what would be applied, and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl CreateSampleApp {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.create(&ApiServer::connect(global).await?).await
    }

    /// Creates it, and says so.
    pub async fn create(&self, hub: &ApiServer) -> Result<()> {
        let manifest = application_set(&self.name);
        let text = encode(&manifest, Data::Yaml)?;
        if let Some(path) = &self.output_file {
            std::fs::write(path, &text).with_context(|| format!("could not write {}", path.display()))?;
        }
        if self.dry_run {
            return output::print(&text);
        }
        let applied = installation::apply(hub, &[manifest], Mode::Write).await;
        let applied = applied.context("a sample application needs Argo CD and its namespace argocd on the hub")?;
        applied.iter().try_for_each(output::say)
    }
}

/// An ApplicationSet as Argo CD's pull model for clusters wants it. The name of the cluster is Argo CD's to fill in.
fn application_set(name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": { "name": format!("{name}-appset"), "namespace": "argocd" },
        "spec": {
            "generators": [{ "clusterDecisionResource": {
                "configMapRef": "ocm-placement-generator",
                "labelSelector": { "matchLabels": {
                    "cluster.open-cluster-management.io/placement": "app-placement",
                } },
                "requeueAfterSeconds": 30,
            } }],
            "template": {
                "metadata": {
                    "name": "{{name}}-app",
                    "labels": { "apps.open-cluster-management.io/pull-to-ocm-managed-cluster": "true" },
                    "annotations": {
                        "argocd.argoproj.io/skip-reconcile": "true",
                        "apps.open-cluster-management.io/ocm-managed-cluster": "{{name}}",
                        "apps.open-cluster-management.io/ocm-managed-cluster-app-namespace": "argocd",
                    },
                },
                "spec": {
                    "project": "default",
                    "source": {
                        "repoURL": "https://github.com/argoproj/argocd-example-apps.git",
                        "targetRevision": "HEAD",
                        "path": "guestbook",
                    },
                    "destination": { "server": "https://kubernetes.default.svc", "namespace": "guestbook" },
                    "syncPolicy": { "automated": { "prune": true }, "syncOptions": ["CreateNamespace=true"] },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_application_is_named_and_pulled_by_its_cluster() {
        let made = application_set("mine");
        assert_eq!(made["metadata"]["name"], "mine-appset");
        let annotations = &made["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(
            annotations["apps.open-cluster-management.io/ocm-managed-cluster"],
            "{{name}}"
        );
    }
}
