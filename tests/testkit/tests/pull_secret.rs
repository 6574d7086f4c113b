//! The credential that images are pulled with comes to the namespaces of add-ons, follows, and goes.

use agent::pull_secret::{self, Options};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use ocm_api::namespaces::PULL_SECRET;
use serde_json::json;
use testkit::{Site, wait};
use tokio_util::sync::CancellationToken;

const AGENT: &str = "open-cluster-management-agent";

struct Cluster {
    site: Site,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Cluster {
    async fn start() -> Self {
        let site = Site::start().await.unwrap();
        let labelled = "labels: {addon.open-cluster-management.io/namespace: \"true\"}";
        for (name, labels) in [
            (AGENT, labelled),
            ("one", labelled),
            ("two", labelled),
            ("other", "labels: {}"),
        ] {
            let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, {labels}}}}}");
            site.apply(&namespace).await;
        }
        let mut cluster = Self {
            site,
            stop: CancellationToken::new(),
            running: tokio::spawn(async {}),
        };
        cluster.run();
        cluster
    }

    fn run(&mut self) {
        let options = Options {
            cluster: self.site.client(),
            management: self.site.client(),
            component_namespace: AGENT.to_owned(),
            is_hosted: false,
        };
        self.stop = CancellationToken::new();
        self.running = tokio::spawn(pull_secret::run(options, self.stop.clone()));
    }

    async fn end(&mut self) {
        self.stop.cancel();
        (&mut self.running).await.unwrap();
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.site.client(), namespace)
    }

    async fn source(&self, config: &str) {
        let metadata = json!({"name": PULL_SECRET, "namespace": AGENT});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": config},
        });
        self.site.apply(&secret.to_string()).await;
    }

    /// Waits until the namespace has the credential with this content.
    async fn has(&self, namespace: &str, config: &str) {
        wait::until(&self.secrets(namespace), PULL_SECRET, "has this content", |it| {
            let data = it.and_then(|it| it.data.as_ref()?.get(".dockerconfigjson"));
            data.is_some_and(|it| it.0 == config.as_bytes())
        })
        .await;
    }

    async fn delete(&self, namespace: &str) {
        let secrets = self.secrets(namespace);
        secrets.delete(PULL_SECRET, &DeleteParams::default()).await.unwrap();
    }

    async fn lacks(&self, namespace: &str) {
        wait::until(&self.secrets(namespace), PULL_SECRET, "is gone", |it| it.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pull_secret_is_copied_to_every_requesting_namespace() {
    let mut cluster = Cluster::start().await;
    cluster.source("{}").await;
    cluster.has("one", "{}").await;
    cluster.has("two", "{}").await;
    assert!(cluster.secrets("other").get_opt(PULL_SECRET).await.unwrap().is_none());

    // It follows, and comes back.
    cluster.source(r#"{"auths":{}}"#).await;
    cluster.has("one", r#"{"auths":{}}"#).await;
    cluster.delete("two").await;
    cluster.has("two", r#"{"auths":{}}"#).await;

    // It goes with the label.
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.site.client());
    let unlabelled = json!({"metadata": {"labels": {"addon.open-cluster-management.io/namespace": null}}});
    namespaces
        .patch("one", &PatchParams::default(), &Patch::Merge(&unlabelled))
        .await
        .unwrap();
    cluster.lacks("one").await;

    // And with what it is a copy of, even when nobody looked at that moment.
    cluster.end().await;
    cluster.delete(AGENT).await;
    cluster.run();
    cluster.lacks("two").await;
    cluster.end().await;
    cluster.site.stop().await;
}
