//! What a certificate request waits for.

use client::csr::{self, Stage};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

/// One sentence for the thing it waits for.
pub fn waits_for(csr: &CertificateSigningRequest) -> Vec<String> {
    let name = csr.metadata.name.as_deref().unwrap_or_default();
    match csr::stage(csr) {
        Stage::Issued => vec![],
        Stage::Approved => {
            vec![format!(
                "CSR {name} is approved and waits for the signer {} to issue the certificate.",
                csr.spec.signer_name
            )]
        }
        Stage::Denied(why) => vec![format!(
            "CSR {name} was denied{}; its agent has to ask again.",
            because(&why)
        )],
        Stage::Failed(why) => vec![format!(
            "The signer could not issue the certificate of CSR {name}{}.",
            because(&why)
        )],
        Stage::Pending => match csr::labelled_cluster(csr) {
            None => vec![format!(
                "CSR {name} is not one of a cluster's agent; it waits for somebody else to decide on it."
            )],
            Some(cluster) => match csr::fault(csr, cluster, &[]) {
                None => vec![format!(
                    "CSR {name} waits for a hub administrator to approve it: run `drover accept --clusters {cluster}`."
                )],
                Some(fault) => vec![format!(
                    "CSR {name} is not approved for cluster {cluster}, because {fault}."
                )],
            },
        },
    }
}

/// A reason as the tail of a sentence.
fn because(why: &str) -> String {
    match why.trim().trim_end_matches('.') {
        "" => String::new(),
        why => format!(": {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_no_clusters_agent_is_recognised() {
        let mut csr = CertificateSigningRequest::default();
        csr.metadata.name = Some("csr-1".into());
        assert_eq!(
            waits_for(&csr),
            ["CSR csr-1 is not one of a cluster's agent; it waits for somebody else to decide on it."]
        );
    }
}
