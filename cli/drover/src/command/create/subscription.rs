//! `drover create subscription NAME --channel NAMESPACE/NAME --placement NAME`. clusteradm has no such command.

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use client::{connect::ApiServer, flags::Global, kinds};
use kube::api::PostParams;
use ocm_api::apps::annotations;
use serde_json::{Value, json};

use super::channel::explain;

/// Create a subscription: clusters take an application from a channel and keep it as it is there
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("chosen").required(true).args(["placement", "clusters"]))]
pub struct CreateSubscription {
    /// The name of the subscription
    pub name: String,
    /// Where to create it
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
    /// The channel; one of the same namespace needs no NAMESPACE
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub channel: String,
    /// The placement of the same namespace that chooses the clusters
    #[arg(long, value_name = "NAME")]
    pub placement: Option<String>,
    /// The clusters, by their names
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub clusters: Vec<String>,
    /// Git: the folder in the repository [default: all of it]
    #[arg(long, value_name = "FOLDER")]
    pub path: Option<String>,
    /// Git: the branch [default: the repository's own]
    #[arg(long, value_name = "BRANCH")]
    pub branch: Option<String>,
    /// Git: the tag, whatever the branch has since
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Git: the commit, whatever the branch has since
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
    /// Helm: the name of the chart
    #[arg(long, value_name = "CHART")]
    pub chart: Option<String>,
    /// Helm: the versions of the chart, such as ">=1.2 <2"
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// Buckets: what the names of the objects begin with
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// What becomes of objects that are there: merge, replace, or mergeAndOwn
    #[arg(long, value_name = "OPTION", value_parser = ["merge", "replace", "mergeAndOwn"])]
    pub reconcile_option: Option<String>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl CreateSubscription {
    pub async fn run(self, global: &Global) -> Result<()> {
        let subscription = self.subscription()?;
        let hub = ApiServer::connect(global).await?;
        let (name, namespace) = (&self.name, &self.namespace);
        let api = hub.namespaced(&kinds::subscription(), namespace);
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        match api.create(&parameters, &serde_json::from_value(subscription)?).await {
            Ok(_) => output::say(format_args!(
                "Subscription '{name}' has been created in '{namespace}' namespace{}",
                output::note(self.dry_run)
            )),
            Err(error) => Err(explain(&hub, &format!("could not create subscription {name}"), &error)),
        }
    }

    fn subscription(&self) -> Result<Value> {
        if let (Some(_), None) = (&self.version, &self.chart) {
            bail!("--version is of a chart; name it with --chart");
        }
        let channel = match self.channel.split_once('/') {
            Some(_) => self.channel.clone(),
            None => format!("{}/{}", self.namespace, self.channel),
        };
        let placement = match &self.placement {
            Some(name) => json!({"placementRef": {"kind": "Placement", "name": name}}),
            None => {
                let named = self.clusters.iter().map(|name| json!({"name": name}));
                json!({"clusters": named.collect::<Vec<_>>()})
            }
        };
        let mut spec = json!({"channel": channel, "placement": placement});
        if let Some(chart) = &self.chart {
            spec["name"] = json!(chart);
        }
        if let Some(version) = &self.version {
            spec["packageFilter"] = json!({"version": version});
        }
        let annotations = [
            (annotations::GIT_PATH, &self.path),
            (annotations::GIT_BRANCH, &self.branch),
            (annotations::GIT_TAG, &self.tag),
            (annotations::GIT_DESIRED_COMMIT, &self.commit),
            (annotations::BUCKET_PATH, &self.prefix),
            (annotations::RECONCILE_OPTION, &self.reconcile_option),
        ];
        let mut subscription = json!({
            "apiVersion": "apps.open-cluster-management.io/v1", "kind": "Subscription",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": {"app": self.name}},
            "spec": spec,
        });
        for (name, value) in annotations {
            if let Some(value) = value {
                subscription["metadata"]["annotations"][name] = json!(value);
            }
        }
        Ok(subscription)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        it: CreateSubscription,
    }

    fn made(words: &[&str]) -> Result<Value> {
        let words = ["x", "shop", "-n", "team"].iter().chain(words);
        Line::try_parse_from(words)?.it.subscription()
    }

    #[test]
    fn a_subscription_says_what_goes_where() {
        let it = made(&[
            "--channel",
            "git",
            "--placement",
            "all",
            "--path",
            "web",
            "--branch",
            "main",
        ])
        .unwrap();
        let spec = json!({
            "channel": "team/git", "placement": {"placementRef": {"kind": "Placement", "name": "all"}},
        });
        assert_eq!(it["spec"], spec);
        let annotations = json!({
            "apps.open-cluster-management.io/git-path": "web", "apps.open-cluster-management.io/git-branch": "main",
        });
        assert_eq!(it["metadata"]["annotations"], annotations);
        let chart = [
            "--channel",
            "a/helm",
            "--clusters",
            "c1,c2",
            "--chart",
            "shop",
            "--version",
            "1.x",
        ];
        let spec = json!({
            "channel": "a/helm", "placement": {"clusters": [{"name": "c1"}, {"name": "c2"}]},
            "name": "shop", "packageFilter": {"version": "1.x"},
        });
        assert_eq!(made(&chart).unwrap()["spec"], spec);
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = made(&["--channel", "git"]).unwrap_err().to_string();
        assert!(error.contains("--placement <NAME>|--clusters <NAMES>"), "{error}");
        let error = made(&["--channel", "h", "--placement", "p", "--version", "1"]).unwrap_err();
        assert_eq!(error.to_string(), "--version is of a chart; name it with --chart");
    }
}
