//! The webhook servers of a hub on a real Kubernetes, and what tells its API server to ask them. Names, paths and rules are
//! those of upstream's operator; the servers are reached by their address, because there is no cluster network.

use super::{LOOK_AGAIN, until};
use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
};
use tokio::{process::Command, time::sleep};

/// Whom the API server sees as the author.
const AUTHOR: &str = "stories";

/// One of our webhook servers.
pub struct WebhookServer {
    /// As upstream calls the part.
    pub component: &'static str,
    port: u16,
}

/// All of them, not yet started.
pub struct Webhooks {
    pub servers: Vec<WebhookServer>,
    ca_bundle: String,
}

/// Makes the certificate that they show, and gives them ports.
pub async fn prepare(folder: &Path) -> Result<Webhooks> {
    fs::create_dir_all(folder)?;
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args([
        "-subj",
        "/CN=webhooks",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
    ]);
    let made = openssl
        .arg(folder.join("tls.key"))
        .arg("-out")
        .arg(folder.join("tls.crt"))
        .output()
        .await;
    let made = made.context("could not run openssl")?;
    ensure!(
        made.status.success(),
        "openssl: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut servers = Vec::new();
    for component in ["registration", "work", "addon"] {
        // The same ports when everything is started again: the API server asks there before we can tell it anything.
        let file = folder.join(format!("{component}.port"));
        let before = fs::read_to_string(&file).ok().and_then(|it| it.parse().ok());
        let port = match before {
            Some(port) => port,
            // Free now; nobody else of a story takes ports by their number.
            None => TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
        };
        fs::write(&file, port.to_string())?;
        servers.push(WebhookServer { component, port });
    }
    Ok(Webhooks {
        servers,
        ca_bundle: BASE64_STANDARD.encode(fs::read(folder.join("tls.crt"))?),
    })
}

impl WebhookServer {
    /// Its command line.
    pub fn arguments(&self, certificates: &Path, kubeconfig: &Path) -> Vec<String> {
        let mut words = vec![self.component.to_owned(), "webhook-server".to_owned()];
        let flag = |name: &str, value: String| format!("--{name}={value}");
        words.push(flag("certdir", certificates.display().to_string()));
        words.push(flag("kubeconfig", kubeconfig.display().to_string()));
        words.push(flag("port", self.port.to_string()));
        words.push(flag("bind-address", "127.0.0.1".into()));
        words.push(flag("health-probe-port", "0".into()));
        words.push(flag("metrics-port", "0".into()));
        words
    }
}

impl Webhooks {
    fn client_config(&self, component: &str, path: &str) -> Value {
        let port = self
            .servers
            .iter()
            .find(|it| it.component == component)
            .map_or(0, |it| it.port);
        json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": self.ca_bundle})
    }

    /// Waits until all of them listen.
    pub async fn until_served(&self) -> Result<()> {
        for it in &self.servers {
            until(|| TcpStream::connect(("127.0.0.1", it.port)).is_ok()).await?;
        }
        Ok(())
    }

    /// Tells the API server of them. The kinds are there when the hub has put them there.
    pub async fn configure(&self, hub: &Client) -> Result<()> {
        for name in ["clustermanagementaddons", "managedclusteraddons"] {
            let definition = format!("{name}.addon.open-cluster-management.io");
            let conversion = json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1", "v1beta1"], "clientConfig": self.client_config("addon", "/convert"),
            }});
            let patch = json!({"spec": {"conversion": conversion}});
            let definitions = api(hub, "apiextensions.k8s.io", "CustomResourceDefinition");
            while definitions.get_opt(&definition).await?.is_none() {
                sleep(LOOK_AGAIN).await;
            }
            let patched = definitions
                .patch(&definition, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            patched.with_context(|| definition.clone())?;
        }
        for (kind, configuration) in self.configurations() {
            let name = configuration["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let parameters = PatchParams::apply(AUTHOR).force();
            let objects = api(hub, "admissionregistration.k8s.io", kind);
            objects
                .patch(&name, &parameters, &Patch::Apply(configuration))
                .await
                .context(name)?;
        }
        Ok(())
    }

    fn configurations(&self) -> Vec<(&'static str, Value)> {
        let one = |kind: &'static str, name: &str, component: &str, path: &str, rule: (&str, &str, &str)| {
            let (group, version, resource) = rule;
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                "webhooks": [{
                    "name": name, "failurePolicy": "Fail", "timeoutSeconds": 10, "sideEffects": "None",
                    "admissionReviewVersions": ["v1beta1", "v1"], "clientConfig": self.client_config(component, path),
                    "rules": [{
                        "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": [version],
                        "resources": [resource],
                    }],
                }],
            });
            (kind, configuration)
        };
        const CLUSTERS: &str = "cluster.open-cluster-management.io";
        const WORKS: &str = "work.open-cluster-management.io";
        vec![
            one(
                "ValidatingWebhookConfiguration",
                "managedclustervalidators.admission.cluster.open-cluster-management.io",
                "registration",
                "/validate-cluster-open-cluster-management-io-v1-managedcluster",
                (CLUSTERS, "*", "managedclusters"),
            ),
            one(
                "MutatingWebhookConfiguration",
                "managedclustermutators.admission.cluster.open-cluster-management.io",
                "registration",
                "/mutate-cluster-open-cluster-management-io-v1-managedcluster",
                (CLUSTERS, "*", "managedclusters"),
            ),
            one(
                "ValidatingWebhookConfiguration",
                "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
                "registration",
                "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding",
                (CLUSTERS, "v1beta2", "managedclustersetbindings"),
            ),
            one(
                "ValidatingWebhookConfiguration",
                "manifestworkvalidators.admission.work.open-cluster-management.io",
                "work",
                "/validate-work-open-cluster-management-io-v1-manifestwork",
                (WORKS, "*", "manifestworks"),
            ),
            // Upstream's server has this one, and nothing of upstream's asks it.
            one(
                "ValidatingWebhookConfiguration",
                "manifestworkreplicasetvalidators.admission.work.open-cluster-management.io",
                "work",
                "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset",
                (WORKS, "*", "manifestworkreplicasets"),
            ),
        ]
    }
}

fn api(hub: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(
        hub.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)),
    )
}
