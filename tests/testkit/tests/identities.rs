//! What each identity may do on a hub, asked of an API server: every verb on every kind, in its own namespace and in
//! those of others. What is wanted is read out of the roles ([`hub::identities`]),
//! so that a right which is not written there is found.
//!
//! `ATTACK_FULL=1` asks in more places. `DROVER_TEST_HUB` names the kubeconfig of another API server,
//! such as that of a real Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use addon_helloworld::HelloWorld;
use credential::{KubeconfigSource, csr};
use futures::{StreamExt, stream};
use hub::{bootstrap, identities};
use kube::{Api, Client, api::PostParams, discovery::Discovery};
use ocm_addon_sdk::{
    AddOn, AddOnContext, Permission,
    permission::{Grant, Scope},
};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::ManagedCluster,
    identity,
};
use ocm_reconcile::{
    access::{self, Attributes, UserInfo},
    install,
};
use registration::hub::HubOptions;
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{Ground, objects, wait};
use tokio_util::sync::CancellationToken;

const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
/// Rights that are no verbs on what a server lists.
const OTHERS: [(&str, &str, &str); 12] = [
    ("", "users", "impersonate"),
    ("", "groups", "impersonate"),
    ("", "serviceaccounts", "impersonate"),
    ("", "serviceaccounts/token", "create"),
    ("certificates.k8s.io", "signers", "approve"),
    ("certificates.k8s.io", "signers", "sign"),
    ("cluster.open-cluster-management.io", "managedclusters/accept", "update"),
    (
        "cluster.open-cluster-management.io",
        "managedclustersets/bind",
        "create",
    ),
    (
        "cluster.open-cluster-management.io",
        "managedclustersets/join",
        "create",
    ),
    ("rbac.authorization.k8s.io", "clusterroles", "escalate"),
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),
    (
        "register.open-cluster-management.io",
        "managedclusters/clientcertificates",
        "renew",
    ),
];
/// How many questions are under way at once.
const AT_ONCE: usize = 16;

/// Every right there is: of each verb on each kind that the server serves, in each place.
/// With the path of each kind's version.
async fn rights(hub: &Client) -> (BTreeSet<Attributes>, Paths) {
    let discovery = Discovery::new(hub.clone()).run().await.unwrap();
    let mut kinds = BTreeSet::new();
    let mut paths = Paths::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let is_namespaced = capabilities.scope == kube::discovery::Scope::Namespaced;
            let root = if resource.group.is_empty() { "/api" } else { "/apis" };
            let key = (resource.group.clone(), resource.plural.clone());
            paths.insert(key, format!("{root}/{}", resource.api_version));
            kinds.insert((resource.group.clone(), resource.plural.clone(), is_namespaced));
            for (sub, _) in &capabilities.subresources {
                let sub = sub.plural.rsplit('/').next().unwrap_or_default();
                let path = format!("{}/{sub}", resource.plural);
                kinds.insert((resource.group.clone(), path, is_namespaced));
            }
        }
    }
    let mut asked: Vec<_> = kinds
        .into_iter()
        .flat_map(|(group, resource, is_namespaced)| {
            VERBS.map(|verb| (group.clone(), resource.clone(), verb, is_namespaced))
        })
        .collect();
    for (group, resource, verb) in OTHERS {
        for is_namespaced in [false, true] {
            asked.push((group.to_owned(), resource.to_owned(), verb, is_namespaced));
        }
    }
    let is_full = std::env::var_os("ATTACK_FULL").is_some();
    let mut rights = BTreeSet::new();
    for (group, resource, verb, is_namespaced) in asked {
        let (plural, sub) = resource
            .split_once('/')
            .map_or((resource.as_str(), None), |(a, b)| (a, Some(b.to_owned())));
        let places: &[(Option<&str>, &str)] = match is_namespaced {
            true => &[
                (Some("cluster1"), "cluster1"),
                (Some("cluster10"), "cluster10"),
                (Some("kube-public"), "cluster-info"),
                (Some("kube-system"), "other"),
                (Some("open-cluster-management-hub"), "other"),
                (Some("cluster1"), "helloworld-agent"),
            ],
            false => &[(None, "cluster1"), (None, "cluster10"), (None, "other")],
        };
        let few = if is_namespaced { 3 } else { 2 };
        let places = if is_full { places } else { &places[..few] };
        for (namespace, name) in places {
            rights.insert(Attributes {
                verb: verb.to_owned(),
                group: group.clone(),
                resource: plural.to_owned(),
                subresource: sub.clone(),
                namespace: namespace.map(str::to_owned),
                name: Some((*name).to_owned()),
            });
        }
    }
    (rights, paths)
}

/// Where the kinds of a group and plural are served.
type Paths = BTreeMap<(String, String), String>;

/// The request that needs a right, so made that it changes nothing; nothing where no request needs it.
fn request(right: &Attributes, paths: &Paths) -> Option<http::Request<Vec<u8>>> {
    let root = paths.get(&(right.group.clone(), right.resource.clone()))?;
    let place = right
        .namespace
        .as_ref()
        .map(|it| format!("/namespaces/{it}"))
        .unwrap_or_default();
    let (all, name) = (format!("{root}{place}/{}", right.resource), right.name.as_deref()?);
    let only = format!("fieldSelector=metadata.name%3D{name}");
    let one = match &right.subresource {
        None => format!("{all}/{name}"),
        Some(sub) => format!("{all}/{name}/{sub}"),
    };
    let is_sub = right.subresource.is_some();
    let (method, path) = match right.verb.as_str() {
        "get" => ("GET", one),
        "update" => ("PUT", format!("{one}?dryRun=All")),
        "patch" => ("PATCH", format!("{one}?dryRun=All")),
        "create" if is_sub => ("POST", format!("{one}?dryRun=All")),
        _ if is_sub => return None,
        // It would go on and on if it began.
        "watch" => ("GET", format!("{all}?watch=true&resourceVersion=none&{only}")),
        "list" => ("GET", format!("{all}?{only}")),
        "create" => ("POST", format!("{all}?dryRun=All")),
        "delete" => ("DELETE", format!("{one}?dryRun=All")),
        "deletecollection" => ("DELETE", format!("{all}?dryRun=All&{only}")),
        _ => return None,
    };
    // What is wrong with it is looked at after the right.
    let body = if method == "GET" { Vec::new() } else { b"{}".to_vec() };
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder().method(method).uri(path);
    Some(request.header(http::header::CONTENT_TYPE, kind).body(body).unwrap())
}

/// Whether RBAC kept somebody from it; who has the right may be kept from it by other rules.
async fn is_kept(client: &Client, request: http::Request<Vec<u8>>) -> bool {
    let mut tries = 0;
    loop {
        match client.request_text(request.clone()).await {
            Err(kube::Error::Api(status)) => return status.code == 403 && status.message.contains(" cannot "),
            Ok(_) => return false,
            // kube-apiserver ends the connection of whoever has no credential with each answer,
            // and none of these requests changes anything.
            Err(_) if tries < 3 => tries += 1,
            Err(error) => panic!("no answer to {} {}: {error:?}", request.method(), request.uri()),
        }
    }
}

/// What of these requests is not answered as RBAC says.
async fn tried(
    client: &Client,
    rights: &BTreeSet<Attributes>,
    paths: &Paths,
    at_once: usize,
    may: impl Fn(&Attributes) -> bool,
) -> Vec<String> {
    let asked: Vec<_> = rights
        .iter()
        .filter_map(|right| {
            let mut right = right.clone();
            let request = request(&right, paths)?;
            if right.verb == "create" && right.subresource.is_none() {
                // The server does not look for the name in what is to be made.
                right.name = None;
            }
            let wanted = may(&right);
            Some((right, request, wanted))
        })
        .collect();
    let wrong: Vec<_> = stream::iter(asked)
        .map(async |(right, request, may)| (is_kept(client, request).await == may).then_some(right))
        .buffer_unordered(at_once)
        .filter_map(async |it| it)
        .collect()
        .await;
    printed(wrong.iter().collect())
}

async fn allowed(hub: &Client, who: &UserInfo, rights: &BTreeSet<Attributes>) -> BTreeSet<Attributes> {
    stream::iter(rights)
        .map(async |it| access::may(hub, who, it).await.unwrap().then(|| it.clone()))
        .buffer_unordered(AT_ONCE)
        .filter_map(async |it| it)
        .collect()
        .await
}

fn subject(user: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        user: user.to_owned(),
        groups: groups.iter().map(|it| (*it).to_owned()).collect(),
        ..UserInfo::default()
    }
}

/// A ServiceAccount, as an API server names it.
fn account(user: &str) -> UserInfo {
    let namespace = user.split(':').nth(2).expect("a ServiceAccount has a namespace");
    let own = format!("system:serviceaccounts:{namespace}");
    subject(user, &["system:authenticated", "system:serviceaccounts", &own])
}

fn agent_of(cluster: &str) -> UserInfo {
    let asked = csr::CertificateSubject::agent(cluster, "a1b2c");
    let mut agent = subject(&asked.common_name, &["system:authenticated"]);
    agent.groups.extend(asked.organizations);
    agent
}

fn printed(all: BTreeSet<&Attributes>) -> Vec<String> {
    let line = |it: &&Attributes| {
        let sub = it.subresource.as_ref().map(|it| format!("/{it}")).unwrap_or_default();
        let place = it.namespace.as_deref().unwrap_or("-");
        let name = it.name.as_deref().unwrap_or_default();
        format!("{} {}{sub}.{} in {place}, {name}", it.verb, it.resource, it.group)
    };
    all.iter().map(line).collect()
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_identity_may_do_exactly_what_its_roles_allow() {
    let ground = Ground::hub().await;
    let client = ground.client();
    let stop = CancellationToken::new();
    let options = hub::Options {
        registration: HubOptions::default(),
        addons: vec![Arc::new(HelloWorld {
            image: "example.com/helloworld".to_owned(),
        })],
        ..hub::Options::default()
    };
    hub::start(ground.client_of_hub().await, options, stop.clone())
        .await
        .unwrap();
    install::install(&client, &bootstrap::objects()).await.unwrap();
    install::install(&client, &bootstrap::cluster_info("none"))
        .await
        .unwrap();

    // cluster1 and cluster10 are accepted, cluster2 waits to be.
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    for (name, accepts) in [("cluster1", true), ("cluster10", true), ("cluster2", false)] {
        let cluster = json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": accepts}});
        create(clusters.clone(), cluster).await;
        if accepts {
            wait::until(&clusters, name, "accepted", |it| {
                it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
            })
            .await;
        }
    }
    create(
        Api::<ClusterManagementAddOn>::all(client.clone()),
        json!({"metadata": {"name": "helloworld"}, "spec": {}}),
    )
    .await;
    let add_ons: Api<ManagedClusterAddOn> = Api::namespaced(client.clone(), "cluster1");
    create(add_ons.clone(), json!({"metadata": {"name": "helloworld"}, "spec": {}})).await;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(client.clone(), "cluster1");
    let of_add_on = "open-cluster-management:helloworld:agent";
    wait::until(&bindings, of_add_on, "made", |it| it.is_some()).await;
    let add_on = HelloWorld { image: String::new() };
    let permissions = add_on
        .hub_permissions(&AddOnContext::new("cluster1", "helloworld"))
        .unwrap();

    let (rights, paths) = rights(&client).await;
    let stranger = subject("stranger", &["system:authenticated"]);
    let everybodys = allowed(&client, &stranger, &rights).await;
    let nobodys = BTreeSet::new();

    let mut table: Vec<(UserInfo, identities::HubIdentity)> = Vec::new();
    let of = |cluster: &str| identities::all(cluster);
    let [nobody, joiner, _, agent, itself] = of("cluster1").try_into().expect("there are five");
    table.push((subject("system:anonymous", &["system:unauthenticated"]), nobody));
    table.push((account(&bootstrap::user()), joiner.clone()));
    let groups = [
        "system:authenticated",
        "system:bootstrappers",
        "system:bootstrappers:managedcluster",
    ];
    table.push((subject("system:bootstrap:abcdef", &groups), joiner));
    table.push((agent_of("cluster1"), agent));
    table.push((agent_of("cluster2"), of("cluster2").swap_remove(2)));
    // Nobody has ever heard of it.
    table.push((agent_of("cluster3"), nothing()));
    let hub_user = format!(
        "system:serviceaccount:{}:{}",
        ocm_api::namespaces::HUB,
        hub::rbac::SERVICE_ACCOUNT
    );
    table.push((account(&hub_user), itself));
    // By its certificate, which has a group of its cluster and one of all clusters.
    let mut add_on = subject(
        &identity::addon_user("cluster1", "helloworld", "a1b2c"),
        &["system:authenticated"],
    );
    add_on
        .groups
        .push(identity::addon_cluster_group("cluster1", "helloworld"));
    add_on.groups.push(identity::addon_group("helloworld"));
    let granted = identities::HubIdentity {
        who: "an add-on".to_owned(),
        known_by: "",
        granted: permissions.into_iter().flat_map(in_cluster1).collect(),
    };
    table.push((add_on, granted));
    // It has not chosen tokens, so nobody may be it.
    table.push((
        account(&identity::addon_service_account("cluster1", "helloworld")),
        nothing(),
    ));
    table.push((account("system:serviceaccount:cluster1:default"), nothing()));
    // The same add-on on another cluster, where it is not.
    let mut elsewhere = subject(
        &identity::addon_user("cluster10", "helloworld", "a1b2c"),
        &["system:authenticated"],
    );
    elsewhere
        .groups
        .push(identity::addon_cluster_group("cluster10", "helloworld"));
    table.push((elsewhere, nothing()));

    let mut wrong = Vec::new();
    for (who, identity) in &table {
        let common = match who.groups.iter().any(|it| it == "system:authenticated") {
            true => &everybodys,
            false => &nobodys,
        };
        let found = allowed(&client, who, &rights).await;
        let wanted: BTreeSet<_> = rights
            .iter()
            .filter(|it| identity.may(it) || common.contains(it))
            .collect();
        let found: BTreeSet<_> = found.iter().collect();
        let more = printed(found.difference(&wanted).copied().collect());
        let less = printed(wanted.difference(&found).copied().collect());
        if !more.is_empty() || !less.is_empty() {
            wrong.push(format!(
                "{}: may beyond its roles {more:#?}, and lacks {less:#?}",
                who.user
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // The same with real requests, of those who come with a certificate, and of whoever comes with none.
    for (who, identity) in &table {
        let groups: Vec<_> = who.groups.iter().map(String::as_str).collect();
        let is_nobody = who.user == "system:anonymous";
        if who.user.starts_with("system:serviceaccount:") {
            continue;
        }
        let kubeconfig = ground.kubeconfig(&who.user, &groups).await;
        let mut config = KubeconfigSource::Inline(kubeconfig).read().await.unwrap().config;
        if is_nobody {
            config.auth_info = kube::config::AuthInfo::default();
        }
        let sender = credential::connection::client(&config).unwrap();
        // What is to be made has no name yet.
        let nameless = |it: &Attributes| Attributes {
            name: None,
            ..it.clone()
        };
        let of_all: BTreeSet<_> = everybodys.iter().flat_map(|it| [it.clone(), nameless(it)]).collect();
        let may = |it: &Attributes| identity.may(it) || (!is_nobody && of_all.contains(it));
        let wrong = tried(&sender, &rights, &paths, if is_nobody { 1 } else { AT_ONCE }, may).await;
        assert!(
            wrong.is_empty(),
            "{} is not answered as its roles say: {wrong:#?}",
            who.user
        );
    }
    let administrator = subject("admin", &["system:masters", "system:authenticated"]);
    assert_eq!(allowed(&client, &administrator, &rights).await.len(), rights.len());
    println!("{} identities, {} rights each", table.len() + 2, rights.len());
    stop.cancel();
}

fn nothing() -> identities::HubIdentity {
    identities::HubIdentity {
        who: String::new(),
        known_by: "",
        granted: Vec::new(),
    }
}

/// What a permission of an add-on says, which holds in its cluster's namespace.
fn in_cluster1(permission: Permission) -> Vec<identities::Granted> {
    assert_eq!(permission.scope, Scope::Cluster);
    let Grant::Rules { rules, .. } = permission.grant else {
        panic!("it brings rules of its own");
    };
    let namespace = Some("cluster1".to_owned());
    rules
        .into_iter()
        .map(|rule| identities::Granted {
            namespace: namespace.clone(),
            rule,
        })
        .collect()
}
