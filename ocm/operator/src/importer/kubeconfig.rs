//! The kubeconfig of a stranger: who wrote it is an administrator of another cluster, so that it may name a server and
//! a credential, and nothing of the machine that we run on. No program is started for it, no file is opened, and what
//! it leads to has bounded time and answers of a bounded size.

use std::time::Duration;

use credential::{
    connection,
    kubeconfig::{self as checks, KubeconfigProblem},
};
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kube::{
    Client,
    client::Body,
    config::{Kubeconfig, KubeconfigError},
};
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

/// How long one request may take, its answer included.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The largest answer that is read: twice the largest object that an API server keeps.
const ANSWER_MAX: usize = 4 << 20;

/// Reads a kubeconfig, and keeps of it what its current context names. `from` is how sentences name it.
///
/// # Errors
/// What of it is wrong or not allowed, and what to do about it; never a word of its content.
pub fn read(text: &str, from: &str) -> Result<Kubeconfig, String> {
    let whole = Kubeconfig::from_yaml(text).map_err(|error| {
        // The parser's own text shows a part of what it has read, and that is secret.
        let place = match &error {
            KubeconfigError::Parse(error) => error.location(),
            _ => None,
        };
        let place = place.map(|at| format!(" (line {}, column {})", at.line(), at.column()));
        format!("{from} holds no kubeconfig{}", place.unwrap_or_default())
    })?;
    let current = |why: String| format!("{from} holds no usable kubeconfig: {why}");
    let (cluster_name, cluster, user) = checks::current(&whole).map_err(current)?;
    let server = cluster.server.as_deref().unwrap_or_default();
    if !server.starts_with("https://") {
        return Err(format!(
            "the kubeconfig in {from} names the server {server:?}: it must be an https URL"
        ));
    }
    let files = [
        ("certificate-authority", cluster.certificate_authority.as_ref()),
        (
            "client-certificate",
            user.as_ref().and_then(|it| it.client_certificate.as_ref()),
        ),
        ("client-key", user.as_ref().and_then(|it| it.client_key.as_ref())),
        ("tokenFile", user.as_ref().and_then(|it| it.token_file.as_ref())),
    ];
    if let Some((field, _)) = files
        .into_iter()
        .find(|(_, path)| path.is_some_and(|it| !it.is_empty()))
    {
        return Err(format!(
            "the kubeconfig in {from} names a file in {field}, which is not opened here: embed its content \
             (`kubectl config view --raw --flatten`)"
        ));
    }
    let runs = user
        .as_ref()
        .is_some_and(|it| it.exec.is_some() || it.auth_provider.is_some());
    if runs {
        return Err(format!(
            "the kubeconfig in {from} gets its credential from a program (exec or auth-provider), which is not started \
             here: put a token or a client certificate there"
        ));
    }
    let mut kept = Kubeconfig::default();
    let name = whole.current_context.clone().unwrap_or_default();
    let named = |it: &&str| !it.is_empty();
    kept.contexts = whole
        .contexts
        .into_iter()
        .filter(|it| it.name == name)
        .take(1)
        .collect();
    let user_name = kept.contexts.first().and_then(|it| it.context.as_ref()?.user.clone());
    let user_name = user_name.as_deref().filter(named).unwrap_or_default();
    kept.clusters = whole
        .clusters
        .into_iter()
        .filter(|it| it.name == cluster_name)
        .take(1)
        .collect();
    kept.auth_infos = whole
        .auth_infos
        .into_iter()
        .filter(|it| it.name == user_name)
        .take(1)
        .collect();
    kept.current_context = whole.current_context;
    Ok(kept)
}

/// A client of the server that a kubeconfig names, until `deadline`, and the server.
///
/// # Errors
/// Why the kubeconfig cannot be used.
pub async fn client(
    kubeconfig: Kubeconfig,
    from: &str,
    now: Timestamp,
    deadline: Instant,
) -> Result<(Client, String), String> {
    let sentence = |problem: KubeconfigProblem| problem.to_string();
    let loaded = checks::load(&format!("in {from}"), kubeconfig)
        .await
        .map_err(sentence)?;
    loaded.check(now).map_err(sentence)?;
    let mut config = loaded.config;
    config.connect_timeout = Some(CONNECT_MAX);
    let unusable = |error| format!("the kubeconfig in {from} cannot be used: {error}");
    let client = connection::client(&config).map_err(unusable)?;
    Ok((bounded(client, deadline), loaded.server))
}

/// What a failed request to a cluster means.
pub fn explain(server: &str, from: &str, error: &kube::Error) -> String {
    match checks::explain(server, error) {
        KubeconfigProblem::Unauthorized { .. } => {
            format!("{server} does not accept the credential in {from}: put a valid kubeconfig there")
        }
        KubeconfigProblem::Forbidden { why, .. } => {
            format!("{server} forbids it ({why}): put the kubeconfig of an administrator into {from}")
        }
        other => other.to_string(),
    }
}

/// The client, each of whose answers is read whole, is of a bounded size, and comes in time or not at all.
fn bounded(client: Client, deadline: Instant) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let until = deadline.min(Instant::now() + REQUEST_MAX);
            let answer = async {
                let (head, body) = client.send(request).await?.into_parts();
                let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
                Ok::<_, BoxError>(Response::from_parts(head, Body::from(body.to_vec())))
            };
            match timeout_at(until, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time").into()),
            }
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: b, context: {cluster: b, user: b}}, {name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://c.example:6443'}}, {name: b, cluster: {server: 'https://b.example'}}]
users: [{name: b, user: {exec: {command: sh}}}, {name: u, user: {token: t}}]
";

    fn refused(from: &str, to: &str) -> String {
        assert!(PLAIN.contains(from));
        read(&PLAIN.replace(from, to), "Secret c1/k").expect_err("it is refused")
    }

    #[test]
    fn only_what_the_current_context_names_is_kept() {
        let kept = read(PLAIN, "Secret c1/k").unwrap();
        assert_eq!(
            (kept.clusters.len(), kept.contexts.len(), kept.auth_infos.len()),
            (1, 1, 1)
        );
        assert_eq!(kept.auth_infos[0].name, "u");
    }

    #[test]
    fn programs_and_files_of_this_machine_are_refused() {
        for user in ["{exec: {command: sh}}", "{auth-provider: {name: gcp, config: {}}}"] {
            assert!(refused("{token: t}", user).contains("from a program"), "{user}");
        }
        for (user, field) in [
            ("{tokenFile: /t}", "tokenFile"),
            ("{client-certificate: /t, client-key-data: aa}", "client-certificate"),
            ("{client-certificate-data: aa, client-key: /t}", "client-key"),
        ] {
            assert!(
                refused("{token: t}", user).contains(&format!("names a file in {field},")),
                "{user}"
            );
        }
        let authority = "{server: 'https://c.example:6443', certificate-authority: /etc/passwd}";
        assert!(refused("{server: 'https://c.example:6443'}", authority).contains("certificate-authority"));
    }

    #[test]
    fn a_refusal_never_shows_the_content() {
        let said = read("clusters: [\n token: very-secret", "Secret c1/k").unwrap_err();
        assert!(
            said.starts_with("Secret c1/k holds no kubeconfig") && !said.contains("very-secret"),
            "{said}"
        );
        assert!(refused("https://c.example", "http://c.example").contains("must be an https URL"));
        assert!(refused("current-context: a", "current-context: z").contains("there is no context \"z\""));
    }
}
