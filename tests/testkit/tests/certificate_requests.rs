//! Certificate requests that the agent of a cluster, and whoever may only join, could send to become somebody else:
//! forged ones, and good ones changed by dice. Whatever the hub signs of them is for the one who asks.
//!
//! `ATTACK_ROUNDS=1500` is the full size, `ATTACK_SEED=N` other dice.

use std::collections::BTreeSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use credential::{
    KubeconfigSource,
    csr::{self, CertificateSubject},
    enrol,
};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
};
use ocm_api::{cluster::ManagedCluster, identity, labels};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use testkit::{Site, objects, wait};
use tokio_util::sync::CancellationToken;
use x509_parser::{parse_x509_certificate, pem::Pem};

/// So many stand on the hub at once, with a good one among them, which is signed: the hub has had time for the others.
const BATCH: usize = 7;

fn asked(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |it| {
        it.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

fn agent() -> CertificateSubject {
    CertificateSubject::agent("cluster1", "a1b2c")
}

/// The renewal that the agent is allowed.
fn good() -> CertificateSigningRequest {
    asking_for(&agent())
}

fn asking_for(subject: &CertificateSubject) -> CertificateSigningRequest {
    let made = csr::new_key_and_request(subject).unwrap();
    enrol::request("cluster1", &made.request_pem, None)
}

/// What somebody would send who knows how the hub decides.
fn forged() -> Vec<CertificateSigningRequest> {
    let own = agent();
    let named = |common_name: &str, organizations: &[&str]| CertificateSubject {
        common_name: common_name.to_owned(),
        organizations: organizations.iter().map(|it| (*it).to_owned()).collect(),
        ..own.clone()
    };
    let (all, mine) = (identity::MANAGED_CLUSTERS_GROUP, identity::cluster_group("cluster1"));
    let (other, add_ons) = (
        identity::cluster_group("cluster10"),
        identity::addon_cluster_group("cluster10", "helloworld"),
    );
    let user = own.common_name.as_str();
    let other_user = identity::agent_user("cluster10", "a1b2c");
    let subjects = [
        named(user, &[&mine, all, "system:masters"]),
        named(user, &["system:masters"]),
        named(user, &[&other, all]),
        named(user, &[&mine, &other, all]),
        named(user, &[&mine, all, &add_ons]),
        named(user, &[&mine, all, "system:nodes"]),
        named(user, &[]),
        named(user, &[all]),
        named(&other_user, &[&other, all]),
        named(&other_user, &[&mine, all]),
        named("admin", &["system:masters"]),
        named("system:kube-controller-manager", &[&mine, all]),
        named("", &[&mine, all]),
        named(&mine, &[&mine, all]),
        named(&format!("{mine}:"), &[&mine, all]),
        named(&format!("{mine}:a1b2c:more"), &[&mine, all]),
        named(&format!("{mine}:other"), &[&mine, all]),
        named(&format!("{user}\0"), &[&mine, all]),
        named(&format!(" {user}"), &[&mine, all]),
        named(&user.to_uppercase(), &[&mine, all]),
        named(&user.replace("cluster1", "cluster\u{0661}"), &[&mine, all]),
        named(user, &[&format!("{mine},O=system:masters"), all]),
        named(user, &[&format!("{mine}\0"), all]),
        CertificateSubject {
            organizational_units: vec!["system:masters".to_owned()],
            ..named(&other_user, &[&mine, all])
        },
    ];
    let mut requests: Vec<_> = subjects.iter().map(asking_for).collect();
    // The subject of another cluster, with labels that say so, say otherwise, and say nothing.
    let foreign = named(&other_user, &[&other, all]);
    for (key, value) in [
        (labels::CLUSTER_NAME, Some("cluster10")),
        (labels::CLUSTER_NAME, None),
        (labels::ADDON_NAME, Some("helloworld")),
    ] {
        for subject in [&foreign, &own] {
            let mut request = asking_for(subject);
            request.metadata.generate_name = Some("cluster10-".to_owned());
            match value {
                Some(value) => request.labels_mut().insert(key.to_owned(), value.to_owned()),
                None => request.labels_mut().remove(key),
            };
            requests.push(request);
        }
    }
    // Who asks is for the server to say.
    for (user, groups) in [
        (other_user.as_str(), vec![other.clone()]),
        ("admin", vec!["system:masters".to_owned()]),
    ] {
        let mut request = asking_for(&foreign);
        request
            .labels_mut()
            .insert(labels::CLUSTER_NAME.to_owned(), "cluster10".to_owned());
        request.spec.username = Some(user.to_owned());
        request.spec.groups = Some(groups);
        request.status = serde_json::from_value(json!({"conditions": [
            {"type": "Approved", "status": "True", "reason": "AutoApprovedByHubCSRApprovingController"}
        ]}))
        .unwrap();
        requests.push(request);
    }
    // Other signers and usages.
    for signer in [
        "kubernetes.io/kubelet-serving",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/legacy-unknown",
        "example.com/none",
    ] {
        let mut request = good();
        request.spec.signer_name = signer.to_owned();
        requests.push(request);
    }
    for usages in [&["server auth"][..], &["cert sign", "client auth"], &["any"], &[]] {
        let mut request = good();
        request.spec.usages = Some(usages.iter().map(|it| (*it).to_owned()).collect());
        requests.push(request);
    }
    // Two requests in one text, the other one first, last, or under another label.
    let (one, two) = (good().spec.request.0, asking_for(&foreign).spec.request.0);
    let renamed = String::from_utf8_lossy(&two).replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST");
    for text in [
        [&one[..], &two[..]].concat(),
        [&two[..], &one[..]].concat(),
        [renamed.as_bytes(), &one[..]].concat(),
        [&one[..], renamed.as_bytes()].concat(),
    ] {
        let mut request = good();
        request.spec.request = ByteString(text);
        requests.push(request);
    }
    requests
}

/// A good request, or one for another cluster, changed in one place.
fn mutated(dice: &mut StdRng) -> CertificateSigningRequest {
    let mut request = match dice.random_range(0..4) {
        0 => asking_for(&CertificateSubject::agent("cluster10", "a1b2c")),
        _ => good(),
    };
    let pem = Pem::iter_from_buffer(&request.spec.request.0).next().unwrap().unwrap();
    let mut der = pem.contents;
    let at = dice.random_range(0..der.len());
    match dice.random_range(0..6) {
        0 => der[at] ^= 1 << dice.random_range(0..8),
        1 => der[at] = dice.random(),
        2 => der.truncate(at),
        3 => der.insert(at, dice.random()),
        4 => {
            let end = (at + dice.random_range(1..20)).min(der.len());
            der.drain(at..end);
        }
        _ => {
            let end = (at + dice.random_range(1..40)).min(der.len());
            let again = der[at..end].to_vec();
            der.splice(at..at, again);
        }
    }
    let body = BASE64_STANDARD.encode(der);
    let text = format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
    request.spec.request = ByteString(text.into_bytes());
    request
}

/// What a certificate makes of its bearer, if it makes anybody else of it than `of`.
fn foreign(certificate: &[u8], of: &CertificateSubject) -> Option<String> {
    let pem = Pem::iter_from_buffer(certificate).next().unwrap().unwrap();
    let (_, certificate) = parse_x509_certificate(&pem.contents).unwrap();
    let subject = certificate.subject();
    let texts = |of: Vec<&x509_parser::x509::AttributeTypeAndValue<'_>>| -> BTreeSet<String> {
        of.iter()
            .map(|it| it.as_str().unwrap_or("no text").to_owned())
            .collect()
    };
    let users = texts(subject.iter_common_name().collect());
    let groups = texts(subject.iter_organization().collect());
    let own: BTreeSet<_> = of.organizations.iter().cloned().collect();
    let usage = certificate.extended_key_usage().unwrap();
    let serves = usage.is_some_and(|it| it.value.any || it.value.server_auth);
    let is_own = users == BTreeSet::from([of.common_name.clone()]) && groups.is_subset(&own);
    (!is_own || serves || certificate.is_ca()).then(|| subject.to_string())
}

struct Hub {
    site: Site,
    stop: CancellationToken,
}

impl Hub {
    async fn start() -> Self {
        let (site, stop) = (Site::start().await.unwrap(), CancellationToken::new());
        hub::start(site.client_of_hub().await, hub::Options::default(), stop.clone())
            .await
            .unwrap();
        ocm_reconcile::install::install(&site.client(), &hub::bootstrap::objects())
            .await
            .unwrap();
        let clusters: Api<ManagedCluster> = Api::all(site.client());
        for name in ["cluster1", "cluster10"] {
            let cluster = json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}});
            let cluster = serde_json::from_value(cluster).unwrap();
            clusters.create(&PostParams::default(), &cluster).await.unwrap();
            wait::until(&clusters, name, "accepted", |it| {
                it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
            })
            .await;
        }
        Self { site, stop }
    }

    /// Over TLS, with a certificate.
    async fn client(&self, user: &str, groups: &[&str]) -> Client {
        let kubeconfig = self.site.kubeconfig(user, groups).unwrap();
        let loaded = KubeconfigSource::Inline(kubeconfig).read().await.unwrap();
        credential::connection::client(&loaded.config).unwrap()
    }

    /// What the hub signs of these, in their order. `control` is approved last, and waited for.
    async fn signed(
        &self,
        attacker: &Client,
        requests: Vec<CertificateSigningRequest>,
        control: &Client,
    ) -> Vec<(CertificateSigningRequest, Vec<u8>)> {
        let sent: Api<CertificateSigningRequest> = Api::all(attacker.clone());
        let mut taken = Vec::new();
        for request in &requests {
            match sent.create(&PostParams::default(), request).await {
                Ok(made) => taken.push(made.name_any()),
                // Refused by the server itself.
                Err(kube::Error::Api(status)) => assert!(status.code < 500, "{status:?}"),
                Err(error) => panic!("the server does not answer: {error}"),
            }
        }
        let all: Api<CertificateSigningRequest> = Api::all(self.site.client());
        let control = Api::<CertificateSigningRequest>::all(control.clone());
        let control = control
            .create(&PostParams::default(), &good())
            .await
            .unwrap()
            .name_any();
        let certificate = |it: &CertificateSigningRequest| it.status.as_ref()?.certificate.clone();
        let done = wait::until(&all, &control, "signed", |it| it.and_then(certificate).is_some()).await;
        let done = done.as_ref().and_then(certificate).expect("it was waited for");
        assert_eq!(foreign(&done.0, &agent()), None);
        let mut signed = Vec::new();
        for name in taken {
            let request = all.get(&name).await.unwrap();
            if let Some(certificate) = certificate(&request) {
                signed.push((request, certificate.0));
            }
            all.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        all.delete(&control, &DeleteParams::default()).await.unwrap();
        signed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_becomes_somebody_else_by_a_certificate_request() {
    let hub = Hub::start().await;
    let own = agent();
    let groups: Vec<_> = own.organizations.iter().map(String::as_str).collect();
    let member = hub.client(&own.common_name, &groups).await;
    let joiner = hub
        .client("system:bootstrap:abcdef", &["system:bootstrappers:managedcluster"])
        .await;

    let (seed, rounds) = (asked("ATTACK_SEED", 1), asked("ATTACK_ROUNDS", 140));
    println!("ATTACK_SEED={seed} ATTACK_ROUNDS={rounds}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut requests = forged();
    let count = requests.len();
    requests.extend((0..rounds).map(|_| mutated(&mut dice)));
    let (mut sent, mut signed) = (0, 0);
    for batch in requests.chunks(BATCH) {
        sent += batch.len();
        for (request, certificate) in hub.signed(&member, batch.to_vec(), &member).await {
            signed += 1;
            let foreign = foreign(&certificate, &own);
            assert_eq!(foreign, None, "{request:#?}");
        }
    }
    println!("{sent} requests of an agent, {count} of them forged: {signed} signed, each for itself");

    // Who may only join gets nothing at all until somebody approves it.
    for batch in requests[..count].chunks(BATCH) {
        let signed = hub.signed(&joiner, batch.to_vec(), &member).await;
        assert!(signed.is_empty(), "{signed:#?}");
    }
    hub.stop.cancel();
    hub.site.stop().await;
}
