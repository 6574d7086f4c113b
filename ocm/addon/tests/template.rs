//! Add-ons made of a template, where their agents run on another cluster and while a new template is rolled out.

mod world;

use k8s_openapi::api::{events::v1::Event, rbac::v1::RoleBinding};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use ocm_addon_sdk::hub::registration::Registrations;
use ocm_api::{
    addon::v1alpha1::{AddOnTemplate, ManagedClusterAddOn},
    condition,
    work::ManifestWork,
};
use ocm_reconcile::{Clients, settle::settle};
use serde_json::{Value, json};
use world::{World, patch_status, read, said};

const GROUP: &str = "addon.open-cluster-management.io";
const LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";

fn map(name: &str, location: Option<&str>) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    if let Some(location) = location {
        map["metadata"]["annotations"] = json!({ LOCATION: location });
    }
    map
}

fn template(manifests: &[Value], registration: &Value) -> Value {
    json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": "hello"},
        "spec": {"addonName": "hello", "agentSpec": {"workload": {"manifests": manifests}}, "registration": registration},
    })
}

fn offer() -> Value {
    json!({
        "metadata": {"name": "hello"},
        "spec": {"supportedConfigs": [{"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": "hello"}}]},
    })
}

async fn make(world: &World, template: Value) -> Api<AddOnTemplate> {
    let templates: Api<AddOnTemplate> = Api::all(world.site.client());
    templates.create(&PostParams::default(), &read(template)).await.unwrap();
    templates
}

fn told(addon: &ManagedClusterAddOn, kind: &str) -> String {
    let conditions = addon.status.as_ref().map_or(&[][..], |it| &it.conditions);
    let found = condition::find(conditions, kind);
    found.map_or_else(String::new, |it| format!("{}/{}: {}", it.status, it.reason, it.message))
}

/// The names of the ConfigMaps in a work.
fn maps_in(work: &ManifestWork) -> Vec<String> {
    let manifests = work.spec.workload.manifests.read();
    manifests.iter().map(|it| it.name().to_owned()).collect()
}

async fn hosted(manifests: &[Value]) -> World {
    let world = World::start(Vec::new()).await;
    for it in ["c1", "host"] {
        world.cluster(it).await;
    }
    world.agents();
    make(&world, template(manifests, &json!([]))).await;
    world.offer(offer()).await;
    let annotations = json!({"addon.open-cluster-management.io/hosting-cluster-name": "host"});
    let addon = json!({"metadata": {"name": "hello", "annotations": annotations}, "spec": {}});
    world
        .addons("c1")
        .create(&PostParams::default(), &read(addon))
        .await
        .unwrap();
    world
        .until("the add-on has arrived", |watched| {
            let addon = watched.addons.get("c1", "hello")?;
            told(&addon, "Progressing").contains("False/Completed").then_some(())
        })
        .await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_template_has_for_the_hosting_cluster_goes_there() {
    let manifests = [
        map("here", None),
        map("there", Some("hosting")),
        map("nowhere", Some("none")),
    ];
    let world = hosted(&manifests).await;
    let works = &world.watched.works;
    assert_eq!(maps_in(&works.get("c1", "addon-hello-deploy-0").unwrap()), ["here"]);
    assert_eq!(
        maps_in(&works.get("host", "addon-hello-deploy-hosting-c1-0").unwrap()),
        ["there"]
    );
    let addon = world.watched.addons.get("c1", "hello").unwrap();
    assert!(told(&addon, "HostingClusterValidity").starts_with("True/"));
    assert!(told(&addon, "HostingManifestApplied").starts_with("True/"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_with_a_deleted_template_can_be_removed() {
    let world = hosted(&[map("there", Some("hosting"))]).await;
    let templates: Api<AddOnTemplate> = Api::all(world.site.client());
    templates.delete("hello", &Default::default()).await.unwrap();
    world
        .until("the add-on is told that there is none", |watched| {
            let addon = watched.addons.get("c1", "hello")?;
            let reference = addon.status.as_ref()?.config_references.first()?.clone();
            let is_told = told(&addon, "ManifestApplied").contains("AddOnTemplate hello does not exist");
            (is_told && reference.desired_config?.spec_hash.is_empty()).then_some(())
        })
        .await;
    assert!(
        world
            .watched
            .works
            .get("host", "addon-hello-deploy-hosting-c1-0")
            .is_some()
    );
    world.addons("c1").delete("hello", &Default::default()).await.unwrap();
    world
        .until("it is gone, and what was hosted for it", |watched| {
            let addon = watched.addons.get("c1", "hello");
            (addon.is_none() && watched.works.list_in("host").is_empty()).then_some(())
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_without_hosted_manifests_deploys_normally_and_reports_it() {
    let world = hosted(&[map("here", None), map("nowhere", Some("none"))]).await;
    let works = &world.watched.works;
    let mut maps = maps_in(&works.get("c1", "addon-hello-deploy-0").unwrap());
    maps.sort();
    assert_eq!(maps, ["here", "nowhere"]);
    assert!(works.list_in("host").is_empty());
    let addon = world.watched.addons.get("c1", "hello").unwrap();
    assert_eq!(
        told(&addon, "HostingManifestApplied"),
        "True/AddonManifestApplied: no manifest need to apply: the add-on does not run hosted, and all of it goes to the \
         managed cluster"
    );
    world.stop().await;
}

fn registration(roles: &[&str]) -> Value {
    let permissions = roles
        .iter()
        .map(|it| json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": it}}));
    json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": permissions.collect::<Vec<_>>()}}])
}

async fn arrives(world: &World, cluster: &str) {
    let work = world.watched.works.get(cluster, "addon-hello-deploy-0").unwrap();
    let works: Api<ManifestWork> = Api::namespaced(world.site.client(), cluster);
    let at = |r#type: &str| {
        let mut it = said(r#type, "True", "Done");
        it["observedGeneration"] = json!(work.metadata.generation);
        it
    };
    let well = json!({"status": {"conditions": [at("Applied"), at("Available")]}});
    patch_status(&works, "addon-hello-deploy-0", well).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_its_templates_permissions_until_its_rollout_turn() {
    let world = World::start(Vec::new()).await;
    let names = ["c1", "c2"].map(str::to_owned);
    for it in &names {
        world.cluster(it).await;
    }
    world.choose("all", &names).await;
    let templates = make(&world, template(&[map("one", None)], &registration(&["view"]))).await;
    let mut offer = offer();
    offer["spec"]["installStrategy"] = json!({"type": "Placements", "placements": [{
        "namespace": "default", "name": "all",
        "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}},
    }]});
    world.offer(offer).await;
    for it in &names {
        let has_work = |watched: &world::Watched| {
            let work = watched.works.get(it, "addon-hello-deploy-0")?;
            (maps_in(&work) == ["one"]).then_some(())
        };
        world.until("the first template is on a cluster", has_work).await;
        arrives(&world, it).await;
        world
            .until("it has arrived", |watched| {
                let addon = watched.addons.get(it, "hello")?;
                told(&addon, "Progressing").contains("False/Completed").then_some(())
            })
            .await;
    }

    let mut next = registration(&["edit"]);
    next.as_array_mut().unwrap().push(json!({
        "type": "CustomSigner",
        "customSigner": {"signerName": "example.com/hello", "signingCA": {"name": "ca"}},
    }));
    let next = Patch::Merge(template(&[map("two", None)], &next));
    templates.patch("hello", &PatchParams::default(), &next).await.unwrap();
    let signers = |watched: &world::Watched, cluster: &str| {
        let addon = watched.addons.get(cluster, "hello");
        let status = addon.as_ref().and_then(|it| it.status.as_ref());
        status.map_or(0, |it| it.registrations.len())
    };
    let is_on = |cluster: &'static str| {
        move |watched: &world::Watched| {
            let work = watched.works.get(cluster, "addon-hello-deploy-0")?;
            (maps_in(&work) == ["two"] && signers(watched, cluster) == 2).then_some(())
        }
    };
    world.until("the second template is on c1", is_on("c1")).await;

    // Somebody looks at c2, for whatever reason, and takes its rights away for a moment.
    let bindings = |cluster: &str| Api::<RoleBinding>::namespaced(world.site.client(), cluster);
    const BINDING: &str = "open-cluster-management:hello:clusterrole:agent";
    bindings("c2").delete(BINDING, &Default::default()).await.unwrap();
    let registrations = Registrations::new(world.manager.context());
    let clients = Clients::hub(world.site.client());
    settle(&registrations, &clients, "c2/hello", 5).await.unwrap();
    let role_of = async |cluster: &str| {
        let found = testkit::wait::until(&bindings(cluster), BINDING, "is there", |it| it.is_some()).await;
        found.unwrap().role_ref.name
    };
    assert_eq!(role_of("c2").await, "view");
    assert_eq!(signers(&world.watched, "c2"), 1);
    assert_eq!(
        maps_in(&world.watched.works.get("c2", "addon-hello-deploy-0").unwrap()),
        ["one"]
    );

    arrives(&world, "c1").await;
    world.until("the second template is on c2", is_on("c2")).await;
    testkit::wait::until(&bindings("c2"), BINDING, "binds the new role", |it| {
        it.is_some_and(|it| it.role_ref.name == "edit")
    })
    .await;
    assert_eq!(role_of("c1").await, "edit");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_not_moved_when_its_template_is_deleted() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "hello", "namespace": "greetings", "annotations": { LOCATION: "hosting" }},
        "spec": {"template": {"spec": {"containers": []}}},
    });
    let world = hosted(&[deployment]).await;
    let namespace = |watched: &world::Watched| watched.addons.get("c1", "hello")?.status.clone().map(|it| it.namespace);
    assert_eq!(namespace(&world.watched).as_deref(), Some("greetings"));
    // Nobody looks after the template's configurations any more, so that this cluster is not told that there is none.
    let offers: Api<ocm_api::addon::v1alpha1::ClusterManagementAddOn> = Api::all(world.site.client());
    let own = json!({"metadata": {"annotations": {"addon.open-cluster-management.io/lifecycle": "self"}}});
    offers
        .patch("hello", &PatchParams::default(), &Patch::Merge(&own))
        .await
        .unwrap();
    let templates: Api<AddOnTemplate> = Api::all(world.site.client());
    templates.delete("hello", &Default::default()).await.unwrap();
    world
        .until("its manager says that there is no template", |watched| {
            let addon = watched.addons.get("c1", "hello")?;
            told(&addon, "RegistrationApplied")
                .contains("AddOnTemplate hello does not exist")
                .then_some(())
        })
        .await;
    let (context, clients) = (world.manager.context(), Clients::hub(world.site.client()));
    settle(&Registrations::new(context), &clients, "c1/hello", 3)
        .await
        .unwrap();
    assert_eq!(namespace(&world.watched).as_deref(), Some("greetings"));
    assert!(
        world
            .watched
            .works
            .get("host", "addon-hello-deploy-hosting-c1-0")
            .is_some()
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_naming_another_add_on_deploys_with_one_event() {
    let world = World::start(Vec::new()).await;
    world.agents();
    make(&world, template(&[map("here", None)], &json!([]))).await;
    let mut offer = offer();
    offer["metadata"]["name"] = json!("renamed");
    world.offer(offer).await;
    for cluster in ["c1", "c2"] {
        world.cluster(cluster).await;
        let addon = json!({"metadata": {"name": "renamed"}, "spec": {}});
        world
            .addons(cluster)
            .create(&PostParams::default(), &read(addon))
            .await
            .unwrap();
        world
            .until("the add-on has arrived", |watched| {
                let addon = watched.addons.get(cluster, "renamed")?;
                told(&addon, "Progressing").contains("False/Completed").then_some(())
            })
            .await;
    }
    let events: Api<Event> = Api::namespaced(world.site.client(), "default");
    let is_it = |it: &&Event| it.reason.as_deref() == Some("AddOnNameMismatch");
    let all = testkit::wait::until_all(&events, "the mismatch is told", |it| it.iter().any(|it| is_it(&it))).await;
    let notes: Vec<_> = all.iter().filter(is_it).filter_map(|it| it.note.clone()).collect();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(
        note.starts_with("The AddOnTemplate hello has addonName \"hello\" and is used for add-on renamed;"),
        "{note}"
    );
    world.stop().await;
}
