//! Pages beside the API: paths that another part of the process answers, behind this server's TLS and
//! for those whom it knows.

use crate::{
    identity::Attributes,
    respond::{self, Body},
};
use http::{HeaderValue, Method, Response, header};
use serde_json::Value;
use std::sync::Arc;

/// What is asked of a page.
pub struct PageRequest<'a> {
    /// `GET`, `POST` and so on.
    pub method: &'a str,
    /// The whole path.
    pub path: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// Whether the user may do something. A page asks before it shows anything.
    pub may: &'a (dyn Fn(&Attributes) -> bool + Send + Sync),
}

/// Answers all paths below one. Who has something to show hands it over with
/// [`Server::set_page`](crate::Server::set_page).
#[async_trait::async_trait]
pub trait ServedPage: Send + Sync + 'static {
    /// A code and a JSON body. Only those are let in whom authentication knows; what they may see is the page's matter.
    async fn answer(&self, asked: PageRequest<'_>) -> (u16, Value);
}

/// The page for a path, if there is one.
pub fn find(pages: &[(String, Arc<dyn ServedPage>)], path: &str) -> Option<Arc<dyn ServedPage>> {
    let found = pages.iter().find(|(prefix, _)| path.starts_with(prefix.as_str()));
    found.map(|(_, page)| page.clone())
}

/// Answers with the page.
pub async fn answer(
    page: &dyn ServedPage,
    may: &(dyn Fn(&Attributes) -> bool + Send + Sync),
    method: &Method,
    path: &str,
    body: &[u8],
) -> Response<Body> {
    let asked = PageRequest {
        method: method.as_str(),
        path,
        body,
        may,
    };
    let (code, value) = page.answer(asked).await;
    let mut response = respond::text(code, value.to_string());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
