//! Lanes: the streams in one upgraded connection, whatever its protocol calls them.

use super::spdy;
use bytes::Bytes;
use std::{pin::pin, time::Duration};
use tokio::sync::mpsc;

/// How many pieces may wait in one direction of a lane. A piece is a frame, or a part of a large one.
const PIECES_MAX: usize = 16;

/// How often a client is asked for a sign of life while it is not read.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// What is to be written to the connection.
pub enum Outbound {
    /// A piece for a lane.
    Data(u32, Bytes),
    /// Nothing more comes in a lane.
    End(u32),
    /// Whether the client is there still: writing to one that is gone fails.
    Ping,
    /// What only SPDY says.
    Control(spdy::Control),
    /// Nothing more comes at all.
    Close,
}

/// Where everything for one connection goes. Its capacity is what slows down whoever is faster than the client.
#[derive(Clone)]
pub struct Outgoing(mpsc::Sender<Outbound>);

/// A way to the writer of a connection.
pub fn outgoing() -> (Outgoing, mpsc::Receiver<Outbound>) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    (Outgoing(sender), receiver)
}

impl Outgoing {
    /// Hands something to the writer. `false` when the connection is gone.
    pub async fn send(&self, what: Outbound) -> bool {
        self.0.send(what).await.is_ok()
    }
}

/// What comes in a lane, on the side of the reader of the connection.
pub type Inlet = mpsc::Sender<Bytes>;

/// Puts a piece in a lane, and waits for as long as the lane is full. `false` when nobody reads it any more.
///
/// Meanwhile the connection is not read, so that its end would not be seen: a process that reads nothing would outlive
/// the client that types. So the client is written to now and then.
pub async fn put(inlet: &Inlet, piece: Bytes, out: &Outgoing) -> bool {
    let mut putting = pin!(inlet.send(piece));
    loop {
        tokio::select! {
            done = &mut putting => return done.is_ok(),
            () = tokio::time::sleep(ALIVE_INTERVAL) => if !out.send(Outbound::Ping).await {
                return false;
            },
        }
    }
}

/// One stream in both directions.
pub struct Lane {
    /// What comes from the client; `None` when nothing more comes.
    pub incoming: mpsc::Receiver<Bytes>,
    /// The way to the client.
    pub out: LaneOut,
}

/// The way to the client in one lane.
pub struct LaneOut {
    id: u32,
    out: Outgoing,
}

impl Lane {
    /// A lane, and where the reader puts what comes.
    pub fn new(id: u32, out: &Outgoing) -> (Self, Inlet) {
        let (inlet, incoming) = mpsc::channel(PIECES_MAX);
        let out = LaneOut { id, out: out.clone() };
        (Self { incoming, out }, inlet)
    }
}

impl LaneOut {
    /// The number of the lane.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends a piece to the client. `false` when the connection is gone.
    pub async fn send(&self, bytes: Bytes) -> bool {
        bytes.is_empty() || self.out.send(Outbound::Data(self.id, bytes)).await
    }

    /// Says that nothing more comes.
    pub async fn end(&self) {
        self.out.send(Outbound::End(self.id)).await;
    }

    /// Refuses it, where the protocol can.
    pub async fn refuse(&self) {
        self.out.send(Outbound::Control(spdy::Control::Refuse(self.id))).await;
    }
}
