//! The known add-ons that come with drover: managed-serviceaccount, cluster-permission, application-manager,
//! argocd-pull, cluster-proxy, and the policy framework with the controllers of its kinds.
//!
//! Each is a crate that uses the SDK alone. Here is what the binary does with them: it is their image, called by their
//! programs' names as upstream's images are, and `drover up --addons` runs their hub's halves in its own process.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use addon_application::{
    hub::{HubSettings, webhook::PendingEvents},
    source::SourceFetcher,
};
use addon_argocd_pull::application::PulledApplication;
use addon_cluster_proxy::{hub::inputs::AgentInputs, in_process::Listeners};
use addon_policy_framework::hub::{HubConnection, PropagatorSettings};
use anyhow::{Context, Result, bail};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, api::ObjectMeta};
use ocm_addon_sdk::{AddOn, program::Place};
use ocm_api::{apps, authentication, crds, gitops, policy, proxy, rbac};
use ocm_reconcile::{Caches, Clients, Controller, Plan, Site, controller, execute, install::install_crds};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{application, application_webhooks::ApplicationReviews, cluster_proxy, policy_add_ons};

/// The first word of what a node runs for the images of these add-ons; the name of the add-on, the pod's directory and
/// the container's command follow. People do not type it.
pub const IN_POD: &str = "--add-on-in-pod";

/// One of them.
pub struct Bundled {
    /// The add-on's name.
    pub name: &'static str,
    /// The images that this binary stands for, whatever the tag.
    pub images: &'static [&'static str],
    /// The names of the programs in it.
    pub programs: &'static [&'static str],
    /// The API group of its kinds.
    group: &'static str,
    kinds: HubKinds,
    run: fn(&str, Vec<OsString>, &Place) -> ExitCode,
    /// What clusters get of it, if they do.
    add_on: Option<fn(&HubHalves) -> Arc<dyn AddOn>>,
    /// Whether the folders that `--git-folder` names are open to it.
    pub reads_git_folders: bool,
    /// The add-on without which it is never available on a cluster.
    pub needs: Option<&'static str>,
    /// The configuration that all clusters have by default: resource and name.
    pub default_config: Option<(&'static str, &'static str)>,
    controllers: fn(&Caches, &HubHalves) -> Vec<Controller>,
}

/// Which kinds of its group the hub serves for an add-on.
#[derive(Clone, Copy)]
enum HubKinds {
    /// All of the group.
    All,
    /// Those with these plurals.
    These(&'static [&'static str]),
    /// None: its kinds are on clusters.
    None,
}

/// What the hub's halves have in common with what clusters get.
#[derive(Default)]
pub struct HubHalves {
    inputs: AgentInputs,
    /// Where ServiceAccounts reach the hub.
    connection: Option<HubConnection>,
    /// Where what is known of Git repositories is kept.
    git_cache: PathBuf,
    /// The folders with Git repositories that Channels may name.
    git_folders: Vec<PathBuf>,
    /// The events of Git servers.
    events: PendingEvents,
}

/// What listens for the hub's halves of add-ons that are spoken to.
#[derive(Default)]
pub struct HubListeners {
    /// Of cluster-proxy.
    pub proxy: Option<Listeners>,
    /// For webhooks of Git servers.
    pub git_webhooks: Option<TcpListener>,
}

impl HubHalves {
    /// For a hub that ServiceAccounts reach so.
    pub fn reached_at(connection: HubConnection) -> Self {
        Self {
            connection: Some(connection),
            ..Self::default()
        }
    }

    /// With the folders with Git repositories that Channels may name, and one where what is known of others is kept.
    pub fn reading_git(self, cache: PathBuf, folders: Vec<PathBuf>) -> Self {
        Self {
            git_cache: cache,
            git_folders: folders,
            ..self
        }
    }

    fn applications(&self) -> HubSettings {
        HubSettings {
            reader: Arc::new(SourceFetcher::in_folder(&self.git_cache, &self.git_folders)),
            sync_interval: Duration::from_secs(60),
            // The API server itself says who has written what: see application_admission.
            trusted_identities: true,
            own_namespace: None,
            events: self.events.clone(),
        }
    }
}

/// All of them.
pub const ALL: [Bundled; 9] = [
    Bundled {
        name: addon_managed_serviceaccount::NAME,
        images: &["quay.io/open-cluster-management/managed-serviceaccount"],
        programs: addon_managed_serviceaccount::PROGRAMS,
        group: authentication::GROUP,
        kinds: HubKinds::All,
        run: addon_managed_serviceaccount::run,
        add_on: Some(|_| Arc::new(addon_managed_serviceaccount::hub::ManagedServiceAccounts::default())),
        reads_git_folders: false,
        needs: None,
        default_config: None,
        controllers: |caches, _| addon_managed_serviceaccount::hub::controllers(caches, GATES),
    },
    Bundled {
        name: addon_cluster_permission::NAME,
        images: &["quay.io/open-cluster-management/cluster-permission"],
        programs: addon_cluster_permission::PROGRAMS,
        group: rbac::GROUP,
        kinds: HubKinds::All,
        run: addon_cluster_permission::run,
        add_on: None,
        reads_git_folders: false,
        needs: None,
        default_config: None,
        controllers: |caches, _| addon_cluster_permission::controllers(caches),
    },
    Bundled {
        name: addon_application::NAME,
        images: &["quay.io/open-cluster-management/multicloud-operators-subscription"],
        programs: addon_application::PROGRAMS,
        group: apps::GROUP,
        kinds: HubKinds::These(&[
            "channels",
            "subscriptions",
            "placementrules",
            "helmreleases",
            "subscriptionstatuses",
            "subscriptionreports",
        ]),
        run: |program, arguments, place| addon_application::run(program, arguments, place, &ApplicationReviews),
        add_on: Some(|_| Arc::new(addon_application::addon::ApplicationManager::default())),
        reads_git_folders: true,
        needs: None,
        default_config: None,
        controllers: |caches, halves| addon_application::hub::controllers(caches, &halves.applications()),
    },
    Bundled {
        name: addon_argocd_pull::NAME,
        images: &["quay.io/open-cluster-management/argocd-pull-integration"],
        programs: addon_argocd_pull::PROGRAMS,
        group: gitops::GROUP,
        kinds: HubKinds::These(&["gitopsclusters"]),
        run: addon_argocd_pull::run,
        add_on: Some(|_| Arc::new(addon_argocd_pull::addon::ArgoPull)),
        reads_git_folders: false,
        needs: None,
        default_config: None,
        controllers: |caches, _| {
            addon_argocd_pull::basic::controllers(caches, &addon_argocd_pull::basic::BasicPullSettings::default())
        },
    },
    Bundled {
        name: addon_cluster_proxy::NAME,
        images: &[cluster_proxy::IMAGE],
        programs: addon_cluster_proxy::PROGRAMS,
        group: proxy::GROUP,
        kinds: HubKinds::All,
        run: addon_cluster_proxy::run,
        add_on: Some(|halves| cluster_proxy::add_on(&halves.inputs)),
        reads_git_folders: false,
        needs: None,
        default_config: Some((proxy::ManagedProxyConfiguration::PLURAL, "cluster-proxy")),
        controllers: |caches, halves| cluster_proxy::controllers(caches, &halves.inputs),
    },
    Bundled {
        name: addon_policy_framework::NAME,
        images: &[
            "quay.io/open-cluster-management/governance-policy-framework-addon",
            "quay.io/open-cluster-management/governance-policy-propagator",
            "quay.io/open-cluster-management/governance-policy-addon-controller",
        ],
        programs: policy_add_ons::PROGRAMS,
        group: policy::GROUP,
        kinds: HubKinds::These(&["policies", "placementbindings", "policysets", "policyautomations"]),
        run: policy_add_ons::run,
        add_on: Some(|_| Arc::new(addon_policy_framework::addon::PolicyFramework::default())),
        reads_git_folders: false,
        needs: None,
        default_config: None,
        controllers: |caches, halves| {
            let connection = halves.connection.clone();
            addon_policy_framework::hub::controllers(
                caches,
                &PropagatorSettings {
                    connection,
                    ..PropagatorSettings::default()
                },
            )
        },
    },
    Bundled {
        name: addon_config_policy::NAME,
        images: &["quay.io/open-cluster-management/config-policy-controller"],
        programs: addon_config_policy::PROGRAMS,
        group: policy::GROUP,
        kinds: HubKinds::None,
        run: addon_config_policy::run,
        add_on: Some(|_| Arc::new(addon_config_policy::addon::ConfigPolicy::default())),
        reads_git_folders: false,
        needs: None,
        default_config: None,
        controllers: |_, _| Vec::new(),
    },
    Bundled {
        name: addon_cert_policy::NAME,
        images: &["quay.io/stolostron/cert-policy-controller"],
        programs: addon_cert_policy::PROGRAMS,
        group: policy::GROUP,
        kinds: HubKinds::None,
        run: addon_cert_policy::run,
        add_on: Some(|_| Arc::new(addon_cert_policy::addon::CertPolicy::default())),
        reads_git_folders: false,
        needs: None,
        default_config: None,
        controllers: |_, _| Vec::new(),
    },
    Bundled {
        name: addon_config_policy::addon::standalone_templating::NAME,
        // It is an identity on the hub, which config-policy-controller takes.
        images: &[],
        programs: &[],
        group: policy::GROUP,
        kinds: HubKinds::None,
        run: addon_config_policy::run,
        add_on: Some(|_| Arc::new(addon_config_policy::addon::StandaloneTemplating)),
        reads_git_folders: false,
        needs: Some(addon_config_policy::NAME),
        default_config: None,
        controllers: |_, _| Vec::new(),
    },
];

/// `drover up` is to show what there is: both do nothing before somebody asks for it in an object.
const GATES: addon_managed_serviceaccount::hub::Gates = addon_managed_serviceaccount::hub::Gates {
    ephemeral_identity: true,
    cluster_profile: true,
};

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Bundled> {
    ALL.iter().find(|it| it.name == name)
}

/// The programs that one add-on alone has, and that are no commands of ours: their names say which add-on is meant.
pub fn programs_of_one() -> impl Iterator<Item = &'static str> {
    let all = ALL.iter().flat_map(|it| it.programs).copied();
    all.filter(|it| with_program(it).is_some())
}

/// The add-on that one of [`programs_of_one`] is of.
pub fn with_program(name: &str) -> Option<&'static Bundled> {
    let mut all = ALL.iter().filter(|it| it.programs.contains(&name));
    let found = all.next()?;
    (all.next().is_none() && !COMMANDS.contains(&name)).then_some(found)
}

/// What clusters get of those that they get something of.
pub fn add_ons(halves: &HubHalves) -> Vec<Arc<dyn AddOn>> {
    ALL.iter().filter_map(|it| it.add_on).map(|it| it(halves)).collect()
}

/// The same of those whose kinds are there, without which they cannot run.
pub async fn served(hub: &Client, halves: &HubHalves) -> Vec<Arc<dyn AddOn>> {
    let mut served = Vec::new();
    for one in &ALL {
        let Some(add_on) = one.add_on else { continue };
        let runs = match one.kinds {
            HubKinds::None => true,
            HubKinds::All if one.default_config.is_none() => true,
            HubKinds::All | HubKinds::These(_) => one.is_served(hub).await,
        };
        if runs {
            served.push(add_on(halves));
        }
    }
    served
}

impl Bundled {
    /// The definitions of the kinds that the hub serves for it.
    pub fn definitions(&self) -> Vec<Value> {
        let mut kinds = crds::add_on(self.group);
        kinds.retain(|it| match self.kinds {
            HubKinds::All => true,
            HubKinds::These(plurals) => plurals.iter().any(|name| it["spec"]["names"]["plural"] == *name),
            HubKinds::None => false,
        });
        kinds
    }

    /// Whether the hub has its kinds. Add-ons share API groups.
    async fn is_served(&self, hub: &Client) -> bool {
        let HubKinds::These(plurals) = self.kinds else {
            return is_served(hub, self.group).await;
        };
        let Some(first) = plurals.first() else { return false };
        let definitions: Api<CustomResourceDefinition> = Api::all(hub.clone());
        let name = format!("{first}.{}", self.group);
        definitions.get_opt(&name).await.is_ok_and(|it| it.is_some())
    }

    /// Whether clusters get something of it; otherwise it is on the hub alone.
    pub fn is_on_clusters(&self) -> bool {
        self.add_on.is_some()
    }

    /// Runs one of its programs; the first of the words names it, with or without a path. `None` when it is none.
    pub fn run(&self, words: &[OsString], place: &Place) -> Option<ExitCode> {
        let (first, rest) = words.split_first()?;
        let name = Path::new(first).file_name()?.to_str()?;
        let program = self.programs.iter().find(|it| **it == name)?;
        Some((self.run)(program, rest.to_vec(), place))
    }
}

/// Runs the program that these arguments ask for: by the name the binary was called by, or by the first of them, as a
/// word (`drover msa agent`) or as a path (`drover /msa agent`). `None` when they ask for none.
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let at = |position: usize| {
        let words = arguments.get(position..)?;
        let name = Path::new(words.first()?).file_name()?.to_str()?;
        let is_meant = is_program(words.first()?, name);
        let mut all = ALL
            .iter()
            .filter(|it| is_meant && (it.name != addon_argocd_pull::NAME || says_mode(words)));
        all.find_map(|it| it.run(words, &Place::default()))
    };
    at(0).or_else(|| at(1))
}

/// Two add-ons have a program `manager`; that of argocd-pull is told by its flag, which the other does not have.
fn says_mode(words: &[OsString]) -> bool {
    let mut flags = words.iter().filter_map(|it| it.to_str());
    flags.any(|it| it.trim_start_matches('-').split('=').next() == Some("mode") && it.starts_with('-'))
}

/// Programs of add-ons whose names are commands of ours, or of several add-ons.
const COMMANDS: [&str; 2] = ["agent", "manager"];

/// Whether a program is meant by this word. Names that are commands of ours, too, need the path of upstream's image.
fn is_program(word: &OsString, name: &str) -> bool {
    !COMMANDS.contains(&name) || Path::new(word) == Path::new("/").join(name)
}

/// Installs the kinds of the add-ons that are wanted.
///
/// # Errors
/// When a definition is not taken.
pub async fn install(hub: &Client, wanted: &[String]) -> Result<()> {
    for one in ALL.iter().filter(|it| wanted.iter().any(|name| name == it.name)) {
        let installed = install_crds(hub, one.definitions()).await;
        installed.with_context(|| format!("could not install the kinds of add-on {}", one.name))?;
        if one.name == addon_argocd_pull::NAME {
            install_argo_cd_kind(hub).await?;
        }
    }
    Ok(())
}

/// A hub without Argo CD gets the kind and the namespace that are Argo CD's.
async fn install_argo_cd_kind(hub: &Client) -> Result<()> {
    if !is_served(hub, PulledApplication::GROUP).await {
        let installed = install_crds(hub, vec![addon_argocd_pull::addon::definition()]).await;
        installed.context("could not install the kind Application of Argo CD")?;
    }
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    let name = addon_argocd_pull::addon::NAMESPACE;
    if namespaces.get_opt(name).await?.is_none() {
        let mut plan = Plan::new();
        plan.create(
            Site::Hub,
            &Namespace {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    ..ObjectMeta::default()
                },
                ..Namespace::default()
            },
        );
        let outcome = execute(&Clients::hub(hub.clone()), &plan).await;
        if !outcome.succeeded() {
            bail!("could not create namespace {name}: {}", outcome.error_text());
        }
    }
    Ok(())
}

/// Starts the hub's halves of the add-ons whose kinds are there: that are wanted, or were in an earlier run.
///
/// # Errors
/// When the hub does not take what an add-on needs.
pub async fn start(
    hub: &Client,
    caches: &Caches,
    halves: &HubHalves,
    listeners: HubListeners,
    stop: &CancellationToken,
) -> Result<()> {
    for one in &ALL {
        if !one.is_served(hub).await {
            continue;
        }
        if one.name == addon_application::NAME {
            application::prepare(hub).await?;
        }
        controller::start_all((one.controllers)(caches, halves), &Clients::hub(hub.clone()), stop);
    }
    if let Some(listeners) = listeners.proxy {
        cluster_proxy::start(hub, listeners, stop).await?;
    }
    if let Some(socket) = listeners.git_webhooks {
        application::hear(socket, caches, halves.events.clone(), stop);
    }
    Ok(())
}

async fn is_served(hub: &Client, group: &str) -> bool {
    hub.list_api_groups()
        .await
        .is_ok_and(|it| it.groups.iter().any(|it| it.name == group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_a_link_for_each_program() {
        let recipe = include_str!("../../../deploy/Containerfile");
        let loops = recipe.split("for name in ").skip(1);
        let names = loops.filter_map(|it| Some(it.split_once(';')?.0.split_whitespace()));
        let linked: Vec<&str> = names.flatten().filter_map(|it| it.rsplit('/').next()).collect();
        for program in ALL.iter().flat_map(|it| it.programs) {
            assert!(linked.contains(program), "{program}");
        }
    }

    #[test]
    fn a_program_is_selected_by_its_add_on() {
        let add_on = find("managed-serviceaccount").unwrap();
        let words = |it: &[&str]| it.iter().map(OsString::from).collect::<Vec<_>>();
        let place = Place::pod("/pod");
        assert_eq!(add_on.run(&words(&["/cluster-permission"]), &place), None);
        assert_eq!(add_on.run(&words(&["drover", "kube", "up"]), &place), None);
        let helped = add_on.run(&words(&["/msa", "--help"]), &place);
        assert_eq!(helped, Some(ExitCode::SUCCESS));
        assert_eq!(run(&words(&["drover", "up"])), None);
        // A command of ours of the same name.
        assert_eq!(run(&words(&["drover", "agent", "--help"])), None);
        assert_eq!(run(&words(&["/agent", "--help"])), Some(ExitCode::SUCCESS));
        let of_argo_cd = ["/manager", "--mode=basic", "--help"];
        assert_eq!(run(&words(&of_argo_cd)), Some(ExitCode::SUCCESS));
    }
}
