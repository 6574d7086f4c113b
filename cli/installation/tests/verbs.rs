//! The verbs of an installation on an API server in memory, where nobody runs pods: what they write, and what they
//! leave.

use std::time::Duration;

use anyhow::Result;
use client::connect::ApiServer;
use installation::{
    Mode,
    cluster::{
        self, JoinOptions,
        unjoin::{self, UnjoinOptions},
    },
    hub::{self, InitOptions, clean::CleanOptions},
    images::Images,
    token,
    upgrade::{self, UpgradeOptions},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    config::Kubeconfig,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use testkit::{Asked, Site};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn server(client: Client) -> ApiServer {
    ApiServer {
        client,
        server: "https://hub:6443".to_owned(),
        from: "memory".to_owned(),
        ca: Some(client::bootstrap::pem(&[1])),
        config: None,
    }
}

async fn site() -> (Site, ApiServer) {
    let site = Site::start().await.unwrap();
    let server = server(site.client());
    (site, server)
}

fn upstream(tag: &str) -> Images {
    Images::Upstream {
        registry: "r.io/ocm".to_owned(),
        tag: tag.to_owned(),
    }
}

fn join_options(mode: Mode) -> JoinOptions {
    JoinOptions {
        mode,
        ..JoinOptions::new("edge", Kubeconfig::default())
    }
}

fn unjoin_options(mode: Mode) -> UnjoinOptions {
    UnjoinOptions {
        cluster_name: "edge".to_owned(),
        namespace: "open-cluster-management-agent".to_owned(),
        force: false,
        purge_operator: true,
        mode,
        timeout: PATIENCE,
    }
}

fn clean_options(mode: Mode) -> CleanOptions {
    CleanOptions {
        name: hub::NAME.to_owned(),
        purge_operator: true,
        mode,
        timeout: PATIENCE,
    }
}

fn upgrade_options(images: Images, mode: Mode) -> UpgradeOptions {
    UpgradeOptions {
        images,
        values_file: None,
        wait: false,
        timeout: PATIENCE,
        mode,
    }
}

async fn init(server: &ApiServer, options: &InitOptions) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut tell = |step| {
        if let hub::InitStep::Applied(line) = step {
            lines.push(line.to_string());
        }
        Ok(())
    };
    hub::init(server, options, &mut tell).await?;
    Ok(lines)
}

async fn join(server: &ApiServer, options: &JoinOptions) -> Result<()> {
    let prepared = cluster::prepare(server, options).await?;
    cluster::join(server, options, &prepared, &mut |_| Ok(())).await
}

async fn clean(server: &ApiServer, mode: Mode) -> Result<Vec<String>> {
    let options = clean_options(mode);
    let found = hub::clean::look(server, &options).await?;
    let cleaned = hub::clean::clean(server, &options, found).await?;
    Ok(cleaned.lines.iter().map(ToString::to_string).collect())
}

async fn unjoin(server: &ApiServer, mode: Mode) -> Result<usize> {
    let options = unjoin_options(mode);
    let found = unjoin::look(server, &options).await?.expect("an agent");
    Ok(unjoin::unjoin(server, &options, &found).await?.len())
}

fn api(server: &ApiServer, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    server.all(&ApiResource::from_gvk_with_plural(&kind, plural))
}

fn cluster_managers(server: &ApiServer) -> Api<DynamicObject> {
    api(
        server,
        "operator.open-cluster-management.io",
        "v1",
        "ClusterManager",
        "clustermanagers",
    )
}

/// Everything on the server that has a name of Open Cluster Management's, or is its.
async fn ours(server: &ApiServer) -> Vec<String> {
    let mut found = Vec::new();
    for (group, version, kind, plural) in [
        ("", "v1", "Namespace", "namespaces"),
        ("", "v1", "Secret", "secrets"),
        ("", "v1", "ServiceAccount", "serviceaccounts"),
        ("", "v1", "ConfigMap", "configmaps"),
        ("apps", "v1", "Deployment", "deployments"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
        (
            "rbac.authorization.k8s.io",
            "v1",
            "ClusterRoleBinding",
            "clusterrolebindings",
        ),
        ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
        ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
        (
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        ),
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ),
    ] {
        let listed = api(server, group, version, kind, plural)
            .list(&ListParams::default())
            .await
            .unwrap();
        let names = listed.items.into_iter().map(|it| {
            let namespace = it.metadata.namespace.unwrap_or_default();
            format!("{kind} {namespace}/{}", it.metadata.name.unwrap_or_default())
        });
        let words = [
            "open-cluster-management",
            "cluster-manager",
            "klusterlet",
            "drover",
            "bootstrap-token",
            "cluster-info",
        ];
        found.extend(names.filter(|it| words.iter().any(|word| it.contains(word))));
    }
    found
}

#[tokio::test]
async fn a_dry_run_of_any_verb_writes_nothing() {
    let (site, writing) = site().await;
    let asked = Asked::default();
    let dry = server(asked.over(site.client()));
    let mode = Mode::DryRun;
    let init_options = InitOptions {
        mode,
        use_bootstrap_token: true,
        ..InitOptions::default()
    };
    // Before anything is there, and after.
    assert!(
        init(&dry, &init_options)
            .await
            .unwrap()
            .iter()
            .all(|it| it.ends_with("created (dry run)"))
    );
    join(&dry, &join_options(mode)).await.unwrap();
    init(&writing, &InitOptions::default()).await.unwrap();
    join(&writing, &join_options(Mode::Write)).await.unwrap();
    init(&dry, &init_options).await.unwrap();
    join(&dry, &join_options(mode)).await.unwrap();
    upgrade::cluster_manager(&dry, &upgrade_options(upstream("v1.3.1"), mode), &mut |_| Ok(()))
        .await
        .unwrap();
    upgrade::klusterlet(&dry, &upgrade_options(upstream("v1.3.1"), mode), &mut |_| Ok(()))
        .await
        .unwrap();
    token::delete(&dry, mode, PATIENCE).await.unwrap();
    assert!(unjoin(&dry, mode).await.unwrap() > 5);
    assert!(clean(&dry, mode).await.unwrap().len() > 10);

    let writes = |asked: &Asked| -> Vec<String> {
        let all = asked.heard().asked.into_iter();
        let writes = all.filter(|it| !matches!(it.verb.as_str(), "get" | "list" | "watch"));
        writes.map(|it| it.to_string()).collect()
    };
    assert_eq!(writes(&asked), [""; 0]);
    // The same, and not dry, is heard.
    join(&dry, &join_options(Mode::Write)).await.unwrap();
    assert!(!writes(&asked).is_empty());
    site.stop().await;
}

#[tokio::test]
async fn clean_and_unjoin_leave_nothing_behind() {
    let (site, server) = site().await;
    let before = ours(&server).await;
    let options = InitOptions {
        use_bootstrap_token: true,
        ..InitOptions::default()
    };
    init(&server, &InitOptions::default()).await.unwrap();
    init(&server, &options).await.unwrap();
    join(&server, &join_options(Mode::Write)).await.unwrap();
    let there = ours(&server).await;
    for wanted in [
        "Deployment open-cluster-management/cluster-manager",
        "Secret kube-system/bootstrap-token-ocmhub",
    ] {
        assert!(there.iter().any(|it| it == wanted), "{wanted} of {there:?}");
    }
    unjoin(&server, Mode::Write).await.unwrap();
    clean(&server, Mode::Write).await.unwrap();
    assert_eq!(ours(&server).await, before);
    let found = hub::clean::look(&server, &clean_options(Mode::Write)).await.unwrap();
    assert!(found.is_nothing());
    site.stop().await;
}

#[tokio::test]
async fn what_the_hub_needs_stays_when_its_cluster_leaves() {
    let (site, server) = site().await;
    init(&server, &InitOptions::default()).await.unwrap();
    let hub = ours(&server).await;
    join(&server, &join_options(Mode::Write)).await.unwrap();
    unjoin(&server, Mode::Write).await.unwrap();
    assert_eq!(ours(&server).await, hub);
    site.stop().await;
}

#[tokio::test]
async fn a_second_init_changes_nothing_and_keeps_the_token() {
    let (site, server) = site().await;
    let options = InitOptions {
        use_bootstrap_token: true,
        ..InitOptions::default()
    };
    init(&server, &options).await.unwrap();
    let token = token::of_bootstrap_secret(&server, None).await.unwrap().token;
    assert!(token.starts_with("ocmhub."), "{token}");
    let lines = init(&server, &options).await.unwrap();
    let changed: Vec<&String> = lines.iter().filter(|it| !it.ends_with(" unchanged")).collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert_eq!(token::of_bootstrap_secret(&server, None).await.unwrap().token, token);
    token::delete(&server, Mode::Write, PATIENCE).await.unwrap();
    assert!(token::of_bootstrap_secret(&server, None).await.is_err());
    site.stop().await;
}

#[tokio::test]
async fn an_upgrade_changes_images_and_nothing_else() {
    let (site, server) = site().await;
    let options = InitOptions {
        images: upstream("v1.2.1"),
        ..InitOptions::default()
    };
    init(&server, &options).await.unwrap();
    let managers = cluster_managers(&server);
    let edit = json!({"spec": {
        "nodePlacement": {"nodeSelector": {"a": "b"}},
        "placementConfiguration": {"featureGates": []},
        "registrationConfiguration": {"autoApproveUsers": ["mary"]},
    }});
    let edited = managers
        .patch(hub::NAME, &PatchParams::default(), &Patch::Merge(edit))
        .await
        .unwrap();
    upgrade::cluster_manager(&server, &upgrade_options(upstream("v1.3.1"), Mode::Write), &mut |_| {
        Ok(())
    })
    .await
    .unwrap();
    let upgraded = managers.get(hub::NAME).await.unwrap();
    let with_images = |spec: &Value, tag: &str| {
        let mut spec = spec.clone();
        for (field, name) in [
            ("registrationImagePullSpec", "registration"),
            ("workImagePullSpec", "work"),
            ("placementImagePullSpec", "placement"),
            ("addOnManagerImagePullSpec", "addon-manager"),
        ] {
            spec[field] = format!("r.io/ocm/{name}:{tag}").into();
        }
        spec
    };
    assert_eq!(upgraded.data["spec"], with_images(&edited.data["spec"], "v1.3.1"));
    // To our layout, and to what runs already.
    let ours = upgrade_options(Images::Drover(Some("drover:9".to_owned())), Mode::Write);
    for wanted in ["configured", "unchanged"] {
        let mut lines = Vec::new();
        let mut tell = |step| {
            if let upgrade::UpgradeStep::Applied(line) = step {
                lines.push(line.to_string());
            }
            Ok(())
        };
        upgrade::cluster_manager(&server, &ours, &mut tell).await.unwrap();
        let line = "clustermanager.operator.open-cluster-management.io/cluster-manager";
        assert_eq!(lines.last().unwrap(), &format!("{line} {wanted}"));
    }
    site.stop().await;
}

#[tokio::test]
async fn a_cluster_does_not_become_another_one_by_accident() {
    let (site, server) = site().await;
    join(&server, &join_options(Mode::Write)).await.unwrap();
    let mut other = join_options(Mode::Write);
    other.cluster_name = "other".to_owned();
    let error = join(&server, &other).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the cluster is edge already: `drover unjoin --cluster-name edge` first"),
        "{error}"
    );
    other.force = true;
    join(&server, &other).await.unwrap();
    let mut unjoin = unjoin_options(Mode::Write);
    let error = unjoin::look(&server, &unjoin).await.err().map(|it| it.to_string());
    assert_eq!(error.as_deref(), Some("this cluster is other and not edge"));
    unjoin.cluster_name = "other".to_owned();
    assert!(unjoin::look(&server, &unjoin).await.unwrap().is_some());
    site.stop().await;
}
