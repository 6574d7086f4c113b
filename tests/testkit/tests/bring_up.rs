//! What a cluster that comes costs the hub's API server: how often it is asked, and for what.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams, client::Body};
use ocm_api::cluster::{ManagedCluster, ManagedClusterSpec};
use testkit::{Ask, Site, wait};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

const CLUSTERS: usize = 50;

/// How often was asked what, and what was answered with a failure.
#[derive(Clone, Default)]
struct Tally {
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    failed: Arc<Mutex<BTreeMap<String, usize>>>,
}

#[derive(Clone)]
struct Counting {
    client: Client,
    tally: Tally,
}

impl Service<Request<Body>> for Counting {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri();
        let ask = Ask::of(request.method(), uri.path(), uri.query().unwrap_or_default());
        let (client, tally) = (self.client.clone(), self.tally.clone());
        Box::pin(async move {
            let answer = client.send(request).await?;
            let Some(ask) = ask else { return Ok(answer) };
            let what = format!("{} {}", ask.verb, ask.resource);
            if answer.status().as_u16() >= 400 {
                let failed = format!("{what}: {}", answer.status().as_u16());
                *tally.failed.lock().unwrap().entry(failed).or_default() += 1;
            }
            *tally.asked.lock().unwrap().entry(what).or_default() += 1;
            Ok(answer)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joining_cluster_takes_eight_writes_and_no_repeated_request() {
    let site = Site::start().await.unwrap();
    let client = site.client();
    hub::prepare(&client).await.unwrap();
    let tally = Tally::default();
    let counting = Counting {
        client: client.clone(),
        tally: tally.clone(),
    };
    let stop = CancellationToken::new();
    let (of_hub, ends) = (Client::new(counting, "default"), stop.clone());
    let running = tokio::spawn(async move {
        let options = hub::Options::default();
        hub::run_component(of_hub, hub::Component::Registration, &options, ends).await;
    });
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let make = (0..CLUSTERS).map(|number| {
        let spec = ManagedClusterSpec {
            hub_accepts_client: true,
            ..ManagedClusterSpec::default()
        };
        let (clusters, cluster) = (clusters.clone(), ManagedCluster::new(&format!("c{number}"), spec));
        async move { clusters.create(&PostParams::default(), &cluster).await.unwrap() }
    });
    futures::future::join_all(make).await;
    let leases: Api<Lease> = Api::all(client.clone());
    wait::until_all(&leases, "every cluster has its lease", |it| it.len() == CLUSTERS).await;
    stop.cancel();
    running.await.unwrap();

    // The two roles that all clusters share are looked for once.
    let looked_for = BTreeMap::from([("get clusterroles: 404".to_owned(), 2)]);
    assert_eq!(*tally.failed.lock().unwrap(), looked_for);
    let of_clusters = [
        ("patch managedclusters", 1),
        ("patch managedclusters/status", 1),
        ("create namespaces", 1),
        ("create clusterroles", 1),
        ("create clusterrolebindings", 1),
        ("create rolebindings", 2),
        ("create leases", 1),
    ];
    let mut asked = tally.asked.lock().unwrap().clone();
    // What there is once, and watches.
    asked.retain(|what, count| {
        if what == "create clusterroles" {
            *count -= 2;
        }
        *count >= CLUSTERS
    });
    let wanted = of_clusters.map(|(what, each)| (what.to_owned(), each * CLUSTERS));
    assert_eq!(asked, BTreeMap::from(wanted));
    site.stop().await;
}
