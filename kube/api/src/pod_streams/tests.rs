//! Whole sessions over WebSocket, with a process that is a few futures.

use super::{
    ProcessStreams, StandardStreams,
    process::EndReport,
    session::{self, Session},
    upgrade::ProcessProtocol,
    web_socket::Coding,
};
use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt};
use serde_json::Value;
use tokio::{io::DuplexStream, sync::oneshot};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use tokio_util::io::ReaderStream;

const V5: Coding = Coding {
    is_base64: false,
    closes: true,
};

/// A client of a process that repeats its input and ends with 3; and what is told once the process was let go.
async fn repeating() -> (WebSocketStream<DuplexStream>, oneshot::Receiver<()>) {
    let (client, server) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::duplex(64);
    let (hold, let_go) = oneshot::channel::<()>();
    let start = async move {
        let (ended, until) = oneshot::channel();
        let mut ended = Some(ended);
        let output = ReaderStream::new(output).filter_map(|it| std::future::ready(it.ok()));
        let output = output.chain(futures::stream::poll_fn(move |_| {
            ended.take().map(|it| it.send(()));
            std::task::Poll::Ready(None)
        }));
        Ok(ProcessStreams {
            stdin: Some(Box::pin(input)),
            stdout: Some(output.boxed()),
            stderr: None,
            resize: None,
            end: async move {
                let _hold = hold;
                let _ = until.await;
                Ok(3)
            }
            .boxed(),
        })
    };
    let session = Session::Process {
        protocol: ProcessProtocol::WebSocket(V5, EndReport::Status),
        stdio: StandardStreams {
            stdin: true,
            stdout: true,
            ..StandardStreams::default()
        },
        start: start.boxed(),
    };
    tokio::spawn(session::serve(server, session));
    let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    (client, let_go)
}

async fn next(client: &mut WebSocketStream<DuplexStream>) -> Bytes {
    match client.next().await.unwrap().unwrap() {
        Message::Binary(bytes) => bytes,
        other => panic!("{other:?} came"),
    }
}

#[tokio::test]
async fn the_close_signal_of_v5_ends_the_input() {
    let (mut client, _) = repeating().await;
    client.send(Message::Binary(b"\x00hello"[..].into())).await.unwrap();
    assert_eq!(next(&mut client).await, &b"\x01hello"[..]);
    client.send(Message::Binary(b"\xff\x00"[..].into())).await.unwrap();
    let status = next(&mut client).await;
    assert_eq!(status[0], 3);
    let status: Value = serde_json::from_slice(&status[1..]).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "3");
    assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
}

#[tokio::test]
async fn a_process_is_let_go_when_its_client_disconnects() {
    let (mut client, let_go) = repeating().await;
    client.send(Message::Binary(b"\x00hello"[..].into())).await.unwrap();
    assert_eq!(next(&mut client).await, &b"\x01hello"[..]);
    drop(client);
    // The sender was dropped with the process.
    let_go.await.unwrap_err();
}

#[tokio::test]
async fn a_client_that_is_not_read_is_asked_whether_it_lives() {
    let (client, server) = tokio::io::duplex(1 << 20);
    let (hold, let_go) = oneshot::channel::<()>();
    // It reads nothing, and never ends.
    let (input, _unread) = tokio::io::duplex(64);
    let start = async move {
        Ok(ProcessStreams {
            stdin: Some(Box::pin(input)),
            stdout: None,
            stderr: None,
            resize: None,
            end: async move {
                let _hold = hold;
                std::future::pending().await
            }
            .boxed(),
        })
    };
    let session = Session::Process {
        protocol: ProcessProtocol::WebSocket(V5, EndReport::Status),
        stdio: StandardStreams {
            stdin: true,
            ..StandardStreams::default()
        },
        start: start.boxed(),
    };
    tokio::spawn(session::serve(server, session));
    let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    for _ in 0..32 {
        let typed = Bytes::from(vec![0; 1024]);
        client.send(Message::Binary(typed)).await.unwrap();
    }
    assert!(matches!(client.next().await, Some(Ok(Message::Ping(_)))));
    drop(client);
    let_go.await.unwrap_err();
}
