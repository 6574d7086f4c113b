use std::sync::Arc;

use ocm_addon_sdk::{AddOn, ocm_api::addon::v1alpha1::AddOnDeploymentConfig};

use super::*;
use crate::hub::{
    HubOptions,
    add_on::{ClusterProxy, unit},
    inputs::{AgentInputs, KnownInputs},
};

fn configuration(changes: &Value) -> ManagedProxyConfiguration {
    let mut all = json!({
        "metadata": {"name": "cluster-proxy", "generation": 3},
        "spec": {
            "authentication": {},
            "proxyServer": {"image": "quay.io/open-cluster-management/cluster-proxy", "namespace": "hub-ns",
                "entrypoint": {"type": "Hostname", "hostname": {"value": "hub.example"}, "port": 9091}},
            "proxyAgent": {"image": "quay.io/open-cluster-management/cluster-proxy", "replicas": 2},
        },
    });
    for (path, value) in changes.as_object().unwrap() {
        *all.pointer_mut(path).unwrap() = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn add_on(changes: &Value) -> ClusterProxy {
    let inputs = AgentInputs::default();
    inputs.set(KnownInputs {
        configuration: Some(Arc::new(configuration(changes))),
        authority: b"CA".to_vec(),
        service_proxy: Some((b"crt".to_vec(), b"key".to_vec())),
        load_balancer: None,
    });
    ClusterProxy {
        hub: Arc::new(HubOptions::default()),
        agents: AgentOptions::default(),
        inputs,
    }
}

fn place(spec: Value) -> AddOnContext {
    let config = json!({"metadata": {"name": "c", "namespace": "c1"}, "spec": spec});
    let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
    let mut place = AddOnContext::new("c1", NAME).with_config(&config);
    place.install_namespace = "agents".to_owned();
    place
}

fn rendered(spec: Value, changes: &Value) -> Result<Vec<Value>, String> {
    add_on(changes).manifests(&place(spec)).map_err(|it| it.to_string())
}

fn named<'a>(all: &'a [Value], kind: &str, name: &str) -> &'a Value {
    all.iter()
        .find(|it| it["kind"] == kind && it["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn args(all: &[Value], container: usize) -> Vec<String> {
    let pod = &named(all, "Deployment", DEPLOYMENT)["spec"]["template"]["spec"];
    serde_json::from_value(pod["containers"][container]["args"].clone()).unwrap()
}

fn variables(pairs: &[(&str, &str)]) -> Value {
    let all: Vec<_> = pairs
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    json!({"customizedVariables": all})
}

#[test]
fn an_agent_is_rendered_as_upstreams() {
    let all = rendered(json!({}), &json!({})).unwrap();
    let host = service_proxy_host("c1");
    assert_eq!(
        args(&all, 0),
        [
            "--proxy-server-host=hub.example",
            "--proxy-server-port=9091",
            &format!("--agent-identifiers=host={host}&host=c1&host=c1.agents"),
            "--ca-cert=/etc/ca/ca.crt",
            "--agent-cert=/etc/tls/tls.crt",
            "--agent-key=/etc/tls/tls.key",
        ]
    );
    assert_eq!(
        args(&all, 1),
        [
            "--v=2",
            "--hub-kubeconfig=/etc/kubeconfig/kubeconfig",
            "--cluster-name=c1",
            "--proxy-server-namespace=hub-ns",
        ]
    );
    assert_eq!(
        args(&all, 2),
        [
            "service-proxy",
            "--enable-impersonation=true",
            "--cert=/server-cert/tls.crt",
            "--key=/server-cert/tls.key",
            "--hub-kubeconfig=/etc/kubeconfig/kubeconfig",
        ]
    );
    let deployment = named(&all, "Deployment", DEPLOYMENT);
    assert_eq!(deployment["metadata"]["annotations"][GENERATION], "3");
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(named(&all, "Secret", "cluster-proxy-ca")["data"]["ca.crt"], "Q0E=");
    let service = named(&all, "Service", "c1");
    assert_eq!(service["spec"]["externalName"], "kubernetes.default.svc.cluster.local");
    let role = named(&all, "ClusterRole", "cluster-proxy-addon-agent-impersonator");
    assert_eq!(role["rules"].as_array().unwrap().len(), 2);
    named(
        &all,
        "ClusterRoleBinding",
        "cluster-proxy-addon-agent-impersonator:agents",
    );
}

#[test]
fn entry_points_decide_where_agents_connect() {
    let forward = json!({"/spec/proxyServer/entrypoint": {"type": "PortForward"}});
    let all = rendered(json!({}), &forward).unwrap();
    assert_eq!(args(&all, 0)[0], "--proxy-server-host=127.0.0.1");
    assert_eq!(args(&all, 1)[4], "--enable-port-forward-proxy=true");
    let balancer = json!({"/spec/proxyServer/entrypoint": {"type": "LoadBalancerService"}});
    let error = rendered(json!({}), &balancer).unwrap_err();
    assert_eq!(
        error,
        "the load-balancer service for proxy-server ingress is not yet provisioned"
    );
    let nowhere = json!({"/spec/proxyServer/entrypoint": {"type": "Hostname"}});
    assert!(
        rendered(json!({}), &nowhere)
            .unwrap_err()
            .contains("hostname.value is missing")
    );
}

#[test]
fn configuration_of_the_deployment_is_honoured() {
    let all = rendered(
        json!({
            "nodePlacement": {"nodeSelector": {"a": "b"}},
            "registries": [{"source": "quay.io/open-cluster-management", "mirror": "m.example"}],
            "proxyConfig": {"httpsProxy": "https://p.example", "noProxy": "x", "caBundle": "UA=="},
            "resourceRequirements": [
                {"containerID": "*:*:*", "resources": {"limits": {"cpu": "1"}}},
                {"containerID": "deployments:*:addon-agent", "resources": {"limits": {"cpu": "2"}}},
            ],
        }),
        &json!({}),
    )
    .unwrap();
    let pod = &named(&all, "Deployment", DEPLOYMENT)["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"a": "b"}));
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "m.example/cluster-proxy");
    assert_eq!(
        container["env"][0],
        json!({"name": "HTTPS_PROXY", "value": "https://p.example"})
    );
    assert_eq!(container["resources"]["limits"]["cpu"], "1");
    assert_eq!(pod["containers"][1]["resources"]["limits"]["cpu"], "2");
    // The proxy's certificate comes before ours: `P`, a line's end, `CA`.
    assert_eq!(named(&all, "Secret", "cluster-proxy-ca")["data"]["ca.crt"], "UApDQQ==");
}

#[test]
fn an_issuer_becomes_flags_of_the_service_proxy() {
    let all = rendered(
        variables(&[
            ("oidcIssuerURL", "https://issuer.example"),
            ("oidcClientID", "ocm"),
            ("oidcGroupsPrefix", "oidc:"),
            ("oidcReservedNamePrefixes", "system:, kube-"),
            ("oidcRequiredClaimsJSON", "{\"hd\": \"example.com\"}"),
            ("enableImpersonation", "false"),
        ]),
        &json!({}),
    )
    .unwrap();
    assert_eq!(args(&all, 2)[1], "--enable-impersonation=false");
    assert_eq!(
        args(&all, 2)[5..],
        [
            "--oidc-issuer-url=https://issuer.example",
            "--oidc-client-id=ocm",
            "--oidc-groups-prefix=oidc:",
            "--oidc-reserved-name-prefixes=system:,kube-",
            "--oidc-required-claim=hd=example.com",
        ]
    );
}

#[test]
fn nobody_impersonates_who_need_not() {
    let off = rendered(variables(&[("enableImpersonation", "false")]), &json!({})).unwrap();
    let role = named(&off, "ClusterRole", "cluster-proxy-addon-agent-impersonator");
    assert_eq!(role["rules"].as_array().unwrap().len(), 1);
}

#[test]
fn contradictions_are_told_as_upstream_tells_them() {
    let more = |args: Value| json!({"/spec/proxyAgent": {"image": "i", "additionalServiceProxyArgs": args}});
    let issuer = variables(&[("oidcIssuerURL", "https://i"), ("oidcClientID", "c")]);
    for (config, changes, text) in [
        (
            json!({}),
            more(json!(["--enable-impersonation=false"])),
            "additionalServiceProxyArgs must not set --enable-impersonation; use enableImpersonation instead",
        ),
        (
            json!({}),
            more(json!(["--oidc-issuer-url=a", "--oidc-issuer-url=b"])),
            "additionalServiceProxyArgs must set --oidc-issuer-url at most once",
        ),
        (
            issuer,
            more(json!(["--oidc-issuer-url=a"])),
            "configure the OIDC issuer with either oidcIssuerURL or --oidc-issuer-url in additionalServiceProxyArgs, not both",
        ),
        (
            variables(&[("oidcClientID", "c")]),
            json!({}),
            "oidcIssuerURL and oidcClientID must be specified together",
        ),
    ] {
        assert_eq!(rendered(config, &changes).unwrap_err(), text);
    }
}

#[test]
fn agents_ask_anew_when_the_authority_changes() {
    let add_on = add_on(&json!({}));
    let place = place(json!({}));
    let of = |add_on: &ClusterProxy| add_on.registrations(&place).unwrap()[1].subject(&place);
    let before = of(&add_on);
    assert_eq!(before.user, "open-cluster-management:cluster-proxy:proxy-agent");
    assert_eq!(before.groups, ["open-cluster-management:cluster-proxy"]);
    assert_eq!(before.organizational_units, [unit(b"CA")]);
    let mut known = add_on.inputs.known();
    known.authority = b"other".to_vec();
    add_on.inputs.set(known);
    assert_ne!(of(&add_on).organizational_units, before.organizational_units);
    add_on.inputs.set(KnownInputs::default());
    assert!(
        add_on
            .registrations(&place)
            .unwrap_err()
            .message()
            .contains("is not there yet")
    );
}
