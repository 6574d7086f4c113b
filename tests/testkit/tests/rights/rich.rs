//! An add-on that wants something of everything: credentials of two kinds, rights of every shape, configurations,
//! a hook.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_api::pki::certificate;
use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Proof, Registration, UserError, registration::Signing,
};
use ocm_api::addon::v1alpha1::AddOnDeploymentConfig;
use p256::{
    ecdsa::SigningKey,
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, LineEnding},
};
use serde_json::{Value, json};
use x509_cert::der::EncodePem;

pub const SIGNER: &str = "example.com/rich";
pub const AUTHORITY: &str = "rich-ca";
/// Its binding of a ClusterRole and of a Role that others keep.
pub const OTHERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cm-admin}
rules: [{apiGroups: [''], resources: [configmaps], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: cm-role, namespace: cluster1}
rules: [{apiGroups: [''], resources: [configmaps], verbs: ['*']}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: rich-config, namespace: cluster1}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: rich-config, namespace: cluster1}
spec: {customizedVariables: [{name: A, value: b}]}
";
pub const OFFER: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: rich}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs}
  - {group: '', resource: configmaps}
";
pub const ADD_ON: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: rich, namespace: cluster1}
spec:
  configs:
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, name: rich-config, namespace: cluster1}
  - {group: '', resource: configmaps, name: rich-config, namespace: cluster1}
";

pub struct Rich;

impl AddOn for Rich {
    fn name(&self) -> &str {
        "rich"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let namespace = &place.install_namespace;
        let containers = json!([{"name": "a", "image": "a"}]);
        Ok(vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rich", "namespace": namespace}}),
            json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": "rich-goes", "namespace": namespace,
                    "annotations": {"addon.open-cluster-management.io/addon-pre-delete": ""},
                },
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
            }),
        ])
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![
            Registration::kube_client().with(Proof::Token { lifetime: None }),
            Registration::custom_signer(SIGNER).signed_by(Signing::with_secret(AUTHORITY)),
        ])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        Ok(permissions())
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<ConfigMap>(), ConfigKind::of::<AddOnDeploymentConfig>()]
    }
}

/// One whose agent comes with a certificate, and may as much.
pub struct Plain;

impl AddOn for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        Ok(permissions())
    }
}

fn permissions() -> Vec<Permission> {
    let maps = Permission::rule("", &["configmaps"], &["*"]);
    let nodes = Permission::rule("", &["nodes"], &["get"]);
    vec![
        Permission::role("rich-own", vec![maps]),
        Permission::role("rich-everywhere", vec![nodes]).on_the_whole_hub(),
        Permission::existing_cluster_role("cm-admin").bound_as("rich-cm-admin"),
        Permission::existing_role("cm-role").bound_as("rich-cm-role"),
    ]
}

/// The Secret with the authority of its signer.
pub fn authority() -> Secret {
    let key = SigningKey::generate();
    let authority = certificate::authority(AUTHORITY, &key, jiff::Timestamp::now(), 86400).unwrap();
    let data = json!({
        "tls.crt": authority.to_pem(LineEnding::LF).unwrap(),
        "tls.key": key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
    });
    serde_json::from_value(json!({"metadata": {"name": AUTHORITY}, "stringData": data})).unwrap()
}
