use super::*;

/// Errors of an object after defaults, printed as in the message of a 422.
fn check(group: &str, kind: &str, mut new: Value, old: Option<Value>) -> Vec<String> {
    crate::builtin_defaults::default(group, kind, &mut new);
    let old = old.map(|mut it| {
        crate::builtin_defaults::default(group, kind, &mut it);
        it
    });
    let errors = validate(group, kind, &new, old.as_ref());
    errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
}

fn deployment() -> Value {
    json!({"spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

fn with(mut value: Value, pointer: &str, change: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    value.pointer_mut(parent).expect("exists")[key] = change;
    value
}

#[test]
fn good_objects_pass() {
    let table = [
        ("apps", "Deployment", deployment()),
        ("", "Service", json!({"spec": {"ports": [{"port": 80}]}})),
        ("", "Secret", json!({"data": {"a": "Yg=="}})),
        ("", "ConfigMap", json!({"data": {"a.b_c-d": ""}})),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 1}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}, {"kind": "Group", "name": "system:x"}]}),
        ),
        (
            "batch",
            "Job",
            json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
        ),
    ];
    for (group, kind, value) in table {
        assert_eq!(
            check(group, kind, value.clone(), None),
            Vec::<String>::new(),
            "{kind} {value}"
        );
    }
}

#[test]
fn bad_objects_are_told_in_the_words_of_kubernetes() {
    let rbac = "rbac.authorization.k8s.io";
    let table = [
        (
            "apps",
            "Deployment",
            with(deployment(), "/spec/template/metadata/labels", json!({"x": "y"})),
            "spec.template.metadata.labels: Invalid value: {\"x\":\"y\"}: `selector` does not match template `labels`",
        ),
        (
            "apps",
            "Deployment",
            with(
                deployment(),
                "/spec/strategy",
                json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            ),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "apps",
            "Deployment",
            with(deployment(), "/spec/replicas", json!(-1)),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "apps",
            "Deployment",
            with(
                deployment(),
                "/spec/template/spec/tolerations",
                json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]),
            ),
            "spec.template.spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/tls"}),
            "data[tls.crt]: Required value",
        ),
        (
            "",
            "ConfigMap",
            json!({"data": {"bad key!": "x"}}),
            "data[bad key!]: Invalid value: \"bad key!\": a valid config key must consist of",
        ),
        (
            "",
            "ConfigMap",
            json!({"data": {"a": "x".repeat(1048577)}}),
            "[]: Too long: may not be more than 1048576 bytes",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "",
            "Event",
            json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "other"}}),
            "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
        ),
        (
            rbac,
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["x"]}]}),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            rbac,
            "Role",
            json!({"rules": [{"apiGroups": [""], "verbs": ["x"]}]}),
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ),
        (
            rbac,
            "RoleBinding",
            json!({"roleRef": {"kind": "Foo", "name": "x"}}),
            "roleRef.kind: Unsupported value: \"Foo\": supported values: \"Role\", \"ClusterRole\"",
        ),
        (
            rbac,
            "ClusterRoleBinding",
            json!({"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
            "subjects[0].namespace: Required value",
        ),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
            "spec.ports[0].name: Required value",
        ),
    ];
    for (group, kind, value, want) in table {
        let found = check(group, kind, value, None);
        assert!(
            found.first().is_some_and(|it| it.starts_with(want)),
            "{kind}: wanted {want}, found {found:?}"
        );
    }
}

#[test]
fn what_is_immutable_stays() {
    let rbac = "rbac.authorization.k8s.io";
    let table = [
        (
            "apps",
            "Deployment",
            with(
                with(deployment(), "/spec/selector", json!({"matchLabels": {"a": "c"}})),
                "/spec/template/metadata/labels",
                json!({"a": "c"}),
            ),
            deployment(),
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        (
            "",
            "Secret",
            json!({"data": {"a": "Yg=="}, "immutable": true}),
            json!({"data": {"a": "Yw=="}, "immutable": true}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            "",
            "Secret",
            json!({"type": "x"}),
            json!({}),
            "type: Invalid value: \"x\": field is immutable",
        ),
        (
            rbac,
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "rz"}}),
            json!({"roleRef": {"kind": "Role", "name": "ra"}}),
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"rz\"}: cannot change roleRef",
        ),
        (
            "",
            "Service",
            json!({"spec": {"clusterIP": "10.0.0.2", "ports": [{"port": 80}]}}),
            json!({"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
        ),
    ];
    for (group, kind, new, old, want) in table {
        assert_eq!(check(group, kind, new, Some(old)), [want], "{kind}");
    }
}

#[test]
fn a_signing_request_needs_its_parts() {
    let group = "certificates.k8s.io";
    let pem = STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n");
    let good = json!({"spec": {"request": pem, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "expirationSeconds": 600}});
    assert_eq!(
        check(group, "CertificateSigningRequest", good.clone(), None),
        Vec::<String>::new()
    );
    let short = with(good.clone(), "/spec/expirationSeconds", json!(5));
    assert_eq!(
        check(group, "CertificateSigningRequest", short, None),
        ["spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)"]
    );
    let odd = check(
        group,
        "CertificateSigningRequest",
        with(good.clone(), "/spec/usages", json!(["magic"])),
        None,
    );
    assert!(
        odd[0].starts_with("spec.usages[0]: Unsupported value: \"magic\": supported values: \"any\", \"cert sign\""),
        "{odd:?}"
    );
    let none = check(
        group,
        "CertificateSigningRequest",
        with(good, "/spec/usages", json!([])),
        None,
    );
    assert_eq!(none, ["spec.usages: Required value"]);
}

#[test]
fn workloads_are_told_of_selectors_and_strategies_in_the_words_of_kubernetes() {
    let value = "must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let strange = json!({"matchLabels": {"a": "b c"}});
    let strategy = |it: Value| with(deployment(), "/spec/strategy", it);
    let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
                   validation is '[0-9]+%')";
    let expressions = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Foo"}]});
    let table = [
        (
            "Deployment",
            with(deployment(), "/spec/selector", strange.clone()),
            vec![
                format!("spec.selector.matchLabels: Invalid value: \"b c\": a valid label {value}"),
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b c\"}}: invalid label selector".to_owned(),
            ],
        ),
        (
            "StatefulSet",
            with(deployment(), "/spec/selector", strange),
            vec![
                format!("spec.selector.matchLabels: Invalid value: \"b c\": a valid label {value}"),
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b c\"}}".to_owned(),
            ],
        ),
        (
            "ReplicaSet",
            with(deployment(), "/spec/selector", expressions),
            vec![
                "spec.selector.matchExpressions[0].operator: Invalid value: \"Foo\": not a valid selector operator".to_owned(),
                "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Foo\"}],\"matchLabels\":{\"a\":\"b\"}}: \
                 invalid label selector"
                    .to_owned(),
            ],
        ),
        (
            "DaemonSet",
            with(deployment(), "/spec/selector", json!({})),
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for daemonset".to_owned()],
        ),
        (
            "DaemonSet",
            with(deployment(), "/spec/selector", json!(null)),
            vec![
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`".to_owned(),
            ],
        ),
        (
            "DaemonSet",
            with(deployment(), "/spec/updateStrategy", json!({"type": "X"})),
            vec![
                "spec.updateStrategy: Unsupported value: {\"Type\":\"X\",\"RollingUpdate\":null}: supported values: \"RollingUpdate\", \
                 \"OnDelete\""
                    .to_owned(),
            ],
        ),
        (
            "Deployment",
            strategy(json!({"type": "Foo"})),
            vec![
                "spec.strategy: Unsupported value: {\"Type\":\"Foo\",\"RollingUpdate\":null}: supported values: \"Recreate\", \
                 \"RollingUpdate\""
                    .to_owned(),
            ],
        ),
        (
            "Deployment",
            strategy(json!({"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "101%"}})),
            vec![
                format!("spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x%\": {percent}"),
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%".to_owned(),
            ],
        ),
        (
            "StatefulSet",
            with(deployment(), "/spec/updateStrategy", json!({"rollingUpdate": {"maxUnavailable": 0}})),
            vec![],
        ),
    ];
    for (kind, bad, want) in table {
        assert_eq!(check("apps", kind, bad, None), want, "{kind}");
    }
    // What was stored once may stay while something else changes.
    let old = with(deployment(), "/spec/template/spec/containers/0/image", json!(""));
    let new = with(old.clone(), "/spec/replicas", json!(2));
    assert_eq!(check("apps", "Deployment", new, Some(old)), Vec::<String>::new());
}

#[test]
fn workloads_are_told_what_they_cannot_do() {
    let claim = json!({"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let stateful = with(deployment(), "/spec/volumeClaimTemplates", json!([claim]));
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = |more: Value| {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": pod}});
        for (key, value) in more.as_object().expect("members") {
            job["spec"][key] = value.clone();
        }
        job
    };
    let indexed =
        json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3});
    for (group, kind, good) in [
        ("apps", "StatefulSet", stateful.clone()),
        (
            "apps",
            "StatefulSet",
            with(stateful.clone(), "/spec/updateStrategy", json!({"type": "OnDelete"})),
        ),
        ("apps", "DaemonSet", deployment()),
        (
            "apps",
            "Deployment",
            with(deployment(), "/spec/minReadySeconds", json!(599)),
        ),
        ("batch", "Job", job(indexed)),
        (
            "batch",
            "Job",
            job(json!({"completionMode": "NonIndexed", "managedBy": "ex.io/m", "podReplacementPolicy": "Failed"})),
        ),
    ] {
        assert_eq!(
            check(group, kind, good.clone(), None),
            Vec::<String>::new(),
            "{kind} {good}"
        );
    }
    for (group, kind, bad, want) in [
        (
            "apps",
            "Deployment",
            with(deployment(), "/spec/minReadySeconds", json!(600)),
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ),
        (
            "apps",
            "Deployment",
            with(deployment(), "/spec/template/spec/activeDeadlineSeconds", json!(5)),
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
        ),
        (
            "apps",
            "StatefulSet",
            with(stateful.clone(), "/spec/updateStrategy", json!({"type": "X"})),
            "spec.updateStrategy: Invalid value: {\"Type\":\"X\",\"RollingUpdate\":null}: must be 'RollingUpdate' or 'OnDelete'",
        ),
        (
            "apps",
            "StatefulSet",
            with(
                stateful,
                "/spec/updateStrategy",
                json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            ),
            "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy \
             'RollingUpdate'",
        ),
        (
            "batch",
            "Job",
            job(json!({"completionMode": "X"})),
            "spec.completionMode: Unsupported value: \"X\": supported values: \"NonIndexed\", \"Indexed\"",
        ),
        (
            "batch",
            "Job",
            job(json!({"managedBy": "x"})),
            "spec.managedBy: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
    ] {
        assert_eq!(check(group, kind, bad, None), [want], "{kind}");
    }
}

#[test]
fn services_are_told_where_they_are_reached() {
    let service = |more: Value| {
        let mut service = json!({"spec": {"ports": [{"port": 80}]}});
        for (key, value) in more.as_object().expect("members") {
            service["spec"][key] = value.clone();
        }
        service
    };
    for good in [
        json!({"type": "NodePort", "externalTrafficPolicy": "Local"}),
        json!({"externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "Local"}),
        json!({"trafficDistribution": "PreferClose", "internalTrafficPolicy": "Local", "ipFamilyPolicy": "PreferDualStack"}),
        json!({"ports": [{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]}),
        json!({"type": "ExternalName", "externalName": "a.example."}),
        json!({"clusterIP": "None"}),
        json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}),
    ] {
        assert_eq!(
            check("", "Service", service(good.clone()), None),
            Vec::<String>::new(),
            "{good}"
        );
    }
    for (bad, want) in [
        (
            json!({"internalTrafficPolicy": "X"}),
            "spec.internalTrafficPolicy: Unsupported value: \"X\": supported values: \"Cluster\", \"Local\"",
        ),
        (
            json!({"type": "NodePort", "clusterIP": "None"}),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            json!({"type": "ExternalName", "externalName": "a", "clusterIP": "10.0.0.9"}),
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
        (
            json!({"externalIPs": ["127.0.0.1"]}),
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            json!({"ports": [{"port": 80, "appProtocol": "a b"}]}),
            "spec.ports[0].appProtocol: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ] {
        assert_eq!(check("", "Service", service(bad), None), [want]);
    }
}

#[test]
fn what_pulls_images_is_an_object_of_json() {
    let secret = |text: &str| {
        let data = json!({".dockerconfigjson": STANDARD.encode(text)});
        check(
            "",
            "Secret",
            json!({"type": "kubernetes.io/dockerconfigjson", "data": data}),
            None,
        )
    };
    let want = |why: &str| {
        [format!(
            "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": {why}"
        )]
    };
    assert_eq!(secret("{}"), Vec::<String>::new());
    assert_eq!(
        secret("x"),
        want("invalid character 'x' looking for beginning of value")
    );
    assert_eq!(secret("{"), want("unexpected end of JSON input"));
    assert_eq!(
        secret("[]"),
        want("json: cannot unmarshal array into Go value of type map[string]interface {}")
    );
}

#[test]
fn roles_and_their_makers_select_by_valid_labels() {
    let rbac = "rbac.authorization.k8s.io";
    let aggregated = |selector: Value| {
        let rule = json!({"aggregationRule": {"clusterRoleSelectors": [selector]}});
        check(rbac, "ClusterRole", rule, None)
    };
    assert_eq!(aggregated(json!({})), Vec::<String>::new());
    assert_eq!(
        aggregated(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
        [
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when `operator` is \
             'In' or 'NotIn'",
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
        ]
    );
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]});
    assert_eq!(
        check(rbac, "Role", json!({"rules": [rule]}), None),
        [
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
        ]
    );
    assert_eq!(
        check(rbac, "RoleBinding", json!({}), None),
        [
            "roleRef.kind: Unsupported value: \"\": supported values: \"Role\", \"ClusterRole\"",
            "roleRef.name: Required value",
        ]
    );
}

#[test]
fn a_priority_class_preempts_or_does_not() {
    let class = |policy: &str| json!({"metadata": {"name": "c"}, "value": 1, "preemptionPolicy": policy});
    let told = |new: Value, old| check("scheduling.k8s.io", "PriorityClass", new, old);
    assert_eq!(told(class("Never"), None), Vec::<String>::new());
    let want = ["preemptionPolicy: Unsupported value: \"X\": supported values: \"PreemptLowerPriority\", \"Never\""];
    assert_eq!(told(class("X"), None), want);
    assert_eq!(told(class("X"), Some(class("X"))), Vec::<String>::new());
    let want = ["preemptionPolicy: Invalid value: \"Never\": field is immutable"];
    assert_eq!(told(class("Never"), Some(class("X"))), want);
}

#[test]
fn a_policy_takes_parameters_of_a_kind_that_can_be() {
    let policy = |kind: Value| {
        let constraints = json!({"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]});
        let spec = json!({"paramKind": kind, "matchConstraints": constraints, "validations": [{"expression": "true"}]});
        let whole = json!({"metadata": {"name": "p"}, "spec": spec});
        check("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", whole, None)
    };
    assert_eq!(
        policy(json!({"apiVersion": "ex.io/v1", "kind": "Limit"})),
        Vec::<String>::new()
    );
    assert_eq!(
        policy(json!({"apiVersion": "a/b/c", "kind": "Limit"})),
        ["spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"]
    );
    assert_eq!(
        policy(json!({"apiVersion": "ex.io/"})),
        [
            "spec.paramKind.apiVersion: Invalid value: \"ex.io/\": version must be specified",
            "spec.paramKind.kind: Required value",
        ]
    );
    assert_eq!(policy(json!({"apiVersion": "v1", "kind": "a b"})).len(), 1);
}

#[test]
fn a_binding_names_its_parameters_or_selects_them() {
    let binding = |more: Value| {
        let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
        for (key, value) in more.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        let whole = json!({"spec": spec});
        check(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            whole,
            None,
        )
    };
    let selects = json!({"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Allow"});
    assert_eq!(binding(json!({"paramRef": selects})), Vec::<String>::new());
    assert_eq!(
        binding(json!({"paramRef": {"name": "x", "selector": {}, "parameterNotFoundAction": "X"}})),
        [
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.parameterNotFoundAction: Unsupported value: \"X\": supported values: \"Deny\", \"Allow\"",
        ]
    );
    assert_eq!(
        binding(json!({"validationActions": []})),
        ["spec.validationActions: Required value: at least one validation action is required"]
    );
    assert_eq!(binding(json!({"policyName": "A_"})).len(), 1);
}

#[test]
fn a_webhook_says_versions_and_labels_that_can_be() {
    let told = |more: Value| {
        let mut webhook = json!({"name": "a.b.c", "clientConfig": {"url": "https://x"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"]});
        for (key, value) in more.as_object().expect("an object") {
            webhook[key] = value.clone();
        }
        let whole = json!({"webhooks": [webhook]});
        check(
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            whole,
            None,
        )
    };
    assert_eq!(told(json!({})), Vec::<String>::new());
    assert_eq!(told(json!({"admissionReviewVersions": ["v1", "V_"]})).len(), 1);
    assert_eq!(
        told(json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "X"}]}})),
        [
            "webhooks[0].objectSelector.matchExpressions[0].operator: Invalid value: \"X\": not a valid selector operator"
        ]
    );
    assert_eq!(
        told(json!({"matchConditions": [{"name": "", "expression": ""}]})),
        [
            "webhooks[0].matchConditions[0].expression: Required value",
            "webhooks[0].matchConditions[0].name: Required value",
        ]
    );
    // As upstream takes the one for the other.
    assert_eq!(
        told(json!({"clientConfig": {"service": {"name": "s"}}})),
        ["webhooks[0].clientConfig.service.name: Required value"]
    );
}
