//! An answer's body that keeps no more of what came than it must.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// Follows every piece with an empty one.
///
/// A piece is a part of the buffer that its connection read into, 8 KiB or more, and who reads lines from a body keeps
/// the last piece, though all of it was read, until the next one comes. For a watch that may be a minute: an agent with
/// ten of them would keep ten buffers to no use.
pub struct ReleasingBody<B = Incoming> {
    body: B,
    /// Whether the last one was a piece of the body.
    holds: bool,
}

impl<B> ReleasingBody<B> {
    /// The same body.
    pub fn of(body: B) -> Self {
        Self { body, holds: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReleasingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if std::mem::take(&mut self.holds) {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::new()))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.holds = matches!(&frame, Some(Ok(it)) if it.is_data());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    #[tokio::test]
    async fn every_frame_arrives_followed_by_an_empty_frame() {
        let pieces = || {
            stream::iter(["one", "two"].map(|it| Ok::<_, Infallible>(Frame::data(Bytes::from_static(it.as_bytes())))))
        };
        let mut body = ReleasingBody::of(StreamBody::new(pieces()));
        let mut seen = Vec::new();
        while let Some(frame) = body.frame().await {
            seen.push(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(seen, ["one", "", "two", ""]);
        let whole = ReleasingBody::of(StreamBody::new(pieces())).collect().await.unwrap();
        assert_eq!(whole.to_bytes(), "onetwo");
    }
}
