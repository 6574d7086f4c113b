//! The executor on an API in memory: what is tried, what is skipped, and what is no failure.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, api::DeleteParams};
use ocm_reconcile::{Clients, Done, Plan, Site, execute};
use serde_json::{Value, json};
use testkit::site;

fn of<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn config_map(namespace: &str, name: &str) -> ConfigMap {
    of(json!({"metadata": {"name": name, "namespace": namespace}, "data": {"k": "v"}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_runs_completely_and_the_next_needs_its_success() {
    let site = site::Site::start().await.unwrap();
    let clients = Clients::hub(site.client());
    let mut plan = Plan::new();
    let fails = plan.create(Site::Hub, &config_map("nowhere", "a"));
    let works = plan.create(Site::Hub, &config_map("default", "b"));
    plan.stage();
    let later = plan.create(Site::Hub, &config_map("default", "c"));
    let outcome = execute(&clients, &plan).await;
    assert_eq!(outcome.get(fails).unwrap().as_ref().unwrap_err().code(), Some(404));
    assert!(outcome.object(works).is_some());
    assert!(outcome.get(later).is_none());
    assert_eq!(outcome.skipped, 1);
    assert!(!outcome.succeeded());
}

#[tokio::test(flavor = "multi_thread")]
async fn already_exists_and_already_gone_are_successful_results() {
    let site = site::Site::start().await.unwrap();
    let client = site.client();
    let clients = Clients::hub(client.clone());
    let mut plan = Plan::new();
    let first = plan.create(Site::Hub, &config_map("default", "a"));
    let second = plan.create(Site::Hub, &config_map("default", "a"));
    let outcome = execute(&clients, &plan).await;
    assert!(outcome.succeeded());
    assert!(matches!(outcome.get(first), Some(Ok(Done::Object(_)))));
    assert!(matches!(outcome.get(second), Some(Ok(Done::AlreadyExists))));

    let present = outcome.latest::<ConfigMap>(Site::Hub, Some("default"), "a").unwrap();
    Api::<ConfigMap>::namespaced(client.clone(), "default")
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    let mut plan = Plan::new();
    let id = plan.delete(Site::Hub, &present).unwrap();
    assert!(matches!(execute(&clients, &plan).await.get(id), Some(Ok(Done::Gone))));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_incarnation_that_was_seen_is_deleted() {
    let site = site::Site::start().await.unwrap();
    let client = site.client();
    let clients = Clients::hub(client.clone());
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let seen = api
        .create(&Default::default(), &config_map("default", "a"))
        .await
        .unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    api.create(&Default::default(), &config_map("default", "a"))
        .await
        .unwrap();
    let mut plan = Plan::new();
    let id = plan.delete(Site::Hub, &seen).unwrap();
    assert!(
        execute(&clients, &plan)
            .await
            .get(id)
            .unwrap()
            .as_ref()
            .unwrap_err()
            .is_conflict()
    );
    api.get("a").await.expect("the new one stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_patch_conflicts_and_kept_objects_plan_nothing() {
    let site = site::Site::start().await.unwrap();
    let client = site.client();
    let clients = Clients::hub(client.clone());
    let desired: Namespace = of(json!({"metadata": {"name": "ns", "labels": {"a": "b"}}}));
    let mut plan = Plan::new();
    plan.keep(Site::Hub, None, &desired);
    let stale = execute(&clients, &plan)
        .await
        .latest::<Namespace>(Site::Hub, None, "ns")
        .unwrap();
    let mut again = Plan::new();
    again.keep(Site::Hub, Some(&stale), &desired);
    assert!(again.is_empty(), "{again}");

    let mut other = stale.clone();
    other
        .metadata
        .labels
        .get_or_insert_default()
        .insert("c".to_owned(), "d".to_owned());
    let mut plan = Plan::new();
    plan.change(Site::Hub, &stale, &other);
    assert!(execute(&clients, &plan).await.succeeded());
    let outcome = execute(&clients, &plan).await;
    assert!(
        outcome.errors().all(|(_, error)| error.is_conflict()) && !outcome.succeeded(),
        "{outcome:?}"
    );
}
