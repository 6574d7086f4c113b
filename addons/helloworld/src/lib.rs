//! The tutorial: an add-on whose agent copies the ConfigMaps of its cluster's namespace on the hub to the cluster.
//! `docs/guide/write-an-add-on.md` walks through it.

use ocm_addon_sdk::{
    AddOn, AddOnAgent, AddOnContext, AddOnProgram, ConfigKind, Permission, Registration, UserError, agent,
    include_files,
    k8s_openapi::api::core::v1::ConfigMap,
    kube::ResourceExt,
    manifests,
    ocm_api::addon::v1alpha1::{AddOnDeploymentConfig, ManagedClusterAddOn},
    values::{self, config, images},
};
use serde_json::Value;

/// What it is on the hub: answers about one cluster at a time.
pub struct HelloWorld {
    pub image: String,
}

impl AddOn for HelloWorld {
    fn name(&self) -> &str {
        "helloworld"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let configured = config::values(place, &[config::for_templates])?;
        let image = images::value(place, "Image", &self.image)?;
        manifests::templates(
            include_files!["manifests.yaml"],
            place,
            values::merge([configured, image]),
        )
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let read = ["get", "list", "watch"];
        let maps = Permission::rule("", &["configmaps"], &read);
        let itself = Permission::rule("addon.open-cluster-management.io", &["managedclusteraddons"], &read);
        Ok(vec![Permission::role(
            "open-cluster-management:helloworld:agent",
            vec![maps, itself],
        )])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }
}

/// On every copy, so that copies are told from everything else in the namespace.
pub const COPY: &str = "synced-from-hub";

/// What its agent does on the cluster: copies what is there, and again whenever something changes.
pub async fn copy(agent: AddOnAgent) -> agent::Result<()> {
    let originals = agent.watch(agent.hub_objects::<ConfigMap>()?);
    let copies = agent.watch_labelled(agent.objects::<ConfigMap>(), COPY);
    let add_ons = agent.watch(agent.hub_objects::<ManagedClusterAddOn>()?);
    let work = async || {
        let add_on = add_ons.get(&agent.cluster, &agent.add_on);
        // While the add-on goes, and after: what its clean-up took away must not come back.
        if add_on.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
            return Ok(());
        }
        // Kubernetes keeps a kube-root-ca.crt in every namespace, each cluster its own.
        for original in originals.list().iter().filter(|it| it.name_any() != "kube-root-ca.crt") {
            let before = copies.get(&agent.namespace, &original.name_any());
            let mut copy = before.as_deref().cloned().unwrap_or_default();
            copy.metadata.name = original.metadata.name.clone();
            copy.metadata.namespace = Some(agent.namespace.clone());
            copy.labels_mut().insert(COPY.to_owned(), String::new());
            copy.data = original.data.clone();
            copy.binary_data = original.binary_data.clone();
            agent.save(before.as_deref(), &copy).await?;
        }
        for copy in copies.list() {
            if originals.get(&agent.cluster, &copy.name_any()).is_none() {
                agent.delete(&*copy).await?;
            }
        }
        Ok(())
    };
    agent.whenever(&[&originals, &copies, &add_ons], work).await
}

/// The image of the examples: upstream's, unless `$EXAMPLE_IMAGE_NAME` names another.
pub fn image() -> String {
    let default = "quay.io/open-cluster-management/addon-examples:latest";
    std::env::var("EXAMPLE_IMAGE_NAME").unwrap_or_else(|_| default.to_owned())
}

/// Both halves as one program.
pub fn program() -> AddOnProgram {
    AddOnProgram::new(HelloWorld { image: image() }).agent(copy)
}
