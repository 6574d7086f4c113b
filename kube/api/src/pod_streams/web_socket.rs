//! Lanes over WebSocket, as Kubernetes numbers them: the first byte of a message is its channel; in the `base64`
//! protocols messages are text, a digit and then base64.
//! Upstream: apimachinery pkg/util/remotecommand/constants.go and apiserver pkg/util/wsstream; `v5` adds that the client
//! closes a channel, with a message on channel 255.

use super::lanes::{self, Inlet, Outbound, Outgoing};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use futures::{Sink, SinkExt, Stream, StreamExt, stream::SplitStream};
use std::{collections::HashMap, io, pin::pin};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// The longest message. `kubectl` sends 32 KiB, and what tunnels something whatever it was given at once.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The channel on which `v5` closes others.
const CLOSE_CHANNEL: u8 = 255;

/// How messages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// Text with base64 in it.
    pub is_base64: bool,
    /// Whether the client closes channels.
    pub closes: bool,
}

/// The WebSocket in an upgraded connection.
pub async fn accept<T: AsyncRead + AsyncWrite + Unpin>(io: T) -> WebSocketStream<T> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

fn io_error(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Reads messages until the client ends the connection, and hands them to the lanes that there are.
///
/// # Errors
/// When what comes is no WebSocket, or not within its bounds.
pub async fn read<T>(
    mut from: SplitStream<WebSocketStream<T>>,
    coding: Coding,
    mut inlets: HashMap<u8, Inlet>,
    out: Outgoing,
) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = from.next().await {
        let decoded = match message.map_err(io_error)? {
            Message::Binary(bytes) if coding.is_base64 => text(&bytes),
            Message::Text(it) if coding.is_base64 => text(it.as_bytes()),
            Message::Binary(bytes) => binary(bytes),
            Message::Text(it) => binary(it.into()),
            Message::Close(_) => return Ok(()),
            _ => continue,
        };
        // An empty message has no channel, and says nothing.
        let Some((channel, bytes)) = decoded else { continue };
        if coding.closes && channel == CLOSE_CHANNEL {
            bytes.first().map(|it| inlets.remove(it));
        } else if let Some(inlet) = inlets.get(&channel)
            && !bytes.is_empty()
            && !lanes::put(inlet, bytes, &out).await
        {
            inlets.remove(&channel);
        }
    }
    Ok(())
}

fn binary(mut bytes: Bytes) -> Option<(u8, Bytes)> {
    let channel = *bytes.first()?;
    Some((channel, bytes.split_off(1)))
}

fn text(bytes: &[u8]) -> Option<(u8, Bytes)> {
    let (digit, rest) = bytes.split_first()?;
    let channel = char::from(*digit).to_digit(10)?;
    let decoded = BASE64_STANDARD.decode(rest).ok()?;
    Some((u8::try_from(channel).ok()?, decoded.into()))
}

fn message(channel: u8, bytes: &Bytes, coding: Coding) -> Message {
    if coding.is_base64 {
        let mut text = channel.to_string();
        BASE64_STANDARD.encode_string(bytes, &mut text);
        return Message::text(text);
    }
    let mut whole = BytesMut::with_capacity(bytes.len() + 1);
    whole.put_u8(channel);
    whole.put_slice(bytes);
    Message::Binary(whole.freeze())
}

/// Writes what is handed over until it is told that nothing more comes, and says goodbye then: that is what ends all
/// channels for the client.
///
/// # Errors
/// When the connection is gone.
pub async fn write(
    to: impl Sink<Message, Error = tungstenite::Error>,
    coding: Coding,
    mut outbound: mpsc::Receiver<Outbound>,
) -> io::Result<()> {
    let mut to = pin!(to);
    while let Some(it) = outbound.recv().await {
        match it {
            Outbound::Data(lane, bytes) => {
                let channel = u8::try_from(lane).unwrap_or_default();
                to.feed(message(channel, &bytes, coding)).await.map_err(io_error)?;
                // Several pieces that wait are one write.
                if outbound.is_empty() {
                    to.flush().await.map_err(io_error)?;
                }
            }
            Outbound::Ping => to.send(Message::Ping(Bytes::new())).await.map_err(io_error)?,
            Outbound::End(_) | Outbound::Control(_) => {}
            Outbound::Close => break,
        }
    }
    let goodbye = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    to.send(Message::Close(Some(goodbye))).await.map_err(io_error)
}

/// The bytes of a connection that is tunnelled in messages, as they come.
pub fn tunnelled<T>(from: SplitStream<WebSocketStream<T>>) -> impl Stream<Item = io::Result<Bytes>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    from.filter_map(|it| async move {
        match it {
            Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
            Ok(_) => None,
            Err(tungstenite::Error::ConnectionClosed) => None,
            Err(error) => Some(Err(io_error(error))),
        }
    })
}

/// The same in the other direction: what takes bytes and sends them as messages.
pub fn tunnel(to: impl Sink<Message, Error = tungstenite::Error>) -> impl Sink<Bytes, Error = io::Error> {
    let whole = |bytes: Bytes| std::future::ready(Ok::<_, io::Error>(Message::Binary(bytes)));
    to.sink_map_err(io_error).with(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_its_channel_in_both_codings() {
        let plain = Coding {
            is_base64: false,
            closes: true,
        };
        let coded = Coding {
            is_base64: true,
            closes: false,
        };
        let bytes = Bytes::from_static(b"hello");
        assert_eq!(message(1, &bytes, plain), Message::Binary(b"\x01hello"[..].into()));
        assert_eq!(message(2, &bytes, coded), Message::text("2aGVsbG8="));
        assert_eq!(binary(b"\x00hi"[..].into()), Some((0, b"hi"[..].into())));
        assert_eq!(text(b"0aGVsbG8="), Some((0, bytes)));
        for none in [&b""[..], b"x", b"0*"] {
            assert_eq!(text(none), None);
        }
    }
}
