//! Media types in and out: JSON, YAML, tables and partial objects.

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{Cx, config_map, deployment},
};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read;

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "29",
            "a body without Content-Type is JSON; a charset is ignored; YAML is read",
            json_and_yaml,
        ),
        must("30", "a body of an unknown type is 415", unknown_type),
        must("38", "CBOR is 406, as a Status in JSON", cbor),
        must("39", "YAML is answered when asked for", yaml),
        must("40", "lists and objects as Table have Kubernetes' columns", tables),
        should(
            "41",
            "includeObject gives no object, all of it or its metadata; anything else is 400",
            include_object,
        ),
        must(
            "42",
            "partial metadata of objects, lists and watches; the wrong pairing is 406",
            partial,
        ),
        should(
            "43",
            "a large list is compressed for who accepts it, a watch never",
            gzip,
        ),
    ]
}

async fn json_and_yaml(c: Cx) {
    let path = c.core("configmaps").await;
    let body = |name: &str| config_map(name, json!({"k": "v"})).to_string();
    c.send(Ask::new("POST", &path).untyped(body("a")))
        .await
        .is(201)
        .has("/data/k", "v");
    c.send(Ask::new("POST", &path).bytes("application/json; charset=utf-8", body("b")))
        .await
        .is(201);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  k: v\n";
    c.send(Ask::new("POST", &path).bytes("application/yaml", yaml))
        .await
        .is(201)
        .has("/data/k", "v");
    c.send(Ask::new("POST", &path).bytes("application/json", yaml.replace("name: c", "name: d")))
        .await
        .is(400);
}

async fn unknown_type(c: Cx) {
    let path = c.core("configmaps").await;
    let ask = Ask::new("POST", &path).bytes("text/plain", config_map("a", json!({})).to_string());
    c.send(ask).await.fails(415, "UnsupportedMediaType").says(
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    );
    c.get(&format!("{path}/a")).await.is(404);
}

async fn cbor(c: Cx) {
    let reply = c
        .send(Ask::get("/api/v1/namespaces/default").accept("application/cbor"))
        .await
        .fails(406, "NotAcceptable");
    assert!(reply.header("content-type").starts_with("application/json"));
}

async fn yaml(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v", "yes": "no"}))).await;
    let reply = c
        .send(Ask::get(format!("{path}/a")).accept("application/yaml"))
        .await
        .is(200);
    assert!(reply.header("content-type").starts_with("application/yaml"));
    let value: Value = serde_saphyr::from_str(&reply.text()).expect("YAML");
    assert_eq!(
        (&value["kind"], &value["data"]["yes"]),
        (&json!("ConfigMap"), &json!("no"))
    );
}

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// Resource and columns; those with a star have priority 1, types other than text follow a colon.
const COLUMNS: &[(&str, &str)] = &[
    ("/api/v1/configmaps", "Name Data Age"),
    ("/api/v1/secrets", "Name Type Data Age"),
    ("/api/v1/serviceaccounts", "Name Age"),
    ("/api/v1/namespaces", "Name Status Age"),
    (
        "/api/v1/pods",
        "Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*",
    ),
    (
        "/api/v1/services",
        "Name Type Cluster-IP External-IP Port(s) Age Selector*",
    ),
    ("/api/v1/endpoints", "Name Endpoints Age"),
    (
        "/api/v1/events",
        "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*",
    ),
    (
        "/api/v1/nodes",
        "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*",
    ),
    (
        "/apis/apps/v1/deployments",
        "Name Ready Up-to-date Available Age Containers* Images* Selector*",
    ),
    (
        "/apis/apps/v1/replicasets",
        "Name Desired:integer Current:integer Ready:integer Age Containers* Images* Selector*",
    ),
    ("/apis/apps/v1/statefulsets", "Name Ready Age Containers* Images*"),
    (
        "/apis/apps/v1/daemonsets",
        "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector Age Containers* Images* Selector*",
    ),
    (
        "/apis/batch/v1/jobs",
        "Name Status Completions Duration Age Containers* Images* Selector*",
    ),
    (
        "/apis/batch/v1/cronjobs",
        "Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age Containers* Images* Selector*",
    ),
    (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "Name Age SignerName Requestor RequestedDuration Condition",
    ),
    ("/apis/coordination.k8s.io/v1/leases", "Name Holder Age"),
    (
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "Name Role Age Users* Groups* ServiceAccounts*",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "Name Created_At:date",
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "Name Created_At:date",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "Name Webhooks:integer Age",
    ),
    (
        "/apis/networking.k8s.io/v1/ingresses",
        "Name Class Hosts Address Ports Age",
    ),
    ("/apis/networking.k8s.io/v1/networkpolicies", "Name Pod-Selector Age"),
    (
        "/apis/policy/v1/poddisruptionbudgets",
        "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
    ),
    (
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        "Name Reference Targets MinPods MaxPods Replicas Age",
    ),
    (
        "/apis/discovery.k8s.io/v1/endpointslices",
        "Name AddressType Ports Endpoints Age",
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
    ),
    (
        "/apis/autoscaling/v1/horizontalpodautoscalers",
        "Name Reference Targets MinPods MaxPods Replicas Age",
    ),
    ("/api/v1/podtemplates", "Name Containers Images Pod_Labels"),
    ("/apis/node.k8s.io/v1/runtimeclasses", "Name Handler Age"),
    (
        "/apis/storage.k8s.io/v1/csidrivers",
        "Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests RequiresRepublish:boolean \
         Modes Age",
    ),
    ("/apis/storage.k8s.io/v1/csinodes", "Name Drivers:integer Age"),
    (
        "/apis/storage.k8s.io/v1/volumeattachments",
        "Name Attacher PV Node Attached:boolean Age",
    ),
    (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "Name Service Available Age",
    ),
    (
        "/api/v1/persistentvolumeclaims",
        "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode*",
    ),
    (
        "/api/v1/persistentvolumes",
        "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age VolumeMode*",
    ),
    (
        "/api/v1/replicationcontrollers",
        "Name Desired:integer Current:integer Ready:integer Age Containers* Images* Selector*",
    ),
    ("/apis/apps/v1/controllerrevisions", "Name Controller Revision Age"),
    ("/apis/rbac.authorization.k8s.io/v1/roles", "Name Created_At:date"),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Name Role Age Users* Groups* ServiceAccounts*",
    ),
    ("/api/v1/limitranges", "Name Created_At:date"),
    ("/apis/storage.k8s.io/v1/csistoragecapacities", "Name Created_At:date"),
    ("/api/v1/resourcequotas", "Name Request Limit Age"),
    (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "Name Value:integer Global-Default:boolean Age PreemptionPolicy",
    ),
    (
        "/apis/networking.k8s.io/v1/ingressclasses",
        "Name Controller Parameters Age",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "Name Webhooks:integer Age",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "Name Validations:integer ParamKind Age",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "Name PolicyName ParamRef Age",
    ),
    (
        "/apis/events.k8s.io/v1/events",
        "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*",
    ),
];

fn columns(table: &Reply) -> String {
    let definitions = table["columnDefinitions"]
        .as_array()
        .unwrap_or_else(|| panic!("no columns: {}", table.came()));
    let words = definitions.iter().map(|it| {
        let mut word = it["name"].as_str().unwrap().replace(' ', "_");
        if it["type"] != "string" {
            word = format!("{word}:{}", it["type"].as_str().unwrap());
        }
        if it["priority"] == 1 { format!("{word}*") } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

async fn tables(c: Cx) {
    let mut wrong = Vec::new();
    for (path, wanted) in COLUMNS {
        let table = c
            .send(Ask::get(*path).accept(TABLE))
            .await
            .is(200)
            .has("/kind", "Table")
            .has("/apiVersion", "meta.k8s.io/v1");
        let came = columns(&table);
        if came != *wanted {
            wrong.push(format!("{path}\n  expected {wanted}\n  came     {came}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let deployments = format!(
        "/apis/apps/v1/namespaces/{}/deployments",
        c.namespace_called("scaled").await
    );
    c.make(&deployments, deployment("d")).await;
    let table = c
        .send(Ask::get(format!("{deployments}/d/scale")).accept(TABLE))
        .await
        .is(200);
    assert_eq!(columns(&table), "Name Desired:integer Available:integer Age");
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let table = c
        .send(Ask::get(format!("{path}/a")).accept(TABLE))
        .await
        .is(200)
        .has("/rows/0/cells/0", "a")
        .has("/rows/0/cells/1", 1);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert!(table.header("content-type").starts_with("application/json"));
    let beta = Ask::get(&path).accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io");
    c.send(beta).await.is(200).has("/apiVersion", "meta.k8s.io/v1beta1");
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    let table = c
        .send(Ask::get(&kind.path).accept(TABLE))
        .await
        .is(200)
        .has("/rows/0/cells/0", "a");
    assert_eq!(columns(&table), "Name Age:date");
}

async fn include_object(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let ask = |include: &str| Ask::get(format!("{path}?includeObject={include}")).accept(TABLE);
    let none = c.send(ask("None")).await.is(200);
    let row = none["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["cells"][0] == "a")
        .unwrap()
        .clone();
    assert!(row["object"].is_null(), "{row}");
    let whole = c.send(ask("Object")).await.is(200);
    let row = whole["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["cells"][0] == "a")
        .unwrap()
        .clone();
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["data"]["k"]),
        (&json!("ConfigMap"), &json!("v"))
    );
    let metadata = c.send(ask("Metadata")).await.is(200);
    let row = metadata["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["cells"][0] == "a")
        .unwrap()
        .clone();
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["data"]),
        (&json!("PartialObjectMetadata"), &Value::Null)
    );
    c.send(ask("Bad")).await.fails(400, "BadRequest").says(
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', \
         'None', or empty",
    );
}

async fn partial(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    c.send(Ask::get(format!("{path}/a")).accept(one))
        .await
        .is(200)
        .has("/kind", "PartialObjectMetadata")
        .has("/apiVersion", "meta.k8s.io/v1")
        .has("/metadata/name", "a")
        .lacks("/data");
    let reply = c
        .send(Ask::get(&path).accept(list))
        .await
        .is(200)
        .has("/kind", "PartialObjectMetadataList");
    for item in reply["items"].as_array().unwrap() {
        assert_eq!(
            (&item["kind"], &item["apiVersion"]),
            (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
        );
    }
    let mut watch = c
        .admin
        .watch(Ask::get(format!("{path}?watch=1&fieldSelector=metadata.name%3Da")).accept(one))
        .await;
    let (kind, object) = watch.next().await;
    assert_eq!(
        (kind.as_str(), &object["kind"], &object["data"]),
        ("ADDED", &json!("PartialObjectMetadata"), &Value::Null)
    );
    c.send(Ask::get(&path).accept(one))
        .await
        .fails(406, "NotAcceptable")
        .says("you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)");
    c.send(Ask::get(format!("{path}/a")).accept(list))
        .await
        .fails(406, "NotAcceptable");
    let metadata_client = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                           application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    c.send(Ask::get(&path).accept(metadata_client)).await.is(200);
}

async fn gzip(c: Cx) {
    let path = c.core("configmaps").await;
    let text = "some text to be compressed ".repeat(3000);
    for name in ["a", "b"] {
        c.make(&path, config_map(name, json!({"k": text}))).await;
    }
    let reply = c.send(Ask::get(&path).with("accept-encoding", "gzip")).await.is(200);
    assert_eq!(reply.header("content-encoding"), "gzip");
    assert!(
        reply.header("vary").contains("Accept-Encoding"),
        "Vary is {:?}",
        reply.header("vary")
    );
    let mut json = String::new();
    GzDecoder::new(&reply.bytes[..])
        .read_to_string(&mut json)
        .expect("gzip");
    let list: Value = serde_json::from_str(&json).expect("JSON");
    assert!(list["items"].as_array().unwrap().len() >= 2);
    let plain = c.get(&path).await.is(200);
    assert_eq!(plain.header("content-encoding"), "");
    let small = c
        .send(Ask::get("/api/v1/namespaces/default").with("accept-encoding", "gzip"))
        .await
        .is(200);
    assert_eq!(small.header("content-encoding"), "");
    let mut watch = c
        .admin
        .watch(Ask::get(format!("{path}?watch=1")).with("accept-encoding", "gzip"))
        .await;
    assert!(
        watch.headers.get("content-encoding").is_none(),
        "a watch is never compressed"
    );
    assert_eq!(watch.next().await.0, "ADDED");
}
