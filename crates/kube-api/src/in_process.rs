//! The server as a `tower::Service`: a client in the same process needs no socket.

use crate::{identity::User, respond::Body, server::Server};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use std::{
    convert::Infallible,
    task::{Context, Poll},
};

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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move { Ok(server.answer(request, user).await) })
    }
}
