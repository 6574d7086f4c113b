//! The client: connections through a server.
//! Upstream: apiserver-network-proxy `konnectivity-client/pkg/client/client.go`.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};
use http::HeaderMap;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rand::RngExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::PollSender;

use crate::{
    grpc::{self, CONNECTION_WINDOW, FRAME_MAX, Receiving, STREAM_WINDOW, Sender, Sending},
    packet::{self, DialRequest, Packet, Payload},
};

/// A connection that is not there by then is not wanted any more.
const DIALLED_WITHIN: Duration = Duration::from_secs(30);
/// The longest piece that is sent at once.
const PIECE: usize = 64 << 10;
/// How long a silent connection to the server may be silent before it is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

type Packets = Pin<Box<dyn Stream<Item = io::Result<Packet>> + Send>>;

/// A way to a server, for many connections. Cloning shares it.
#[derive(Clone)]
pub struct Client {
    http: http2::SendRequest<Sending>,
}

impl Client {
    /// Speaks to a server over `io`, mostly a TLS connection with `h2` as its protocol.
    ///
    /// # Errors
    /// When the server does not speak HTTP/2.
    pub async fn connect(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> io::Result<Self> {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_MAX)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let (http, connection) = http.handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
        tokio::spawn(async move {
            // Those who use it are told by their streams.
            let _ = connection.await;
        });
        Ok(Self { http })
    }

    /// Whether the server is still there.
    pub fn is_open(&self) -> bool {
        !self.http.is_closed()
    }

    /// Opens a connection to `host:port` through the agent of the host.
    ///
    /// # Errors
    /// What the server or the agent says, such as `No agent available`.
    pub async fn dial(&self, address: &str) -> io::Result<TunnelStream> {
        let (sender, sending) = grpc::channel(false);
        let request = grpc::request("/ProxyService/Proxy", HeaderMap::new(), sending);
        let mut http = self.http.clone();
        http.ready().await.map_err(io::Error::other)?;
        // A server may answer only when it has something to say, so that the request is not waited for first.
        let answer = http.send_request(request);
        let packets = async move {
            let answer = answer.await.map_err(io::Error::other)?;
            if let Some(code) = answer.headers().get("grpc-status") {
                let code = code.to_str().unwrap_or("?");
                return Err(io::Error::other(format!("the tunnel's server refuses: status {code}")));
            }
            Ok(Receiving::new(answer.into_body()))
        };
        let packets = futures::stream::once(packets).flat_map(|it| match it {
            Ok(packets) => packets.left_stream(),
            Err(error) => futures::stream::once(std::future::ready(Err(error))).right_stream(),
        });
        TunnelStream::open(sender, Box::pin(packets), address).await
    }
}

/// A connection through the tunnel. When it is dropped, it is closed at the other end, too.
pub struct TunnelStream {
    id: i64,
    outgoing: PollSender<Packet>,
    incoming: Packets,
    /// What has come and was not read yet.
    pending: Bytes,
    ended: bool,
}

impl TunnelStream {
    /// Asks for a connection on a stream of messages of its own.
    pub(crate) async fn open(outgoing: Sender, mut incoming: Packets, address: &str) -> io::Result<Self> {
        let random = rand::rng().random::<i64>().saturating_abs();
        let request = Payload::DialRequest(DialRequest {
            protocol: "tcp".to_owned(),
            address: address.to_owned(),
            random,
        });
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the tunnel's server has gone");
        outgoing.send(request.into()).await.map_err(|_| gone())?;
        let answer = async {
            loop {
                match incoming.next().await.ok_or_else(gone)??.payload {
                    Some(Payload::DialResponse(answer)) if answer.random == random => return Ok(answer),
                    _ => {}
                }
            }
        };
        let answer: io::Result<_> = tokio::time::timeout(DIALLED_WITHIN, answer)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the tunnel did not answer in time"))?;
        let answer = answer?;
        if !answer.error.is_empty() {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, answer.error));
        }
        Ok(Self {
            id: answer.connect_id,
            outgoing: PollSender::new(outgoing),
            incoming,
            pending: Bytes::new(),
            ended: false,
        })
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.pending.is_empty() {
                let length = self.pending.len().min(buffer.remaining());
                buffer.put_slice(&self.pending[..length]);
                self.pending.advance(length);
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            match ready!(self.incoming.as_mut().poll_next(cx)) {
                Some(Ok(packet)) => match packet.payload {
                    Some(Payload::Data(data)) => self.pending = data.data,
                    Some(Payload::CloseResponse(closed)) => {
                        self.ended = true;
                        if !closed.error.is_empty() {
                            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, closed.error)));
                        }
                    }
                    _ => {}
                },
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Err(error));
                }
                None => {
                    self.ended = true;
                    let gone = "the tunnel's server has gone";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, gone)));
                }
            }
        }
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the tunnel's server has gone");
        ready!(self.outgoing.poll_reserve(cx)).map_err(gone)?;
        let length = data.len().min(PIECE);
        let piece = packet::data(self.id, Bytes::copy_from_slice(&data[..length]));
        self.outgoing.send_item(piece).map_err(gone)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The tunnel knows no half of a connection: its end is said when the stream is dropped.
        self.outgoing.abort_send();
        Poll::Ready(Ok(()))
    }
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        // Where there is no room for the word, the end of the stream says it.
        if let Some(sender) = self.outgoing.get_ref() {
            let _ = sender.try_send(packet::close(self.id));
        }
    }
}
