//! Disruption budgets over the pods of a real node, and the evictions that they hold back.

use crate::world::{World, condition};
use futures::future::join_all;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Node, Pod, ReplicationController},
    policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
};
use kube::{
    Api, Error,
    api::{EvictParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use testkit::wait;

fn budgets(world: &World) -> Api<PodDisruptionBudget> {
    Api::namespaced(world.client(), "default")
}

fn deployment(replicas: i32, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{replicas: {replicas}, selector: {{matchLabels: {{app: d}}}}, \
         template: {{metadata: {{labels: {{app: d}}}}, spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: {image}, \
         command: [sleep, '1000']}}]}}}}}}"
    )
}

fn budget(name: &str, spec: &str) -> String {
    format!("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {spec}")
}

/// The counts as expected, desired, healthy and allowed.
fn counts(it: &PodDisruptionBudgetStatus) -> [i32; 4] {
    [
        it.expected_pods,
        it.desired_healthy,
        it.current_healthy,
        it.disruptions_allowed,
    ]
    .map(Option::unwrap_or_default)
}

/// What the condition says, as status/reason/message.
fn says(it: &PodDisruptionBudgetStatus) -> String {
    let mut conditions = it.conditions.iter().flatten();
    let found = conditions.find(|it| it.type_ == "DisruptionAllowed");
    found.map_or(String::new(), |it| {
        format!("{}/{}/{}", it.status, it.reason, it.message)
    })
}

/// Waits until a budget has been worked out for its present spec and stands so.
async fn until(world: &World, name: &str, want: [i32; 4], said: &str) -> PodDisruptionBudget {
    let what = format!("{want:?} {said}");
    let api = budgets(world);
    let found = wait::until(&api, name, &what, |it| {
        it.is_some_and(|it| {
            let status = it.status.clone().unwrap_or_default();
            let observed = status.observed_generation;
            let own = status
                .conditions
                .iter()
                .flatten()
                .all(|it| it.observed_generation == observed);
            observed == it.metadata.generation && own && counts(&status) == want && says(&status) == said
        })
    });
    found.await.unwrap()
}

/// Evicts a pod, and tells the code of a refusal and why.
async fn evict(world: &World, pod: &str) -> Result<(), (u16, String)> {
    match world.pods().evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|it| &it.causes);
            let texts: Vec<_> = causes.map(|it| it.message.clone()).collect();
            Err((status.code, texts.join(" ")))
        }
        Err(error) => panic!("{error}"),
    }
}

async fn cordon(world: &World, unschedulable: bool) {
    let nodes: Api<Node> = Api::all(world.client());
    let patch = json!({"spec": {"unschedulable": unschedulable}});
    let params = PatchParams::default();
    nodes.patch("node", &params, &Patch::Merge(&patch)).await.unwrap();
}

async fn ready(world: &World) -> Vec<String> {
    let all = world.pods().list(&Default::default()).await.unwrap().items;
    let ready = all.into_iter().filter(|it| condition(it, "Ready") == "True");
    ready.filter_map(|it| it.metadata.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_eviction_waits_for_the_replacement_of_the_first() {
    let world = World::new().await;
    let (sufficient, insufficient) = ("True/SufficientPods/", "False/InsufficientPods/");
    world
        .site
        .apply(&budget("b", "{minAvailable: 2, selector: {matchLabels: {app: d}}}"))
        .await;
    world.site.apply(&deployment(3, "sh")).await;
    let before = until(&world, "b", [3, 2, 3, 1], sufficient).await;
    assert!(before.metadata.managed_fields.is_some_and(|it| it.len() > 1));
    // As `kubectl drain` begins; no replacement is ready before this ends.
    cordon(&world, true).await;
    let pods = ready(&world).await;
    assert_eq!(evict(&world, &pods[0]).await, Ok(()));
    let refused = evict(&world, &pods[1]).await.unwrap_err();
    assert_eq!(refused.0, 429, "{}", refused.1);
    // The pod that waits for a node counts among those that there are, and not among the healthy.
    wait::until(&budgets(&world), "b", "has seen the pod go", |it| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| it.disrupted_pods.as_ref().is_none_or(|it| it.is_empty()) && counts(it) == [3, 2, 2, 0])
    })
    .await;
    until(&world, "b", [3, 2, 2, 0], insufficient).await;
    let refused = "The disruption budget b needs 2 healthy pods and has 2 currently";
    assert_eq!(evict(&world, &pods[1]).await, Err((429, refused.to_owned())));

    cordon(&world, false).await;
    until(&world, "b", [3, 2, 3, 1], sufficient).await;
    assert_eq!(evict(&world, &pods[1]).await, Ok(()));
    wait::gone(&world.pods(), &pods[1]).await;
    until(&world, "b", [3, 2, 3, 1], sufficient).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_evictions_never_exceed_the_allowed_disruptions() {
    let world = World::new().await;
    world
        .site
        .apply(&budget("b", "{minAvailable: 4, selector: {matchLabels: {app: d}}}"))
        .await;
    world.site.apply(&deployment(10, "sh")).await;
    until(&world, "b", [10, 4, 10, 6], "True/SufficientPods/").await;
    cordon(&world, true).await;
    let pods = ready(&world).await;
    let outcomes = join_all(pods.iter().map(|it| evict(&world, it))).await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).map(|it| it.0).collect();
    assert_eq!(refused, [429; 4]);
    until(&world, "b", [10, 4, 4, 0], "False/InsufficientPods/").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_without_pods_has_status_and_follows_its_selector() {
    let world = World::new().await;
    let insufficient = "False/InsufficientPods/";
    world
        .site
        .apply("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, command: [sleep, '1000']}]}")
        .await;
    world
        .site
        .apply(&budget("some", "{minAvailable: 1, selector: {matchLabels: {app: d}}}"))
        .await;
    world.site.apply(&budget("none", "{minAvailable: 0}")).await;
    world
        .site
        .apply(&budget(
            "part",
            "{maxUnavailable: 50%, selector: {matchLabels: {app: d}}}",
        ))
        .await;
    until(&world, "some", [0, 1, 0, 0], insufficient).await;
    until(&world, "none", [0, 0, 0, 0], insufficient).await;
    until(&world, "part", [0, 0, 0, 0], insufficient).await;
    assert_eq!(world.until_event("NoPods").await, "No matching pods found");

    // Every pod of the namespace, though it has no labels.
    world
        .site
        .apply(&budget("some", "{minAvailable: 0, selector: {}}"))
        .await;
    until(&world, "some", [1, 0, 1, 1], "True/SufficientPods/").await;
    assert_eq!(evict(&world, "p").await, Ok(()));
    until(&world, "some", [0, 0, 0, 0], insufficient).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_of_what_controllers_want() {
    let world = World::new().await;
    let insufficient = "False/InsufficientPods/";
    let over = |bound: &str| budget("b", &format!("{{{bound}, selector: {{matchLabels: {{app: d}}}}}}"));
    world.site.apply(&over("minAvailable: 50%")).await;
    // The image is nobody's, so that nothing becomes ready.
    world.site.apply(&deployment(3, "none")).await;
    until(&world, "b", [3, 2, 0, 0], insufficient).await;
    world.site.apply(&over("maxUnavailable: 30%")).await;
    until(&world, "b", [3, 2, 0, 0], insufficient).await;
    let deployments: Api<Deployment> = Api::namespaced(world.client(), "default");
    let scale = json!({"spec": {"replicas": 10}});
    let params = PatchParams::default();
    deployments.patch("d", &params, &Patch::Merge(&scale)).await.unwrap();
    until(&world, "b", [10, 7, 0, 0], insufficient).await;

    // A controller that we do not watch is asked for its scale; a pod without one is not expected.
    let owned = |name: &str, owner: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: r}}, ownerReferences: [{owner}]}}\n\
             spec: {{containers: [{{name: c, image: none}}]}}"
        )
    };
    world
        .site
        .apply(
            "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: r}\nspec: {replicas: 4, selector: {app: r}, template: \
             {metadata: {labels: {app: r}}, spec: {containers: [{name: c, image: none}]}}}",
        )
        .await;
    let controllers: Api<ReplicationController> = Api::namespaced(world.client(), "default");
    let uid = controllers.get("r").await.unwrap().metadata.uid.unwrap();
    let owner = format!("{{apiVersion: v1, kind: ReplicationController, name: r, uid: {uid}, controller: true}}");
    world.site.apply(&owned("owned", &owner)).await;
    world.site.apply(&owned("alone", "")).await;
    world
        .site
        .apply(&budget("r", "{maxUnavailable: 1, selector: {matchLabels: {app: r}}}"))
        .await;
    until(&world, "r", [4, 3, 0, 0], insufficient).await;
    let unmanaged = world.until_event("UnmanagedPods").await;
    let selector = "(selector: &LabelSelector{MatchLabels:map[string]string{app: r,},MatchExpressions:[]LabelSelectorRequirement{},})";
    assert!(unmanaged.contains(selector), "{unmanaged}");

    // A DaemonSet wants no number.
    world
        .site
        .apply(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: s}\nspec: {selector: {matchLabels: {app: s}}, template: \
             {metadata: {labels: {app: s}}, spec: {containers: [{name: c, image: none}]}}}",
        )
        .await;
    world
        .site
        .apply(&budget("s", "{maxUnavailable: 1, selector: {matchLabels: {app: s}}}"))
        .await;
    let why = "daemonsets.apps does not implement the scale subresource";
    let api = budgets(&world);
    let failed = wait::until(&api, "s", "cannot be worked out", |it| {
        it.and_then(|it| it.status.as_ref())
            .is_some_and(|it| says(it) == format!("False/SyncFailed/{why}"))
    });
    failed.await;
    let told = world.until_event("CalculateExpectedPodCountFailed").await;
    assert_eq!(told, format!("Failed to calculate the number of expected pods: {why}"));
    world
        .site
        .apply(&budget("s", "{minAvailable: 1, selector: {matchLabels: {app: s}}}"))
        .await;
    until(&world, "s", [1, 1, 0, 0], insufficient).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_follows_a_scaled_controller_before_any_pod_changes() {
    let world = World::new().await;
    let insufficient = "False/InsufficientPods/";
    // No scheduler takes the first pod, which never changes; the second one waits for it to be ready.
    world
        .site
        .apply(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {serviceName: s, selector: {matchLabels: {app: s}}, template: \
             {metadata: {labels: {app: s}}, spec: {schedulerName: none, containers: [{name: c, image: none}]}}}",
        )
        .await;
    world
        .site
        .apply(&budget("b", "{maxUnavailable: 1, selector: {matchLabels: {app: s}}}"))
        .await;
    until(&world, "b", [1, 0, 0, 0], insufficient).await;
    let sets: Api<StatefulSet> = Api::namespaced(world.client(), "default");
    let scale = json!({"spec": {"replicas": 4}});
    let params = PatchParams::default();
    sets.patch("s", &params, &Patch::Merge(&scale)).await.unwrap();
    until(&world, "b", [4, 3, 0, 0], insufficient).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_that_came_to_nothing_is_forgotten() {
    let world = World::new().await;
    world
        .site
        .apply("apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: p}}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, command: [sleep, '1000']}]}")
        .await;
    world
        .site
        .apply(&budget("b", "{minAvailable: 0, selector: {matchLabels: {app: p}}}"))
        .await;
    until(&world, "b", [1, 0, 1, 1], "True/SufficientPods/").await;
    let note = |pods: Value| {
        let patch = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": pods}});
        let budgets = budgets(&world);
        async move {
            let params = PatchParams::default();
            budgets.patch_status("b", &params, &Patch::Merge(&patch)).await.unwrap();
        }
    };
    let names = |it: PodDisruptionBudget| {
        let noted = it.status.and_then(|it| it.disrupted_pods).unwrap_or_default();
        noted.into_keys().collect::<Vec<_>>()
    };
    let now = jiff::Timestamp::now();
    // A note that is new takes the pod from the healthy ones; one of a pod that is gone stands for nothing.
    note(json!({"p": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "gone": "2099-01-01T00:00:00Z"})).await;
    let held = until(&world, "b", [1, 0, 0, 0], "False/InsufficientPods/").await;
    assert_eq!(names(held), ["p"]);
    note(json!({"p": "2020-01-01T00:00:00Z"})).await;
    let over = until(&world, "b", [1, 0, 1, 1], "True/SufficientPods/").await;
    assert_eq!(names(over), [""; 0]);
    let told = world.until_event("NotDeleted").await;
    assert_eq!(told, "Pod was expected by PDB default/b to be deleted but it wasn't");
    let pod: Pod = world.pods().get("p").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_none());
    world.stop().await;
}
