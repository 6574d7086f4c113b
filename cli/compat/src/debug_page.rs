//! `/debug/placements/` for a hub that is not embedded.

use async_trait::async_trait;
use kube::Client;
use ocm_reconcile::access::{self, Attributes, UserInfo};
use placement::{debug, gather::simulate};
use process::serving::{AuthorizedPage, PageRequest, PageResponse};

/// The page.
pub struct DebugPage;

#[async_trait]
impl AuthorizedPage for DebugPage {
    fn is_at(&self, path: &str) -> bool {
        path.starts_with(debug::PREFIX)
    }

    async fn answer(&self, api: &Client, who: &UserInfo, asked: PageRequest) -> PageResponse {
        let failed = |code: u16, text: &str| PageResponse::json(code, &debug::failure(text));
        if asked.token.is_none() {
            return failed(401, "Unauthorized");
        }
        let sent = match asked.body.read().await {
            Ok(sent) => sent,
            Err(answer) => return answer,
        };
        let read = match debug::read(&asked.method, &asked.path, &sent.bytes) {
            Ok(read) => read,
            Err((code, text)) => return failed(code, &text),
        };
        let (verb, namespace, name) = read.permission();
        let attributes = Attributes {
            verb: verb.to_owned(),
            group: "cluster.open-cluster-management.io".to_owned(),
            resource: "placements".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()).filter(|it| !it.is_empty()),
            ..Attributes::default()
        };
        match access::may(api, who, &attributes).await {
            Ok(true) => {}
            Ok(false) => {
                return failed(403, &format!("you may not {verb} placements in namespace {namespace}"));
            }
            Err(error) => return failed(500, &error.to_string()),
        }
        match simulate(api, read).await {
            Ok((code, body)) => PageResponse::json(code, &body),
            Err(error) => failed(500, &error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use bytes::Bytes;
    use http::Request;
    use process::serving::{ControllerPages, Pages, answer};
    use tower::BoxError;

    use super::*;

    #[tokio::test]
    async fn an_anonymous_request_body_is_not_awaited() {
        let site = testkit::Site::start().await.unwrap();
        let pages: Arc<dyn Pages> = Arc::new(ControllerPages {
            api: Arc::new(ArcSwap::from_pointee(site.client())),
            page: Some(Arc::new(DebugPage)),
            ready: None,
        });
        let ask = async |path: &str| {
            let endless = futures::stream::pending::<Result<hyper::body::Frame<Bytes>, BoxError>>();
            let request = Request::post(path)
                .body(http_body_util::StreamBody::new(endless))
                .unwrap();
            let answer = tokio::time::timeout(testkit::wait::PATIENCE, answer(request, pages.clone()));
            answer.await.expect("it is answered without the body").status().as_u16()
        };
        assert_eq!(ask("/healthz").await, 200);
        assert_eq!(ask("/metrics").await, 403);
        assert_eq!(ask("/debug/placements/").await, 401);
        site.stop().await;
    }
}
