//! What containers write, kept in files as a kubelet keeps them: a time, the stream, and the line.
//!
//! Each start of a container has a file of its own, bounded: the full one moves aside once and the one before is gone.

use bytes::{Bytes, BytesMut};
use futures::{Stream, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube_primitives::cache::Cache;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
};

/// The size at which a log moves aside; twice as much is kept.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// A longer line is written in parts, as container runtimes do.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// What is told to those who follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    lines: u64,
    rotations: u64,
    closed: bool,
}

/// Writes the log of one start of a container.
pub struct LogFile {
    path: PathBuf,
    inner: Mutex<(File, u64)>,
    progress: watch::Sender<Progress>,
}

fn path_of(pods: &Path, uid: &str, container: &str, start: i32) -> PathBuf {
    pods.join(uid).join("logs").join(container).join(format!("{start}.log"))
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

impl LogFile {
    fn create(path: PathBuf) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let file = File::options().create(true).append(true).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            path,
            inner: Mutex::new((file, size)),
            progress: watch::Sender::default(),
        })
    }

    /// Writes what a stream says until it ends; `hear` is shown it as it comes.
    pub async fn copy(
        self: Arc<Self>,
        name: &'static str,
        mut from: impl AsyncRead + Unpin,
        hear: impl Fn(&'static str, &[u8]) + Send,
    ) {
        let mut pending = BytesMut::with_capacity(4096);
        loop {
            let before = pending.len();
            let read = from.read_buf(&mut pending).await;
            hear(name, &pending[before..]);
            let ended = !matches!(read, Ok(count) if count > 0);
            let text = lines(&mut pending, name, ended, Timestamp::now());
            if !text.is_empty()
                && let Err(error) = self.write(&text)
            {
                // A full disk must not stop the container, which would block on a full pipe.
                tracing::debug!(%error, "could not write a log");
            }
            if ended {
                return;
            }
        }
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let mut rotated = false;
        if inner.1 > 0 && inner.1 + text.len() as u64 > FILE_BYTES_MAX {
            std::fs::rename(&self.path, aside(&self.path))?;
            *inner = (File::options().create(true).append(true).open(&self.path)?, 0);
            rotated = true;
        }
        inner.0.write_all(text)?;
        inner.1 += text.len() as u64;
        drop(inner);
        self.progress.send_modify(|it| {
            it.lines += 1;
            it.rotations += u64::from(rotated);
        });
        Ok(())
    }

    /// Nothing more will be written.
    pub fn close(&self) {
        self.progress.send_modify(|it| it.closed = true);
    }
}

/// Takes the whole lines off, and with `ended` the last one too, in the form `TIME STREAM F|P TEXT`.
fn lines(pending: &mut BytesMut, name: &str, ended: bool, now: Timestamp) -> Vec<u8> {
    let mut text = Vec::new();
    loop {
        let newline = pending.iter().take(LINE_BYTES_MAX).position(|it| *it == b'\n');
        let (line, tag) = match newline {
            Some(at) => {
                let line = pending.split_to(at + 1);
                (line.freeze().slice(..at), 'F')
            }
            None if pending.len() >= LINE_BYTES_MAX => (pending.split_to(LINE_BYTES_MAX).freeze(), 'P'),
            None if ended && !pending.is_empty() => (pending.split().freeze(), 'P'),
            None => return text,
        };
        text.extend_from_slice(format!("{now:.9} {name} {tag} ").as_bytes());
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
}

/// Which part of a log is wanted; the fields are those of `PodLogOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container; `None` for the only one.
    pub container: Option<String>,
    /// Go on as it grows.
    pub follow: bool,
    /// The start before the present one.
    pub previous: bool,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// Each line with its time.
    pub timestamps: bool,
    /// Only the last lines.
    pub tail_lines: Option<usize>,
    /// No more than this.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log; the text is what a kubelet answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// This node does not run the pod.
    #[error("pods {0:?} not found")]
    NoPod(String),
    /// The request cannot be answered as it is.
    #[error("{0}")]
    Bad(String),
    /// The file cannot be read.
    #[error("could not read the log: {0}")]
    Io(String),
}

struct Start {
    number: i32,
    progress: watch::Receiver<Progress>,
}

/// The logs of the pods of one node. Cloning shares it.
#[derive(Clone)]
pub struct Logs {
    inner: Arc<Inner>,
}

struct Inner {
    pods_dir: PathBuf,
    pods: Cache<Pod>,
    /// The last start of each container by the pod's uid and its name: statuses are a moment behind.
    starts: Mutex<HashMap<(String, String), Start>>,
}

impl Logs {
    pub(crate) fn new(pods_dir: PathBuf, pods: Cache<Pod>) -> Self {
        Self {
            inner: Arc::new(Inner {
                pods_dir,
                pods,
                starts: Mutex::default(),
            }),
        }
    }

    /// Begins the log of one start of a container; logs before the last one are removed.
    pub(crate) fn create(&self, uid: &str, container: &str, start: i32) -> io::Result<Arc<LogFile>> {
        let path = path_of(&self.inner.pods_dir, uid, container, start);
        let old = path_of(&self.inner.pods_dir, uid, container, start - 2);
        for it in [aside(&old), old] {
            let _ = std::fs::remove_file(it);
        }
        let file = Arc::new(LogFile::create(path)?);
        let began = Start {
            number: start,
            progress: file.progress.subscribe(),
        };
        let key = (uid.to_owned(), container.to_owned());
        self.inner.starts.lock().insert(key, began);
        Ok(file)
    }

    /// The pod is gone, and its logs with it.
    pub(crate) fn forget(&self, uid: &str) {
        self.inner.starts.lock().retain(|(it, _), _| it != uid);
    }

    /// The end of one log, without the times; no more than so many bytes.
    pub(crate) fn tail(&self, uid: &str, container: &str, start: i32, bytes: usize) -> Option<Vec<u8>> {
        let path = path_of(&self.inner.pods_dir, uid, container, start);
        let file = BufReader::new(File::open(path).ok()?);
        let mut text = Vec::new();
        for line in file.split(b'\n').map_while(Result::ok) {
            show(&[&line[..], b"\n"].concat(), &LogOptions::default(), &mut text);
        }
        Some(text.split_off(text.len().saturating_sub(bytes)))
    }

    /// The log of a container, as it is asked for.
    ///
    /// # Errors
    /// When the pod or the container has none; the text says why.
    pub fn read(
        &self,
        namespace: &str,
        pod: &str,
        options: &LogOptions,
    ) -> Result<impl Stream<Item = Bytes> + Send + 'static, LogError> {
        let found = self.inner.pods.get(namespace, pod);
        let found = found.ok_or_else(|| LogError::NoPod(pod.to_owned()))?;
        let uid = found.metadata.uid.clone().unwrap_or_default();
        let container = choose(&found, options.container.as_deref()).map_err(LogError::Bad)?;
        let key = (uid, container);
        let last = {
            let starts = self.inner.starts.lock();
            starts.get(&key).map(|it| (it.number, it.progress.clone()))
        };
        let (uid, container) = key;
        let start = match &last {
            Some((number, _)) if !options.previous => *number,
            // Statuses are a moment behind: who was started again has been started before.
            Some((number, _)) if *number > 0 => started(&found, &container, options.previous).unwrap_or(*number - 1),
            _ => started(&found, &container, options.previous)?,
        };
        let path = path_of(&self.inner.pods_dir, &uid, &container, start);
        let progress = last.filter(|(number, _)| *number == start).map(|(_, it)| it);
        let reader = Reader::open(&path, progress, options).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LogError::Bad(format!(
                "container {container:?} in pod {pod:?} has no log on this node any more"
            )),
            _ => LogError::Io(error.to_string()),
        })?;
        Ok(stream::unfold(reader, |mut reader| async move {
            let chunk = reader.next().await?;
            Some((chunk, reader))
        }))
    }
}

/// The container that is meant. The error is the sentence of a kubelet.
pub fn choose(pod: &Pod, asked: Option<&str>) -> Result<String, String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let main: Vec<&str> = spec.map_or(vec![], |it| it.containers.iter().map(|it| it.name.as_str()).collect());
    let init = spec.and_then(|it| it.init_containers.as_deref()).unwrap_or_default();
    let init: Vec<&str> = init.iter().map(|it| it.name.as_str()).collect();
    let annotations = pod.metadata.annotations.as_ref();
    let default = annotations.and_then(|it| it.get("kubectl.kubernetes.io/default-container"));
    let asked = asked.filter(|it| !it.is_empty());
    match asked.or(default.map(String::as_str)) {
        Some(it) if main.contains(&it) || init.contains(&it) => Ok(it.to_owned()),
        Some(it) => Err(format!("container {it} is not valid for pod {name}")),
        None if main.len() == 1 => Ok(main[0].to_owned()),
        None => {
            let init = if init.is_empty() {
                String::new()
            } else {
                format!(" or one of the init containers: [{}]", init.join(" "))
            };
            let all = main.join(" ");
            Err(format!(
                "a container name must be specified for pod {name}, choose one of: [{all}]{init}"
            ))
        }
    }
}

/// The number of the start that is meant, as the pod's status tells.
fn started(pod: &Pod, container: &str, previous: bool) -> Result<i32, LogError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref();
    let statuses = status.into_iter().flat_map(|it| {
        let init = it.init_container_statuses.iter().flatten();
        init.chain(it.container_statuses.iter().flatten())
    });
    let status = statuses.into_iter().find(|it| it.name == container);
    start_of(status, previous).ok_or_else(|| {
        LogError::Bad(if previous {
            format!("previous terminated container {container:?} in pod {name:?} not found")
        } else {
            let waiting = status.and_then(|it| it.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
            let reason = waiting.unwrap_or("ContainerCreating");
            format!("container {container:?} in pod {name:?} is waiting to start: {reason}")
        })
    })
}

/// The number of the start that is meant. A container that waits to be started again shows its last one.
fn start_of(status: Option<&ContainerStatus>, previous: bool) -> Option<i32> {
    let status = status?;
    let state = status.state.as_ref();
    let began = state.is_some_and(|it| it.running.is_some() || it.terminated.is_some());
    let ended = status.last_state.as_ref().is_some_and(|it| it.terminated.is_some());
    match (began, ended, previous) {
        (true, _, false) | (false, true, _) => Some(status.restart_count),
        (true, true, true) if status.restart_count > 0 => Some(status.restart_count - 1),
        _ => None,
    }
}

/// Reads one log, and goes on as it grows.
struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    older: Option<BufReader<File>>,
    progress: Option<watch::Receiver<Progress>>,
    rotations: u64,
    skip_lines: usize,
    left: Option<u64>,
    options: LogOptions,
    partial: Vec<u8>,
}

impl Reader {
    fn open(path: &Path, mut progress: Option<watch::Receiver<Progress>>, options: &LogOptions) -> io::Result<Self> {
        let rotations = progress.as_mut().map_or(0, |it| it.borrow_and_update().rotations);
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::new(File::open(path)?),
            older: File::open(aside(path)).ok().map(BufReader::new),
            progress: progress.filter(|_| options.follow),
            rotations,
            skip_lines: 0,
            left: options.limit_bytes,
            options: options.clone(),
            partial: Vec::new(),
        };
        if let Some(tail) = options.tail_lines {
            // Counted once and skipped then: a bounded file is read faster backwards only in theory.
            let older = File::open(aside(path)).ok().map(BufReader::new);
            let now = BufReader::new(File::open(path)?);
            let count = |it: BufReader<File>| it.split(b'\n').filter(Result::is_ok).count();
            let all = older.map_or(0, count) + count(now);
            reader.skip_lines = all.saturating_sub(tail);
        }
        Ok(reader)
    }

    /// The next piece of text; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.left == Some(0) {
                return None;
            }
            let closed = self.progress.as_mut().map(|it| it.borrow_and_update().closed);
            let chunk = self.chunk();
            if !chunk.is_empty() {
                return Some(chunk);
            }
            let rotations = self
                .progress
                .as_ref()
                .map_or(self.rotations, |it| it.borrow().rotations);
            if rotations != self.rotations {
                self.rotations = rotations;
                self.file = BufReader::new(File::open(&self.path).ok()?);
                continue;
            }
            match (&mut self.progress, closed) {
                (Some(progress), Some(false)) => {
                    // The writer is gone: one more look, for what it wrote last.
                    if progress.changed().await.is_err() {
                        self.progress = None;
                    }
                }
                _ => return None,
            }
        }
    }

    /// What can be read now, up to a reasonable size.
    fn chunk(&mut self) -> Bytes {
        let mut text = Vec::new();
        while text.len() < 64 * 1024 && self.left.is_none_or(|it| it > text.len() as u64) {
            let mut read = 0;
            if let Some(older) = &mut self.older {
                read = older.read_until(b'\n', &mut self.partial).unwrap_or_default();
                if read == 0 {
                    self.older = None;
                }
            }
            if read == 0 && self.file.read_until(b'\n', &mut self.partial).unwrap_or_default() == 0 {
                break;
            }
            if self.partial.last() != Some(&b'\n') {
                break;
            }
            let line = std::mem::take(&mut self.partial);
            if self.skip_lines > 0 {
                self.skip_lines -= 1;
                continue;
            }
            show(&line, &self.options, &mut text);
        }
        if let Some(left) = &mut self.left {
            text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= text.len() as u64;
        }
        text.into()
    }
}

/// One line of the file as it is asked for.
fn show(line: &[u8], options: &LogOptions, text: &mut Vec<u8>) {
    let mut parts = line.splitn(4, |it| *it == b' ');
    let (Some(time), Some(_), Some(tag), Some(rest)) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return;
    };
    if let Some(since) = options.since {
        let at = std::str::from_utf8(time)
            .ok()
            .and_then(|it| it.parse::<Timestamp>().ok());
        if at.is_none_or(|it| it < since) {
            return;
        }
    }
    if options.timestamps {
        text.extend_from_slice(time);
        text.push(b' ');
    }
    let partial = tag == b"P";
    text.extend_from_slice(if partial { &rest[..rest.len() - 1] } else { rest });
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn log_lines_have_a_timestamp_and_partial_lines_a_mark() {
        let mut pending = BytesMut::from(&b"one\ntwo"[..]);
        let text = lines(&mut pending, "stdout", false, at(0));
        assert_eq!(text, b"1970-01-01T00:00:00.000000000Z stdout F one\n");
        assert_eq!(&pending[..], b"two");
        let text = lines(&mut pending, "stderr", true, at(1));
        assert_eq!(text, b"1970-01-01T00:00:01.000000000Z stderr P two\n");
        let mut long = BytesMut::from(&vec![b'x'; LINE_BYTES_MAX + 1][..]);
        assert_eq!(lines(&mut long, "stdout", false, at(0)).len(), LINE_BYTES_MAX + 41);
        assert_eq!(long.len(), 1);
    }

    async fn read(path: &Path, options: LogOptions) -> String {
        let mut reader = Reader::open(path, None, &options).unwrap();
        let mut text = Vec::new();
        while let Some(chunk) = reader.next().await {
            text.extend_from_slice(&chunk);
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_log_is_read_according_to_its_options() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let file = LogFile::create(path.clone()).unwrap();
        for (second, line) in [(10, "a"), (20, "b"), (30, "c")] {
            let mut pending = BytesMut::from(format!("{line}\n").as_bytes());
            file.write(&lines(&mut pending, "stdout", false, at(second))).unwrap();
        }
        let all = LogOptions::default();
        assert_eq!(read(&path, all.clone()).await, "a\nb\nc\n");
        let tail = LogOptions {
            tail_lines: Some(2),
            ..all.clone()
        };
        assert_eq!(read(&path, tail).await, "b\nc\n");
        let since = LogOptions {
            since: Some(at(30)),
            timestamps: true,
            ..all.clone()
        };
        assert_eq!(read(&path, since).await, "1970-01-01T00:00:30.000000000Z c\n");
        let limited = LogOptions {
            limit_bytes: Some(3),
            ..all
        };
        assert_eq!(read(&path, limited).await, "a\nb");
    }

    #[tokio::test]
    async fn a_log_follower_reads_until_the_end_across_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let file = Arc::new(LogFile::create(path.clone()).unwrap());
        let options = LogOptions {
            follow: true,
            ..LogOptions::default()
        };
        let reader = Reader::open(&path, Some(file.progress.subscribe()), &options).unwrap();
        let chunks = stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) });
        let mut chunks = Box::pin(chunks);
        let say = |line: &[u8]| {
            file.write(&lines(&mut BytesMut::from(line), "stdout", false, at(0)))
                .unwrap()
        };
        say(b"first\n");
        assert_eq!(&chunks.next().await.unwrap()[..], b"first\n");
        file.inner.lock().1 = FILE_BYTES_MAX;
        say(b"second\n");
        assert_eq!(&chunks.next().await.unwrap()[..], b"second\n");
        file.close();
        assert_eq!(chunks.next().await, None);
        assert_eq!(read(&path, LogOptions::default()).await, "first\nsecond\n");
    }
}
