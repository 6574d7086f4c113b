//! What stands for the API server of a cluster: answers `/bytes/N` with so many bytes, and everything else with `ok`.

use std::{convert::Infallible, sync::Arc};

use anyhow::Result;
use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Bytes of one piece of an answer.
const PIECE: usize = 64 << 10;

/// Serves until the runtime ends; returns the port.
pub async fn serve(tls: Arc<ServerConfig>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let acceptor = TlsAcceptor::from(tls);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(port)
}

fn answer(request: &Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
    let length = request
        .uri()
        .path()
        .strip_prefix("/bytes/")
        .and_then(|it| it.parse::<usize>().ok());
    let Some(length) = length else {
        return Response::new(Full::new(Bytes::from_static(b"ok")).boxed());
    };
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let pieces = (0..length.div_ceil(PIECE)).map(move |at| {
        let rest = length - at * PIECE;
        Ok(Frame::data(piece.slice(..rest.min(PIECE))))
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(stream::iter(pieces))));
    response
        .headers_mut()
        .insert(http::header::CONTENT_LENGTH, length.into());
    response
}
