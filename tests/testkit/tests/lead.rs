//! Leader election on an API server: who leads, and what becomes of it when the leader stops, is cut off or dies.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    client::Body,
};
use ocm_reconcile::{
    Guard,
    lead::{Election, Work},
};
use testkit::{Site, wait};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const LEASE: Duration = Duration::from_secs(600);

fn election(client: Client, identity: &str) -> Election {
    Election {
        client,
        namespace: "default".to_owned(),
        name: "test-lock".to_owned(),
        identity: identity.to_owned(),
        lease_duration: LEASE,
        renew_deadline: Duration::from_secs(300),
        retry_period: Duration::from_secs(100),
    }
}

/// One process: says when it works, and with which guard.
struct Candidate {
    stop: CancellationToken,
    leads: mpsc::UnboundedReceiver<Guard>,
    running: tokio::task::JoinHandle<()>,
}

impl Candidate {
    fn start(election: Election) -> Self {
        let (said, leads) = mpsc::unbounded_channel();
        let work: Work = Arc::new(move |guard, stop| {
            let said = said.clone();
            Box::pin(async move {
                let _ = said.send(guard);
                stop.cancelled().await;
            })
        });
        let stop = CancellationToken::new();
        let running = tokio::spawn(election.run(work, |_| (), stop.clone()));
        Self { stop, leads, running }
    }

    async fn begins(&mut self) -> Guard {
        let begun = tokio::time::timeout(wait::PATIENCE, self.leads.recv()).await;
        begun.expect("it leads").expect("it runs")
    }
}

fn holder(lease: Option<&Lease>) -> Option<&str> {
    lease?.spec.as_ref()?.holder_identity.as_deref()
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_at_once() {
    let site = Site::start().await.unwrap();
    let leases: Api<Lease> = Api::namespaced(site.client(), "default");
    let mut first = Candidate::start(election(site.client(), "first"));
    first.begins().await;
    let mut second = Candidate::start(election(site.client(), "second"));
    let lease = wait::until(&leases, "test-lock", "is held", |it| holder(it) == Some("first")).await;
    let spec = lease.and_then(|it| it.spec).unwrap();
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(600), Some(0))
    );
    assert!(second.leads.try_recv().is_err(), "one leads");
    first.stop.cancel();
    // The lease would have lasted ten minutes.
    second.begins().await;
    first.running.await.unwrap();
    let lease = wait::until(&leases, "test-lock", "is held", |it| holder(it) == Some("second")).await;
    assert_eq!(lease.and_then(|it| it.spec?.lease_transitions), Some(1));
    second.stop.cancel();
    second.running.await.unwrap();
    let lease = leases.get("test-lock").await.unwrap();
    assert_eq!(holder(Some(&lease)), None, "the last one lets go, too");
    site.stop().await;
}

#[tokio::test]
async fn another_candidate_leads_after_a_dead_leaders_lease_ends() {
    let site = Site::start().await.unwrap();
    let brief = |identity| Election {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(600),
        retry_period: Duration::from_millis(200),
        ..election(site.client(), identity)
    };
    let mut first = Candidate::start(brief("first"));
    first.begins().await;
    let mut second = Candidate::start(brief("second"));
    first.running.abort();
    second.begins().await;
    second.stop.cancel();
    second.running.await.unwrap();
    site.stop().await;
}

/// A way to the API server that can be cut.
fn severable(client: Client) -> (Client, Arc<AtomicBool>) {
    let cut = Arc::new(AtomicBool::new(false));
    let seen = cut.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, seen) = (client.clone(), seen.clone());
        async move {
            if seen.load(Ordering::SeqCst) {
                return Err(tower::BoxError::from("the way is cut"));
            }
            Ok(client.send(request).await?)
        }
    });
    (Client::new(service.boxed_clone(), "default"), cut)
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_writing() {
    let site = Site::start().await.unwrap();
    let (severed, cut) = severable(site.client());
    let brief = Election {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1000),
        retry_period: Duration::from_millis(200),
        ..election(severed, "first")
    };
    let mut first = Candidate::start(brief);
    let guard = first.begins().await;
    let maps: Api<ConfigMap> = Api::namespaced(guard.over(site.client()), "default");
    let named = |name: &str| ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &named("while-it-leads"))
        .await
        .unwrap();
    cut.store(true, Ordering::SeqCst);
    let mut second = Candidate::start(election(site.client(), "second"));
    second.begins().await;
    assert!(!guard.is_open(), "its term was over before another's began");
    let refused = maps.create(&PostParams::default(), &named("afterwards")).await;
    assert!(refused.unwrap_err().to_string().contains("leads no longer"));
    maps.get("while-it-leads").await.expect("it may still look");
    // It comes back as one who waits.
    cut.store(false, Ordering::SeqCst);
    second.stop.cancel();
    second.running.await.unwrap();
    let again = first.begins().await;
    assert!(again.is_open() && !guard.is_open());
    first.stop.cancel();
    first.running.await.unwrap();
    site.stop().await;
}
