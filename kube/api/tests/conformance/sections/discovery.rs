//! What is served, as clients find it out.

use crate::{
    check::{Check, must, should},
    client::Ask,
    cx::{CRDS, Cx, definition, is_established, version},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub fn checks() -> Vec<Check> {
    vec![
        must("10", "/api is APIVersions with v1", legacy),
        must(
            "11",
            "/apis is an APIGroupList in which every group has a preferred version",
            groups,
        ),
        must(
            "12",
            "/apis/apps is an APIGroup; /apis/apps/v1 has deployments/scale of autoscaling/v1",
            apps,
        ),
        must(
            "13",
            "/api/v1 has serviceaccounts/token and pods/eviction with their kinds; namespaces have no deletecollection",
            core,
        ),
        must(
            "14",
            "/apis in the aggregated form has its exact Content-Type, an ETag and Vary",
            aggregated,
        ),
        must("15", "If-None-Match with the ETag is 304 without a body", not_modified),
        must(
            "16",
            "kubectl's list of media types gives v2; v2beta1 or JSON gives JSON",
            media_lists,
        ),
        must(
            "17",
            "a CRD's resource is in discovery and OpenAPI when it is Established",
            established,
        ).embedded_too("that all of it is there in the same moment"),
        must("18", "a group goes with its last CRD", last_of_group),
        should(
            "19",
            "kubectl api-resources prints the names, short names, kinds, verbs and categories of Kubernetes; discovery has the subresources of what is stored",
            api_resources,
        )
        .with_program("kubectl"),
    ]
}

async fn legacy(c: Cx) {
    c.get("/api")
        .await
        .is(200)
        .has("/kind", "APIVersions")
        .has("/versions", json!(["v1"]))
        .lacks("/apiVersion");
}

const GROUPS: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

async fn groups(c: Cx) {
    let reply = c
        .get("/apis")
        .await
        .is(200)
        .has("/kind", "APIGroupList")
        .has("/apiVersion", "v1");
    let groups = reply["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|it| it["name"].as_str().unwrap()).collect();
    for group in groups {
        assert!(
            group["preferredVersion"]["groupVersion"].is_string(),
            "no preferred version: {group}"
        );
        assert_eq!(group["preferredVersion"], group["versions"][0], "{group}");
    }
    let found: Vec<&str> = names.iter().copied().filter(|it| GROUPS.contains(it)).collect();
    assert_eq!(
        found, GROUPS,
        "the order of groups decides which kind a short name means"
    );
}

async fn apps(c: Cx) {
    c.get("/apis/apps")
        .await
        .is(200)
        .has("/kind", "APIGroup")
        .has("/apiVersion", "v1")
        .has("/preferredVersion/groupVersion", "apps/v1");
    let list = c
        .get("/apis/apps/v1")
        .await
        .is(200)
        .has("/kind", "APIResourceList")
        .has("/groupVersion", "apps/v1");
    let scale = resource(&list.json, "deployments/scale");
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"], &scale["verbs"]),
        (
            &json!("autoscaling"),
            &json!("v1"),
            &json!("Scale"),
            &json!(["get", "patch", "update"])
        )
    );
}

fn resource(list: &Value, name: &str) -> Value {
    let all = list["resources"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {}", list["groupVersion"]))
}

async fn core(c: Cx) {
    let list = c.get("/api/v1").await.is(200).has("/groupVersion", "v1").json;
    let token = resource(&list, "serviceaccounts/token");
    assert_eq!(
        (&token["kind"], &token["group"]),
        (&json!("TokenRequest"), &json!("authentication.k8s.io"))
    );
    let eviction = resource(&list, "pods/eviction");
    assert_eq!(
        (&eviction["kind"], &eviction["group"]),
        (&json!("Eviction"), &json!("policy"))
    );
    let verbs = resource(&list, "namespaces")["verbs"].clone();
    assert!(
        !verbs.as_array().unwrap().contains(&json!("deletecollection")),
        "{verbs}"
    );
}

async fn aggregated(c: Cx) {
    for path in ["/api", "/apis"] {
        let reply = c
            .send(Ask::get(path).accept(AGGREGATED))
            .await
            .is(200)
            .has("/kind", "APIGroupDiscoveryList");
        assert_eq!(reply.header("content-type"), AGGREGATED);
        assert_eq!(reply["apiVersion"], "apidiscovery.k8s.io/v2");
        let etag = reply.header("etag");
        let digits = etag.trim_matches('"');
        assert!(
            etag.len() == 130 && digits.len() == 128 && digits.bytes().all(|it| b"0123456789ABCDEF".contains(&it)),
            "the ETag is {etag:?}"
        );
        assert!(
            reply.header("vary").contains("Accept"),
            "Vary is {:?}",
            reply.header("vary")
        );
        let verbs = &reply["items"][0]["versions"][0]["resources"][0]["verbs"];
        assert!(verbs.is_array(), "{}", reply.came());
    }
}

async fn not_modified(c: Cx) {
    for path in ["/api", "/apis"] {
        let mut turns = 0;
        // Another check may define a kind between the two requests.
        loop {
            let first = c.send(Ask::get(path).accept(AGGREGATED)).await.is(200);
            let ask = Ask::get(path)
                .accept(AGGREGATED)
                .with("if-none-match", &first.header("etag"));
            let again = c.send(ask).await;
            if again.code == 304 {
                assert!(again.bytes.is_empty(), "a 304 has no body");
                break;
            }
            turns += 1;
            assert!(turns < 20, "never 304; came: {}", again.came());
        }
    }
}

async fn media_lists(c: Cx) {
    let two = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
               application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let reply = c.send(Ask::get("/apis").accept(two)).await.is(200);
    assert_eq!(reply.header("content-type"), AGGREGATED);
    let no_peer =
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io;profile=nopeer,application/json";
    c.send(Ask::get("/apis").accept(no_peer))
        .await
        .is(200)
        .has("/kind", "APIGroupDiscoveryList");
    let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let reply = c.send(Ask::get("/apis").accept(beta)).await.is(200);
    let kind = reply["kind"].as_str().unwrap_or_default();
    let plain = kind == "APIGroupList" && reply.header("content-type").starts_with("application/json");
    let is_beta = kind == "APIGroupDiscoveryList" && reply["apiVersion"] == "apidiscovery.k8s.io/v2beta1";
    assert!(plain || is_beta, "{} {}", reply.header("content-type"), reply.came());
}

async fn established(c: Cx) {
    let group = c.group();
    let mut watch = c
        .watch(&format!("{CRDS}?watch=1&fieldSelector=metadata.name%3Dwidgets.{group}"))
        .await;
    c.make(CRDS, definition(&group, "widgets", "Widget", json!({}))).await;
    loop {
        let (_, object) = watch.next().await;
        if is_established(&object) {
            break;
        }
    }
    // The embedded server says `Established` when all of it is served; a real one is a moment behind with some of it.
    let embedded = c.is_embedded();
    let (list, _) = c
        .until(&format!("/apis/{group}/v1"), |it| embedded || it.code == 200)
        .await;
    let list = list.is(200);
    assert_eq!(resource(&list.json, "widgets")["kind"], "Widget");
    assert_eq!(resource(&list.json, "widgets/status")["kind"], "Widget");
    let reply = c.send(Ask::get("/apis").accept(AGGREGATED)).await.is(200);
    let items = reply["items"].as_array().unwrap();
    let of_group = items
        .iter()
        .find(|it| it["metadata"]["name"] == group.as_str())
        .expect("the group is in the aggregated form");
    let widgets = &of_group["versions"][0]["resources"][0];
    assert_eq!(
        (&widgets["resource"], &widgets["scope"]),
        (&json!("widgets"), &json!("Namespaced"))
    );
    let (index, _) = c
        .until("/openapi/v3", |it| {
            embedded || it["paths"][format!("apis/{group}/v1")].is_object()
        })
        .await;
    let url = index["paths"][format!("apis/{group}/v1")]["serverRelativeURL"].as_str();
    c.get(url.expect("it is listed")).await.is(200);
    let (list, _) = c
        .until(&format!("/apis/{group}/v1/widgets"), |it| embedded || it.code == 200)
        .await;
    list.is(200).has("/kind", "WidgetList");
}

async fn last_of_group(c: Cx) {
    let group = c.group();
    let one = c.define("ones", "One", json!({})).await;
    let other = definition(&group, "twos", "Two", json!({"versions": [version("v1", json!({}))]}));
    c.make(CRDS, other).await;
    let has = |reply: &crate::client::Reply| {
        let groups = reply["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().any(|it| it["name"] == group.as_str())
    };
    c.until("/apis", &has).await;
    c.delete(&one.crd).await.is(200);
    c.until_gone(&one.crd).await;
    c.until(&format!("/apis/{group}/v1"), |it| {
        it["resources"]
            .as_array()
            .is_some_and(|it| it.iter().all(|it| it["name"] != "ones"))
    })
    .await;
    assert!(has(&c.get("/apis").await), "the group has a resource still");
    c.delete(&format!("{CRDS}/twos.{group}")).await.is(200);
    c.until("/apis", |it| !has(it)).await;
    c.get(&format!("/apis/{group}")).await.is(404);
}

/// Group version, resource, kind, short names, N or C, verbs if not all eight.
const TABLE: &str = "\
v1 configmaps ConfigMap cm N
v1 endpoints Endpoints ep N
v1 events Event ev N
v1 limitranges LimitRange limits N
v1 namespaces Namespace ns C create,delete,get,list,patch,update,watch
v1 nodes Node no C
v1 persistentvolumeclaims PersistentVolumeClaim pvc N
v1 persistentvolumes PersistentVolume pv C
v1 pods Pod po N
v1 podtemplates PodTemplate - N
v1 replicationcontrollers ReplicationController rc N
v1 resourcequotas ResourceQuota quota N
v1 secrets Secret - N
v1 serviceaccounts ServiceAccount sa N
v1 services Service svc N
apps/v1 controllerrevisions ControllerRevision - N
apps/v1 daemonsets DaemonSet ds N
apps/v1 deployments Deployment deploy N
apps/v1 replicasets ReplicaSet rs N
apps/v1 statefulsets StatefulSet sts N
batch/v1 cronjobs CronJob cj N
batch/v1 jobs Job - N
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler hpa N
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding - C
rbac.authorization.k8s.io/v1 clusterroles ClusterRole - C
rbac.authorization.k8s.io/v1 rolebindings RoleBinding - N
rbac.authorization.k8s.io/v1 roles Role - N
coordination.k8s.io/v1 leases Lease - N
events.k8s.io/v1 events Event ev N
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest csr C
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview - C create
authentication.k8s.io/v1 tokenreviews TokenReview - C create
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview - N create
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview - C create
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview - C create
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview - C create
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration - C
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy - C
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding - C
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration - C
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition crd,crds C
apiregistration.k8s.io/v1 apiservices APIService - C
discovery.k8s.io/v1 endpointslices EndpointSlice - N
networking.k8s.io/v1 ingressclasses IngressClass - C
networking.k8s.io/v1 ingresses Ingress ing N
networking.k8s.io/v1 networkpolicies NetworkPolicy netpol N
policy/v1 poddisruptionbudgets PodDisruptionBudget pdb N
scheduling.k8s.io/v1 priorityclasses PriorityClass pc C
storage.k8s.io/v1 csidrivers CSIDriver - C
storage.k8s.io/v1 csinodes CSINode - C
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity - N
storage.k8s.io/v1 storageclasses StorageClass sc C
storage.k8s.io/v1 volumeattachments VolumeAttachment - C
node.k8s.io/v1 runtimeclasses RuntimeClass - C
";

/// What kubectl gets where somebody names a category.
const CATEGORIES: &[(&str, &[&str])] = &[
    (
        "all",
        &[
            "v1 pods",
            "v1 replicationcontrollers",
            "v1 services",
            "apps/v1 daemonsets",
            "apps/v1 deployments",
            "apps/v1 replicasets",
            "apps/v1 statefulsets",
            "autoscaling/v2 horizontalpodautoscalers",
            "batch/v1 cronjobs",
            "batch/v1 jobs",
        ],
    ),
    (
        "api-extensions",
        &[
            "admissionregistration.k8s.io/v1 mutatingwebhookconfigurations",
            "admissionregistration.k8s.io/v1 validatingadmissionpolicies",
            "admissionregistration.k8s.io/v1 validatingadmissionpolicybindings",
            "admissionregistration.k8s.io/v1 validatingwebhookconfigurations",
            "apiextensions.k8s.io/v1 customresourcedefinitions",
            "apiregistration.k8s.io/v1 apiservices",
        ],
    ),
];

/// Group version, subresource, kind, its group version if it is another, verbs if not `get,patch,update`. Without those
/// that reach into running pods in other ways than those named here (proxy, resize, ephemeral containers),
/// which not every server has.
const SUBRESOURCES: &str = "\
v1 namespaces/finalize Namespace - update
v1 namespaces/status Namespace -
v1 nodes/status Node -
v1 persistentvolumeclaims/status PersistentVolumeClaim -
v1 persistentvolumes/status PersistentVolume -
v1 pods/attach PodAttachOptions - create,get
v1 pods/binding Binding - create
v1 pods/eviction Eviction policy/v1 create
v1 pods/exec PodExecOptions - create,get
v1 pods/log Pod - get
v1 pods/portforward PodPortForwardOptions - create,get
v1 pods/status Pod -
v1 replicationcontrollers/scale Scale autoscaling/v1
v1 replicationcontrollers/status ReplicationController -
v1 resourcequotas/status ResourceQuota -
v1 serviceaccounts/token TokenRequest authentication.k8s.io/v1 create
v1 services/status Service -
apiregistration.k8s.io/v1 apiservices/status APIService -
apps/v1 daemonsets/status DaemonSet -
apps/v1 deployments/scale Scale autoscaling/v1
apps/v1 deployments/status Deployment -
apps/v1 replicasets/scale Scale autoscaling/v1
apps/v1 replicasets/status ReplicaSet -
apps/v1 statefulsets/scale Scale autoscaling/v1
apps/v1 statefulsets/status StatefulSet -
autoscaling/v2 horizontalpodautoscalers/status HorizontalPodAutoscaler -
batch/v1 cronjobs/status CronJob -
batch/v1 jobs/status Job -
certificates.k8s.io/v1 certificatesigningrequests/approval CertificateSigningRequest -
certificates.k8s.io/v1 certificatesigningrequests/status CertificateSigningRequest -
networking.k8s.io/v1 ingresses/status Ingress -
policy/v1 poddisruptionbudgets/status PodDisruptionBudget -
storage.k8s.io/v1 volumeattachments/status VolumeAttachment -
admissionregistration.k8s.io/v1 validatingadmissionpolicies/status ValidatingAdmissionPolicy -
apiextensions.k8s.io/v1 customresourcedefinitions/status CustomResourceDefinition -
";

async fn subresources(c: &Cx) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut lists = BTreeMap::new();
    for line in SUBRESOURCES.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let path = match words[0] {
            "v1" => "/api/v1".to_owned(),
            other => format!("/apis/{other}"),
        };
        if !lists.contains_key(&path) {
            lists.insert(path.clone(), c.get(&path).await.is(200).json);
        }
        let all = lists[&path]["resources"].as_array().cloned().unwrap_or_default();
        let Some(found) = all.iter().find(|it| it["name"] == words[1]) else {
            wrong.push(format!("there is no {} {}", words[0], words[1]));
            continue;
        };
        let text = |key: &str| found[key].as_str().unwrap_or_default();
        let other = format!("{}/{}", text("group"), text("version"));
        let mut verbs: Vec<&str> = found["verbs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        verbs.sort_unstable();
        let came = (
            text("kind"),
            if text("group").is_empty() { "-" } else { &other },
            verbs.join(","),
        );
        let wanted = (
            words[2],
            words[3],
            words.get(4).copied().unwrap_or("get,patch,update").to_owned(),
        );
        if came != wanted {
            wrong.push(format!("{} {}: expected {wanted:?}, came {came:?}", words[0], words[1]));
        }
    }
    wrong
}

async fn api_resources(c: Cx) {
    let ran = c
        .kubectl(&["api-resources", "-o", "wide", "--no-headers"], "")
        .await
        .ok();
    let mut printed = BTreeMap::new();
    for line in ran.out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|it| matches!(*it, "true" | "false")) else {
            continue;
        };
        let short = if at == 3 { words[1] } else { "-" };
        let scope = if words[at] == "true" { "N" } else { "C" };
        let mut verbs: Vec<&str> = words[at + 2].split(',').collect();
        verbs.sort_unstable();
        let categories = words.get(at + 3).copied().unwrap_or("-");
        printed.insert(
            (words[at - 1].to_owned(), words[0].to_owned()),
            format!("{} {short} {scope} {} {categories}", words[at + 1], verbs.join(",")),
        );
    }
    let mut wrong = subresources(&c).await;
    for line in TABLE.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let verbs = words
            .get(5)
            .copied()
            .unwrap_or("create,delete,deletecollection,get,list,patch,update,watch");
        let name = format!("{} {}", words[0], words[1]);
        let category = CATEGORIES.iter().find(|it| it.1.contains(&name.as_str()));
        let category = category.map_or("-", |it| it.0);
        let wanted = format!("{} {} {} {verbs} {category}", words[2], words[3], words[4]);
        match printed.get(&(words[0].to_owned(), words[1].to_owned())) {
            Some(it) if *it == wanted => {}
            other => wrong.push(format!(
                "{} {}: expected {wanted:?}, came {other:?}",
                words[0], words[1]
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
