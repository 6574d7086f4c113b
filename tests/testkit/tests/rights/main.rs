//! The rights of a deployed hub and agent (`hub::rbac`, `agent::rbac`) are sufficient and minimal.
//!
//! One run does all that hub and agent do, with these rights alone, and both are listened to. At its end nothing was
//! refused, so the rights suffice; and each of them was asked for, so none can go: an API server refuses the request
//! for which the removed right was the only one. That says for each right what a run without it would, with a run for
//! all of them. For some it is tried all the same, and for those that are no requests (`escalate`, `bind`, `approve`,
//! `sign`, `impersonate`) it is the only proof.

mod ground;
mod rich;
mod scenes;
mod writers;

use std::collections::BTreeSet;

use ground::{ACCEPTED, AVAILABLE, World, all, heard};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use ocm_reconcile::rbac::Right;
use testkit::{Ask, Asked};

/// Verbs that no request has: the API server asks for them beside. Each is missing in one of the runs below.
const BESIDE: [&str; 5] = ["escalate", "bind", "approve", "sign", "impersonate"];

/// What anybody may ask for who is anybody at all.
const ANYBODYS: [&str; 1] = ["selfsubjectaccessreviews"];

/// Rights that were never asked for, and what was refused.
fn verdict(program: &str, rights: &[Right], asked: &Asked) -> Vec<String> {
    let heard = asked.heard();
    let idle = all(rights)
        .into_iter()
        .filter(|it| !BESIDE.contains(&it.verb.as_str()) && !heard.asked.contains(it))
        .map(|it| format!("{program} never asks for: {it}"));
    let refused = heard.refused.iter().flat_map(|(ask, words)| {
        // What nobody may do in a namespace on its way out is no matter of rights.
        let matters = words.iter().filter(|it| !it.contains("is being terminated"));
        matters.map(move |it| format!("{program} may not {ask}: {it}"))
    });
    idle.chain(refused).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn deployed_hub_and_agent_use_exactly_their_permissions() {
    let world = World::new(None, None).await;
    world.age().await;
    let leading = world.lead().await;
    scenes::a_cluster_joins(&world).await;
    let joined = world.join().await;
    world.cluster_is(AVAILABLE).await;
    scenes::sets_are_kept_and_profiles_shown(&world).await;
    scenes::placements_choose(&world).await;
    scenes::works_spread(&world).await;
    scenes::add_ons_come_and_go(&world).await;
    scenes::clusters_are_imported(&world).await;
    scenes::clusters_leave(&world).await;
    joined.stop().await;
    leading.stop().await;

    let mut findings = verdict("the hub", hub::rbac::RIGHTS, &world.of_hub);
    findings.extend(verdict("the agent", agent::rbac::RIGHTS, &world.of_agent));
    // Owners that wait are asked about only where OwnerReferencesPermissionEnforcement is on, which it is not here.
    let may: BTreeSet<_> = all(hub::rbac::RIGHTS).into_iter().collect();
    let beyond = world.of_hub.heard().asked.into_iter();
    let beyond = beyond.filter(|it| !may.contains(it) && !ANYBODYS.contains(&it.resource.as_str()));
    findings.extend(beyond.map(|it| format!("the hub has no right to {it}")));
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// What is done with a hub that lacks a right.
#[derive(Clone, Copy)]
enum Then {
    /// It starts.
    Starts,
    /// A cluster asks to join.
    Cluster,
    /// The cluster was there before anybody looked after its set.
    OldCluster,
    /// The agent of an add-on with a certificate of a signer of its own comes, and the authority is there.
    Signed,
}

const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const CLUSTER: &str = "cluster.open-cluster-management.io";

/// A hub without the first right does the last thing, and is refused the second.
#[rustfmt::skip]
const HUB: &[([&str; 3], [&str; 3], Then)] = &[
    (["apiextensions.k8s.io", "customresourcedefinitions", "create"], ["apiextensions.k8s.io", "customresourcedefinitions", "create"], Then::Starts),
    (["coordination.k8s.io", "leases", "update"], ["coordination.k8s.io", "leases", "update"], Then::Starts),
    (["coordination.k8s.io", "leases", "create"], ["coordination.k8s.io", "leases", "create"], Then::Starts),
    ([CLUSTER, "managedclustersets", "create"], [CLUSTER, "managedclustersets", "create"], Then::Starts),
    ([RBAC, "clusterroles", "escalate"], [RBAC, "clusterroles", "create"], Then::Starts),
    ([RBAC, "clusterroles", "bind"], [RBAC, "clusterrolebindings", "create"], Then::Starts),
    ([RBAC, "roles", "escalate"], [RBAC, "roles", "create"], Then::Signed),
    ([RBAC, "roles", "bind"], [RBAC, "rolebindings", "create"], Then::Signed),
    ([CERTIFICATES, "signers", "approve"], [CERTIFICATES, "certificatesigningrequests/approval", "update"], Then::Cluster),
    ([CERTIFICATES, "certificatesigningrequests/approval", "update"], [CERTIFICATES, "certificatesigningrequests/approval", "update"], Then::Cluster),
    ([CERTIFICATES, "signers", "sign"], [CERTIFICATES, "certificatesigningrequests/status", "update"], Then::Signed),
    (["", "secrets", "get"], ["", "secrets", "get"], Then::Signed),
    (["register.open-cluster-management.io", "managedclusters/accept", "update"], [CLUSTER, "managedclusters", "patch"], Then::Cluster),
    ([CLUSTER, "managedclustersets/join", "create"], [CLUSTER, "managedclusters", "patch"], Then::OldCluster),
];

async fn hub_without(lacks: &Ask, refused: &Ask, then: Then) {
    let world = World::new(Some(lacks), None).await;
    world.set_webhooks(!matches!(then, Then::OldCluster));
    let leading = world.lead().await;
    let joined = match then {
        Then::Starts => None,
        Then::Cluster | Then::OldCluster => {
            wait_for_clusters(&world).await;
            scenes::a_cluster_is_made(&world).await;
            if matches!(then, Then::OldCluster) {
                world.cluster_is(ACCEPTED).await;
                world.set_webhooks(true);
                // It is rid of the taint that a cluster has that nobody has heard of.
                scenes::a_cluster_is_heard_of(&world).await;
            } else {
                world.request(ground::JOINER, &[ground::BOOTSTRAPPERS]).await;
            }
            None
        }
        Then::Signed => {
            wait_for_clusters(&world).await;
            let joined = world.join().await;
            world.cluster_is(AVAILABLE).await;
            let secrets: Api<Secret> = Api::namespaced(world.hub.client(), ocm_api::namespaces::HUB);
            secrets
                .create(&PostParams::default(), &rich::authority())
                .await
                .unwrap();
            for text in [rich::OTHERS, rich::OFFER, rich::ADD_ON] {
                world.hub.apply(text).await;
            }
            Some(joined)
        }
    };
    heard(&world.of_hub, refused, true).await;
    if let Some(joined) = joined {
        joined.stop().await;
    }
    leading.stop().await;
}

/// The hub has made what clusters need.
async fn wait_for_clusters(world: &World) {
    heard(&world.of_hub, &Ask::new(CLUSTER, "managedclusters", "watch"), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hub_permission_is_necessary() {
    let right = |[group, resource, verb]: [&str; 3]| Ask::new(group, resource, verb);
    for (lacks, refused, then) in HUB {
        let (lacks, refused) = (right(*lacks), right(*refused));
        println!("the hub without {lacks}");
        hub_without(&lacks, &refused, *then).await;
    }
    // None of those that cannot be heard is left out.
    let tried: BTreeSet<_> = HUB.iter().map(|(lacks, _, _)| right(*lacks)).collect();
    let beside = all(hub::rbac::RIGHTS).into_iter();
    let untried: Vec<_> = beside
        .filter(|it| BESIDE.contains(&it.verb.as_str()) && !tried.contains(it))
        .collect();
    assert!(untried.is_empty(), "{untried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_agent_permission_is_necessary() {
    let secrets = |verb| Ask::new("", "secrets", verb);
    let traces = Ask::new("work.open-cluster-management.io", "appliedmanifestworks", "create");
    let tried: [(Ask, Ask); 4] = [
        (secrets("create"), secrets("create")),
        (secrets("get"), secrets("get")),
        (traces.clone(), traces),
        (
            Ask::new("", "serviceaccounts", "impersonate"),
            Ask::new(RBAC, "roles", "create"),
        ),
    ];
    // None of those that cannot be heard is left out.
    let mut beside = all(agent::rbac::RIGHTS).into_iter();
    assert!(beside.all(|it| !BESIDE.contains(&it.verb.as_str()) || tried.iter().any(|(lacks, _)| *lacks == it)));
    for (lacks, refused) in tried {
        println!("the agent without {lacks}");
        let world = World::new(None, Some(&lacks)).await;
        let leading = world.lead().await;
        wait_for_clusters(&world).await;
        let joined = world.join().await;
        if lacks.resource != "secrets" {
            world.cluster_is(AVAILABLE).await;
            scenes::an_executor_may(&world).await;
            world.hub.apply(&scenes::work("anything")).await;
        }
        heard(&world.of_agent, &refused, true).await;
        joined.stop().await;
        leading.stop().await;
    }
}
