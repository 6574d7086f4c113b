//! What a resolver is set to.

use crate::encryption::TemplateKeys;

/// What encloses an action of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delimiters {
    /// `{{` and `}}`: templates that the cluster fills in.
    #[default]
    Managed,
    /// `{{hub` and `hub}}`: templates that the hub fills in.
    Hub,
}

impl Delimiters {
    /// What an action begins with.
    pub fn start(self) -> &'static str {
        match self {
            Delimiters::Managed => "{{",
            Delimiters::Hub => "{{hub",
        }
    }

    /// What an action ends with.
    pub fn stop(self) -> &'static str {
        match self {
            Delimiters::Managed => "}}",
            Delimiters::Hub => "hub}}",
        }
    }
}

/// A cluster-scoped object that may be looked up although look-ups are restricted to a namespace. `*` in a field is
/// anything (upstream: `ClusterScopedObjectIdentifier`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedClusterScoped {
    /// Its API group; empty for the core group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What is done about encrypted values (upstream: `EncryptionConfig`).
#[derive(Clone, Debug, Default)]
pub enum TemplateEncryption {
    /// Nothing: `protect` is an error.
    #[default]
    Off,
    /// `protect`, `fromSecret` and `copySecretData` encrypt: on the hub.
    Encrypt(TemplateKeys),
    /// `$ocm_encrypted:` values of the text are decrypted before it is rendered: on the cluster.
    Decrypt(TemplateKeys),
}

/// What a resolver is set to. [`TemplateSettings::managed`], [`TemplateSettings::hub`] and
/// [`TemplateSettings::standalone_hub`] are those of the field.
#[derive(Clone, Debug, Default)]
pub struct TemplateSettings {
    /// What encloses an action.
    pub delimiters: Delimiters,
    /// The only namespace that may be read; empty for all. A look-up that names none reads this one.
    pub namespace: String,
    /// Which cluster-scoped objects may be read where `namespace` is set.
    pub cluster_scoped: Vec<AllowedClusterScoped>,
    /// Functions whose use is an error (`--template-function-denylist`). `env` and `expandenv` always are.
    pub denied: Vec<String>,
    /// What is done about encrypted values.
    pub encryption: TemplateEncryption,
    /// How many spaces `indent` adds to its argument: the depth of what is rendered inside of the whole policy.
    pub extra_indentation: usize,
    /// Whether `skipObject` may be called.
    pub skip_object: bool,
}

impl TemplateSettings {
    /// Templates that are filled in on the cluster: `{{ … }}`, with every namespace to read from.
    pub fn managed() -> Self {
        TemplateSettings::default()
    }

    /// Templates that the propagator fills in on the hub: `{{hub … hub}}`. They read the namespace of the root policy
    /// and the ManagedCluster of the cluster.
    pub fn hub(policy_namespace: &str, cluster: &str) -> Self {
        TemplateSettings {
            namespace: policy_namespace.to_owned(),
            cluster_scoped: vec![AllowedClusterScoped {
                group: "cluster.open-cluster-management.io".to_owned(),
                kind: "ManagedCluster".to_owned(),
                name: cluster.to_owned(),
            }],
            ..TemplateSettings::hub_with_service_account()
        }
    }

    /// Templates that the propagator fills in with the rights of a ServiceAccount of the policy's namespace
    /// (`hubTemplateOptions.serviceAccountName`): they read what that may read.
    pub fn hub_with_service_account() -> Self {
        TemplateSettings {
            delimiters: Delimiters::Hub,
            extra_indentation: 8,
            ..TemplateSettings::default()
        }
    }

    /// Hub templates in what a cluster has got of somebody else than the propagator.
    pub fn standalone_hub() -> Self {
        TemplateSettings {
            delimiters: Delimiters::Hub,
            ..TemplateSettings::default()
        }
    }
}
