//! What the klusterlet chart is told: upstream's renderers, each laid over what was said before.
//! Upstream: ocm `pkg/registration/hub/importer/renderers.go`.

use base64::{Engine, prelude::BASE64_STANDARD};
use gotemplate::helm::merge_values;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::config::Kubeconfig;
use ocm_reconcile::{Plan, Site, Step, Target};
use serde_json::{Map, Value, json};

use super::{
    options::{Options, Renderer},
    source::Looked,
};

/// The Secret in a cluster's namespace with values for the chart.
pub const CONFIG: &str = "cluster-import-config";
const CONFIG_KEY: &str = "values.yaml";
const PULL_SECRET_KEY: &str = ".dockerconfigjson";
/// How long a cluster may take to ask for joining.
const TOKEN_SECONDS: i64 = 24 * 3600;
/// What the step is called that asks for a token.
pub const TOKEN: &str = "token";

/// What values are made from. What no renderer asks for is as if it were not there.
#[derive(Clone, Debug)]
pub struct Materials {
    /// The Secret [`CONFIG`].
    pub config: Looked<Secret>,
    /// ConfigMap kube-public/cluster-info.
    pub cluster_info: Looked<ConfigMap>,
    /// ConfigMap kube-public/kube-root-ca.crt.
    pub root_ca: Looked<ConfigMap>,
    /// What images are pulled with.
    pub pull_secret: Looked<Secret>,
}

/// Asks for a token for the cluster to join with, if a renderer wants one.
pub fn request_token(options: &Options) -> Plan {
    let mut plan = Plan::new();
    if options.renderers.contains(&Renderer::Auto) {
        let (namespace, name) = &options.bootstrap_service_account;
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS},
        });
        let step = plan.push(Step::CreateSubresource {
            target: Target::namespaced::<ServiceAccount>(Site::Hub, namespace, name),
            subresource: "token",
            object: request,
        });
        plan.name(TOKEN, step);
    }
    plan
}

/// The values of the chart for a cluster that joins with this token.
///
/// # Errors
/// What is missing or wrong, and where.
pub fn values(options: &Options, cluster: &str, materials: &Materials, token: &str) -> Result<Value, String> {
    let mut values = options.values.clone();
    let base = json!({
        "replicaCount": 1,
        "createNamespace": true,
        "klusterlet": {"create": true, "clusterName": cluster, "resourceRequirement": {"type": "Default"}},
    });
    merge_values(&mut values, &base);
    for renderer in &options.renderers {
        let over = match renderer {
            Renderer::Auto => auto(options, materials, token)?,
            Renderer::FromConfigSecret | Renderer::FromConfigSecretIfThere => {
                from_secret(cluster, &materials.config, *renderer)?
            }
        };
        merge_values(&mut values, &over);
    }
    Ok(values)
}

fn auto(options: &Options, materials: &Materials, token: &str) -> Result<Value, String> {
    let (server, ca) = hub(options, materials)?;
    let mut values = json!({ "bootstrapHubKubeConfig": bootstrap(&server, ca.as_deref(), token)? });
    if let Some(image) = &options.agent_image {
        values["images"]["overrides"]["operatorImage"] = image.as_str().into();
    }
    let (namespace, name) = &options.pull_secret;
    let why = |why: &String| format!("Secret {namespace}/{name} cannot be read: {why}");
    let secret = materials.pull_secret.as_ref().map_err(why)?;
    let pull = secret.as_ref().and_then(|it| it.data.as_ref()?.get(PULL_SECRET_KEY));
    if let Some(pull) = pull.filter(|it| !it.0.is_empty()) {
        let text = std::str::from_utf8(&pull.0);
        let text = text.map_err(|_| format!("{PULL_SECRET_KEY} of Secret {namespace}/{name} is no text"))?;
        values["images"]["imageCredentials"] = json!({"createImageCredentials": true, "dockerConfigJson": text});
    }
    Ok(values)
}

/// Where clusters reach the hub, and the CA that they trust there, in PEM.
fn hub(options: &Options, materials: &Materials) -> Result<(String, Option<Vec<u8>>), String> {
    const INFO: &str = "ConfigMap kube-public/cluster-info";
    let cannot = |what: &str, why: &str| format!("{what} cannot be read: {why}");
    let info = materials.cluster_info.as_ref().map_err(|why| cannot(INFO, why))?;
    let here = options.hub_here.as_ref();
    let Some(info) = info else {
        let said = options
            .hub_apiserver_url
            .clone()
            .or_else(|| here.map(|it| it.0.clone()));
        let server = said.ok_or_else(|| {
            format!("nobody says where clusters reach the hub: set --hub-apiserver-url, or make {INFO}")
        })?;
        let root = materials.root_ca.as_ref();
        let root = root.map_err(|why| cannot("ConfigMap kube-public/kube-root-ca.crt", why))?;
        let root = root.as_ref().and_then(|it| it.data.as_ref()?.get("ca.crt"));
        let ca = root.or_else(|| here.and_then(|it| it.1.as_ref()));
        return Ok((server, ca.map(|it| it.clone().into_bytes())));
    };
    let text = info.data.as_ref().and_then(|it| it.get("kubeconfig"));
    let text = text.ok_or_else(|| format!("{INFO} has no key kubeconfig"))?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| format!("the kubeconfig in {INFO} is none"))?;
    let [cluster] = kubeconfig.clusters.as_slice() else {
        return Err(format!(
            "the kubeconfig in {INFO} names {} clusters, not one",
            kubeconfig.clusters.len()
        ));
    };
    let cluster = cluster.cluster.clone().unwrap_or_default();
    let server = options
        .hub_apiserver_url
        .clone()
        .or(cluster.server)
        .filter(|it| !it.is_empty());
    let server = server.ok_or_else(|| format!("the kubeconfig in {INFO} names no server"))?;
    let ca = cluster.certificate_authority_data.filter(|it| !it.is_empty());
    let ca = ca.map(|it| BASE64_STANDARD.decode(it)).transpose();
    let ca = ca.map_err(|_| format!("certificate-authority-data of the kubeconfig in {INFO} is no base64"))?;
    Ok((server, ca))
}

/// The kubeconfig that an agent joins with.
fn bootstrap(server: &str, ca: Option<&[u8]>, token: &str) -> Result<String, String> {
    let mut cluster = json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = BASE64_STANDARD.encode(ca).into();
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": "bootstrap", "user": {"token": token}}],
        "contexts": [{
            "name": "bootstrap",
            "context": {"cluster": "hub", "user": "bootstrap", "namespace": "default"},
        }],
        "current-context": "bootstrap",
    });
    serde_saphyr::to_string(&kubeconfig).map_err(|error| error.to_string())
}

fn from_secret(cluster: &str, secret: &Looked<Secret>, renderer: Renderer) -> Result<Value, String> {
    let name = format!("Secret {cluster}/{CONFIG}");
    let secret = match secret {
        Ok(Some(secret)) => secret,
        Ok(None) if renderer == Renderer::FromConfigSecretIfThere => return Ok(Value::Object(Map::new())),
        Ok(None) => {
            return Err(format!(
                "{name} is not there: put values of the klusterlet chart into its key {CONFIG_KEY}"
            ));
        }
        Err(why) => return Err(format!("{name} cannot be read: {why}")),
    };
    let data = secret
        .data
        .as_ref()
        .and_then(|it| it.get(CONFIG_KEY))
        .filter(|it| !it.0.is_empty());
    let data = data.ok_or_else(|| format!("{name} has no values of the klusterlet chart in its key {CONFIG_KEY}"))?;
    let invalid = || format!("{CONFIG_KEY} of {name} is no YAML of values of the klusterlet chart");
    let text = std::str::from_utf8(&data.0).map_err(|_| invalid())?;
    // The parser's own text shows a part of what it has read, and that may be a token.
    let read: Value = serde_saphyr::from_str(text).map_err(|_| invalid())?;
    match read {
        Value::Null => Ok(Value::Object(Map::new())),
        read @ Value::Object(_) => Ok(with_layout(without_nulls(read))),
        _ => Err(invalid()),
    }
}

/// Whoever names images and no layout has upstream's images in mind: ours take their arguments, but not the reverse.
fn with_layout(mut values: Value) -> Value {
    let images = &values["images"];
    let overrides = images["overrides"].as_object().into_iter().flatten().map(|(_, it)| it);
    let named = [&images["registry"], &images["tag"]].into_iter().chain(overrides);
    let is_named = named.into_iter().any(|it| it.as_str().is_some_and(|it| !it.is_empty()));
    if is_named && values.get("layout").is_none() {
        values["layout"] = "upstream".into();
    }
    values
}

/// A null says nothing, as in Go; in a chart it would take a default away.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let said = fields.into_iter().filter(|(_, it)| !it.is_null());
            Value::Object(said.map(|(key, it)| (key, without_nulls(it))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(key: &str, text: &str) -> Looked<Secret> {
        Ok(Some(
            serde_json::from_value(json!({"data": {key: BASE64_STANDARD.encode(text)}})).unwrap(),
        ))
    }

    fn config_map(key: &str, text: &str) -> Looked<ConfigMap> {
        Ok(Some(serde_json::from_value(json!({"data": {key: text}})).unwrap()))
    }

    fn nothing() -> Materials {
        Materials {
            config: Ok(None),
            cluster_info: Ok(None),
            root_ca: Ok(None),
            pull_secret: Ok(None),
        }
    }

    fn with(renderers: &[Renderer]) -> Options {
        Options {
            renderers: renderers.to_vec(),
            ..Options::default()
        }
    }

    const INFO: &str =
        "{clusters: [{name: '', cluster: {server: 'https://hub:6443', certificate-authority-data: Q0E=}}]}";

    #[test]
    fn the_secret_lies_over_what_upstream_begins_with() {
        let options = with(&[Renderer::FromConfigSecret]);
        let over = "klusterlet: {mode: Default, name: null}\nimages: {tag: v1}\n";
        let materials = Materials {
            config: secret(CONFIG_KEY, over),
            ..nothing()
        };
        let made = values(&options, "c1", &materials, "").unwrap();
        let wanted = json!({
            "replicaCount": 1, "createNamespace": true, "images": {"tag": "v1"}, "layout": "upstream",
            "klusterlet": {
                "create": true, "clusterName": "c1", "mode": "Default", "resourceRequirement": {"type": "Default"},
            },
        });
        assert_eq!(made, wanted);
        assert!(request_token(&options).is_empty());
    }

    #[test]
    fn a_secret_that_is_missing_or_empty_is_named() {
        let of = |config: Looked<Secret>, renderer: Renderer| {
            let materials = Materials { config, ..nothing() };
            values(&with(&[renderer]), "c1", &materials, "")
                .err()
                .unwrap_or_default()
        };
        let strict = Renderer::FromConfigSecret;
        assert!(of(Ok(None), strict).starts_with("Secret c1/cluster-import-config is not there"));
        assert_eq!(of(Ok(None), Renderer::FromConfigSecretIfThere), "");
        assert!(of(secret("other", "a: b"), strict).contains("has no values"));
        let said = of(secret(CONFIG_KEY, "token: [very-secret"), strict);
        assert!(said.contains("is no YAML") && !said.contains("very-secret"), "{said}");
        assert!(of(secret(CONFIG_KEY, "[]"), strict).contains("is no YAML"));
    }

    #[test]
    fn the_bootstrap_kubeconfig_leads_where_the_hub_says_it_is() {
        let of = |options: Options, materials: &Materials| {
            let made = values(&options, "c1", materials, "t0ken")?;
            let text = made["bootstrapHubKubeConfig"].as_str().unwrap().to_owned();
            let cluster = Kubeconfig::from_yaml(&text).unwrap().clusters[0]
                .cluster
                .clone()
                .unwrap();
            assert!(text.contains("t0ken"));
            let ca = cluster.certificate_authority_data.unwrap_or_default();
            Ok::<_, String>(format!("{} {ca}", cluster.server.unwrap()))
        };
        let auto = with(&[Renderer::Auto]);
        assert!(
            of(auto.clone(), &nothing())
                .unwrap_err()
                .contains("--hub-apiserver-url")
        );
        let told = Materials {
            cluster_info: config_map("kubeconfig", INFO),
            ..nothing()
        };
        assert_eq!(of(auto.clone(), &told).unwrap(), "https://hub:6443 Q0E=");
        let outside = Options {
            hub_apiserver_url: Some("https://outside".to_owned()),
            ..auto.clone()
        };
        assert_eq!(of(outside.clone(), &told).unwrap(), "https://outside Q0E=");
        let rooted = Materials {
            root_ca: config_map("ca.crt", "CA"),
            ..nothing()
        };
        assert_eq!(of(outside, &rooted).unwrap(), "https://outside Q0E=");
        let here = Options {
            hub_here: Some(("https://here".to_owned(), Some("CA".to_owned()))),
            ..auto.clone()
        };
        assert_eq!(of(here, &nothing()).unwrap(), "https://here Q0E=");
        let two = INFO.replace("}}]", "}}, {name: b, cluster: {server: 'https://b'}}]");
        let two = Materials {
            cluster_info: config_map("kubeconfig", &two),
            ..nothing()
        };
        assert!(of(auto, &two).unwrap_err().contains("names 2 clusters"));
    }

    #[test]
    fn the_image_and_what_it_is_pulled_with_are_said() {
        let options = Options {
            agent_image: Some("a/b:c".to_owned()),
            ..with(&[Renderer::Auto])
        };
        let materials = Materials {
            cluster_info: config_map("kubeconfig", INFO),
            pull_secret: secret(PULL_SECRET_KEY, "{}"),
            ..nothing()
        };
        let made = values(&options, "c1", &materials, "t").unwrap();
        let wanted = json!({
            "overrides": {"operatorImage": "a/b:c"},
            "imageCredentials": {"createImageCredentials": true, "dockerConfigJson": "{}"},
        });
        assert_eq!(made["images"], wanted);
    }

    #[test]
    fn a_token_for_a_day_is_asked_for() {
        let plan = request_token(&with(&[Renderer::FromConfigSecret, Renderer::Auto]));
        assert_eq!(
            plan.to_string().trim(),
            "hub: create token of ServiceAccount open-cluster-management/agent-registration-bootstrap"
        );
        assert!(format!("{plan:#}").contains("\"expirationSeconds\":86400"), "{plan:#}");
    }
}
