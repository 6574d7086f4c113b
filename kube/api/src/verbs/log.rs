//! `GET pods/NAME/log`: answered by whoever runs the pods, if anybody does.

use crate::{
    call::Call,
    pod_logs::{PodLogError, PodLogOptions},
    respond::{self, Body},
    verbs::get,
};
use http::Response;
use jiff::{SignedDuration, Timestamp};
use kube_store::status::Status;
use serde_json::Value;

/// The pod that the call names.
///
/// # Errors
/// 404 when there is none.
pub async fn pod(call: &Call<'_>) -> Result<Value, Status> {
    let bytes = get::get(call).await?;
    Ok(serde_json::from_slice(&bytes).expect("stored bytes are JSON"))
}

/// Whether a pod has a container of this name, of whatever sort.
pub fn has_container(pod: &Value, name: &str) -> bool {
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .filter_map(|it| pod["spec"][*it].as_array())
        .flatten()
        .any(|it| it["name"] == name)
}

fn options(call: &Call<'_>) -> Result<PodLogOptions, Status> {
    let number = |name: &str| match call.query.text(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(it) => Ok(Some(it)),
            Err(_) => Err(Status::bad_request(format!(
                "{name}: invalid value {text:?}: must be a whole number"
            ))),
        },
    };
    let since = match (call.query.text("sinceTime"), number("sinceSeconds")?) {
        (Some(_), Some(_)) => {
            return Err(Status::bad_request(
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ));
        }
        (Some(text), None) => {
            let at = text.parse();
            Some(at.map_err(|_| Status::bad_request(format!("sinceTime: invalid value {text:?}: must be a time")))?)
        }
        (None, Some(seconds)) => {
            let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            Some(call.now.checked_sub(seconds).unwrap_or(Timestamp::MIN))
        }
        (None, None) => None,
    };
    Ok(PodLogOptions {
        container: call.query.text("container").map(str::to_owned),
        follow: call.query.flag("follow"),
        previous: call.query.flag("previous"),
        since,
        timestamps: call.query.flag("timestamps"),
        tail_lines: number("tailLines")?.map(|it| usize::try_from(it).unwrap_or(usize::MAX)),
        limit_bytes: number("limitBytes")?,
    })
}

/// Answers the log of the call's pod.
///
/// # Errors
/// 404 without the pod, 400 for what a kubelet refuses, 501 when nobody runs pods here.
pub async fn log(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let options = options(call)?;
    let pod = pod(call).await?;
    if let Some(container) = options.container.as_ref().filter(|it| !has_container(&pod, it)) {
        return Err(Status::bad_request(format!(
            "container {container} is not valid for pod {}",
            call.name
        )));
    }
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        // It has not run anywhere, so it has said nothing.
        return Ok(respond::text(204, ""));
    }
    let source = call.server.pod_logs.read().clone();
    let source = source.ok_or_else(|| {
        Status::new(
            501,
            "NotImplemented",
            "pods/log is not implemented: no node runs pods on this server",
        )
    })?;
    let opened = source.open(&call.namespace, &call.name, options).await;
    let chunks = opened.map_err(|error| match error {
        PodLogError::NotFound => {
            let text = format!("no node of this server runs pod {:?}", call.name);
            Status::bad_request(text)
        }
        PodLogError::BadRequest(text) => Status::bad_request(text),
        PodLogError::Internal(text) => Status::internal(text),
    })?;
    let mut response = respond::text(200, "");
    *response.body_mut() = Body::Stream(chunks);
    Ok(response)
}
