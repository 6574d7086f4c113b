//! What keeps an add-on's agent from being let into the hub.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::{
    Status,
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    conditions::managed_cluster_add_on::{self as types, registration_reason},
    identity, labels,
};

use super::{Seen, find, says};

/// One sentence for each thing.
pub fn sentences(seen: &Seen, addon: &ManagedClusterAddOn) -> Vec<String> {
    let mut said = Vec::new();
    let status = addon.status.clone().unwrap_or_default();
    if let Some(it) = find(addon, types::REGISTRATION_APPLIED).filter(|it| it.status != Status::True.as_str()) {
        said.push(if it.reason == registration_reason::PERMISSION_CONFIG_PENDING {
            format!(
                "The hub waits for the agent of {} to say who the add-on's agent is, before it gives it any rights.",
                seen.cluster_name
            )
        } else {
            format!("The add-on is not registered: {}.", says(it))
        });
    }
    if status.registrations.is_empty() {
        return said;
    }
    let is_client = status
        .registrations
        .iter()
        .any(|it| it.signer_name == identity::CLIENT_SIGNER);
    if is_client && status.kube_client_driver == Some(KubeClientDriver::Token) {
        said.extend(token(seen, addon));
    }
    let by_token =
        |signer: &str| signer == identity::CLIENT_SIGNER && status.kube_client_driver == Some(KubeClientDriver::Token);
    if status.registrations.iter().all(|it| by_token(&it.signer_name)) {
        return said;
    }
    match find(addon, types::CERTIFICATE_ROTATED) {
        Some(it) if it.status == Status::True.as_str() => {}
        Some(it) => said.push(format!(
            "The agent of {} has no certificate for the add-on: {}.",
            seen.cluster_name,
            says(it)
        )),
        None => {
            for it in status.registrations.iter().filter(|it| !by_token(&it.signer_name)) {
                said.extend(request(seen, &it.signer_name));
            }
        }
    }
    said
}

fn token(seen: &Seen, addon: &ManagedClusterAddOn) -> Option<String> {
    let failed = |r#type: &str| find(addon, r#type).filter(|it| it.status != Status::True.as_str());
    if let Some(it) = failed(types::TOKEN_INFRASTRUCTURE_READY) {
        return Some(format!("The hub could not prepare the add-on's account: {}.", says(it)));
    }
    if find(addon, types::TOKEN_INFRASTRUCTURE_READY).is_none() {
        return Some("The hub has not made the add-on's account yet; is the hub process running?".to_owned());
    }
    if let Some(it) = failed(types::TOKEN_REFRESHED) {
        return Some(format!(
            "The agent of {} has no token for the add-on: {}.",
            seen.cluster_name,
            says(it)
        ));
    }
    find(addon, types::TOKEN_REFRESHED).is_none().then(|| {
        format!(
            "The agent of {} has not asked for the add-on's token yet.",
            seen.cluster_name
        )
    })
}

/// What became of the agent's requests to one signer, judged by the one that got furthest.
fn request(seen: &Seen, signer: &str) -> Option<String> {
    let (cluster, name) = (&seen.cluster_name, &seen.name);
    let ours = |it: &&CertificateSigningRequest| {
        let label = |key: &str| it.metadata.labels.as_ref().and_then(|all| all.get(key));
        label(labels::CLUSTER_NAME) == Some(cluster)
            && label(labels::ADDON_NAME) == Some(name)
            && it.spec.signer_name == signer
    };
    let requests: Vec<_> = seen.requests.iter().filter(ours).collect();
    let at = |wanted: fn(&Stage) -> bool| {
        let found = requests.iter().find(|it| wanted(&stage(it)))?;
        Some((found.metadata.name.clone().unwrap_or_default(), *found))
    };
    if let Some((csr, _)) = at(|it| *it == Stage::Issued) {
        return Some(format!(
            "CSR {csr} has its certificate; the agent of {cluster} has not written it to its Secret yet, for which the add-on's \
             namespace must be there."
        ));
    }
    if let Some((csr, _)) = at(|it| *it == Stage::Approved) {
        return Some(format!(
            "CSR {csr} is approved and waits for the signer {signer} to issue the certificate."
        ));
    }
    if let Some((csr, it)) = at(|it| *it == Stage::Pending) {
        let user = it.spec.username.as_deref().unwrap_or_default();
        let is_agent = user
            .strip_prefix(&identity::agent_user(cluster, ""))
            .is_some_and(|agent| !agent.is_empty() && !agent.contains(':'));
        return Some(if is_agent {
            format!(
                "CSR {csr} waits to be approved: the add-on's manager approves it, or a person with `kubectl certificate approve \
                 {csr}`."
            )
        } else {
            format!("CSR {csr} is not approved, because its requester {user} is no agent of {cluster}.")
        });
    }
    if let Some((csr, it)) = at(|it| matches!(it, Stage::Denied | Stage::Failed)) {
        let conditions = it.status.iter().flat_map(|it| it.conditions.iter().flatten());
        let why = conditions
            .filter(|it| it.type_ != "Approved")
            .find_map(|it| it.message.clone().filter(|it| !it.is_empty()))
            .map(|it| format!(": {}", it.trim_end_matches('.')))
            .unwrap_or_default();
        return Some(format!(
            "CSR {csr} was denied or failed{why}; delete it, and the agent of {cluster} asks again."
        ));
    }
    Some(format!(
        "The agent of {cluster} has not asked the signer {signer} for a certificate for the add-on yet; see its log."
    ))
}

#[derive(PartialEq, Eq)]
enum Stage {
    Pending,
    Denied,
    Failed,
    Approved,
    Issued,
}

fn stage(request: &CertificateSigningRequest) -> Stage {
    let status = request.status.as_ref();
    let has = |r#type: &str| status.is_some_and(|it| it.conditions.iter().flatten().any(|it| it.type_ == r#type));
    match () {
        () if status.is_some_and(|it| it.certificate.as_ref().is_some_and(|it| !it.0.is_empty())) => Stage::Issued,
        () if has("Denied") => Stage::Denied,
        () if has("Failed") => Stage::Failed,
        () if has("Approved") => Stage::Approved,
        () => Stage::Pending,
    }
}
