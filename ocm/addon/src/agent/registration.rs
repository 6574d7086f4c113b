//! Which credentials the agent of an add-on is to have, as its ManagedClusterAddOn says.
//! Upstream: ocm `pkg/registration/spoke/addon/configuration.go`.

use credential::csr::CertificateSubject;
use kube::ResourceExt;
use ocm_api::{
    addon::{
        KubeClientDriver,
        v1alpha1::{ManagedClusterAddOn, RegistrationConfig},
    },
    annotations, identity,
};

use super::AddOnAgentOptions;

/// One credential, which is one Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddOnRegistration {
    /// The Secret's name.
    pub secret: String,
    /// How the agent proves who it is.
    pub driver: KubeClientDriver,
    /// Who signs the certificate.
    pub signer: String,
    /// For whom.
    pub subject: CertificateSubject,
}

impl AddOnRegistration {
    /// Whether it lets the agent speak to the hub's API server.
    pub fn is_kube_client(&self) -> bool {
        self.signer == identity::CLIENT_SIGNER
    }
}

/// All of them, in the order of the add-on, each Secret once.
pub fn registrations(
    addon: &ManagedClusterAddOn,
    name: &str,
    cluster: &str,
    driver: KubeClientDriver,
) -> Vec<AddOnRegistration> {
    let mut all: Vec<AddOnRegistration> = Vec::new();
    for config in addon.status.iter().flat_map(|it| &it.registrations) {
        let kube_client = config.signer_name == identity::CLIENT_SIGNER;
        let registration = AddOnRegistration {
            secret: if kube_client {
                format!("{name}-hub-kubeconfig")
            } else {
                format!("{name}-{}-client-cert", config.signer_name.replace('/', "-"))
            },
            // Only the hub's API server knows ServiceAccounts.
            driver: if kube_client { driver } else { KubeClientDriver::Csr },
            signer: config.signer_name.clone(),
            subject: subject(config, name, cluster),
        };
        if all.iter().all(|it| it.secret != registration.secret) {
            all.push(registration);
        }
    }
    all
}

fn subject(config: &RegistrationConfig, name: &str, cluster: &str) -> CertificateSubject {
    let given = &config.subject;
    let group = identity::addon_cluster_group(cluster, name);
    CertificateSubject {
        common_name: if given.user.is_empty() {
            identity::addon_user(cluster, name, name)
        } else {
            given.user.clone()
        },
        organizations: if given.groups.is_empty() {
            vec![group]
        } else {
            given.groups.clone()
        },
        organizational_units: given.organization_unit.clone(),
        dns_names: vec![format!("{name}.addon.open-cluster-management.io")],
    }
}

/// How the agent of an add-on proves who it is: as the cluster's agent is `told`, else as the add-on says,
/// else with a certificate.
pub fn driver(told: Option<KubeClientDriver>, addon: &ManagedClusterAddOn) -> KubeClientDriver {
    let said = addon.annotations().get(annotations::ADDON_KUBE_CLIENT_DRIVER);
    let said = said.and_then(|it| match it.as_str() {
        "csr" => Some(KubeClientDriver::Csr),
        "token" => Some(KubeClientDriver::Token),
        _ => None,
    });
    told.or(said).unwrap_or(KubeClientDriver::Csr)
}

/// How many seconds a token of an add-on's agent lives: as the cluster's agent is `told`, else as the add-on says.
pub fn token_seconds(told: Option<i64>, addon: &ManagedClusterAddOn) -> i64 {
    let said = addon.annotations().get(annotations::ADDON_TOKEN_SECONDS);
    let said = said.and_then(|it| it.parse().ok());
    let seconds = told.or(said).unwrap_or(AddOnAgentOptions::TOKEN_SECONDS);
    seconds.max(AddOnAgentOptions::TOKEN_SECONDS_MIN)
}

/// The user that the token driver speaks as.
pub fn token_user(cluster: &str, name: &str) -> String {
    format!("system:serviceaccount:{cluster}:{}", service_account(name))
}

/// The ServiceAccount on the hub whose token the token driver asks for.
pub fn service_account(name: &str) -> String {
    format!("{name}-agent")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(registrations_json: serde_json::Value, driver: KubeClientDriver) -> Vec<AddOnRegistration> {
        let addon = serde_json::from_value(
            json!({"metadata": {}, "spec": {}, "status": {"registrations": registrations_json}}),
        );
        registrations(&addon.unwrap(), "helloworld", "cluster1", driver)
    }

    #[test]
    fn each_signer_has_a_secret_of_its_own() {
        let all = of(
            json!([
                {"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": "u", "groups": ["g"]}},
                {"signerName": "example.com/signer/a", "subject": {"organizationUnit": ["ou"]}},
                {"signerName": "example.com/signer/a", "subject": {"user": "again"}},
            ]),
            KubeClientDriver::Token,
        );
        let secrets: Vec<_> = all.iter().map(|it| (it.secret.as_str(), it.driver)).collect();
        assert_eq!(
            secrets,
            [
                ("helloworld-hub-kubeconfig", KubeClientDriver::Token),
                ("helloworld-example.com-signer-a-client-cert", KubeClientDriver::Csr)
            ]
        );
        assert_eq!(
            (all[0].subject.common_name.as_str(), all[0].is_kube_client()),
            ("u", true)
        );
        assert_eq!(all[0].subject.organizations, ["g"]);
        assert_eq!(all[1].subject.organizational_units, ["ou"]);
        assert!(!all[1].is_kube_client());
    }

    #[test]
    fn the_clusters_driver_takes_precedence_over_the_add_ons() {
        let addon = |driver: &str, seconds: &str| -> ManagedClusterAddOn {
            let annotations = json!({
                "addon.open-cluster-management.io/kube-client-driver": driver,
                "addon.open-cluster-management.io/token-expiration-seconds": seconds,
            });
            serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": {}})).unwrap()
        };
        let hourly = addon("token", "3600");
        assert_eq!(
            (driver(None, &hourly), token_seconds(None, &hourly)),
            (KubeClientDriver::Token, 3600)
        );
        let told = Some(KubeClientDriver::Csr);
        assert_eq!(
            (driver(told, &hourly), token_seconds(Some(7200), &hourly)),
            (KubeClientDriver::Csr, 7200)
        );
        let strange = addon("passport", "soon");
        assert_eq!(
            (driver(None, &strange), token_seconds(None, &strange)),
            (KubeClientDriver::Csr, 31_536_000)
        );
        assert_eq!(token_seconds(None, &addon("token", "1")), 600);
    }

    #[test]
    fn an_empty_subject_is_upstreams_default_one() {
        let all = of(
            json!([{"signerName": "kubernetes.io/kube-apiserver-client"}]),
            KubeClientDriver::Csr,
        );
        let subject = &all[0].subject;
        assert_eq!(
            subject.common_name,
            "system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:helloworld"
        );
        assert_eq!(
            subject.organizations,
            ["system:open-cluster-management:cluster:cluster1:addon:helloworld"]
        );
        assert_eq!(subject.dns_names, ["helloworld.addon.open-cluster-management.io"]);
    }
}
