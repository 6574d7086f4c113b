//! What keeps an add-on's agent from being let into the hub.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::{
    Status,
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    conditions::managed_cluster_add_on::{self as types, registration_reason, signing_reason},
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
        // The certificate may be for one signer while another one cannot sign.
        Some(it) if it.status == Status::True.as_str() => {
            let others = status
                .registrations
                .iter()
                .filter(|it| it.signer_name != identity::CLIENT_SIGNER);
            said.extend(others.filter_map(|it| hindered(seen, &it.signer_name)));
        }
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

/// The agent's requests to one signer.
fn requests<'s>(seen: &'s Seen, signer: &str) -> Vec<&'s CertificateSigningRequest> {
    let ours = |it: &&CertificateSigningRequest| {
        let label = |key: &str| it.metadata.labels.as_ref().and_then(|all| all.get(key));
        label(labels::CLUSTER_NAME) == Some(&seen.cluster_name)
            && label(labels::ADDON_NAME) == Some(&seen.name)
            && it.spec.signer_name == signer
    };
    seen.requests.iter().filter(ours).collect()
}

/// What keeps one signer from signing what is approved, where somebody has told.
fn hindered(seen: &Seen, signer: &str) -> Option<String> {
    let requests = requests(seen, signer);
    if requests.iter().any(|it| stage(it) == Stage::Issued) {
        return None;
    }
    let approved = requests.iter().filter(|it| stage(it) == Stage::Approved);
    let mut told = approved.filter_map(|it| {
        let csr = it.metadata.name.as_deref()?;
        let begins = format!("CSR {csr} cannot be signed: ");
        let of_it = seen.events.iter().filter_map(|event| {
            let why = event.note.as_deref()?.strip_prefix(&begins)?;
            let is_told = event.reason.as_deref() == Some(signing_reason::NO_AUTHORITY);
            is_told.then_some((event.event_time.as_ref().map(|it| it.0), why))
        });
        let (_, why) = of_it.max_by_key(|(at, _)| *at)?;
        Some(format!("CSR {csr} is approved and cannot be signed: {why}."))
    });
    told.next()
}

/// What became of the agent's requests to one signer, judged by the one that got furthest.
fn request(seen: &Seen, signer: &str) -> Option<String> {
    let cluster = &seen.cluster_name;
    let requests = requests(seen, signer);
    let at = |wanted: fn(&Stage) -> bool| {
        let found = requests.iter().find(|it| wanted(&stage(it)))?;
        Some((found.metadata.name.clone().unwrap_or_default(), *found))
    };
    if let Some((csr, _)) = at(|it| *it == Stage::Issued) {
        return Some(format!(
            "CSR {csr} has its certificate; the agent of {cluster} has not said yet that it has written it to its Secret, for which \
             the add-on's namespace must be there."
        ));
    }
    if let Some((csr, _)) = at(|it| *it == Stage::Approved) {
        if let Some(told) = hindered(seen, signer) {
            return Some(told);
        }
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
