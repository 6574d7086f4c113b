//! The debug page of placements on the embedded hub, for those who may see or make placements where it looks.

use std::sync::Arc;

use kube::Client;
use kube_api::{
    identity::Attributes,
    pages::{self, ServedPage},
};
use placement::{debug, gather::simulate};
use serde_json::Value;

use crate::embedded::Embedded;

/// Shows the page on this hub.
pub fn show(hub: &Embedded) {
    let client = hub.client("system:open-cluster-management:placement-debug");
    hub.set_page(debug::PREFIX, Arc::new(PlacementPage { client }));
}

struct PlacementPage {
    client: Client,
}

#[async_trait::async_trait]
impl ServedPage for PlacementPage {
    async fn answer(&self, asked: pages::PageRequest<'_>) -> (u16, Value) {
        let read = match debug::read(asked.method, asked.path, asked.body) {
            Ok(read) => read,
            Err((code, text)) => return (code, debug::failure(&text)),
        };
        let (verb, namespace, name) = read.permission();
        let attributes = Attributes {
            verb: verb.to_owned(),
            is_resource: true,
            group: "cluster.open-cluster-management.io".to_owned(),
            version: "v1beta1".to_owned(),
            resource: "placements".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: asked.path.to_owned(),
            ..Attributes::default()
        };
        if !(asked.may)(&attributes) {
            let text = format!("you may not {verb} placements in namespace {namespace}");
            return (403, debug::failure(&text));
        }
        match simulate(&self.client, read).await {
            Ok(answer) => answer,
            Err(error) => (500, debug::failure(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::Api;
    use ocm_api::cluster::Placement;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_page_is_for_those_who_may_see_placements() {
        credential::connection::install_crypto_provider();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let hub = Embedded::start("hub", None, listener, crate::embedded::Settings::default())
            .await
            .unwrap();
        let admin = hub.client("admin");
        ocm_reconcile::install::install_crds(&admin, ocm_api::crds::hub())
            .await
            .unwrap();
        show(&hub);
        let placement = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {}});
        let api: Api<Placement> = Api::namespaced(admin.clone(), "default");
        let made = serde_json::from_value(placement.clone()).unwrap();
        api.create(&Default::default(), &made).await.unwrap();

        let ask = async |client: &Client, method: &str, path: &str, body: Vec<u8>| -> u16 {
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .body(body.into())
                .unwrap();
            client.send(request).await.unwrap().status().as_u16()
        };
        let request = http::Request::get("/debug/placements/default/p")
            .body(Vec::new())
            .unwrap();
        let answer: Value = admin.request(request).await.unwrap();
        assert_eq!(answer["placement"]["metadata"]["name"], "p");
        let there = "/debug/placements/default/p";
        let body = || placement.to_string().into_bytes();
        assert_eq!(ask(&admin, "GET", there, Vec::new()).await, 200);
        assert_eq!(ask(&admin, "POST", "/debug/placements/", body()).await, 200);
        assert_eq!(
            ask(&admin, "GET", "/debug/placements/default/none", Vec::new()).await,
            404
        );
        assert_eq!(ask(&admin, "DELETE", there, Vec::new()).await, 405);
        let nobody = hub.client_as("system:anonymous", &["system:unauthenticated"]);
        assert_eq!(ask(&nobody, "GET", there, Vec::new()).await, 401);
        let stranger = hub.client_as("jane", &[]);
        assert_eq!(ask(&stranger, "GET", there, Vec::new()).await, 403);
        assert_eq!(ask(&stranger, "POST", "/debug/placements/", body()).await, 403);
        hub.stop().await;
    }
}
