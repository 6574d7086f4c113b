//! The node of an embedded cluster: what makes its pods run.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use kube_api::pod_logs::{PodLogError, PodLogOptions, PodLogs};
use kube_node::{Command, ImageMap, LogError, LogOptions, Logs, Node, Options};
use tokio_util::sync::CancellationToken;

use crate::embedded::Embedded;

/// The image of the example add-ons, which this binary stands for, whatever the tag.
const OWN_IMAGE: &str = "quay.io/open-cluster-management/addon-examples";

/// How long pods may take to end when we stop. Whoever pressed Ctrl-C waits for it.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Reads `--node-image-map IMAGE=COMMAND`, so that a mistake is told before anything is started.
pub fn parse_mapping(text: &str) -> Result<String, String> {
    let checked = ImageMap::default().add(text);
    checked.map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// The commands that stand for images: our own, and what the user adds.
pub fn images(mappings: &[String]) -> Result<ImageMap> {
    let mut images = ImageMap::default();
    let program = std::env::current_exe().context("could not find the program that runs")?;
    let command = Command {
        words: vec![program.to_string_lossy().into_owned()],
        keeps_command: true,
    };
    images.insert(OWN_IMAGE, command);
    for mapping in mappings {
        images.add(mapping)?;
    }
    Ok(images)
}

/// Starts the node of a cluster; its pods have their files in `dir`.
pub async fn start(cluster: &Embedded, dir: PathBuf, images: ImageMap, stop: CancellationToken) -> Result<Node> {
    let address = cluster.address();
    let options = Options {
        name: cluster.name().to_owned(),
        dir,
        images,
        api_server: Some(kube_node::ApiServer {
            host: address.ip().to_string(),
            port: address.port(),
            ca_pem: cluster.ca().to_owned(),
        }),
        stop_grace: STOP_GRACE,
        workloads: true,
    };
    let user = format!("system:node:{}", cluster.name());
    let node = kube_node::start(cluster.client(&user), options, stop).await;
    let node = node.with_context(|| format!("could not start the node of {}", cluster.name()))?;
    cluster.set_pod_logs(Arc::new(NodeLogs(node.logs().clone())));
    Ok(node)
}

/// The node's logs, as the API server asks for them.
struct NodeLogs(Logs);

#[async_trait::async_trait]
impl PodLogs for NodeLogs {
    async fn open(
        &self,
        namespace: &str,
        pod: &str,
        options: PodLogOptions,
    ) -> Result<BoxStream<'static, Bytes>, PodLogError> {
        let options = LogOptions {
            container: options.container,
            follow: options.follow,
            previous: options.previous,
            since: options.since,
            timestamps: options.timestamps,
            tail_lines: options.tail_lines,
            limit_bytes: options.limit_bytes,
        };
        match self.0.read(namespace, pod, &options) {
            Ok(chunks) => Ok(chunks.boxed()),
            Err(LogError::NoPod(_)) => Err(PodLogError::NotFound),
            Err(LogError::Bad(text)) => Err(PodLogError::BadRequest(text)),
            Err(LogError::Io(text)) => Err(PodLogError::Internal(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_the_examples_is_this_binary_and_the_user_may_say_otherwise() {
        let own = format!("{OWN_IMAGE}:latest");
        let line = |images: &ImageMap, image: &str| {
            let command = ["/helloworld".to_owned(), "agent".to_owned()];
            images.find(image).and_then(|it| it.line(&command, &[]))
        };
        let found = line(&images(&[]).unwrap(), &own).unwrap();
        assert_eq!(found[1..], ["/helloworld", "agent"]);
        assert_eq!(found[0], std::env::current_exe().unwrap().to_string_lossy());
        let images = images(&["nginx=/bin/true".into(), format!("{own}=/bin/false")]).unwrap();
        assert_eq!(line(&images, &own).unwrap(), ["/bin/false", "agent"]);
        assert_eq!(line(&images, "nginx:1").unwrap(), ["/bin/true", "agent"]);
        assert!(parse_mapping("nginx").unwrap_err().contains("IMAGE=COMMAND"));
    }
}
