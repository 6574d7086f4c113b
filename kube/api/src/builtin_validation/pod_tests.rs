//! Pods as charts write them, right and wrong.

use super::*;

/// Errors of a pod after defaults, whose spec has these members more, and whose container has those.
fn wrong(spec: Value, container: Value) -> Vec<String> {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (target, more) in [("/spec", spec), ("/spec/containers/0", container)] {
        for (key, value) in more.as_object().expect("members") {
            pod.pointer_mut(target).expect("is there")[key] = value.clone();
        }
    }
    crate::builtin_defaults::default("", "Pod", &mut pod);
    let errors = validate("", "Pod", &pod, None);
    errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
}

#[test]
fn what_a_pod_may_not_say_is_told_in_the_words_of_kubernetes() {
    let table = [
        (
            json!({"securityContext": {"supplementalGroupsPolicy": "X"}}),
            "spec.securityContext.supplementalGroupsPolicy: Unsupported value: \"X\": supported values: \"Merge\", \"Strict\"",
        ),
        (
            json!({"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "-1"}}]}),
            "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
        ),
        (
            json!({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
    ];
    for (spec, want) in table {
        assert_eq!(wrong(spec.clone(), json!({})), [want], "{spec}");
    }
}

#[test]
fn a_pod_that_uses_everything_passes() {
    let selector =
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}], "matchLabels": {"ex.io/x": ""}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaces": ["default"], "namespaceSelector": {}});
    let spec = json!({
        "volumes": [
            {"name": "a", "hostPath": {"path": "/var/..x", "type": ""}},
            {"name": "b", "configMap": {"name": "x", "defaultMode": 0o644, "optional": true, "items": [{"key": "k", "path": "a/b", "mode": 0}]}},
            {"name": "c", "secret": {"secretName": "x", "items": [{"key": "k", "path": "a..b"}]}},
            {"name": "d", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ]}},
            {"name": "e", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "one", "fieldRef": {"fieldPath": "metadata.annotations['ex.io/Some']"}},
                {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}},
            ]}},
            {"name": "f", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "g", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}}},
            {"name": "h", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}},
            {"name": "i", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": true}},
            {"name": "j", "nfs": {"server": "s", "path": "/"}},
            {"name": "k"},
        ],
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
            {"key": "a", "value": ""},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2, "labelSelector": selector},
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}, {"key": "b", "operator": "Exists"}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n.x"]}]},
                ]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": {"matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["not a label"]},
                ]}}],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
        },
        "securityContext": {
            "runAsUser": 0, "runAsGroup": 65534, "fsGroup": 2147483647, "supplementalGroups": [1], "fsGroupChangePolicy": "OnRootMismatch",
            "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1"}, {"name": "net/ipv4.x", "value": "1"}],
            "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "x"},
        },
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.1.1.1", "::1"], "searches": ["a.b.", ".", "_tcp.x_y"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a.b", "c"]}],
        "nodeSelector": {"kubernetes.io/os": "linux", "x": ""},
        "hostname": "h", "subdomain": "s", "activeDeadlineSeconds": 1, "os": {"name": "linux"}, "nodeName": "n.x",
        "readinessGates": [{"conditionType": "ex.io/ready"}], "imagePullSecrets": [{"name": "x"}, {}],
        "initContainers": [
            {"name": "i1", "image": "i", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 80}]},
            {"name": "i2", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]},
        ],
        "shareProcessNamespace": true,
    });
    let container = json!({
        "env": [
            {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            {"name": "c", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
            {"name": "d", "valueFrom": {"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "0"}}},
            {"name": "e", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "a.b_c", "optional": true}}},
            {"name": "f", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}},
        ],
        "envFrom": [{"prefix": "A_", "configMapRef": {"name": "x"}}, {"secretRef": {"name": "y", "optional": true}}],
        "volumeMounts": [
            {"name": "a", "mountPath": "/a", "subPath": "x/..y", "mountPropagation": "HostToContainer"},
            {"name": "b", "mountPath": "/b", "subPathExpr": "$(A)", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "g", "mountPath": "/c"},
        ],
        "volumeDevices": [{"name": "f", "devicePath": "/dev/x"}],
        "ports": [
            {"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"},
            {"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}, {"containerPort": 81}, {"containerPort": 81},
        ],
        "securityContext": {
            "privileged": false, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            "runAsUser": 1, "procMount": "Default", "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
        },
        "resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "10m"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    });
    assert_eq!(wrong(spec, container), Vec::<String>::new());
    let network = json!({"hostNetwork": true, "hostUsers": true});
    let container = json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]});
    assert_eq!(wrong(network, container), Vec::<String>::new());
    let privileged = json!({"securityContext": {"privileged": true}, "volumeMounts": [
        {"name": "a", "mountPath": "/a", "mountPropagation": "Bidirectional"},
    ]});
    let volume = json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]});
    assert_eq!(wrong(volume, privileged), Vec::<String>::new());
}

#[test]
fn what_a_container_refers_to_is_told_in_the_words_of_kubernetes() {
    let from = |source: Value| json!({"env": [{"name": "a", "valueFrom": source}]});
    let at = "spec.containers[0].env[0].valueFrom";
    let table = [
        (
            from(json!({"fieldRef": {"fieldPath": "spec.foo"}})),
            vec![format!(
                "{at}.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting fieldPath: field label not supported: spec.foo"
            )],
        ),
        (
            from(json!({"fieldRef": {"fieldPath": "metadata.labels"}})),
            vec![format!(
                "{at}.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \
                 \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \
                 \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""
            )],
        ),
        (
            from(json!({"resourceFieldRef": {"resource": "limits.foo"}})),
            vec![format!(
                "{at}.resourceFieldRef.resource: Unsupported value: \"limits.foo\": supported values: \"limits.cpu\", \
                 \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \"requests.memory\""
            )],
        ),
        (
            from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}})),
            vec![format!(
                "{at}.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
            )],
        ),
        (
            from(json!({"configMapKeyRef": {"name": "x", "key": ""}})),
            vec![format!("{at}.configMapKeyRef.key: Required value")],
        ),
        (
            json!({"envFrom": [{}]}),
            vec![
                "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"
                    .to_owned(),
            ],
        ),
        (
            json!({"envFrom": [{"prefix": "1=", "configMapRef": {"name": ""}}]}),
            vec![
                "spec.containers[0].envFrom[0].prefix: Invalid value: \"1=\": a valid environment variable name must consist only of \
                 printable ASCII characters other than '='"
                    .to_owned(),
                "spec.containers[0].envFrom[0].configMapRef.name: Required value".to_owned(),
            ],
        ),
        (
            json!({"restartPolicy": "Foo"}),
            vec![
                "spec.containers[0].restartPolicy: Unsupported value: \"Foo\": supported values: \"Always\", \"Never\", \"OnFailure\""
                    .to_owned(),
            ],
        ),
    ];
    for (container, want) in table {
        assert_eq!(wrong(json!({}), container), want);
    }
    let volumes = json!({"volumes": [{"name": "a", "emptyDir": {}}]});
    let mounts = json!({"volumeMounts": [{"name": "a", "mountPath": "x", "subPath": "../a", "subPathExpr": "b"}]});
    assert_eq!(
        wrong(volumes, mounts),
        [
            "spec.containers[0].volumeMounts.subPath: Invalid value: \"../a\": must not contain '..'",
            "spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: \"b\": subPathExpr and subPath are mutually exclusive",
        ]
    );
}

#[test]
fn what_is_wrong_with_a_volume_is_told_in_the_words_of_kubernetes() {
    let table = [
        (
            json!({"hostPath": {"path": "/a/../b"}}),
            vec!["hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            json!({"hostPath": {"path": "", "type": "X"}}),
            vec!["hostPath.path: Required value"],
        ),
        (
            json!({"configMap": {"name": "", "items": [{"key": "", "path": "/abs"}], "defaultMode": 1000}}),
            vec![
                "configMap.name: Required value",
                "configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive",
                "configMap.items[0].key: Required value",
                "configMap.items[0].path: Invalid value: \"/abs\": must be a relative path",
            ],
        ),
        (
            json!({"secret": {"secretName": "", "items": [{"key": "a", "path": "../x", "mode": 999}]}}),
            vec![
                "secret.secretName: Required value",
                "secret.items[0].path: Invalid value: \"../x\": must not contain '..'",
                "secret.items[0].mode: Invalid value: 999: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 5}}]}}),
            vec![
                "projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                "projected.path: Required value",
            ],
        ),
        (
            json!({"projected": {"sources": [
                {"configMap": {"name": "a", "items": [{"key": "a", "path": "x"}]}},
                {"configMap": {"name": "b", "items": [{"key": "a", "path": "x"}]}},
            ]}}),
            vec!["projected: Invalid value: \"b\": conflicting duplicate paths"],
        ),
        (
            json!({"downwardAPI": {"items": [{"path": ""}]}}),
            vec![
                "downwardAPI.path: Required value",
                "downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ],
        ),
        // What the published schema says of those that nothing mounts.
        (
            json!({"persistentVolumeClaim": {"claimName": ""}}),
            vec!["persistentVolumeClaim.claimName: Required value"],
        ),
        (
            json!({"nfs": {"server": "", "path": "x"}}),
            vec!["nfs.server: Required value"],
        ),
    ];
    for (mut volume, want) in table {
        volume["name"] = json!("a");
        let want: Vec<_> = want.iter().map(|it| format!("spec.volumes[0].{it}")).collect();
        assert_eq!(wrong(json!({"volumes": [volume]}), json!({})), want);
    }
}

#[test]
fn what_is_wrong_with_a_pod_is_told_in_the_words_of_kubernetes() {
    let required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let node = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let table = [
        (
            json!({"dnsPolicy": "X"}),
            vec![
                "dnsPolicy: Unsupported value: \"X\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\""
                    .to_owned(),
            ],
        ),
        (
            json!({"activeDeadlineSeconds": -1}),
            vec![
                "activeDeadlineSeconds: Invalid value: -1: must be between 1 and 2147483647, inclusive".to_owned(),
            ],
        ),
        (
            json!({"tolerations": [{"operator": "Exists", "value": "x"}]}),
            vec![
                "tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"
                    .to_owned(),
            ],
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Foo", "effect": "X"}]}),
            vec![
                "tolerations[0].operator: Unsupported value: \"Foo\": supported values: \"Equal\", \"Exists\"".to_owned(),
                "tolerations[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
                    .to_owned(),
            ],
        ),
        (
            node(json!([])),
            vec![format!("{required}: Required value: must have at least one node selector term")],
        ),
        (
            node(json!([{"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "X"}],
                "matchFields": [{"key": "metadata.foo", "operator": "In", "values": []}]}])),
            vec![
                format!("{required}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
                format!("{required}[0].matchExpressions[1].operator: Invalid value: \"X\": not a valid selector operator"),
                format!(
                    "{required}[0].matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node \
                     field selector"
                ),
                format!("{required}[0].matchFields[0].key: Invalid value: \"metadata.foo\": not a valid field selector key"),
            ],
        ),
        (
            json!({"schedulingGates": [{"name": "x/y"}, {"name": "x/y"}]}),
            vec!["schedulingGates[1]: Duplicate value: \"x/y\"".to_owned()],
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "x"}]}),
            vec!["ephemeralContainers: Forbidden: cannot be set on create".to_owned()],
        ),
        (
            json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"}),
            vec!["nodeName: Forbidden: cannot be set until all schedulingGates have been cleared".to_owned()],
        ),
    ];
    for (spec, want) in table {
        let want: Vec<_> = want.iter().map(|it| format!("spec.{it}")).collect();
        assert_eq!(wrong(spec, json!({})), want);
    }
    for name in [
        json!({"hostname": "A.b"}),
        json!({"subdomain": "-"}),
        json!({"nodeName": "A B"}),
    ] {
        assert_eq!(wrong(name, json!({})).len(), 1);
    }
    assert_eq!(wrong(json!({"nodeSelector": {"a b": "c d"}}), json!({})).len(), 2);
}

#[test]
fn taints_are_told_apart() {
    let node = |taints: Value| {
        let errors = validate("", "Node", &json!({"spec": {"taints": taints}}), None);
        errors
            .iter()
            .map(|it| format!("{}: {}", it.field, it.detail))
            .collect::<Vec<_>>()
    };
    let one = json!({"key": "a", "effect": "NoSchedule"});
    assert_eq!(
        node(json!([one, {"key": "a", "effect": "NoExecute"}])),
        Vec::<String>::new()
    );
    assert_eq!(
        node(json!([one, one])),
        [
            "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be \
             unique by key and effect pair"
        ]
    );
    assert_eq!(
        node(json!([{"key": "a"}])),
        ["metadata.taints[0].effect: Required value"]
    );
}
