//! What a request brings with it, read when somebody wants it: it is known by then who asks, where that counts, and
//! that there is anybody who reads it.
//! Upstream: the generic server of Kubernetes asks who it is before it reads, and reads 3 MiB for at most a minute; the
//! webhooks are controller-runtime's, which read 7 MiB. Here all that is read at one time has a bound besides, because
//! whoever reaches the port of a webhook may send to it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Body;
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::BoxError;

use super::serving::PageResponse;

/// The API server sends a list of objects in one review, and itself takes requests of up to 3 MiB.
const BYTES_MAX: usize = 16 << 20;
/// No API server waits longer for the answer to a review.
const DEADLINE: Duration = Duration::from_secs(30);
/// The bytes that all requests of this process may hold together. More would let a stranger take the memory that the
/// controllers live of, less would refuse lists that are converted at the same time.
static ROOM: Semaphore = Semaphore::const_new(64 << 20);

/// A body of which nothing was read yet.
pub struct Sent(UnsyncBoxBody<Bytes, BoxError>);

/// A body that was read whole. It takes room until it is dropped.
pub struct Read {
    /// The bytes.
    pub bytes: Bytes,
    _room: Option<SemaphorePermit<'static>>,
}

impl Sent {
    /// What this body brings.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(body.map_err(Into::into).boxed_unsync())
    }

    /// Reads it; the error is what the sender is answered.
    pub async fn read(self) -> Result<Read, PageResponse> {
        self.read_within(DEADLINE, &ROOM).await
    }

    async fn read_within(mut self, deadline: Duration, room: &'static Semaphore) -> Result<Read, PageResponse> {
        let unreadable =
            |why: &str| PageResponse::status(400, "BadRequest", &format!("the body could not be read: {why}"));
        let reading = async {
            let mut bytes = Vec::new();
            let mut held: Option<SemaphorePermit<'static>> = None;
            while let Some(frame) = self.0.frame().await {
                let frame = frame.map_err(|error| unreadable(&error.to_string()))?;
                // Trailers say nothing that anybody asks for.
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > BYTES_MAX {
                    return Err(unreadable("length limit exceeded"));
                }
                let more = u32::try_from(data.len()).ok();
                let Some(more) = more.and_then(|it| room.try_acquire_many(it).ok()) else {
                    let text = "too much is being sent at the same time; try again";
                    return Err(PageResponse::status(429, "TooManyRequests", text));
                };
                match &mut held {
                    Some(held) => held.merge(more),
                    None => held = Some(more),
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Read {
                bytes: bytes.into(),
                _room: held,
            })
        };
        match tokio::time::timeout(deadline, reading).await {
            Ok(read) => read,
            Err(_) => Err(PageResponse::status(408, "Timeout", "the body did not come in time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    /// A body of these pieces that never ends.
    fn endless(pieces: &[&'static str]) -> Sent {
        use futures::StreamExt;
        let pieces: Vec<Result<_, BoxError>> = pieces.iter().map(|it| Ok(Frame::data(Bytes::from(*it)))).collect();
        Sent::new(StreamBody::new(stream::iter(pieces).chain(stream::pending())))
    }

    fn whole(text: &'static str) -> Sent {
        Sent::new(Full::new(Bytes::from(text)))
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_is_given_up() {
        static ROOM: Semaphore = Semaphore::const_new(100);
        let answer = endless(&["abc"]).read_within(Duration::ZERO, &ROOM).await.err();
        assert_eq!(answer.map(|it| it.code), Some(408));
        assert_eq!(ROOM.available_permits(), 100, "what was given up takes no room");
    }

    #[tokio::test]
    async fn bodies_have_a_bound_together() {
        static ROOM: Semaphore = Semaphore::const_new(10);
        let code = |read: Result<Read, PageResponse>| read.err().map(|it| it.code);
        let first = whole("1234567").read_within(DEADLINE, &ROOM).await;
        assert_eq!(first.as_ref().ok().map(|it| &it.bytes[..]), Some(&b"1234567"[..]));
        assert_eq!(code(whole("1234").read_within(DEADLINE, &ROOM).await), Some(429));
        // Without an end to wait for: what does not fit is refused in the moment it comes.
        assert_eq!(
            code(endless(&["12", "34"]).read_within(DEADLINE, &ROOM).await),
            Some(429)
        );
        assert!(whole("123").read_within(DEADLINE, &ROOM).await.is_ok());
        drop(first);
        assert!(whole("1234567890").read_within(DEADLINE, &ROOM).await.is_ok());
    }

    #[tokio::test]
    async fn one_body_has_a_bound() {
        let large = Sent::new(Full::new(Bytes::from(vec![0; BYTES_MAX + 1])));
        assert_eq!(large.read().await.err().map(|it| it.code), Some(400));
    }
}
