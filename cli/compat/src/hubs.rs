//! The parts of a hub, each as a program: what its flags mean.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Result, anyhow};
use hub::{Component, Options};
use ocm_api::namespaces;
use ocm_reconcile::awaited;
use operator::importer::{self, Renderer};
use registration::hub::GarbageKind;

use super::{
    api,
    debug_page::DebugPage,
    drivers,
    read::FlagValues,
    rounds::{self, ControllerProgram, Round, RoundContext},
};

/// `registration controller`.
pub async fn registration(values: FlagValues) -> Result<()> {
    let mut options = Options::default();
    for driver in values.list("enabled-registration-drivers") {
        drivers::check("enabled-registration-drivers", Some(&driver), "csr")?;
    }
    let users = match values.list("auto-approved-csr-users") {
        users if users.is_empty() => values.list("cluster-auto-approval-users"),
        users => users,
    };
    let is_automatic = values.gate("ManagedClusterAutoApproval");
    let it = &mut options.registration;
    it.labels = labels(values.text("labels"))?;
    it.auto_accept = is_automatic;
    it.auto_approved_csr_users = if is_automatic { users } else { Vec::new() };
    it.default_sets = values.gate("DefaultClusterSet");
    it.cluster_profiles = values.gate("ClusterProfile");
    it.garbage = match values.gate("ResourceCleanup") {
        true => Some(garbage(&values.list("gc-resource-list"))?),
        false => None,
    };
    if values.gate("ClusterImporter") {
        options.importer = Some(importer(&values)?);
    }
    run(values, "registration-controller", Component::Registration, options).await
}

/// What the importer of clusters is told.
fn importer(values: &FlagValues) -> Result<importer::Options> {
    let named = |flag: &str| values.some(flag).map(str::to_owned);
    let wrong = |flag: &str, why: String| anyhow!("--{flag}: {why}");
    let account = values.text("bootstrap-serviceaccount");
    let renderers = Renderer::list(&values.list("import-renderers"));
    let namespace = named("namespace").or_else(api::pod_namespace);
    Ok(importer::Options {
        renderers: renderers.map_err(|why| wrong("import-renderers", why))?,
        hub_apiserver_url: named("hub-apiserver-url"),
        agent_image: named("agent-image"),
        bootstrap_service_account: importer::namespaced(account)
            .map_err(|why| wrong("bootstrap-serviceaccount", why))?,
        pull_secret: (
            namespace.unwrap_or_else(|| namespaces::HUB.to_owned()),
            values.text("image-pull-secret-name").to_owned(),
        ),
        ..importer::Options::default()
    })
}

/// What the gate `CloudEventsDrivers` turns on beside the driver `kube`.
const NO_BROKERS: &str = "the drivers that the gate CloudEventsDrivers turns on are not there; works travel by the hub's API, as \
                          with --work-driver=kube";

/// `work manager`.
pub async fn work(values: FlagValues) -> Result<()> {
    let mut options = Options::default();
    drivers::check("work-driver", values.some("work-driver"), "kube")?;
    let _said = values.gate("CloudEventsDrivers").then(|| {
        tracing::warn!(gate = "CloudEventsDrivers", "{NO_BROKERS}");
        awaited::say("cloudevents-drivers", NO_BROKERS)
    });
    options.works.manifest_work_replica_set = values.gate("ManifestWorkReplicaSet");
    options.works.clean_up_completed = values.gate("CleanUpCompletedManifestWork");
    run(values, "work-manager", Component::Work, options).await
}

/// `placement controller`.
pub async fn placement(values: FlagValues) -> Result<()> {
    run(values, "placement", Component::Placement, Options::default()).await
}

/// `addon manager`.
pub async fn add_ons(values: FlagValues) -> Result<()> {
    let options = Options {
        authorities: std::env::var("POD_NAMESPACE").ok().filter(|it| !it.is_empty()),
        ..Options::default()
    };
    run(values, "manager", Component::AddOns, options).await
}

/// `placement debug`.
pub async fn placement_debug(values: FlagValues) -> Result<()> {
    let round: Round = Arc::new(|ground: RoundContext| {
        Box::pin(async move {
            ground.stop.cancelled().await;
            Ok(())
        })
    });
    let program = ControllerProgram {
        component: "placement-debug",
        namespace: namespaces::HUB,
        page: Some(Arc::new(DebugPage)),
        round,
    };
    rounds::run(&values, program).await
}

async fn run(values: FlagValues, component: &'static str, part: Component, options: Options) -> Result<()> {
    let round: Round = Arc::new(move |ground: RoundContext| {
        let options = options.clone();
        Box::pin(async move {
            hub::run_component(ground.home.client, part, &options, ground.stop).await;
            Ok(())
        })
    });
    let program = ControllerProgram {
        component,
        namespace: namespaces::HUB,
        page: None,
        round,
    };
    rounds::run(&values, program).await
}

/// Reads `a=b,c=d`.
fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    let pairs = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let read = |pair: &str| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| anyhow!("--labels {text}: {pair} is not key=value"))?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    pairs.map(read).collect()
}

/// Reads `group/version/resource`, or `version/resource` of the core group.
fn garbage(list: &[String]) -> Result<Vec<GarbageKind>> {
    let known = GarbageKind::defaults();
    let read = |text: &String| {
        let (api_version, resource) = text
            .rsplit_once('/')
            .filter(|(api_version, resource)| api_version.matches('/').count() < 2 && !resource.is_empty())
            .ok_or_else(|| anyhow!("--gc-resource-list: {text} is not group/version/resource"))?;
        let like = known.iter().find(|it| it.resource == resource);
        Ok(GarbageKind {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            // It is only named in sentences.
            kind: like.map_or(resource, |it| it.kind.as_str()).to_owned(),
        })
    };
    list.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_labels_are_read_as_upstream_writes_them() {
        let list = [
            "addon.open-cluster-management.io/v1beta1/managedclusteraddons".to_owned(),
            "v1/configmaps".to_owned(),
        ];
        let kinds = garbage(&list).unwrap();
        assert_eq!(kinds[0], GarbageKind::defaults()[0]);
        assert_eq!(
            (kinds[1].api_version.as_str(), kinds[1].resource.as_str()),
            ("v1", "configmaps")
        );
        assert!(garbage(&["configmaps".to_owned()]).is_err());
        assert_eq!(labels("a=b, c=d").unwrap()["c"], "d");
        assert!(labels("").unwrap().is_empty() && labels("a").is_err());
    }
}
