//! Which certificate requests are a cluster's own, and where they stand.
//! Upstream: registration pkg/register/csr, which accepts by prefix in one place and exactly in another; here a request
//! is a cluster's own only if its label, its organisation and its common name all say exactly that cluster.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube_primitives::certificate_request;
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509CertificationRequest, parse_x509_pem};

use crate::kinds::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL};

const SUBJECT_PREFIX: &str = "system:open-cluster-management:";
const MANAGED_CLUSTERS_GROUP: &str = "system:open-cluster-management:managed-clusters";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Requesters that are known to ask with a bootstrap credential.
const BOOTSTRAP_USERS: [&str; 2] = [
    "system:serviceaccount:open-cluster-management:agent-registration-bootstrap",
    "system:serviceaccount:open-cluster-management-hub:grpc-server-sa",
];
const BOOTSTRAP_USER_PREFIX: &str = "system:bootstrap:";
const BOOTSTRAP_GROUPS: [&str; 3] = [
    "system:bootstrappers:managedcluster",
    "system:serviceaccounts:open-cluster-management",
    "system:serviceaccounts:open-cluster-management-hub",
];

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Nobody has decided yet.
    Pending,
    /// Somebody refused it, with a message.
    Denied(String),
    /// It is approved, and the signer has not issued the certificate yet.
    Approved,
    /// The signer could not issue, with a message.
    Failed(String),
    /// The certificate is there.
    Issued,
}

/// Reads the stage from the request's conditions and certificate.
pub fn stage(csr: &CertificateSigningRequest) -> Stage {
    let status = csr.status.as_ref();
    let condition = |kind: &str| status?.conditions.as_ref()?.iter().find(|it| it.type_ == kind);
    let says = |kind: &str| condition(kind).map(|it| it.message.clone().or(it.reason.clone()).unwrap_or_default());
    match () {
        () if status.is_some_and(|it| it.certificate.as_ref().is_some_and(|it| !it.0.is_empty())) => Stage::Issued,
        () if condition("Denied").is_some() => Stage::Denied(says("Denied").unwrap_or_default()),
        () if condition("Failed").is_some() => Stage::Failed(says("Failed").unwrap_or_default()),
        () if condition("Approved").is_some() => Stage::Approved,
        () => Stage::Pending,
    }
}

/// The cluster a request is labelled for, unless it belongs to an add-on of that cluster.
pub fn labelled_cluster(csr: &CertificateSigningRequest) -> Option<&str> {
    let labels = csr.metadata.labels.as_ref()?;
    if labels.contains_key(ADDON_NAME_LABEL) {
        return None;
    }
    labels.get(CLUSTER_NAME_LABEL).map(String::as_str)
}

/// Why this request is not what the agent of `cluster` asks for, whoever has asked; `None` if it is.
pub fn request_fault(csr: &CertificateSigningRequest, cluster: &str) -> Option<String> {
    if labelled_cluster(csr) != Some(cluster) {
        return Some(format!("it is not labelled {CLUSTER_NAME_LABEL}={cluster}"));
    }
    if csr.spec.signer_name != SIGNER {
        return Some(format!("it asks the signer {}, not {SIGNER}", csr.spec.signer_name));
    }
    identity_fault(&csr.spec.request.0, cluster)
}

/// Why this request must not be approved for `cluster`; `None` if it is exactly what that cluster's agent asks for.
/// `requesters` are users that the administrator trusts beside the known bootstrap identities.
pub fn fault(csr: &CertificateSigningRequest, cluster: &str, requesters: &[String]) -> Option<String> {
    if let Some(fault) = request_fault(csr, cluster) {
        return Some(fault);
    }
    let user = csr.spec.username.as_deref().unwrap_or_default();
    let groups = csr.spec.groups.as_deref().unwrap_or_default();
    let known = user.starts_with(BOOTSTRAP_USER_PREFIX)
        || BOOTSTRAP_USERS.contains(&user)
        || groups.iter().any(|it| BOOTSTRAP_GROUPS.contains(&it.as_str()))
        || requesters.iter().any(|it| it == user)
        // The agent renewing with the credential it already has.
        || (user.starts_with(&format!("{SUBJECT_PREFIX}{cluster}:")) && user.split(':').count() == 4);
    if !known {
        return Some(format!(
            "its requester {user} has no bootstrap identity; trust it with --requesters {user}"
        ));
    }
    None
}

/// The approval as a merge patch; it carries the resource version, because a merge patch replaces the conditions whole.
pub fn approval(csr: &CertificateSigningRequest, reason: &str, message: &str) -> Value {
    let present = csr.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions: Vec<Value> = present.into_iter().flatten().map(|it| json!(it)).collect();
    conditions.push(json!({ "type": "Approved", "status": "True", "reason": reason, "message": message }));
    json!({
        "metadata": { "resourceVersion": csr.metadata.resource_version },
        "status": { "conditions": conditions },
    })
}

/// What is wrong with the identity asked for.
fn identity_fault(pem: &[u8], cluster: &str) -> Option<String> {
    let unreadable = || Some("it holds no readable certificate request".to_owned());
    if !certificate_request::is_only_one(pem) {
        return Some("it does not hold one certificate request and nothing else".to_owned());
    }
    let Ok((_, pem)) = parse_x509_pem(pem) else {
        return unreadable();
    };
    if pem.label != "CERTIFICATE REQUEST" {
        return unreadable();
    }
    let Ok(([], request)) = X509CertificationRequest::from_der(&pem.contents) else {
        return unreadable();
    };
    let subject = &request.certification_request_info.subject;
    let text = |it: &x509_parser::x509::AttributeTypeAndValue<'_>| it.as_str().unwrap_or_default().to_owned();
    let organizations: Vec<String> = subject
        .iter_organization()
        .map(text)
        .filter(|it| it != MANAGED_CLUSTERS_GROUP)
        .collect();
    let group = format!("{SUBJECT_PREFIX}{cluster}");
    if organizations != [group.clone()] {
        return Some(format!("it asks for the groups {organizations:?}, not {group:?}"));
    }
    let names: Vec<String> = subject.iter_common_name().map(text).collect();
    let agent = match names.as_slice() {
        [name] => name.strip_prefix(&format!("{group}:")),
        _ => None,
    };
    match agent {
        Some(agent) if !agent.is_empty() && !agent.contains(':') => None,
        _ => Some(format!(
            "it asks for the user {:?}, not {group}:<agent>",
            names.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        ByteString,
        api::certificates::v1::{CertificateSigningRequestCondition, CertificateSigningRequestStatus},
    };
    use testkit::cluster_request::with_subject as csr;

    use super::*;

    fn own() -> CertificateSigningRequest {
        csr(
            "cluster1",
            "CN=system:open-cluster-management:cluster1:abcde,\
             O=system:open-cluster-management:cluster1+O=system:open-cluster-management:managed-clusters",
        )
    }

    #[test]
    fn an_approval_patch_keeps_conditions_and_carries_the_resource_version() {
        let mut csr = own();
        csr.metadata.resource_version = Some("7".into());
        let patch = approval(&csr, "DroverApprove", "because");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["status"]["conditions"][0]["type"], "Approved");
    }

    #[test]
    fn a_request_for_exactly_the_cluster_has_no_fault() {
        assert_eq!(fault(&own(), "cluster1", &[]), None);
    }

    #[test]
    fn a_request_of_cluster1_does_not_serve_cluster10() {
        assert!(fault(&own(), "cluster10", &[]).is_some());
        let mut relabelled = own();
        relabelled.metadata.labels = Some([(CLUSTER_NAME_LABEL.to_owned(), "cluster10".to_owned())].into());
        let fault = fault(&relabelled, "cluster10", &[]).unwrap();
        assert!(fault.starts_with("it asks for the groups"), "{fault}");
    }

    #[test]
    fn look_alike_identities_are_refused() {
        let group = "O=system:open-cluster-management:cluster1";
        for subject in [
            format!("CN=system:open-cluster-management:cluster1,{group}"),
            format!("CN=system:open-cluster-management:cluster1:,{group}"),
            format!("CN=system:open-cluster-management:cluster1:a:b,{group}"),
            format!("CN=system:open-cluster-management:cluster10:a,{group}"),
            format!("CN=admin,{group}"),
            format!("CN=system:open-cluster-management:cluster1:a,{group}+O=system:masters"),
            "CN=system:open-cluster-management:cluster1:a".to_owned(),
        ] {
            assert!(
                fault(&csr("cluster1", &subject), "cluster1", &[]).is_some(),
                "{subject}"
            );
        }
    }

    #[test]
    fn an_unknown_requester_is_refused_unless_trusted_by_name() {
        let mut csr = own();
        csr.spec.username = Some("mallory".into());
        assert!(fault(&csr, "cluster1", &[]).unwrap().contains("--requesters mallory"));
        assert_eq!(fault(&csr, "cluster1", &["mallory".into()]), None);
    }

    #[test]
    fn a_request_of_an_addon_is_not_the_clusters() {
        let mut csr = own();
        csr.metadata
            .labels
            .as_mut()
            .unwrap()
            .insert(ADDON_NAME_LABEL.into(), "helloworld".into());
        assert_eq!(labelled_cluster(&csr), None);
        assert!(fault(&csr, "cluster1", &[]).is_some());
    }

    #[test]
    fn the_stage_is_read_from_conditions_and_certificate() {
        let mut csr = own();
        assert_eq!(stage(&csr), Stage::Pending);
        let condition = |kind: &str| CertificateSigningRequestCondition {
            type_: kind.into(),
            message: Some("because".into()),
            ..Default::default()
        };
        csr.status = Some(CertificateSigningRequestStatus {
            conditions: Some(vec![condition("Denied")]),
            ..Default::default()
        });
        assert_eq!(stage(&csr), Stage::Denied("because".into()));
        csr.status.as_mut().unwrap().conditions = Some(vec![condition("Approved")]);
        assert_eq!(stage(&csr), Stage::Approved);
        csr.status.as_mut().unwrap().certificate = Some(ByteString(b"pem".to_vec()));
        assert_eq!(stage(&csr), Stage::Issued);
    }
}
