//! `exec`, `attach` and `portforward` of a pod: everything that is decided while it is HTTP still.
//! Upstream: pkg/registry/core/pod/rest/subresources.go and pkg/registry/core/pod/strategy.go.

use crate::{
    admission, authz,
    call::Call,
    identity::Attributes,
    pod_streams::{
        AttachOptions, ExecOptions, PodStreamError, PodStreams, StandardStreams,
        session::{self, Session, SessionHold},
        upgrade::{PortProtocol, UpgradeOffer},
    },
    respond::{self, Body},
    verbs::log,
};
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, Response};
use hyper::upgrade::OnUpgrade;
use kube_store::status::Status;
use serde_json::{Value, json};

/// How many ports one WebSocket may name: each has two channels, whose number is a byte.
const PORTS_MAX: usize = 127;
/// How many words one command may have, and how long they may be together. A request's line is bounded as well.
const WORDS_MAX: usize = 4096;

/// What a request brings besides what every call has.
pub struct Connection<'a> {
    pub headers: &'a HeaderMap,
    /// Takes the connection over; nobody's over HTTP/2, or within the process.
    pub upgrade: Option<OnUpgrade>,
    /// What was asked for, as authorization sees it.
    pub attributes: &'a Attributes,
}

/// The options in the query, as admission sees them.
fn options(call: &Call<'_>) -> Result<Value, Status> {
    let query = &call.query;
    let mut shown = json!({"apiVersion": "v1"});
    if call.subresource == "portforward" {
        shown["kind"] = "PodPortForwardOptions".into();
        let ports = ports(call)?;
        if !ports.is_empty() {
            shown["ports"] = ports.into();
        }
        return Ok(shown);
    }
    let is_exec = call.subresource == "exec";
    shown["kind"] = if is_exec { "PodExecOptions" } else { "PodAttachOptions" }.into();
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(name) {
            shown[name] = true.into();
        }
    }
    if let Some(it) = query.text("container") {
        shown["container"] = it.into();
    }
    let command: Vec<&str> = query.all("command").take(WORDS_MAX + 1).collect();
    if is_exec && !command.is_empty() {
        shown["command"] = command.into();
    }
    Ok(shown)
}

fn ports(call: &Call<'_>) -> Result<Vec<u16>, Status> {
    let texts = call.query.all("ports").flat_map(|it| it.split(','));
    let ports: Result<Vec<u16>, Status> = texts
        .filter(|it| !it.is_empty())
        .map(|it| match it.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(Status::bad_request(format!(
                "query parameter \"ports\" has {it:?}: must be a port"
            ))),
        })
        .collect();
    let ports = ports?;
    match ports.len() {
        0..=PORTS_MAX => Ok(ports),
        _ => Err(Status::bad_request(format!(
            "query parameter \"ports\" names more than {PORTS_MAX} ports"
        ))),
    }
}

fn stdio(options: &Value) -> Result<StandardStreams, Status> {
    let flag = |name: &str| options[name] == true;
    let mut stdio = StandardStreams {
        stdin: flag("stdin"),
        stdout: flag("stdout"),
        stderr: flag("stderr"),
        tty: flag("tty"),
    };
    // A terminal has one output.
    stdio.stderr &= !stdio.tty;
    if !stdio.stdin && !stdio.stdout && !stdio.stderr {
        return Err(Status::bad_request(
            "you must specify at least 1 of stdin, stdout, stderr",
        ));
    }
    Ok(stdio)
}

/// Who may look at a pod may not reach into it: a WebSocket begins with a GET, and since Kubernetes 1.35 whoever sends
/// it needs the right to create as well (feature gate `AuthorizePodWebsocketUpgradeCreatePermission`).
fn check_may_create(call: &Call<'_>, asked: &Attributes) -> Result<(), Status> {
    let attributes = Attributes {
        verb: "create".to_owned(),
        ..asked.clone()
    };
    match asked.verb == "create" || call.server.may(&call.user, &attributes) {
        true => Ok(()),
        false => Err(authz::forbidden(&call.user, &attributes)),
    }
}

/// Answers with a connection into the call's pod. `hold` makes what ends it when the rights for it end.
///
/// # Errors
/// 403 for who may not, 404 without the pod, 400 for what a kubelet refuses, 501 when nobody runs pods here.
pub async fn connect(
    call: &mut Call<'_>,
    connection: Connection<'_>,
    hold: impl FnOnce(&Call<'_>) -> BoxStream<'static, Bytes>,
) -> Result<Response<Body>, Status> {
    check_may_create(call, connection.attributes)?;
    let mut options = options(call)?;
    admission::connect(call, &mut options).await?;
    let pod = log::pod(call).await?;
    let name = call.name.clone();
    let container = options["container"].as_str().map(str::to_owned);
    if let Some(it) = container.as_ref().filter(|it| !log::has_container(&pod, it)) {
        let text = format!("container {it} is not valid for pod {name}");
        return Err(Status::bad_request(text));
    }
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let source = call.server.pod_streams.read().clone();
    let source = source.ok_or_else(|| {
        let text = format!(
            "pods/{} is not implemented: no node runs pods on this server",
            call.subresource
        );
        Status::new(501, "NotImplemented", text)
    })?;
    let offer = UpgradeOffer::of(connection.headers)?;
    let upgrade = connection.upgrade.ok_or_else(|| {
        Status::bad_request("unable to upgrade: this connection cannot be taken over, HTTP/1.1 over TLS can")
    })?;
    let Ok(permit) = call.server.pod_sessions.clone().try_acquire_owned() else {
        return Ok(respond::too_many_requests());
    };
    let prepared = prepare(call, &*source, &offer, &options, container).await;
    let (session, response) = match prepared.map_err(|error| refusal(call, error))? {
        Ok(it) => it,
        Err(refused) => return Ok(*refused),
    };
    let hold = SessionHold {
        stands: hold(call),
        permit,
    };
    tokio::spawn(session::run(upgrade, session, hold));
    Ok(response)
}

type Prepared = Result<(Session, Response<Body>), Box<Response<Body>>>;

/// What will be done, and in which protocol; or the answer of who offers none that is known.
async fn prepare(
    call: &Call<'_>,
    source: &dyn PodStreams,
    offer: &UpgradeOffer,
    options: &Value,
    container: Option<String>,
) -> Result<Prepared, ConnectError> {
    let (namespace, pod) = (&call.namespace, &call.name);
    if call.subresource == "portforward" {
        let (protocol, response) = match offer.ports() {
            Ok(it) => it,
            Err(refused) => return Ok(Err(refused)),
        };
        let asked = ports(call)?;
        if asked.is_empty() && matches!(protocol, PortProtocol::WebSocket(_)) {
            return Err(Status::bad_request("query parameter \"ports\" is required").into());
        }
        let session = Session::Ports {
            protocol,
            pod: pod.clone(),
            ports: source.ports(namespace, pod).await?,
            asked,
        };
        return Ok(Ok((session, response)));
    }
    let stdio = stdio(options)?;
    let (protocol, response) = match offer.process() {
        Ok(it) => it,
        Err(refused) => return Ok(Err(refused)),
    };
    let start = if call.subresource == "attach" {
        source
            .attach(namespace, pod, AttachOptions { container, stdio })
            .await?
    } else {
        let words = options["command"].as_array().into_iter().flatten();
        let command: Vec<String> = words.filter_map(|it| it.as_str().map(str::to_owned)).collect();
        if command.is_empty() || command.len() > WORDS_MAX {
            let text =
                format!("you must specify at least one command for the container, and at most {WORDS_MAX} words");
            return Err(Status::bad_request(text).into());
        }
        let options = ExecOptions {
            container,
            command,
            stdio,
        };
        source.exec(namespace, pod, options).await?
    };
    let session = Session::Process { protocol, stdio, start };
    Ok(Ok((session, response)))
}

enum ConnectError {
    Status(Status),
    Pod(PodStreamError),
}

impl From<Status> for ConnectError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<PodStreamError> for ConnectError {
    fn from(error: PodStreamError) -> Self {
        Self::Pod(error)
    }
}

fn refusal(call: &Call<'_>, error: ConnectError) -> Status {
    match error {
        ConnectError::Status(status) => status,
        ConnectError::Pod(PodStreamError::NotFound) => {
            Status::bad_request(format!("no node of this server runs pod {:?}", call.name))
        }
        ConnectError::Pod(PodStreamError::BadRequest(text)) => Status::bad_request(text),
        ConnectError::Pod(PodStreamError::Forbidden(text)) => Status::forbidden("pods", "", &call.name, text),
    }
}
