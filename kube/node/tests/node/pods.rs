//! Pods as real processes: what starts them, what they see, how they end.

use crate::world::{World, condition, lives, node as node_of, phase, until_dead, until_text, waits_for};
use kube::api::DeleteParams;
use kube_node::LogOptions;
use testkit::wait;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_pod_reports_its_exit_code_and_log() {
    let world = World::new().await;
    world
        .site
        .apply(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {restartPolicy: Never, containers: [{name: c, image: sh, \
             command: [/bin/sh, -c, 'echo one; echo two >&2; exit 3']}]}",
        )
        .await;
    let pod = world.until_pod("p", "has failed", |it| phase(it) == "Failed").await;
    let status = pod.status.as_ref().unwrap();
    let container = &status.container_statuses.as_ref().unwrap()[0];
    let end = container.state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (3, Some("Error")));
    assert!(container.container_id.as_ref().unwrap().starts_with("process://"));
    assert_eq!(
        (
            status.host_ip.as_deref(),
            status.pod_ips.as_ref().unwrap()[0].ip.as_str()
        ),
        (Some("127.0.0.1"), status.pod_ip.as_deref().unwrap())
    );
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("node"));
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(|it| condition(&pod, it));
    assert_eq!(conditions, ["True", "True", "False", "False"]);
    let mut lines: Vec<_> = world
        .log("p", LogOptions::default())
        .await
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["one", "two"]);
    assert!(world.until_event("Scheduled").await.contains("default/p to node"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_an_unmapped_image_waits_with_instructions() {
    let world = World::new().await;
    world
        .site
        .apply("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: 'nginx:1.14.2'}]}")
        .await;
    let pod = world.until_pod("p", "waits for its image", |it| {
        waits_for(it).is_some_and(|(reason, _)| reason == "ErrImagePull")
    });
    let pod = pod.await;
    assert_eq!(phase(&pod), "Pending");
    assert!(
        waits_for(&pod)
            .unwrap()
            .1
            .contains("--node-image-map 'nginx:1.14.2=COMMAND'")
    );
    assert!(
        world
            .until_event("Failed")
            .await
            .contains("--node-image-map 'nginx:1.14.2=COMMAND'")
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_stands_for_one_program_starts_no_other() {
    let world = World::new().await;
    for (name, container) in [
        ("other", "command: [/bin/sh, -c, 'true']"),
        (
            "probe",
            "args: [/hello], livenessProbe: {exec: {command: [/bin/sh, -c, 'true']}}",
        ),
    ] {
        world
            .site
            .apply(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: 'own:1', {container}}}]}}",
            ))
            .await;
        let pod = world.until_pod(name, "is refused", |it| {
            waits_for(it).is_some_and(|(reason, _)| reason == "ErrImagePull")
        });
        let pod = pod.await;
        let (_, text) = waits_for(&pod).unwrap();
        assert!(text.starts_with("the image stands for hello only, and "), "{text}");
        assert!(text.contains("--node-image-map 'own:1=COMMAND'"), "{text}");
    }
    world
        .site
        .apply(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {restartPolicy: Never, containers: [{name: c, image: own, \
             args: [/hello, agent], env: [{name: LD_PRELOAD, value: /x.so}, {name: SSL_CERT_FILE, value: /x.pem}, \
             {name: GLIBC_TUNABLES, value: x}, {name: SAID, value: 'yes'}]}]}",
        )
        .await;
    world
        .until_pod("p", "has succeeded", |it| phase(it) == "Succeeded")
        .await;
    let log = world.log("p", LogOptions::default()).await;
    assert!(log.starts_with("/hello agent\n"), "{log}");
    assert!(log.contains("SAID=yes\n"), "{log}");
    for left_out in ["LD_PRELOAD", "SSL_CERT_FILE", "GLIBC_TUNABLES"] {
        assert!(!log.contains(left_out), "{log}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_its_secret_and_sees_it_change() {
    let world = World::new().await;
    let out = world.dir.path().join("out");
    world
        .site
        .apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, image: sh, \
             command: [/bin/sh, -c, 'cp /secret/key {out}; while [ \"$(cat /secret/key)\" != two ]; do sleep 0.05; done; cp /secret/key {out}2; \
             exec sleep 1000'], volumeMounts: [{{name: s, mountPath: /secret}}]}}], volumes: [{{name: s, secret: {{secretName: s}}}}]}}",
            out = out.display()
        ))
        .await;
    assert!(
        world
            .until_event("FailedMount")
            .await
            .contains("secret \"s\" not found")
    );
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{key: \"{value}\\n\"}}")
    };
    world.site.apply(&secret("one")).await;
    assert_eq!(until_text(&out).await, "one");
    world
        .until_pod("p", "is ready", |it| condition(it, "Ready") == "True")
        .await;
    world.site.apply(&secret("two")).await;
    assert_eq!(world.until_file("out2").await, "two");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_sees_its_environment_and_its_account() {
    let world = World::new().await;
    world
        .site
        .apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {COLOR: red}")
        .await;
    world
        .site
        .apply(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: x}}\nspec: {restartPolicy: Never, containers: [{name: c, image: sh, \
             envFrom: [{configMapRef: {name: m}}], env: [{name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, \
             {name: TEXT, value: '$(COLOR) $(ME)'}], \
             command: [/bin/sh, -c, 'echo $TEXT; echo $KUBERNETES_SERVICE_HOST; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; \
             grep -c tokenFile $KUBECONFIG; cat /down/labels; echo; test -d $HOME && test -w $TMPDIR && echo writable; echo ${CARGO_MANIFEST_DIR:-none}; \
             echo $POD_PATHS | tr , \"\\n\" | grep -c -e volumes/d -e serviceaccount -e /root'], \
             volumeMounts: [{name: d, mountPath: /down}]}], \
             volumes: [{name: d, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}",
        )
        .await;
    world
        .until_pod("p", "has succeeded", |it| phase(it) == "Succeeded")
        .await;
    let log = world.log("p", LogOptions::default()).await;
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(
        lines,
        [
            "red p",
            "127.0.0.1",
            "default",
            "1",
            "app=\"x\"",
            "writable",
            "none",
            "3"
        ]
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_crashes_is_restarted_and_then_waits() {
    let world = World::new().await;
    world
        .site
        .apply(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: sh, command: [/bin/sh, -c, 'echo $$; exit 1']}]}",
        )
        .await;
    let waits = |reason: &'static str| move |it: &_| waits_for(it).is_some_and(|(it, _)| it == reason);
    let pod = world.until_pod("p", "backs off", waits("CrashLoopBackOff")).await;
    assert_eq!(phase(&pod), "Running");
    let container = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(container.restart_count, 1);
    assert_eq!(
        container
            .last_state
            .as_ref()
            .unwrap()
            .terminated
            .as_ref()
            .unwrap()
            .exit_code,
        1
    );
    assert!(
        waits_for(&pod)
            .unwrap()
            .1
            .starts_with("back-off 10s restarting failed container=c in pod p_default(")
    );
    world.until_event("BackOff").await;
    let previous = LogOptions {
        previous: true,
        ..LogOptions::default()
    };
    assert_eq!(world.log("p", previous).await.lines().count(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_gets_its_grace_and_is_gone_afterwards() {
    let world = World::new().await;
    let path = |name: &str| world.dir.path().join(name).display().to_string();
    world
        .site
        .apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, image: sh, \
             lifecycle: {{preStop: {{exec: {{command: [/bin/sh, -c, 'echo hook > {hook}']}}}}}}, \
             command: [/bin/sh, -c, 'trap \"echo bye > {bye}; exit 0\" TERM; echo $$ > {pid}; while :; do sleep 0.05; done']}}]}}",
            hook = path("hook"),
            bye = path("bye"),
            pid = path("pid"),
        ))
        .await;
    let pid = world.until_file("pid").await;
    world.pods().delete("p", &DeleteParams::default()).await.unwrap();
    wait::gone(&world.pods(), "p").await;
    assert!(!lives(&pid));
    assert_eq!(world.until_file("hook").await, "hook");
    assert_eq!(world.until_file("bye").await, "bye");
    let left = std::fs::read_dir(world.dir.path().join("node/pods")).unwrap().count();
    // The directory goes right after the object.
    assert!(left <= 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_end_in_time_is_killed() {
    let world = World::new().await;
    world
        .site
        .apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{terminationGracePeriodSeconds: 1, containers: [{{name: c, image: sh, \
             command: [/bin/sh, -c, 'trap \"\" TERM; echo $$ > {pid}; while :; do sleep 0.05; done']}}]}}",
            pid = world.dir.path().join("pid").display(),
        ))
        .await;
    let pid = world.until_file("pid").await;
    world.pods().delete("p", &DeleteParams::default()).await.unwrap();
    wait::gone(&world.pods(), "p").await;
    assert!(!lives(&pid));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_end_with_the_node_and_restart_on_the_next() {
    let world = World::new().await;
    world
        .site
        .apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, image: sh, \
             command: [/bin/sh, -c, 'sleep 1000 & echo $! > {path}; wait']}}]}}",
            path = world.dir.path().join("pid").display()
        ))
        .await;
    let pid = world.until_file("pid").await;
    world.until_pod("p", "runs", |it| phase(it) == "Running").await;
    let World {
        site,
        node,
        dir,
        cancel,
    } = world;
    cancel.cancel();
    node.finished().await;
    until_dead(&pid).await;
    std::fs::remove_file(dir.path().join("pid")).unwrap();
    let cancel = CancellationToken::new();
    let node = node_of(&site, dir.path().join("node"), cancel.clone()).await;
    let world = World {
        site,
        node,
        dir,
        cancel,
    };
    let again = world.until_file("pid").await;
    assert_ne!(again, pid);
    let pod = world.until_pod("p", "has been restarted", |it| {
        let container = it
            .status
            .as_ref()
            .and_then(|it| it.container_statuses.as_ref()?.first());
        container.is_some_and(|it| it.restart_count == 1 && it.ready)
    });
    pod.await;
    world.stop().await;
    until_dead(&again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_liveness_probe_is_restarted() {
    let world = World::new().await;
    world
        .site
        // A grace longer than any clock runs is one like others for a process that ends when it is told to.
        .apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{terminationGracePeriodSeconds: 9223372036854775807, containers: [{{name: c, image: sh, \
             command: [/bin/sh, -c, 'echo x >> {runs}; exec sleep 1000'], \
             livenessProbe: {{exec: {{command: [/bin/sh, -c, 'test $(wc -l < {runs}) -gt 1']}}, periodSeconds: 1, failureThreshold: 1}}}}]}}",
            runs = world.dir.path().join("runs").display()
        ))
        .await;
    world
        .until_pod("p", "is restarted and ready", |it| {
            let container = it
                .status
                .as_ref()
                .and_then(|it| it.container_statuses.as_ref()?.first());
            container.is_some_and(|it| it.restart_count == 1 && it.ready)
        })
        .await;
    assert!(
        world
            .until_event("Unhealthy")
            .await
            .starts_with("Liveness probe failed")
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_first_and_in_order() {
    let world = World::new().await;
    world
        .site
        .apply(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {restartPolicy: Never, volumes: [{name: v, emptyDir: {}}], \
             initContainers: [{name: a, image: sh, command: [/bin/sh, -c, 'echo a >> /v/x'], volumeMounts: [{name: v, mountPath: /v}]}, \
             {name: b, image: sh, command: [/bin/sh, -c, 'echo b >> /v/x'], volumeMounts: [{name: v, mountPath: /v}]}], \
             containers: [{name: c, image: sh, command: [/bin/sh, -c, 'cat /data/x'], volumeMounts: [{name: v, mountPath: /data}]}]}",
        )
        .await;
    world
        .until_pod("p", "has succeeded", |it| phase(it) == "Succeeded")
        .await;
    assert_eq!(world.log("p", LogOptions::default()).await, "a\nb\n");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unschedulable_pod_is_scheduled_once_it_fits() {
    let world = World::new().await;
    world
        .site
        .apply(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeSelector: {zone: a}, containers: [{name: c, image: sh, \
             command: [sleep, '1000']}]}",
        )
        .await;
    let text = world.until_event("FailedScheduling").await;
    assert_eq!(
        text,
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    );
    let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(world.client());
    let label = serde_json::json!({"metadata": {"labels": {"zone": "a"}}});
    let params = kube::api::PatchParams::default();
    nodes
        .patch("node", &params, &kube::api::Patch::Merge(&label))
        .await
        .unwrap();
    world
        .until_pod("p", "is ready", |it| condition(it, "Ready") == "True")
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_log_requests_are_refused_with_kubernetes_messages() {
    let world = World::new().await;
    world
        .site
        .apply("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: sh}, {name: b, image: sh}]}")
        .await;
    // Of a pod that is nowhere yet, other things are said.
    world
        .until_pod("p", "is on the node", |it| {
            it.spec.as_ref().is_some_and(|it| it.node_name.is_some())
        })
        .await;
    let refused = |path: &'static str| {
        let request = http::Request::get(format!("/api/v1/namespaces/default/pods/p/{path}"));
        let client = world.client();
        async move {
            let answer = client.request_text(request.body(vec![]).unwrap()).await;
            match answer {
                Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
                other => panic!("{other:?}"),
            }
        }
    };
    // Nobody has given the server this node's logs.
    assert_eq!(refused("log").await, (501, "NotImplemented".to_owned()));
    assert_eq!(refused("exec").await, (501, "NotImplemented".to_owned()));
    assert_eq!(refused("portforward").await, (501, "NotImplemented".to_owned()));
    let log = |container: Option<&str>| {
        let options = LogOptions {
            container: container.map(str::to_owned),
            ..LogOptions::default()
        };
        world
            .node
            .logs()
            .read("default", "p", &options)
            .err()
            .map(|it| it.to_string())
    };
    world
        .until_pod("p", "is seen by its node", |it| waits_for(it).is_some())
        .await;
    let choose = "a container name must be specified for pod p, choose one of: [a b]";
    assert_eq!(log(None).as_deref(), Some(choose));
    assert_eq!(log(Some("c")).as_deref(), Some("container c is not valid for pod p"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn every_pod_has_an_address_of_its_own() {
    let world = World::new().await;
    let dir = world.dir.path().display();
    let pod = |name: &str, spec: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{{spec}terminationGracePeriodSeconds: 0, containers: [{{name: c, \
             image: sh, command: [/bin/sh, -c, 'echo ${{POD_ADDRESS:-none}} $IP > {dir}/{name}; exec sleep 1000'], \
             env: [{{name: IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}], \
             readinessProbe: {{tcpSocket: {{port: 20256}}, periodSeconds: 1}}}}]}}"
        )
    };
    for (name, spec) in [("one", ""), ("two", ""), ("host", "hostNetwork: true, ")] {
        world.site.apply(&pod(name, spec)).await;
    }
    let mut addresses = Vec::new();
    for name in ["one", "two", "host"] {
        let pod = world.until_pod(name, "runs", |it| phase(it) == "Running").await;
        addresses.push(pod.status.unwrap().pod_ip.unwrap());
    }
    assert_ne!(addresses[0], addresses[1]);
    assert!(
        addresses[..2]
            .iter()
            .all(|it| it.starts_with("127.") && it != "127.0.0.1")
    );
    assert_eq!(addresses[2], "127.0.0.1");
    // A probe asks the pod that it is of: whoever listens at the address of the other does not make it ready.
    let _listens = tokio::net::TcpListener::bind((addresses[1].as_str(), 20256))
        .await
        .unwrap();
    world
        .until_pod("two", "is ready", |it| condition(it, "Ready") == "True")
        .await;
    let one = world.pods().get("one").await.unwrap();
    assert_eq!(condition(&one, "Ready"), "False");
    for (name, want) in [
        ("two", format!("{0} {0}", addresses[1])),
        ("host", "none 127.0.0.1".into()),
    ] {
        assert_eq!(world.until_file(name).await, want);
    }
    world.stop().await;
}
