//! The server as a `tower::Service`: a client in the same process needs no socket.

use crate::{identity::User, respond::Body, server::Server};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use std::{
    convert::Infallible,
    sync::LazyLock,
    task::{Context, Poll},
};

/// What a client of this process calls itself: its program, as Go's clients do.
static OWN_NAME: LazyLock<HeaderValue> = LazyLock::new(|| {
    let program = std::env::current_exe().ok();
    let program = program
        .as_ref()
        .and_then(|it| it.file_name()?.to_str())
        .unwrap_or("in-process");
    let text = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("in-process"))
});

/// Answers requests as one user.
#[derive(Clone)]
pub struct InProcess {
    server: Server,
    user: User,
}

impl InProcess {
    pub(crate) fn new(server: Server, user: User) -> Self {
        Self { server, user }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // Who calls itself nothing would own its fields as `unknown`.
        if let header::Entry::Vacant(it) = request.headers_mut().entry(header::USER_AGENT) {
            it.insert(OWN_NAME.clone());
        }
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move { Ok(server.answer(request, user).await) })
    }
}
