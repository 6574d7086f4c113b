//! The node of an embedded cluster: what makes its pods run.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use kube_api::pod_logs::{PodLogError, PodLogOptions, PodLogs};
use kube_node::{Command, ImageMap, LogError, LogOptions, Logs, Node, Options, Then};
use tokio_util::sync::CancellationToken;

use crate::{embedded::Embedded, examples};

/// The image of the example add-ons, which this binary stands for, whatever the tag.
const OWN_IMAGE: &str = "quay.io/open-cluster-management/addon-examples";

/// How long pods may take to end when we stop. Whoever pressed Ctrl-C waits for it.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Reads `--node-image-map IMAGE=COMMAND`, so that a mistake is told before anything is started.
pub fn parse_mapping(text: &str) -> Result<String, String> {
    let checked = ImageMap::default().add(text);
    checked.map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// The commands that stand for images: our own, and what the user adds. Nobody has asked for our own, and whoever may
/// make pods is not to have a shell by it: it runs the example add-ons and nothing else of this binary.
pub fn images(mappings: &[String]) -> Result<ImageMap> {
    let mut images = ImageMap::default();
    let program = std::env::current_exe().context("could not find the program that runs")?;
    let command = Command {
        words: vec![program.to_string_lossy().into_owned(), examples::IN_POD.to_owned()],
        then: Then::OneOf(examples::programs().iter().map(|it| it.name().to_owned()).collect()),
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

/// The same, unless there are no images, because nobody wants a node.
pub async fn start_some(
    cluster: &Embedded,
    dir: PathBuf,
    images: Option<ImageMap>,
    stop: CancellationToken,
) -> Result<Option<Node>> {
    match images {
        Some(images) => start(cluster, dir, images, stop).await.map(Some),
        None => Ok(None),
    }
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
    use std::path::Path;

    use super::*;

    #[test]
    fn example_images_run_this_binary_unless_the_user_maps_them() {
        let own = format!("{OWN_IMAGE}:latest");
        let line = |images: &ImageMap, image: &str, args: &[&str]| {
            let args: Vec<_> = args.iter().map(|it| (*it).to_owned()).collect();
            let command = images.find(image).unwrap();
            command
                .line(&[], &args, Path::new("/pod"))
                .map_err(|error| error.to_string())
        };
        let ours = images(&[]).unwrap();
        let found = line(&ours, &own, &["/helloworld", "agent"]).unwrap();
        assert_eq!(found[1..], [examples::IN_POD, "/pod", "/helloworld", "agent"]);
        assert_eq!(found[0], std::env::current_exe().unwrap().to_string_lossy());
        for others in [
            &["version"][..],
            &["kube", "up"],
            &[examples::IN_POD, "/", "/helloworld"],
        ] {
            let refusal = line(&ours, &own, others).unwrap_err();
            assert!(
                refusal.starts_with("the image stands for helloworld, helloworldhelm, helloworldhosted only"),
                "{refusal}"
            );
        }
        let images = images(&["nginx=/bin/true *".into(), format!("{own}=/bin/false *")]).unwrap();
        assert_eq!(line(&images, &own, &["version"]).unwrap(), ["/bin/false", "version"]);
        assert_eq!(line(&images, "nginx:1", &["agent"]).unwrap(), ["/bin/true", "agent"]);
        assert!(parse_mapping("nginx").unwrap_err().contains("IMAGE=COMMAND"));
    }
}
