//! `clusteradm init`, `join`, `unjoin`, `clean`, `upgrade`, `accept`, and tokens.
//! Upstream: clusteradm `pkg/cmd/init`, `join` and their neighbours, whose lines we print. We differ in that JSON
//! stands alone on standard output, and in that what the files hold that name a token is for their owner alone.

use std::{net::IpAddr, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, Result, bail};
use client::{bootstrap::Invitation, cluster_name, connect::ApiServer};
use cobra::FlagValues;
use installation::{
    Mode,
    accept::{self, AcceptOptions, Event, Requesters},
    capi::CapiFlags,
    charts,
    cluster::{
        self, AddOnDriver, CLIENT_CERT_SECONDS, JoinOptions,
        hub_access::{HubAccess, Route, Trust},
        parse_annotation, unjoin,
        unjoin::UnjoinOptions,
    },
    gates::{self, Gate},
    hub::{
        self, InitOptions,
        clean::{self, CleanOptions},
    },
    images::{ImageFlags, Images},
    info,
    resources::{ResourceFlags, amount},
    token,
    upgrade::{self, UpgradeOptions},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, config::Kubeconfig};
use ocm_api::namespaces;
use output::private_file;
use serde_json::json;

use super::{
    line::Line,
    preflight::{self, Check},
};
use crate::command::init::Refused;

impl Line<'_> {
    fn mode(&self) -> Mode {
        if self.is_dry_run() { Mode::DryRun } else { Mode::Write }
    }

    fn images(&self, missing: &'static str) -> Result<Images> {
        let Some(registry) = self.text("image-registry") else {
            bail!(missing);
        };
        let flags = ImageFlags {
            image: None,
            image_registry: Some(registry),
            bundle_version: self.text("bundle-version"),
            bundle_version_overrides: self.file("bundle-version-overrides"),
        };
        flags.images()
    }

    fn resources(&self) -> Result<ResourceFlags> {
        let amounts = |name: &str| -> Result<Vec<(String, String)>> {
            let pairs = self.flags.list(name);
            let pairs = pairs.iter().map(|it| amount(it).map_err(anyhow::Error::msg));
            pairs.collect::<Result<_>>().with_context(|| format!("--{name}"))
        };
        let limits = amounts("resource-limits")?;
        let requests = amounts("resource-requests")?;
        let class = self.text("resource-qos-class");
        Ok(ResourceFlags {
            // The default fits only where no amounts are given.
            resource_qos_class: class.filter(|_| self.flags.is_given("resource-qos-class")),
            resource_limits: limits,
            resource_requests: requests,
        })
    }

    fn gates(&self, parse: impl Fn(&str) -> Result<Gate, String>) -> Result<Vec<Gate>> {
        let typed = self.flags.list("feature-gates");
        let typed = typed.iter().filter(|it| !it.is_empty());
        typed.map(|it| parse(it).map_err(anyhow::Error::msg)).collect()
    }

    /// As Go prints it, with the token first.
    fn print_invitation(&self, invitation: &Invitation) -> Result<()> {
        output::print(&format!(
            "{{\n  \"hub-token\": {},\n  \"hub-apiserver\": {}\n}}\n",
            json!(invitation.token),
            json!(invitation.server)
        ))
    }

    fn join_command(&self, invitation: &Invitation) -> String {
        format!(
            "{} join --hub-token {} --hub-apiserver {}",
            self.called, invitation.token, invitation.server
        )
    }
}

/// The flags of `init` for what drover does not have.
fn refused(flags: &FlagValues) -> Refused {
    let given = |name: &str| flags.some(name).map(str::to_owned).filter(|_| flags.is_given(name));
    Refused {
        singleton: flags.is_on("singleton"),
        singleton_name: given("singleton-name"),
        hub_cluster_arn: given("hub-cluster-arn"),
        aws_resource_tags: flags.list("aws-resource-tags"),
        auto_approved_arn_patterns: flags.list("auto-approved-arn-patterns"),
        auto_approved_grpc_identities: flags.list("auto-approved-grpc-identities"),
        grpc_server: given("grpc-server"),
        grpc_endpoint_type: given("grpc-endpoint-type"),
    }
}

/// `init`
pub async fn init(line: &Line<'_>) -> Result<()> {
    let flags = &line.flags;
    let is_json = flags.text("output") == "json";
    if !is_json {
        for name in flags.given() {
            output::say(format_args!("flag {name} has been set"))?;
        }
    }
    if let Some(sentence) = refused(flags).sentence() {
        bail!(sentence);
    }
    let options = InitOptions {
        images: line.images("registry should not be empty")?,
        image_pull_credential_file: line.file("image-pull-credential-file"),
        feature_gates: line.gates(gates::parse_hub)?,
        registration_drivers: flags.list("registration-drivers"),
        auto_approved_csr_identities: flags.list("auto-approved-csr-identities"),
        resources: line.resources()?,
        use_bootstrap_token: flags.is_on("use-bootstrap-token"),
        create_namespace: flags.is_on("create-namespace"),
        enable_sync_labels: flags.is_on("enable-sync-labels"),
        values_file: line.file("cluster-manager-values-file"),
        wait: flags.is_on("wait"),
        timeout: line.timeout(),
        mode: line.mode(),
        ..InitOptions::default()
    };
    let hub = ApiServer::connect(&line.global).await?;
    if !flags.is_on("force") {
        preflight::tell(&[server_check(&hub), info_check(&hub).await?])?;
        options.check()?;
        if options.wait && flags.text("output") != "text" {
            bail!("output should be text if --wait is set");
        }
    }
    if !options.create_namespace {
        eprintln!("skip creating namespace");
    }
    let made = options.manifests()?;
    let all = made.all(&hub::public(&hub, None).await?);
    charts::keep(&all, line.file("output-file").as_deref())?;
    if line.is_dry_run() {
        let documents: Vec<String> = all.iter().map(output::yaml).collect::<Result<_>>()?;
        return output::print(&documents.join("---\n"));
    }
    let mut tell = |step: hub::InitStep| match step {
        _ if !options.wait => Ok(()),
        hub::InitStep::Applied(_) => Ok(()),
        hub::InitStep::CrdRegistered => output::say("CRD successfully registered."),
        hub::InitStep::OperatorAvailable => output::say("Registration operator is now available."),
        hub::InitStep::RegistrationAvailable => output::say("ClusterManager registration is now available."),
    };
    let Some(invitation) = hub::init(&hub, &options, &mut tell).await? else {
        return Ok(());
    };
    let wait = if options.wait { " --wait" } else { "" };
    let command = format!("{}{wait}", line.join_command(&invitation));
    if let Some(path) = line.file("output-join-command-file") {
        program(&path, &format!("{command} --cluster-name $1\n"))?;
    }
    if is_json {
        return line.print_invitation(&invitation);
    }
    output::print(&format!(
        "The multicluster hub control plane has been initialized successfully!\n\n\
         You can now register cluster(s) to the hub control plane. Log onto those cluster(s) and run the following command:\
         \n\n    {command} --cluster-name <cluster_name>\n\n\
         Replace <cluster_name> with a cluster name of your choice. For example, cluster1.\n\n"
    ))
}

/// Writes a program that only its owner may read and run: it holds the token.
fn program(path: &Path, text: &str) -> Result<()> {
    private_file::write(path, text)?;
    let failed = || format!("could not make {} a program", path.display());
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).with_context(failed)
}

fn server_check(hub: &ApiServer) -> Check {
    let check = Check::passed("HubApiServer check");
    match is_address(&hub.server) {
        true => check,
        false => check.warning("Hub Api Server is a domain name, maybe you should set HostAlias in klusterlet"),
    }
}

/// Whether the host of a URL is an IP address.
fn is_address(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    host.is_some_and(|it| it.parse::<IpAddr>().is_ok())
}

async fn info_check(hub: &ApiServer) -> Result<Check> {
    let check = Check::passed("cluster-info check");
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "kube-public");
    let found = maps.get_opt("cluster-info").await;
    let found = found.map_err(|error| hub.explain("could not look for kube-public/cluster-info", &error))?;
    let Some(found) = found else {
        let text = "no ConfigMap named cluster-info in the kube-public namespace, clusteradm will creates it";
        return Ok(check.warning(text));
    };
    let told = found.data.and_then(|mut it| it.remove("kubeconfig"));
    Ok(match told.is_none_or(|it| it.is_empty()) {
        true => check.error("empty kubeconfig data in cluster-info"),
        false => check,
    })
}

/// `get token`
pub async fn get_token(line: &Line<'_>) -> Result<()> {
    let hub = line.hub().await?;
    let invitation = match line.flags.is_on("use-bootstrap-token") {
        true => token::of_bootstrap_secret(&hub, None).await?,
        false => Invitation::make(&hub, None).await?,
    };
    if line.flags.text("output") == "json" {
        return line.print_invitation(&invitation);
    }
    output::print(&format!(
        "token={}\nplease log on spoke and run:\n{} --cluster-name <cluster_name>\n",
        invitation.token,
        line.join_command(&invitation)
    ))
}

/// `delete token`, of which upstream says nothing.
pub async fn delete_token(line: &Line<'_>) -> Result<()> {
    let hub = ApiServer::connect(&line.global).await?;
    let lines = token::delete(&hub, line.mode(), line.timeout()).await?;
    if line.is_dry_run() {
        lines.iter().try_for_each(output::say)?;
    }
    Ok(())
}

/// `accept`
pub async fn accept(line: &Line<'_>) -> Result<()> {
    let options = AcceptOptions {
        clusters: line.some_clusters()?,
        wait: line.flags.is_on("wait"),
        timeout: line.timeout(),
        requesters: match line.flags.is_on("skip-approve-check") {
            true => Requesters::Anybody,
            false => Requesters::Bootstrap(line.flags.list("requesters")),
        },
        dry_run: line.is_dry_run(),
    };
    let mut tell = |event: Event| match event {
        Event::Line(text) => output::say(text),
        Event::Joined(cluster) => output::say(format_args!(
            "\n Your managed cluster {cluster} has joined the Hub successfully. Visit \
             https://open-cluster-management.io/scenarios or \
             https://github.com/open-cluster-management-io/OCM/tree/main/solutions for next steps."
        )),
    };
    accept::accept(&line.hub().await?, &options, &mut tell).await
}

/// `get hub-info`
pub async fn hub_info(line: &Line<'_>) -> Result<()> {
    let hub = line.hub().await?;
    output::print(&info::of_hub(&hub).await?.text())
}

/// `get klusterlet-info`
pub async fn klusterlet_info(line: &Line<'_>) -> Result<()> {
    let cluster = line.managed_cluster().await?;
    let page = info::of_cluster(&cluster, None).await?;
    if page.is_empty() {
        // As upstream, on standard output and no failure.
        return output::say("No klusterlet detected! Please make sure you're using the correct context!");
    }
    output::print(&page.text())
}

/// `join`
pub async fn join(line: &Line<'_>) -> Result<()> {
    let flags = &line.flags;
    let Some(token) = line.text("hub-token") else {
        bail!("token is missing");
    };
    let Some(server) = line.text("hub-apiserver") else {
        bail!("hub-server is missing");
    };
    let Some(name) = line.text("cluster-name") else {
        bail!("cluster-name is missing");
    };
    let images = line.images("the OCM image registry should not be empty, like quay.io/open-cluster-management")?;
    let Some(mode) = line.text("mode").map(|it| it.to_lowercase()) else {
        bail!("the mode should not be empty, like default");
    };
    other_drivers(flags)?;
    let access = HubAccess {
        server: server.clone(),
        token,
        trust: match line.file("ca-file") {
            Some(path) => Trust::File(path),
            None => Trust::SendToken,
        },
    };
    let wrong_server = !server.starts_with("http://") && !server.starts_with("https://");
    let mut checks = Vec::new();
    let mut hub_check = Check::passed("HubKubeconfig check");
    let mut kubeconfig = None;
    if wrong_server {
        hub_check = hub_check.error("--hub-apiserver should start with http:// or https://");
    } else {
        let (invitation, remark) = access.invitation().await?;
        if invitation.ca.is_none() {
            hub_check = hub_check.warning("no ca detected, creating hub kubeconfig without ca");
        }
        if let Some(remark) = remark {
            // Its second half names a flag of drover's.
            let found = remark.split(';').next().unwrap_or_default();
            hub_check = hub_check.warning(format!("{found}; --ca-file names the one to trust"));
        }
        let made = Kubeconfig::from_yaml(&invitation.kubeconfig()?)?;
        if let Err(error) = is_hub(&made).await {
            hub_check = hub_check.error(output::sentence(&error));
        }
        kubeconfig = Some(made);
    }
    checks.push(hub_check);
    checks.push(mode_check(&mode, line.file("managed-cluster-kubeconfig").is_some()));
    checks.push(match cluster_name::check(&name) {
        Ok(()) => Check::passed("ClusterName Check"),
        Err(error) => Check::passed("ClusterName Check").error(format!(
            "validate ClusterName failed: should match `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`: {error}"
        )),
    });
    preflight::tell(&checks)?;
    let Some(kubeconfig) = kubeconfig else {
        bail!("--hub-apiserver {server} is no URL");
    };
    let route = Route {
        internal_endpoint: flags.is_on("force-internal-endpoint-lookup"),
        proxy_url: line.text("proxy-url"),
        proxy_ca_file: line.file("proxy-ca-file"),
    };
    let hosted = match line.file("managed-cluster-kubeconfig").filter(|_| mode == "hosted") {
        Some(path) => {
            let inside = flags.is_on("force-internal-endpoint-lookup-managed");
            Some(cluster::hosted(&path, inside).await?)
        }
        None => None,
    };
    let annotations = flags.list("klusterlet-annotation");
    let annotations = annotations
        .iter()
        .map(|it| parse_annotation(it).map_err(anyhow::Error::msg));
    let options = JoinOptions {
        bootstrap: route.apply(&kubeconfig).await?,
        images,
        image_pull_credential_file: line.file("image-pull-credential-file"),
        feature_gates: line.gates(gates::parse_cluster)?,
        hosted,
        singleton: flags.is_on("singleton"),
        resources: line.resources()?,
        create_namespace: flags.is_on("create-namespace"),
        enable_sync_labels: flags.is_on("enable-sync-labels"),
        client_cert_expiration_seconds: i32::try_from(flags.number("client-cert-expiration-seconds"))
            .unwrap_or(CLIENT_CERT_SECONDS),
        klusterlet_annotations: annotations.collect::<Result<_>>().context("--klusterlet-annotation")?,
        add_on_driver: add_on_driver(flags)?,
        values_file: line.file("klusterlet-values-file"),
        wait: flags.is_on("wait"),
        timeout: line.timeout(),
        mode: line.mode(),
        ..JoinOptions::new(name.clone(), kubeconfig)
    };
    let imported = CapiFlags {
        capi_import: flags.is_on("capi-import"),
        capi_kubeconfig: line.file("capi-kubeconfig"),
        capi_cluster_name: line.text("capi-cluster-name"),
    };
    if imported.capi_import && imported.capi_cluster_name.is_none() {
        bail!("capi-cluster-name must be set");
    }
    let cluster = match imported.cluster(&line.global).await? {
        Some(cluster) => cluster,
        None => ApiServer::connect(&line.global).await?,
    };
    let prepared = cluster::prepare(&cluster, &options).await?;
    let all = prepared.manifests.all(&[]);
    charts::keep(&all, line.file("output-file").as_deref())?;
    let mut tell = |step: cluster::JoinStep| match step {
        _ if !options.wait => Ok(()),
        cluster::JoinStep::Applied(_) => Ok(()),
        cluster::JoinStep::CrdRegistered => output::say("CRD successfully registered."),
        cluster::JoinStep::OperatorAvailable => output::say("Registration operator is now available."),
        cluster::JoinStep::KlusterletAvailable => output::say("Klusterlet is now available."),
        cluster::JoinStep::ClusterCreated => output::say("Managed cluster is created."),
    };
    if line.is_dry_run() {
        let documents: Vec<String> = all.iter().map(output::yaml).collect::<Result<_>>()?;
        return output::print(&documents.join("---\n"));
    }
    cluster::join(&cluster, &options, &prepared, &mut tell).await?;
    output::print(&format!(
        "Please log onto the hub cluster and run the following command:\n\n    {} accept --clusters {name}\n\n\
         This is not needed when the ManagedClusterAutoApproval feature is enabled\n",
        line.called
    ))
}

/// Registration with AWS or gRPC.
fn other_drivers(flags: &FlagValues) -> Result<()> {
    let auth = flags.text("registration-auth");
    let names = ["hub-cluster-arn", "managed-cluster-arn", "grpc-server", "grpc-ca-file"];
    let given = names.into_iter().find(|it| flags.is_given(it));
    let flag = match (auth, given) {
        ("csr", None) => return Ok(()),
        ("csr", Some(name)) => format!("--{name}"),
        _ => format!("--registration-auth {auth}"),
    };
    bail!(
        "{flag}: drover registers clusters by certificate requests only; leave it out, or write --registration-auth csr"
    )
}

fn add_on_driver(flags: &FlagValues) -> Result<Option<AddOnDriver>> {
    match flags.text("addon-kubeclient-registration-auth") {
        "csr" => Ok(None),
        "token" => {
            let seconds = flags.number("addon-token-expiration-seconds");
            Ok(Some(AddOnDriver::Token(Some(seconds).filter(|it| *it > 0))))
        }
        other => bail!("--addon-kubeclient-registration-auth {other}: write csr or token"),
    }
}

fn mode_check(mode: &str, has_kubeconfig: bool) -> Check {
    let check = Check::passed("DeployMode Check");
    match (mode, has_kubeconfig) {
        ("default", true) => check.error("--managed-cluster-kubeconfig should not be set in default deploy mode"),
        ("hosted", false) => check.error("--managed-cluster-kubeconfig should be set in hosted deploy mode"),
        ("default" | "hosted", _) => check,
        _ => check.error("deploy mode should be default or hosted"),
    }
}

/// Whether the hub takes what clusters join with.
async fn is_hub(kubeconfig: &Kubeconfig) -> Result<()> {
    let group = "cluster.open-cluster-management.io/v1";
    let hub = ApiServer::of(kubeconfig.clone(), "what --hub-token and --hub-apiserver name").await?;
    match hub.client.list_api_group_resources(group).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => bail!("no apigroup {group} detected"),
        Err(error) => Err(hub.explain("could not ask the hub", &error)),
    }
}

/// `unjoin`
pub async fn unjoin(line: &Line<'_>) -> Result<()> {
    let Some(name) = line.text("cluster-name") else {
        bail!("cluster-name is missing");
    };
    let options = UnjoinOptions {
        cluster_name: name.clone(),
        namespace: namespaces::AGENT.to_owned(),
        force: false,
        purge_operator: line.flags.is_on("purge-operator"),
        mode: line.mode(),
        timeout: line.timeout(),
    };
    let cluster = ApiServer::connect(&line.global).await?;
    output::say(format_args!(
        "Remove applied resources in the managed cluster {name} ... "
    ))?;
    let Some(found) = unjoin::look(&cluster, &options).await? else {
        return output::say("klusterlet CRD not found, there is no need to unjoin.");
    };
    charts::keep(found.manifests(), line.file("output-file").as_deref())?;
    let lines = unjoin::unjoin(&cluster, &options, &found).await?;
    if line.is_dry_run() {
        return lines.iter().try_for_each(output::say);
    }
    found.remarks.iter().try_for_each(output::say)?;
    output::say(format_args!(
        "Applied resources have been deleted during the {name} joined stage. The status of mcl {name} will be unknown in the \
         hub cluster."
    ))
}

/// `clean`
pub async fn clean(line: &Line<'_>) -> Result<()> {
    let options = CleanOptions {
        name: line.flags.text("name").to_owned(),
        purge_operator: line.flags.is_on("purge-operator"),
        mode: line.mode(),
        timeout: line.timeout(),
    };
    let hub = ApiServer::connect(&line.global).await?;
    let found = clean::look(&hub, &options).await?;
    if found.is_nothing() {
        bail!("hub has not been initialized");
    }
    charts::keep(found.manifests(), line.file("output-file").as_deref())?;
    let cleaned = clean::clean(&hub, &options, found).await?;
    if line.is_dry_run() {
        return cleaned.lines.iter().try_for_each(output::say);
    }
    cleaned.remarks.iter().try_for_each(output::say)?;
    output::say("The multicluster hub control plane has been clean up successfully!")
}

/// `upgrade`
pub async fn upgrade(what: &str, line: &Line<'_>) -> Result<()> {
    let is_hub = what == "clustermanager";
    let file = if is_hub {
        "cluster-manager-values-file"
    } else {
        "klusterlet-values-file"
    };
    let options = UpgradeOptions {
        images: line.images("registry should not be empty")?,
        values_file: line.file(file),
        wait: line.flags.is_on("wait"),
        timeout: line.timeout(),
        mode: line.mode(),
    };
    let mut tell = |step: upgrade::UpgradeStep| match step {
        upgrade::UpgradeStep::Applied(it) if options.mode == Mode::DryRun => output::say(it),
        upgrade::UpgradeStep::CrdRegistered if options.wait => output::say("CRD successfully registered."),
        upgrade::UpgradeStep::OperatorAvailable => output::say("Registration operator is now available."),
        _ => Ok(()),
    };
    if is_hub {
        let hub = line.hub().await?;
        upgrade::check_cluster_manager(&hub).await?;
        output::say("clustermanager installed. starting upgrade")?;
        upgrade::cluster_manager(&hub, &options, &mut tell).await?;
    } else {
        let cluster = line.managed_cluster().await?;
        upgrade::check_klusterlet(&cluster).await?;
        // Upstream ends this line with a blank.
        output::print("Klusterlet installed. starting upgrade ")?;
        upgrade::klusterlet(&cluster, &options, &mut tell).await?;
    }
    output::say("upgraded completed successfully")
}

#[cfg(test)]
mod tests {
    use clusteradm::PROGRAM;
    use cobra::Find;

    use super::*;

    fn line(text: &str) -> Line<'static> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        match PROGRAM.find(&words) {
            Find::Run(_, parsed) => Line::new("clusteradm", parsed),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn images_are_those_of_clusteradms_releases() {
        let of = |text: &str| line(text).images("missing").map_err(|it| it.to_string());
        let upstream = |registry: &str, tag: &str| Images::Upstream {
            registry: registry.into(),
            tag: tag.into(),
        };
        assert_eq!(of("init"), Ok(upstream("quay.io/open-cluster-management", "v1.3.1")));
        assert_eq!(
            of("join --image-registry=local:5000/ocm --bundle-version latest"),
            Ok(upstream("local:5000/ocm", "latest"))
        );
        assert_eq!(of("init --image-registry="), Err("missing".to_owned()));
        assert_eq!(
            of("init --bundle-version 9.9"),
            Err("couldn't find the requested version bundle: 9.9".to_owned())
        );
    }

    #[test]
    fn a_domain_name_is_warned_of() {
        assert!(is_address("https://127.0.0.1:6443"));
        assert!(is_address("https://[::1]:6443/prefix"));
        assert!(!is_address("https://hub.example.com"));
    }

    #[test]
    fn what_drover_does_not_have_is_refused_by_its_flag() {
        let says = |text: &str| other_drivers(&line(text).flags).unwrap_err().to_string();
        assert!(says("join --registration-auth grpc").starts_with("--registration-auth grpc: "));
        assert!(says("join --hub-cluster-arn a").starts_with("--hub-cluster-arn: "));
        assert!(other_drivers(&line("join").flags).is_ok());
        assert!(refused(&line("init").flags).sentence().is_none());
        assert!(refused(&line("init --singleton").flags).sentence().is_some());
    }
}
