//! `dryrun` with a live cluster: its objects are read, and nothing of it is changed.

use std::{io, path::Path};

use addon_config_policy::dryrun::{DryRun, DryRunOutput, StandardInput};
use clap::Parser;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Namespace},
    kube::{Api, Client, api::PostParams},
};
use serde_json::json;
use testkit::site::Site;

const POLICY: &str = "
apiVersion: policy.open-cluster-management.io/v1
kind: ConfigurationPolicy
metadata: {name: checked}
spec:
  remediationAction: enforce
  namespaceSelector: {include: [shop]}
  object-templates:
  - complianceType: musthave
    recordDiff: InStatus
    objectDefinition:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: settings}
      data: {a: '2', copied: '{{ (lookup \"v1\" \"ConfigMap\" \"shop\" \"settings\").data.a }}'}
  - complianceType: mustnothave
    objectDefinition: {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
  - complianceType: musthave
    objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: more}}
";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    dry_run: DryRun,
}

async fn run(client: Client, line: String) -> DryRunOutput {
    let run = move || {
        let words = std::iter::once("dryrun").chain(line.split(' '));
        let input = StandardInput {
            is_piped: false,
            reader: Box::new(io::empty()),
        };
        Line::parse_from(words).dry_run.output(input, async || Ok(client))
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn site() -> Site {
    let site = Site::start().await.unwrap();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(site.client());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    site
}

#[tokio::test]
async fn a_live_cluster_is_read_and_not_changed() {
    let site = site().await;
    let settings = json!({"metadata": {"name": "settings", "namespace": "shop"}, "data": {"a": "1"}});
    let settings: ConfigMap = serde_json::from_value(settings).unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(site.client(), "shop");
    let before = config_maps.create(&PostParams::default(), &settings).await.unwrap();
    let policy = file("live-policy.yaml", POLICY);
    let output = run(
        site.client(),
        format!("-p {policy} --from-cluster --no-colors ignored.yaml"),
    )
    .await;
    assert_eq!(
        (output.code, output.error.as_str()),
        (2, "Error: policy is NonCompliant\n")
    );
    assert!(
        output.out.contains("-  a: \"1\"\n+  a: \"2\"\n+  copied: \"1\"\n"),
        "{}",
        output.out
    );
    assert!(
        output.out.ends_with(
            "# Compliance messages:\nNonCompliant; violation - configmaps [settings] found but not as specified in \
             namespace shop; violation - namespaces [shop] found; violation - configmaps [more] not \
             found in namespace shop\n"
        ),
        "{}",
        output.out
    );
    assert_eq!(config_maps.get("settings").await.unwrap(), before);
    assert_eq!(config_maps.get_opt("more").await.unwrap(), None);
}

#[tokio::test]
async fn kinds_of_a_live_cluster_can_be_used_without_it() {
    let site = site().await;
    let output = run(site.client(), "generate".to_owned()).await;
    assert_eq!((output.code, output.error.as_str()), (0, ""));
    let namespace = "- group: \"\"\n  kind: Namespace\n  plural: namespaces\n  scope: root\n  singular: namespace\n";
    assert!(output.out.contains(namespace), "{}", output.out);
    assert!(!output.out.contains("/status"), "{}", output.out);
    let (kinds, policy) = (file("live-kinds.yaml", &output.out), file("live-policy-2.yaml", POLICY));
    let output = run(
        site.client(),
        format!("-p {policy} --mappings-file {kinds} --no-colors"),
    )
    .await;
    let nothing = "has no namespace specified from the policy namespaceSelector nor the object metadata";
    assert!(output.out.contains(nothing), "{}", output.out);
}
