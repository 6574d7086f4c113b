//! One process whose streams are lanes: `exec` and `attach`.

use super::{ProcessStart, ProcessStreams, StandardStreams, TerminalSize, lanes::Lane};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use serde_json::{Value, json};
use std::{future::pending, pin::pin, time::Duration};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// What a process has written last is waited for so long after its end: one that it left behind may hold the pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Which protocol says how a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReport {
    /// A Status, since `v4`.
    Status,
    /// A sentence, and nothing when all is well.
    Text,
}

/// The lanes of one process.
pub struct ProcessLanes {
    pub error: Lane,
    pub stdin: Option<Lane>,
    pub stdout: Option<Lane>,
    pub stderr: Option<Lane>,
    pub resize: Option<Lane>,
}

/// The streams that a client opens for a process, by what they are called.
pub fn wanted(stdio: StandardStreams, resizes: bool) -> Vec<&'static str> {
    let all = [
        ("error", true),
        ("stdin", stdio.stdin),
        ("stdout", stdio.stdout),
        ("stderr", stdio.stderr),
        ("resize", stdio.tty && resizes),
    ];
    all.into_iter().filter(|it| it.1).map(|it| it.0).collect()
}

/// Connects a process with its lanes until it ends, and says how. Who drops this lets the process go.
pub async fn run(mut lanes: ProcessLanes, start: ProcessStart, report: EndReport) {
    let end = match start.await {
        Ok(process) => connect(&mut lanes, process).await,
        Err(text) => Err(text),
    };
    for lane in [&lanes.stdout, &lanes.stderr].into_iter().flatten() {
        lane.out.end().await;
    }
    if let Some(text) = said(&end, report) {
        lanes.error.out.send(text).await;
    }
    lanes.error.out.end().await;
    for lane in [&lanes.stdin, &lanes.resize].into_iter().flatten() {
        lane.out.end().await;
    }
}

async fn connect(lanes: &mut ProcessLanes, process: ProcessStreams) -> Result<i32, String> {
    let ProcessStreams {
        stdin,
        stdout,
        stderr,
        resize,
        end,
    } = process;
    let inputs = async {
        let typed = feed(lanes.stdin.as_mut(), stdin);
        let sized = async {
            let (Some(lane), Some(resize)) = (&mut lanes.resize, resize) else {
                return;
            };
            while let Some(piece) = lane.incoming.recv().await {
                if let Some(size) = last_size(&piece) {
                    resize(size);
                }
            }
        };
        tokio::join!(typed, sized);
        pending::<()>().await;
    };
    let outputs = async {
        tokio::join!(show(lanes.stdout.as_ref(), stdout), show(lanes.stderr.as_ref(), stderr));
    };
    let (mut inputs, mut outputs, mut end) = (pin!(inputs), pin!(outputs), end);
    let mut shown = false;
    let result = loop {
        tokio::select! {
            result = &mut end => break result,
            () = &mut inputs => {}
            () = &mut outputs, if !shown => shown = true,
        }
    };
    if !shown {
        let _ = tokio::time::timeout(LAST_WORDS, outputs).await;
    }
    result
}

/// What is typed goes in; the input ends with the lane.
async fn feed(lane: Option<&mut Lane>, stdin: Option<std::pin::Pin<Box<dyn AsyncWrite + Send>>>) {
    let (Some(lane), Some(mut stdin)) = (lane, stdin) else {
        return;
    };
    while let Some(piece) = lane.incoming.recv().await {
        // It does not want any more; what still comes is nobody's.
        if stdin.write_all(&piece).await.is_err() || stdin.flush().await.is_err() {
            return lane.incoming.close();
        }
    }
    let _ = stdin.shutdown().await;
}

async fn show(lane: Option<&Lane>, output: Option<BoxStream<'static, Bytes>>) {
    let Some(mut output) = output else { return };
    while let Some(piece) = output.next().await {
        // What nobody wants is read all the same, for the process would wait.
        if let Some(lane) = lane {
            lane.out.send(piece).await;
        }
    }
}

/// The last size in a piece, which may hold several.
fn last_size(piece: &[u8]) -> Option<TerminalSize> {
    serde_json::Deserializer::from_slice(piece)
        .into_iter::<TerminalSize>()
        .map_while(Result::ok)
        .last()
}

/// What goes to the error lane: kubelet pkg/cri/streaming/remotecommand/exec.go, and `v1WriteStatusFunc` for `Text`.
fn said(end: &Result<i32, String>, report: EndReport) -> Option<Bytes> {
    let status: Value = match end {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(text) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": format!("Internal error occurred: error executing command in container: {text}"),
            "details": {"causes": [{"message": format!("error executing command in container: {text}")}]},
        }),
    };
    match report {
        EndReport::Status => Some(status.to_string().into()),
        EndReport::Text if end == &Ok(0) => None,
        EndReport::Text => Some(status["message"].as_str().unwrap_or_default().to_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_told_as_a_kubelet_does() {
        let told =
            |end: &Result<i32, String>, report| said(end, report).map(|it| String::from_utf8(it.to_vec()).unwrap());
        assert_eq!(told(&Ok(0), EndReport::Text), None);
        assert_eq!(
            told(&Ok(3), EndReport::Text).as_deref(),
            Some("command terminated with non-zero exit code: exit status 3")
        );
        let status: Value = serde_json::from_str(&told(&Ok(3), EndReport::Status).unwrap()).unwrap();
        assert_eq!(status["reason"], "NonZeroExitCode");
        assert_eq!(
            status["details"]["causes"][0],
            json!({"reason": "ExitCode", "message": "3"})
        );
        let status: Value = serde_json::from_str(&told(&Err("no".into()), EndReport::Status).unwrap()).unwrap();
        assert_eq!(status["code"], 500);
    }

    #[test]
    fn the_last_of_several_terminal_sizes_counts() {
        let size = |text: &str| last_size(text.as_bytes()).map(|it| (it.width, it.height));
        assert_eq!(
            size("{\"Width\":80,\"Height\":24}\n{\"Width\":90,\"Height\":30}\n"),
            Some((90, 30))
        );
        assert_eq!(size("{\"Width\":80,\"Height\":-1}"), None);
        assert_eq!(size(""), None);
    }
}
