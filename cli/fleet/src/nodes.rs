//! The node of an embedded cluster: what makes its pods run.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use kube_api::{
    pod_logs::{PodLogError, PodLogOptions, PodLogs},
    pod_streams::{
        AttachOptions, ExecOptions, PodPorts, PodStreamError, PodStreams, ProcessStart, ProcessStreams,
        StandardStreams, TerminalSize,
    },
};
use kube_node::{
    Command, ImageMap, LogError, LogOptions, Logs, Node, Options, PodReach, ProcessRequest, ReachError, ReachStart,
    ReachedProcess, Then,
};
use tokio_util::sync::CancellationToken;

use crate::{bundled, embedded::Embedded, examples};

/// The image of the example add-ons, which this binary stands for, whatever the tag.
const OWN_IMAGE: &str = "quay.io/open-cluster-management/addon-examples";

/// The image of this binary, whatever the tag: hubs, agents, their operators, and add-ons.
const DROVER_IMAGE: &str = "drover";

/// Upstream's images of hubs, agents and their operators, which this binary stands for, whatever the tag.
const INSTALLED_IMAGES: [&str; 5] = [
    "quay.io/open-cluster-management/registration",
    "quay.io/open-cluster-management/work",
    "quay.io/open-cluster-management/placement",
    "quay.io/open-cluster-management/addon-manager",
    "quay.io/open-cluster-management/registration-operator",
];

/// What they are for: upstream's programs, and ours.
pub const PROGRAMS: [&str; 8] = [
    "registration",
    "work",
    "placement",
    "addon",
    "registration-operator",
    "operator",
    "hub",
    "agent",
];

/// The first word of what a node runs for these images; the pod's directory and the container's command follow. People
/// do not type it.
pub const IN_POD: &str = "--in-pod";

/// How long pods may take to end when we stop. Whoever pressed Ctrl-C waits for it.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Reads `--node-image-map IMAGE=COMMAND`, so that a mistake is told before anything is started.
pub fn parse_mapping(text: &str) -> Result<String, String> {
    let checked = ImageMap::default().add(text);
    checked.map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// The commands that stand for images: our own, and what the user adds. Nobody has asked for our own, and whoever may
/// make pods is not to have a shell by it: it runs the example add-ons, hubs, agents and their operators, confined to
/// the files of the pod, and nothing else of this binary.
pub fn images(mappings: &[String], git_folders: &[PathBuf]) -> Result<ImageMap> {
    let program = std::env::current_exe().context("could not find the program that runs")?;
    images_opening(&program, mappings, git_folders)
}

/// What is between an add-on's name and each of the folders that are open to it.
const OPENED: char = '\u{1f}';

/// The name of an add-on or [`IN_POD`], and the folders that are open to add-ons, of what [`images`] has put before a
/// pod's directory.
pub fn opened(word: &OsStr) -> (&OsStr, Vec<PathBuf>) {
    let Some(text) = word.to_str() else {
        return (word, Vec::new());
    };
    let mut parts = text.split(OPENED);
    let name = parts.next().unwrap_or_default();
    (OsStr::new(name), parts.map(PathBuf::from).collect())
}

/// The same, with another program in the place of the one that runs.
pub fn images_of(program: &Path, mappings: &[String]) -> Result<ImageMap> {
    images_opening(program, mappings, &[])
}

fn images_opening(program: &Path, mappings: &[String], git_folders: &[PathBuf]) -> Result<ImageMap> {
    let mut images = ImageMap::default();
    let command = |in_pod: &str, programs: BTreeSet<String>| Command {
        words: vec![program.to_string_lossy().into_owned(), in_pod.to_owned()],
        then: Then::OneOf(programs),
    };
    let opening = |word: &str| {
        let folders = git_folders.iter().map(|it| format!("{OPENED}{}", it.display()));
        word.to_owned() + &folders.collect::<String>()
    };
    let examples = examples::programs().iter().map(|it| it.name().to_owned()).collect();
    images.insert(OWN_IMAGE, command(examples::IN_POD, examples));
    for add_on in &bundled::ALL {
        let programs = add_on.programs.iter().map(|it| (*it).to_owned()).collect();
        let mut command = command(bundled::IN_POD, programs);
        command.words.push(match add_on.reads_git_folders {
            true => opening(add_on.name),
            false => add_on.name.to_owned(),
        });
        for image in add_on.images {
            images.insert(*image, command.clone());
        }
    }
    for image in INSTALLED_IMAGES {
        images.insert(image, command(IN_POD, PROGRAMS.map(str::to_owned).into()));
    }
    let all = PROGRAMS.into_iter().chain(bundled::programs_of_one());
    images.insert(
        DROVER_IMAGE,
        command(&opening(IN_POD), all.map(str::to_owned).collect()),
    );
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
    cluster.set_pod_streams(Arc::new(NodeStreams(node.reach().clone())));
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

/// The way into the node's pods, as the API server asks for it.
struct NodeStreams(PodReach);

fn reach_error(error: ReachError) -> PodStreamError {
    match error {
        ReachError::NoPod(_) => PodStreamError::NotFound,
        ReachError::Bad(text) => PodStreamError::BadRequest(text),
        ReachError::Refused(text) => PodStreamError::Forbidden(text),
    }
}

fn reach_request(container: Option<String>, stdio: StandardStreams) -> ProcessRequest {
    ProcessRequest {
        container,
        stdin: stdio.stdin,
        tty: stdio.tty,
    }
}

fn process_start(start: ReachStart) -> ProcessStart {
    Box::pin(async move {
        let ReachedProcess {
            stdin,
            stdout,
            stderr,
            resize,
            end,
        } = start.await?;
        let resize = resize.map(|it| Box::new(move |size: TerminalSize| it(size.width, size.height)) as _);
        Ok(ProcessStreams {
            stdin,
            stdout,
            stderr,
            resize,
            end,
        })
    })
}

#[async_trait::async_trait]
impl PodStreams for NodeStreams {
    async fn exec(&self, namespace: &str, pod: &str, options: ExecOptions) -> Result<ProcessStart, PodStreamError> {
        let request = reach_request(options.container, options.stdio);
        let start = self.0.exec(namespace, pod, &request, &options.command);
        start.map(process_start).map_err(reach_error)
    }

    async fn attach(&self, namespace: &str, pod: &str, options: AttachOptions) -> Result<ProcessStart, PodStreamError> {
        let request = reach_request(options.container, options.stdio);
        let start = self.0.attach(namespace, pod, &request);
        start.map(process_start).map_err(reach_error)
    }

    async fn ports(&self, namespace: &str, pod: &str) -> Result<PodPorts, PodStreamError> {
        let address = self.0.address(namespace, pod).map_err(reach_error)?;
        Ok(Arc::new(move |port| Box::pin(PodReach::connect(address, port))))
    }
}

#[cfg(test)]
mod tests {
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
        let ours = images(&[], &[]).unwrap();
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
        let installed = |image: &str, args: &[&str]| line(&ours, image, args).map(|it| it[1..].join(" "));
        let runs = |text: &str| Ok(format!("{IN_POD} /pod {text}"));
        assert_eq!(installed("drover:0.1.0", &["operator", "hub"]), runs("operator hub"));
        let work = "quay.io/open-cluster-management/work:v1.3.1";
        assert_eq!(installed(work, &["/work", "agent"]), runs("/work agent"));
        for others in [
            &["up"][..],
            &["kube", "up"],
            &["--node-image-map", "a=*"],
            &["helloworld"],
        ] {
            let refusal = installed("drover:0.1.0", others).unwrap_err();
            assert!(
                refusal.starts_with("the image stands for addon, agent, cert-policy-controller, "),
                "{refusal}"
            );
        }
        let msa = installed("drover:0.1.0", &["/msa", "manager"]);
        assert_eq!(msa, runs("/msa manager"));
        assert!(installed(work, &["/msa", "manager"]).is_err());
        let images = images(&["nginx=/bin/true *".into(), format!("{own}=/bin/false *")], &[]).unwrap();
        assert_eq!(line(&images, &own, &["version"]).unwrap(), ["/bin/false", "version"]);
        assert_eq!(line(&images, "nginx:1", &["agent"]).unwrap(), ["/bin/true", "agent"]);
        assert!(parse_mapping("nginx").unwrap_err().contains("IMAGE=COMMAND"));
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod reach_tests;
