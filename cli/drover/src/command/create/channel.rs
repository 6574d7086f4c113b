//! `drover create channel NAME --git URL`. clusteradm has no such command.

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use client::{connect::ApiServer, flags::Global, kinds};
use kube::api::PostParams;
use ocm_api::apps::annotations;
use serde_json::{Value, json};

/// Create a channel: the Git repository, Helm repository or bucket that subscriptions take applications from
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).args(["git", "helm", "bucket"]))]
pub struct CreateChannel {
    /// The name of the channel
    pub name: String,
    /// Where to create it
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
    /// The URL of a Git repository, or a folder that `drover up --git-folder` has opened
    #[arg(long, value_name = "URL")]
    pub git: Option<String>,
    /// The URL of a Helm repository
    #[arg(long, value_name = "URL")]
    pub helm: Option<String>,
    /// The URL of a bucket: the endpoint, `/` and the bucket's name
    #[arg(long, value_name = "URL")]
    pub bucket: Option<String>,
    /// The Secret in the channel's namespace with the credentials
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// The ConfigMap in the channel's namespace with caCerts
    #[arg(long, value_name = "NAME")]
    pub config_map: Option<String>,
    /// How often clusters look at it: off, low (every hour), medium (every 3 minutes) or high (every 2 minutes)
    #[arg(long, value_name = "RATE", value_parser = ["off", "low", "medium", "high"])]
    pub reconcile_rate: Option<String>,
    /// Do not check the certificate of the server
    #[arg(long)]
    pub insecure_skip_verify: bool,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl CreateChannel {
    pub async fn run(self, global: &Global) -> Result<()> {
        let channel = self.channel()?;
        let hub = ApiServer::connect(global).await?;
        let (name, namespace) = (&self.name, &self.namespace);
        let api = hub.namespaced(&kinds::channel(), namespace);
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        match api.create(&parameters, &serde_json::from_value(channel)?).await {
            Ok(_) => output::say(format_args!(
                "Channel '{name}' has been created in '{namespace}' namespace{}",
                output::note(self.dry_run)
            )),
            Err(error) => Err(explain(&hub, &format!("could not create channel {name}"), &error)),
        }
    }

    fn channel(&self) -> Result<Value> {
        let places = [
            ("Git", &self.git),
            ("HelmRepo", &self.helm),
            ("ObjectBucket", &self.bucket),
        ];
        let place = places.into_iter().find_map(|(kind, url)| Some((kind, url.as_deref()?)));
        let Some((kind, url)) = place else {
            bail!("one of --git, --helm and --bucket says where applications come from");
        };
        let mut spec = json!({"type": kind, "pathname": pathname(kind, url)?});
        for (field, name) in [("secretRef", &self.secret), ("configMapRef", &self.config_map)] {
            if let Some(name) = name {
                spec[field] = json!({"name": name});
            }
        }
        if self.insecure_skip_verify {
            spec["insecureSkipVerify"] = true.into();
        }
        let mut channel = json!({
            "apiVersion": "apps.open-cluster-management.io/v1", "kind": "Channel",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec,
        });
        if let Some(rate) = &self.reconcile_rate {
            channel["metadata"]["annotations"] = json!({annotations::RECONCILE_RATE: rate});
        }
        Ok(channel)
    }
}

/// A folder is told to the clusters as a whole path: they run elsewhere.
fn pathname(kind: &str, url: &str) -> Result<String> {
    let is_path = kind == "Git" && !url.contains("://") && !url.contains('@');
    if !is_path {
        return Ok(url.to_owned());
    }
    match std::fs::canonicalize(url) {
        Ok(folder) => Ok(folder.to_string_lossy().into_owned()),
        Err(error) => bail!("--git {url} is no URL, and as a folder it cannot be opened: {error}"),
    }
}

/// Kinds that are not there are the first thing that is missing on a new hub.
pub fn explain(hub: &ApiServer, what: &str, error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code == 404 && status.message.contains("page not found") => anyhow::anyhow!(
            "this hub has no Channels and Subscriptions: `drover up --addons application-manager` has them"
        ),
        error => hub.explain(what, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> CreateChannel {
        CreateChannel {
            name: "shop".to_owned(),
            namespace: "team".to_owned(),
            git: None,
            helm: None,
            bucket: None,
            secret: None,
            config_map: None,
            reconcile_rate: None,
            insecure_skip_verify: false,
            dry_run: false,
        }
    }

    #[test]
    fn a_channel_says_what_it_is() {
        let git = CreateChannel {
            git: Some("https://example.com/shop.git".to_owned()),
            secret: Some("login".to_owned()),
            reconcile_rate: Some("high".to_owned()),
            ..channel()
        };
        let made = git.channel().unwrap();
        let spec = json!({"type": "Git", "pathname": "https://example.com/shop.git", "secretRef": {"name": "login"}});
        assert_eq!(made["spec"], spec);
        let rate = &made["metadata"]["annotations"]["apps.open-cluster-management.io/reconcile-rate"];
        assert_eq!(rate, "high");
        let bucket = CreateChannel {
            bucket: Some("http://127.0.0.1:9000/apps".to_owned()),
            ..channel()
        };
        assert_eq!(bucket.channel().unwrap()["spec"]["type"], "ObjectBucket");
    }

    #[test]
    fn a_folder_is_a_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().canonicalize().unwrap();
        let text = folder.path().to_str().unwrap();
        assert_eq!(pathname("Git", text).unwrap(), whole.to_str().unwrap());
        assert_eq!(pathname("Git", "git@example.com:shop").unwrap(), "git@example.com:shop");
        let error = pathname("Git", "nowhere/at/all").unwrap_err().to_string();
        assert!(error.starts_with("--git nowhere/at/all is no URL"), "{error}");
    }
}
