//! An agent through its life, as plans on a world of objects in memory: each is carried out, and the next one is made
//! of what is there then.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::config::Cluster;
use ocm_api::{operator::Klusterlet, work::AppliedManifestWork};
use ocm_reconcile::{Plan, Site, Step, difference};
use serde_json::{Value, json};

use super::{
    former, install,
    klusterlets::Seen,
    names,
    remains::{Leaving, Managed, ManagedSeen},
    removal,
    scene::{ExternalCluster, Finding, Scene},
    settings::{self, AgentSettings, Ground, NetworkPolicies},
    tokens::{self, Fate, Issued},
    wanted::{self, HubCredential},
};
use crate::{
    Layout,
    objects::{self, Current, WantedObject},
};

const NAMESPACE: &str = "open-cluster-management-agent";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn klusterlet(spec: &Value) -> Klusterlet {
    let mut whole = json!({
        "registrationImagePullSpec": "registration:1", "workImagePullSpec": "work:1", "imagePullSpec": "operator:1",
        "clusterName": "cluster1",
    });
    difference::apply_merge_patch(&mut whole, spec);
    let metadata = json!({"name": "k", "uid": "k-uid", "resourceVersion": "1", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap()
}

fn settings_of(spec: &Value, layout: Layout) -> AgentSettings {
    let ground = Ground {
        layout,
        operator_namespace: "open-cluster-management".to_owned(),
        told_replicas: 0,
        control_plane_nodes: Some(1),
        has_addon_namespace: true,
        syncs_labels: false,
        tls: None,
    };
    settings::settings(&klusterlet(spec), &ground)
}

/// All objects of a cluster, and whether its agent has a credential.
#[derive(Clone, Default)]
struct World {
    objects: BTreeMap<String, WantedObject>,
    joined: bool,
    former_namespaces: Vec<String>,
    generations: Vec<ocm_api::operator::GenerationStatus>,
    pull_secret: Option<Value>,
}

impl World {
    fn current(&self) -> Current {
        // The managed cluster and that of the pods are one and the same.
        let at = |site| {
            let all = self.objects.values().cloned();
            all.map(move |mut it| {
                it.target.site = site;
                it
            })
        };
        Current::holding(at(Site::Cluster).chain(at(Site::Management)))
    }

    fn put(&mut self, kind: &str, namespace: Option<&str>, name: &str, rest: Value) {
        let target = objects::target(Site::Management, kind, namespace, name);
        let mut manifest = json!({"kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": "u"}});
        difference::apply_merge_patch(&mut manifest, &rest);
        self.objects
            .insert(target.to_string(), WantedObject { target, manifest });
    }

    fn has(&self, text: &str) -> bool {
        self.objects.contains_key(text)
    }

    fn manifest(&self, text: &str) -> &Value {
        &self.objects[text].manifest
    }

    fn scene(&self, spec: &Value, layout: Layout) -> Scene {
        Scene {
            settings: settings_of(spec, layout),
            current: self.current(),
            pull_secret: self.pull_secret.clone(),
            hub: HubCredential {
                has_kubeconfig: self.joined,
                cluster_name: None,
            },
            former_namespaces: self.former_namespaces.clone(),
            has_other_former_agents: false,
            external: None,
            issued: Vec::new(),
        }
    }

    /// The next plan of an agent that is to be so.
    fn plan(&self, spec: &Value, layout: Layout) -> Plan {
        let mut klusterlet = klusterlet(spec);
        klusterlet.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        klusterlet.status.get_or_insert_default().generations = self.generations.clone();
        let scene = self.scene(spec, layout);
        let seen = Seen {
            now: now(),
            layout,
            klusterlet: None,
            found: Finding::Nothing,
            reached: None,
        };
        install::plan(&klusterlet, &scene, &seen)
    }

    /// Carries it out.
    fn carry_out(&mut self, plan: &Plan) {
        for step in plan.stages.iter().flatten() {
            let Some(target) = step.target().cloned() else { continue };
            let name = target.to_string();
            let before = self.objects.get(&name).map(|it| it.manifest.clone());
            let mut manifest = match step {
                Step::Create { object, .. } | Step::Replace { object, .. } => object.clone(),
                Step::MergePatch { patch, .. } => {
                    let mut object = before
                        .clone()
                        .unwrap_or_else(|| panic!("{name} is patched and not there"));
                    difference::apply_merge_patch(&mut object, patch);
                    object
                }
                Step::Delete { .. } => {
                    self.objects.remove(&name);
                    continue;
                }
                other => panic!("{other}"),
            };
            let generation = before.map_or(0, |it| it["metadata"]["generation"].as_i64().unwrap_or_default()) + 1;
            manifest["metadata"]["generation"] = generation.into();
            manifest["metadata"]["uid"] = format!("{name}-uid").into();
            if target.api_resource.kind == "Deployment" {
                self.generations.retain(|it| it.name != target.name);
                let meta = objects::meta(&target);
                self.generations.push(ocm_api::operator::GenerationStatus {
                    group: meta.group,
                    version: meta.version,
                    resource: meta.resource,
                    namespace: meta.namespace,
                    name: meta.name,
                    last_generation: generation,
                });
            }
            self.objects.insert(name, WantedObject { target, manifest });
        }
    }

    /// Carries out plans until nothing is left to do.
    fn settle(&mut self, spec: &Value, layout: Layout) {
        for _ in 0..5 {
            let plan = self.plan(spec, layout);
            if plan.is_empty() {
                return;
            }
            self.carry_out(&plan);
        }
        panic!("it does not settle: {}", self.plan(spec, layout));
    }

    /// All pods run.
    fn make_ready(&mut self) {
        for object in self
            .objects
            .values_mut()
            .filter(|it| it.target.api_resource.kind == "Deployment")
        {
            let replicas = object.manifest["spec"]["replicas"].clone();
            let generation = object.manifest["metadata"]["generation"].clone();
            object.manifest["status"] = json!({
                "observedGeneration": generation, "updatedReplicas": replicas, "availableReplicas": replicas,
            });
        }
    }

    fn deployments(&self) -> Vec<&str> {
        let all = self
            .objects
            .values()
            .filter(|it| it.target.api_resource.kind == "Deployment");
        all.map(|it| it.target.name.as_str()).collect()
    }
}

const LAYOUTS: [Layout; 2] = [Layout::Upstream, Layout::Compact];

#[test]
fn what_is_in_place_is_left_alone() {
    for layout in LAYOUTS {
        for mode in ["", "Default", "Singleton"] {
            let spec = json!({"deployOption": {"mode": mode}});
            let mut world = World::default();
            world.settle(&spec, layout);
            world.make_ready();
            assert!(world.plan(&spec, layout).is_empty());
        }
    }
}

#[test]
fn a_default_agent_is_two_deployments_and_waits_to_join() {
    let mut world = World::default();
    world.settle(&json!({}), Layout::Upstream);
    assert_eq!(world.deployments(), ["k-registration-agent", "k-work-agent"]);
    let work = format!("Deployment {NAMESPACE}/k-work-agent");
    assert_eq!(world.manifest(&work)["spec"]["replicas"], 0);
    world.joined = true;
    world.settle(&json!({}), Layout::Upstream);
    assert_eq!(world.manifest(&work)["spec"]["replicas"], 1);
}

#[test]
fn a_compact_agent_is_one_deployment_in_every_mode() {
    for mode in ["Default", "Singleton"] {
        let mut world = World::default();
        world.settle(&json!({"deployOption": {"mode": mode}}), Layout::Compact);
        assert_eq!(world.deployments(), ["k-agent"]);
    }
}

#[test]
fn another_mode_keeps_former_pods_until_new_are_ready() {
    let (two, one) = (json!({}), json!({"deployOption": {"mode": "Singleton"}}));
    for (from, to, expected) in [
        (&two, &one, vec!["k-agent"]),
        (&one, &two, vec!["k-registration-agent", "k-work-agent"]),
    ] {
        let mut world = World {
            joined: true,
            ..World::default()
        };
        world.settle(from, Layout::Upstream);
        world.make_ready();
        world.settle(to, Layout::Upstream);
        assert_eq!(world.deployments().len(), 3, "both run");
        let binding = world.manifest("ClusterRoleBinding open-cluster-management:k-registration:agent");
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 2, "and both may");
        world.make_ready();
        world.settle(to, Layout::Upstream);
        assert_eq!(world.deployments(), expected);
        let binding = world.manifest("ClusterRoleBinding open-cluster-management:k-registration:agent");
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_namespace_that_is_left_takes_its_credential_along() {
    let mut world = World::default();
    world.settle(&json!({}), Layout::Compact);
    world.make_ready();
    let secret = json!({"apiVersion": "v1", "data": {"kubeconfig": "YQ=="}});
    world.put("Secret", Some(NAMESPACE), "hub-kubeconfig-secret", secret);
    world.former_namespaces = vec![NAMESPACE.to_owned()];
    let moved = json!({"namespace": "open-cluster-management-other"});
    world.settle(&moved, Layout::Compact);
    let copy = world.manifest("Secret open-cluster-management-other/hub-kubeconfig-secret");
    assert_eq!(copy["data"]["kubeconfig"], "YQ==");
    assert!(world.has(&format!("Namespace {NAMESPACE}")), "its pods still run");
    world.make_ready();
    let plan = world.plan(&moved, Layout::Compact).to_string();
    assert!(plan.contains(&format!("delete Namespace {NAMESPACE}")), "{plan}");
}

#[test]
fn our_former_agent_goes_when_the_new_is_ready() {
    let mut world = World::default();
    let role = "open-cluster-management:drover-agent";
    world.put("Deployment", Some(NAMESPACE), "drover-agent", json!({}));
    world.put("ServiceAccount", Some(NAMESPACE), "drover-agent", json!({}));
    world.put("Secret", Some(NAMESPACE), "hub-kubeconfig-secret", json!({}));
    for end in ["", ":works", ":administrator"] {
        world.put("ClusterRoleBinding", None, &format!("{role}{end}"), json!({}));
    }
    for end in ["", ":works", ":execution"] {
        world.put("ClusterRole", None, &format!("{role}{end}"), json!({}));
    }
    world.settle(&json!({}), Layout::Compact);
    assert!(world.deployments().contains(&"drover-agent"));
    world.make_ready();
    world.settle(&json!({}), Layout::Compact);
    assert_eq!(world.deployments(), ["k-agent"]);
    let left: Vec<_> = world.objects.keys().filter(|it| it.contains("drover-agent")).collect();
    assert_eq!(left, [&format!("ClusterRoleBinding {role}:administrator")]);
    let chosen = world.manifest(left[0]);
    assert_eq!(
        chosen["subjects"][0]["name"], "k-work-sa",
        "works may contain what they might before"
    );
    assert!(world.has(&format!("Secret {NAMESPACE}/hub-kubeconfig-secret")));
}

#[test]
fn roles_that_another_former_agent_has_stay() {
    let mut world = World::default();
    world.put("ServiceAccount", Some(NAMESPACE), "drover-agent", json!({}));
    world.put("ClusterRole", None, "open-cluster-management:drover-agent", json!({}));
    let mut plan = Plan::new();
    let settings = settings_of(&json!({}), Layout::Compact);
    former::remove(&mut plan, &settings, &world.current(), true);
    let page = format!("management: delete ServiceAccount {NAMESPACE}/drover-agent\n");
    assert_eq!(plan.to_string(), page);
    assert!(former::is_of_another(
        &settings,
        "open-cluster-management:drover-agent:works:other"
    ));
    assert!(!former::is_of_another(
        &settings,
        "open-cluster-management:drover-agent:works"
    ));
}

#[test]
fn the_pull_secret_is_copied_and_goes_with_its_source() {
    let name = "open-cluster-management-image-pull-credentials";
    let copies = [NAMESPACE, "open-cluster-management-agent-addon"].map(|it| format!("Secret {it}/{name}"));
    let mut world = World {
        pull_secret: Some(json!({"type": "t", "data": {"a": "YQ=="}})),
        ..World::default()
    };
    world.settle(&json!({}), Layout::Upstream);
    assert!(copies.iter().all(|it| world.manifest(it)["data"]["a"] == "YQ=="));
    world.pull_secret = None;
    world.settle(&json!({}), Layout::Upstream);
    assert!(!copies.iter().any(|it| world.has(it)));
    // Whoever has put one there has it still.
    world.put("Secret", Some(NAMESPACE), name, json!({}));
    world.settle(&json!({}), Layout::Upstream);
    assert!(world.has(&copies[0]));
}

#[test]
fn nothing_is_made_in_a_namespace_that_is_being_deleted() {
    let mut world = World::default();
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    world.put("Namespace", None, NAMESPACE, going);
    let plan = world.plan(&json!({}), Layout::Upstream);
    assert!(
        plan.is_empty() && plan.to_string().contains("is being deleted"),
        "{plan}"
    );
}

#[test]
fn two_agents_do_not_fight_over_a_shared_namespace() {
    let mut world = World::default();
    let of_other = json!({"metadata": {"labels": {names::CREATED_BY: "other"}}});
    world.put("Namespace", None, "open-cluster-management-agent-addon", of_other);
    world.settle(&json!({}), Layout::Upstream);
    let labels = &world.manifest("Namespace open-cluster-management-agent-addon")["metadata"]["labels"];
    assert_eq!(labels[names::CREATED_BY], "other");
}

#[test]
fn network_policies_come_and_go_with_their_gate() {
    let on = json!({"registrationConfiguration": {"featureGates": [{"feature": "NetworkPolicies", "mode": "Enable"}]}});
    let mut world = World::default();
    let policies = |world: &World| {
        world
            .objects
            .keys()
            .filter(|it| it.starts_with("NetworkPolicy"))
            .count()
    };
    world.settle(&on, Layout::Upstream);
    assert_eq!(policies(&world), 4);
    let mut scene = world.scene(&json!({}), Layout::Upstream);
    assert_eq!(
        scene.settings.network_policies,
        NetworkPolicies::None,
        "nobody may read them unless we have made some"
    );
    scene.settings.network_policies = NetworkPolicies::Going;
    let stages = wanted::stages(&scene.settings, None, &scene.current);
    let plan = objects::plan(&stages, &scene.current, &[]);
    assert_eq!(plan.to_string().matches("delete NetworkPolicy").count(), 4);
}

#[test]
fn an_unnamed_agent_starts_its_work_when_named() {
    let unnamed = json!({"clusterName": null});
    let (klusterlet, settings) = (klusterlet(&unnamed), settings_of(&unnamed, Layout::Upstream));
    let deployments = |name: Option<&str>| {
        let hub = HubCredential {
            has_kubeconfig: true,
            cluster_name: name.map(str::to_owned),
        };
        wanted::deployments(&settings, &klusterlet, &hub)
    };
    assert_eq!(deployments(None).len(), 1);
    let work = &deployments(Some("found"))[1].manifest["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(work.as_array().unwrap().contains(&"--spoke-cluster-name=found".into()));
}

#[test]
fn related_resources_name_upstreams_deployments_in_both_layouts() {
    let names = |layout| -> Vec<String> {
        let related = wanted::related(&settings_of(&json!({}), layout), layout);
        related
            .into_iter()
            .filter(|it| it.resource == "deployments")
            .map(|it| it.name)
            .collect()
    };
    assert_eq!(names(Layout::Upstream), ["k-registration-agent", "k-work-agent"]);
    assert_eq!(
        names(Layout::Compact),
        ["k-agent", "k-registration-agent", "k-work-agent"]
    );
    let all = wanted::related(&settings_of(&json!({}), Layout::Upstream), Layout::Upstream);
    assert_eq!(all.len(), 24, "as many as upstream's operator names");
}

fn managed_cluster() -> Cluster {
    Cluster {
        server: Some("https://managed:6443".to_owned()),
        certificate_authority_data: Some("Q0E=".to_owned()),
        ..Cluster::default()
    }
}

#[test]
fn a_hosted_kubeconfig_is_renewed_when_it_has_to_be() {
    let settings = settings_of(&json!({"deployOption": {"mode": "Hosted"}}), Layout::Upstream);
    let account = json!({"metadata": {"uid": "a"}});
    let target = tokens::account(&settings, "k-work-sa");
    let current = Current::holding([WantedObject {
        target,
        manifest: account.clone(),
    }]);
    let issued = Issued {
        secret: names::EXTERNAL_WORK.to_owned(),
        // {"iat": 1767225600, "exp": 1767229200}: an hour from the first second of the year.
        token: "x.eyJpYXQiOjE3NjcyMjU2MDAsImV4cCI6MTc2NzIyOTIwMH0.x".to_owned(),
        expiration: "2026-01-01T01:00:00Z".to_owned(),
    };
    let secret = tokens::renewed(&settings, &issued, "k-work-sa", &managed_cluster(), &current).manifest;
    let fate =
        |secret, account, cluster: &Cluster, at: &str| tokens::fate(secret, account, cluster, at.parse().unwrap());
    let cluster = managed_cluster();
    let good = Fate::Good(Some("2026-01-01T00:48:00Z".parse().unwrap()));
    assert_eq!(
        fate(Some(&secret), Some(&account), &cluster, "2026-01-01T00:00:00Z"),
        good
    );
    let renewed = |it| matches!(it, Fate::Renew(_));
    assert!(renewed(fate(
        Some(&secret),
        Some(&account),
        &cluster,
        "2026-01-01T00:48:00Z"
    )));
    assert!(renewed(fate(None, Some(&account), &cluster, "2026-01-01T00:00:00Z")));
    let another = json!({"metadata": {"uid": "b"}});
    assert!(renewed(fate(
        Some(&secret),
        Some(&another),
        &cluster,
        "2026-01-01T00:00:00Z"
    )));
    let elsewhere = Cluster {
        server: Some("https://elsewhere".to_owned()),
        ..managed_cluster()
    };
    assert!(renewed(fate(
        Some(&secret),
        Some(&account),
        &elsewhere,
        "2026-01-01T00:00:00Z"
    )));
}

// Taking away.

fn leaving(world: &World, managed: Managed, annotation: Option<&str>) -> Leaving {
    let mut klusterlet = klusterlet(&json!({}));
    klusterlet.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
    klusterlet.metadata.annotations =
        annotation.map(|it| BTreeMap::from([(names::EVICTION_TIMESTAMP.to_owned(), it.to_owned())]));
    Leaving {
        klusterlet: Arc::new(klusterlet),
        settings: settings_of(&json!({}), Layout::Upstream),
        current: world.current(),
        managed,
    }
}

fn seen(world: &World, namespaces: &[(&str, &str)]) -> Managed {
    let work = json!({
        "metadata": {"name": "w", "finalizers": ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]},
        "spec": {"agentID": "k-uid"},
    });
    let work: AppliedManifestWork = serde_json::from_value(work).unwrap();
    Managed::Seen(Box::new(ManagedSeen {
        current: world.current(),
        works: vec![work],
        namespaces: namespaces
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
        reached: None,
    }))
}

#[test]
fn pods_end_before_anything_else_is_taken_away() {
    let mut world = World::default();
    world.settle(&json!({}), Layout::Upstream);
    let plan = removal::plan(&leaving(&world, seen(&world, &[]), None), now());
    assert_eq!(
        plan.to_string().lines().take(2).collect::<Vec<_>>(),
        [
            format!("management: delete Deployment {NAMESPACE}/k-registration-agent foreground"),
            format!("management: delete Deployment {NAMESPACE}/k-work-agent foreground"),
        ]
    );
    assert_eq!(plan.len(), 2);
}

#[test]
fn what_was_made_goes_in_order_and_the_finalizer_last() {
    let mut world = World::default();
    world.settle(&json!({}), Layout::Upstream);
    world.objects.retain(|name, _| !name.starts_with("Deployment"));
    let namespaces = [(NAMESPACE, "k")];
    let plan = removal::plan(&leaving(&world, seen(&world, &namespaces), None), now());
    let page = plan.to_string();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
    let order = [
        "cluster: patch AppliedManifestWork w",
        "cluster: patch CustomResourceDefinition appliedmanifestworks",
        "cluster: delete ClusterRole open-cluster-management:k-work:aggregate",
        "cluster: delete Namespace open-cluster-management-agent\n",
        "management: delete Role kube-system/open-cluster-management:management:k:extension-apiserver",
        "management: patch Klusterlet k",
    ];
    assert!(order.windows(2).all(|it| at(it[0]) < at(it[1])), "{page}");
    assert!(page.contains("delete Namespace open-cluster-management-agent-addon"));
    assert!(!page.contains("delete CustomResourceDefinition"));
    let nothing = removal::plan(&leaving(&World::default(), seen(&World::default(), &[]), None), now());
    assert!(
        nothing.to_string().contains("patch Klusterlet k"),
        "whoever was stopped goes on"
    );
}

#[test]
fn the_add_on_namespace_stays_while_another_agent_exists() {
    let mut world = World::default();
    world.settle(&json!({}), Layout::Upstream);
    world.objects.retain(|name, _| !name.starts_with("Deployment"));
    let namespaces = [(NAMESPACE, "k"), ("open-cluster-management-b", "other")];
    let page = removal::plan(&leaving(&world, seen(&world, &namespaces), None), now()).to_string();
    assert!(page.contains("delete Namespace open-cluster-management-agent\n"));
    assert!(
        !page.contains("delete Namespace open-cluster-management-agent-addon"),
        "{page}"
    );
    assert!(!page.contains("delete Namespace open-cluster-management-b"), "{page}");
}

#[test]
fn an_unreachable_cluster_is_given_up_after_five_minutes() {
    let world = World::default();
    let unreachable = || Managed::Unreachable("nobody answers".to_owned());
    let first = format!("{:#}", removal::plan(&leaving(&world, unreachable(), None), now()));
    assert!(
        first.contains(
            r#""operator.open-cluster-management.io/managed-resources-eviction-timestamp":"2026-01-01T00:00:00Z""#
        ),
        "{first}"
    );
    assert!(first.contains("ManagedClusterUnreachable"), "{first}");
    let meanwhile = removal::plan(&leaving(&world, unreachable(), Some("2025-12-31T23:56:00Z")), now());
    assert!(meanwhile.is_empty() && meanwhile.again.is_some(), "{meanwhile}");
    let at_last = removal::plan(&leaving(&world, unreachable(), Some("2025-12-31T23:54:59Z")), now());
    assert!(at_last.to_string().contains("patch Klusterlet k"), "{at_last}");
    let back = removal::plan(&leaving(&world, seen(&world, &[]), Some("2025-12-31T23:56:00Z")), now());
    let page = format!("{back:#}");
    assert!(
        page.contains(r#"eviction-timestamp":null"#) && back.len() == 1,
        "{page}"
    );
}

#[test]
fn a_credential_is_read_of_its_secret() {
    let secret: Secret =
        serde_json::from_value(json!({"data": {"kubeconfig": "YQ==", "cluster-name": "YjE="}})).unwrap();
    let expected = HubCredential {
        has_kubeconfig: true,
        cluster_name: Some("b1".to_owned()),
    };
    assert_eq!(HubCredential::of(Some(&secret)), expected);
    assert_eq!(HubCredential::of(None), HubCredential::default());
}

#[test]
fn a_hosted_agent_waits_for_the_tokens_that_it_needs() {
    let spec = json!({"deployOption": {"mode": "Hosted"}});
    let mut scene = World::default().scene(&spec, Layout::Upstream);
    scene.external = Some(ExternalCluster {
        cluster: managed_cluster(),
        since: None,
    });
    let seen = Seen {
        now: now(),
        layout: Layout::Upstream,
        klusterlet: None,
        found: Finding::Nothing,
        reached: None,
    };
    let plan = install::plan(&klusterlet(&spec), &scene, &seen).to_string();
    for account in ["k-registration-sa", "k-work-sa"] {
        assert!(
            plan.contains(&format!(
                "cluster: create token of ServiceAccount {NAMESPACE}/{account}"
            )),
            "{plan}"
        );
    }
    assert!(!plan.contains("Deployment"), "{plan}");
    scene.issued = [names::EXTERNAL_REGISTRATION, names::EXTERNAL_WORK]
        .map(|secret| Issued {
            secret: secret.to_owned(),
            token: "t".to_owned(),
            expiration: "2026-12-01T00:00:00Z".to_owned(),
        })
        .to_vec();
    let plan = install::plan(&klusterlet(&spec), &scene, &seen).to_string();
    let at = |text: &str| plan.find(text).unwrap_or_else(|| panic!("no {text} in {plan}"));
    assert!(at("create Secret k/external-managed-kubeconfig-work") < at("create Deployment k/k-registration-agent"));
}
