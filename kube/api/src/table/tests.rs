use super::*;
use serde_json::json;

fn built_in(group: &str, resource: &str) -> Printer {
    let registry = crate::kinds::registry();
    let found = registry.group(group).and_then(|it| it.get(resource));
    found.expect("a built-in resource").versions[0].printer.clone()
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// Columns as `NAME[:type]`, with `*` for wide ones.
fn headings(printer: &Printer) -> Vec<String> {
    let heading = |it: &Column| {
        let ty = if it.ty == "string" {
            String::new()
        } else {
            format!(":{}", it.ty)
        };
        format!("{}{ty}{}", it.name, if it.priority > 0 { "*" } else { "" })
    };
    printer.columns().iter().map(heading).collect()
}

#[test]
fn the_age_of_what_has_no_time_is_said_so() {
    assert_eq!(duration::since(None, now()), "<unknown>");
    assert_eq!(duration::since(Some("yesterday"), now()), "<invalid>");
}

#[test]
fn built_in_kinds_print_what_kubernetes_prints() {
    let meta = json!({"name": "a", "namespace": "n", "creationTimestamp": "2026-11-21T11:55:00Z"});
    let pod_template = json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let table = [
        (
            "",
            "configmaps",
            json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}),
            json!(["a", 3, "5m"]),
        ),
        (
            "",
            "secrets",
            json!({"type": "Opaque", "data": {"a": ""}}),
            json!(["a", "Opaque", 1, "5m"]),
        ),
        ("", "serviceaccounts", json!({}), json!(["a", "5m"])),
        (
            "",
            "namespaces",
            json!({"status": {"phase": "Active"}}),
            json!(["a", "Active", "5m"]),
        ),
        (
            "",
            "nodes",
            json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}}),
            json!([
                "a",
                "Ready,SchedulingDisabled",
                "<none>",
                "5m",
                "v1.36.0",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "",
            "services",
            json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]}}),
            json!([
                "a",
                "ClusterIP",
                "10.0.0.1",
                "<none>",
                "80/TCP,53:30053/UDP",
                "5m",
                "<none>"
            ]),
        ),
        (
            "",
            "services",
            json!({"spec": {"type": "LoadBalancer", "clusterIP": "None", "selector": {"b": "2", "a": "1"}}}),
            json!(["a", "LoadBalancer", "None", "<pending>", "<none>", "5m", "a=1,b=2"]),
        ),
        (
            "apps",
            "deployments",
            json!({"spec": {"replicas": 3, "selector": selector, "template": pod_template}, "status": {"readyReplicas": 1, "updatedReplicas": 2}}),
            json!(["a", "1/3", 2, 0, "5m", "c,d", "i,j", "app=a"]),
        ),
        (
            "apps",
            "replicasets",
            json!({"spec": {"replicas": 2, "selector": selector, "template": pod_template}, "status": {"replicas": 1}}),
            json!(["a", 2, 1, 0, "5m", "c,d", "i,j", "app=a"]),
        ),
        (
            "apps",
            "statefulsets",
            json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}),
            json!(["a", "2/2", "5m", "", ""]),
        ),
        (
            "batch",
            "jobs",
            json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2026-11-21T11:58:00Z"}}),
            json!(["a", "Running", "1/2", "2m", "5m", "", "", "<none>"]),
        ),
        (
            "batch",
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "suspend": false}, "status": {"active": [{}]}}),
            json!(["a", "* * * * *", "<none>", "False", 1, "<none>", "5m", "", "", "<none>"]),
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600}, "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}}),
            json!(["a", "5m", "s", "u", "60m", "Approved,Issued"]),
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            json!({}),
            json!(["a", "5m", "<none>", "", "<none>", "Pending"]),
        ),
        (
            "coordination.k8s.io",
            "leases",
            json!({"spec": {"holderIdentity": "h"}}),
            json!(["a", "h", "5m"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            json!({"roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ]}),
            json!(["a", "ClusterRole/admin", "5m", "u, v", "g", "n/s"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterroles",
            json!({}),
            json!(["a", "2026-11-21T11:55:00Z"]),
        ),
        (
            "",
            "events",
            json!({"involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R", "message": " m\n", "count": 0,
                "firstTimestamp": "2026-11-21T11:00:00Z", "lastTimestamp": "2026-11-21T11:59:00Z", "source": {"component": "c", "host": "h"}}),
            json!(["60s", "Normal", "R", "pod/p", "", "c, h", "m", "60m", 1, "a"]),
        ),
        (
            "events.k8s.io",
            "events",
            json!({"regarding": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R", "note": "m", "eventTime": "2026-11-21T11:59:00.000000Z",
                "reportingController": "c", "series": {"count": 7, "lastObservedTime": "2026-11-21T11:59:50.000000Z"}}),
            json!(["10s", "Normal", "R", "pod/p", "", "c", "m", "60s", 7, "a"]),
        ),
        (
            "networking.k8s.io",
            "ingresses",
            json!({"spec": {"rules": [{"host": "x"}], "tls": [{}]}}),
            json!(["a", "<none>", "x", "", "80, 443", "5m"]),
        ),
        (
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%"}}),
            json!(["a", "50%", "N/A", 0, "5m"]),
        ),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            json!({"webhooks": [{}, {}]}),
            json!(["a", 2, "5m"]),
        ),
        (
            "apiregistration.k8s.io",
            "apiservices",
            json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}}),
            json!(["a", "Local", "True", "5m"]),
        ),
    ];
    for (group, resource, mut object, expected) in table {
        object["metadata"] = meta.clone();
        let printer = built_in(group, resource);
        assert_eq!(
            Value::from(printer.cells(&object, now())),
            expected,
            "{group}/{resource} {object}"
        );
    }
}

#[test]
fn the_default_class_of_ingresses_is_shown_as_such() {
    let class = json!({
        "metadata": {"name": "a", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "ex.io/c"},
    });
    let cells = built_in("networking.k8s.io", "ingressclasses").cells(&class, now());
    assert_eq!(cells[0], "a (default)");
}

#[test]
fn every_built_in_kind_has_a_cell_for_each_column_even_when_the_object_is_empty() {
    let registry = crate::kinds::registry();
    for resource in registry.resources() {
        let printer = &resource.versions[0].printer;
        assert_eq!(
            printer.cells(&json!({}), now()).len(),
            printer.columns().len(),
            "{}",
            resource.id
        );
    }
    let empty = built_in("", "configmaps").cells(&json!({}), now());
    assert_eq!(empty, [json!(""), json!(0), json!("<unknown>")]);
}

#[test]
fn columns_have_the_types_and_priorities_of_kubernetes() {
    let table = [
        ("", "configmaps", vec!["Name", "Data", "Age"]),
        (
            "apps",
            "deployments",
            vec![
                "Name",
                "Ready",
                "Up-to-date",
                "Available",
                "Age",
                "Containers*",
                "Images*",
                "Selector*",
            ],
        ),
        (
            "apps",
            "replicasets",
            vec![
                "Name",
                "Desired:integer",
                "Current:integer",
                "Ready:integer",
                "Age",
                "Containers*",
                "Images*",
                "Selector*",
            ],
        ),
        (
            "",
            "services",
            vec![
                "Name",
                "Type",
                "Cluster-IP",
                "External-IP",
                "Port(s)",
                "Age",
                "Selector*",
            ],
        ),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            vec!["Name", "Created At:date"],
        ),
        (
            "",
            "events",
            vec![
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject*",
                "Source*",
                "Message",
                "First Seen*",
                "Count*",
                "Name*",
            ],
        ),
    ];
    for (group, resource, expected) in table {
        assert_eq!(headings(&built_in(group, resource)), expected, "{group}/{resource}");
    }
    assert_eq!(built_in("", "secrets").columns()[0].format, "name");
}

#[test]
fn a_pod_is_told_in_one_word() {
    let running = json!({"state": {"running": {}}, "ready": true, "restartCount": 0});
    let crashing = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4,
        "lastState": {"terminated": {"finishedAt": "2026-11-21T11:58:00Z"}}});
    let done = json!({"state": {"terminated": {"reason": "Completed", "exitCode": 0}}});
    let killed = json!({"state": {"terminated": {"signal": 9}}});
    let two = json!({"containers": [{"name": "c"}, {"name": "d"}]});
    let table = [
        (two.clone(), json!({"phase": "Pending"}), false, ("0/2", "Pending", "0")),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [running, running]}),
            false,
            ("2/2", "Running", "0"),
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [crashing, running]}),
            false,
            ("1/2", "CrashLoopBackOff", "4 (2m ago)"),
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [done, running]}),
            false,
            ("1/2", "NotReady", "0"),
        ),
        (
            two.clone(),
            json!({"phase": "Succeeded", "containerStatuses": [done, done]}),
            false,
            ("0/2", "Completed", "0"),
        ),
        (
            two.clone(),
            json!({"phase": "Failed", "containerStatuses": [killed]}),
            false,
            ("0/2", "Signal:9", "0"),
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [running, running]}),
            true,
            ("2/2", "Terminating", "0"),
        ),
        (
            two,
            json!({"phase": "Failed", "reason": "Evicted"}),
            false,
            ("0/2", "Evicted", "0"),
        ),
        (
            json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]}),
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}),
            false,
            ("0/1", "Init:1/2", "0"),
        ),
        (
            json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i", "restartPolicy": "Always"}]}),
            json!({"phase": "Running", "initContainerStatuses": [{"name": "i", "started": true, "ready": true, "state": {"running": {}}}], "containerStatuses": [running]}),
            false,
            ("2/2", "Running", "0"),
        ),
    ];
    for (spec, status, deleting, (ready, state, restarts)) in table {
        let mut object = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        }
        let cells = built_in("", "pods").cells(&object, now());
        assert_eq!(cells[1..4], [json!(ready), json!(state), json!(restarts)], "{object}");
    }
}

#[test]
fn a_custom_resource_prints_its_columns() {
    let columns = json!([
        {"name": "Hub Accepted", "type": "boolean", "jsonPath": ".spec.hubAcceptsClient"},
        {"name": "Urls", "type": "string", "jsonPath": ".spec.clientConfigs[*].url", "description": "where"},
        {"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"},
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
        {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
        {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.count"},
        {"name": "Renewed", "type": "date", "jsonPath": ".spec.renewed"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let printer = Printer::Custom(CustomColumns::compile(&columns));
    let object = json!({
        "metadata": {"name": "c1", "creationTimestamp": "2026-11-21T11:59:00Z"},
        "spec": {"hubAcceptsClient": true, "clientConfigs": [{"url": "u1"}, {"url": "u2"}], "count": 2.9, "map": {"a": [1]}, "renewed": "x"},
        "status": {"conditions": [{"type": "Joined", "status": "True"}, {"type": "Available", "status": "Unknown"}]},
    });
    let cells = Value::from(printer.cells(&object, now()));
    assert_eq!(
        cells,
        json!(["c1", true, "u1", "Unknown", 2, "{\"a\":[1]}", null, "<invalid>", "60s"])
    );
    let empty = json!({"metadata": {"name": "c2"}});
    assert_eq!(
        Value::from(printer.cells(&empty, now())),
        json!(["c2", null, null, null, null, null, null, null, null])
    );
    assert_eq!(
        headings(&printer)[..5],
        ["Name", "Hub Accepted:boolean", "Urls", "Available", "Count:integer*"]
    );
    let columns = printer.columns();
    assert_eq!(
        columns[1].description,
        "Custom resource definition column (in JSONPath format): .spec.hubAcceptsClient"
    );
    assert_eq!(columns[2].description, "where");
}

#[test]
fn a_custom_resource_without_columns_prints_name_and_age() {
    let printer = Printer::Custom(CustomColumns::compile(&Value::Null));
    assert_eq!(headings(&printer), ["Name", "Age:date"]);
    let object = json!({"metadata": {"name": "c1", "creationTimestamp": "2026-11-21T11:59:00Z"}});
    assert_eq!(printer.cells(&object, now()), [json!("c1"), json!("60s")]);
}

#[test]
fn a_table_wraps_rows_and_what_the_client_wants_of_their_objects() {
    let printer = built_in("", "serviceaccounts");
    let object =
        json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"}});
    let list = json!({"resourceVersion": "9", "continue": "x", "selfLink": "gone"});
    let form = Form {
        version: "v1",
        include: IncludeObject::Metadata,
    };
    let result = table(&printer, form, &list, [&object], now());
    assert_eq!(
        (&result["kind"], &result["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(result["metadata"], json!({"resourceVersion": "9", "continue": "x"}));
    assert_eq!(
        result["rows"],
        json!([{"cells": ["a", "<unknown>"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", "resourceVersion": "5"}}}])
    );
    let name = &result["columnDefinitions"][0];
    assert_eq!(
        (&name["name"], &name["type"], &name["format"], &name["priority"]),
        (&json!("Name"), &json!("string"), &json!("name"), &json!(0))
    );

    let with = |include| {
        table(
            &printer,
            Form {
                version: "v1beta1",
                include,
            },
            &list,
            [&object],
            now(),
        )
    };
    assert_eq!(with(IncludeObject::None)["rows"][0]["object"], Value::Null);
    assert_eq!(with(IncludeObject::Object)["rows"][0]["object"], object);
    assert_eq!(
        with(IncludeObject::Metadata)["rows"][0]["object"]["apiVersion"],
        "meta.k8s.io/v1beta1"
    );
    assert_eq!(table(&printer, form, &list, [], now())["rows"], json!([]));
}

#[test]
fn only_the_first_event_of_a_watch_carries_the_columns() {
    let printer = built_in("", "configmaps");
    let form = Form {
        version: "v1",
        include: IncludeObject::Metadata,
    };
    let bookmark = json!({"metadata": {"resourceVersion": "7"}});
    let first = event_table(&printer, form, &bookmark, true, now());
    let later = event_table(&printer, form, &bookmark, false, now());
    assert_eq!(
        (first["columnDefinitions"].is_array(), &later["columnDefinitions"]),
        (true, &Value::Null)
    );
    assert_eq!(later["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(later["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
}

#[test]
fn include_object_is_checked() {
    assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
    let error = "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', 'None', or empty";
    assert_eq!(IncludeObject::parse("Bad").unwrap_err(), error);
}

#[test]
fn partial_metadata_carries_its_own_kind() {
    let object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}});
    let item = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
    assert_eq!(partial_metadata(&object, "v1"), item);
    let list = partial_metadata_list(&json!({"resourceVersion": "3"}), [&object], "v1");
    assert_eq!(
        list,
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "3"}, "items": [item]})
    );
}
