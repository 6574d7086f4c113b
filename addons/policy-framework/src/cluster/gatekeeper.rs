//! What Policies know of Gatekeeper, whose kinds they may carry although the definitions have no label.

use ocm_addon_sdk::{
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube::core::ApiResource, reconcile::Cache,
};

use super::{Caching, discovery::ServedKind};

/// The group of ConstraintTemplates.
pub const TEMPLATES: &str = "templates.gatekeeper.sh";
/// The kind in it.
pub const TEMPLATE_KIND: &str = "ConstraintTemplate";
/// The group of constraints, each ConstraintTemplate of which makes a kind.
pub const CONSTRAINTS: &str = "constraints.gatekeeper.sh";
/// The definition that is there while Gatekeeper is.
pub const DEFINITION: &str = "constrainttemplates.templates.gatekeeper.sh";
/// The configuration of its webhook.
pub const WEBHOOK: &str = "gatekeeper-validating-webhook-configuration";

/// Which of Gatekeeper's kinds an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatekeeperKind {
    /// A ConstraintTemplate.
    Template,
    /// A constraint.
    Constraint,
}

/// Whether Gatekeeper is installed.
#[derive(Clone)]
pub struct Presence {
    /// The definition of ConstraintTemplates, while there is one.
    pub definition: Cache<CustomResourceDefinition>,
}

impl Presence {
    /// Watches the definition of ConstraintTemplates.
    pub fn new(caching: &Caching) -> Self {
        let definition = caching.cluster.watching(super::named(DEFINITION));
        Self { definition }
    }

    /// The kind ConstraintTemplate, where there is one.
    pub fn templates(&self) -> Option<ServedKind> {
        let definition = self.definition.named(DEFINITION)?;
        let version = definition.spec.versions.iter().find(|it| it.served)?.name.clone();
        Some(ServedKind {
            resource: ApiResource {
                api_version: format!("{TEMPLATES}/{version}"),
                group: TEMPLATES.to_owned(),
                version,
                kind: TEMPLATE_KIND.to_owned(),
                plural: definition.spec.names.plural.clone(),
            },
            namespaced: false,
            is_template: false,
            definition: Some(definition),
        })
    }
}
