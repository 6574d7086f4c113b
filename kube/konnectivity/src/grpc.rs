//! gRPC as far as the tunnel needs it: streams of messages in both directions over HTTP/2.
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::Stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint},
};
use tokio::sync::mpsc;

use crate::packet::{ConnectionData, Packet, Payload};

/// Messages that wait until HTTP/2 has room for them. More wait with their sender.
const QUEUE: usize = 16;
/// A message that is longer is none of the tunnel's; gRPC's own limit.
const MESSAGE_MAX: usize = 4 << 20;
/// The tags of the bytes of a connection, and of what has them, in a packet.
const DATA_OF_CONNECTION: u32 = 3;
const DATA_OF_PACKET: u32 = 4;
/// In front of each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// What HTTP/2 may send before it is told of room, for a stream and for a connection. Large for throughput: memory is
/// used only as far as somebody does not read.
pub const STREAM_WINDOW: u32 = 1 << 20;
/// The same for all streams of a connection.
pub const CONNECTION_WINDOW: u32 = 8 << 20;
/// The longest frame that is received.
pub const FRAME_MAX: u32 = 256 << 10;

/// Sends messages on a stream. Cloning shares the stream, which ends when the last of them is dropped.
pub type Sender = mpsc::Sender<Packet>;

/// A message as it goes over the wire, in two parts: bytes of a connection are not copied behind what stands before
/// them, because they are the last field.
fn encode(packet: Packet) -> (Bytes, Bytes) {
    let Packet {
        kind,
        payload: Some(Payload::Data(data)),
    } = packet
    else {
        let length = packet.encoded_len();
        let mut bytes = prefixed(length, length);
        // There is room for all of it.
        let _ = packet.encode(&mut bytes);
        return (bytes.freeze(), Bytes::new());
    };
    let ConnectionData {
        connect_id,
        error,
        data,
    } = data;
    let of_data = ConnectionData {
        connect_id,
        error,
        data: Bytes::new(),
    };
    let mut inner = of_data.encode_to_vec();
    if !data.is_empty() {
        encode_key(DATA_OF_CONNECTION, WireType::LengthDelimited, &mut inner);
        encode_varint(data.len() as u64, &mut inner);
    }
    let mut outer = Packet { kind, payload: None }.encode_to_vec();
    encode_key(DATA_OF_PACKET, WireType::LengthDelimited, &mut outer);
    encode_varint((inner.len() + data.len()) as u64, &mut outer);
    let head = outer.len() + inner.len();
    let mut bytes = prefixed(head + data.len(), head);
    bytes.extend_from_slice(&outer);
    bytes.extend_from_slice(&inner);
    (bytes.freeze(), data)
}

/// The prefix of a message of this length, and room for so much of it.
fn prefixed(length: usize, room: usize) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(PREFIX + room);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes
}

/// A stream to send on, and the body that it is.
pub fn channel(trailers: bool) -> (Sender, Sending) {
    let (sender, messages) = mpsc::channel(QUEUE);
    let sending = Sending {
        messages,
        rest: Bytes::new(),
        trailers,
    };
    (sender, sending)
}

/// The body of a stream of messages that we send.
pub struct Sending {
    messages: mpsc::Receiver<Packet>,
    /// Of the message whose beginning has gone.
    rest: Bytes,
    /// Whether a status follows, which a server sends.
    trailers: bool,
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(Frame::data(rest))));
        }
        if let Some(packet) = ready!(self.messages.poll_recv(cx)) {
            let (message, rest) = encode(packet);
            self.rest = rest;
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if std::mem::take(&mut self.trailers) {
            return Poll::Ready(Some(Ok(Frame::trailers(status(0, "")))));
        }
        Poll::Ready(None)
    }
}

/// Messages that we receive.
pub struct Receiving {
    body: Incoming,
    pending: BytesMut,
    ended: bool,
}

impl Receiving {
    /// Of this body.
    pub fn new(body: Incoming) -> Self {
        Self {
            body,
            pending: BytesMut::new(),
            ended: false,
        }
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// When the connection is broken, and when what comes is no message.
    pub async fn next(&mut self) -> Option<io::Result<Packet>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// A whole message, if there is one.
    fn take(&mut self) -> Option<io::Result<Packet>> {
        if self.pending.len() < PREFIX {
            return None;
        }
        let mut prefix = &self.pending[..PREFIX];
        let compressed = prefix.get_u8();
        let length = prefix.get_u32() as usize;
        if compressed != 0 {
            return Some(Err(invalid("a message is compressed, which was not agreed upon")));
        }
        if length > MESSAGE_MAX {
            return Some(Err(invalid("a message is longer than 4 MiB")));
        }
        if self.pending.len() < PREFIX + length {
            self.pending.reserve(PREFIX + length - self.pending.len());
            return None;
        }
        self.pending.advance(PREFIX);
        let message = self.pending.split_to(length).freeze();
        Some(Packet::decode(message).map_err(|error| invalid(&error.to_string())))
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

impl Stream for Receiving {
    type Item = io::Result<Packet>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Packet>>> {
        loop {
            if let Some(message) = self.take() {
                return Poll::Ready(Some(message));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                None => self.ended = true,
            }
        }
    }
}

/// A request that opens a stream of messages.
pub fn request(path: &str, headers: HeaderMap, body: Sending) -> Request<Sending> {
    let mut request = Request::new(body);
    *request.method_mut() = http::Method::POST;
    // The authority stands for nobody: whoever is spoken to is known by his certificate.
    *request.uri_mut() = format!("https://konnectivity{path}").parse().unwrap_or_default();
    *request.headers_mut() = headers;
    let headers = request.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
    request
}

/// An answer with a stream of messages.
pub fn response(headers: HeaderMap, body: Sending) -> Response<Sending> {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    let content = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, content);
    response
}

/// An answer without a stream: what is wrong with the request.
pub fn refusal(code: u32, why: &str) -> Response<Sending> {
    let (_, body) = channel(false);
    response(status(code, why), body)
}

fn status(code: u32, why: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", code.into());
    if let Ok(why) = HeaderValue::from_str(why)
        && !why.is_empty()
    {
        headers.insert("grpc-message", why);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;

    #[test]
    fn two_parts_are_the_message_as_it_is() {
        let error = ConnectionData {
            connect_id: 300,
            error: "why".to_owned(),
            data: Bytes::from(vec![7; 70_000]),
        };
        for packet in [
            packet::data(1, Bytes::from_static(b"hello")),
            packet::data(0, Bytes::new()),
            Payload::Data(error).into(),
            packet::closed(5, "gone"),
        ] {
            let (head, rest) = encode(packet.clone());
            let whole = [head, rest].concat();
            assert_eq!(whole[PREFIX..], packet.encode_to_vec());
            assert_eq!(
                whole[1..PREFIX],
                u32::try_from(packet.encoded_len()).unwrap().to_be_bytes()
            );
        }
    }
}
