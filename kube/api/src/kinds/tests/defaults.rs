use crate::kinds::default;
use serde_json::{Value, json};

fn defaulted(group: &str, kind: &str, mut value: Value) -> Value {
    default(group, kind, &mut value);
    let once = value.clone();
    default(group, kind, &mut value);
    assert_eq!(value, once, "defaults of {kind} are idempotent");
    value
}

#[test]
fn a_deployment_is_answered_as_kubernetes_answers_it() {
    let found = defaulted(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
            "serviceAccountName": "sa",
        }}}}),
    );
    let want = json!({
        "spec": {
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{
                    "name": "c", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}],
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
                "schedulerName": "default-scheduler", "securityContext": {}, "serviceAccountName": "sa", "serviceAccount": "sa",
            }},
        },
        "status": {},
    });
    assert_eq!(found, want);
}

#[test]
fn string_data_moves_into_data() {
    let found = defaulted(
        "",
        "Secret",
        json!({"data": {"a": "b2xk"}, "stringData": {"a": "new", "b": "x"}}),
    );
    assert_eq!(found, json!({"data": {"a": "bmV3", "b": "eA=="}, "type": "Opaque"}));
}

#[test]
fn services_get_what_needs_no_allocation() {
    let table = [
        (
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            }),
        ),
        (
            json!({"spec": {"type": "ExternalName", "externalName": "x.y"}}),
            json!({"type": "ExternalName", "externalName": "x.y", "sessionAffinity": "None"}),
        ),
        (
            json!({"spec": {"clusterIP": "None"}}),
            json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4", "IPv6"],
                "ipFamilyPolicy": "RequireDualStack", "clusterIP": "None", "clusterIPs": ["None"],
            }),
        ),
    ];
    for (value, want) in table {
        let found = defaulted("", "Service", value);
        assert_eq!(found["spec"], want);
        assert_eq!(found["status"], json!({"loadBalancer": {}}));
    }
}

#[test]
fn bindings_name_their_group() {
    let found = defaulted(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
    );
    assert_eq!(
        found,
        json!({
            "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount", "name": "s"}],
        })
    );
}

#[test]
fn webhooks_match_everything_unless_told_otherwise() {
    let found = defaulted(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{"name": "w", "rules": [{}], "clientConfig": {"service": {"name": "s"}}}]}),
    );
    assert_eq!(
        found["webhooks"][0],
        json!({
            "name": "w", "failurePolicy": "Fail", "timeoutSeconds": 10, "matchPolicy": "Equivalent", "namespaceSelector": {},
            "objectSelector": {}, "reinvocationPolicy": "Never", "rules": [{"scope": "*"}],
            "clientConfig": {"service": {"name": "s", "port": 443}},
        })
    );
}

#[test]
fn a_job_with_a_uid_selects_its_own_pods() {
    let found = defaulted("batch", "Job", json!({"metadata": {"name": "j", "uid": "u"}}));
    assert_eq!(
        found["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"],
        "u"
    );
    assert_eq!(found["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    assert_eq!(
        (
            found["spec"]["completions"].as_i64(),
            found["spec"]["backoffLimit"].as_i64()
        ),
        (Some(1), Some(6))
    );
    assert_eq!(found["metadata"]["labels"]["job-name"], "j");
}

#[test]
fn a_job_keeps_what_is_said_of_its_pods() {
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "podFailurePolicy": {"rules": [{"onPodConditions": [{"type": "X"}]}]}});
    let found = defaulted(
        "batch",
        "Job",
        json!({"metadata": {"name": "j", "uid": "u"}, "spec": spec}),
    );
    assert_eq!(
        found["spec"]["selector"]["matchLabels"],
        json!({"a": "b", "batch.kubernetes.io/controller-uid": "u"})
    );
    assert_eq!(
        found["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"],
        json!([{"type": "X", "status": "True"}])
    );
    let found = defaulted(
        "batch",
        "CronJob",
        json!({"spec": {"jobTemplate": {"spec": {"podFailurePolicy": {}}}}}),
    );
    assert_eq!(
        found["spec"]["jobTemplate"]["spec"]["podFailurePolicy"],
        json!({"rules": null})
    );
}

#[test]
fn a_pod_that_always_has_what_it_asks_for_is_guaranteed() {
    let quality = |containers: Value| {
        let found = defaulted("", "Pod", json!({"spec": {"containers": containers}}));
        found["status"]["qosClass"].clone()
    };
    let limits = |it: Value| json!({"resources": {"limits": it}});
    assert_eq!(quality(json!([{}])), "BestEffort");
    // Nothing of a resource is the same as not naming it.
    assert_eq!(quality(json!([limits(json!({"cpu": "0"}))])), "BestEffort");
    let both = limits(json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(quality(json!([both])), "Guaranteed");
    assert_eq!(quality(json!([both, {}])), "Burstable");
}

#[test]
fn the_address_of_a_pod_is_the_first_of_its_addresses() {
    let addresses = |status: Value| {
        let found = defaulted("", "Pod", json!({"spec": {}, "status": status}));
        (found["status"]["podIP"].clone(), found["status"]["podIPs"].clone())
    };
    let (one, two) = (json!([{"ip": "1.1.1.1"}]), json!([{"ip": "1.1.1.1"}, {"ip": "::1"}]));
    assert_eq!(addresses(json!({})), (json!(null), json!(null)));
    assert_eq!(addresses(json!({"podIP": "1.1.1.1"})), (json!("1.1.1.1"), one.clone()));
    assert_eq!(addresses(json!({"podIPs": two})), (json!("1.1.1.1"), two.clone()));
    assert_eq!(
        addresses(json!({"podIP": "1.1.1.1", "podIPs": two})),
        (json!("1.1.1.1"), two)
    );
    let other = json!({"podIP": "1.1.1.1", "podIPs": [{"ip": "2.2.2.2"}]});
    assert_eq!(addresses(other), (json!("1.1.1.1"), one));
}

#[test]
fn every_defaulted_kind_still_decodes_and_stays_the_same() {
    for (group, version, kind) in crate::builtin_schemas::kinds().filter(|it| it.2 != "DeleteOptions") {
        let schema = crate::builtin_schemas::schema(group, version, kind).expect("listed");
        let api_version = crate::group_version::api_version(group, version);
        let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        default(group, kind, &mut value);
        let mut again = value.clone();
        let unknown = kube_store::schema::decode::decode(&mut again, &schema, kind);
        assert_eq!(unknown, Ok(vec![]), "{kind}: {value}");
        default(group, kind, &mut again);
        assert_eq!(again, value, "{kind}");
    }
}

#[test]
fn a_node_made_by_hand_says_that_it_knows_nothing() {
    let found = defaulted(
        "",
        "Node",
        json!({"spec": {"podCIDR": "10.0.0.0/24"}, "status": {
            "capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}}),
    );
    assert_eq!(
        found["spec"],
        json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]})
    );
    let status = &found["status"];
    assert_eq!(status["allocatable"], json!({"cpu": "4"}));
    let condition = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null});
    assert_eq!(status["conditions"], json!([condition]));
    assert_eq!(status["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    let info = &status["nodeInfo"];
    assert_eq!(
        (&info["kubeletVersion"], &info["machineID"]),
        (&json!("v1"), &json!(""))
    );
    let ranges = |spec: Value| defaulted("", "Node", json!({"spec": spec}))["spec"].clone();
    assert_eq!(
        ranges(json!({"podCIDRs": ["a", "b"]})),
        json!({"podCIDR": "a", "podCIDRs": ["a", "b"]})
    );
    assert_eq!(
        ranges(json!({"podCIDR": "c", "podCIDRs": ["a", "b"]})),
        json!({"podCIDR": "c", "podCIDRs": ["c"]})
    );
}
