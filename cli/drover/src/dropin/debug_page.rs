//! `/debug/placements/` for a hub that is not embedded.

use async_trait::async_trait;
use kube::Client;
use ocm_reconcile::access::{self, Attributes, Subject};
use placement::{debug, gather::simulate};

use super::serving::{Answer, Asked, Page};

/// The page.
pub struct DebugPage;

#[async_trait]
impl Page for DebugPage {
    fn is_at(&self, path: &str) -> bool {
        path.starts_with(debug::PREFIX)
    }

    async fn answer(&self, api: &Client, who: &Subject, asked: Asked) -> Answer {
        let failed = |code: u16, text: &str| Answer::json(code, &debug::failure(text));
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
            Ok((code, body)) => Answer::json(code, &body),
            Err(error) => failed(500, &error.to_string()),
        }
    }
}
