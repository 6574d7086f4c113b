//! An agent on a cluster: our operator and a Klusterlet, as clusteradm's `join` puts them there. Upstream: clusteradm
//! `pkg/cmd/join/exec.go`, whose values for the chart these are, and whose waits. We differ in that a dry run writes
//! nothing, in that a cluster does not become another one by accident, in that a hosted agent keeps its name when it is
//! joined again, and brings its operator along where there is none.

pub mod hub_access;
pub mod unjoin;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use client::{bootstrap, cluster_name, connect::ApiServer, kinds};
use gotemplate::helm::merge_values;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    config::Kubeconfig,
    core::DynamicObject,
    runtime::wait::{self as awaiting, await_condition},
};
use ocm_api::namespaces;
use operator::charts;
use serde_json::{Value, json};

use crate::{
    Line, Mode, former,
    gates::{self, Gate},
    images::Images,
    manifests::{self, InstallManifests},
    operated,
    resources::ResourceFlags,
    values::{self, ValueFlags},
    wait,
};

/// The name of the Klusterlet that is made in Default mode, of the operator's Deployment, and of its pods' label `app`.
pub const NAME: &str = "klusterlet";

/// The CRD of Klusterlets.
pub const CRD: &str = "klusterlets.operator.open-cluster-management.io";

/// The components whose images the chart names.
pub const COMPONENTS: [&str; 3] = ["registration", "work", "operator"];

/// What the keys of annotations for a ManagedCluster begin with.
const ANNOTATION_PREFIX: &str = "agent.open-cluster-management.io";

/// How long an agent's certificate is to live, where nobody says: a year.
pub const CLIENT_CERT_SECONDS: i32 = 31_536_000;

/// How the agents of add-ons prove to the hub who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddOnDriver {
    /// With certificates.
    Csr,
    /// With tokens, which live for so many seconds; none is what the hub says.
    Token(Option<i64>),
}

/// A cluster whose agent runs on another one.
#[derive(Clone)]
pub struct Hosted {
    /// The kubeconfig of the cluster, as the agent gets it.
    pub kubeconfig: Kubeconfig,
}

/// What an agent is to be like.
#[derive(Clone)]
pub struct JoinOptions {
    /// The name of the cluster on the hub.
    pub cluster_name: String,
    /// What the agent bootstraps with.
    pub bootstrap: Kubeconfig,
    /// The same as it is used from here, where that differs: to wait until the hub knows the cluster.
    pub hub: Kubeconfig,
    /// The images, and with them the layout.
    pub images: Images,
    /// A docker config in JSON, for the Secret that images are pulled with.
    pub image_pull_credential_file: Option<PathBuf>,
    /// Gates that were turned on or off.
    pub feature_gates: Vec<Gate>,
    /// The cluster, if the agent runs on another one, which is then the one that is written to.
    pub hosted: Option<Hosted>,
    /// Whether the agent is one process in upstream's layout, too.
    pub singleton: bool,
    /// The agent's namespace, in place of `open-cluster-management-agent`; not for a hosted agent.
    pub namespace: Option<String>,
    /// What containers ask for.
    pub resources: ResourceFlags,
    /// Whether namespaces are made, or there already.
    pub create_namespace: bool,
    /// Whether labels of the Klusterlet are put on everything that is made of it.
    pub enable_sync_labels: bool,
    /// How long the agent's certificate is to live.
    pub client_cert_expiration_seconds: i32,
    /// Annotations for the ManagedCluster.
    pub klusterlet_annotations: Vec<(String, String)>,
    /// How the agents of add-ons prove who they are; none is what each add-on says.
    pub add_on_driver: Option<AddOnDriver>,
    /// Whether works may contain anything that an administrator of the cluster may write.
    pub administrator: bool,
    /// Values for the chart that win over all of the above.
    pub values_file: Option<PathBuf>,
    /// The same, and they win over the file's.
    pub values: ValueFlags,
    /// Go on although the cluster has another name already.
    pub force: bool,
    /// Whether to wait until the agent runs and the hub knows the cluster.
    pub wait: bool,
    /// How long to wait for anything.
    pub timeout: Duration,
    /// Whether to write.
    pub mode: Mode,
}

impl JoinOptions {
    /// Of a cluster and what it bootstraps with, and all else as clusteradm has it.
    pub fn new(cluster_name: impl Into<String>, bootstrap: Kubeconfig) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            hub: bootstrap.clone(),
            bootstrap,
            images: Images::default(),
            image_pull_credential_file: None,
            feature_gates: vec![],
            hosted: None,
            singleton: false,
            namespace: None,
            resources: ResourceFlags::default(),
            create_namespace: true,
            enable_sync_labels: false,
            client_cert_expiration_seconds: CLIENT_CERT_SECONDS,
            klusterlet_annotations: vec![],
            add_on_driver: None,
            administrator: false,
            values_file: None,
            values: ValueFlags::default(),
            force: false,
            wait: false,
            timeout: Duration::from_secs(300),
            mode: Mode::Write,
        }
    }
}

/// Something that `join` has come to, in the order in which it does.
#[derive(Debug)]
pub enum JoinStep {
    /// An object was written, or would be.
    Applied(Line),
    /// The CRD of Klusterlets is served.
    CrdRegistered,
    /// The operator's pod is ready.
    OperatorAvailable,
    /// The agent's Deployments are there.
    KlusterletAvailable,
    /// The hub knows the cluster.
    ClusterCreated,
}

/// What is on the cluster already, which decides what is put there.
#[derive(Clone, Debug, Default)]
struct There {
    /// Whether an operator runs.
    has_operator: bool,
    /// The name of the Klusterlet of a hosted cluster that is joined again.
    hosted: Option<String>,
    /// Where the API server of the cluster says it is reached.
    server: Option<String>,
}

/// Names that depend on the mode.
struct Names {
    klusterlet: String,
    /// The Klusterlet's namespace, on the managed cluster.
    namespace: String,
    /// Where the agent runs.
    agent: String,
}

impl JoinOptions {
    fn mode_value(&self) -> &'static str {
        match (self.hosted.is_some(), self.singleton) {
            (false, false) => "Default",
            (false, true) => "Singleton",
            (true, false) => "Hosted",
            (true, true) => "SingletonHosted",
        }
    }

    fn names(&self, there: &There) -> Names {
        if self.hosted.is_none() {
            let namespace = self.namespace.as_deref().unwrap_or(namespaces::AGENT).to_owned();
            return Names {
                klusterlet: NAME.to_owned(),
                agent: namespace.clone(),
                namespace,
            };
        }
        let name = there.hosted.clone().unwrap_or_else(|| {
            let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
            let letter = |_| char::from(letters[rand::random::<u32>() as usize % letters.len()]);
            format!("{NAME}-hosted-{}", (0..6).map(letter).collect::<String>())
        });
        Names {
            namespace: format!("open-cluster-management-{name}"),
            agent: name.clone(),
            klusterlet: name,
        }
    }

    fn chart_values(&self, there: &There, names: &Names) -> Result<Value> {
        let mut images = self.images.values(&COMPONENTS);
        images["imageCredentials"] = manifests::image_credentials(self.image_pull_credential_file.as_deref())?;
        let mut klusterlet = json!({
            "create": true,
            "mode": self.mode_value(),
            "name": names.klusterlet,
            "clusterName": self.cluster_name,
            "namespace": names.namespace,
            "resourceRequirement": self.resources.requirement()?,
        });
        for (component, gates) in gates::values(&gates::CLUSTER, &self.feature_gates) {
            if !gates.is_empty() {
                klusterlet[component] = json!({"featureGates": gates});
            }
        }
        let registration = &mut klusterlet["registrationConfiguration"];
        registration["clientCertExpirationSeconds"] = self.client_cert_expiration_seconds.into();
        for (key, value) in &self.klusterlet_annotations {
            let key = match key.starts_with(ANNOTATION_PREFIX) {
                true => key.clone(),
                false => format!("{ANNOTATION_PREFIX}/{key}"),
            };
            registration["clusterAnnotations"][key] = value.as_str().into();
        }
        match &self.add_on_driver {
            None => {}
            Some(AddOnDriver::Csr) => registration["addOnKubeClientRegistrationDriver"] = json!({"authType": "csr"}),
            Some(AddOnDriver::Token(seconds)) => {
                let mut driver = json!({"authType": "token"});
                if let Some(seconds) = seconds.filter(|it| *it > 0) {
                    driver["token"] = json!({"expirationSeconds": seconds});
                }
                registration["addOnKubeClientRegistrationDriver"] = driver;
            }
        }
        if let Some(server) = &there.server {
            klusterlet["externalServerURLs"] = json!([{"url": server}]);
        }
        let mut made = json!({
            "layout": self.images.layout_value(),
            "images": images,
            "createNamespace": self.create_namespace,
            "enableSyncLabels": self.enable_sync_labels,
            "bootstrapHubKubeConfig": output::yaml(&self.bootstrap)?,
            "noOperator": there.has_operator,
            "klusterlet": klusterlet,
        });
        if let Some(Hosted { kubeconfig }) = &self.hosted {
            made["externalManagedKubeConfig"] = output::yaml(kubeconfig)?.into();
        }
        if let Some(path) = &self.values_file {
            merge_values(&mut made, &values::file(path)?);
        }
        self.values.merge_into(&mut made)?;
        Ok(made)
    }

    fn manifests(&self, there: &There) -> Result<InstallManifests> {
        cluster_name::check(&self.cluster_name)?;
        let names = self.names(there);
        let values = self.chart_values(there, &names)?;
        let mut rendered = charts::klusterlet(namespaces::OPERATOR, values.clone())?;
        if self.hosted.is_some() && !there.has_operator {
            // The chart has none for a hosted agent: it is taken to be there.
            let mut values = values;
            values["klusterlet"]["create"] = false.into();
            values["klusterlet"]["mode"] = "Default".into();
            for secret in ["bootstrapHubKubeConfig", "externalManagedKubeConfig"] {
                values[secret] = "".into();
            }
            let known: BTreeSet<String> = rendered.iter().map(manifests::named).collect();
            let operator = charts::klusterlet(namespaces::OPERATOR, values)?;
            rendered.extend(operator.into_iter().filter(|it| !known.contains(&manifests::named(it))));
        }
        if self.administrator && self.hosted.is_none() {
            rendered.push(administrator(&names));
        }
        Ok(InstallManifests::of(rendered))
    }
}

/// The name of the binding that lets works contain anything.
pub(crate) fn administrator_binding(klusterlet: &str) -> String {
    format!("open-cluster-management:{klusterlet}-work:administrator")
}

fn administrator(names: &Names) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": administrator_binding(&names.klusterlet)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{
            "kind": "ServiceAccount",
            "name": format!("{}-work-sa", names.klusterlet),
            "namespace": names.agent,
        }],
    })
}

/// Reads `KEY=VALUE` of an annotation.
///
/// # Errors
/// When there is no key or no value.
pub fn parse_annotation(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// What is put on a cluster, after what is there was looked at.
#[derive(Debug)]
pub struct Prepared {
    there: There,
    /// The objects.
    pub manifests: InstallManifests,
}

/// Looks what is there, and so what is to be put there.
///
/// # Errors
/// When what is there contradicts it, and when values do not fit the chart.
pub async fn prepare(cluster: &ApiServer, options: &JoinOptions) -> Result<Prepared> {
    cluster_name::check(&options.cluster_name)?;
    let there = look(cluster, options).await?;
    let mut manifests = options.manifests(&there)?;
    manifests::keep_newer_crd(cluster, &mut manifests.crds).await?;
    Ok(Prepared { there, manifests })
}

/// Puts an agent on the cluster, or of a hosted cluster on the one that hosts it.
///
/// # Errors
/// What the API server refuses, and what is not there in time.
pub async fn join(
    cluster: &ApiServer,
    options: &JoinOptions,
    prepared: &Prepared,
    tell: &mut dyn FnMut(JoinStep) -> Result<()>,
) -> Result<()> {
    let Prepared { there, manifests: made } = prepared;
    if options.mode == Mode::DryRun {
        for line in crate::apply(cluster, &made.all(&[]), Mode::DryRun).await? {
            tell(JoinStep::Applied(line))?;
        }
        return Ok(());
    }
    made.apply_crds(cluster, options.timeout, &mut |line| tell(JoinStep::Applied(line)))
        .await?;
    tell(JoinStep::CrdRegistered)?;
    for object in &made.objects {
        for line in crate::apply(cluster, std::slice::from_ref(object), Mode::Write).await? {
            tell(JoinStep::Applied(line))?;
        }
    }
    if options.wait {
        let deadline = wait::deadline(options.timeout);
        if !there.has_operator {
            wait::operator(cluster, NAME, deadline).await?;
            tell(JoinStep::OperatorAvailable)?;
        }
        if let Some(name) = made.name_of("Klusterlet") {
            wait::klusterlet(cluster, name, deadline).await?;
        }
        tell(JoinStep::KlusterletAvailable)?;
        known(options, deadline).await?;
        tell(JoinStep::ClusterCreated)?;
    }
    Ok(())
}

/// Looks what is there already.
async fn look(cluster: &ApiServer, options: &JoinOptions) -> Result<There> {
    let mut there = There::default();
    for klusterlet in operated::list(cluster, &operated::klusterlets()).await? {
        let other = klusterlet.data["spec"]["clusterName"].as_str().unwrap_or_default();
        let is_hosted = klusterlet.data["spec"]["deployOption"]["mode"]
            .as_str()
            .is_some_and(|it| it.ends_with("Hosted"));
        if options.hosted.is_some() && is_hosted && other == options.cluster_name {
            there.hosted = Some(klusterlet.name_any());
        }
        if options.hosted.is_none() && klusterlet.name_any() == NAME && !options.force {
            check_same(options, &klusterlet)?;
        }
    }
    if options.hosted.is_none() && !options.force {
        for agent in former::agents(cluster).await? {
            let other = former::cluster_name_of(&agent).unwrap_or_default();
            let namespace = agent.metadata.namespace.unwrap_or_default();
            if namespace != namespaces::AGENT || other != options.cluster_name {
                bail!(
                    "the agent of {other} is in namespace {namespace} already: `drover unjoin --cluster-name {other} \
                     --namespace {namespace}` first, or go on beside it with --force"
                );
            }
        }
    }
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespaces::OPERATOR);
    let operator = deployments.get_opt(NAME).await;
    let operator = operator.map_err(|error| cluster.explain("could not look for the operator", &error))?;
    there.has_operator = operator.is_some_and(|it| is_available(&it));
    let managed = match &options.hosted {
        None => cluster.clone(),
        Some(Hosted { kubeconfig }) => ApiServer::of(kubeconfig.clone(), "--managed-cluster-kubeconfig").await?,
    };
    there.server = bootstrap::public_server(&managed).await?;
    Ok(there)
}

fn is_available(operator: &Deployment) -> bool {
    let conditions = json!(operator.status.as_ref().map(|it| &it.conditions));
    client::conditions::find(&conditions, "Available").is_some_and(|it| it.is_true())
}

/// A cluster that changes its name loses its works.
fn check_same(options: &JoinOptions, klusterlet: &DynamicObject) -> Result<()> {
    let spec = &klusterlet.data["spec"];
    let other = spec["clusterName"].as_str().unwrap_or_default();
    if !other.is_empty() && other != options.cluster_name {
        bail!(
            "the cluster is {other} already: `drover unjoin --cluster-name {other}` first, or rename it with --force"
        );
    }
    if klusterlet.metadata.deletion_timestamp.is_some() {
        bail!("Klusterlet {NAME} is being deleted: `drover unjoin --cluster-name {other}` waits until it is gone");
    }
    Ok(())
}

/// How often the hub is asked for a cluster where a watch is forbidden.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Waits until the hub has the cluster, whether accepted or not.
async fn known(options: &JoinOptions, deadline: tokio::time::Instant) -> Result<()> {
    let name = options.cluster_name.as_str();
    let hub = ApiServer::of(options.hub.clone(), "the bootstrap kubeconfig").await?;
    let clusters = hub.all(&kinds::managed_cluster());
    let there = async {
        if clusters.get_opt(name).await?.is_some() {
            return Ok(());
        }
        match await_condition(clusters.clone(), name, |it: Option<&DynamicObject>| it.is_some()).await {
            Ok(_) => return Ok(()),
            Err(awaiting::Error::ProbeFailed(_)) => {}
        }
        // A token of ours watches no clusters: it gets this one.
        while clusters.get_opt(name).await?.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok::<_, kube::Error>(())
    };
    match tokio::time::timeout_at(deadline, there).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(hub.explain("could not look for the cluster on the hub", &error)),
        Err(_) => bail!(
            "the agent runs and the hub {} does not know {name} in time; `kubectl get klusterlets -o yaml` and the agent's \
             log tell why",
            hub.server,
        ),
    }
}

/// Reads the kubeconfig of a cluster whose agent is hosted.
///
/// # Errors
/// When it is none, or its server does not answer.
pub async fn hosted(path: &std::path::Path, internal_endpoint: bool) -> Result<Hosted> {
    let from = path.display().to_string();
    let kubeconfig = client::connect::read(path)?;
    // Files beside it would not be there in the agent's pod.
    let mut kubeconfig = credential::kubeconfig::load(&from, kubeconfig).await?.kubeconfig;
    let managed = ApiServer::of(kubeconfig.clone(), &from).await?;
    if internal_endpoint {
        let server = bootstrap::public_server(&managed).await?;
        let server = server.with_context(|| {
            format!(
                "{} does not say where it is reached from inside (kube-public/cluster-info): leave \
                 --force-internal-endpoint-lookup-managed out",
                managed.server
            )
        })?;
        hub_access::set_server(&mut kubeconfig, &server);
    } else {
        let version = managed.client.apiserver_version().await;
        version.map_err(|error| managed.explain("validate managed kubeconfig file failed", &error))?;
    }
    Ok(Hosted { kubeconfig })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> JoinOptions {
        JoinOptions::new("edge", Kubeconfig::default())
    }

    fn named<'a>(made: &'a InstallManifests, kind: &str) -> Vec<&'a Value> {
        made.objects.iter().filter(|it| it["kind"] == kind).collect()
    }

    #[test]
    fn a_klusterlet_is_what_clusteradm_makes() {
        let options = JoinOptions {
            klusterlet_annotations: vec![("a".into(), "b".into())],
            add_on_driver: Some(AddOnDriver::Token(Some(3600))),
            feature_gates: vec![gates::parse_cluster("ClusterClaim=false").unwrap()],
            ..options()
        };
        let there = There {
            server: Some("https://here:1".into()),
            ..There::default()
        };
        let made = options.manifests(&there).unwrap();
        let spec = &made.objects.last().unwrap()["spec"];
        assert_eq!(spec["deployOption"]["mode"], "Default");
        assert_eq!(
            (spec["clusterName"].as_str(), spec["namespace"].as_str()),
            (Some("edge"), Some(namespaces::AGENT))
        );
        assert_eq!(spec["externalServerURLs"], json!([{"url": "https://here:1"}]));
        let registration = &spec["registrationConfiguration"];
        assert_eq!(registration["clientCertExpirationSeconds"], CLIENT_CERT_SECONDS);
        assert_eq!(
            registration["clusterAnnotations"],
            json!({"agent.open-cluster-management.io/a": "b"})
        );
        assert_eq!(
            registration["addOnKubeClientRegistrationDriver"],
            json!({"authType": "token", "token": {"expirationSeconds": 3600}})
        );
        let gates = registration["featureGates"].as_array().unwrap();
        assert!(
            gates.contains(&json!({"feature": "ClusterClaim", "mode": "Disable"})),
            "{gates:?}"
        );
        assert_eq!(named(&made, "Deployment").len(), 1);
        let names: Vec<&str> = named(&made, "Namespace")
            .iter()
            .filter_map(|it| it["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, [namespaces::OPERATOR, namespaces::AGENT]);
    }

    #[test]
    fn an_operator_that_runs_is_left_alone() {
        let there = There {
            has_operator: true,
            ..There::default()
        };
        let made = options().manifests(&there).unwrap();
        assert!(named(&made, "Deployment").is_empty());
        assert_eq!(named(&made, "Klusterlet").len(), 1);
    }

    #[test]
    fn a_hosted_agent_has_its_own_name_and_namespaces() {
        let options = JoinOptions {
            hosted: Some(Hosted {
                kubeconfig: Kubeconfig::default(),
            }),
            singleton: true,
            ..options()
        };
        let made = options.manifests(&There::default()).unwrap();
        let name = made.name_of("Klusterlet").unwrap().to_owned();
        assert!(
            name.starts_with("klusterlet-hosted-") && name.len() == "klusterlet-hosted-".len() + 6,
            "{name}"
        );
        let spec = &made.objects.last().unwrap()["spec"];
        assert_eq!(spec["deployOption"]["mode"], "SingletonHosted");
        assert_eq!(spec["namespace"], format!("open-cluster-management-{name}"));
        let secrets: Vec<String> = named(&made, "Secret")
            .iter()
            .map(|it| format!("{}/{}", it["metadata"]["namespace"], it["metadata"]["name"]).replace('"', ""))
            .collect();
        assert!(
            secrets.contains(&format!("{name}/external-managed-kubeconfig")),
            "{secrets:?}"
        );
        assert_eq!(named(&made, "Deployment").len(), 1);
        let again = There {
            hosted: Some("klusterlet-hosted-abcdef".into()),
            has_operator: true,
            ..There::default()
        };
        let made = options.manifests(&again).unwrap();
        assert_eq!(made.name_of("Klusterlet"), Some("klusterlet-hosted-abcdef"));
        assert!(named(&made, "Deployment").is_empty());
    }

    #[test]
    fn a_flag_binds_the_work_agent_to_cluster_admin() {
        let administrators = |administrator| {
            let options = JoinOptions {
                administrator,
                ..options()
            };
            let made = options.manifests(&There::default()).unwrap();
            let bindings = named(&made, "ClusterRoleBinding");
            bindings
                .iter()
                .filter(|it| it["roleRef"]["name"] == "cluster-admin")
                .count()
        };
        assert_eq!((administrators(false), administrators(true)), (0, 1));
    }

    #[test]
    fn an_annotation_without_a_value_is_refused() {
        assert_eq!(parse_annotation("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_annotation("a").is_err() && parse_annotation("=b").is_err());
    }
}
