//! What an administrator chooses for the importer.

use std::str::FromStr;

use ocm_api::namespaces;
use serde_json::{Value, json};

/// What an administrator can choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What makes the values of the klusterlet chart, one over the other (`--import-renderers`).
    pub renderers: Vec<Renderer>,
    /// Where clusters reach the hub's API server (`--hub-apiserver-url`), if that is not what ConfigMap
    /// kube-public/cluster-info says.
    pub hub_apiserver_url: Option<String>,
    /// Where this process reaches the hub's API server, and the CA that it trusts in PEM, where the hub does not say.
    pub hub_here: Option<(String, Option<String>)>,
    /// The image of the agent's operator (`--agent-image`).
    pub agent_image: Option<String>,
    /// The ServiceAccount, as namespace and name, whose tokens clusters join with (`--bootstrap-serviceaccount`).
    pub bootstrap_service_account: (String, String),
    /// The Secret, as namespace and name, that images are pulled with (`--image-pull-secret-name`).
    pub pull_secret: (String, String),
    /// Values of the klusterlet chart that lie under all others.
    pub values: Value,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            renderers: vec![Renderer::FromConfigSecret],
            hub_apiserver_url: None,
            hub_here: None,
            agent_image: None,
            bootstrap_service_account: (
                namespaces::OPERATOR.to_owned(),
                "agent-registration-bootstrap".to_owned(),
            ),
            pull_secret: (namespaces::HUB.to_owned(), namespaces::PULL_SECRET.to_owned()),
            values: json!({"layout": "upstream"}),
        }
    }
}

impl Options {
    /// Of a hub in one process: its clusters get an agent in one Deployment, and join with a token of the hub's unless
    /// a Secret says something else.
    pub fn compact() -> Self {
        Self {
            renderers: vec![Renderer::Auto, Renderer::FromConfigSecretIfThere],
            values: json!({"layout": "compact"}),
            ..Self::default()
        }
    }
}

/// What makes values of the klusterlet chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renderer {
    /// `render-auto`: a token for joining, where the hub is, the image, and what it is pulled with.
    Auto,
    /// `render-from-config-secret`: what the Secret `cluster-import-config` says, which must be there.
    FromConfigSecret,
    /// The same, if the Secret is there. Ours; no flag names it.
    FromConfigSecretIfThere,
}

impl FromStr for Renderer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "render-auto" => Ok(Self::Auto),
            "render-from-config-secret" => Ok(Self::FromConfigSecret),
            other => Err(format!(
                "unknown importer renderer {other}: there are render-auto and render-from-config-secret"
            )),
        }
    }
}

impl Renderer {
    /// Reads a list of renderers as the flag has them. An empty one is `render-auto`, as upstream has it.
    ///
    /// # Errors
    /// Names a renderer that there is not.
    pub fn list(names: &[String]) -> Result<Vec<Self>, String> {
        match names {
            [] => Ok(vec![Self::Auto]),
            names => names.iter().map(|it| it.trim().parse()).collect(),
        }
    }

    /// Whether it looks at the Secret `cluster-import-config`.
    pub fn reads_secret(self) -> bool {
        self != Self::Auto
    }
}

/// Reads `NAMESPACE/NAME`.
///
/// # Errors
/// When it is something else.
pub fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renderers_are_read_as_upstream_writes_them() {
        let list = |names: &[&str]| Renderer::list(&names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&[]), Ok(vec![Renderer::Auto]));
        let both = list(&["render-auto", "render-from-config-secret"]);
        assert_eq!(both, Ok(vec![Renderer::Auto, Renderer::FromConfigSecret]));
        assert!(
            list(&["render"])
                .unwrap_err()
                .starts_with("unknown importer renderer render:")
        );
        assert!(namespaced("a/b").is_ok() && namespaced("a").is_err() && namespaced("a/b/c").is_err());
    }
}
