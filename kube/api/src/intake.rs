//! Takes in the bodies of requests before they take a seat: whoever holds one back keeps nobody else from being served.
//!
//! What has come of bodies is memory, so it is bounded by client and in total until their requests are answered; and a
//! body that stops coming is given up.

use crate::{limits::Limits, party::Party};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube_store::status::Status;
use parking_lot::Mutex;
use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Largest request body, as kube-apiserver has it.
const BODY_BYTES_MAX: usize = 3 << 20;

/// As whose a body is counted.
#[derive(Clone, Copy, Debug)]
pub enum Counted<'a> {
    /// Nobody's: who is part of the process holds back nothing.
    Not,
    /// Only with those of all.
    InTotal,
    /// With those of its client too. What is urgent may take what is kept for it of the total.
    Of { party: &'a Party, is_urgent: bool },
}

#[derive(Default)]
struct Coming {
    bodies: usize,
    bytes: usize,
}

#[derive(Default)]
struct State {
    bytes: usize,
    clients: HashMap<Arc<str>, Coming>,
}

/// The bodies of one server.
pub struct Intake {
    limits: Limits,
    state: Mutex<State>,
}

/// Room for one body. Dropping it gives the room back.
pub struct Room {
    intake: Arc<Intake>,
    client: Option<Arc<str>>,
    bytes: usize,
    bytes_max: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut state = self.intake.state.lock();
        state.bytes -= self.bytes;
        if let Some(client) = &self.client
            && let Some(coming) = state.clients.get_mut(client)
        {
            coming.bodies -= 1;
            coming.bytes -= self.bytes;
            if coming.bodies == 0 {
                state.clients.remove(client);
            }
        }
    }
}

impl Room {
    /// Takes so much more; whether there was room.
    fn grow(&mut self, bytes: usize) -> bool {
        let mut state = self.intake.state.lock();
        let state = &mut *state;
        if state.bytes + bytes > self.bytes_max {
            return false;
        }
        if let Some(client) = &self.client
            && let Some(coming) = state.clients.get_mut(client)
        {
            if coming.bytes + bytes > self.intake.limits.body_bytes {
                return false;
            }
            coming.bytes += bytes;
        }
        state.bytes += bytes;
        self.bytes += bytes;
        true
    }
}

/// The 429 of who has too much on its way.
fn too_many() -> Status {
    Status {
        retry_after_seconds: Some(1),
        ..Status::new(429, "TooManyRequests", "Too many requests, please try again later.")
    }
}

impl Intake {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
        })
    }

    /// Bytes that have come of bodies whose requests are not answered.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    fn room(self: &Arc<Self>, counted: Counted<'_>) -> Result<Option<Room>, Status> {
        let total = self.limits.body_bytes_total;
        let (party, bytes_max) = match counted {
            Counted::Not => return Ok(None),
            Counted::InTotal => (None, total),
            // The last eighth is for administrators alone.
            Counted::Of { party, is_urgent: true } => (Some(party), total - total / 8),
            Counted::Of { party, .. } => (Some(party), total - total / 4),
        };
        if let Some(party) = party {
            let mut state = self.state.lock();
            let coming = state.clients.entry(party.client.clone()).or_default();
            if coming.bodies >= self.limits.bodies {
                return Err(too_many());
            }
            coming.bodies += 1;
        }
        Ok(Some(Room {
            intake: self.clone(),
            client: party.map(|it| it.client.clone()),
            bytes: 0,
            bytes_max,
        }))
    }

    /// When a body of which so much has come is given up.
    fn deadline(&self, began: Instant, received: usize) -> Instant {
        let limits = &self.limits;
        let earned = Duration::from_millis((received as u64 * 1000) / limits.body_bytes_per_second.max(1) as u64);
        began + (limits.body_start + earned).min(limits.body)
    }

    /// Reads a whole body. What it takes is given back with the room.
    ///
    /// # Errors
    /// 413 when it is too large, 400 when the client stops in the middle, 429 when there is no room for it,
    /// 504 when it comes too slowly.
    pub async fn read<B>(self: &Arc<Self>, body: B, counted: Counted<'_>) -> Result<(Bytes, Option<Room>), Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let too_large = || {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            Status::new(413, "RequestEntityTooLarge", message)
        };
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            return Err(too_large());
        }
        let mut room = self.room(counted)?;
        let mut body = pin!(body);
        let began = Instant::now();
        let (mut first, mut more) = (Bytes::new(), BytesMut::new());
        loop {
            let received = first.len() + more.len();
            let frame = timeout_at(self.deadline(began, received), body.frame()).await;
            let frame = frame.map_err(|_| {
                let message = "Timeout: request did not complete within the allotted timeout";
                Status::new(504, "Timeout", message)
            })?;
            let data = match frame {
                None => break,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    let error = error.into();
                    return Err(Status::bad_request(format!(
                        "the request body could not be read: {error}"
                    )));
                }
            };
            if received + data.len() > BODY_BYTES_MAX {
                return Err(too_large());
            }
            if let Some(room) = &mut room
                && !room.grow(data.len())
            {
                return Err(too_many());
            }
            if first.is_empty() {
                first = data;
            } else {
                more.extend_from_slice(&data);
            }
        }
        if more.is_empty() {
            return Ok((first, room));
        }
        let mut whole = BytesMut::with_capacity(first.len() + more.len());
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&more);
        Ok((whole.freeze(), room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;

    fn body(pieces: &[usize]) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send + use<> {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|it| Ok(Frame::data(Bytes::from(vec![0; *it]))))
            .collect();
        StreamBody::new(stream::iter(pieces))
    }

    fn intake() -> Arc<Intake> {
        Intake::new(Limits {
            bodies: 2,
            body_bytes: 100,
            body_bytes_total: 200,
            ..Limits::default()
        })
    }

    fn code<T>(read: Result<T, Status>) -> u16 {
        read.err().map_or(200, |it| it.code)
    }

    #[tokio::test]
    async fn body_bytes_are_limited_per_client_with_an_urgent_reserve() {
        let intake = intake();
        let (a, b) = (Party::new("a", "a1"), Party::new("b", "b"));
        let other = Party::new("a", "a2");
        let of = |party, is_urgent| Counted::Of { party, is_urgent };
        let first = intake.read(body(&[40, 40]), of(&a, false)).await.unwrap();
        assert_eq!((first.0.len(), intake.bytes()), (80, 80));
        assert_eq!(code(intake.read(body(&[30]), of(&other, false)).await), 429);
        let second = intake.read(body(&[20]), of(&other, false)).await.unwrap();
        assert_eq!(code(intake.read(body(&[0]), of(&a, false)).await), 429, "two at a time");
        // A quarter of the total is for others.
        assert_eq!(code(intake.read(body(&[60]), of(&b, false)).await), 429);
        let urgent = intake.read(body(&[60]), of(&b, true)).await.unwrap();
        assert_eq!(code(intake.read(body(&[60]), Counted::InTotal).await), 429);
        let many = Party::new("c", "c");
        assert_eq!(
            code(intake.read(body(&[20]), of(&many, true)).await),
            429,
            "an eighth is for administrators"
        );
        assert_eq!(code(intake.read(body(&[20]), Counted::InTotal).await), 200);
        assert_eq!(code(intake.read(body(&[BODY_BYTES_MAX, 1]), Counted::Not).await), 413);
        drop((first, second, urgent));
        assert_eq!(intake.bytes(), 0);
        assert!(intake.state.lock().clients.is_empty());
    }

    #[tokio::test]
    async fn a_slow_body_times_out_earlier_than_a_steady_one() {
        let intake = Intake::new(Limits::default());
        let began = Instant::now();
        let seconds = |received: usize| (intake.deadline(began, received) - began).as_secs();
        assert_eq!([0, 45, 5 << 10, 40 << 10, 3 << 20].map(seconds), [10, 10, 15, 50, 60]);
        let hasty = Intake::new(Limits {
            body_start: Duration::ZERO,
            ..Limits::default()
        });
        let never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(code(hasty.read(never, Counted::Not).await), 504);
    }
}
