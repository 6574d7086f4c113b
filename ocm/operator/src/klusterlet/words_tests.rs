//! What is made of a Klusterlet's words: command lines, conditions, and what is refused.

use k8s_openapi::api::core::v1::Secret;
use ocm_api::operator::Klusterlet;
use ocm_reconcile::difference;
use serde_json::{Value, json};

use super::{
    access::{self, Answer, BootstrapFinding, CredentialFinding},
    deployment::{AgentProgram, deployment},
    external, rbac,
    settings::{self, AgentSettings, Ground, Place, Shape, TlsProfile},
};
use crate::Layout;

fn klusterlet(spec: &Value) -> Klusterlet {
    let mut whole = json!({
        "registrationImagePullSpec": "registration:1", "workImagePullSpec": "work:1", "imagePullSpec": "operator:1",
        "clusterName": "cluster1",
    });
    difference::apply_merge_patch(&mut whole, spec);
    serde_json::from_value(json!({"metadata": {"name": "k", "uid": "id", "labels": {"team": "a"}}, "spec": whole}))
        .unwrap()
}

fn ground(layout: Layout) -> Ground {
    Ground {
        layout,
        operator_namespace: "open-cluster-management".to_owned(),
        told_replicas: 0,
        control_plane_nodes: Some(1),
        has_addon_namespace: true,
        syncs_labels: false,
        tls: None,
    }
}

fn settings_of(spec: &Value) -> AgentSettings {
    settings::settings(&klusterlet(spec), &ground(Layout::Upstream))
}

fn arguments(settings: &AgentSettings, program: AgentProgram, replicas: i32) -> Vec<String> {
    let made = deployment(settings, program, replicas, &settings.pods.cluster_name);
    let line = &made.manifest["spec"]["template"]["spec"]["containers"][0]["args"];
    serde_json::from_value(line.clone()).unwrap()
}

#[test]
fn a_bare_agent_has_upstreams_arguments() {
    let settings = settings_of(&json!({}));
    assert_eq!(
        arguments(&settings, AgentProgram::Registration, 1),
        [
            "/registration",
            "agent",
            "--spoke-cluster-name=cluster1",
            "--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig"
        ]
    );
    assert_eq!(
        arguments(&settings, AgentProgram::Work, 3),
        [
            "/work",
            "agent",
            "--spoke-cluster-name=cluster1",
            "--workload-source-driver=kube",
            "--workload-source-config=/spoke/hub-kubeconfig/kubeconfig",
            "--agent-id=id",
            "--terminate-on-files=/spoke/hub-kubeconfig/kubeconfig",
        ]
    );
    assert_eq!(
        arguments(&settings, AgentProgram::Agent, 1),
        [
            "/registration-operator",
            "agent",
            "--spoke-cluster-name=cluster1",
            "--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig",
            "--agent-id=id",
            "--workload-source-driver=kube",
            "--workload-source-config=/spoke/hub-kubeconfig/kubeconfig",
            "--status-sync-interval=60s",
        ]
    );
}

fn everything() -> Value {
    json!({
        "externalServerURLs": [{"url": "https://a"}, {"url": "https://b"}],
        "deployOption": {"mode": "SingletonHosted"},
        "registrationConfiguration": {
            "clientCertExpirationSeconds": 3600,
            "featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}, {"feature": "ClusterClaim", "mode": "Disable"}],
            "clusterAnnotations": {"agent.open-cluster-management.io/b": "2", "agent.open-cluster-management.io/a": "1", "x": "y"},
            "kubeAPIQPS": 10, "kubeAPIBurst": 60,
            "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": {
                "kubeConfigSecrets": [{"name": "one"}, {"name": "two"}], "hubConnectionTimeoutSeconds": 300,
            }},
            "clusterClaimConfiguration": {"maxCustomClusterClaims": 7, "reservedClusterClaimSuffixes": ["a", "b"]},
            "addOnKubeClientRegistrationDriver": {"authType": "token", "token": {"expirationSeconds": 600}},
        },
        "workConfiguration": {
            "featureGates": [{"feature": "RawFeedbackJsonString", "mode": "Enable"}],
            "kubeAPIQPS": 20, "kubeAPIBurst": 50, "hubKubeAPIQPS": 30, "hubKubeAPIBurst": 40,
            "appliedManifestWorkEvictionGracePeriod": "90m", "statusSyncInterval": "20s",
        },
    })
}

#[test]
fn all_options_become_arguments_in_upstreams_order() {
    let mut settings = settings_of(&everything());
    settings.pods.tls = Some(TlsProfile {
        min_version: "VersionTLS13".to_owned(),
        cipher_suites: String::new(),
    });
    assert_eq!(
        arguments(&settings, AgentProgram::Agent, 1)[2..],
        [
            "--spoke-cluster-name=cluster1",
            "--bootstrap-kubeconfigs=/spoke/one/kubeconfig",
            "--bootstrap-kubeconfigs=/spoke/two/kubeconfig",
            "--hub-connection-timeout-seconds=300",
            "--agent-id=id",
            "--workload-source-driver=kube",
            "--workload-source-config=/spoke/hub-kubeconfig/kubeconfig",
            "--feature-gates=RawFeedbackJsonString=true",
            "--feature-gates=MultipleHubs=true",
            "--feature-gates=ClusterClaim=false",
            "--spoke-external-server-urls=https://a,https://b",
            "--status-sync-interval=20s",
            "--client-cert-expiration-seconds=3600",
            "--cluster-annotations=agent.open-cluster-management.io/a=1,agent.open-cluster-management.io/b=2",
            "--spoke-kubeconfig=/spoke/config/kubeconfig",
            "--terminate-on-files=/spoke/config/kubeconfig",
            "--kube-api-qps=20",
            "--kube-api-burst=60",
            "--hub-kube-api-qps=30",
            "--hub-kube-api-burst=40",
            "--max-custom-cluster-claims=7",
            "--reserved-cluster-claim-suffixes=a,b",
            "--addon-kubeclient-registration-auth=token",
            "--addon-token-expiration-seconds=600",
            "--appliedmanifestwork-eviction-grace-period=1h30m0s",
            "--tls-min-version=VersionTLS13",
        ]
    );
}

#[test]
fn pods_are_placed_sized_and_named_as_asked() {
    let spec = json!({
        "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
        "hubApiServerHostAlias": {"ip": "10.0.0.1", "hostname": "hub"},
        "priorityClassName": "high",
        "resourceRequirement": {"type": "ResourceRequirement", "resourceRequirements": {"limits": {"memory": "64Mi"}}},
    });
    let made = deployment(&settings_of(&spec), AgentProgram::Work, 1, "c").manifest;
    let pod = &made["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"a": "b"}));
    assert_eq!(pod["tolerations"][0]["key"], "t");
    assert_eq!(pod["hostAliases"], json!([{"ip": "10.0.0.1", "hostnames": ["hub"]}]));
    assert_eq!(pod["priorityClassName"], "high");
    assert_eq!(pod["containers"][0]["resources"], json!({"limits": {"memory": "64Mi"}}));
    let best_effort = settings_of(&json!({"resourceRequirement": {"type": "BestEffort"}}));
    let made = deployment(&best_effort, AgentProgram::Work, 1, "c").manifest;
    assert_eq!(
        made["spec"]["template"]["spec"]["containers"][0]["resources"],
        json!({})
    );
}

#[test]
fn every_mode_has_its_place_shape_and_accounts() {
    for (mode, place, shape, namespace, account) in [
        (
            "",
            Place::Managed,
            Shape::Two,
            "open-cluster-management-agent",
            "k-registration-sa",
        ),
        (
            "Singleton",
            Place::Managed,
            Shape::One,
            "open-cluster-management-agent",
            "k-work-sa",
        ),
        ("Hosted", Place::Hosting, Shape::Two, "k", "k-registration-sa"),
        ("SingletonHosted", Place::Hosting, Shape::One, "k", "k-work-sa"),
    ] {
        let settings = settings_of(&json!({"deployOption": {"mode": mode}}));
        assert_eq!((settings.place, settings.shape), (place, shape));
        assert_eq!(
            (
                settings.agent_namespace.as_str(),
                settings.registration_account().as_str()
            ),
            (namespace, account)
        );
        assert_eq!(settings.klusterlet_namespace, "open-cluster-management-agent");
    }
}

#[test]
fn one_deployment_takes_the_image_that_has_both_programs() {
    let image = |spec: &Value, layout| settings::settings(&klusterlet(spec), &ground(layout)).pods.image;
    assert_eq!(image(&json!({}), Layout::Compact), "operator:1");
    let drover = json!({"registrationImagePullSpec": "drover:1", "workImagePullSpec": "drover:1"});
    assert_eq!(image(&drover, Layout::Compact), "drover:1");
    let singleton = json!({"deployOption": {"mode": "Singleton"}, "imagePullSpec": "one:1"});
    assert_eq!(image(&singleton, Layout::Compact), "one:1");
    assert_eq!(
        image(&json!({"imagePullSpec": null}), Layout::Compact),
        "registration:1"
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_field_and_fix() {
    let refused = |spec: Value| settings::refusals(&klusterlet(&spec)).join("; ");
    assert_eq!(refused(json!({})), "");
    assert_eq!(refused(everything()), "");
    let mode = refused(json!({"deployOption": {"mode": "Nonsense"}}));
    assert_eq!(
        mode,
        "spec.deployOption.mode \"Nonsense\" is unknown: choose Default, Singleton, Hosted or SingletonHosted"
    );
    for driver in ["grpc", "awsirsa"] {
        let page = refused(json!({"registrationConfiguration": {"registrationDriver": {"authType": driver}}}));
        assert!(page.contains(&format!("authType {driver} is not supported")), "{page}");
    }
    let gate = json!([{"feature": "MultipleHubs", "mode": "Enable"}]);
    for configs in [json!(null), json!({"type": "LocalSecrets"}), json!({"type": "None"})] {
        let page =
            refused(json!({"registrationConfiguration": {"featureGates": gate, "bootstrapKubeConfigs": configs}}));
        assert!(page.contains("names 0 Secrets"), "{page}");
    }
}

#[test]
fn an_agent_does_not_change_its_cluster() {
    let mut hosted = klusterlet(&json!({"deployOption": {"mode": "Singleton"}}));
    hosted.metadata.finalizers = Some(vec![super::names::HOSTED_FINALIZER.to_owned()]);
    assert_eq!(settings::installed_at(&hosted), Some(Place::Hosting));
    assert!(
        settings::refusals(&hosted)[0].contains("another cluster"),
        "it was hosted"
    );
    let mut managed = klusterlet(&json!({"deployOption": {"mode": "Hosted"}}));
    let made = json!({"generations": [{"namespace": "open-cluster-management-agent"}]});
    managed.status = serde_json::from_value(made).unwrap();
    assert_eq!(settings::installed_at(&managed), Some(Place::Managed));
    assert!(
        settings::refusals(&managed)[0].contains("another cluster"),
        "it was not"
    );
    managed.spec.deploy_option.mode = "Singleton".to_owned();
    assert!(settings::refusals(&managed).is_empty());
}

#[test]
fn roles_say_no_less_than_what_agents_need() {
    let made = rbac::managed(&settings_of(&json!({})), false);
    let rules = |name: &str| {
        let name = format!("open-cluster-management:k-{name}");
        let role = made
            .iter()
            .find(|it| it.target.api_resource.kind == "ClusterRole" && it.target.name == name);
        role.unwrap().manifest["rules"].to_string()
    };
    assert!(rules("work:agent").contains("impersonate"));
    assert!(rules("work:execution").contains("escalate"));
    assert!(rules("registration:addon-management").contains("secrets"));
    assert!(rules("registration:agent").contains("clusterproperties"));
}

#[test]
fn as_much_is_asked_as_upstream_asks() {
    assert_eq!(access::to_join().len(), 6);
    let all: Vec<String> = access::to_serve("c1").iter().map(access::described).collect();
    assert_eq!(all.len(), 24);
    assert!(
        all.contains(&"renew managedclusters/clientcertificates of register.open-cluster-management.io".to_owned())
    );
    assert!(all.contains(&"update leases of coordination.k8s.io managed-cluster-lease in namespace c1".to_owned()));
    assert!(all.contains(&"patch manifestworks/status of work.open-cluster-management.io in namespace c1".to_owned()));
}

fn asked(answer: Answer) -> BootstrapFinding {
    BootstrapFinding::Asked {
        server: "https://hub".to_owned(),
        answer,
    }
}

#[test]
fn a_bad_bootstrap_secret_is_told_with_its_reason() {
    for (found, reason, fix) in [
        (BootstrapFinding::Missing, "BootstrapSecretMissing", "create it"),
        (
            BootstrapFinding::Unusable("no context".to_owned()),
            "BootstrapSecretError",
            "no context",
        ),
        (
            asked(Answer::Unreachable("x".to_owned())),
            "BootstrapSecretError",
            "https://hub",
        ),
        (
            asked(Answer::Denied("create y".to_owned())),
            "BootstrapSecretUnauthorized",
            "create y",
        ),
        (
            asked(Answer::Unknown("401".to_owned())),
            "BootstrapSecretUnauthorized",
            "may have expired",
        ),
        (
            asked(Answer::Allowed),
            "BootstrapSecretFunctional",
            "configured correctly",
        ),
    ] {
        let said = access::condition("ns", Some(&found), &CredentialFinding::SecretMissing);
        assert_eq!(said.reason, format!("{reason},HubKubeConfigSecretMissing"));
        assert!(
            said.message.contains("ns/bootstrap-hub-kubeconfig") && said.message.contains(fix),
            "{}",
            said.message
        );
    }
}

#[test]
fn the_credential_is_told_with_its_reason() {
    let hub = |answer| CredentialFinding::Asked {
        server: "https://hub".to_owned(),
        answer,
    };
    for (found, status, reason) in [
        (CredentialFinding::SecretMissing, "True", "HubKubeConfigSecretMissing"),
        (CredentialFinding::KubeconfigMissing, "True", "HubKubeConfigMissing"),
        (CredentialFinding::Unusable(String::new()), "True", "HubKubeConfigError"),
        (CredentialFinding::NameMissing, "True", "ClusterNameMissing"),
        (hub(Answer::Denied(String::new())), "True", "HubKubeConfigUnauthorized"),
        (hub(Answer::Unknown(String::new())), "True", "HubKubeConfigUnauthorized"),
        (hub(Answer::Unreachable(String::new())), "True", "HubKubeConfigError"),
        (hub(Answer::Allowed), "False", "HubConnectionFunctional"),
    ] {
        let said = access::condition("ns", None, &found);
        assert_eq!((said.status.as_str(), said.reason.as_str()), (status, reason));
        assert!(said.message.contains("ns/hub-kubeconfig-secret"), "{}", said.message);
    }
}

fn secret(user: &Value, cluster: &Value, more: &Value) -> Secret {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    });
    let mut data = more.clone();
    data["kubeconfig"] = kubeconfig.to_string().into();
    let encoded = data.as_object().unwrap().iter().map(|(key, value)| {
        use base64::Engine;
        let bytes = base64::prelude::BASE64_STANDARD.encode(value.as_str().unwrap());
        (key.clone(), Value::from(bytes))
    });
    let encoded: serde_json::Map<_, _> = encoded.collect();
    serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "n"}, "data": encoded})).unwrap()
}

#[test]
fn a_secret_cannot_run_commands_or_read_files() {
    let server = json!({"server": "https://a"});
    let refused = |user: Value, cluster: &Value| {
        external::read(&secret(&user, cluster, &json!({})))
            .unwrap_err()
            .to_string()
    };
    let exec =
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": ["/tmp/x"]}});
    assert!(refused(exec, &server).contains("has exec"));
    let plugin = json!({"auth-provider": {"name": "x", "config": {}}});
    assert!(refused(plugin, &server).contains("has auth-provider"));
    for field in ["client-certificate", "client-key", "tokenFile"] {
        let page = refused(json!({field: "/etc/shadow"}), &server);
        assert!(page.contains(&format!("names the file {field} /etc/shadow")), "{page}");
    }
    let cluster = json!({"server": "https://a", "certificate-authority": "/etc/shadow"});
    assert!(refused(json!({"token": "t"}), &cluster).contains("names the file certificate-authority"));
    assert!(
        external::read(&Secret::default())
            .unwrap_err()
            .to_string()
            .contains("no key kubeconfig")
    );
}

#[test]
fn files_that_the_secret_holds_are_taken_from_it() {
    let user = json!({"client-certificate": "tls.crt", "client-key": "tls.key", "tokenFile": "token"});
    let held = json!({"tls.crt": "c", "tls.key": "k", "token": "t"});
    let read = external::read(&secret(&user, &json!({"server": "https://a"}), &held)).unwrap();
    let user = read.auth_infos[0].auth_info.clone().unwrap();
    assert_eq!(user.client_certificate_data.as_deref(), Some("Yw=="));
    assert!(user.token.is_some() && user.client_key_data.is_some());
    assert_eq!(
        (user.client_certificate, user.client_key, user.token_file),
        (None, None, None)
    );
}

#[test]
fn labels_are_copied_when_that_is_asked_for() {
    let with_labels = Ground {
        syncs_labels: true,
        ..ground(Layout::Upstream)
    };
    let labels = settings::settings(&klusterlet(&json!({})), &with_labels).labels;
    assert_eq!(
        labels,
        json!({"team": "a", "open-cluster-management.io/created-by-klusterlet": "k"})
    );
}
