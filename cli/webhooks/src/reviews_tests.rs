use bytes::Bytes;
use http_body_util::Full;
use process::sent::Sent;

use super::*;

const API: &str = "cluster.open-cluster-management.io/v1";

fn asked(method: &str, path: &str, body: impl ToString) -> PageRequest {
    PageRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: String::new(),
        token: None,
        body: Sent::new(Full::<Bytes>::from(body.to_string())),
    }
}

fn read_answer(answer: &PageResponse) -> Value {
    serde_json::from_str(&answer.body).expect("an answer is JSON")
}

/// A review of a create, or of an update where there is an old object.
fn reviewed(object: &Value, old: Option<&Value>) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "object": object, "oldObject": old, "userInfo": {"username": "jane", "groups": ["a"]},
        },
    })
}

/// Rules that ask nobody.
fn reviews(rules: Rules) -> Reviews {
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(tower::BoxError::from("nobody is asked"))
    });
    Reviews {
        hub: Client::new(nobody, "default"),
        rules,
    }
}

#[tokio::test]
async fn a_conversion_review_returns_objects_in_the_desired_version() {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "1", "desiredAPIVersion": "addon.open-cluster-management.io/v1beta1", "objects": [{
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "a", "namespace": "cluster1"}, "spec": {"installNamespace": "here"},
        }]},
    });
    let answer = Conversions.answer(asked("POST", CONVERT, review)).await;
    assert_eq!(answer.code, 200);
    let body = read_answer(&answer);
    assert_eq!(body["response"]["result"]["status"], "Success");
    let converted = &body["response"]["convertedObjects"][0];
    assert_eq!(converted["apiVersion"], "addon.open-cluster-management.io/v1beta1");
    let annotation = "addon.open-cluster-management.io/v1alpha1-install-namespace";
    assert_eq!(converted["metadata"]["annotations"][annotation], "here");
}

#[tokio::test]
async fn what_is_no_review_is_refused_with_a_status() {
    for (method, path, body, code) in [
        ("GET", CONVERT, "", 405),
        ("POST", "/other", "{}", 404),
        ("POST", CONVERT, "{", 400),
    ] {
        let answer = Conversions.answer(asked(method, path, body)).await;
        assert_eq!(answer.code, code, "{method} {path} {body}");
        assert_eq!(read_answer(&answer)["kind"], "Status");
    }
}

/// A review of an update by an agent of cluster1.
fn by_agent(object: &Value, old: &Value, subresource: &str) -> Value {
    let mut review = reviewed(object, Some(old));
    review["request"]["subResource"] = json!(subresource);
    review["request"]["userInfo"] = json!({
        "username": "system:open-cluster-management:cluster1:a1",
        "groups": ["system:open-cluster-management:cluster1", "system:open-cluster-management:managed-clusters"],
    });
    review
}

#[tokio::test]
async fn a_forbidden_agent_change_is_refused_with_the_field_name() {
    let clusters = reviews(Rules::Clusters { default_sets: true });
    let works = reviews(Rules::Works(of_works::AdmissionOptions::default()));
    let said = |status: &str| {
        json!({
            "type": "HubAcceptedManagedCluster", "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let old = json!({
        "apiVersion": API, "kind": "ManagedCluster",
        "metadata": {"name": "cluster1", "labels": {"cluster.open-cluster-management.io/clusterset": "default"}},
        "spec": {"hubAcceptsClient": true},
        "status": {"conditions": [said("False")]},
    });
    let changed = |pointer: &str, value: Value| {
        let mut new = old.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        new.pointer_mut(parent).unwrap()[field.replace("~1", "/")] = value;
        new
    };
    let hosted = changed(
        "/metadata/annotations",
        json!({"addon.open-cluster-management.io/hosting-cluster-name": "cluster2"}),
    );
    let accepted = json!([said("True")]);
    let work = |finalizers: Value| {
        json!({
            "metadata": {"name": "w", "namespace": "cluster1", "finalizers": finalizers},
            "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}},
        })
    };
    let mine = work(json!(["example.com/mine"]));
    for (path, new, old, subresource, field) in [
        (
            VALIDATE_CLUSTER,
            &hosted,
            &old,
            "",
            "metadata.annotations[addon.open-cluster-management.io/hosting-cluster-name]",
        ),
        (
            VALIDATE_CLUSTER,
            &changed("/spec/taints", json!([{"key": "k", "effect": "NoSelect"}])),
            &old,
            "",
            "spec.taints",
        ),
        (
            VALIDATE_CLUSTER,
            &changed("/status/conditions", accepted),
            &old,
            "status",
            "status.conditions[HubAcceptedManagedCluster]",
        ),
        (VALIDATE_WORK, &mine, &work(json!([])), "", "metadata.finalizers"),
    ] {
        let asked = asked("POST", path, by_agent(new, old, subresource));
        let answer = if path == VALIDATE_WORK {
            works.answer(asked).await
        } else {
            clusters.answer(asked).await
        };
        let response = read_answer(&answer)["response"].take();
        assert_eq!(response["status"]["code"], 403, "{field}: {response}");
        assert_eq!(response["status"]["reason"], "Forbidden");
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(field), "{field}: {message}");
    }
    let version = changed("/status/version", json!({"kubernetes": "v1.34.1"}));
    let answer = clusters
        .answer(asked("POST", VALIDATE_CLUSTER, by_agent(&version, &old, "status")))
        .await;
    assert_eq!(read_answer(&answer)["response"]["allowed"], true);
}

#[tokio::test]
async fn hosting_requires_a_right_in_the_hosting_clusters_namespace() {
    // Nobody answers whether jane may, and what is not known is not allowed.
    let reviews = reviews(Rules::Clusters { default_sets: true });
    let add_on =
        |annotations: Value| json!({"metadata": {"name": "a", "namespace": "cluster1", "annotations": annotations}});
    let hosted = add_on(json!({"addon.open-cluster-management.io/hosting-cluster-name": "cluster2"}));
    let answer = reviews
        .answer(asked("POST", VALIDATE_ADD_ON, reviewed(&hosted, None)))
        .await;
    let response = read_answer(&answer)["response"].take();
    assert_eq!(
        (response["allowed"].clone(), response["status"]["code"].clone()),
        (json!(false), json!(403))
    );
    let answer = reviews
        .answer(asked("POST", VALIDATE_ADD_ON, reviewed(&hosted, Some(&hosted))))
        .await;
    assert_eq!(read_answer(&answer)["response"]["allowed"], true);
    let answer = reviews
        .answer(asked("POST", VALIDATE_ADD_ON, reviewed(&add_on(json!({})), None)))
        .await;
    assert_eq!(read_answer(&answer)["response"]["allowed"], true);
}

#[tokio::test]
async fn a_cluster_is_filled_in_by_a_patch() {
    let reviews = reviews(Rules::Clusters { default_sets: true });
    let cluster = json!({"apiVersion": API, "kind": "ManagedCluster", "metadata": {"name": "c"}, "spec": {}});
    let answer = reviews
        .answer(asked("POST", MUTATE_CLUSTER, reviewed(&cluster, None)))
        .await;
    let response = read_answer(&answer)["response"].clone();
    assert_eq!((&response["allowed"], &response["uid"]), (&json!(true), &json!("1")));
    let patch = BASE64_STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let set = json!({"cluster.open-cluster-management.io/clusterset": "default"});
    assert_eq!(patch, json!([{"op": "add", "path": "/metadata/labels", "value": set}]));

    let mut brief = cluster.clone();
    brief["metadata"]["labels"] = set.clone();
    brief["spec"]["leaseDurationSeconds"] = json!(0);
    let answer = reviews
        .answer(asked("POST", MUTATE_CLUSTER, reviewed(&brief, Some(&cluster))))
        .await;
    let response = read_answer(&answer)["response"].clone();
    let patch = BASE64_STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/spec/leaseDurationSeconds", "value": 60}])
    );

    let mut tainted = cluster.clone();
    tainted["spec"]["taints"] = json!([{"key": "a", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}]);
    let answer = reviews
        .answer(asked("POST", MUTATE_CLUSTER, reviewed(&tainted, Some(&cluster))))
        .await;
    let response = read_answer(&answer)["response"].clone();
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 400);
    assert_eq!(
        response["status"]["message"],
        "It is not allowed to set TimeAdded of Taint \"a\"."
    );
}

#[tokio::test]
async fn a_failed_access_review_is_refused_as_upstream_does() {
    // Nobody answers.
    let of_clusters = reviews(Rules::Clusters { default_sets: true });
    let cluster = json!({
        "apiVersion": API, "kind": "ManagedCluster", "metadata": {"name": "c"}, "spec": {"hubAcceptsClient": true},
    });
    let answer = of_clusters
        .answer(asked("POST", VALIDATE_CLUSTER, reviewed(&cluster, None)))
        .await;
    let status = read_answer(&answer)["response"]["status"].clone();
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
    let said = status["message"].as_str().unwrap();
    let prefix = "managedclusters/accept.cluster.open-cluster-management.io \"c\" is forbidden: ";
    assert!(said.starts_with(prefix) && said.len() > prefix.len(), "{said}");

    let of_works = reviews(Rules::Works(of_works::AdmissionOptions::default()));
    let executor = json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "a"}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
    let work = json!({
        "metadata": {"namespace": "c", "name": "w"},
        "spec": {"workload": {"manifests": [map]}, "executor": executor},
    });
    let answer = of_works
        .answer(asked("POST", VALIDATE_WORK, reviewed(&work, None)))
        .await;
    let status = read_answer(&answer)["response"]["status"].clone();
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(400), &json!("BadRequest"))
    );
}

#[tokio::test]
async fn an_invalid_work_is_refused_with_upstreams_message() {
    let reviews = reviews(Rules::Works(of_works::AdmissionOptions::default()));
    let work = json!({"metadata": {"namespace": "c", "name": "w"}, "spec": {"workload": {"manifests": []}}});
    let answer = reviews
        .answer(asked("POST", VALIDATE_WORK, reviewed(&work, None)))
        .await;
    let status = read_answer(&answer)["response"]["status"].clone();
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(400), &json!("BadRequest"))
    );
    assert_eq!(status["message"], "manifests should not be empty");
    // A deletion, and a write of the status, are nobody's business here.
    for change in [json!({"operation": "DELETE"}), json!({"subResource": "status"})] {
        let mut review = reviewed(&work, None);
        for (key, value) in change.as_object().unwrap() {
            review["request"][key] = value.clone();
        }
        let answer = reviews.answer(asked("POST", VALIDATE_WORK, review)).await;
        assert_eq!(read_answer(&answer)["response"]["allowed"], true);
    }
}
