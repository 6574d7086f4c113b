//! The rights of the deployed operators (`operator::rbac`) are sufficient and minimal.
//!
//! One run of each does all that the operator does, with the rights of its compact layout alone, and is listened to. At
//! its end nothing was refused, so they suffice; and each of them was asked for, so none can go. For `escalate` and
//! `bind`, which are no requests, it is tried without them. And upstream's roles suffice for upstream's layout, so that
//! our image can take the place of upstream's in an operator's Deployment with nothing else changed.

mod agents;
mod ground;
mod hubs;

use std::collections::BTreeSet;

use ground::Ground;
use ocm_reconcile::rbac::Right;
use operator::{Layout, rbac};
use testkit::{Ask, Asked};

/// Verbs that no request has.
const BESIDE: [&str; 2] = ["escalate", "bind"];

/// A table, one right each.
fn all(rights: &[Right]) -> Vec<Ask> {
    let mut all = Vec::new();
    for right in rights {
        for resource in right.resources.split_whitespace() {
            let verbs = right.verbs.split_whitespace();
            all.extend(verbs.map(|verb| Ask::new(right.group, resource, verb)));
        }
    }
    all
}

/// Rights that were never asked for, and what was refused.
fn verdict(rights: &[Right], asked: &Asked) -> Vec<String> {
    let heard = asked.heard();
    let idle = all(rights).into_iter().collect::<BTreeSet<_>>().into_iter();
    let idle = idle.filter(|it| !BESIDE.contains(&it.verb.as_str()) && !heard.asked.contains(it));
    let refused = heard.refused.iter().flat_map(|(ask, words)| {
        // What nobody may do in a namespace on its way out is no matter of rights.
        let matters = words.iter().filter(|it| !it.contains("is being terminated"));
        matters.map(move |it| format!("may not {ask}: {it}"))
    });
    idle.map(|it| format!("never asks for: {it}")).chain(refused).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_of_hubs_uses_exactly_its_rights() {
    let ground = Ground::start(rbac::HUB_NAME, &rbac::hub()).await;
    hubs::everything(&ground).await;
    let found = verdict(&rbac::hub(), &ground.asked);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_of_agents_uses_exactly_its_rights() {
    let ground = Ground::start(rbac::KLUSTERLET_NAME, &rbac::klusterlet()).await;
    agents::everything(&ground).await;
    let found = verdict(&rbac::klusterlet(), &ground.asked);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_role_suffices_for_a_hub_in_upstreams_layout() {
    let ground = Ground::start(rbac::HUB_NAME, rbac::UPSTREAM_HUB).await;
    hubs::installed_upgraded_and_removed(&ground, Layout::Upstream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_role_suffices_for_an_agent_in_upstreams_layout() {
    let ground = Ground::start(rbac::KLUSTERLET_NAME, rbac::UPSTREAM_KLUSTERLET).await;
    agents::installed_changed_and_removed(&ground, Layout::Upstream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operator_can_do_without_escalate_or_bind() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    for (name, rights) in [
        (rbac::HUB_NAME, rbac::hub()),
        (rbac::KLUSTERLET_NAME, rbac::klusterlet()),
    ] {
        let beside = all(&rights).into_iter().filter(|it| BESIDE.contains(&it.verb.as_str()));
        for lacks in beside.collect::<BTreeSet<_>>() {
            let refused = match (lacks.verb.as_str(), lacks.resource.as_str()) {
                ("escalate", resource) => Ask::new(RBAC, resource, "create"),
                ("bind", "clusterroles") => Ask::new(RBAC, "clusterrolebindings", "create"),
                (_, _) => Ask::new(RBAC, "rolebindings", "create"),
            };
            println!("{name} without {lacks}");
            let ground = Ground::start_without(name, &rights, Some(&lacks)).await;
            match name {
                rbac::HUB_NAME => hubs::asked_for(&ground).await,
                _ => agents::asked_for(&ground).await,
            }
            ground.hears_refusal(&refused).await;
        }
    }
}
