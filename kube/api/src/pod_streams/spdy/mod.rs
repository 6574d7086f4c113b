//! SPDY/3.1 from the side of a server, as far as `kubectl` and client-go speak it: streams that the client opens, data
//! in both directions, pings. There is no flow control in it: client-go neither grants nor heeds windows, so that what
//! bounds a stream is that the connection is not read while one of them is full.
//! Protocol: draft-mbelshe-httpbis-spdy-00; SPDY/3.1 adds a window per connection, which nobody here uses.

mod header_block;

use super::lanes::{self, Inlet, Lane, Outbound, Outgoing};
use bytes::{Bytes, BytesMut};
use header_block::{HeaderReader, HeaderWriter, Headers};
use std::{collections::HashMap, io};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};

/// Large, because it is what one call of the system moves.
const BUFFER_BYTES: usize = 64 << 10;
/// The longest control frame: the headers of a stream, in the main.
const CONTROL_BYTES_MAX: usize = 64 << 10;
/// What is gathered before it is written.
const GATHERED_BYTES_MAX: usize = 128 << 10;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FLAG_FIN: u8 = 1;

/// The status of a stream that is not taken.
const REFUSED_STREAM: u32 = 3;

/// A frame that is no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The stream is there.
    Reply(u32),
    /// The client's ping comes back.
    Ping(u32),
    /// The stream is not taken.
    Refuse(u32),
}

/// A stream that the client has opened.
pub struct Opened {
    headers: Headers,
    /// What is sent in it.
    pub lane: Lane,
}

impl Opened {
    /// One of its headers; the name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }
}

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The streams of one connection, on the side that reads.
struct Streams {
    inlets: HashMap<u32, Inlet>,
    /// The number of the last one. A client's numbers are odd and grow.
    last: u32,
    max: usize,
    out: Outgoing,
    opened: mpsc::Sender<Opened>,
    headers: HeaderReader,
}

/// Reads frames until the client ends the connection. Streams that it opens come out of `opened`; more than `max` at
/// once are refused.
///
/// # Errors
/// When what comes is not SPDY/3, or not within its bounds.
pub async fn read(
    from: impl AsyncRead + Unpin,
    out: Outgoing,
    opened: mpsc::Sender<Opened>,
    max: usize,
) -> io::Result<()> {
    let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
    let mut streams = Streams {
        inlets: HashMap::new(),
        last: 0,
        max,
        out,
        opened,
        headers: HeaderReader::new(),
    };
    loop {
        let mut head = [0; 8];
        if let Err(error) = from.read_exact(&mut head).await {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => Ok(()),
                _ => Err(error),
            };
        }
        let [a, b, c, d, flags, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes([0, length[0], length[1], length[2]])).unwrap_or_default();
        if a & 0x80 == 0 {
            let stream = u32::from_be_bytes([a, b, c, d]);
            streams.data(&mut from, stream, length).await?;
            if flags & FLAG_FIN != 0 {
                streams.inlets.remove(&stream);
            }
            continue;
        }
        if u16::from_be_bytes([a & 0x7f, b]) != 3 {
            return Err(bad("a frame is not of SPDY/3"));
        }
        if length > CONTROL_BYTES_MAX {
            return Err(bad("a control frame is too large"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        if !streams.control(u16::from_be_bytes([c, d]), flags, &payload).await? {
            return Ok(());
        }
    }
}

impl Streams {
    /// Hands on what a data frame holds, in pieces: a frame may be 16 MiB.
    async fn data(&mut self, from: &mut (impl AsyncRead + Unpin), stream: u32, length: usize) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let mut piece = BytesMut::with_capacity(left.min(BUFFER_BYTES));
            let read = {
                use bytes::BufMut;
                from.read_buf(&mut (&mut piece).limit(left)).await?
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read;
            let unread = match self.inlets.get(&stream) {
                Some(inlet) => !lanes::put(inlet, piece.freeze(), &self.out).await,
                // One that nobody reads any more, or that was never there: the client is not told twice.
                None => false,
            };
            if unread {
                self.inlets.remove(&stream);
            }
        }
        Ok(())
    }

    /// Whether the connection goes on.
    async fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> io::Result<bool> {
        let number = |at: usize| {
            let bytes = payload.get(at..).and_then(|it| it.first_chunk::<4>());
            bytes
                .map(|it| u32::from_be_bytes(*it) & 0x7fff_ffff)
                .ok_or_else(|| bad("a control frame is cut short"))
        };
        match kind {
            SYN_STREAM => {
                self.open(number(0)?, flags, payload.get(10..).unwrap_or_default())
                    .await
            }
            RST_STREAM => {
                self.inlets.remove(&number(0)?);
                Ok(true)
            }
            // One with an even number is ours, and comes back.
            PING => match number(0)? {
                id if id % 2 == 1 => Ok(self.out.send(Outbound::Control(Control::Ping(id))).await),
                _ => Ok(true),
            },
            GOAWAY => Ok(true),
            // Settings, windows and late headers change nothing here.
            _ => Ok(true),
        }
    }

    async fn open(&mut self, stream: u32, flags: u8, block: &[u8]) -> io::Result<bool> {
        // The block is read in any case: the next one builds on it.
        let headers = self.headers.read(block)?;
        if stream.is_multiple_of(2) || stream <= self.last {
            return Err(bad("a stream has a number that a client may not choose now"));
        }
        self.last = stream;
        self.inlets.retain(|_, it| !it.is_closed());
        if self.inlets.len() >= self.max {
            return Ok(self.out.send(Outbound::Control(Control::Refuse(stream))).await);
        }
        let (lane, inlet) = Lane::new(stream, &self.out);
        if flags & FLAG_FIN == 0 {
            self.inlets.insert(stream, inlet);
        }
        if !self.out.send(Outbound::Control(Control::Reply(stream))).await {
            return Ok(false);
        }
        if let Err(refused) = self.opened.send(Opened { headers, lane }).await {
            refused.0.lane.out.refuse().await;
            self.inlets.remove(&stream);
        }
        Ok(true)
    }
}

/// Writes what is handed over until it is told that nothing more comes.
///
/// # Errors
/// When the connection is gone.
pub async fn write(mut to: impl AsyncWrite + Unpin, mut outbound: mpsc::Receiver<Outbound>) -> io::Result<()> {
    let mut headers = HeaderWriter::new();
    let mut gathered = BytesMut::with_capacity(4096);
    let mut goes_on = true;
    while goes_on {
        let Some(first) = outbound.recv().await else { break };
        let mut next = Some(first);
        while let Some(it) = next {
            goes_on = put(&mut gathered, &mut headers, it)?;
            next = match goes_on && gathered.len() < GATHERED_BYTES_MAX {
                true => outbound.try_recv().ok(),
                false => None,
            };
        }
        to.write_all(&gathered).await?;
        to.flush().await?;
        gathered.clear();
    }
    to.shutdown().await
}

/// Whether more may follow.
fn put(gathered: &mut BytesMut, headers: &mut HeaderWriter, outbound: Outbound) -> io::Result<bool> {
    let mut frame = |kind: u16, payload: &[&[u8]]| {
        let length: usize = payload.iter().map(|it| it.len()).sum();
        gathered.extend_from_slice(&[0x80, 3]);
        gathered.extend_from_slice(&kind.to_be_bytes());
        // Flags, of which we need none, are the first byte.
        gathered.extend_from_slice(&u32::try_from(length).unwrap_or_default().to_be_bytes());
        payload.iter().for_each(|it| gathered.extend_from_slice(it));
    };
    match outbound {
        Outbound::Close => return Ok(false),
        Outbound::Control(Control::Reply(stream)) => frame(SYN_REPLY, &[&stream.to_be_bytes(), &headers.write(&[])?]),
        Outbound::Ping => frame(PING, &[&2_u32.to_be_bytes()]),
        Outbound::Control(Control::Ping(id)) => frame(PING, &[&id.to_be_bytes()]),
        Outbound::Control(Control::Refuse(stream)) => {
            frame(RST_STREAM, &[&stream.to_be_bytes(), &REFUSED_STREAM.to_be_bytes()]);
        }
        Outbound::Data(stream, bytes) => data(gathered, stream, 0, &bytes),
        Outbound::End(stream) => data(gathered, stream, FLAG_FIN, &Bytes::new()),
    }
    Ok(true)
}

fn data(gathered: &mut BytesMut, stream: u32, flags: u8, bytes: &Bytes) {
    // Pieces are far below the 16 MiB of a frame.
    for piece in bytes.chunks(1 << 20).chain(bytes.is_empty().then_some(&[][..])) {
        let [_, length @ ..] = u32::try_from(piece.len()).unwrap_or_default().to_be_bytes();
        gathered.extend_from_slice(&stream.to_be_bytes());
        gathered.extend_from_slice(&[flags]);
        gathered.extend_from_slice(&length);
        gathered.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests;
