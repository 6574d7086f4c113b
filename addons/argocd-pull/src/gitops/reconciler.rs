//! Carries out GitOpsClusters.
//!
//! Root: GitOpsCluster. Reads: the Service and the Deployment of the principal, nodes, its Placement and decisions, the
//! ArgoCD of the hub. Writes: what `steps` says, and its status. Never: a Role, a key or an authority that is there.
//! Upstream: argocd-pull-integration `internal/controller/gitopscluster`.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use jiff::Timestamp;
use ocm_addon_sdk::{
    hub::authority::Leaf,
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Node, Secret, Service},
    },
    kube::{
        self, Api, Client, Resource, ResourceExt,
        core::{ApiResource, DynamicObject, GroupVersionKind, NamespaceResourceScope, PartialObjectMeta},
        runtime::watcher,
    },
    ocm_api::{
        Status,
        addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate, ManagedClusterAddOn},
        cluster::{ManagedCluster, Placement, PlacementDecision},
        condition::{self, wanted},
        gitops::{
            GitOpsCluster,
            conditions::{self, reason},
        },
        labels,
        work::ManifestWork,
    },
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait,
        cache::{Watching, key_of, split_key},
        caches::put_written,
        rbac::Right,
        segment::encoded,
    },
};
use serde::de::DeserializeOwned;

use super::{
    ADD_ON, AUTHORITY, GitOpsSettings, MANAGED_BY, OF_GITOPS_CLUSTER, argo_cd,
    certificates::{self, DueCredential, KnownAuthority},
    clusters::{self, ChosenCluster, RemovedCluster},
    discovery::{self, PrincipalServer},
    steps::{self, GitOpsSteps, SECRETS},
    template, value,
};

/// The reconciler.
pub struct GitOpsClusters {
    all: Cache<GitOpsCluster>,
    placements: Cache<Placement>,
    decisions: Cache<PlacementDecision>,
    clusters: Cache<ManagedCluster>,
    templates: Cache<AddOnTemplate>,
    works: Cache<ManifestWork>,
    configs: Cache<AddOnDeploymentConfig>,
    add_ons: Cache<ManagedClusterAddOn>,
    principals: Vec<Cache<Service>>,
    secrets: Vec<Cache<PartialObjectMeta<Secret>>>,
    client: Option<Client>,
    settings: GitOpsSettings,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The object; `None` when it is gone.
    pub object: Option<Arc<GitOpsCluster>>,
    /// What an administrator has chosen.
    pub settings: GitOpsSettings,
    /// The principal, or what the condition says where it was not found.
    pub server: Result<PrincipalServer, String>,
    /// The Deployment of the principal.
    pub principal: Option<Deployment>,
    /// Keys and certificates; `None` where there is no principal.
    pub material: Option<Material>,
    /// The AddOnTemplate.
    pub template: Option<Arc<AddOnTemplate>>,
    /// The Placement, or why there is none.
    pub placement: Result<Arc<Placement>, String>,
    /// The clusters that it has chosen, by name.
    pub clusters: Vec<ChosenCluster>,
    /// Clusters that nothing has chosen any more.
    pub removed: Vec<RemovedCluster>,
    /// The image of the principal.
    pub image: Option<String>,
}

/// Keys and certificates of the hub, and which of them are to be written.
pub struct Material {
    /// A Secret that is to be created.
    pub jwt: Result<Option<Secret>, String>,
    /// The authority.
    pub authority: Result<KnownAuthority, String>,
    /// The ConfigMap with the authority, if it is to be written.
    pub bundle: Option<ConfigMap>,
    /// The one that is there.
    pub present_bundle: Option<ConfigMap>,
    /// The principal's certificate.
    pub principal: Result<Option<DueCredential>, String>,
    /// The resource proxy's certificate.
    pub resource_proxy: Result<Option<DueCredential>, String>,
    /// When the next one is due.
    pub next: Option<Timestamp>,
}

impl GitOpsClusters {
    /// Over these caches.
    pub fn new(caches: &Caches, settings: &GitOpsSettings) -> Self {
        let named = |name: &str| Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
            ..Watching::default()
        };
        Self {
            all: caches.of(),
            placements: caches.of(),
            decisions: caches.of(),
            clusters: caches.of(),
            templates: caches.of(),
            works: caches.labelled(&format!("{OF_GITOPS_CLUSTER}=true")),
            configs: caches.watching(named(clusters::CONFIG)),
            add_ons: caches.watching(named(ADD_ON)),
            principals: discovery::PRINCIPALS.map(|it| caches.watching(named(it))).into(),
            secrets: SECRETS.map(|it| caches.watching(named(it))).into(),
            client: caches.client().cloned(),
            settings: settings.clone(),
        }
    }

    async fn read<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, ObserveError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let client = self.client.clone().ok_or("there is no client of the hub")?;
        Ok(Api::namespaced(client, &encoded(namespace))
            .get_opt(&encoded(name))
            .await?)
    }

    /// The Service of the principal.
    fn service(&self, namespace: &str) -> Option<Arc<Service>> {
        let mut all = discovery::PRINCIPALS.iter().zip(&self.principals);
        all.find_map(|(name, cache)| cache.get(namespace, name))
    }

    /// The nodes of the hub, where they are how the principal is reached.
    async fn nodes(&self, service: Option<&Service>) -> Result<Vec<Node>, ObserveError> {
        if !service.is_some_and(discovery::is_on_nodes) {
            return Ok(Vec::new());
        }
        let client = self.client.clone().ok_or("there is no client of the hub")?;
        Ok(Api::<Node>::all(client).list(&Default::default()).await?.items)
    }

    async fn material(&self, namespace: &str, principal: &Leaf, now: Timestamp) -> Result<Material, ObserveError> {
        let authority = certificates::authority(self.read(namespace, AUTHORITY).await?, namespace, now);
        let present_bundle = self.read::<ConfigMap>(namespace, certificates::BUNDLE).await?;
        let known = authority.as_ref().ok();
        let bundle = known.and_then(|it| certificates::bundle(present_bundle.as_ref(), namespace, &it.pem, now));
        let mut next = known.map(|it| it.next);
        let mut due = Vec::new();
        let proxy = certificates::resource_proxy_leaf(namespace);
        for (name, leaf) in [
            (certificates::PRINCIPAL, principal),
            (certificates::RESOURCE_PROXY, &proxy),
        ] {
            let Some(known) = known else { continue };
            let present = self.read(namespace, name).await?;
            due.push(
                match certificates::certificate(present, (namespace, name), leaf, known, now) {
                    Ok(Ok(due)) => Ok(Some(due)),
                    Ok(Err(at)) => {
                        next = next.map(|it| it.min(at));
                        Ok(None)
                    }
                    Err(why) => Err(why),
                },
            );
        }
        let mut due = due.into_iter();
        Ok(Material {
            jwt: Ok(None),
            bundle,
            present_bundle,
            principal: due.next().unwrap_or(Ok(None)),
            resource_proxy: due.next().unwrap_or(Ok(None)),
            authority,
            next,
        })
    }

    /// A key for tokens where there is none. It is made last: it takes seconds.
    async fn jwt(&self, namespace: &str) -> Result<Result<Option<Secret>, String>, ObserveError> {
        if self.read::<Secret>(namespace, certificates::JWT).await?.is_some() {
            return Ok(Ok(None));
        }
        let made = tokio::task::spawn_blocking(certificates::jwt_key).await?;
        Ok(made.map(|key| Some(certificates::jwt_secret(namespace, key))))
    }

    fn placement(&self, of: &GitOpsCluster) -> Result<Arc<Placement>, String> {
        let reference = &of.spec.placement_ref;
        if reference.kind != Placement::KIND {
            return Err(format!(
                "invalid placement kind: {}, expected Placement",
                reference.kind
            ));
        }
        let found = self
            .placements
            .get(&of.namespace().unwrap_or_default(), &reference.name);
        let (plural, group) = (Placement::PLURAL, Placement::GROUP);
        found.ok_or_else(|| {
            format!(
                "failed to get Placement: {plural}.{group} \"{}\" not found",
                reference.name
            )
        })
    }

    /// The clusters that a GitOpsCluster's Placement has chosen and that are there.
    fn chosen(&self, of: &GitOpsCluster) -> BTreeSet<String> {
        let placement = &of.spec.placement_ref.name;
        let decisions = self.decisions.list_in(&of.namespace().unwrap_or_default());
        let own = decisions
            .iter()
            .filter(|it| it.labels().get(labels::PLACEMENT) == Some(placement));
        let names = own.flat_map(|it| it.status.iter().flat_map(|it| &it.decisions));
        let names = names.map(|it| it.cluster_name.clone());
        names.filter(|it| self.clusters.named(it).is_some()).collect()
    }

    async fn cluster(
        &self,
        of: &GitOpsCluster,
        name: &str,
        material: &mut Material,
        now: Timestamp,
    ) -> Result<ChosenCluster, ObserveError> {
        let namespace = of.namespace().unwrap_or_default();
        let mut cluster = ChosenCluster {
            authority_work: self.works.get(name, clusters::AUTHORITY_WORK),
            argo_cd_work: self.works.get(name, &argo_cd::work_name(of)),
            config: self.configs.get(name, clusters::CONFIG),
            add_on: self.add_ons.get(name, ADD_ON),
            ..ChosenCluster::named(name)
        };
        let Ok(authority) = &material.authority else {
            return Ok(cluster);
        };
        let secret_name = clusters::client_secret_name(name);
        let present: Option<Secret> = self.read(&namespace, &secret_name).await?;
        let leaf = certificates::client_leaf(name);
        let made = certificates::certificate(present.clone(), (&namespace, &secret_name), &leaf, authority, now);
        let mut secrets = Vec::new();
        let client = match made {
            Err(why) => {
                cluster.secrets = Err(why);
                return Ok(cluster);
            }
            Ok(Ok(due)) => {
                let client = due.wanted.clone();
                secrets.push(due);
                client
            }
            Ok(Err(at)) => {
                material.next = material.next.map(|it| it.min(at));
                present.unwrap_or_default()
            }
        };
        let of_argo_cd = self.read(&namespace, &clusters::secret_name(name)).await?;
        let pair = (
            value(&client, "tls.crt"),
            value(&client, "tls.key"),
            authority.pem.as_slice(),
        );
        secrets.extend(clusters::secret(of_argo_cd, (of, name), pair));
        cluster.secrets = Ok(secrets);
        Ok(cluster)
    }

    /// Clusters with our add-on that no GitOpsCluster has chosen. Those of others are theirs.
    fn removed(&self, of: &GitOpsCluster) -> Vec<RemovedCluster> {
        let chosen: BTreeSet<String> = self.all.list().iter().flat_map(|it| self.chosen(it)).collect();
        let add_ons = self.add_ons.list().into_iter();
        let left = add_ons.filter(|it| {
            let is_ours = it.labels().get(MANAGED_BY.0).map(String::as_str) == Some(MANAGED_BY.1);
            let is_chosen = it.namespace().is_some_and(|it| chosen.contains(&it));
            is_ours && !is_chosen && it.metadata.deletion_timestamp.is_none()
        });
        left.map(|add_on| {
            let namespace = add_on.namespace().unwrap_or_default();
            let names = [clusters::AUTHORITY_WORK.to_owned(), argo_cd::work_name(of)];
            let works = names.iter().filter_map(|it| self.works.get(&namespace, it));
            RemovedCluster {
                works: works.collect(),
                add_on,
            }
        })
        .collect()
    }

    /// The image of the principal, where the agents are to have it, too.
    async fn image(&self, of: &GitOpsCluster) -> Result<Option<String>, ObserveError> {
        let disabled = of.annotations().get(argo_cd::DISABLE_IMAGE_SYNC);
        if disabled.map(String::as_str) == Some("true") {
            return Ok(None);
        }
        let client = self.client.clone().ok_or("there is no client of the hub")?;
        let kind = GroupVersionKind::gvk("argoproj.io", "v1beta1", argo_cd::KIND);
        let resource = ApiResource::from_gvk_with_plural(&kind, "argocds");
        let namespace = of.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(client, &encoded(&namespace), &resource);
        let found = match api.get("argocd").await {
            Ok(found) => Some(found),
            // Without its kind there is none, either, and then the answer is no Status.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => return Err(error.into()),
        };
        Ok(found.and_then(|it| clusters::principal_image(&it.data).map(str::to_owned)))
    }
}

#[async_trait]
impl Reconciler for GitOpsClusters {
    const NAME: &'static str = "gitops-cluster";
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(GitOpsCluster::KIND, conditions::RBAC_READY),
        StatusField::condition(GitOpsCluster::KIND, conditions::SERVER_DISCOVERED),
        StatusField::condition(GitOpsCluster::KIND, conditions::JWT_SECRET_READY),
        StatusField::condition(GitOpsCluster::KIND, conditions::CA_CERTIFICATE_READY),
        StatusField::condition(GitOpsCluster::KIND, conditions::PRINCIPAL_CERTIFICATE_READY),
        StatusField::condition(GitOpsCluster::KIND, conditions::RESOURCE_PROXY_CERTIFICATE_READY),
        StatusField::condition(GitOpsCluster::KIND, conditions::ADD_ON_TEMPLATE_READY),
        StatusField::condition(GitOpsCluster::KIND, conditions::PLACEMENT_TOLERATION_CONFIGURED),
        StatusField::condition(GitOpsCluster::KIND, conditions::PLACEMENT_EVALUATED),
        StatusField::condition(GitOpsCluster::KIND, conditions::CLUSTERS_IMPORTED),
        StatusField::condition(GitOpsCluster::KIND, conditions::MANIFEST_WORK_CREATED),
        StatusField::condition(GitOpsCluster::KIND, conditions::ARGO_CD_CR_DELIVERED),
        StatusField::condition(GitOpsCluster::KIND, conditions::ADD_ON_CONFIGURED),
        StatusField::condition(GitOpsCluster::KIND, conditions::REMOVED_CLUSTERS_CLEANED_UP),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            "",
            "secrets",
            "get create update delete",
            "Key, authority, certificates and the clusters of Argo CD.",
        ),
        Right::new(
            "",
            "configmaps",
            "get create patch",
            "The authority and its predecessors.",
        ),
        Right::new("", "nodes", "list", "A principal may be reached by nodes."),
        Right::new(
            "apps",
            "deployments",
            "get patch",
            "The principal is restarted for a new certificate.",
        ),
        Right::new("argoproj.io", "argocds", "get", "Agents have the principal's image."),
        Right::new(
            "rbac.authorization.k8s.io",
            "roles rolebindings",
            "create",
            "The manager of add-ons reads the authority.",
        ),
        Right::new(
            GitOpsCluster::GROUP,
            "gitopsclusters",
            "patch",
            "The principal's address is written down.",
        ),
        Right::new(
            GitOpsCluster::GROUP,
            "gitopsclusters/status",
            "patch",
            "How far clusters are set up.",
        ),
        Right::new(
            Placement::GROUP,
            "placements",
            "patch",
            "Clusters that are not available are tolerated.",
        ),
        Right::new(
            ManifestWork::GROUP,
            "manifestworks",
            "create patch delete",
            "The authority and the ArgoCD go to clusters.",
        ),
        Right::new(
            ManagedClusterAddOn::GROUP,
            "addontemplates addondeploymentconfigs managedclusteraddons",
            "create patch delete",
            "Clusters get the add-on.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let all = self.all.clone();
        let every = move || all.list().iter().map(|it| key_of(&**it)).collect::<Vec<_>>();
        let all = self.all.clone();
        let in_namespace = move |namespace: Option<String>| {
            let of = namespace.map(|it| all.list_in(&it)).unwrap_or_default();
            of.iter().map(|it| key_of(&**it)).collect::<Vec<_>>()
        };
        let (of_placement, of_decision) = (in_namespace.clone(), in_namespace.clone());
        let (of_cluster, of_work, of_config, of_add_on, of_template) =
            (every.clone(), every.clone(), every.clone(), every.clone(), every);
        watches
            .root(&self.all)
            .wakes(&self.placements, move |old, new| {
                if old.map(|it| &it.spec) == new.map(|it| &it.spec) {
                    return Vec::new();
                }
                of_placement(old.or(new).and_then(|it| it.namespace()))
            })
            .wakes(&self.decisions, move |old, new| {
                of_decision(old.or(new).and_then(|it| it.namespace()))
            })
            .wakes(&self.clusters, move |old, new| match (old, new) {
                // What a cluster says makes no difference, only whether it is there.
                (Some(_), Some(_)) => Vec::new(),
                _ => of_cluster(),
            })
            .wakes(&self.works, move |old, new| {
                match old.map(|it| &it.spec) == new.map(|it| &it.spec) {
                    true => Vec::new(),
                    false => of_work(),
                }
            })
            .wakes(&self.configs, move |_, _| of_config())
            .wakes(&self.add_ons, move |old, new| {
                match old.map(|it| &it.spec) == new.map(|it| &it.spec) {
                    true => Vec::new(),
                    false => of_add_on(),
                }
            })
            .wakes(&self.templates, move |old, new| {
                let is_ours = |it: &&AddOnTemplate| it.name_any().starts_with(ADD_ON);
                match old.or(new).filter(is_ours) {
                    Some(_) if old.map(|it| &it.spec) != new.map(|it| &it.spec) => of_template(),
                    _ => Vec::new(),
                }
            });
        for service in &self.principals {
            let of_service = in_namespace.clone();
            watches.wakes(service, move |old, new| {
                of_service(old.or(new).and_then(|it| it.namespace()))
            });
        }
        for secret in &self.secrets {
            let of_secret = in_namespace.clone();
            watches.wakes(secret, move |old, new| {
                of_secret(old.or(new).and_then(|it| it.namespace()))
            });
        }
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let now = Timestamp::now();
        let object = self.all.get(namespace, name);
        let mut seen = Seen {
            now,
            object: object.clone(),
            settings: self.settings.clone(),
            server: Err(String::new()),
            principal: None,
            material: None,
            template: None,
            placement: Err(String::new()),
            clusters: Vec::new(),
            removed: Vec::new(),
            image: None,
        };
        let Some(of) = object.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return Ok(seen);
        };
        let service = self.service(namespace);
        let nodes = self.nodes(service.as_deref()).await?;
        seen.server = server(&of, service.as_deref(), &nodes);
        seen.template = self.templates.named(&template::name(&of));
        seen.placement = self.placement(&of);
        let Ok(server) = &seen.server else {
            return Ok(seen);
        };
        let addresses: Vec<String> = nodes.iter().filter_map(discovery::internal_address).collect();
        let leaf = certificates::principal_leaf(service.as_deref(), &addresses, namespace, &server.address);
        let mut material = self.material(namespace, &leaf, now).await?;
        if let Ok(Some(due)) = &material.principal
            && due.present.is_some()
        {
            for name in discovery::PRINCIPALS {
                if seen.principal.is_none() {
                    seen.principal = self.read(namespace, name).await?;
                }
            }
        }
        if seen.placement.is_ok() {
            for name in self.chosen(&of) {
                let cluster = self.cluster(&of, &name, &mut material, now).await?;
                seen.clusters.push(cluster);
            }
            seen.removed = self.removed(&of);
            seen.image = self.image(&of).await?;
        }
        material.jwt = self.jwt(namespace).await?;
        seen.material = Some(material);
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(of) = seen.object.as_deref() else {
            return plan;
        };
        if of.metadata.deletion_timestamp.is_some() {
            plan.remark("what clusters have stays");
            return plan;
        }
        let mut begun = of.clone();
        let said = &mut begun.status.get_or_insert_default().conditions;
        for step in conditions::STEPS {
            if condition::find(said, step).is_none() {
                let update = wanted(step, Status::Unknown, reason::IN_PROGRESS, "Reconciliation in progress");
                condition::set(said, update.at_generation(of.metadata.generation), seen.now);
            }
        }
        plan.status(Site::Hub, of, &begun);
        let steps = steps::plan(&mut plan, of, seen);
        plan.work_out(steps);
        if let Some(next) = seen.material.as_ref().and_then(|it| it.next) {
            plan.look_again(certificates::wait(next, seen.now));
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.all, outcome);
        put_written(&self.placements, outcome);
        put_written(&self.templates, outcome);
        put_written(&self.works, outcome);
        put_written(&self.configs, outcome);
        put_written(&self.add_ons, outcome);
    }

    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        if !outcome.succeeded() {
            return Some(outcome.error_text());
        }
        outcome.worked_out::<GitOpsSteps>().and_then(GitOpsSteps::problem)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let (Some(of), Some(steps)) = (seen.object.as_deref(), outcome.worked_out::<GitOpsSteps>()) else {
            return plan;
        };
        let namespace = of.namespace();
        let latest = outcome.latest(Site::Hub, namespace.as_deref(), &of.name_any());
        let latest: GitOpsCluster = latest.unwrap_or_else(|| of.clone());
        let mut new = latest.clone();
        for update in steps.conditions(outcome) {
            let said = &mut new.status.get_or_insert_default().conditions;
            condition::set(said, update.at_generation(latest.metadata.generation), seen.now);
        }
        plan.status(Site::Hub, &latest, &new);
        plan
    }

    fn concluded(&self, outcome: &Outcome) {
        put_written(&self.all, outcome);
    }
}

/// Where the principal is: what the GitOpsCluster says, or its Service.
fn server(of: &GitOpsCluster, service: Option<&Service>, nodes: &[Node]) -> Result<PrincipalServer, String> {
    let said = &of.spec.argo_cd_agent_addon;
    let (address, port) = (&said.principal_server_address, &said.principal_server_port);
    if !address.is_empty() && !port.is_empty() {
        return Ok(PrincipalServer {
            address: address.clone(),
            port: port.clone(),
        });
    }
    let found = match service {
        Some(service) => discovery::discover(service, nodes),
        None => Err(format!(
            "there is no Service {} in namespace {}; create it, or write spec.argoCDAgentAddon.principalServerAddress and principalServerPort",
            discovery::PRINCIPALS.join(" or "),
            of.namespace().unwrap_or_default(),
        )),
    };
    let found = found.map_err(|why| format!("Server discovery failed: {why}"))?;
    if found.address.is_empty() || found.port.is_empty() {
        return Err("Server address and/or port are empty".to_owned());
    }
    Ok(found)
}
