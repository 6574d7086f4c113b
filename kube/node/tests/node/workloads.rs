//! Workloads on a real node.

use crate::world::{World, condition};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::Pod,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use testkit::wait;

fn deployment(replicas: i32, version: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{replicas: {replicas}, selector: {{matchLabels: {{app: d}}}}, \
         template: {{metadata: {{labels: {{app: d}}}}, spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: sh, \
         env: [{{name: VERSION, value: '{version}'}}], command: [sleep, '1000']}}]}}}}}}"
    )
}

fn says(it: Option<&Deployment>, kind: &str) -> String {
    let conditions = it.and_then(|it| it.status.as_ref()?.conditions.as_ref());
    let found = conditions
        .into_iter()
        .flatten()
        .find(|it| it.type_.as_deref() == Some(kind));
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    found.map_or(String::new(), |it| format!("{}/{}", text(&it.status), text(&it.reason)))
}

fn counts(it: Option<&Deployment>) -> [i32; 4] {
    let status = it.and_then(|it| it.status.clone()).unwrap_or_default();
    [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    ]
    .map(Option::unwrap_or_default)
}

fn is_done(it: Option<&Deployment>) -> bool {
    let seen = it.is_some_and(|it| it.status.as_ref().and_then(|it| it.observed_generation) == it.metadata.generation);
    seen && says(it, "Progressing") == "True/NewReplicaSetAvailable"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_becomes_available_is_rolled_scaled_and_deleted() {
    let world = World::new().await;
    let deployments: Api<Deployment> = Api::namespaced(world.client(), "default");
    let sets: Api<ReplicaSet> = Api::namespaced(world.client(), "default");
    world.site.apply(&deployment(2, "one")).await;
    let made = wait::until(&deployments, "d", "is available", |it| {
        is_done(it) && counts(it) == [2, 2, 2, 2]
    })
    .await;
    assert_eq!(says(made.as_ref(), "Available"), "True/MinimumReplicasAvailable");

    world.site.apply(&deployment(2, "two")).await;
    let rolled = wait::until(&deployments, "d", "is rolled out", |it| {
        let revision = it.and_then(|it| {
            it.metadata
                .annotations
                .as_ref()?
                .get("deployment.kubernetes.io/revision")
                .cloned()
        });
        is_done(it) && counts(it) == [2, 2, 2, 2] && revision.as_deref() == Some("2")
    });
    rolled.await;
    let all = sets.list(&Default::default()).await.unwrap().items;
    let mut wanted: Vec<_> = all.iter().map(|it| it.spec.replicas.unwrap_or_default()).collect();
    wanted.sort_unstable();
    assert_eq!(wanted, [0, 2]);

    // Back to the first template: the old set is used again.
    world.site.apply(&deployment(2, "one")).await;
    wait::until(&deployments, "d", "is rolled back", |it| {
        let revision = it.and_then(|it| {
            it.metadata
                .annotations
                .as_ref()?
                .get("deployment.kubernetes.io/revision")
                .cloned()
        });
        is_done(it) && counts(it) == [2, 2, 2, 2] && revision.as_deref() == Some("3")
    })
    .await;
    assert_eq!(sets.list(&Default::default()).await.unwrap().items.len(), 2);

    let scale = json!({"spec": {"replicas": 1}});
    deployments
        .patch("d", &PatchParams::default(), &Patch::Merge(&scale))
        .await
        .unwrap();
    wait::until(&deployments, "d", "is scaled", |it| {
        is_done(it) && counts(it) == [1, 1, 1, 1]
    })
    .await;

    deployments.delete("d", &DeleteParams::background()).await.unwrap();
    wait::until_all::<Pod>(&world.pods(), "no pods are left", |all| all.is_empty()).await;
    wait::until_all(&sets, "no sets are left", |all| all.is_empty()).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_deployment_waits_for_its_last_pod() {
    let world = World::new().await;
    let deployments: Api<Deployment> = Api::namespaced(world.client(), "default");
    // Its pods take their time to end, in which nothing counts them any more.
    let recreated = |version: &str| {
        let stubborn = r#"[sh, -c, 'trap "sleep 1; exit" TERM; while :; do sleep 0.1; done']"#;
        deployment(2, version)
            .replace("spec: {replicas", "spec: {strategy: {type: Recreate}, replicas")
            .replace("[sleep, '1000']", stubborn)
            .replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 10")
    };
    world.site.apply(&recreated("one")).await;
    let is_there = |it: Option<&Deployment>| is_done(it) && counts(it) == [2, 2, 2, 2];
    wait::until(&deployments, "d", "is available", is_there).await;
    world.site.apply(&recreated("two")).await;
    wait::until(&deployments, "d", "is recreated", |it| {
        let annotations = it.and_then(|it| it.metadata.annotations.as_ref());
        let revision = annotations.and_then(|it| it.get("deployment.kubernetes.io/revision"));
        is_there(it) && revision.is_some_and(|it| it == "2")
    })
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_replaces_deleted_pods_and_adopts_orphans() {
    let world = World::new().await;
    world
        .site
        .apply("apiVersion: v1\nkind: Pod\nmetadata: {name: orphan, labels: {app: r}}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, command: [sleep, '1000']}]}")
        .await;
    // Were it not ready, it might be the one too many.
    world
        .until_pod("orphan", "is ready", |it| condition(it, "Ready") == "True")
        .await;
    world
        .site
        .apply(
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r}\nspec: {replicas: 2, selector: {matchLabels: {app: r}}, \
             template: {metadata: {labels: {app: r}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, command: [sleep, '1000']}]}}}",
        )
        .await;
    let sets: Api<ReplicaSet> = Api::namespaced(world.client(), "default");
    let ready = |it: Option<&ReplicaSet>| it.and_then(|it| it.status.as_ref()?.ready_replicas) == Some(2);
    wait::until(&sets, "r", "has two pods", ready).await;
    let all = world.pods().list(&Default::default()).await.unwrap().items;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|it| it.metadata.owner_references.is_some()));
    world.pods().delete("orphan", &DeleteParams::default()).await.unwrap();
    wait::gone(&world.pods(), "orphan").await;
    wait::until(&sets, "r", "has two pods again", ready).await;
    world.stop().await;
}

fn job_says(it: Option<&Job>) -> String {
    let conditions = it.and_then(|it| it.status.as_ref()?.conditions.as_ref());
    let all = conditions
        .into_iter()
        .flatten()
        .map(|it| format!("{}/{}", it.type_, it.reason.as_deref().unwrap_or_default()));
    all.collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completes_when_enough_pods_have_succeeded() {
    let world = World::new().await;
    let jobs: Api<Job> = Api::namespaced(world.client(), "default");
    world
        .site
        .apply(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {completions: 3, parallelism: 2, completionMode: Indexed, template: {spec: \
             {restartPolicy: Never, containers: [{name: c, image: sh, command: [/bin/sh, -c, 'test -n \"$JOB_COMPLETION_INDEX\"']}]}}}",
        )
        .await;
    let complete = "SuccessCriteriaMet/CompletionsReached Complete/CompletionsReached";
    let job = wait::until(&jobs, "j", "is complete", |it| job_says(it) == complete)
        .await
        .unwrap();
    let status = job.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(3), None, None));
    assert_eq!(status.completed_indexes.as_deref(), Some("0-2"));
    assert!(status.start_time.is_some() && status.completion_time.is_some());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_at_its_limit_and_expires_by_ttl() {
    let world = World::new().await;
    let jobs: Api<Job> = Api::namespaced(world.client(), "default");
    let job = |name: &str, ttl: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{backoffLimit: 0, {ttl} template: {{spec: \
             {{restartPolicy: Never, containers: [{{name: c, image: sh, command: [/bin/sh, -c, 'exit 1']}}]}}}}}}"
        )
    };
    world.site.apply(&job("j", "")).await;
    let failed = "FailureTarget/BackoffLimitExceeded Failed/BackoffLimitExceeded";
    let found = wait::until(&jobs, "j", "has failed", |it| job_says(it) == failed)
        .await
        .unwrap();
    assert_eq!(found.status.unwrap().failed, Some(1));
    world.site.apply(&job("brief", "ttlSecondsAfterFinished: 0,")).await;
    wait::gone(&jobs, "brief").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_set_rolls_its_pod_on_the_node() {
    let world = World::new().await;
    let sets: Api<DaemonSet> = Api::namespaced(world.client(), "default");
    let set = |version: &str| {
        format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: d}}\nspec: {{selector: {{matchLabels: {{app: d}}}}, template: {{metadata: \
             {{labels: {{app: d}}}}, spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: sh, \
             env: [{{name: V, value: '{version}'}}], command: [sleep, '1000']}}]}}}}}}"
        )
    };
    let is_done = |it: Option<&DaemonSet>| {
        it.is_some_and(|it| {
            let status = it.status.clone().unwrap_or_default();
            status.observed_generation == it.metadata.generation
                && (status.desired_number_scheduled, status.number_ready) == (1, 1)
                && (status.updated_number_scheduled, status.number_available) == (Some(1), Some(1))
        })
    };
    world.site.apply(&set("one")).await;
    wait::until(&sets, "d", "is ready", is_done).await;
    let first = world.pods().list(&Default::default()).await.unwrap().items[0]
        .metadata
        .name
        .clone();
    world.site.apply(&set("two")).await;
    wait::until(&sets, "d", "is rolled", is_done).await;
    wait::until_all::<Pod>(&world.pods(), "the new pod is alone", |all| {
        all.len() == 1 && all[0].metadata.name != first
    })
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_starts_pods_in_order_and_keeps_claims() {
    let world = World::new().await;
    let sets: Api<StatefulSet> = Api::namespaced(world.client(), "default");
    world
        .site
        .apply(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {replicas: 2, serviceName: s, selector: {matchLabels: {app: s}}, \
             volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}], \
             template: {metadata: {labels: {app: s}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, \
             volumeMounts: [{name: data, mountPath: /data}], command: [/bin/sh, -c, 'hostname=$HOSTNAME; echo $hostname >> /data/starts; cat /data/starts; exec sleep 1000']}]}}}",
        )
        .await;
    let ready = |it: Option<&StatefulSet>| it.and_then(|it| it.status.as_ref()?.ready_replicas) == Some(2);
    wait::until(&sets, "s", "is ready", ready).await;
    let status = world.until_pod("s-1", "is there", |it| {
        it.spec.as_ref().and_then(|it| it.hostname.as_deref()) == Some("s-1")
    });
    let second = status.await;
    let first = world.until_pod("s-0", "is there", |_| true).await;
    assert!(first.metadata.creation_timestamp <= second.metadata.creation_timestamp);
    let uid = second.metadata.uid;
    world.pods().delete("s-1", &DeleteParams::default()).await.unwrap();
    world
        .until_pod("s-1", "is another one, and ready", |it| {
            it.metadata.uid != uid && crate::world::condition(it, "Ready") == "True"
        })
        .await;
    let log = kube_node::LogOptions {
        follow: true,
        limit_bytes: Some(8),
        ..Default::default()
    };
    assert_eq!(world.log("s-1", log).await, "s-1\ns-1\n");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_without_number_are_made_by_portions() {
    let world = World::new().await;
    let sets: Api<ReplicaSet> = Api::namespaced(world.client(), "default");
    let jobs: Api<Job> = Api::namespaced(world.client(), "default");
    // No scheduler takes them, so that nothing runs.
    let pod = "schedulerName: none, containers: [{name: c, image: sh}]";
    let most = i32::MAX;
    world
        .site
        .apply(&format!(
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: r}}\nspec: {{replicas: {most}, selector: {{matchLabels: {{app: r}}}}, \
             template: {{metadata: {{labels: {{app: r}}}}, spec: {{{pod}}}}}}}"
        ))
        .await;
    let more = wait::until(&sets, "r", "has the pods of more than one pass", |it| {
        it.and_then(|it| it.status.as_ref()).is_some_and(|it| it.replicas > 500)
    });
    more.await;
    sets.delete("r", &DeleteParams::orphan()).await.unwrap();
    world
        .site
        .apply(&format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{completions: {most}, parallelism: {most}, \
             template: {{spec: {{restartPolicy: Never, {pod}}}}}}}"
        ))
        .await;
    let more = wait::until(&jobs, "j", "has the pods of more than one pass", |it| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| it.active > Some(500))
    });
    more.await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_takes_another_pod_when_one_leaves() {
    let world = World::new().await;
    let sets: Api<ReplicaSet> = Api::namespaced(world.client(), "default");
    // The image is nobody's, so that nothing runs.
    let set = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r}\nspec: {replicas: 111, selector: {matchLabels: {app: r}}, \
               template: {metadata: {labels: {app: r}}, spec: {containers: [{name: c, image: none}]}}}";
    world.site.apply(set).await;
    let on_node = |it: &&Pod| it.spec.as_ref().is_some_and(|it| it.node_name.is_some());
    let is_full = |it: &Pod| {
        let conditions = it.status.iter().flat_map(|it| it.conditions.iter().flatten());
        let text = "0/1 nodes are available: 1 Too many pods.";
        let mut conditions = conditions.into_iter();
        conditions.any(|it| it.type_ == "PodScheduled" && it.message.as_deref() == Some(text))
    };
    let all = wait::until_all(&world.pods(), "one more than the node takes waits", |all| {
        all.iter().filter(on_node).count() == 110 && all.iter().any(is_full)
    })
    .await;
    let name = |it: Option<&Pod>| it.and_then(|it| it.metadata.name.clone()).unwrap();
    let (goes, waits) = (name(all.iter().find(on_node)), name(all.iter().find(|it| is_full(it))));
    sets.delete("r", &DeleteParams::orphan()).await.unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    world.pods().delete(&goes, &at_once).await.unwrap();
    let placed = |it: &Pod| it.spec.as_ref().is_some_and(|it| it.node_name.is_some());
    world
        .until_pod(&waits, "has the place of the one that went", placed)
        .await;
    world.stop().await;
}
