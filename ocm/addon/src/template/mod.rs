//! Add-ons that need no program of their own: an AddOnTemplate says everything.
//!
//! [`TemplateAddOn`] makes an ordinary add-on of the template that is meant for a cluster, so that all the rest, from
//! registration to health, is the SDK's. Upstream: ocm `pkg/addon/templateagent`. Where that fails silently we refuse
//! with a sentence, and what it leaves half done for some kinds we do for all that bear pods.

pub mod name_mismatches;
mod namespaces;
mod pods;
mod read;
mod render;
mod run;
mod staying;
#[cfg(test)]
mod tests;
mod variables;

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{
    AddOn, AddOnContext, AgentSubject, ConfigKind, Health, Permission, Registration, Signing, UserError,
    deploy::manifest::{self, Side},
};
use ocm_api::{
    addon::{
        AddOnConfig, AddOnDeploymentConfigSpec, AddOnTemplateSpec, HubPermission, HubPermissionType,
        TemplateCustomSigner, TemplateRegistration, TemplateRegistrationType,
        v1alpha1::{AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn},
    },
    labels,
    work::ManifestConfigOption,
};
use ocm_reconcile::Cache;
use serde_json::Value;

use name_mismatches::NameMismatches;
use read::Read;
use render::Rendering;

pub use run::{InManager, Templates};

/// An add-on made of AddOnTemplates. Which template is meant for a cluster is part of the cluster's configuration.
pub struct TemplateAddOn {
    name: String,
    templates: Read<AddOnTemplateSpec>,
    configs: Read<AddOnDeploymentConfigSpec>,
    /// What the hub offers.
    offers: Cache<ClusterManagementAddOn>,
    mismatches: NameMismatches,
}

impl TemplateAddOn {
    /// The add-on of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            templates: Read::default(),
            configs: Read::default(),
            offers: Cache::empty(),
            mismatches: NameMismatches::default(),
        }
    }

    /// The same where the hub offers these: a template that they name is used even if it is made for an add-on of
    /// another name, and `mismatches` is told so.
    pub fn offered_by(self, offers: Cache<ClusterManagementAddOn>, mismatches: NameMismatches) -> Self {
        Self {
            offers,
            mismatches,
            ..self
        }
    }

    /// What `f` makes of the template and configuration that are meant for a cluster.
    fn rendering<T>(&self, place: &AddOnContext, f: impl FnOnce(&Rendering<'_>) -> T) -> Result<T, UserError> {
        let (template, config) = self.read(place)?;
        Ok(f(&Rendering {
            template: &template,
            config: &config,
            place,
        }))
    }

    fn template(&self, place: &AddOnContext) -> Result<Arc<AddOnTemplateSpec>, UserError> {
        let found = self.templates.of::<AddOnTemplate>(place, |it| it.spec)?;
        found.ok_or_else(|| UserError::new("no AddOnTemplate is configured for this cluster"))
    }

    /// The template. One that names another add-on is used as upstream uses it, if whoever offers or installs the
    /// add-on has chosen it. Which template a cluster has is read from a status that the cluster's agent may write: it
    /// must not get the manifests, identity and rights of whatever template it names.
    fn own_template(&self, place: &AddOnContext) -> Result<Arc<AddOnTemplateSpec>, UserError> {
        let template = self.template(place)?;
        let of_templates =
            |group: &str, resource: &str| group == AddOnTemplate::GROUP && resource == AddOnTemplate::PLURAL;
        let mut configs = place.configs.iter();
        let config = configs.find(|it| of_templates(&it.kind.group, &it.kind.resource));
        let name = config.map(|it| it.name.as_str()).unwrap_or_default();
        if template.addon_name == self.name {
            self.mismatches.forget(&self.name, name);
            return Ok(template);
        }
        let is_it = |it: &AddOnConfig| of_templates(&it.group, &it.resource) && it.name == name;
        let is_installed = || place.addon.spec.configs.iter().any(is_it);
        if is_installed() || self.offers.named(&self.name).is_some_and(|it| offers(&it, name)) {
            self.mismatches.note(&self.name, name, &template.addon_name);
            return Ok(template);
        }
        Err(UserError::new(format!(
            "the AddOnTemplate {name} is for add-on {:?}, and neither the ClusterManagementAddOn nor the spec of the \
             ManagedClusterAddOn names it for add-on {}",
            template.addon_name, self.name
        )))
    }

    fn read(
        &self,
        place: &AddOnContext,
    ) -> Result<(Arc<AddOnTemplateSpec>, Arc<AddOnDeploymentConfigSpec>), UserError> {
        let config = self.configs.of::<AddOnDeploymentConfig>(place, |it| it.spec)?;
        Ok((self.template(place)?, config.unwrap_or_default()))
    }

    /// The default identity of the add-on's agents. Upstream's template agents are all called `<add-on>-agent`.
    fn subject(&self, place: &AddOnContext) -> AgentSubject {
        AgentSubject::agent(place.cluster_name(), &self.name, &format!("{}-agent", self.name))
    }
}

impl AddOn for TemplateAddOn {
    fn name(&self) -> &str {
        &self.name
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        self.own_template(place)?;
        self.rendering(place, |it| it.manifests())?
    }

    fn registrations(&self, place: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        let template = self.own_template(place)?;
        let subject = self.subject(place);
        template
            .registration
            .iter()
            .map(|it| registration(it, &subject))
            .collect()
    }

    fn hub_permissions(&self, place: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let template = self.own_template(place)?;
        permissions(&self.name, &template)
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::Workloads
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::of::<AddOnTemplate>(),
            ConfigKind::of::<AddOnDeploymentConfig>(),
        ]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        let namespace = |it: &Rendering<'_>| it.namespace().map(str::to_owned).or_else(|| it.agent_namespace());
        self.rendering(place, namespace)
    }

    fn manifest_configs(&self, place: &AddOnContext) -> Vec<ManifestConfigOption> {
        self.rendering(place, |it| it.manifest_configs()).unwrap_or_default()
    }

    // Upstream's template add-ons are never hosted, and one that is annotated so never arrives. Here it is hosted where
    // its template says what goes to the hosting cluster; one that says nothing
    // of the kind is deployed as without the annotation.
    fn hosted(&self, place: &AddOnContext) -> bool {
        let template = self.template(place);
        template.is_ok_and(|it| {
            let manifests = it.agent_spec.workload.manifests.read();
            // A location that is none is refused when the manifests are made, and only then read by somebody.
            manifests
                .iter()
                .any(|it| !matches!(manifest::location(&it.0), Ok(Some(Side::Managed) | None)))
        })
    }

    fn waits_for_configuration(&self) -> bool {
        true
    }
}

/// Whether an offer names this template: in its spec, or in its status as one that clusters have until a change reaches
/// them.
fn offers(offer: &ClusterManagementAddOn, template: &str) -> bool {
    let of_templates = |group: &str, resource: &str| group == AddOnTemplate::GROUP && resource == AddOnTemplate::PLURAL;
    let spec = &offer.spec;
    let default = spec
        .supported_configs
        .iter()
        .filter(|it| of_templates(&it.group, &it.resource));
    let default = default.filter_map(|it| Some(it.default_config.as_ref()?.name.as_str()));
    let chosen = spec.install_strategy.placements.iter().flat_map(|it| &it.configs);
    let chosen = chosen
        .filter(|it| of_templates(&it.group, &it.resource))
        .map(|it| it.name.as_str());
    let under_way = offer.status.iter().flat_map(|it| &it.install_progressions);
    let under_way = under_way
        .flat_map(|it| &it.config_references)
        .filter(|it| of_templates(&it.group, &it.resource))
        .flat_map(|it| [&it.desired_config, &it.last_applied_config, &it.last_known_good_config])
        .filter_map(|it| Some(it.as_ref()?.name.as_str()));
    default.chain(chosen).chain(under_way).any(|it| it == template)
}

fn registration(it: &TemplateRegistration, default: &AgentSubject) -> Result<Registration, UserError> {
    match (it.r#type, &it.custom_signer) {
        (TemplateRegistrationType::KubeClient, _) => Ok(Registration::kube_client().for_subject(default.clone())),
        (TemplateRegistrationType::CustomSigner, Some(signer)) => Ok(custom_signer(signer, default)),
        (TemplateRegistrationType::CustomSigner, None) => Err(UserError::new(
            "a registration of the AddOnTemplate has type CustomSigner and does not say which signer",
        )),
    }
}

fn custom_signer(it: &TemplateCustomSigner, default: &AgentSubject) -> Registration {
    let subject = it.subject.as_ref().map_or_else(
        || default.clone(),
        |it| AgentSubject {
            user: it.user.clone(),
            groups: it.groups.clone(),
            organizational_units: it.organization_unit.clone(),
        },
    );
    let mut signing = Signing::with_secret(&it.signing_ca.name);
    if !it.signing_ca.namespace.is_empty() {
        signing = signing.in_namespace(&it.signing_ca.namespace);
    }
    Registration::custom_signer(&it.signer_name)
        .for_subject(subject)
        .signed_by(signing)
}

/// The permissions of a template. The first one of a kind of role in a namespace has the name that upstream gives to
/// all of them; the others also say which role they bind, so that none takes the place of another.
fn permissions(addon: &str, template: &AddOnTemplateSpec) -> Result<Vec<Permission>, UserError> {
    let clients = template.registration.iter().filter_map(|it| it.kube_client.as_ref());
    let mut taken: BTreeMap<(String, &'static str), usize> = BTreeMap::new();
    let mut permissions = Vec::new();
    for it in clients.flat_map(|it| &it.hub_permissions) {
        let (permission, namespace, kind) = permission(it)?;
        let before = taken.entry((namespace, kind)).or_default();
        let binding = if *before == 0 {
            format!("open-cluster-management:{addon}:{kind}:agent")
        } else {
            format!(
                "open-cluster-management:{addon}:{kind}:{}:agent",
                permission.role_name()
            )
        };
        *before += 1;
        permissions.push(permission.bound_as(binding).labelled(labels::ADDON_TEMPLATE_NAME, ""));
    }
    Ok(permissions)
}

/// A permission without the name of its binding, the namespace it holds in (empty for the cluster's)
/// and its kind of role.
fn permission(it: &HubPermission) -> Result<(Permission, String, &'static str), UserError> {
    match (it.r#type, &it.current_cluster, &it.single_namespace) {
        (HubPermissionType::CurrentCluster, Some(binding), _) if !binding.cluster_role_name.is_empty() => {
            let permission = Permission::existing_cluster_role(&binding.cluster_role_name);
            Ok((permission, String::new(), "clusterrole"))
        }
        (HubPermissionType::SingleNamespace, _, Some(binding)) => {
            let (role, namespace) = (&binding.role_ref, binding.namespace.clone());
            let (permission, kind) = match role.kind.as_str() {
                "Role" => (Permission::existing_role(&role.name), "role"),
                "ClusterRole" => (Permission::existing_cluster_role(&role.name), "clusterrole"),
                other => {
                    let text = format!("a hub permission of the AddOnTemplate names a role of kind {other:?}");
                    return Err(UserError::new(text));
                }
            };
            Ok((permission.in_namespace(&namespace), namespace, kind))
        }
        (kind, ..) => Err(UserError::new(format!(
            "a hub permission of the AddOnTemplate has type {kind:?} and does not say what it grants"
        ))),
    }
}
