//! A kubeconfig in a Secret, read so that who may write the Secret cannot make the operator run a command or read a
//! file of its own.
//! Upstream: ocm `pkg/operator/helpers/helpers.go`, `LoadClientConfigFromSecret`. We differ in this: `exec`,
//! `auth-provider` and names of files are refused.

use base64::{Engine, prelude::BASE64_STANDARD};
use credential::{
    Loaded,
    connection::{self, ConnectionError},
    kubeconfig::{self, KubeconfigProblem},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};

const KUBECONFIG: &str = "kubeconfig";

/// Why a Secret's kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretProblem {
    /// The key is not there.
    #[error("it has no key kubeconfig: put the kubeconfig there")]
    NoKey,
    /// It is not what a Secret may hold.
    #[error("{0}")]
    Refused(String),
    /// It is no usable kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigProblem),
    /// There is no way to connect with it.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// An API server that a Secret leads to.
#[derive(Clone)]
pub struct Reached {
    /// Speaks to it.
    pub client: Client,
    /// Its address, as written.
    pub server: String,
    /// How it is reached.
    pub cluster: Cluster,
}

/// Connects to the API server that the Secret's kubeconfig leads to; nothing is sent yet.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn reach(secret: &Secret) -> Result<Reached, SecretProblem> {
    let kubeconfig = read(secret)?;
    let (_, cluster, _) = kubeconfig::current(&kubeconfig).map_err(SecretProblem::Refused)?;
    let Loaded { config, server, .. } = kubeconfig::load(&name(secret), kubeconfig).await?;
    let client = connection::client(&config)?;
    Ok(Reached {
        client,
        server,
        cluster,
    })
}

fn name(secret: &Secret) -> String {
    let metadata = &secret.metadata;
    let part = |it: &Option<String>| it.clone().unwrap_or_default();
    format!("in Secret {}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// The kubeconfig of a Secret, of which nothing is left but its current context, with what the Secret holds in place of
/// the files that it names.
///
/// # Errors
/// When there is none, or when using it would run a command or read a file.
pub fn read(secret: &Secret) -> Result<Kubeconfig, SecretProblem> {
    let data = |key: &str| secret.data.as_ref()?.get(key).map(|it| it.0.as_slice());
    let text = data(KUBECONFIG).ok_or(SecretProblem::NoKey)?;
    let malformed = |why: String| KubeconfigProblem::Malformed {
        path: name(secret),
        why,
    };
    let text = std::str::from_utf8(text).map_err(|error| malformed(error.to_string()))?;
    let all = Kubeconfig::from_yaml(text).map_err(|error| malformed(first_line(&error.to_string())))?;
    let (cluster_name, cluster, user) = kubeconfig::current(&all).map_err(|why| KubeconfigProblem::NoContext {
        path: name(secret),
        why,
    })?;
    let cluster = checked_cluster(cluster).map_err(SecretProblem::Refused)?;
    let user = user.map(|it| checked_user(it, data)).transpose();
    Ok(only(cluster_name, cluster, user.map_err(SecretProblem::Refused)?))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn checked_cluster(cluster: Cluster) -> Result<Cluster, String> {
    match some(&cluster.certificate_authority) {
        Some(_) if some(&cluster.certificate_authority_data).is_some() => Ok(Cluster {
            certificate_authority: None,
            ..cluster
        }),
        Some(file) => Err(format!(
            "its kubeconfig names the file certificate-authority {file}: embed it as certificate-authority-data"
        )),
        None => Ok(cluster),
    }
}

fn checked_user<'a>(mut user: AuthInfo, data: impl Fn(&str) -> Option<&'a [u8]>) -> Result<AuthInfo, String> {
    for (field, is_there) in [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
    ] {
        if is_there {
            return Err(format!(
                "its kubeconfig has {field}, which would run here: use a token or a client certificate"
            ));
        }
    }
    let encoded = |key: &str| data(key).map(|it| BASE64_STANDARD.encode(it));
    if some(&user.client_certificate_data).is_none()
        && let Some(certificate) = encoded("tls.crt")
    {
        user.client_certificate_data = Some(certificate);
    }
    if user.client_key_data.is_none()
        && let Some(key) = encoded("tls.key")
    {
        user.client_key_data = Some(key.into());
    }
    if user.token.is_none() && some(&user.token_file).is_some() {
        let token = data("token").and_then(|it| std::str::from_utf8(it).ok());
        user.token = token.map(|it| it.to_owned().into());
    }
    for (field, file, embedded) in [
        (
            "client-certificate",
            &user.client_certificate,
            user.client_certificate_data.is_some(),
        ),
        ("client-key", &user.client_key, user.client_key_data.is_some()),
        ("tokenFile", &user.token_file, user.token.is_some()),
    ] {
        if let Some(file) = some(file).filter(|_| !embedded) {
            return Err(format!(
                "its kubeconfig names the file {field} {file}, which the Secret does not hold: embed it"
            ));
        }
    }
    Ok(AuthInfo {
        client_certificate: None,
        client_key: None,
        token_file: None,
        ..user
    })
}

fn only(cluster_name: String, cluster: Cluster, user: Option<AuthInfo>) -> Kubeconfig {
    const NAME: &str = "current";
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: cluster_name.clone(),
            cluster: Some(cluster),
            other: Default::default(),
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(user.unwrap_or_default()),
            other: Default::default(),
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(Context {
                cluster: cluster_name,
                user: Some(NAME.to_owned()),
                ..Context::default()
            }),
            other: Default::default(),
        }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    }
}

fn some(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|it| !it.is_empty())
}
