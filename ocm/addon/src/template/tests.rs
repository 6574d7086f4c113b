use std::sync::Arc;

use ocm_addon_sdk::{Grant, Scope};
use ocm_api::{addon::GROUP, annotations};
use serde_json::json;

use super::*;

const TEMPLATE: &str = r#"
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: hello-template}
spec:
  addonName: hello
  agentSpec:
    workload:
      manifests:
      - apiVersion: v1
        kind: ServiceAccount
        metadata: {name: hello-agent-sa, namespace: open-cluster-management-agent-addon}
      - apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: hello-agent}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
        subjects: [{kind: ServiceAccount, name: hello-agent-sa, namespace: open-cluster-management-agent-addon}]
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: hello-agent, namespace: open-cluster-management-agent-addon}
        spec:
          selector: {matchLabels: {app: hello}}
          template:
            metadata: {labels: {app: hello}}
            spec:
              serviceAccountName: hello-agent-sa
              containers:
              - name: helloworld-agent
                image: quay.io/open-cluster-management/addon-examples:v1
                args: [/helloworld, agent, "--cluster-name={{CLUSTER_NAME}}", "--hub-kubeconfig={{HUB_KUBECONFIG}}"]
                env: [{name: LOG_LEVEL, value: "{{LOG_LEVEL}}"}]
    manifestConfigs:
    - resourceIdentifier: {group: apps, resource: deployments, name: hello-agent, namespace: open-cluster-management-agent-addon}
      updateStrategy: {type: ServerSideApply}
  registration:
  - type: KubeClient
    kubeClient:
      hubPermissions:
      - {type: CurrentCluster, currentCluster: {clusterRoleName: cm-admin}}
      - {type: CurrentCluster, currentCluster: {clusterRoleName: view}}
      - type: SingleNamespace
        singleNamespace:
          namespace: shared
          roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
  - type: CustomSigner
    customSigner:
      signerName: example.com/signer.one
      subject: {user: somebody, groups: [some], organizationUnit: [unit]}
      signingCA: {name: signer-ca, namespace: vault}
"#;

const CONFIG: &str = r#"
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: hello-config, namespace: default}
spec:
  agentInstallNamespace: hello
  customizedVariables: [{name: LOG_LEVEL, value: "4"}]
  nodePlacement: {tolerations: [{key: edge, operator: Exists}]}
  registries: [{source: quay.io/open-cluster-management, mirror: registry.local/ocm}]
  proxyConfig: {httpsProxy: "https://proxy", noProxy: .svc, caBundle: UEVN}
  resourceRequirements:
  - {containerID: "*:*:*", resources: {requests: {cpu: 10m}}}
  - {containerID: "deployments:hello-agent:*", resources: {limits: {memory: 64Mi}}}
"#;

fn read<K: serde::de::DeserializeOwned>(text: &str) -> K {
    serde_saphyr::from_str(text).unwrap()
}

fn place() -> AddOnContext {
    AddOnContext::new("cluster1", "hello").with_config(&read::<AddOnTemplate>(TEMPLATE))
}

fn configured() -> AddOnContext {
    place().with_config(&read::<AddOnDeploymentConfig>(CONFIG))
}

fn hello() -> TemplateAddOn {
    TemplateAddOn::new("hello")
}

/// The configuration with LOG_LEVEL, so that the template knows all its variables, and nothing else.
fn with_level_only() -> AddOnContext {
    let config = json!({
        "metadata": {"name": "c"},
        "spec": {"customizedVariables": [{"name": "LOG_LEVEL", "value": "4"}], "agentInstallNamespace": ""},
    });
    place().with_config(&serde_json::from_value::<AddOnDeploymentConfig>(config).unwrap())
}

#[test]
fn a_template_becomes_the_manifests_of_a_cluster() {
    let manifests = hello().manifests(&with_level_only()).unwrap();
    let pods = &manifests[2]["spec"]["template"]["spec"];
    assert_eq!(
        pods["containers"][0],
        json!({
            "name": "helloworld-agent",
            "image": "quay.io/open-cluster-management/addon-examples:v1",
            "args": ["/helloworld", "agent", "--cluster-name=cluster1", "--hub-kubeconfig=/managed/hub-kubeconfig/kubeconfig"],
            "env": [
                {"name": "LOG_LEVEL", "value": "4"},
                {"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"},
                {"name": "CLUSTER_NAME", "value": "cluster1"},
                {"name": "INSTALL_NAMESPACE", "value": "open-cluster-management-agent-addon"},
            ],
            "volumeMounts": [
                {"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"},
                {"name": "cert-example-com-signer-one", "mountPath": "/managed/example.com-signer.one"},
            ],
        })
    );
    assert_eq!(
        pods["volumes"],
        json!([
            {"name": "hub-kubeconfig", "secret": {"secretName": "hello-hub-kubeconfig"}},
            {"name": "cert-example-com-signer-one", "secret": {"secretName": "hello-example.com-signer.one-client-cert"}},
        ])
    );
}

#[test]
fn a_configuration_shapes_everything_that_bears_pods() {
    let manifests = hello().manifests(&configured()).unwrap();
    let pods = &manifests[2]["spec"]["template"]["spec"];
    let container = &pods["containers"][0];
    assert_eq!(container["image"], "registry.local/ocm/addon-examples:v1");
    assert_eq!(container["resources"], json!({"limits": {"memory": "64Mi"}}));
    assert_eq!(pods["tolerations"], json!([{"key": "edge", "operator": "Exists"}]));
    let names: Vec<_> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let proxy = [
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "no_proxy",
        "CA_BUNDLE_FILE_PATH",
    ];
    assert_eq!(names[4..], proxy);
    assert_eq!(container["env"][8]["value"], "/managed/proxy-ca/ca-bundle.crt");
    assert_eq!(
        pods["volumes"][2],
        json!({"name": "proxy-ca-bundle", "configMap": {"name": "hello-proxy-ca"}})
    );
    assert_eq!(
        manifests[3],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello-proxy-ca", "namespace": "hello"},
            "data": {"ca-bundle.crt": "PEM"}})
    );
}

#[test]
fn the_namespace_of_a_configuration_is_everywhere() {
    let place = configured();
    let manifests = hello().manifests(&place).unwrap();
    assert_eq!(manifests[0]["metadata"]["namespace"], "hello");
    assert_eq!(manifests[1]["subjects"][0]["namespace"], "hello");
    assert_eq!(manifests[2]["metadata"]["namespace"], "hello");
    assert_eq!(hello().install_namespace(&place).unwrap().as_deref(), Some("hello"));
    assert_eq!(
        hello().manifest_configs(&place)[0].resource_identifier.namespace,
        "hello"
    );
}

#[test]
fn without_a_configuration_the_agent_is_where_its_deployment_is() {
    let namespace = hello().install_namespace(&with_level_only()).unwrap();
    assert_eq!(namespace.as_deref(), Some("open-cluster-management-agent-addon"));
}

#[test]
fn orphaned_template_manifests_are_marked_in_any_namespace() {
    let mut template = read::<AddOnTemplate>(TEMPLATE);
    let rule = json!({"group": "apps", "resource": "deployments", "name": "hello-agent", "namespace": "open-cluster-management-agent-addon"});
    let option = json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    template.spec.agent_spec.delete_option = serde_json::from_value(option).unwrap();
    let mut place = configured();
    place.configs.remove(0);
    let place = place.with_config(&template);
    let manifests = hello().manifests(&place).unwrap();
    let staying: Vec<_> = manifests.iter().filter(|it| manifest::stays_behind(it)).collect();
    assert_eq!(staying.len(), 1);
    assert_eq!(staying[0]["kind"], "Deployment");
    assert_eq!(staying[0]["metadata"]["namespace"], "hello");
}

#[test]
fn a_variable_that_nothing_sets_is_refused_by_name() {
    let refused = hello().manifests(&place()).unwrap_err();
    assert_eq!(
        refused.message(),
        "the template uses {{LOG_LEVEL}}, which nothing sets: known are {{CLUSTER_NAME}}, {{HUB_KUBECONFIG}}, \
         {{INSTALL_NAMESPACE}}; others come from customizedVariables of an AddOnDeploymentConfig"
    );
}

#[test]
fn a_cluster_without_a_template_is_refused() {
    let refused = hello().manifests(&AddOnContext::new("cluster1", "hello")).unwrap_err();
    assert_eq!(refused.message(), "no AddOnTemplate is configured for this cluster");
}

fn offer(name: &str, template: &str) -> Cache<ClusterManagementAddOn> {
    let kind = json!({"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": template}});
    Cache::holding([read(
        &json!({"metadata": {"name": name}, "spec": {"supportedConfigs": [kind]}}).to_string(),
    )])
}

#[test]
fn a_template_naming_another_add_on_renders_and_reports_once() {
    let mismatches = NameMismatches::default();
    let other = TemplateAddOn::new("other").offered_by(offer("other", "hello-template"), mismatches.clone());
    let place = AddOnContext::new("cluster1", "other")
        .with_config(&read::<AddOnTemplate>(TEMPLATE))
        .with_config(&read::<AddOnDeploymentConfig>(CONFIG));
    assert!(!other.manifests(&place).unwrap().is_empty());
    assert!(!other.registrations(&place).unwrap().is_empty());
    let news = mismatches.news("other");
    assert_eq!(news, [("hello-template".to_owned(), "hello".to_owned())]);
    mismatches.were_told("other", &news);
    other.manifests(&place).unwrap();
    assert!(mismatches.news("other").is_empty());
}

#[test]
fn a_foreign_template_named_only_in_status_is_refused() {
    // The status is written by the cluster's agent, too.
    let other = TemplateAddOn::new("other").offered_by(offer("other", "other-v1"), NameMismatches::default());
    let place = AddOnContext::new("cluster1", "other")
        .with_config(&read::<AddOnTemplate>(TEMPLATE))
        .with_config(&read::<AddOnDeploymentConfig>(CONFIG));
    let refused = "the AddOnTemplate hello-template is for add-on \"hello\", and neither the ClusterManagementAddOn nor the spec of the \
                   ManagedClusterAddOn names it for add-on other";
    assert_eq!(other.manifests(&place).unwrap_err().message(), refused);
    assert_eq!(other.registrations(&place).unwrap_err().message(), refused);
    assert_eq!(other.hub_permissions(&place).unwrap_err().message(), refused);
    // What is there already stays where it is, such as when somebody mistypes the name.
    let namespace = other.install_namespace(&place).unwrap();
    assert_eq!(namespace.as_deref(), Some("hello"));
    // The spec is written by whoever may install add-ons.
    let mut place = place;
    let addon = Arc::make_mut(&mut place.addon);
    addon.spec.configs = vec![
        serde_json::from_value(json!({"group": GROUP, "resource": "addontemplates", "name": "hello-template"}))
            .unwrap(),
    ];
    assert!(other.manifests(&place).is_ok());
}

#[test]
fn registrations_name_who_and_who_signs() {
    let registrations = hello().registrations(&place()).unwrap();
    assert_eq!(
        registrations[0],
        Registration::kube_client().for_subject(AgentSubject {
            user: "system:open-cluster-management:cluster:cluster1:addon:hello:agent:hello-agent".to_owned(),
            groups: vec![
                "system:open-cluster-management:cluster:cluster1:addon:hello".to_owned(),
                "system:open-cluster-management:addon:hello".to_owned(),
            ],
            organizational_units: vec![],
        })
    );
    let subject = AgentSubject {
        user: "somebody".to_owned(),
        groups: vec!["some".to_owned()],
        organizational_units: vec!["unit".to_owned()],
    };
    let wanted = Registration::custom_signer("example.com/signer.one")
        .for_subject(subject)
        .signed_by(Signing::with_secret("signer-ca").in_namespace("vault"));
    assert_eq!(registrations[1], wanted);
}

#[test]
fn permissions_of_the_same_kind_do_not_replace_each_other() {
    let permissions = hello().hub_permissions(&place()).unwrap();
    let shown: Vec<_> = permissions
        .iter()
        .map(|it| (it.binding_name().to_owned(), it.grant.clone(), it.scope.clone()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "open-cluster-management:hello:clusterrole:agent".to_owned(),
                Grant::ClusterRole("cm-admin".to_owned()),
                Scope::Cluster
            ),
            (
                "open-cluster-management:hello:clusterrole:view:agent".to_owned(),
                Grant::ClusterRole("view".to_owned()),
                Scope::Cluster
            ),
            (
                "open-cluster-management:hello:role:agent".to_owned(),
                Grant::Role("reader".to_owned()),
                Scope::Namespace("shared".to_owned())
            ),
        ]
    );
    assert!(
        permissions
            .iter()
            .all(|it| it.labels["open-cluster-management.io/addon-template-name"].is_empty())
    );
}

#[test]
fn the_clusters_registries_hold_where_the_configuration_names_none() {
    let mut place = with_level_only();
    let cluster = Arc::make_mut(&mut place.cluster);
    let registries = r#"{"registries":[{"source":"quay.io/open-cluster-management","mirror":"cluster.local"}]}"#;
    cluster.metadata.annotations = Some([(annotations::IMAGE_REGISTRIES.to_owned(), registries.to_owned())].into());
    let manifests = hello().manifests(&place).unwrap();
    let container = &manifests[2]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "cluster.local/addon-examples:v1");
    assert!(hello().redeploys_on(&with_level_only().cluster, &place.cluster));
    assert!(!hello().redeploys_on(&place.cluster, &place.cluster));
}

#[test]
fn a_long_signers_volume_has_a_name_that_kubernetes_takes() {
    let mut template = read::<AddOnTemplate>(TEMPLATE);
    let signer = template.spec.registration[1].custom_signer.as_mut().unwrap();
    signer.signer_name = format!("{}.example.com/signer", "a".repeat(80));
    let workload = &mut template.spec.agent_spec.workload;
    workload.manifests = workload.manifests.read().iter().skip(2).cloned().collect();
    let mut place = with_level_only();
    place.configs.remove(0);
    let manifests = hello().manifests(&place.with_config(&template)).unwrap();
    let name = manifests[0]["spec"]["template"]["spec"]["volumes"][1]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(name.len() <= 63 && name.ends_with("example-com-signer"), "{name}");
}
